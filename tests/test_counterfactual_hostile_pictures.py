"""Pictures as nobody wants them, through the real build with the opencv editor: each ends in a clear state, the others get theirs."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from PIL import Image
from scene_planner import GRAPH as GRAPH_WORDS
from scene_planner import PLAN, TYPE, build, lines
from servers import ChatServer, completion
from tables import write_table

from mug_eval.counterfactual.editors.editor import Edit, EditFailed, run_edits
from mug_eval.counterfactual.pixel_budget import PixelBudget
from mug_eval.counterfactual.plan import EditPlan

GRAPH = json.dumps({"objects": [{"name": "block", "attributes": ["red"], "box": [350, 350, 650, 650]}], "relations": []})
RECOLOUR = json.dumps(
    {"target": 0, "edit": "recolour", "to": "blue", "box": None, "instruction": "Make the red block blue.", "answer": "No"}
)


def block(width: int, height: int) -> Image.Image:
    """A red block on grainy grey."""
    grain = np.random.default_rng(0).integers(150, 170, (64, 64, 1), dtype=np.uint8)
    tiled = np.tile(np.repeat(grain, 3, axis=2), (height // 64 + 1, width // 64 + 1, 1))[:height, :width].copy()
    tiled[int(height * 0.37) : int(height * 0.63), int(width * 0.37) : int(width * 0.63)] = (200, 30, 30)
    return Image.fromarray(tiled)


def encoded(picture: Image.Image, form: str, **how: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **how)
    return out.getvalue()


def sixteen_bits() -> bytes:
    grey = np.asarray(block(160, 120).convert("L")).astype(np.uint16) * 257
    return encoded(Image.fromarray(grey), "PNG")


def see_through() -> bytes:
    picture = block(160, 120).convert("RGBA")
    picture.putalpha(Image.fromarray(np.tile(np.linspace(0, 255, 160).astype(np.uint8), (120, 1))))
    return encoded(picture, "PNG")


PICTURES: dict[str, bytes] = {
    "large": encoded(block(3000, 2400), "JPEG", quality=80),
    "cmyk": encoded(block(160, 120).convert("CMYK"), "JPEG"),
    "sixteen": sixteen_bits(),
    "alpha": see_through(),
    "grey": encoded(block(160, 120).convert("L"), "PNG"),
    "one pixel": encoded(block(1, 1), "PNG"),
    "one row": encoded(block(4000, 1), "PNG"),
    "animated": encoded(block(160, 120), "GIF", save_all=True, append_images=[Image.new("RGB", (160, 120), "black")]),
    "torn": encoded(block(160, 120), "PNG")[:-30],
    "bomb": encoded(Image.new("L", (20000, 20000)), "PNG"),
    "plain": encoded(block(160, 120), "PNG"),
}


async def planner(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    text = json.dumps(body["messages"])
    for words, reply in ((TYPE, '{"type": "attribute", "image": 1}'), (GRAPH_WORDS, GRAPH), (PLAN, RECOLOUR)):
        if words in text:
            return completion(reply)
    return completion("Answer: Yes")


def test_each_ends_in_a_clear_state_and_the_plain_one_has_its_picture(tmp_path: Path) -> None:
    table = write_table(
        tmp_path / "t.tsv",
        [
            {
                "index": str(n),
                "question": "Is the block red?",
                "answer": "Yes",
                "category": "random",
                "image": base64.b64encode(p).decode(),
            }
            for n, p in enumerate(PICTURES.values())
        ],
    )
    with ChatServer(planner) as server:
        assert build(server, table, tmp_path / "store", "--boxes", "thousandths", "--set", "rule.c=0.6") == 0
    names = list(PICTURES)
    accepted = {names[int(line["question_index"])]: line for line in lines(tmp_path / "store" / "manifest.jsonl")}
    given_up = {names[int(line["question_index"])]: line for line in lines(tmp_path / "store" / "given_up.jsonl")}
    assert accepted.keys() | given_up.keys() == set(names)
    assert accepted.keys() >= {"plain", "large", "animated", "cmyk"}
    assert given_up["torn"]["cause"] == given_up["bomb"]["cause"] == "unreadable"
    assert {given_up[name]["cause"] for name in ("one pixel", "one row")} <= {"no_graph", "no_plan", "no_edit"}
    assert all(line["reason"] and "\n" not in line["reason"] for line in given_up.values())
    for name, line in accepted.items():
        with Image.open(tmp_path / "store" / line["file"]) as made, Image.open(io.BytesIO(PICTURES[name])) as original:
            assert (made.mode, made.size) == ("RGB", original.size), name


class Giving:
    """An editor that gives back one picture."""

    name = fingerprint = "giving"
    batch = 1
    inventive = False

    def __init__(self, picture: Image.Image) -> None:
        self.picture = picture

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        return self.picture

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("levels", "pixels", "reason"),
    [(9, 12, None), (9, 11, "as it was"), (8, 500, "as it was")],
    ids=["seen", "too few", "too faint"],
)
@pytest.mark.parametrize("channel", [0, 1, 2])
def test_a_change_counts_from_twelve_pixels_that_can_be_seen_in_any_channel(
    channel: int, levels: int, pixels: int, reason: str | None
) -> None:
    before = np.asarray(block(64, 64)).copy()
    after = before.copy()
    after.reshape(-1, 3)[:pixels, channel] += np.uint8(levels)
    plan = EditPlan("remove", "block", (1, 1, 9, 9), "", None, "Remove it.")
    (result,) = run_edits(Giving(Image.fromarray(after)), [Edit(Image.fromarray(before), plan, 0)])
    assert isinstance(result, EditFailed) == (reason is not None)
    if isinstance(result, EditFailed) and reason:
        assert reason in result.reason


def test_pictures_in_work_are_counted_in_pixels() -> None:
    async def work() -> tuple[int, list[int]]:
        budget, held, most, order = PixelBudget(100), 0, 0, list[int]()

        async def one(pixels: int) -> None:
            nonlocal held, most
            async with budget.hold(pixels):
                order.append(pixels)
                held += min(pixels, 100)
                most = max(most, held)
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                held -= min(pixels, 100)

        await asyncio.wait_for(asyncio.gather(*(one(pixels) for pixels in (60, 30, 1000, 10, 10, 100, 5))), 60)
        return most, order

    most, order = asyncio.run(work())
    assert most == 100 and order == [60, 30, 1000, 10, 10, 100, 5], "a huge one is not passed for ever by small ones"


def test_who_is_called_off_while_waiting_takes_no_pixels_along() -> None:
    async def work() -> None:
        budget = PixelBudget(100)
        async with budget.hold(100):
            waiting = [asyncio.create_task(_held(budget, pixels)) for pixels in (100, 100)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await asyncio.sleep(0)
        served = asyncio.create_task(_held(budget, 100))
        await asyncio.sleep(0)
        served.cancel()
        await asyncio.wait_for(_held(budget, 100), 60)
        await asyncio.wait_for(waiting[1], 60)

    async def _held(budget: PixelBudget, pixels: int) -> None:
        async with budget.hold(pixels):
            await asyncio.sleep(0)

    asyncio.run(work())
