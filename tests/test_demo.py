"""The reference model through the whole harness: it answers from the picture it is shown; ``mug-eval demo`` plays every protocol."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import pytest

from mug_eval.cli import main
from mug_eval.cli.demo import BASE, METHODS
from mug_eval.reference_vlm.benchmark_files import write_benchmarks

csv.field_size_limit(sys.maxsize)


def accuracy(folder: Path, table: Path, name: str) -> float:
    """``direct-reference`` over a ScenesPOPE table, in percent."""
    work_dir = folder / name
    argv = ["run", "--model", "direct-reference", "--data", "ScenesPOPE", "--data-file", f"ScenesPOPE={table}", "--quiet"]
    assert main([*argv, "--work-dir", str(work_dir)]) == 0
    scores = json.loads((work_dir / "direct-reference" / "ScenesPOPE" / "scores.json").read_text())
    assert scores["unparsed"] == 0
    return float(scores["headline"]["acc"])


def test_a_swapped_picture_shows_as_a_lower_score(tmp_path: Path) -> None:
    table = write_benchmarks(tmp_path, 120, 5, names=("ScenesPOPE",))["ScenesPOPE"]
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    pictures = [row["image"] for row in rows]
    for row, picture in zip(rows, pictures[60:] + pictures[:60], strict=True):  # another scene's: six questions share one
        row["image"] = picture
    swapped = tmp_path / "swapped.tsv"
    with swapped.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    own, others = accuracy(tmp_path, table, "own"), accuracy(tmp_path, swapped, "swapped")
    assert own >= 80
    assert others <= own - 20


def test_the_demonstration_plays_every_protocol_and_says_what_came_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["demo", "--questions", "20", "--out", str(tmp_path / "demo")]
    assert main(argv) == 0
    said = capsys.readouterr().out
    for method in (BASE, *METHODS):
        assert f"{method}-reference" in said
        (run,) = (tmp_path / "demo").glob(f"results-20-0/*/{method}-reference/ScenesMCQ/run.json")
        assert json.loads(run.read_text())["counts"]["played"] == 20
    (games,) = (tmp_path / "demo").glob("results-20-0/*/mug-reference/ScenesMCQ/games.jsonl")
    assert all(json.loads(line)["facts"]["undercover_played"] for line in games.read_text().splitlines())


def test_the_shipped_model_is_not_taken_for_one_that_knows_more_than_drawn_scenes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenes = write_benchmarks(tmp_path, 12, 5, names=("ScenesPOPE",))["ScenesPOPE"]
    texts = Path(__file__).with_name("data") / "text" / "boolq.jsonl"
    argv = ["run", "--method", "direct", "cot", "--backbone", "reference", "--limit", "2", "--work-dir", str(tmp_path / "out")]
    files = [f"BoolQ={texts}", f"ScenesPOPE={scenes}"]
    assert main([*argv, "--data", "BoolQ", "ScenesPOPE", "--data-file", *files]) == 0
    said = capsys.readouterr().err
    assert said.count("BoolQ: reference was trained on drawn scenes only") == said.count("trained on drawn scenes only") == 1
    for method in ("direct", "cot"):
        notes = {
            name: json.loads((tmp_path / "out" / f"{method}-reference" / name / "run.json").read_text())["notes"]
            for name in ("BoolQ", "ScenesPOPE")
        }
        assert sum("trained on drawn scenes only" in note for note in notes["BoolQ"]) == 1
        assert not any("trained on" in note for note in notes["ScenesPOPE"])
