"""How far a mean over questions may be from what more questions would give.

Questions about one picture are not independent, so residuals are added up within a cluster before they are squared: the
cluster-robust variance of a mean (Liang and Zeger 1986, Biometrika 73(1), with the usual G/(G-1); for evaluations: Miller 2024,
arXiv 2411.00640, eq. 4).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from scipy import stats


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval.

    Attributes:
        value: the mean.
        n: questions.
        clusters: groups of dependent questions.
        standard_error: of the mean, clustered; NaN with fewer than two clusters.
        low: lower end of the interval; NaN where the error is.
        high: upper end.
    """

    value: float
    n: int
    clusters: int
    standard_error: float
    low: float
    high: float


def cluster_error(values: Sequence[float], clusters: Sequence[Hashable]) -> tuple[float, int]:
    """The clustered standard error of a mean, and the number of clusters.

    Args:
        values: one a question.
        clusters: the cluster of each.

    Raises:
        ValueError: no values, or not as many clusters as values.
    """
    if not values or len(values) != len(clusters):
        raise ValueError("a mean needs values, and a cluster for each")
    mean = math.fsum(values) / len(values)
    sums: dict[Hashable, float] = {}
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] = sums.get(cluster, 0.0) + value - mean
    count = len(sums)
    if count < 2:
        return math.nan, count
    variance = math.fsum(total * total for total in sums.values()) / len(values) ** 2 * count / (count - 1)
    return math.sqrt(variance), count


ANY: Final = (-math.inf, math.inf)
SHARE: Final = (0.0, 1.0)
DIFFERENCE: Final = (-1.0, 1.0)
"""Where a mean can lie: of anything, of shares, of differences of shares."""


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable], level: float = 0.95, within: tuple[float, float] = ANY
) -> Estimate:
    """A mean with its t interval, as many degrees of freedom as clusters less one.

    Args:
        values: one a question, on any scale; a difference between two runs, for instance.
        clusters: the cluster of each.
        level: of the interval.
        within: where the mean can lie; with few clusters the t interval reaches past it, and is cut there.
    """
    error, count = cluster_error(values, clusters)
    mean = math.fsum(values) / len(values)
    reach = float(stats.t.ppf(0.5 + level / 2, count - 1)) * error if count > 1 else math.nan
    return Estimate(mean, len(values), count, error, max(mean - reach, within[0]), min(mean + reach, within[1]))


def share_interval(hits: Sequence[bool], clusters: Sequence[Hashable], level: float = 0.95) -> Estimate:
    """A share with Wilson's interval (1927, JASA 22(158)), for as many independent questions as the clustered error is worth.

    Unlike the t interval it stays within 0..1 and has a width at 0 and at 1. Where all questions are alike the error says nothing
    about clusters, and their number takes the place of the number of questions.

    Args:
        hits: one a question.
        clusters: the cluster of each.
        level: of the interval.
    """
    error, count = cluster_error([float(hit) for hit in hits], clusters)
    n, share = len(hits), sum(map(bool, hits)) / len(hits)
    worth = float(count)
    if error > 0:
        worth = min(float(n), share * (1 - share) / error**2) if count < n else float(n)
    low, high = wilson(share, worth, level)
    return Estimate(share, n, count, error, low, high)


def wilson(share: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share of ``n`` independent things; ``n`` need not be whole."""
    z2 = float(stats.norm.ppf(0.5 + level / 2)) ** 2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    reach = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n**2))) / (1 + z2 / n)
    return max(0.0, centre - reach), min(1.0, centre + reach)
