"""Planning, editing and judging beside each other, and editors that do what they should not."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loop_clock import turns
from PIL import Image
from scene_planner import ScenePlanner, lines, rows, table_of
from servers import ChatServer

from mug_eval.backbones.openai_api import OpenAIModel
from mug_eval.benchmarks import load_task, open_benchmark
from mug_eval.building import judges_named
from mug_eval.chat import Sampling
from mug_eval.counterfactual.boxes import FRAMES
from mug_eval.counterfactual.build import build
from mug_eval.counterfactual.constraints import default_rule
from mug_eval.counterfactual.editors import EditFailed
from mug_eval.counterfactual.editors.editor import Edit
from mug_eval.counterfactual.editors.opencv import OpenCVEditor
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.counterfactual.stations import Station
from mug_eval.counterfactual.store import Store
from mug_eval.counterfactual.workshop import Workshop, identity
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.journal import Journal
from mug_eval.errors import UserError


class Strange:
    """An editor that does as it is told."""

    name, fingerprint, batch, inventive = "strange", "strange 1", 1, True

    def __init__(self, edit: Callable[[Image.Image, EditPlan, int], Any]) -> None:
        self._edit = edit

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        return self._edit(image, plan, seed)  # type: ignore[no-any-return]

    def close(self) -> None: ...


class Batching(Strange):
    """The opencv editor, four at a time."""

    batch = 4

    def __init__(self) -> None:
        super().__init__(OpenCVEditor().edit)
        self.batches: list[int] = []

    def edit_many(self, edits: Sequence[Edit]) -> list[Image.Image | EditFailed]:
        self.batches.append(len(edits))
        results: list[Image.Image | EditFailed] = []
        for edit in edits:
            try:
                results.append(self._edit(edit.image, edit.plan, edit.seed))
            except EditFailed as error:
                results.append(error)
        return results


def made(editor: Any, tmp_path: Path, count: int = 2, delay: float = 0.0) -> tuple[Path, list[Any]]:
    """A store built with an editor."""
    found = rows(count, ("quantity",))
    table = table_of(tmp_path / "t.tsv", found)

    async def run(base_url: str) -> list[Any]:
        source = open_benchmark(load_task("POPE"), work_dir=tmp_path, data_file=table)
        model = OpenAIModel("toy", base_url)
        judges = judges_named(["handmade"])
        with Journal(tmp_path / "journal.sqlite") as journal:
            shop = Workshop(
                dispatcher=Dispatcher(model, journal, DispatchPolicy()),
                planner=model.fingerprint,
                frame=FRAMES["reference"],
                sampling=Sampling(temperature=0.0),
                editor=editor,
                judges=judges,
                rule=default_rule(judges),
            )
            try:
                with Store(tmp_path / "store", identity(shop, source.name, source.sha256, {})) as store:
                    owed = await build(source, store, shop)
                    store.close(source.indices)
            finally:
                await model.close()
        return owed

    with ChatServer(ScenePlanner(found, delay=lambda count: delay)) as server:
        return tmp_path / "store", asyncio.run(run(server.base_url))


def noisy(image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, np.asarray(image).shape, np.uint8))


BAD: dict[str, tuple[Callable[[Image.Image, EditPlan, int], Any], str, str]] = {
    "another size": (lambda image, plan, seed: image.resize((64, 64)), "no_edit", "64x64 pixels"),
    "a black frame": (lambda image, plan, seed: Image.new("RGB", image.size), "no_edit", "black frame"),
    "the input": (lambda image, plan, seed: image.copy(), "no_edit", "as it was"),
    "nothing": (lambda image, plan, seed: None, "no_edit", "nothing"),
    "another picture": (noisy, "rejected", "C_"),
}


@pytest.mark.parametrize("what", BAD)
def test_an_editor_that_gives_back_something_else_ends_its_questions_clearly(what: str, tmp_path: Path) -> None:
    edit, cause, words = BAD[what]

    def sometimes(image: Image.Image, plan: EditPlan, seed: int) -> Any:
        mine = image.tobytes() == first
        return edit(image, plan, seed) if mine else OpenCVEditor().edit(image, plan, seed)

    first = Image.open(io.BytesIO(rows(1, ("quantity",))[0].picture)).convert("RGB").tobytes()
    store, owed = made(Strange(sometimes), tmp_path)
    (line,) = lines(store / "given_up.jsonl")
    assert not owed and line["question_index"] == "0" and line["cause"] == cause and words in line["reason"]
    assert [line["question_index"] for line in lines(store / "manifest.jsonl")] == ["1"]


def test_an_editor_that_differs_by_seed_is_given_all_its_seeds(tmp_path: Path) -> None:
    """Two seeds of each of three plans; a planner without another plan is followed as long as the seed makes a difference."""
    store, _ = made(Strange(noisy), tmp_path, count=1)
    tries = lines(store / "tries.jsonl")
    assert [one["number"] for one in tries] == [1, 2, 3, 4, 5, 6] and len({one["seed"] for one in tries}) == 6
    assert len({one["picture"] for one in tries}) == 6


def test_an_editor_that_cannot_work_at_all_stops_the_build(tmp_path: Path) -> None:
    def broken(image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        raise UserError("the editor's weights are not there")

    with pytest.raises(UserError, match="weights"):
        made(Strange(broken), tmp_path)
    assert lines(tmp_path / "store" / "manifest.jsonl") == lines(tmp_path / "store" / "given_up.jsonl") == []


def test_an_editors_batches_are_filled_and_change_no_picture(tmp_path: Path) -> None:
    editor = Batching()
    (tmp_path / "one").mkdir()
    (tmp_path / "four").mkdir()
    by_four, _ = made(editor, tmp_path / "four", count=12)
    by_one, _ = made(OpenCVEditor(), tmp_path / "one", count=12)
    assert max(editor.batches) == 4 and len(editor.batches) < 12
    pictures = [{line["question_index"]: line["file_sha256"] for line in lines(s / "manifest.jsonl")} for s in (by_four, by_one)]
    accepted = pictures[0].keys() & pictures[1].keys()
    assert len(accepted) >= 8 and all(pictures[0][index] == pictures[1][index] for index in accepted)


async def test_a_station_takes_what_waits_up_to_a_batch() -> None:
    sizes: list[int] = []
    gate = threading.Event()

    def work(pieces: Sequence[int]) -> list[int]:
        gate.wait(60)
        sizes.append(len(pieces))
        return [piece * piece for piece in pieces]

    async with Station("work", work, batch=4) as station:
        waiting = [asyncio.create_task(station.do(number)) for number in range(10)]
        await turns()
        waiting[9].cancel()
        gate.set()
        assert await asyncio.gather(*waiting[:9]) == [number * number for number in range(9)]
    assert sum(sizes) == 9 and max(sizes) == 4 and len(sizes) <= 4, "a piece that nobody waits for is not done"


async def test_what_work_raises_is_raised_where_it_is_awaited_and_the_station_goes_on() -> None:
    def work(pieces: Sequence[int]) -> list[float]:
        return [1 / piece for piece in pieces]

    async with Station("work", work) as station:
        with pytest.raises(ZeroDivisionError):
            await station.do(0)
        assert await station.do(4) == 0.25


async def test_results_that_are_too_few_are_nobodys() -> None:
    async with Station("work", lambda pieces: [], batch=2) as station:
        with pytest.raises(RuntimeError, match="0 results for 1"):
            await station.do(1)
