"""``mug-eval compare`` and ``mug-eval plan``: what is said, what is refused, and the same bytes every time."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from run_folders import cost, game, write_run
from servers import ChatServer, completion
from tables import DATA, TINY

from mug_eval.cli import main


def hits(share: float, seed: int, n: int = 60) -> dict[str, bool]:
    rng = random.Random(seed)
    return {str(i): rng.random() < share for i in range(n)}


def compared(tmp_path: Path, *argv: str | Path) -> dict[str, Any]:
    """The JSON of a comparison."""
    file = tmp_path / "comparison.json"
    assert main(["compare", *map(str, argv), "--json", str(file)]) == 0
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def refused(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> str:
    """The one line that a mistake gets."""
    assert main([*map(str, argv)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_two_runs_are_compared_question_by_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = {str(i): i < 12 for i in range(20)}
    theirs = {str(i): 4 <= i < 12 or i == 15 for i in range(20)}
    mug = write_run(tmp_path, right, model="mug-toy", price=cost(11.0, 2000, 100, 4.0))
    direct = write_run(tmp_path, theirs)
    found = compared(tmp_path, mug, "--against", direct, "--paper-test")
    (pair,) = found["comparisons"]
    assert (pair["fixed"], pair["broken"]) == (4, 1)
    assert pair["differences"]["Overall"]["value"] == pytest.approx(15.0)
    assert pair["p"] == pair["mcnemar_p"] == pytest.approx(2 * 6 / 32), "five questions differ: 1 or none of them the other way"
    assert pair["exact"] and pair["clusters_that_differ"] == 5
    assert pair["paper"]["degrees"] == 19
    first, last = found["runs"]
    assert first["scores"]["Overall"]["value"] == pytest.approx(60) and last["scores"]["Overall"]["value"] == pytest.approx(45)
    assert first["cost"]["tokens"] == 2100 and first["cost"]["seconds"] == 4.0
    said = capsys.readouterr().out
    assert "mug-toy - direct-toy" in said and "+15.0" in said and "0.375" in said and "2,100" in said and "paper's p" in said


def test_dependent_questions_count_as_their_clusters(tmp_path: Path) -> None:
    right, theirs = {str(i): i < 30 for i in range(40)}, {str(i): i >= 15 for i in range(40)}
    clusters = {str(i): f"picture {i // 5}" for i in range(40)}
    alone = compared(tmp_path, write_run(tmp_path / "a", right, model="mug-toy"), "--against", write_run(tmp_path / "a", theirs))
    mug, direct = write_run(tmp_path / "b", right, clusters, model="mug-toy"), write_run(tmp_path / "b", theirs, clusters)
    together = compared(tmp_path, mug, "--against", direct)
    (one,), (other,) = alone["comparisons"], together["comparisons"]
    assert (one["differences"]["Overall"]["value"], other["differences"]["Overall"]["value"]) == (12.5, 12.5)
    assert other["clusters_that_differ"] == 5 and one["clusters_that_differ"] == 25
    # three clusters of five for one run, two for the other: |3 - 2| or more always
    assert other["p"] == 1.0 and one["p"] < 0.5 and one["mcnemar_p"] == other["mcnemar_p"]
    assert other["smallest_difference"] > 2 * one["smallest_difference"]
    assert together["notes"][0] == "ScenesMCQ has 8 clusters: with fewer than 20 intervals come out too short"


def test_a_run_that_is_always_right_is_not_certain_to_stay_so(tmp_path: Path) -> None:
    clusters = {str(i): f"picture {i // 2}" for i in range(60)}
    mug = write_run(tmp_path, hits(1.0, 1), clusters, model="mug-toy")
    found = compared(tmp_path, mug, "--against", write_run(tmp_path, hits(0.5, 2), clusters))
    score = found["runs"][0]["scores"]["Overall"]
    # Wilson's lower end for 30 of 30: 30 / (30 + 1.96^2)
    assert (score["interval"], score["low"], score["high"]) == (
        "wilson",
        pytest.approx(100 * 30 / (30 + 1.959964**2)),
        pytest.approx(100),
    )


def test_holm_counts_every_comparison(tmp_path: Path) -> None:
    base = hits(0.4, 1)
    write_run(tmp_path, base)
    for number, share in enumerate((0.9, 0.5, 0.45)):
        write_run(tmp_path, hits(share, 10 + number), model=f"mug-toy{number}", method="mug", config={"backbone": {"model": "toy"}})
    found = compared(tmp_path, *(tmp_path / f"mug-toy{n}" for n in range(3)), "--against", tmp_path / "direct-toy")
    p, adjusted = [pair["p"] for pair in found["comparisons"]], [pair["p_holm"] for pair in found["comparisons"]]
    assert adjusted[0] == pytest.approx(min(p) * 3)
    assert all(a >= b for a, b in zip(adjusted, p, strict=True)) and len(p) == 3


def test_seeds_are_put_together_with_their_spread(tmp_path: Path) -> None:
    folders = {}
    for seed in (0, 1, 2):
        for model, share in (("mug-toy", 0.7), ("direct-toy", 0.5)):
            folders[model, seed] = write_run(tmp_path / str(seed), hits(share, 100 * seed + len(model)), model=model, seed=seed)
    mug, direct = ([folders[model, seed] for seed in (2, 0, 1)] for model in ("mug-toy", "direct-toy"))
    found = compared(tmp_path, *mug, "--against", *direct)
    assert [run["group"]["seeds"] for run in found["runs"]] == [[0, 1, 2], [0, 1, 2]]
    score = found["runs"][0]["scores"]["Overall"]
    assert score["value"] == pytest.approx(sum(score["each"]) / 3) and len(set(score["each"])) == 3
    assert score["spread"] == pytest.approx((sum((e - score["value"]) ** 2 for e in score["each"]) / 2) ** 0.5)
    (pair,) = found["comparisons"]
    assert pair["fixed"] is None and pair["mcnemar_p"] is None, "they are counts of two runs"
    single = compared(tmp_path, mug[0], "--against", direct[0])["comparisons"][0]
    assert pair["differences"]["Overall"]["standard_error"] < single["differences"]["Overall"]["standard_error"]


def test_self_consistency_at_the_same_budget_is_named_and_compared(tmp_path: Path) -> None:
    write_run(tmp_path, hits(0.5, 1))
    write_run(tmp_path, hits(0.7, 2), model="mug-toy", price=cost(11.2))
    alone = compared(tmp_path, tmp_path / "mug-toy", "--against", tmp_path / "direct-toy")
    assert any("no control at that budget here: play sc11-toy" in note for note in alone["notes"])
    write_run(tmp_path, hits(0.6, 3), model="sc3-toy", method="sc", price=cost(3.0))
    cheap = compared(tmp_path, tmp_path / "mug-toy", tmp_path / "sc3-toy", "--against", tmp_path / "direct-toy")
    assert any("spends 3.7 times the calls of sc3-toy" in note and "sc11-toy would be" in note for note in cheap["notes"])
    write_run(tmp_path, hits(0.65, 4), model="sc12-toy", method="sc", price=cost(12.0))
    found = compared(
        tmp_path, *(tmp_path / name for name in ("mug-toy", "sc3-toy", "sc12-toy")), "--against", tmp_path / "direct-toy"
    )
    assert any("its control at the same budget is sc12-toy (11.2 calls a question against 12.0)" in note for note in found["notes"])
    pairs = [(pair["label"], pair["against"], pair["as_control"]) for pair in found["comparisons"]]
    assert pairs.count(("mug-toy", "sc12-toy", True)) == 1 and len(pairs) == 4


def test_a_run_that_is_worse_and_dearer_is_not_the_best_for_its_calls(tmp_path: Path) -> None:
    write_run(tmp_path, hits(0.5, 1))
    write_run(tmp_path, hits(0.9, 2), model="sc3-toy", method="sc", price=cost(3.0))
    write_run(tmp_path, hits(0.6, 3), model="mug-toy", price=cost(11.0))
    found = compared(tmp_path, tmp_path / "mug-toy", tmp_path / "sc3-toy", "--against", tmp_path / "direct-toy")
    assert {run["label"]: run["frontier"] for run in found["runs"]} == {"mug-toy": False, "sc3-toy": True, "direct-toy": True}


def test_the_same_command_writes_the_same_bytes_in_another_process(tmp_path: Path) -> None:
    rng = random.Random(4)
    right, rows, counts = {}, {}, {"tp": 0, "fp": 0, "fn": 0}
    for i in range(80):
        gold, said = rng.choice(["Yes", "No"]), rng.choice(["Yes", "No"])
        right[str(i)], rows[str(i)] = gold == said, {"answer": gold, "category": "random", "prediction": said}
        counts["tp"] += gold == said == "Yes"
        counts["fp"] += gold == "No" and said == "Yes"
        counts["fn"] += gold == "Yes" and said == "No"
    tp, fp, fn = counts.values()
    headline = {"acc": 100 * sum(right.values()) / 80, "F1": 200 * tp / (2 * tp + fp + fn)}
    headline |= {"precision": 100 * tp / (tp + fp), "recall": 100 * tp / (tp + fn)}
    clusters = {index: f"photo {int(index) // 4}" for index in right}
    for work_dir in ("one", "other"):
        write_run(tmp_path / work_dir, right, clusters, model=f"{work_dir}-toy", benchmark="POPE", rows=rows, headline=headline)
    found = compared(tmp_path, tmp_path / "one" / "one-toy", "--against", tmp_path / "other" / "other-toy")
    before = (tmp_path / "comparison.json").read_bytes()
    f1 = found["runs"][0]["scores"]["F1"]
    assert f1["interval"] == "bootstrap" and f1["low"] < f1["value"] < f1["high"]
    assert found["comparisons"][0]["differences"]["F1"] | {"standard_error": 0} == {
        **{"value": 0, "standard_error": 0, "low": 0, "high": 0, "interval": "bootstrap", "p": 1}
    }
    argv = ["compare", "one/one-toy", "--against", "other/other-toy", "--json", "again.json"]
    subprocess.run([sys.executable, "-m", "mug_eval", *argv], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "again.json").read_bytes() == before, "neither the process nor the place it is run from matters"


# --- what is refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"config": {"dataset_sha256": "e" * 64}}, "questions differ (they come from different data files)"),
        ({"config": {"image_size": [224, 224]}}, "resolutions differ (224x224, the pictures' own)"),
        ({"judge": "gpt-4o-mini"}, "judges differ (gpt-4o-mini, exact_matching)"),
        ({"scorer": "0.0.21"}, "scorers differ (ms-vlmeval 0.0.21, 0.0.20)"),
        ({"clusters": dict.fromkeys(map(str, range(60)), "one")}, "clusters differ"),
    ],
)
def test_runs_that_differ_in_more_than_their_method_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], said: str
) -> None:
    direct = write_run(tmp_path, hits(0.5, 1))
    mug = write_run(tmp_path, hits(0.6, 2), model="mug-toy", **changes)
    message = refused(capsys, "compare", mug, "--against", direct)
    assert "cannot be compared" in message and said in message and "; " not in message, "that is named, and nothing else"


def test_other_questions_and_other_splits_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    direct = write_run(tmp_path, hits(0.5, 1))
    shorter = write_run(tmp_path, hits(0.5, 1, n=20), model="mug-toy", limit=20)
    assert "questions differ (20 and 60; 0 only in the first, 40 only in the second; --limit 20 and none" in refused(
        capsys, "compare", shorter, "--against", direct
    )
    rows = {str(i): {"A": "yes", "answer": "A", "split": split, "prediction": "A"} for i, split in enumerate(["dev", "validation"])}
    right = dict.fromkeys(rows, True)
    one = write_run(tmp_path / "one", right, rows=rows)
    other = write_run(
        tmp_path / "other", right, model="mug-toy", rows={i: {**row, "split": "validation"} for i, row in rows.items()}
    )
    assert "splits differ (validation, dev, validation)" in refused(capsys, "compare", other, "--against", one)


def test_other_sampling_is_compared_and_said(tmp_path: Path) -> None:
    direct = write_run(tmp_path, hits(0.5, 1))
    mug = write_run(tmp_path, hits(0.6, 2), model="mug-toy", config={"sampling": {"temperature": 0.9}})
    assert (
        "sampling differs between mug-toy and direct-toy: temperature=0.9, "
        in compared(tmp_path, mug, "--against", direct)["notes"]
    )


def test_what_is_not_a_complete_run_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    direct = write_run(tmp_path, hits(0.5, 1))
    assert "nowhere: no such folder" in refused(capsys, "compare", tmp_path / "nowhere", "--against", direct)
    assert "holds no run" in refused(capsys, "compare", tmp_path / "direct-toy", "--against", tmp_path)
    assert "nothing to compare" in refused(capsys, "compare", direct, "--against", tmp_path / "direct-toy")
    assert "is named twice" in refused(capsys, "compare", direct, tmp_path / "direct-toy", "--against", direct)
    mug = write_run(tmp_path, hits(0.6, 2), model="mug-toy")
    (mug / "run.json").unlink()
    assert "is not complete: give its command again" in refused(capsys, "compare", tmp_path / "mug-toy", "--against", direct)
    again = write_run(tmp_path / "again", hits(0.5, 1))
    sc = write_run(tmp_path, hits(0.6, 2), model="sc3-toy", method="sc")
    assert "the same run twice (seed 0)" in refused(capsys, "compare", sc, "--against", direct, again)
    other = write_run(tmp_path / "again", hits(0.5, 1), benchmark="MMStar")
    said = refused(capsys, "compare", sc, "--against", other)
    assert "sc3-toy on ScenesMCQ has nothing to be compared with among direct-toy on MMStar" in said


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("items.tsv", 'index\tcluster\tright\n"0"\t"0"\t2\n'),
        ("items.tsv", "index\tcluster\tright\n"),
        ("predictions.tsv", '"index"\t"prediction"\n"0"\t"A"\n'),
        ("scores.json", "{"),
        ("run.json", "[]"),
    ],
)
def test_a_damaged_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, content: str) -> None:
    direct = write_run(tmp_path, hits(0.5, 1))
    mug = write_run(tmp_path, hits(0.6, 2), model="mug-toy")
    (mug / file).write_text(content)
    assert "a file of this run is damaged" in refused(capsys, "compare", mug, "--against", direct)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"index": "77"}', "line 61 is not a game of this run"),
        ('{"index": "3"}', "line 61 is not a game of this run, or a second one"),
        ("{", "line 61 is not a game of this run"),
        (None, "has no game for 1 questions that were scored"),
    ],
)
def test_a_damaged_game_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str | None, said: str) -> None:
    direct = write_run(tmp_path, hits(0.5, 1))
    mug = write_run(tmp_path, hits(0.6, 2), model="mug-toy")
    games = (mug / "games.jsonl").read_text().splitlines()
    (mug / "games.jsonl").write_text("\n".join(games[:-1] if line is None else [*games, line]) + "\n")
    assert said in refused(capsys, "compare", mug, "--against", direct)


def test_a_game_of_another_shape_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    direct = write_run(tmp_path, hits(0.5, 1, n=1))
    mug = write_run(tmp_path, hits(0.6, 2, n=1), model="mug-toy", games=[{"index": "0", "answer": {}, "facts": [], "events": []}])
    assert "the game '0' has not the shape of a game" in refused(capsys, "compare", mug, "--against", direct)


@pytest.mark.parametrize("config", [{}, {"detection_rounds": 0}, {"detection_rounds": "many"}])
def test_an_undercover_in_a_run_without_votes_is_one_line(
    config: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seats = {"event": "seats", "order": ["Agent 1", "Agent 2", "Agent 3"], "undercover": "Agent 2"}
    facts = {"undercover_played": True, "undercover_found": True, "found_round": 1, "detection_rounds": 1, "normals_lost": 0}
    played = game("0", facts=facts, events=[seats])
    mug = write_run(tmp_path, {"0": True}, model="mug-toy", games=[played], config={"config": config})
    direct = write_run(tmp_path, {"0": True})
    assert "the game '0' has not the shape of a game" in refused(capsys, "compare", mug, "--against", direct)


def test_a_stranger_s_category_does_not_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"A": "yes", "answer": "A", "category": "\x1b[2J[bold]\u202eevil\nand\tmore", "prediction": "A"}
    runs = [write_run(tmp_path, {"0": True, "1": True}, model=f"{m}-toy", rows={"0": row, "1": row}) for m in ("mug", "direct")]
    assert main(["compare", str(runs[0]), "--against", str(runs[1]), "--by", "category"]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\u202e" not in said and "\\x1b[2J[bold]\\u202eevil and more  " in said


@pytest.mark.parametrize(
    ("clusters", "second_found", "gain"),
    [({"0": "same", "1": "same"}, False, "+16.7"), (None, True, "+66.7"), (None, False, "+16.7")],
    ids=["one picture", "all alike", "an interval"],
)
def test_games_of_one_picture_or_all_alike_have_no_interval_against_lots_and_the_line_says_so(
    clusters: dict[str, str] | None, second_found: bool, gain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seats = {"event": "seats", "order": ["Agent 1", "Agent 2", "Agent 3"], "undercover": "Agent 2"}
    found = {"undercover_played": True, "undercover_found": True, "found_round": 1, "detection_rounds": 1, "normals_lost": 0}
    missed = found | {"undercover_found": False, "found_round": None, "normals_lost": 1}
    right = {"0": True, "1": False}
    games = [
        game(index, facts=facts, events=[seats])
        for index, facts in zip(right, (found, found if second_found else missed), strict=True)
    ]
    write_run(tmp_path, right, clusters, model="mug-toy", games=games, config={"config": {"detection_rounds": 3}})
    write_run(tmp_path, right, clusters)
    assert main(["compare", str(tmp_path / "mug-toy"), "--against", str(tmp_path / "direct-toy")]) == 0
    said = capsys.readouterr().out
    assert f"mug-toy: found {gain} points against lots (" in said
    assert ("against lots (no interval)" in said) == (clusters is not None or second_found)


# --- the real thing


def test_real_runs_of_two_benchmarks_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        agent = "You are Agent" in json.dumps(body["messages"])
        return completion(f"Answer: {'No' if agent else 'Yes'}")

    files = [f"{name}={DATA / TINY[name]}" for name in ("POPE", "HallusionBench")]
    with ChatServer(answer) as server:
        argv = ["run", "--method", "direct", "mad-vote", "--backbone", "openai:toy", "--base-url", server.base_url, "--quiet"]
        argv += ["--data", "POPE", "HallusionBench", "--data-file", *files, "--work-dir", str(tmp_path / "out")]
        assert main(argv) == 0
    found = compared(tmp_path, *sorted((tmp_path / "out").glob("[!.]*")), "--against", tmp_path / "out" / "direct-toy")
    assert [(run["label"], run["group"]["benchmark"]) for run in found["runs"]] == [
        (model, benchmark) for model in ("mad-vote-toy", "direct-toy") for benchmark in ("HallusionBench", "POPE")
    ]
    for run in found["runs"]:
        said = json.loads((tmp_path / "out" / run["label"] / run["group"]["benchmark"] / "scores.json").read_text())
        assert {name: score["value"] for name, score in run["scores"].items()} == pytest.approx(said["headline"])
    pope = next(pair for pair in found["comparisons"] if pair["benchmark"] == "POPE")
    assert pope["differences"]["recall"]["value"] == -100, "one says Yes to everything, the other No"
    games = found["runs"][0]["games"]
    assert games["changed"]["first_answers"] == 8 * 3 and games["changed"]["right_to_wrong"]["value"] == 0


# --- planning


def test_a_plan_says_questions_seeds_and_what_the_benchmarks_can_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    assert main(["plan", "--gap", "1.0", "--discordant", "15", "--rerun", "5", "--seeds", "1", "3", "--json", str(file)]) == 0
    (plan,) = json.loads(file.read_text())["plans"]
    # ((1.959964 sqrt(0.15) + 0.841621 sqrt(0.15 - 0.0001)) / 0.01)^2
    assert plan["needs"][0] == {"seeds": 1, "questions": 11771}
    assert plan["needs"][1]["questions"] < 11771
    sizes = {one["benchmark"]: one["questions"] for one in plan["benchmarks"]}
    assert sizes == {
        **{"POPE": 5127, "MMStar": 1500, "HallusionBench": 951, "MMMU_DEV_VAL": 900},
        **{"CommonsenseQA": 1221, "BoolQ": 3270, "CosmosQA": 2985, "HoVer": 4000, "FEVER": 19998, "QuAC": 7354},
    }
    said = capsys.readouterr().out
    assert "11,771" in said and "MMMU_DEV_VAL, 900" in said


def test_seeds_that_change_nothing_are_one_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gap", "1.0"]) == 0
    said = capsys.readouterr().out
    (needed,) = (line for line in said.splitlines() if line.startswith("questions needed"))
    assert needed.split()[2:] == ["11,771"] and "any number" in said and "--rerun" in said
    for argv, columns in ((["--rerun", "5"], ["1", "2", "3", "5", "10"]), (["--seeds", "4"], ["4"])):
        assert main(["plan", "--gap", "1.0", *argv]) == 0
        said = capsys.readouterr().out
        (head,) = (line for line in said.splitlines() if line.startswith("seeds of each method"))
        assert head.split()[4:] == columns and "any number" not in said


def test_a_plan_from_runs_takes_how_often_they_disagree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right, theirs = {str(i): i < 30 for i in range(40)}, {str(i): 10 <= i < 35 for i in range(40)}
    clusters = {str(i): f"picture {i // 5}" for i in range(40)}
    again = {str(i): i < 32 for i in range(40)}
    one, other = write_run(tmp_path, right, clusters, model="mug-toy"), write_run(tmp_path, theirs, clusters)
    second = write_run(tmp_path / "1", again, clusters, model="mug-toy", seed=1)
    file = tmp_path / "plan.json"
    assert main(["plan", "--gap", "2", "--runs", str(one), str(second), "--against", str(other), "--json", str(file)]) == 0
    design = json.loads(file.read_text())["plans"][0]["design"]
    assert design["discordant"] == pytest.approx((15 + 13) / 2 / 40) and design["rerun"] == pytest.approx(2 / 40)
    assert design["design_effect"] > 2, "whole pictures go one way"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--gap", "0"], "more than 0 points"),
        (["--gap", "1e-320"], "more than 0 points"),
        (["--gap", "x"], "'x' is not a number of percent"),
        (["--gap", "1", "--design-effect", "inf"], "the design effect must be at least"),
        (["--gap", "1", "--design-effect", "nan"], "the design effect must be at least"),
        (["--gap", "1", "--alpha", "1e-300"], "alpha must lie between"),
        (["--gap", "30", "--discordant", "10"], "cannot be 30 points apart"),
        (["--gap", "1", "--discordant", "5", "--rerun", "9"], "rerun must not exceed discordant"),
        (["--gap", "1", "--runs", "somewhere"], "--runs and --against belong together"),
        (["--gap", "1", "--power", "2"], "power between alpha and 1"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str], argv: list[str], said: str) -> None:
    assert said in refused(capsys, "plan", *argv)


def test_clusters_that_came_out_alike_are_no_certainty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One fixed and one broken in every cluster: each cluster's difference is 0."""
    right = {str(i): i % 2 == 0 for i in range(60)}
    clusters = {str(i): str(i // 2) for i in range(60)}
    one = write_run(tmp_path, right, model="direct-toy", clusters=clusters)
    other = write_run(tmp_path, {index: not hit for index, hit in right.items()}, model="mug-toy", clusters=clusters)
    assert main(["compare", str(other), "--against", str(one)]) == 0
    said = capsys.readouterr().out
    (row,) = [line for line in said.splitlines() if line.startswith("mug-toy - direct-toy") and "Overall" in line]
    assert "+0.0 to +0.0" in row and not row.split()[-1].endswith("0.0")
    assert "all clusters came out alike, so that the interval has no width" in said


@pytest.mark.parametrize("model", ["mug-toy", "mug-toy@agents-4", "mug-toy@no-undercover", "mug-toy@identical@detection_rounds-2"])
def test_the_control_that_is_asked_for_is_a_name_that_can_be_played(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    right = {str(i): i % 3 == 0 for i in range(30)}
    direct = write_run(tmp_path, right, model="direct-toy")
    mug = write_run(tmp_path, right, model=model, method="mug", price=cost(11.0, 2000, 200, 9.0))
    assert main(["compare", str(mug), "--against", str(direct)]) == 0
    assert "play sc11-toy and name it too" in " ".join(capsys.readouterr().out.split())
