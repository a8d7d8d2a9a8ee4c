"""``mug-eval study``: every study from one command, nothing asked twice, nothing filled in, nothing reported among what is measured."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from servers import ChatServer, failure
from study_server import pictures, player, study

from mug_eval.cli import main
from mug_eval.reference_vlm.benchmark_files import write_benchmarks
from mug_eval.statistics.intervals import mean_interval
from mug_eval.studies.catalogue import STUDIES
from mug_eval.studies.edit_tables import _thirds
from mug_eval.studies.outcome import Cell, Column, Outcome, Row, Table, comma_separated, markdown
from mug_eval.studies.reported import reported
from mug_eval.studies.study import Arm

SHARED = Path(__file__).resolve().parents[2] / "shared" / "reference" / "paper_results.json"
NOWHERE = "http://127.0.0.1:9/v1"


def data_of(name: str) -> tuple[str, ...]:
    return ("HallusionBench",) if STUDIES[name].accepts == "HallusionBench" else ("POPE",)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict[str, int]]:
    """Every study once over one work-dir: (out, pictures, calls that each asked)."""
    folder = tmp_path_factory.mktemp("studies")
    out, store = folder / "out", pictures(folder / "cf")
    asked: dict[str, int] = {}
    with ChatServer(player) as server:
        for name in STUDIES:
            before = len(server.requests)
            assert study(name, server.base_url, out, "--limit", "4", data=data_of(name), store=store) == 0, name
            asked[name] = len(server.requests) - before
    return out, store, asked


def found(out: Path, name: str) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads((out / name / "study.json").read_text())
    return whole


def cells(table: dict[str, Any], *labels: str, status: str = "measured") -> dict[str, Any]:
    """The numbers of one row by column."""
    (row,) = [row for row in table["rows"] if row["labels"] == list(labels) and row["status"] == status]
    return {column["name"]: cell for column, cell in zip(table["columns"], row["cells"], strict=True)}


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line that a mistake gets."""
    capsys.readouterr()
    assert main(list(argv)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1, said
    return said


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_writes_its_tables_with_a_row_for_every_arm(played: tuple[Path, Path, dict[str, int]], name: str) -> None:
    out, _, _ = played
    whole = found(out, name)
    assert {run["arm"] for run in whole["runs"]} == {arm.label for arm in STUDIES[name].arms}
    assert all(run["state"] == "complete" for run in whole["runs"])
    text = (out / name / "table.md").read_text()
    assert text.startswith(f"# {name}") and "owed" not in text
    if name not in ("question-types", "edit-quality"):  # their rows are kinds of edits
        measured = {
            label for table in whole["tables"] for row in table["rows"] for label in row["labels"] if row["status"] == "measured"
        }
        assert {arm.label for arm in STUDIES[name].arms} <= measured
    for file in ("table.csv", "figure.svg", "figure.pdf"):
        assert (out / name / file).stat().st_size > 100, file


def test_a_study_given_again_asks_nothing_and_writes_the_same_bytes(
    played: tuple[Path, Path, dict[str, int]], tmp_path: Path
) -> None:
    out, store, _ = played
    files = ("table.md", "table.csv", "study.json", "figure.svg", "figure.pdf")
    for name in ("agents", "survival"):
        before = {file: (out / name / file).read_bytes() for file in files}
        assert study(name, NOWHERE, out, "--limit", "4", "--patience", "1", store=store) == 0, "every call is in the journal"
        assert {file: (out / name / file).read_bytes() for file in files} == before


def test_arms_that_an_earlier_study_played_are_not_played_again(played: tuple[Path, Path, dict[str, int]]) -> None:
    out, _, asked = played
    assert asked["main-table"] > 0
    assert asked["time-per-question"] == 0, "direct, mad-vote, mug and its ablations are of earlier studies"
    assert asked["question-types"] == asked["edit-quality"] == 0
    folders = {path.name for path in (out / "runs").iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert {"mug-toy", "mug-toy@agents-4", "mug-toy@identical", "mug-toy@observation_rounds-0"} <= folders
    assert "mug-toy@agents-3" not in folders and "mug-toy@observation_rounds-1" not in folders, "the plain game by another name"
    for agents in (4, 5, 6):
        plan = json.loads((out / "runs" / f"mug-toy@agents-{agents}" / "POPE" / "plan.json").read_text())
        assert plan["config"]["agents"] == agents


def test_scores_and_tests_are_those_of_compare(played: tuple[Path, Path, dict[str, int]], tmp_path: Path) -> None:
    out, _, _ = played
    runs, file = out / "runs", tmp_path / "c.json"
    argv = ["compare", str(runs / "mug-toy" / "POPE"), "--against", str(runs / "direct-toy" / "POPE"), "--json", str(file)]
    assert main(argv) == 0
    theirs = json.loads(file.read_text())
    (table,) = found(out, "main-table")["tables"]
    mine = cells(table, "openai:toy", "mug")
    for name, score in theirs["runs"][0]["scores"].items():
        assert mine[name] == pytest.approx({key: score[key] for key in ("value", "low", "high")}), name
    (pair,) = theirs["comparisons"]
    apart = pair["differences"]["acc"]
    assert mine["acc less direct"]["value"] == pytest.approx(apart["value"])
    assert mine["acc less direct"]["low"] == pytest.approx(apart["low"])
    assert mine["p"]["value"] == pytest.approx(pair["p"])
    assert (mine["fixed"]["value"], mine["broken"]["value"]) == (pair["fixed"], pair["broken"])
    assert mine["calls"]["value"] == theirs["runs"][0]["cost"]["calls"]
    hunt = theirs["runs"][0]["games"]["detection"]
    assert mine["undercover found"]["value"] == pytest.approx(100 * hunt["found"]["value"])
    assert mine["found by lots"]["value"] == pytest.approx(100 * hunt["found_by_chance"])
    assert mine["p (Holm)"]["value"] >= mine["p"]["value"]


def test_categories_are_the_scorers_own(played: tuple[Path, Path, dict[str, int]]) -> None:
    out, _, _ = played
    for name, benchmark in (("pope-categories", "POPE"), ("hallusion-categories", "HallusionBench")):
        (table,) = found(out, name)["tables"]
        scores = json.loads((out / "runs" / "mug-toy" / benchmark / "scores.json").read_text())
        said = {row["labels"][0] for row in table["rows"] if row["status"] == "measured"}
        assert said and said <= scores["categories"].keys()
        for category in said:
            mine = cells(table, category, "openai:toy", "mug")
            assert {score: mine[score]["value"] for score in scores["headline"]} == pytest.approx(scores["categories"][category])
    (table,) = found(out, "pope-categories")["tables"]
    counts = {row["labels"][0]: row["cells"][0]["value"] for row in table["rows"] if row["status"] == "measured"}
    assert counts == {"random": 2, "popular": 2, "adversarial": 1}, "a question of two categories counts in both"


def test_reported_numbers_stand_apart_and_enter_nothing(played: tuple[Path, Path, dict[str, int]]) -> None:
    out, _, _ = played
    (table,) = found(out, "main-table")["tables"]
    theirs = [row for row in table["rows"] if row["status"] == "reported"]
    assert {tuple(row["labels"]) for row in theirs} >= {("Qwen2.5-VL-7B", "mug"), ("InternVL3-14B", "direct"), ("GPT-4v", "direct")}
    assert all("arXiv 2511.11182" in row["remark"] for row in theirs)
    kept = {column["name"] for column in table["columns"][:4]}
    for row in theirs:
        told = {column["name"] for column, cell in zip(table["columns"], row["cells"], strict=True) if cell is not None}
        assert told <= kept, "no difference, p or cost is made of a reported number"
        assert all(cell is None or cell["low"] is None for cell in row["cells"])
    places = [row["status"] for row in table["rows"]]
    assert places == sorted(places), "measured above reported"
    assert cells(table, "Qwen2.5-VL-7B", "mug", status="reported")["F1"]["value"] == 87.4
    assert "*88.4*" in (out / "main-table" / "table.md").read_text()
    with (out / "main-table" / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["status"] for row in rows} == {"measured", "reported"}
    scores = json.loads((out / "runs" / "mug-toy" / "POPE" / "scores.json").read_text())
    (acc,) = [row for row in rows if row["row"] == "openai:toy / mug" and row["column"] == "acc"]
    assert float(acc["value"]) == pytest.approx(scores["headline"]["acc"])


@pytest.mark.skipif(not SHARED.is_file(), reason="../shared/reference is not there")
def test_reported_numbers_are_those_of_the_transcription() -> None:
    paper = json.loads(SHARED.read_text())["mug"]
    numbers = {(one.backbone, one.arm, one.benchmark): one.values for one in reported("main-table")}
    keys = {"MMMU_VAL": "MMMU_DEV_VAL", "MMStar": "MMStar", "HallusionBench": "HallusionBench", "POPE": "POPE"}
    names = {"Acc": "acc", "Precision": "precision", "Recall": "recall"}
    wanted = {}
    for row in paper["rows"]:
        for theirs, ours in keys.items():
            value = row.get(theirs)
            some = value if isinstance(value, dict) else {"validation" if theirs == "MMMU_VAL" else "Overall": value}
            some = {names.get(name, name): number for name, number in some.items() if number is not None}
            if some:
                wanted[row["backbone"], row["method"], ours] = some
    assert numbers == wanted
    rounds = {one.arm: one.values["aAcc"] for one in reported("observation-rounds") if one.benchmark == "HallusionBench"}
    assert list(rounds.values()) == paper["observation_rounds_qwen"]["HallusionBench_aAcc"]
    assert rounds.keys() == {arm.label for arm in STUDIES["observation-rounds"].arms}


def test_an_arm_that_is_owed_is_shown_as_owed_and_the_same_command_completes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = pictures(tmp_path / "cf")
    argv = ("--limit", "4", "--only", "direct", "3 agents", "4 agents")
    with ChatServer(player) as server:
        assert study("agents", server.base_url, tmp_path / "out", *argv, "--call-budget", "20", store=store) == 3
        assert "call" in capsys.readouterr().err
        text = (tmp_path / "out" / "agents" / "table.md").read_text()
        whole = found(tmp_path / "out", "agents")
        states = {run["arm"]: run["state"] for run in whole["runs"]}
        assert states["direct"] == "complete" and states["4 agents"] == "owed: not played"
        assert states["3 agents"].startswith("owed")
        owed = [row for row in whole["tables"][0]["rows"] if row["status"] == "owed"]
        assert [row["labels"][1] for row in owed] == ["3 agents", "4 agents"]
        assert all(cell is None for row in owed for cell in row["cells"])
        line = next(line for line in text.splitlines() if "4 agents" in line)
        assert "| owed |" in line and "not played" in line and not any(char.isdigit() for char in line.replace("4 agents", ""))
        before = len(server.requests)
        assert study("agents", server.base_url, tmp_path / "out", *argv, store=store) == 0
        assert len(server.requests) > before
    assert "owed" not in (tmp_path / "out" / "agents" / "table.md").read_text()


def test_an_arm_without_any_picture_says_why_its_row_is_empty(tmp_path: Path) -> None:
    write_benchmarks(tmp_path / "scenes", 12, 0, names=("ScenesMCQ", "ScenesPOPE"))
    said = {}
    with ChatServer(player) as server:
        for name in ("ScenesMCQ", "ScenesPOPE"):
            argv = ["study", "ablations", "--backbone", "openai:toy", "--base-url", server.base_url, "--out", str(tmp_path / name)]
            argv += ["--data", name, "--data-file", f"{name}={tmp_path / 'scenes' / name}.tsv", "--quiet", "--limit", "6"]
            argv += ["--counterfactuals", str(tmp_path / "scenes" / "counterfactuals"), "--only", "full game", "random edit"]
            assert main(argv) == 0
            said[name] = [note for note in found(tmp_path / name, "ablations")["notes"] if "made for another question" in note]
    assert said["ScenesPOPE"] == []
    (note,) = said["ScenesMCQ"]
    assert note.startswith("random edit on ScenesMCQ (openai:toy)") and "--about other" in note


def test_a_run_of_another_limit_is_not_taken_for_this_one(played: tuple[Path, Path, dict[str, int]], tmp_path: Path) -> None:
    out, store, _ = played
    more = ("--no-play", "--work-dir", str(out / "runs"), "--only", "direct", "3 agents")
    assert study("agents", NOWHERE, tmp_path / "four", *more, "--limit", "4", store=store) == 0
    assert study("agents", NOWHERE, tmp_path / "three", *more, "--limit", "3", store=store) == 2
    assert study("agents", NOWHERE, tmp_path / "hot", *more, "--limit", "4", "--set", "sampling.temperature=1", store=store) == 2
    assert study("agents", NOWHERE, tmp_path / "judged", *more, "--limit", "4", "--judge", "gpt-4o-mini", store=store) == 2


def test_seeds_are_runs_of_their_own_and_one_row(tmp_path: Path) -> None:
    store = pictures(tmp_path / "cf")
    with ChatServer(player) as server:
        argv = ("--limit", "4", "--seeds", "0", "7", "--only", "direct", "mug")
        assert study("main-table", server.base_url, tmp_path / "out", *argv, store=store) == 0
    (table,) = found(tmp_path / "out", "main-table")["tables"]
    assert "2 seeds" in table["title"]
    values = [
        json.loads((tmp_path / "out" / work / "mug-toy" / "POPE" / "scores.json").read_text())["headline"]["acc"]
        for work in ("runs", "runs-seed-7")
    ]
    assert cells(table, "openai:toy", "mug")["acc"]["value"] == pytest.approx(sum(values) / 2)
    assert cells(table, "openai:toy", "mug")["fixed"] is None, "a question may be right with one seed only"


def test_a_dry_run_counts_the_calls_of_every_arm_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = pictures(tmp_path / "cf")
    assert study("agents", NOWHERE, tmp_path / "out", "--limit", "4", "--dry-run", store=store) == 0
    said = capsys.readouterr().out
    for name in ("direct-toy", "mug-toy on", "mug-toy@agents-4", "mug-toy@agents-6"):
        assert name in said
    assert "all 5 jobs: 288 to 636 calls" in said, "4 questions x (1 + 11..26 + 16..35 + 20..44 + 24..53)"
    assert not (tmp_path / "out").exists()


def test_the_list_says_what_each_study_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "list"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(name in said for name in STUDIES)
    assert "calls a question, all arms: 72 to 159 (yes/no)" in said, "1 + 11..26 + 16..35 + 20..44 + 24..53"
    assert "calls a question, all arms: 73 (yes/no), 109 (4 options)" in said, "CFMAD: 1 + M(1 + 2r) + 1 for each r and stances"


def test_every_study_has_its_baseline_among_its_arms_and_no_two_arms_are_one() -> None:
    for one in STUDIES.values():
        labels = [arm.label for arm in one.arms]
        assert one.baseline is None or one.baseline in labels, one.name
        folders = [arm.model("b") + arm.suffix for arm in one.arms]
        assert len(set(folders)) == len(folders), f"{one.name}: two arms would write to one folder"
        assert len(set(labels)) == len(labels)
    assert Arm("x", "mug", {"agents": 3}).suffix == "" and Arm("x", "mug", {"agents": 4, "gate": 3}).suffix == "@agents-4_gate-3"


def test_mistakes_get_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = str(pictures(tmp_path / "cf"))
    start = ("study", "agents", "--out", str(tmp_path / "out"))
    toy = (*start, "--backbone", "openai:toy", "--base-url", NOWHERE, "--data", "POPE")
    assert "did you mean ablations" in refused(capsys, "study", "ablation")
    assert "name a study before --backbone" in refused(capsys, "study", "--backbone", "qwen")
    assert "--backbone NAME" in refused(capsys, *start, "--data", "POPE")
    said = refused(capsys, *toy)
    assert "altered pictures, and POPE has none" in said and "counterfactuals build" in said
    assert "no such folder" in refused(capsys, *toy, "--counterfactuals", str(tmp_path / "gone"))
    assert "MMStar is not in --data" in refused(capsys, *toy, "--counterfactuals", f"MMStar={store}")
    assert "the study itself sets mug.agents" in refused(capsys, *toy, "--counterfactuals", store, "--set", "mug.agents=4")
    assert "cfmad is not played" in refused(capsys, *toy, "--counterfactuals", store, "--set", "cfmad.rounds=2")
    assert "did you mean 3 agents" in refused(capsys, *toy, "--counterfactuals", store, "--only", "3 agent")
    assert "POPE twice" in refused(capsys, *toy, "POPE", "--counterfactuals", store)
    assert "with a NAME of --data" in refused(capsys, *toy, "--counterfactuals", store, "--data-file", "MMStar=x.tsv")
    assert "here are several" in refused(capsys, *toy, "--counterfactuals", "auto", "--seeds", "0", "1")
    said = refused(capsys, "study", "pope-categories", "--backbone", "openai:toy", "--data", "MMStar")
    assert "POPE's format (POPE, ScenesPOPE)" in said
    assert "no arm of agents is complete" in refused(capsys, *toy, "--counterfactuals", store, "--no-play")
    assert not (tmp_path / "out" / "agents").exists()


def test_kinds_of_questions_are_counted_and_compared(played: tuple[Path, Path, dict[str, int]]) -> None:
    out, _, _ = played
    (table,) = found(out, "question-types")["tables"]
    for kind in ("object", "attribute"):
        mine = cells(table, "openai:toy", kind)
        assert (mine["share"]["value"], mine["questions"]["value"]) == (50, 2)
        assert mine["mug less direct"]["value"] == pytest.approx(mine["mug, right"]["value"] - mine["direct, right"]["value"])
    assert cells(table, "", "object", status="reported")["share"]["value"] == 41.24


def test_effect_is_held_against_the_scores_of_the_edits(played: tuple[Path, Path, dict[str, int]]) -> None:
    out, _, _ = played
    (table,) = found(out, "edit-quality")["tables"]
    rows = [row for row in table["rows"] if row["labels"][1] == "vs"]
    assert [row["labels"][2] for row in rows] == ["lowest third", "middle third", "highest third"]
    assert sum(row["cells"][0]["value"] for row in rows) == 4
    names = [column["name"] for column in table["columns"]]
    gaps = []
    for row in rows:
        mine = dict(zip(names, row["cells"], strict=True))
        gaps.append(mine["mug less direct"]["value"])
        assert gaps[-1] == pytest.approx(mine["mug, right"]["value"] - mine["direct, right"]["value"])
    assert any(gaps), "or a difference the wrong way round would not show"
    (alike,) = [row for row in table["rows"] if row["labels"][1] == "change"]
    assert alike["labels"][2] == "all alike" and alike["cells"][0]["value"] == 4


def test_equal_scores_are_never_divided() -> None:
    scores = {str(place): {"vs": value} for place, value in enumerate([0.1, 0.1, 0.1, 0.1, 0.5, 0.9])}
    parts = _thirds(scores, "vs")
    assert sorted(index for part in parts for index in part.indices) == list("012345")
    homes = [next(part.name for part in parts if str(place) in part.indices) for place in range(4)]
    assert len(set(homes)) == 1


def test_the_difference_of_two_percentages_lies_within_a_hundred_points() -> None:
    wide = mean_interval([1.0, 0.0, 0.0], ["a", "b", "b"])
    assert wide.high > 1, "a t interval over two clusters"
    assert Cell.apart(wide, 100) == Cell(pytest.approx(100 / 3), -100.0, 100.0)
    assert Cell.apart(mean_interval([0.5], ["a"]), 100) == Cell(50.0), "one cluster has no interval"


def test_a_strangers_words_stay_in_their_cell() -> None:
    hostile = "=HYPERLINK(1)|<script>alert(1)</script>\n| a | `x` [l](javascript:x) \x1b[2J"
    table = Table(hostile, ("kind",), (Column("right"),), (Row((hostile,), (Cell(50.0, 40.0, 60.0),), remark=hostile),))
    text = markdown(Outcome((table,), notes=(hostile,)), "study")
    assert "<script>" not in text and "\x1b" not in text and "[l](" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("|") and "50.0" in line]
    assert line.replace("\\|", "").count("|") == 4, "three cells"
    assert "50.0 (40.0 to 60.0)" in line
    rows = list(csv.reader(comma_separated(Outcome((table,))).splitlines()[1:2]))
    assert all(cell[:1] not in ("=", "+", "@") for cell in rows[0])
    assert rows[0][6:9] == ["50.0", "40.0", "60.0"]


def test_a_run_with_questions_left_out_stands_for_an_arm_only_where_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def failing(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return failure(500, "cannot do this one") if "red" in json.dumps(body["messages"]) else await player(request, body)

    out = tmp_path / "out"
    arms = ("--only", "direct", "--retries", "0")
    with ChatServer(failing) as server:
        assert study("main-table", server.base_url, out, *arms, "--allow-missing", store=pictures(tmp_path / "cf")) == 3
        assert cells(found(out, "main-table")["tables"][0], "openai:toy", "direct")["acc"]["value"] is not None
        assert any("questions are missing" in note for note in found(out, "main-table")["notes"])
        capsys.readouterr()
        assert study("main-table", server.base_url, out, *arms, "--no-play", store=tmp_path / "cf") == 2
    assert "no arm of main-table is complete" in (said := capsys.readouterr().err) and "questions left out" in said
