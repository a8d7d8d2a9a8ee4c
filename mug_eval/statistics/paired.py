"""Two runs on the same questions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from scipy import stats

from mug_eval.statistics.intervals import Estimate, mean_interval


@dataclass(frozen=True, slots=True)
class Paired:
    """One run against another.

    Attributes:
        difference: of the accuracies, question by question, with its interval.
        fixed: questions that only the first answers rightly.
        broken: questions that only the second answers rightly.
        p: two-sided exact McNemar test (1947, Psychometrika 12): fixed and broken ones equally likely. It takes questions for
            independent.
    """

    difference: Estimate
    fixed: int
    broken: int
    p: float


def compare_hits(hits: Sequence[bool], against: Sequence[bool], clusters: Sequence[Hashable], level: float = 0.95) -> Paired:
    """Compare two runs, question by question.

    Args:
        hits: whether the first is right.
        against: whether the second is right, in the same order.
        clusters: the cluster of each question.
        level: of the interval.

    Raises:
        ValueError: not the same number of questions, or none.
    """
    if len(hits) != len(against):
        raise ValueError(f"{len(hits)} questions against {len(against)}")
    fixed = sum(bool(a) and not b for a, b in zip(hits, against, strict=True))
    broken = sum(bool(b) and not a for a, b in zip(hits, against, strict=True))
    differences = [float(a) - float(b) for a, b in zip(hits, against, strict=True)]
    p = float(stats.binomtest(fixed, fixed + broken).pvalue) if fixed + broken else 1.0
    return Paired(mean_interval(differences, clusters, level), fixed, broken, p)
