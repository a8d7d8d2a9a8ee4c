"""Tables for tests: the project's own tiny ones, and ones written on the spot."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

DATA = Path(__file__).parent / "data"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"

TINY = {
    "POPE": "tiny_pope.tsv",
    "HallusionBench": "tiny_hallusion.tsv",
    "MMStar": "tiny_mmstar.tsv",
    "MMMU_DEV_VAL": "tiny_mmmu.tsv",
}


def picture(colour: str = "red", size: tuple[int, int] = (24, 24), mode: str = "RGB", kind: str = "PNG", **options: Any) -> str:
    """A plain picture as base64."""
    buffer = io.BytesIO()
    Image.new(mode, size, colour).save(buffer, kind, **options)
    return base64.b64encode(buffer.getvalue()).decode()


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], columns: Iterable[str] | None = None) -> Path:
    """A TSV with every cell quoted, as VLMEvalKit itself writes them."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(columns or rows[0]), delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def pope_row(index: Any = 0, **changes: Any) -> dict[str, Any]:
    row = {"index": index, "question": "Is there a dog?", "answer": "Yes", "category": "random", "image": picture()}
    return row | changes


def mmstar_row(index: Any = 0, **changes: Any) -> dict[str, Any]:
    options = {"A": "a dog", "B": "a cat", "C": "a bird", "D": "a fish"}
    row = {"index": index, "question": "What is it?", **options, "answer": "A", "category": "animals", "image": picture()}
    return row | changes


def mmmu_row(index: Any = 1, **changes: Any) -> dict[str, Any]:
    row = {
        **{"index": index, "question": "What is in <image 1>?", "A": "a dog", "B": "a cat", "answer": "A", "category": "Animals"},
        **{"l2-category": "Pets", "split": "validation", "image": str([picture()]), "image_path": f"['row_{index}_1.png']"},
    }
    return row | changes


ROW = {"POPE": pope_row, "MMStar": mmstar_row, "MMMU_DEV_VAL": mmmu_row}
