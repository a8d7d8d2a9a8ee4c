"""Two runs on the same questions."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from scipy import stats

from mug_eval.statistics.intervals import DIFFERENCE, Estimate, mean_interval


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
    return Paired(mean_interval(differences, clusters, level, DIFFERENCE), fixed, broken, mcnemar(fixed, broken))


def mcnemar(fixed: int, broken: int) -> float:
    """The exact two-sided McNemar test; 1 where the runs never differ."""
    return float(stats.binomtest(fixed, fixed + broken).pvalue) if fixed + broken else 1.0


def correlation(values: Sequence[float], against: Sequence[float]) -> float:
    """Pearson's correlation of two runs over questions (of right and wrong: phi); NaN where one of them never varies.

    The higher it is, the more a paired comparison gains (Miller 2024, arXiv 2411.00640, on paired differences).
    """
    if len(set(values)) < 2 or len(set(against)) < 2:
        return math.nan
    return float(stats.pearsonr(values, against).statistic)


def smallest_difference(standard_error: float, clusters: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """The smallest true difference that a comparison with this standard error finds with the given power.

    The minimum detectable effect of Bloom (1995, Evaluation Review 19(5)): the quantiles of Student's t that the test and the power
    ask for, added up, times the error.

    Args:
        standard_error: of the difference, clustered; the result has its unit.
        clusters: how many; NaN comes out with fewer than two, and where the error is 0: clusters that came out alike tell nothing of
            how far they may be off.
        alpha: of the two-sided test.
        power: how often a true difference is to be found.
    """
    if clusters < 2 or standard_error < 1e-9:
        return math.nan
    return float(stats.t.ppf(1 - alpha / 2, clusters - 1) + stats.t.ppf(power, clusters - 1)) * standard_error


def holm(p: Sequence[float]) -> list[float]:
    """P-values of several tests, so that the chance of even one false finding stays below the level (Holm 1979, Scand. J. Stat. 6)."""
    adjusted = [1.0] * len(p)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        highest = max(highest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = highest
    return adjusted
