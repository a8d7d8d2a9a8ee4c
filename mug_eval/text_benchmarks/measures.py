"""What one answer is worth; statistics take it from here again when they resample."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from mug_eval.benchmarks.task import AnswerStyle
from mug_eval.text_benchmarks.f1 import agreement, f1

_ROUNDING = 1e-9
"""By which two means of the same overlaps may differ, added up in another order."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One answer.

    Attributes:
        right: whether it is the right option; of an open answer, whether it is as close to the references as they are to each other.
        f1: of an open answer, 0 to 1; else 1 or 0.
    """

    right: bool
    f1: float


def measure(answers: AnswerStyle, prediction: str, gold: Sequence[str]) -> Measured:
    """Measure a prediction.

    Args:
        answers: the task's style.
        prediction: as it stands in ``predictions.tsv``.
        gold: the right letter, or the references.
    """
    if answers != "open":
        right = prediction == gold[0]
        return Measured(right, float(right))
    reached = f1(prediction, gold)
    return Measured(reached >= agreement(gold) - _ROUNDING, reached)


def references_text(answers: AnswerStyle, gold: Sequence[str]) -> str:
    """Gold as one cell: the letter, or the references as a JSON list."""
    return json.dumps(list(gold)) if answers == "open" else gold[0]


def references_in(answers: AnswerStyle, cell: str) -> tuple[str, ...]:
    """Gold from a cell of ``predictions.tsv``.

    Raises:
        ValueError: no list of texts where there must be one.
    """
    if answers != "open":
        return (cell,)
    gold = json.loads(cell)
    if not isinstance(gold, list) or not gold or not all(isinstance(one, str) for one in gold):
        raise ValueError("the column answer holds no list of references")
    return tuple(gold)
