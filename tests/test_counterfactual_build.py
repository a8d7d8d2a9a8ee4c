"""Builds by the real command: real server, real editor, real store; whatever goes wrong with one question, the others get theirs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from recorded import recorded_seeds
from scene_planner import ScenePlanner, build, lines, rows, table_of
from servers import ChatServer, failure

from mug_eval.cli import main
from mug_eval.counterfactual.folder import CounterfactualFolder
from mug_eval.reference_vlm.planning import plan_reply, planned


def content(store: Path) -> dict[str, str]:
    """Every file of a store by its hash, but for the lock."""
    return {
        path.relative_to(store).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(store.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ScenePlanner]:
    """A store of 16 questions, two at a time."""
    folder = tmp_path_factory.mktemp("whole")
    found = rows(16)
    planner = ScenePlanner(found)
    with ChatServer(planner) as server:
        assert build(server, table_of(folder / "t.tsv", found), folder / "store", "--concurrency", "2") == 0
    return folder / "store", planner


def test_every_question_has_a_picture_or_the_reason_why_it_has_none(whole: tuple[Path, ScenePlanner]) -> None:
    store, planner = whole
    accepted, given_up = lines(store / "manifest.jsonl"), lines(store / "given_up.jsonl")
    assert sorted(int(line["question_index"]) for line in (*accepted, *given_up)) == list(range(16))
    assert len(accepted) >= 8, "the oracle's plans on drawn scenes are mostly within the opencv editor's means"
    assert all(
        line["state"] == "no_counterfactual" and line["cause"] in ("no_edit", "rejected") and line["reason"] for line in given_up
    )
    asked = Counter(task for _, task in planner.asked)
    assert asked["type"] == asked["graph"] == 16 and asked["direct"] == 2 * len(accepted)


def test_the_pictures_are_those_that_a_game_finds(whole: tuple[Path, ScenePlanner]) -> None:
    store, planner = whole
    folder = CounterfactualFolder(store)
    for line in lines(store / "manifest.jsonl"):
        row = planner.found[int(line["question_index"])]
        found = folder.find(row.index, [row.picture], [])
        assert found is not None and found.match == "question" and found.image.data == (store / line["file"]).read_bytes()


def test_boxes_and_types_are_the_scenes_own(whole: tuple[Path, ScenePlanner]) -> None:
    store, planner = whole
    for line in lines(store / "manifest.jsonl"):
        row = planner.found[int(line["question_index"])]
        plan = planned(row.asked.query, row.scene)
        assert plan is not None and plan.target is not None and line["edit"] == plan.kind
        thing = row.scene.things[plan.target]
        left, top = (thing.column - 1) * 28, (thing.row - 1) * 28
        assert line["boxes"][0] == [left, top, left + 28, top + 28]
        assert line["instruction"] == plan.edit.instruction and thing.shape in line["target"]


def test_what_is_known_of_answers_stays_out_of_every_file_that_a_game_reads(whole: tuple[Path, ScenePlanner]) -> None:
    store, _ = whole
    for line in lines(store / "manifest.jsonl"):
        assert not [name for name in line if "answer" in name or "flip" in name or name in ("planner_says", "usage", "graph")]
    known = {line["question_index"]: line for line in lines(store / "answers.jsonl")}
    for line in lines(store / "manifest.jsonl"):
        mine = known[line["question_index"]]
        assert mine["planner"]["flips"] is True and {mine["planner"]["before"], mine["planner"]["after"]} == {"Yes", "No"}
        assert mine["answer_said"] in ("Yes", "No") and mine["usage"]["calls"] >= 3


def test_removing_the_only_one_says_what_the_answer_becomes(whole: tuple[Path, ScenePlanner]) -> None:
    store, planner = whole
    known = lines(store / "answers.jsonl")
    said = {line["question_index"]: line["answer_follows"] for line in known if line["answer_follows"] is not None}
    for index, answer in said.items():
        row = planner.found[int(index)]
        plan = planned(row.asked.query, row.scene)
        assert plan is not None and answer == row.asked.gold(plan.edit.scene)


def test_two_builds_give_the_same_store_whatever_the_concurrency_and_the_order_of_replies(
    whole: tuple[Path, ScenePlanner], tmp_path: Path
) -> None:
    store, planner = whole
    late_first = ScenePlanner(planner.found, delay=lambda count: 0.03 * (count % 3), meeting=8)
    with ChatServer(late_first) as server:
        more = ("--concurrency", "12", "--editor-threads", "2")
        assert build(server, table_of(tmp_path / "t.tsv", planner.found), tmp_path / "other", *more) == 0
        assert server.most_at_once >= 8
    assert content(tmp_path / "other") == content(store)


def test_a_second_build_asks_nothing_and_a_larger_limit_goes_on(
    whole: tuple[Path, ScenePlanner], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, planner = whole
    table = table_of(tmp_path / "t.tsv", planner.found)
    again = ScenePlanner(planner.found)
    with ChatServer(again) as server:
        assert build(server, table, tmp_path / "store", "--limit", "5") == 0
        before = len(again.asked)
        assert build(server, table, tmp_path / "store", "--limit", "5") == 0
        assert len(again.asked) == before
        assert build(server, table, tmp_path / "store") == 0
        first = re.findall(r"\d+ without a counterfactual", capsys.readouterr().err)[-1]
        assert build(server, table, tmp_path / "store") == 0
        assert re.findall(r"\d+ without a counterfactual", capsys.readouterr().err) == [first] != ["0 without a counterfactual"]
    assert content(tmp_path / "store") == content(store)


def test_other_settings_are_refused_and_named(whole: tuple[Path, ScenePlanner], tmp_path: Path, capsys: Any) -> None:
    store, planner = whole
    table = table_of(tmp_path / "t.tsv", planner.found)
    with ChatServer(ScenePlanner(planner.found)) as server:
        assert build(server, table, store, "--set", "rule.c=0.5") == 2
    assert "rule.c was 0.83, is 0.5" in capsys.readouterr().err


def test_a_build_that_is_killed_and_continued_is_the_build_that_was_not(whole: tuple[Path, ScenePlanner], tmp_path: Path) -> None:
    store, uninterrupted = whole
    planner = ScenePlanner(uninterrupted.found)
    table, out = table_of(tmp_path / "t.tsv", planner.found), tmp_path / "store"
    journal = tmp_path / "work" / "journal.sqlite"
    with ChatServer(planner) as server:
        arguments = [
            *(
                "counterfactuals",
                "build",
                "--data",
                "POPE",
                "--data-file",
                str(table),
                "--planner",
                "openai:toy",
                "--boxes",
                "reference",
            ),
            *(
                "--base-url",
                server.base_url,
                "--editor",
                "opencv",
                "--out",
                str(out),
                "--quiet",
                "--work-dir",
                str(tmp_path / "work"),
            ),
        ]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
        recorded: list[tuple[int, set[int]]] = []
        for kill in range(2):
            process = subprocess.Popen([sys.executable, "-m", "mug_eval", *arguments], env=environment)
            stop_at = len(planner.asked) + 17 + 6 * kill

            def deadly(count: int, stop: int = stop_at, victim: subprocess.Popen[bytes] = process) -> float:
                if count >= stop and recorded_seeds(journal):
                    victim.kill()
                return 0.01

            planner.delay = deadly
            process.wait(300)
            assert process.returncode == -signal.SIGKILL
            recorded.append((len(server.requests), recorded_seeds(journal)))
        planner.delay = lambda count: 0.0
        assert main(arguments) == 0
        # What the journal held at a kill is not asked again.
        for before, seeds in recorded:
            assert seeds and not seeds & {request["seed"] for request in server.requests[before:]}
    assert content(out) == content(store)


BROKEN: list[tuple[str, str, str, str]] = [
    ("type", "I would rather not say.", "accepted", ""),
    ("graph", "There are some things.", "no_graph", "no JSON object could be read"),
    ("graph", '{"objects": [], "relations": []}', "no_plan", "nothing is listed"),
    ("plan", "I cannot help with editing pictures.", "no_plan", "no JSON object"),
    (
        "plan",
        '{"target": 99, "edit": "remove", "to": "", "box": null, "instruction": "x", "answer": null}',
        "no_plan",
        "number of a thing",
    ),
    (
        "plan",
        '{"target": null, "edit": "remove", "to": "", "box": null, "instruction": "x", "answer": null}',
        "no_plan",
        '"target" is null',
    ),
    (
        "plan",
        '{"target": 0, "edit": "explode", "to": "", "box": null, "instruction": "x", "answer": null}',
        "no_plan",
        '"edit" must be',
    ),
    (
        "plan",
        '{"target": 0, "edit": "move", "to": "", "box": [900, 0, 990, 9], "instruction": "x", "answer": null}',
        "no_plan",
        "out of",
    ),
    (
        "plan",
        '{"target": 0, "edit": "recolour", "to": "", "box": null, "instruction": "x", "answer": null}',
        "no_plan",
        '"to" must say',
    ),
]


@pytest.mark.parametrize(
    ("task", "reply", "state", "words"), BROKEN, ids=[f"{task}-{number}" for number, (task, *_) in enumerate(BROKEN)]
)
def test_a_reply_that_cannot_be_used_is_asked_for_once_more_and_ends_in_a_clear_state(
    task: str, reply: str, state: str, words: str, tmp_path: Path
) -> None:
    found = rows(2, ("quantity",))
    planner = ScenePlanner(found, instead=lambda row, what, body: reply if (row.index, what) == ("1", task) else None)
    with ChatServer(planner) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    accepted = [line["question_index"] for line in lines(tmp_path / "store" / "manifest.jsonl")]
    assert "0" in accepted, "the other question has its picture"
    assert planner.asked.count(("1", task)) == (1 if reply.startswith('{"objects"') else 2)
    if state == "accepted":
        assert "1" in accepted
        (known,) = [line for line in lines(tmp_path / "store" / "answers.jsonl") if line["question_index"] == "1"]
        assert known["type"] == {"kind": "quantity", "said": None, "by_words": "quantity", "decided_by": "words"}
    else:
        (line,) = lines(tmp_path / "store" / "given_up.jsonl")
        assert line["question_index"] == "1" and line["cause"] == state and words in line["reason"]


def test_a_reply_that_is_put_right_is_used(tmp_path: Path) -> None:
    found = rows(1, ("quantity",))

    def instead(row: Any, task: str, body: dict[str, Any]) -> str | None:
        if task == "graph" and len(body["messages"]) == 2:  # as first asked
            return '{"objects": [{"name": "star", "attributes": [], "box": [10, 10, 5, 5]}], "relations": []}'
        return None

    planner = ScenePlanner(found, instead=instead)
    with ChatServer(planner) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
        mended = [body for body in server.requests if len(body["messages"]) == 4]
    assert len(lines(tmp_path / "store" / "manifest.jsonl")) == 1
    assert "object 0: [10, 10, 5, 5] is empty" in json.dumps(mended[0]["messages"][-1])


def test_after_two_failures_there_is_a_new_plan_and_the_planner_hears_why(tmp_path: Path) -> None:
    found = rows(1, ("quantity",))
    tiny = '{"target": 0, "edit": "resize", "to": "0.2", "box": null, "instruction": "Make it tiny.", "answer": null}'
    planner = ScenePlanner(found, instead=lambda row, task, body: tiny if task == "plan" and len(body["messages"]) == 2 else None)
    with ChatServer(planner) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
        again = [body["messages"] for body in server.requests if len(body["messages"]) == 4]
    (accepted,) = lines(tmp_path / "store" / "manifest.jsonl")
    tries = lines(tmp_path / "store" / "tries.jsonl")
    assert accepted["edit"] == "remove" and accepted["tries"] == len(tries) + 1
    assert all(one["edit"] == "resize" and one["rejected"] == ["editor"] for one in tries)
    assert len(again) == 1 and "too small to be seen" in json.dumps(again[0][-1])


def test_a_planner_without_another_plan_is_not_asked_for_ever(tmp_path: Path) -> None:
    found = rows(1, ("quantity",))
    tiny = '{"target": 0, "edit": "resize", "to": "0.2", "box": null, "instruction": "Make it tiny.", "answer": null}'
    planner = ScenePlanner(found, instead=lambda row, task, body: tiny if task == "plan" else None)
    with ChatServer(planner) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store", "--set", "effort.plans=9") == 0
    (line,) = lines(tmp_path / "store" / "given_up.jsonl")
    assert line["cause"] == "no_edit" and "no other plan" in line["reason"] and planner.asked.count(("0", "plan")) == 2


def test_no_picture_is_better_than_a_bad_one(tmp_path: Path) -> None:
    """A rule that nothing passes: the budget ends, the tries are on the record with their scores."""
    found = rows(2, ("quantity",))
    with ChatServer(ScenePlanner(found)) as server:
        settings = ("--set", "rule.least_change=1.0", "effort.plans=1", "effort.tries=2")
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store", *settings) == 0
    given_up, tries = lines(tmp_path / "store" / "given_up.jsonl"), lines(tmp_path / "store" / "tries.jsonl")
    assert [line["cause"] for line in given_up] == ["rejected", "rejected"]
    assert all(one["rejected"] == ["change"] and one["scores"]["change"] < 1 and len(one["picture"]) == 64 for one in tries)
    assert {one["number"] for one in tries} <= {1, 2} and len(tries) >= 2


def test_a_refusing_server_decides_the_question_and_a_failing_one_leaves_it_owed(tmp_path: Path) -> None:
    found = rows(3, ("quantity",))
    state = {"broken": True}

    def instead(row: Any, task: str, body: dict[str, Any]) -> Any:
        if row.index == "1" and task == "graph":
            return failure(400, "content policy")
        return failure(500) if row.index == "2" and task == "graph" and state["broken"] else None

    table = table_of(tmp_path / "t.tsv", found)
    with ChatServer(ScenePlanner(found, instead=instead)) as server:
        assert build(server, table, tmp_path / "store", "--retries", "0") == 3
        (refused,) = lines(tmp_path / "store" / "given_up.jsonl")
        assert refused["question_index"] == "1" and refused["cause"] == "planner_refused" and "content policy" in refused["reason"]
        state["broken"] = False
        assert build(server, table, tmp_path / "store", "--retries", "0") == 0
    assert [line["question_index"] for line in lines(tmp_path / "store" / "manifest.jsonl")] == ["0", "2"]


def test_a_spent_budget_stops_and_the_next_one_goes_on(whole: tuple[Path, ScenePlanner], tmp_path: Path, capsys: Any) -> None:
    store, planner = whole
    table, asked = table_of(tmp_path / "t.tsv", planner.found), ScenePlanner(planner.found)
    with ChatServer(asked) as server:
        assert build(server, table, tmp_path / "store", "--call-budget", "30") == 3
        assert "call budget of 30" in capsys.readouterr().err
        assert build(server, table, tmp_path / "store") == 0
    assert len(asked.asked) == len(planner.asked) and content(tmp_path / "store") == content(store)


def test_pictures_of_every_kind_are_planned_and_edited(tmp_path: Path) -> None:
    """Grey, transparent, CMYK, turned by EXIF: the altered picture has the size at which the original is shown."""
    found = rows(4, ("quantity",))
    for row, (mode, kind) in zip(found, (("L", "PNG"), ("RGBA", "PNG"), ("CMYK", "JPEG"), ("RGB", "JPEG")), strict=True):
        out = io.BytesIO()
        picture = Image.open(io.BytesIO(row.picture)).convert(mode)
        options: dict[str, Any] = {"quality": 95} if kind == "JPEG" else {}
        if mode == "RGB":
            exif = Image.Exif()
            exif[0x0112] = 3
            picture, options["exif"] = picture.transpose(Image.Transpose.ROTATE_180), exif
        picture.save(out, kind, **options)
        row.picture = out.getvalue()
    with ChatServer(ScenePlanner(found)) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    accepted = lines(tmp_path / "store" / "manifest.jsonl")
    assert len(accepted) >= 3
    for line in accepted:
        row = found[int(line["question_index"])]
        assert line["image_sha256"] == hashlib.sha256(row.picture).hexdigest()
        altered = Image.open(tmp_path / "store" / line["file"])
        assert altered.size == (168, 168) and altered.mode == "RGB"


def test_a_picture_that_cannot_be_read_is_the_end_of_its_question_only(tmp_path: Path) -> None:
    found = rows(2, ("quantity",))
    found[1].picture = found[1].picture[:200]
    with ChatServer(ScenePlanner(found)) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    (line,) = lines(tmp_path / "store" / "given_up.jsonl")
    assert line["question_index"] == "1" and line["cause"] == "unreadable" and "picture 1" in line["reason"]
    assert len(lines(tmp_path / "store" / "manifest.jsonl")) == 1


def test_without_the_check_no_answers_are_asked_for(tmp_path: Path) -> None:
    found = rows(1, ("quantity",))
    planner = ScenePlanner(found)
    with ChatServer(planner) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store", "--no-check-flip") == 0
    assert [task for _, task in planner.asked] == ["type", "graph", "plan"]


def test_boxes_in_thousandths_are_the_same_boxes(whole: tuple[Path, ScenePlanner], tmp_path: Path) -> None:
    store, planner = whole
    with ChatServer(ScenePlanner(planner.found)) as server:
        table = table_of(tmp_path / "t.tsv", planner.found)
        assert build(server, table, tmp_path / "store", "--boxes", "thousandths", "--limit", "8") == 0
    pixels = {line["question_index"]: line["boxes"][0] for line in lines(store / "manifest.jsonl")}
    for line in lines(tmp_path / "store" / "manifest.jsonl"):
        assert line["boxes"][0] == pixels[line["question_index"]]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (("--planner", "qwem"), "did you mean qwen"),
        (("--editor", "opencw"), "did you mean opencv"),
        (("--data", "POPEE"), "POPE"),
        (("--boxes", "pixel"), "pixels"),
        (("--features", "handmade", "handmade"), "one name, or three"),
        (("--set", "rule.gama=1"), "gamma"),
        (("--set", "effort.tries=0"), "1..20"),
        (("--set", "mug.agents=4"), "effort"),
    ],
)
def test_a_mistake_is_one_line(wrong: tuple[str, ...], words: str, tmp_path: Path, capsys: Any) -> None:
    found = rows(1, ("quantity",))
    with ChatServer(ScenePlanner(found)) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store", *wrong) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert said[-1].startswith("mug-eval: error:") and words in said[-1]


def test_the_report_counts_what_the_store_holds(whole: tuple[Path, ScenePlanner], capsys: Any) -> None:
    store, planner = whole
    assert main(["counterfactuals", "report", str(store), "--work-dir", str(store.with_name("store-work")), "--sheets", "9"]) == 0
    text = capsys.readouterr().out
    numbers = json.loads((store / "report" / "report.json").read_text())
    accepted, given_up, tries = (lines(store / f"{name}.jsonl") for name in ("manifest", "given_up", "tries"))
    assert numbers["questions"] == 16 and numbers["accepted"] == len(accepted)
    assert sum(numbers["given_up_by_cause"].values()) == len(given_up)
    assert sum(kind["tries"] for kind in numbers["by_edit"].values()) == len(accepted) + len(tries) == numbers["cost"]["edits"]
    assert numbers["types"] == {"object": 0.25, "quantity": 0.1875, "attribute": 0.1875, "spatial": 0.1875, "other": 0.1875}
    assert numbers["flips"] == {"asked": len(accepted), "read": len(accepted), "flipped": len(accepted), "share": 1.0}
    asked = Counter(task for _, task in planner.asked)
    assert numbers["cost"]["planning"]["calls"] == asked["type"] + asked["graph"] + asked["plan"]
    assert numbers["cost"]["checking"]["calls"] == asked["direct"]
    assert numbers["set_distance"]["pictures"] == len(accepted) and numbers["set_distance"]["fid"] >= 0
    assert f"{len(accepted)} ({100 * len(accepted) / 16:.1f} %)" in text and "41.2 %" in text
    sheets = sorted((store / "report").glob("sheet-*.png"))
    assert len(sheets) == 2 and Image.open(sheets[0]).height > Image.open(sheets[1]).height
    for path in (*sheets, store / "report" / "report.json"):
        path.unlink()
    (store / "report").rmdir()


def test_publishing_by_the_command_takes_the_originals_when_asked(whole: tuple[Path, ScenePlanner], tmp_path: Path) -> None:
    store, _ = whole
    more = ["--originals", "--work-dir", str(store.with_name("store-work"))]
    assert main(["counterfactuals", "publish", str(store), str(tmp_path / "out"), *more]) == 0
    found = lines(tmp_path / "out" / "train" / "metadata.jsonl")
    assert len(found) == len(lines(store / "manifest.jsonl"))
    for line in found:
        original = (tmp_path / "out" / "train" / line["original_file_name"]).read_bytes()
        assert hashlib.sha256(original).hexdigest() == line["image_sha256"]


def test_the_planner_that_changes_its_mind_has_another_plan(tmp_path: Path) -> None:
    """The same plan again with an editor that is the same whatever the seed is no new try; another thing is."""
    found = rows(1, ("quantity",))
    row = found[0]
    plan = planned(row.asked.query, row.scene)
    assert plan is not None
    tiny = '{"target": 0, "edit": "resize", "to": "0.2", "box": null, "instruction": "Make it tiny.", "answer": null}'
    turns = iter([tiny, plan_reply(plan, None)])
    planner = ScenePlanner(found, instead=lambda row, task, body: next(turns) if task == "plan" else None)
    with ChatServer(planner) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    assert lines(tmp_path / "store" / "manifest.jsonl")[0]["tries"] == 3


def test_what_a_planner_refused_is_tried_again_when_asked_to_and_what_was_known_stays_on_record(tmp_path: Path) -> None:
    found = rows(4)
    table, store = table_of(tmp_path / "t.tsv", found), tmp_path / "store"
    refusing = ScenePlanner(found, lambda row, task, body: failure(400, "not allowed") if row.index == "1" else None)
    with ChatServer(refusing) as server:
        assert build(server, table, store) == 0
    before = {line["question_index"]: line for line in lines(store / "given_up.jsonl")}
    assert before["1"]["cause"] == "planner_refused"
    others = {line["question_index"]: line for line in lines(store / "manifest.jsonl")}
    willing = ScenePlanner(found)
    with ChatServer(willing) as server:
        assert build(server, table, store) == 0 and not willing.asked, "decided for good, unless asked"
        assert build(server, table, store, "--retry-given-up", "planner_refused") == 0
        assert {index for index, _ in willing.asked} == {"1"}
        after = content(store)
        assert build(server, table, store, "--retry-given-up", "planner_refused") == 0 and content(store) == after
    (again,) = lines(store / "retried.jsonl")
    assert again["question_index"] == "1" and again["given_up"] == before["1"]
    accepted = {line["question_index"]: line for line in lines(store / "manifest.jsonl")}
    left = {line["question_index"]: line for line in lines(store / "given_up.jsonl")}
    assert accepted.items() >= others.items() and "1" in {**accepted, **left}
    assert left.get("1", {}).get("cause") != "planner_refused"
