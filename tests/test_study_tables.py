"""The tables of studies over result folders written on the spot, every number worked out by hand."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_folders import cost, game, write_run
from scipy import stats

from mug_eval.counterfactual.store import Store
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


def cell(outcome: Outcome, labels: tuple[str, ...], column: str) -> Any:
    (table,) = outcome.tables
    (row,) = [row for row in table.rows if row.labels == labels and row.status == "measured"]
    return row.cells[[one.name for one in table.columns].index(column)]


def add_to_scores(folder: Path, **more: Any) -> Path:
    path = folder / "scores.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))
    return folder


def holm_by_statsmodels(p: list[float]) -> list[float]:
    multitest = pytest.importorskip(
        "statsmodels.stats.multitest", reason="statsmodels, which this is held against, is not installed"
    )
    return list(multitest.multipletests(p, method="holm")[1])


def test_p_values_are_corrected_over_all_arms_of_a_study(tmp_path: Path) -> None:
    shares = {"direct": 3, "mug": 11, "cot": 8, "sc5": 5}
    folders = {
        arm: write_run(tmp_path, {index: int(index) < right for index in ORDER}, model=f"{arm}-toy", method=arm.strip("5"))
        for arm, right in shares.items()
    }
    told = read("main-table", folders)
    arms = ["mug", "cot", "sc5"]
    p = [cell(told, ("toy", arm), "p").value for arm in arms]
    assert min(p) < 0.05
    assert [cell(told, ("toy", arm), "p (Holm)").value for arm in arms] == pytest.approx(holm_by_statsmodels(p))


def test_p_values_are_corrected_over_all_categories_of_a_study(tmp_path: Path) -> None:
    def run(model: str, right: int) -> Path:
        """The first 12 of 24 questions are of one category, all wrong; of the others so many are right."""
        hits = {str(i): 12 <= i < 12 + right for i in range(24)}
        options = {"A": "yes", "B": "no", "answer": "A"}
        rows = {
            index: {**options, "category": "shape" if int(index) < 12 else "size", "prediction": "A" if hit else "B"}
            for index, hit in hits.items()
        }
        folder = write_run(tmp_path, hits, model=model, rows=rows)
        return add_to_scores(folder, categories={"shape": {"Overall": 0.0}, "size": {"Overall": 100 * right / 12}})

    told = read("pope-categories", {"direct": run("direct-toy", 2), "mug": run("mug-toy", 11)})
    places = [(category, "toy", "mug") for category in ("shape", "size")]
    p = [cell(told, place, "p").value for place in places]
    assert min(p) < 0.05
    assert [cell(told, place, "p (Holm)").value for place in places] == pytest.approx(holm_by_statsmodels(p))


def test_an_arm_is_held_against_the_baseline_of_its_own_backbone(tmp_path: Path) -> None:
    right = {("toy", "direct"): 2, ("toy", "mug"): 5, ("other", "direct"): 8, ("other", "mug"): 9}
    groups = {}
    for (backbone, arm), count in right.items():
        config = {"backbone": {"kind": "openai", "model": backbone}}
        folder = write_run(tmp_path, {index: int(index) < count for index in ORDER}, model=f"{arm}-{backbone}", config=config)
        groups[Key(backbone, BENCHMARK, arm)] = by_seed([read_run(folder)])[0]
    study = find_study("main-table")
    study = replace(study, arms=tuple(arm for arm in study.arms if arm.label in ("direct", "mug")))
    casting = Casting(study, ("toy", "other"), (BENCHMARK,), (0,), (), dict.fromkeys(groups, ()), {}, {})
    told = study.read(Finished(casting, groups, {}))
    gaps = [cell(told, (backbone, "mug"), "Overall less direct").value for backbone in ("toy", "other")]
    assert gaps == pytest.approx([100 * 3 / 12, 100 * 1 / 12])


def test_a_kind_has_its_own_games_and_its_gap_the_interval_of_paired_questions(tmp_path: Path) -> None:
    games = [
        hunt(
            index,
            1 if int(index) < 6 else 3,
            1 if int(index) < 6 else None,
            edit={"edit_type": "object" if int(index) < 6 else "other"},
        )
        for index in ORDER
    ]
    before = {index: int(index) in (0, 1, 6, 7, 8, 9) for index in ORDER}
    after = {index: int(index) in (1, 2, 3, 4, 9) for index in ORDER}
    direct = write_run(tmp_path, before)
    mug = write_run(tmp_path, after, model="mug-toy", games=games, config={"config": {"agents": 5, "detection_rounds": 3}})
    told = read("question-types", {"direct": direct, "mug": mug})
    assert [cell(told, ("toy", kind), "undercover found").value for kind in ("object", "other")] == [100, 0]
    apart = [after[index] - before[index] for index in ORDER[:6]]
    error = statistics.stdev(apart) / math.sqrt(6)
    gap = cell(told, ("toy", "object"), "mug less direct")
    middle, reach = 100 * statistics.mean(apart), 100 * stats.t.ppf(0.975, 5) * error
    assert (gap.value, gap.low, gap.high) == pytest.approx((middle, max(-100, middle - reach), min(100, middle + reach)))


@pytest.mark.parametrize(("benchmark", "typed"), [(BENCHMARK, 7), ("POPE", 6)])
def test_questions_without_an_edit_count_where_the_store_is_the_benchmarks_own(tmp_path: Path, benchmark: str, typed: int) -> None:
    with Store(tmp_path / "store", {"benchmark": benchmark}) as store:
        for index in ("11", "99"):  # the second was never played
            store.give_up(index, "nothing was found", edit_type="spatial")
        store.close()
    games = [hunt(index, 1, 1, **({"edit": {"edit_type": "object"}} if int(index) < 6 else {})) for index in ORDER]
    right = dict.fromkeys(ORDER, True)
    config = {"config": {"agents": 5, "detection_rounds": 3}}
    folders = {"direct": write_run(tmp_path, right), "mug": write_run(tmp_path, right, model="mug-toy", games=games, config=config)}
    told = finished("question-types", folders)
    told = replace(told, casting=replace(told.casting, pictures={BENCHMARK: tmp_path / "store"}))
    shares = {row.labels[1]: row.cells[0].value for row in told.study.read(told).tables[0].rows if row.cells[0] is not None}
    assert shares == pytest.approx({"object": 600 / typed, **({"spatial": 100 / 7} if typed == 7 else {})})


@pytest.mark.parametrize("without", [3, 12])
def test_a_row_says_nothing_only_where_no_game_at_all_had_an_undercover(tmp_path: Path, without: int) -> None:
    right = dict.fromkeys(ORDER, True)
    folders = {
        "full game": write_run(tmp_path, right, model="mug-toy"),
        "random edit": write_run(tmp_path, right, model="mug-toy@random-edit", method="mug"),
    }
    add_to_scores(folders["random edit"], game={"ended": {"no_counterfactual_picture": without, "undercover_found": 12 - without}})
    said = [note for note in read("ablations", folders).notes if "the row says nothing" in note]
    assert len(said) == (without == 12)


def test_ballots_and_answers_that_could_not_be_read_stand_beside_the_numbers(tmp_path: Path) -> None:
    """A hunt in which nobody can vote would else read as one that failed."""
    games = [hunt(index, 3, None) for index in ORDER]
    for one in games[:4]:
        one["events"].insert(1, {"event": "vote", "round": 1, "seat": "Agent 1", "vote": None, "ratings": {}})
    right = dict.fromkeys(ORDER, False)
    config = {"config": {"agents": 5, "detection_rounds": 3}}
    mug = write_run(tmp_path, right, model="mug-toy", games=games, config=config)
    told = read("main-table", {"direct": write_run(tmp_path, right), "mug": add_to_scores(mug, unparsed=5)})
    remarks = {row.labels[1]: row.remark for row in told.tables[0].rows if row.status == "measured"}
    assert remarks == {"direct": "", "mug": "4 ballots could not be read; 5 of 12 games without an answer"}
