"""A group's scores and two groups' differences, each with its interval, by the way that fits it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mug_eval.statistics.bootstrap import Resampled
from mug_eval.statistics.definition import Sums, clustered_error
from mug_eval.statistics.intervals import DIFFERENCE, SHARE, Estimate, mean_interval, share_interval, wilson
from mug_eval.statistics.permutation import Exchanged
from mug_eval.statistics.runs import Group


@dataclass(frozen=True, slots=True)
class Score:
    """One score of a group of runs, in percent.

    Attributes:
        value: the mean over the seeds.
        standard_error: clustered, of that mean, for other questions of the same kind; NaN with one cluster.
        low: lower end of the 95 % interval.
        high: upper end.
        interval: how it was made: ``wilson``, ``t`` or ``bootstrap``.
        each: the score of every seed.
        spread: standard deviation over the seeds; NaN with one.
    """

    value: float
    standard_error: float
    low: float
    high: float
    interval: str
    each: tuple[float, ...]
    spread: float


@dataclass(frozen=True, slots=True)
class Difference:
    """One score of a group of runs less that of another, in points.

    Attributes:
        value: of the means over the seeds.
        standard_error: clustered, paired.
        low: lower end of the 95 % interval.
        high: upper end.
        interval: ``t`` or ``bootstrap``.
        p: of the cluster exchange test, two-sided.
    """

    value: float
    standard_error: float
    low: float
    high: float
    interval: str
    p: float


def scores_of(group: Group, sums: Sequence[Sums], drawn: Resampled | None) -> dict[str, Score]:
    """A group's scores.

    Args:
        group: its runs.
        sums: of each run.
        drawn: resamples of the group; may be None where every score is a plain share.
    """
    each = np.stack([one.values for one in sums])
    errors = clustered_error(np.mean([one.influence for one in sums], axis=0))
    found = {}
    for place, name in enumerate(sums[0].names):
        value = float(each[:, place].mean())
        if sums[0].plain[place] and len(sums) == 1:
            kind, (low, high) = "wilson", _percent(share_interval([value == 1 for value in group.values], group.clusters))
        elif sums[0].plain[place]:
            kind, (low, high) = "t", _percent(mean_interval(group.values, group.clusters, within=SHARE))
        else:
            assert drawn is not None
            kind, (low, high) = "bootstrap", drawn.interval(place)
        if high - low <= 0:
            # Nothing varies, as where every answer is right: then clusters are what there is to count.
            ends = wilson(value / 100, len(sums[0].top))
            kind, low, high = "wilson", 100 * ends[0], 100 * ends[1]
        spread = float(each[:, place].std(ddof=1)) if len(sums) > 1 else math.nan
        found[name] = Score(value, float(errors[place]), low, high, kind, tuple(map(float, each[:, place])), spread)
    return found


def differences_of(
    one: tuple[Group, Sequence[Sums], Resampled | None],
    other: tuple[Group, Sequence[Sums], Resampled | None],
    exchanged: Exchanged,
) -> dict[str, Difference]:
    """Two groups' differences.

    Args:
        one: its runs, their sums, its resamples (None where every score is a plain share).
        other: the same of the other, resampled with the same draws.
        exchanged: the test between them.
    """
    values = [np.mean([sums.values for sums in many], axis=0) for _, many, _ in (one, other)]
    influence = [np.mean([sums.influence for sums in many], axis=0) for _, many, _ in (one, other)]
    errors = clustered_error(influence[0] - influence[1])
    rule = one[1][0]
    found = {}
    for place, name in enumerate(rule.names):
        if rule.plain[place]:
            each = [a - b for a, b in zip(one[0].values, other[0].values, strict=True)]
            kind, (low, high) = "t", _percent(mean_interval(each, one[0].clusters, within=DIFFERENCE))
        else:
            assert one[2] is not None and other[2] is not None
            kind, (low, high) = "bootstrap", Resampled(one[2].scores - other[2].scores).interval(place)
        value = float(values[0][place] - values[1][place])
        found[name] = Difference(value, float(errors[place]), low, high, kind, float(exchanged.p[place]))
    return found


def _percent(estimate: Estimate) -> tuple[float, float]:
    return 100 * estimate.low, 100 * estimate.high
