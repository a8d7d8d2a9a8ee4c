"""The exchange file: a TSV that VLMEvalKit's scorers read back with every text as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from mug_eval.benchmarks.table import MISSING_WORDS
from mug_eval.question import Answer, AnswerFormat, Unparsed

UNPARSED = "Cannot determine the answer"
"""Read by the scorers as no answer: option Z (without a judge and without their random draw), Unknown for Yes/No."""

_THEIR_OWN = frozenset({"image", "prediction", "gt", "hit", "log", "score", "extracted"})
_MISSING_FOLDED = frozenset(word.lower() for word in MISSING_WORDS)


def prediction_text(answer: Answer | Unparsed, answer_format: AnswerFormat) -> str:
    """An answer as the scorers should read it: a letter, Yes or No, or an open answer in lower case.

    The scorer of open answers compares in lower case (vlmeval.utils.matching_util: can_infer_text), but takes a capital ``A`` for
    the option A, into which it has put the right answer: so without lower case "A dog" would be right for "cat".
    """
    if isinstance(answer, Unparsed):
        return UNPARSED
    if answer_format.kind != "open":
        return answer.value
    lower = answer.value.replace("\x00", "").lower()
    if not lower.strip():
        return UNPARSED
    return lower + " " if lower.split()[-1] in _MISSING_FOLDED else lower


def exchange_bytes(data: Any, predictions: Mapping[str, str]) -> bytes:
    """The exchange file of a dataset.

    All columns but the pictures and those that the scorers make themselves. A cell that pandas would take for missing gets a
    space at its end. Every cell is quoted.

    Args:
        data: the dataset's DataFrame.
        predictions: index -> prediction; rows without one are left out.
    """
    rows = data[[str(index) in predictions for index in data["index"]]]
    columns: dict[str, Any] = {}
    taken = set(_THEIR_OWN)
    for name in map(str, rows.columns):
        # The multiple-choice scorer lower-cases all names but option letters: two that then agree would overwrite each other.
        theirs = name if len(name) == 1 and name.isupper() else name.lower()
        if theirs not in taken:
            taken.add(theirs)
            columns[name] = [_cell(cell) for cell in rows[name]]
    spelled = [_cell(predictions[str(index)]) for index in rows["index"]]
    gold = [_number(cell) for cell in columns.get("answer", [])]
    if None not in gold and any(isinstance(number, float) for number in gold):
        # Nothing but numbers, one with a point: the scorer reads the right answer 3 as 3.0 and looks for that.
        spelled = [text if (number := _number(text)) is None else str(float(number)) for text in spelled]
    columns["prediction"] = spelled
    text: str = pd.DataFrame(columns).to_csv(sep="\t", index=False, quoting=1, lineterminator="\n")
    return text.encode("utf-8")


def _number(text: Any) -> int | float | None:
    """A text as the number that pandas would read, or None."""
    for kind in (int, float):
        try:
            return kind(text)
        except (ValueError, TypeError):
            continue
    return None


def guard_words(data: Any) -> Any:
    """A table whose texts are still there after pandas wrote and read it; pictures are left alone."""
    return data.assign(**{name: [_cell(cell) for cell in data[name]] for name in data.columns if name != "image"})


def _cell(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    # A reply may hold half of a surrogate pair, which no file can.
    text = cell.replace("\x00", "").encode("utf-8", errors="replace").decode("utf-8")
    return text + " " if text in MISSING_WORDS else text
