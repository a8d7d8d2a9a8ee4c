"""``mug-eval scenes``: tables that VLMEvalKit's own classes load and score, with counterfactual pictures that fit."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mug_eval.benchmarks import Benchmark, load_task, open_benchmark
from mug_eval.cli import main
from mug_eval.counterfactual.folder import CounterfactualFolder
from mug_eval.errors import UserError
from mug_eval.question import Answer
from mug_eval.reference_vlm.benchmark_files import BENCHMARKS, write_benchmarks

QUESTIONS = 24


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("scenes")
    assert main(["scenes", "--out", str(out), "--questions", str(QUESTIONS), "--seed", "3"]) == 0
    return out


def opened(written: Path, name: str, work_dir: Path, **settings: Any) -> Benchmark:
    return open_benchmark(load_task(name), work_dir=work_dir, data_file=written / f"{name}.tsv", **settings)


def gold(written: Path, name: str) -> dict[str, str]:
    table = pd.read_csv(written / f"{name}.tsv", sep="\t", dtype=str, keep_default_na=False)
    return dict(zip(table["index"], table["answer"], strict=True))


NAMES = [benchmark.name for benchmark in BENCHMARKS]


@pytest.mark.parametrize("name", NAMES)
def test_true_answers_score_a_hundred_and_others_nothing(written: Path, tmp_path: Path, name: str) -> None:
    benchmark = opened(written, name, tmp_path)
    truth = gold(written, name)
    assert len(benchmark.indices) == QUESTIONS
    others = {"Yes": "No", "No": "Yes", "A": "B", "B": "A", "C": "A", "D": "A"}
    for answers, expected in ((truth, 100), ({index: others.get(answer, "nothing") for index, answer in truth.items()}, 0)):
        predictions = {index: benchmark.prediction(index, Answer(answers[index])) for index in benchmark.indices}
        benchmark.write_predictions(tmp_path / "predictions.tsv", predictions)
        assert set(benchmark.score(tmp_path / "predictions.tsv", "exact_matching").headline.values()) == {expected}


@pytest.mark.parametrize("name", NAMES)
def test_nearly_every_question_has_a_counterfactual_picture_that_changes_its_answer(
    written: Path, tmp_path: Path, name: str
) -> None:
    folder = CounterfactualFolder(written / "counterfactuals")
    assert len(folder.sha256) == 64  # reads every file and compares it with the manifest
    benchmark = opened(written, name, tmp_path, counterfactuals=folder)
    questions = [benchmark.question(index) for index in benchmark.indices]
    altered = [question for question in questions if question.altered is not None]
    assert len(altered) >= QUESTIONS * 0.9
    for question in altered:
        assert question.altered is not None
        assert question.altered.prompt != question.prompt
        assert {"edit", "target", "instruction"} <= set(dict(question.altered.edit))
        assert all(image.width == image.height == 168 for image in question.images)


def test_the_manifest_says_how_the_answer_changes(written: Path) -> None:
    entries = [json.loads(line) for line in (written / "counterfactuals" / "manifest.jsonl").read_text().splitlines()]
    first = [
        entry for entry in entries if not entry["file"].endswith("_1_1.png") or not entry["file"].startswith("ScenesHallusion")
    ]
    assert len(entries) >= 4 * QUESTIONS * 0.9
    assert all(entry["answer_before"] != entry["answer_after"] for entry in first)


def test_pope_has_each_kind_of_negative_and_as_many_yes_as_no(written: Path) -> None:
    table = pd.read_csv(written / "ScenesPOPE.tsv", sep="\t")
    assert Counter(table["answer"]) == {"Yes": QUESTIONS // 2, "No": QUESTIONS // 2}
    assert Counter(table["category"]) == {"random": 8, "popular": 8, "adversarial": 8}


def test_hallusion_sets_ask_the_same_of_both_figures_and_one_answer_turns(written: Path) -> None:
    table = pd.read_csv(written / "ScenesHallusion.tsv", sep="\t")
    rows = {tuple(index.split("_")[3:]): row for index, row in zip(table["index"], table.to_dict("records"), strict=True)}
    for number in range(QUESTIONS // 4):
        (a, b), (c, d) = ([rows[str(number), figure, place] for figure in "01"] for place in "01")
        assert a["question"] == b["question"] and a["answer"] != b["answer"]
        assert c["question"] == d["question"] and c["answer"] == d["answer"]
        assert a["image"] == c["image"] != b["image"] == d["image"]


def test_mmmu_has_questions_about_two_pictures_with_options_and_open(written: Path, tmp_path: Path) -> None:
    benchmark = opened(written, "ScenesMMMU", tmp_path)
    forms = Counter((question.answer_format.kind, len(question.images)) for question in map(benchmark.question, benchmark.indices))
    assert forms == {("choice", 2): 8, ("choice", 1): 8, ("open", 1): 8}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_ones(written: Path, tmp_path: Path) -> None:
    again, other = write_benchmarks(tmp_path / "again", QUESTIONS, 3), write_benchmarks(tmp_path / "other", QUESTIONS, 4)
    for name in NAMES:
        assert again[name].read_bytes() == (written / f"{name}.tsv").read_bytes() != other[name].read_bytes()
    manifests = [folder / "counterfactuals" / "manifest.jsonl" for folder in (tmp_path / "again", written)]
    assert manifests[0].read_bytes() == manifests[1].read_bytes()


def test_too_few_questions_are_a_users_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenes", "--out", str(tmp_path), "--questions", "3"]) == 2
    assert "12" in capsys.readouterr().err


def test_a_drawn_benchmark_without_a_file_says_how_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mug-eval scenes --out DIR writes it; then --data-file ScenesMCQ="):
        open_benchmark(load_task("ScenesMCQ"), work_dir=tmp_path)
