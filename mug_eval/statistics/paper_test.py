"""The test that the MUG paper reports, for putting a number beside its numbers, not for deciding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

LABEL = "one-tailed paired t-test over questions (the paper's; takes questions for independent and the direction for known)"


@dataclass(frozen=True, slots=True)
class PaperTest:
    """The outcome.

    Attributes:
        t: the statistic; NaN where all differences are equal.
        degrees: of freedom.
        p: that the first is better, one-tailed; NaN with ``t``.
    """

    t: float
    degrees: int
    p: float


def paper_test(values: Sequence[float], against: Sequence[float]) -> PaperTest:
    """Student's paired t-test, alternative: the first is better.

    Args:
        values: one a question.
        against: in the same order.

    Raises:
        ValueError: not the same number of questions.
    """
    if len(values) != len(against):
        raise ValueError(f"{len(values)} questions against {len(against)}")
    if len({a - b for a, b in zip(values, against, strict=True)}) < 2:
        return PaperTest(math.nan, len(values) - 1, math.nan)
    found = stats.ttest_rel(values, against, alternative="greater")
    return PaperTest(float(found.statistic), len(values) - 1, float(found.pvalue))
