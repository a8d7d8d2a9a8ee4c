"""What we resample is what the unmodified scorers count, on random tables and on random resamples of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import write_run
from tables import mmmu_row, mmstar_row, picture, pope_row, write_table

from mug_eval.benchmarks import load_task, open_benchmark
from mug_eval.benchmarks.exchange import UNPARSED
from mug_eval.errors import UserError
from mug_eval.statistics.bootstrap import resample
from mug_eval.statistics.definition import clustered_error, sums_of
from mug_eval.statistics.intervals import cluster_error
from mug_eval.statistics.runs import Run, read_run

Rows = list[dict[str, Any]]


def pope(rng: random.Random) -> Rows:
    kinds = ["random", "popular", "adversarial", "random,popular", "random,popular,adversarial"]
    return [
        pope_row(
            0, answer=rng.choice(["Yes", "No"]), category=rng.choice(kinds), cluster=photo, said=rng.choice(["Yes", "No", UNPARSED])
        )
        for photo in range(9)
        for _ in range(rng.randint(1, 5))
    ]


def hallusion(rng: random.Random) -> Rows:
    rows = []
    for number in range(9):
        l2, kind = rng.choice(["chart", "map_1", "ocr"]), rng.choice(["VD", "VS"])
        for figure in range(rng.randint(1, 3)):
            for question in range(rng.randint(1, 3)):
                answer = rng.choice(["Yes", "No"])
                rows.append(
                    {
                        **{
                            "index": f"{kind}_{l2.replace('_', '-')}_1_{{set}}_{figure}_{question}",
                            "set": number,
                            "cluster": number,
                        },
                        **{"question": "Is it?", "answer": answer, "category": kind, "l2-category": l2, "image": picture()},
                        "said": answer if rng.random() < 0.8 else rng.choice(["Yes", "No", UNPARSED]),
                    }
                )
    return rows


def mmstar(rng: random.Random) -> Rows:
    return [
        mmstar_row(
            0, answer=rng.choice("ABCD"), category=rng.choice(["a", "b"]), cluster=photo, said=rng.choice(["A", "B", UNPARSED])
        )
        for photo in range(9)
        for _ in range(rng.randint(1, 4))
    ]


def mmmu(rng: random.Random) -> Rows:
    return [
        mmmu_row(0, answer=rng.choice("AB"), category=rng.choice(["Art", "Law"]), cluster=photo, said=rng.choice(["A", "B"]))
        for photo in range(9)
        for _ in range(rng.randint(1, 3))
    ]


MAKE = {"POPE": pope, "HallusionBench": hallusion, "MMStar": mmstar, "MMMU_DEV_VAL": mmmu}


def played(name: str, folder: Path, rows: Sequence[dict[str, Any]]) -> Run:
    """A run of random answers, scored by VLMEvalKit."""
    table, said = [], {}
    for number, row in enumerate(rows, 1):
        row = dict(row)
        shown = picture(f"#{row.pop('cluster'):06x}")
        index = row["index"].format(set=row.pop("set")) if name == "HallusionBench" else str(number)
        said[index] = row.pop("said")
        pictured = {"image": str([shown]), "image_path": f"['{number}.png']"} if name == "MMMU_DEV_VAL" else {"image": shown}
        table.append({**row, "index": index if name == "HallusionBench" else number, **pictured})
    folder.mkdir()
    benchmark = open_benchmark(load_task(name), work_dir=folder, data_file=write_table(folder / "table.tsv", table))
    benchmark.write_predictions(folder / "predictions.tsv", said)
    scores = benchmark.score(folder / "predictions.tsv", "exact_matching")
    written = write_run(
        folder, scores.right, {index: benchmark.cluster(index) for index in scores.right}, benchmark=name, headline=scores.headline
    )
    (folder / "predictions.tsv").replace(written / "predictions.tsv")
    return read_run(written)


@pytest.mark.parametrize("name", sorted(MAKE))
@pytest.mark.parametrize("seed", range(2))
def test_scores_and_resampled_scores_are_the_unmodified_scorer_s(tmp_path: Path, name: str, seed: int) -> None:
    rng = random.Random(seed)
    rows = MAKE[name](rng)
    run = played(name, tmp_path / "once", rows)
    sums = sums_of(run)
    assert dict(zip(sums.names, sums.values, strict=True)) == pytest.approx(run.scores["headline"], abs=1e-9)
    assert len(sums.top) == 9, "one cluster a picture, or a set"

    # Draw clusters with replacement, and let the scorer score a table in which every draw is a cluster of its own.
    drawn = [rng.randrange(9) for _ in range(9)]
    again = [
        {**row, "cluster": place, "set": place} for place, number in enumerate(drawn) for row in rows if row["cluster"] == number
    ]
    if name != "HallusionBench":
        again = [{key: value for key, value in row.items() if key != "set"} for row in again]
    names = {row["cluster"]: key for row, key in zip(rows, run.clusters.values(), strict=True)}
    order = sorted(set(run.clusters.values()))
    weights = np.array([sum(names[number] == key for number in drawn) for key in order], dtype=float)
    resampled = sums.scores(weights @ sums.top, weights @ sums.bottom)
    assert dict(zip(sums.names, resampled, strict=True)) == pytest.approx(
        played(name, tmp_path / "again", again).scores["headline"], abs=1e-9
    )


def test_a_pope_run_that_never_says_yes_has_no_precision_and_no_f1(tmp_path: Path) -> None:
    rows = [pope_row(0, answer=answer, cluster=place, said="No") for place, answer in enumerate(["Yes", "No", "No"])]
    run = played("POPE", tmp_path / "run", rows)
    assert dict(zip(sums_of(run).names, sums_of(run).values, strict=True)) == pytest.approx(
        {"acc": 200 / 3, "F1": 0, "precision": 0, "recall": 0}
    )


def test_files_that_do_not_give_the_scorer_s_score_are_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path, {"1": True, "2": False}, headline={"Overall": 75.0})
    with pytest.raises(UserError, match=r"Overall is 50\.0+ by items\.tsv .* 75\.0 by scores\.json"):
        sums_of(read_run(folder))


def test_a_share_s_error_is_that_of_the_mean_and_every_influence_adds_up_to_nothing(tmp_path: Path) -> None:
    rng = random.Random(5)
    right = {str(i): rng.random() < 0.6 for i in range(40)}
    clusters = {str(i): f"c{i % 7}" for i in range(40)}
    run = read_run(write_run(tmp_path, right, clusters))
    influence = sums_of(run).influence
    assert clustered_error(influence)[0] == pytest.approx(
        100 * cluster_error(list(map(float, right.values())), list(clusters.values()))[0]
    )
    assert influence.sum() == pytest.approx(0, abs=1e-9)


def test_the_error_of_f1_is_that_of_the_bootstrap(tmp_path: Path) -> None:
    # The delta method and resampling are two ways to one number; they agree where clusters are many.
    rng = random.Random(2)
    right, rows, clusters = {}, {}, {}
    counts = {"tp": 0, "fp": 0, "fn": 0}
    for i in range(600):
        gold, skill = rng.choice(["Yes", "No"]), 0.6 + 0.3 * (i // 3 % 2)
        hit = rng.random() < skill
        said = gold if hit else {"Yes": "No", "No": "Yes"}[gold]
        right[str(i)], clusters[str(i)] = hit, f"c{i // 3}"
        rows[str(i)] = {"answer": gold, "category": "random", "prediction": said}
        counts["tp"] += gold == said == "Yes"
        counts["fp"] += gold == "No" and said == "Yes"
        counts["fn"] += gold == "Yes" and said == "No"
    tp, fp, fn = counts.values()
    f1 = 200 * tp / (2 * tp + fp + fn)
    headline = {"acc": 100 * sum(right.values()) / 600, "F1": f1, "precision": 100 * tp / (tp + fp), "recall": 100 * tp / (tp + fn)}
    sums = sums_of(read_run(write_run(tmp_path, right, clusters, benchmark="POPE", rows=rows, headline=headline)))
    (drawn,) = resample([[sums]], seed=0, resamples=4000)
    assert drawn.scores.std(axis=0, ddof=1) == pytest.approx(clustered_error(sums.influence), rel=0.06)
