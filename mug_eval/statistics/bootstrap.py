"""The cluster bootstrap: whole clusters are drawn with replacement, and the scorer's numbers taken again.

Percentile intervals (Efron 1979; for clusters: Davison and Hinkley 1997, section 3.8), for scores that are no plain share of
questions. scipy's bootstrap would draw and gather every question; the sums of a cluster make a resample one row of a product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mug_eval.seeds import derive_seed
from mug_eval.statistics.definition import Floats, Sums

RESAMPLES = 10_000
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Resampled:
    """Scores of every resample.

    Attributes:
        scores: resamples x scores, in percent; seeds are averaged.
    """

    scores: Floats

    def interval(self, place: int, level: float = 0.95) -> tuple[float, float]:
        """The percentile interval of one score."""
        low, high = np.quantile(self.scores[:, place], [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)


def resample(groups: Sequence[Sequence[Sums]], seed: int, resamples: int = RESAMPLES) -> list[Resampled]:
    """Resample runs on the same questions together: each resample holds the same clusters for all of them.

    Args:
        groups: for each group its runs, one a seed; all with the same clusters in the same order.
        seed: of the draws. They depend on it and on the number of clusters alone.
        resamples: how many.

    Raises:
        ValueError: not the same number of clusters.
    """
    counts = {len(sums.top) for group in groups for sums in group}
    if len(counts) != 1:
        raise ValueError(f"runs with other clusters cannot be resampled together: {sorted(counts)}")
    count = counts.pop()
    rng = np.random.default_rng(derive_seed("cluster bootstrap", seed, count))
    found: list[list[Floats]] = [[] for _ in groups]
    for start in range(0, resamples, _AT_ONCE):
        drawn = rng.multinomial(count, np.full(count, 1 / count), size=min(_AT_ONCE, resamples - start)).astype(np.float64)
        for group, scores in zip(groups, found, strict=True):
            each = [sums.scores(drawn @ sums.top, drawn @ sums.bottom) for sums in group]
            scores.append(np.mean(each, axis=0))
    return [Resampled(np.concatenate(scores)) for scores in found]
