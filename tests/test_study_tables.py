"""The tables of studies over result folders written on the spot, every number worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from run_folders import cost, game, write_run

from mug_eval.statistics.runs import by_seed, read_run
from mug_eval.studies.catalogue import find_study
from mug_eval.studies.edit_tables import _thirds
from mug_eval.studies.finished import Finished
from mug_eval.studies.outcome import Outcome
from mug_eval.studies.playing import Casting, Key

BENCHMARK = "ScenesMCQ"
ORDER = [str(i) for i in range(12)]


def finished(name: str, folders: Mapping[str, Path]) -> Finished:
    """A study of which these arms are complete; no pictures lie beside them."""
    study = find_study(name)
    groups = {Key("toy", BENCHMARK, arm): by_seed([read_run(folder)])[0] for arm, folder in folders.items()}
    owed = {key: "not played" for arm in study.arms if (key := Key("toy", BENCHMARK, arm.label)) not in groups}
    casting = Casting(study, ("toy",), (BENCHMARK,), (0,), (), dict.fromkeys((*groups, *owed), ()), {}, {})
    return Finished(casting, groups, owed)


def read(name: str, folders: Mapping[str, Path]) -> Outcome:
    told = finished(name, folders)
    return told.study.read(told)


def values(outcome: Outcome, *labels: str) -> dict[tuple[str, str], float | None]:
    """The numbers of one measured row by (column, unit)."""
    (table,) = outcome.tables
    (row,) = [row for row in table.rows if row.labels == labels and row.status == "measured"]
    return {
        (column.name, column.unit): None if cell is None else cell.value
        for column, cell in zip(table.columns, row.cells, strict=True)
    }


def hunt(index: str, rounds: int, found: int | None, **seats: Any) -> dict[str, Any]:
    """A game of five agents: so many rounds of votes, the undercover found in one of them or in none."""
    agents = [f"Agent {number}" for number in range(1, 6)]
    events: list[dict[str, Any]] = [{"event": "seats", "order": agents, "undercover": agents[4], **seats}]
    for number in range(1, rounds + 1):
        out = agents[4] if number == found else agents[number - 1]
        events.append({"event": "elimination", "round": number, "votes": {out: 3}, "eliminated": out, "tied": []})
    facts = {"undercover_played": True, "undercover_found": found is not None, "found_round": found, "detection_rounds": rounds}
    return game(index, events=events, facts={**facts, "normals_lost": rounds - (found is not None), "abstentions": 0})


def test_seconds_a_call_are_those_of_a_question_divided_by_its_calls(tmp_path: Path) -> None:
    games = [game(index, usage={**game(index)["usage"], "calls": 4, "seconds": 5.0 + int(index) % 2 * 2}) for index in ORDER]
    direct = write_run(tmp_path, dict.fromkeys(ORDER, True), games=games, price=cost(calls=4, seconds=6.0))
    mine = values(read("time-per-question", {"direct": direct}), "toy", "direct")
    assert mine == {
        ("seconds", "a question"): pytest.approx(6.0),
        ("calls", "a question"): 4,
        ("tokens", "a question"): 110,
        ("seconds", "a call"): pytest.approx(1.5),
    }


def test_the_hunt_is_told_round_by_round_in_percent_against_lots(tmp_path: Path) -> None:
    # Of 12 games 3 end in the first round, 3 in the second; in the others three rounds leave the undercover there.
    games = [hunt(i, 1, 1) for i in ORDER[:3]] + [hunt(i, 2, 2) for i in ORDER[3:6]] + [hunt(i, 3, None) for i in ORDER[6:]]
    run = write_run(
        tmp_path, dict.fromkeys(ORDER, True), model="mug-toy", games=games, config={"config": {"agents": 5, "detection_rounds": 3}}
    )
    told = read("survival", {"mug": run})
    rounds = [values(told, BENCHMARK, "toy", "mug", str(number)) for number in (1, 2, 3)]
    assert [one["games", ""] for one in rounds] == [12, 12, 12]
    assert [one["voting", ""] for one in rounds] == [12, 9, 6]
    assert [one["undercover still there", "%"] for one in rounds] == pytest.approx([75, 50, 50])
    # By lots one of five goes, then one of four: 4/5 and 3/5 of the games that vote so often.
    first = rounds[0]["by lots", "%"]
    assert first == pytest.approx(80)
    lots = [one["by lots", "%"] for one in rounds]
    assert lots[0] > lots[1] > lots[2] > 1, "a share in percent, and less of it each round"
    assert [one["found, less lots", "points"] for one in rounds[:2]] == [None, None]
    assert rounds[2]["found, less lots", "points"] == pytest.approx(50 - 60), "lots have all three rounds that a game may take"


def test_fixed_are_questions_that_the_arm_mends_and_broken_those_that_it_spoils(tmp_path: Path) -> None:
    base = {index: int(index) < 6 for index in ORDER}
    arm = {index: 1 <= int(index) < 9 for index in ORDER}  # question 0 is broken, 6 to 8 are fixed
    direct = write_run(tmp_path, base)
    mug = write_run(tmp_path, arm, model="mug-toy")
    told = read("main-table", {"direct": direct, "mug": mug})
    mine = values(told, "toy", "mug")
    assert (mine["fixed", ""], mine["broken", ""]) == (3, 1)
    assert mine["Overall less direct", "points"] == pytest.approx(100 * 2 / 12)
    assert {row.labels[1] for row in told.tables[0].rows if row.status == "owed"} == {
        *("cot", "self-refine", "mad-vote", "mad-judge", "cfmad", "sc5", "sc12")
    }


def test_kinds_are_shares_of_the_questions_whose_kind_is_known_and_the_gap_is_mug_less_direct(tmp_path: Path) -> None:
    kinds = ["object"] * 3 + ["attribute"] * 5 + [None] * 4
    games = [
        hunt(index, 1, 1, **({"edit": {"edit": "remove", "edit_type": kind}} if kind else {}))
        for index, kind in zip(ORDER, kinds, strict=True)
    ]
    direct = write_run(tmp_path, {index: int(index) < 1 for index in ORDER})
    mug = write_run(
        tmp_path,
        {index: int(index) < 4 for index in ORDER},
        model="mug-toy",
        games=games,
        config={"config": {"agents": 5, "detection_rounds": 3}},
    )
    told = read("question-types", {"direct": direct, "mug": mug})
    objects, attributes, none = (values(told, "toy", kind) for kind in ("object", "attribute", "no type"))
    assert (objects["share", "%"], attributes["share", "%"], none["share", "%"]) == (pytest.approx(37.5), pytest.approx(62.5), None)
    assert (objects["questions", ""], attributes["questions", ""], none["questions", ""]) == (3, 5, 4)
    assert objects["mug less direct", "points"] == pytest.approx(100 * 2 / 3)
    assert (attributes["direct, right", "%"], attributes["mug, right", "%"]) == (0, pytest.approx(20))


def test_thirds_are_by_rank_and_as_large_as_each_other() -> None:
    scores = {index: {"vs": value} for index, value in zip("abcdef", (0.6, 0.1, 0.5, 0.2, 0.4, 0.3), strict=True)}
    low, middle, high = _thirds(scores, "vs")
    assert [part.indices for part in (low, middle, high)] == [("b", "d"), ("f", "e"), ("c", "a")]
    assert (low.name, middle.name, high.name) == ("lowest third", "middle third", "highest third")
    assert (middle.low, middle.high, middle.mean) == (0.3, 0.4, pytest.approx(0.35))
