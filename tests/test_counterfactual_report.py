"""What a report says of a planner that holds no schema, and of questions that were given up and tried again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scene_planner import ScenePlanner, build, lines, rows, table_of
from servers import ChatServer, failure

from mug_eval.cli import main


def _report(store: Path, capsys: Any) -> tuple[dict[str, Any], str]:
    capsys.readouterr()
    assert main(["counterfactuals", "report", str(store), "--sheets", "0", "--work-dir", str(store.with_name("store-work"))]) == 0
    return json.loads((store / "report" / "report.json").read_text()), capsys.readouterr().out


def test_types_by_words_and_their_agreement_show_also_where_no_scene_graph_was_read(tmp_path: Path, capsys: Any) -> None:
    """Of four, two types come in prose, one is another than the words say, and no scene graph is JSON."""
    found = rows(4, ("quantity",))

    def instead(row: Any, task: str, body: dict[str, Any]) -> str | None:
        if task == "graph":
            return "I see a few things."
        if task == "type":
            return {"0": "It asks how many there are.", "1": "A number!", "2": '{"type": "spatial", "image": 1}'}.get(row.index)
        return None

    with ChatServer(ScenePlanner(found, instead)) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    numbers, text = _report(tmp_path / "store", capsys)
    assert numbers["given_up_by_cause"] == {"no_graph": 4}
    assert numbers["types"] == {"object": 0.0, "quantity": 0.75, "attribute": 0.0, "spatial": 0.25, "other": 0.0}
    assert (numbers["types_said"], numbers["types_by_words_alone"], numbers["types_agree"]) == (2, 2, 0.5)
    said = {line.rsplit("  ", 1)[0].strip(): line.rsplit("  ", 1)[1].strip() for line in text.splitlines() if "type: " in line}
    assert said == {"type: planner and words agree": "50.0 % of 2", "type: by words, no reply read": "2"}


def test_a_server_that_refuses_schemas_still_plans(tmp_path: Path, capsys: Any) -> None:
    found = rows(2, ("quantity",))
    refused = []

    def instead(row: Any, task: str, body: dict[str, Any]) -> Any:
        if "response_format" in body:
            refused.append(task)
            return failure(400, "response_format is not supported")
        return None

    with ChatServer(ScenePlanner(found, instead)) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store", "--concurrency", "1") == 0
    numbers, _ = _report(tmp_path / "store", capsys)
    assert refused and numbers["types_said"] == 2 and numbers["types_agree"] == 1.0 and numbers["accepted"] >= 1


def test_retries_and_what_the_earlier_attempts_cost_are_counted(tmp_path: Path, capsys: Any) -> None:
    found = rows(2, ("quantity",))
    table, store = table_of(tmp_path / "t.tsv", found), tmp_path / "store"
    blind = ScenePlanner(found, lambda row, task, body: "Things." if (row.index, task) == ("1", "graph") else None)
    with ChatServer(blind) as server:
        assert build(server, table, store) == 0
    before, text = _report(store, capsys)
    assert before["retried"] == {"questions": 0, "attempts": 0, "accepted": 0, "by_cause": {}} and "tried again" not in text
    seeing = ScenePlanner(found)
    with ChatServer(seeing) as server:
        assert build(server, table, store, "--retry-given-up", "no_graph", "--set", "effort.tries=2") == 0
    after, text = _report(store, capsys)
    accepted = sum(line["question_index"] == "1" for line in lines(store / "manifest.jsonl"))
    assert after["retried"] == {"questions": 1, "attempts": 1, "accepted": accepted, "by_cause": {"no_graph": 1}}
    assert after["cost"]["earlier_attempts"]["calls"] == 3, "a type, and a scene graph asked for twice"
    every = after["cost"]["planning"]["calls"] + after["cost"]["checking"]["calls"] + 3
    assert after["cost"]["per_question"]["calls"] == every / 2
    assert f"{accepted} of 1 (1 attempts)" in text


def test_an_attempt_that_a_kill_left_in_both_files_counts_once(tmp_path: Path, capsys: Any) -> None:
    found = rows(1, ("quantity",))
    store = tmp_path / "store"
    blind = ScenePlanner(found, lambda row, task, body: "Things." if task == "graph" else None)
    with ChatServer(blind) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), store) == 0
    (given_up,), answers = lines(store / "given_up.jsonl"), lines(store / "answers.jsonl")
    line = {"question_index": "0", "number": 1, "given_up": given_up, "tries": [], "answers": answers}
    (store / "retried.jsonl").write_text(json.dumps(line) + "\n")
    numbers, _ = _report(store, capsys)
    assert numbers["retried"]["attempts"] == 0 and numbers["cost"]["per_question"]["calls"] == 3


def test_instructions_that_speak_of_something_else_are_counted(tmp_path: Path, capsys: Any) -> None:
    """The true planner names its targets; here one of two instructions speaks of a dog."""
    found = rows(2, ("quantity",))

    def instead(row: Any, task: str, body: dict[str, Any]) -> str | None:
        if task != "plan" or row.index != "1":
            return None
        said = json.loads(planner.usual(row, task, True))
        return json.dumps({**said, "instruction": "Remove the dog."})

    planner = ScenePlanner(found, instead)
    with ChatServer(planner) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    numbers, text = _report(tmp_path / "store", capsys)
    assert numbers["accepted"] == 2 and numbers["names_target"] == 0.5
    (line,) = (line for line in text.splitlines() if "names the plan's target" in line)
    assert line.endswith("  50.0 % of 2")


def test_a_damaged_line_is_named(tmp_path: Path, capsys: Any) -> None:
    found = rows(1, ("quantity",))
    with ChatServer(ScenePlanner(found)) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    manifest = tmp_path / "store" / "manifest.jsonl"
    manifest.write_text(manifest.read_text() + "not JSON\n")
    assert main(["counterfactuals", "report", str(tmp_path / "store")]) == 2
    assert f"manifest.jsonl, line {len(manifest.read_text().splitlines())}: not JSON" in capsys.readouterr().err


def test_a_picture_that_is_not_the_one_that_was_judged_is_named_and_a_build_mends_it(tmp_path: Path, capsys: Any) -> None:
    found = rows(6, ("existence",))
    table, store = table_of(tmp_path / "t.tsv", found), tmp_path / "store"
    report = ["counterfactuals", "report", str(store), "--sheets", "2", "--work-dir", str(store.with_name("store-work"))]
    with ChatServer(ScenePlanner(found)) as server:
        assert build(server, table, store) == 0
        one, other = (store / line["file"] for line in lines(store / "manifest.jsonl")[:2])
        before = one.read_bytes()
        one.write_bytes(other.read_bytes())
        capsys.readouterr()
        assert main(report) == 2
        said = capsys.readouterr().err
        assert one.name in said and "build again" in said and said.count("\n") == 1
        asked = len(server.requests)
        assert build(server, table, store) == 0
        assert len(server.requests) == asked, "from the journal"
    assert one.read_bytes() == before
    assert "1 pictures of" in capsys.readouterr().err
    assert main(report) == 0
