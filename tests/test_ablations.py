"""MUG's controls: what each changes, and that their results are never taken for one another's."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from scene_planner import ScenePlanner, build, lines, rows, table_of
from scripted import ALTERED, TRUE, ScriptedTable, against, question
from servers import ChatServer

from mug_eval.cli import main
from mug_eval.counterfactual.folder import CounterfactualFolder
from mug_eval.errors import UserError
from mug_eval.methods import mug
from mug_eval.methods.mug import MugConfig
from mug_eval.plan import model_setting
from mug_eval.statistics.runs import read_run

NAMES = ("no-counterfactual", "no-undercover", "random-edit", "identical")


def run(server: ChatServer, table: Path, work_dir: Path, *more: str, model: str = "mug-openai:toy") -> int:
    return main(
        [
            *("run", "--model", *model.split(), "--base-url", server.base_url, "--data", "POPE", "--data-file", f"POPE={table}"),
            *("--work-dir", str(work_dir), "--quiet", *more),
        ]
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ScenePlanner]:
    """MUG and its four controls with ``--counterfactuals auto``."""
    folder = tmp_path_factory.mktemp("played")
    found = rows(10)
    planner = ScenePlanner(found)
    table = table_of(folder / "t.tsv", found)
    with ChatServer(planner) as server:
        assert run(server, table, folder / "out", "--counterfactuals", "auto") == 0
        for name in NAMES:
            assert run(server, table, folder / "out", "--counterfactuals", "auto", "--ablation", name) == 0
    return folder / "out", planner


def games(work_dir: Path, name: str = "") -> dict[str, dict[str, Any]]:
    return {line["index"]: line for line in lines(work_dir / f"mug-toy{name}" / "POPE" / "games.jsonl")}


def seats(game: dict[str, Any]) -> dict[str, Any]:
    return next(event for event in game["events"] if event["event"] == "seats")


def test_auto_builds_with_the_backbone_that_plays_and_then_plays_with_what_was_built(played: tuple[Path, ScenePlanner]) -> None:
    work_dir, _ = played
    accepted = {line["question_index"] for line in lines(work_dir / "counterfactuals" / "POPE" / "manifest.jsonl")}
    assert len(accepted) >= 4
    for index, game in games(work_dir).items():
        assert game["facts"]["undercover_played"] is (index in accepted)


def test_the_call_that_checks_for_a_flip_is_the_one_that_direct_makes(played: tuple[Path, ScenePlanner], tmp_path: Path) -> None:
    """So the answer over I+ costs nothing when direct is played from the same journal."""
    work_dir, planner = played
    accepted = lines(work_dir / "counterfactuals" / "POPE" / "manifest.jsonl")
    asked = ScenePlanner(planner.found)
    with ChatServer(asked) as server:
        table = table_of(tmp_path / "t.tsv", planner.found)
        assert run(server, table, tmp_path / "out", "--counterfactuals", "auto") == 0
        before = len(asked.asked)
        assert run(server, table, tmp_path / "out", model="direct-openai:toy") == 0
    assert len(asked.asked) - before == len(planner.found) - len(accepted)


def test_each_control_changes_what_it_is_about_and_nothing_else(played: tuple[Path, ScenePlanner]) -> None:
    work_dir, _ = played
    full = games(work_dir)
    original, altered = "the original picture", "the altered picture"
    held = {name: {index: seats(game)["holds"] for index, game in games(work_dir, f"@{name}").items()} for name in NAMES}
    assert set(held["no-counterfactual"].values()) == {original} and set(held["no-undercover"].values()) == {None}
    for index, game in full.items():
        mine = seats(game)
        same = seats(games(work_dir, "@identical")[index])
        assert same["undercover"] == mine["undercover"] and same["order"] == mine["order"]
        assert (mine["holds"], same["holds"]) in ((altered, original), (None, None))
        random_edit = seats(games(work_dir, "@random-edit")[index])
        if random_edit["holds"] is not None and mine["holds"] is not None:
            assert random_edit["holds"] == altered and random_edit["edit"]["file"] != mine["edit"]["file"]


def test_a_random_edit_is_of_what_the_question_is_not_about(played: tuple[Path, ScenePlanner]) -> None:
    work_dir, planner = played
    store = work_dir / "counterfactuals" / "POPE@random-edit"
    assert json.loads((store / "build.json").read_text())["about"] == "other"
    found = lines(store / "manifest.jsonl")
    assert len(found) >= 5
    for line in found:
        assert line["target"] not in planner.found[int(line["question_index"])].asked.text


def test_results_carry_the_control_in_folder_model_and_plan(played: tuple[Path, ScenePlanner]) -> None:
    work_dir, _ = played
    for name in NAMES:
        folder = work_dir / f"mug-toy@{name}" / "POPE"
        assert read_run(folder).model == f"mug-toy@{name}"
        assert json.loads((folder / "plan.json").read_text())["ablation"] == name
    assert "ablation" not in json.loads((work_dir / "mug-toy" / "POPE" / "plan.json").read_text())


def test_a_control_by_name_is_the_one_by_option(played: tuple[Path, ScenePlanner], tmp_path: Path) -> None:
    work_dir, planner = played
    before = (work_dir / "mug-toy@no-undercover" / "POPE" / "games.jsonl").read_bytes()
    with ChatServer(ScenePlanner(planner.found)) as server:
        table = table_of(tmp_path / "t.tsv", planner.found)
        assert run(server, table, work_dir, model="mug-openai:toy@no-undercover") == 0
        assert not server.requests
    assert (work_dir / "mug-toy@no-undercover" / "POPE" / "games.jsonl").read_bytes() == before


def test_pictures_of_one_kind_are_not_played_as_the_other(played: tuple[Path, ScenePlanner], tmp_path: Path, capsys: Any) -> None:
    work_dir, planner = played
    with ChatServer(ScenePlanner(planner.found)) as server:
        table = table_of(tmp_path / "t.tsv", planner.found)
        other = work_dir / "counterfactuals" / "POPE@random-edit"
        assert run(server, table, tmp_path / "out", "--counterfactuals", str(other)) == 2
        assert "--ablation random-edit" in capsys.readouterr().err
        assert run(server, table, tmp_path / "out", "--counterfactuals", str(other), "--ablation", "random-edit", "--dry-run") == 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--ablation", "identical", "--model", "direct-openai:other"), None),
        (("--ablation", "identical", "--set", "mug.identical=false"), "leave out mug.identical"),
        (("--counterfactuals", "auto", "--model", "mug-openai:other"), "several"),
        (("--ablation", "random-edit", "--counterfactual-match", "image"), "random-edit"),
    ],
)
def test_a_mistake_is_one_line(more: tuple[str, ...], words: str | None, tmp_path: Path, capsys: Any) -> None:
    found = rows(1)
    with ChatServer(ScenePlanner(found)) as server:
        code = run(server, table_of(tmp_path / "t.tsv", found), tmp_path / "out", "--dry-run", *more)
    said = capsys.readouterr()
    if words is None:
        assert code == 0 and "mug-toy@identical" in said.out and "direct-other on" in said.out
    else:
        assert code == 2 and words in said.err


def test_a_control_of_mug_is_of_no_other_method() -> None:
    with pytest.raises(UserError, match="ablation of mug"):
        model_setting("direct-qwen@identical")
    player, how = model_setting("mug-qwen@identical")
    assert player.name == "mug-qwen@identical" and how.config == MugConfig(identical=True)
    assert model_setting("mug-openai:some@model")[0].backbone.model == "some@model"


async def test_the_undercover_of_the_identical_control_is_shown_the_original_everywhere() -> None:
    for identical in (False, True):
        table = ScriptedTable(against({}))
        await mug.play(question(), table, MugConfig(identical=identical))
        pictures = {picture for call in table.calls for picture in call.images}
        assert pictures == ({TRUE.sha256} if identical else {TRUE.sha256, ALTERED.sha256})
        (event,) = table.happened("seats")
        assert event["undercover"] is not None and event["edit"] == ({} if identical else dict(question().altered.edit))  # type: ignore
    table = ScriptedTable(against({}))
    verdict = await mug.play(question(altered=False), table, MugConfig(identical=True))
    assert verdict.ended == "no_counterfactual_picture", "where MUG has no undercover, neither has its control"


def test_another_questions_edit_of_another_thing_serves_as_a_random_edit(tmp_path: Path) -> None:
    found = rows(1, ("quantity",))
    row = found[0]
    with ChatServer(ScenePlanner(found)) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    (line,) = lines(tmp_path / "store" / "manifest.jsonl")

    def folder(*others: dict[str, Any]) -> CounterfactualFolder:
        entries = [line, *(line | other for other in others)]
        (tmp_path / "store" / "manifest.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        return CounterfactualFolder(tmp_path / "store", match="other")

    assert line["image_sha256"] == hashlib.sha256(row.picture).hexdigest()
    assert folder().find("0", [row.picture], []) is None, "there is no other edit"
    assert folder({"question_index": "8"}).find("0", [row.picture], []) is None, "it is of the same thing"
    taken = folder({"question_index": "8", "target": "sign"}).find("0", [row.picture], [])
    assert taken is not None and taken.match == "other" and ("target", "sign") in taken.edit
    assert folder({"question_index": "8", "target": "sign"}).find("5", [row.picture], []) is None, (
        "the question has no edit of its own"
    )
