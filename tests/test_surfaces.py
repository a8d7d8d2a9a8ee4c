"""One run's numbers are the same wherever they are shown, and those that a reader gets by hand from its files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import game, write_run

from mug_eval.benchmarks import load_task
from mug_eval.leaderboard.entry import make_entry
from mug_eval.leaderboard.reference import read_reference
from mug_eval.report.families import find_families, fixed_and_broken
from mug_eval.report.figures import figures_of, finished_groups
from mug_eval.statistics.compare import compare
from mug_eval.statistics.games import game_statistics
from mug_eval.statistics.measure import measure
from mug_eval.statistics.runs import Group, find_runs
from mug_eval.studies.reported import reported, source

REFERENCE = Path(__file__).resolve().parents[1] / "leaderboards" / "reference"
QUESTIONS, PICTURES = 60, 20
SPLITS = ("random", "popular", "random,popular", "adversarial")
CONFIG = {
    "method_sha256": "a" * 64,
    "fingerprint": "openai:toy@local",
    "sampling": {"temperature": None, "top_p": None, "top_k": None, "max_tokens": 2048, "seed": None},
}


def pope_run(out: Path, method: str, share: float, seed: int) -> tuple[Path, dict[str, np.ndarray]]:
    """A run on POPE with several questions a picture and rows that count twice, and what is to be counted of it."""
    rng = np.random.default_rng(seed)
    gold, right = np.arange(QUESTIONS) % 2 == 0, rng.random(QUESTIONS) < share
    said = gold == right
    weight = np.array([SPLITS[place % 4].count(",") + 1 for place in range(QUESTIONS)])
    true, true_said = weight @ gold, weight @ (gold & said)
    by_hand = {
        "acc": 100 * (weight @ right) / weight.sum(),
        "precision": 100 * true_said / (weight @ said),
        "recall": 100 * true_said / true,
        "F1": 100 * 2 * true_said / (weight @ said + true),
    }
    rows = {
        str(place): {
            "answer": "Yes" if gold[place] else "No",
            "category": SPLITS[place % 4],
            "prediction": "Yes" if said[place] else "No",
        }
        for place in range(QUESTIONS)
    }
    headline = {name: by_hand[name] for name, _ in load_task("POPE").scores.numbers}
    folder = write_run(
        out,
        {index: bool(right[int(index)]) for index in rows},
        {index: f"picture {int(index) % PICTURES}" for index in rows},
        model=f"{method}-toy",
        benchmark="POPE",
        rows=rows,
        headline=headline,
        games=[game(index) for index in rows],
        config=CONFIG,
    )
    for name, more in (("scores.json", {"unparsed": 0}), ("run.json", {"finished": "2026-01-02T03:04:05+00:00", "notes": []})):
        value = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**value, **more}))
    return folder, {**by_hand, "right": right, "weight": weight}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    out = tmp_path_factory.mktemp("surfaces")
    return out, {method: pope_run(out, method, share, seed)[1] for method, share, seed in (("cot", 0.8, 1), ("direct", 0.6, 2))}


def test_every_surface_shows_the_numbers_made_by_hand(played: tuple[Path, dict[str, dict[str, Any]]]) -> None:
    out, hand = played
    group, base = (Group((run,)) for run in find_runs([out / "cot-toy", out / "direct-toy"]))
    compared = compare([group], [base])
    of_compare = compared.scored[0].scores
    (of_study, _) = measure([group, base], [base, None])
    (family,) = find_families(out).families
    (on_page,) = [member for member in family.members if member.label == "cot-toy"]
    (chart,) = [one.chart for one in figures_of(finished_groups(out)) if one.name == "POPE-cost"]
    (point,) = next(series for series in chart.panels[0].series if series.label == "cot-toy").points
    entry = {score["name"]: score for score in make_entry(group)["scores"]}
    assert next(iter(of_compare)) == "acc" and (point.y, point.low, point.high) == (
        of_compare["acc"].value,
        of_compare["acc"].low,
        of_compare["acc"].high,
    )
    for name, score in of_compare.items():
        assert score.value == pytest.approx(hand["cot"][name])
        # The study and the page draw the same resamples as compare: not near it, the same.
        assert repr(of_study.scores[name]) == repr(score)
        assert repr(on_page.scored.scores[name]) == repr(score)
        for part in ("value", "low", "high", "standard_error"):
            assert entry[name][part] == round(getattr(score, part), 4), f"{name} {part} on the board"
        assert entry[name]["interval"] == score.interval == "bootstrap", "a row that counts twice makes no plain share"


def test_the_difference_and_its_error_are_those_made_by_hand(played: tuple[Path, dict[str, dict[str, Any]]]) -> None:
    out, hand = played
    group, base = (Group((run,)) for run in find_runs([out / "cot-toy", out / "direct-toy"]))
    pair = compare([group], [base]).compared[0]
    (of_study, _) = measure([group, base], [base, None])
    mine, theirs, weight = hand["cot"]["right"], hand["direct"]["right"], hand["cot"]["weight"]
    gap = mine.astype(float) - theirs
    mean = (weight @ gap) / weight.sum()
    clusters = np.arange(QUESTIONS) % PICTURES
    parts = np.array([(weight * (gap - mean))[clusters == one].sum() for one in range(PICTURES)]) / weight.sum()
    error = 100 * math.sqrt((parts**2).sum() * PICTURES / (PICTURES - 1))
    change = pair.differences["acc"]
    assert change.value == pytest.approx(100 * mean) and change.standard_error == pytest.approx(error)
    assert of_study.against is not None and repr(of_study.against.differences["acc"]) == repr(change)
    counts = (int((mine & ~theirs).sum()), int((theirs & ~mine).sum()))
    on_page = fixed_and_broken(group.runs[0], base.runs[0])
    assert (
        counts == (pair.fixed, pair.broken) == (of_study.against.fixed, of_study.against.broken) == (on_page.fixed, on_page.broken)
    )
    (drawn,) = [one.chart for one in figures_of(finished_groups(out)) if one.name == "POPE-changes"]
    assert tuple(abs(series.points[0].y) for series in drawn.panels[0].series) == counts


def test_a_question_of_two_of_popes_splits_counts_in_each_as_its_scorer_has_it(
    played: tuple[Path, dict[str, dict[str, Any]]],
) -> None:
    out, hand = played
    (run,) = find_runs([out / "cot-toy"])
    parts = game_statistics(Group((run,))).by["category"]
    assert parts.keys() == {"random", "popular", "adversarial"}, "no part is made of two splits"
    for split in parts:
        inside = np.array([split in SPLITS[place % 4].split(",") for place in range(QUESTIONS)])
        assert parts[split].games == inside.sum()
        assert parts[split].right.value == pytest.approx(hand["cot"]["right"][inside].mean())


def test_the_papers_numbers_are_the_same_beside_a_study_and_on_the_board() -> None:
    beside = {
        (line.backbone, line.arm, line.benchmark, score): value
        for line in reported("main-table")
        for score, value in line.values.items()
    }
    rows = [row for row in read_reference(REFERENCE) if row.id.startswith("mug-paper/")]
    assert beside and beside == {(row.backbone, row.method, row.benchmark, row.score_name): row.score for row in rows}
    assert {row.source for row in rows} == {source().rsplit(", ", 1)[1]}
    assert all(row.date.startswith(source().split("published ")[1].split(",")[0]) for row in rows)
