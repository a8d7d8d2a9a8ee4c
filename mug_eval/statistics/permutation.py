"""The headline test: could it as well have been the other way round, cluster by cluster?

If two runs are equally good, then within each cluster their answers may be exchanged without a trace. All or many such exchanges
are made, whole clusters at a time, and p is the share of them with at least the difference that was found (Fisher 1935, section
21; for clusters: Gail et al. 1996, Statistics in Medicine 15). For a plain share this is the sign-flip test of the clusters'
differences; exchanging the scorer's sums gives the same test for F1 and for figures. Two-sided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mug_eval.seeds import derive_seed
from mug_eval.statistics.definition import Floats, Sums

PERMUTATIONS = 10_000
_AT_ONCE = 1_000
_ROUNDING = 1e-9
"""Percent by which equal differences may come out unequal."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """The test's outcome.

    Attributes:
        differences: of the scores, in percent, seeds pooled.
        p: two-sided, one a score.
        clusters: how many differ between the runs; only they can be exchanged with an effect.
        exact: whether all exchanges were made; else p has the exchange that was found added to the drawn ones (Phipson and Smyth
            2010), so that it is never 0 and never too small.
    """

    differences: Floats
    p: Floats
    clusters: int
    exact: bool


def exchange_test(
    one: Sequence[Sums], other: Sequence[Sums], seed: int, permutations: int = PERMUTATIONS, rng: np.random.Generator | None = None
) -> Exchanged:
    """Test all scores of two groups at once.

    Args:
        one: the runs of the first group, one a seed; their sums are averaged before the scores are taken.
        other: of the second, with the same clusters in the same order.
        seed: of the draws.
        permutations: how many exchanges are drawn; all are made if there are no more than this.
        rng: draws in place of a generator made from the seed, for simulations.

    Raises:
        ValueError: not the same number of clusters.
    """
    rule = one[0]
    top = np.stack([np.mean([sums.top for sums in group], axis=0) for group in (one, other)])
    bottom = np.stack([np.mean([sums.bottom for sums in group], axis=0) for group in (one, other)])
    changed = np.any((top[0] != top[1]) | (bottom[0] != bottom[1]), axis=1)
    count = int(changed.sum())
    both_top, both_bottom = top.sum(axis=(0, 1)), bottom.sum(axis=(0, 1))
    apart_top, apart_bottom = (top[0] - top[1])[changed], (bottom[0] - bottom[1])[changed]

    def difference(signs: Floats) -> Floats:
        over, under = signs @ apart_top, signs @ apart_bottom
        first = rule.scores((both_top + over) / 2, (both_bottom + under) / 2)
        return first - rule.scores((both_top - over) / 2, (both_bottom - under) / 2)

    found = difference(np.ones((1, count)))[0]
    exact = 2**count <= permutations
    draws = _all_signs(count) if exact else _drawn_signs(count, permutations, rng, seed)
    as_far = np.zeros(len(found))
    for signs in draws:
        as_far += (np.abs(difference(signs)) >= np.abs(found) - _ROUNDING).sum(axis=0)
    p = as_far / 2**count if exact else (as_far + 1) / (permutations + 1)
    return Exchanged(found, p, count, exact)


def _all_signs(count: int) -> Iterator[Floats]:
    for start in range(0, 2**count, _AT_ONCE):
        numbers = np.arange(start, min(start + _AT_ONCE, 2**count))
        yield np.asarray(1 - 2 * ((numbers[:, None] >> np.arange(count)) & 1), dtype=np.float64)


def _drawn_signs(count: int, permutations: int, rng: np.random.Generator | None, seed: int) -> Iterator[Floats]:
    draws = rng or np.random.default_rng(derive_seed("cluster exchange", seed, count))
    for start in range(0, permutations, _AT_ONCE):
        yield np.asarray(draws.integers(0, 2, (min(_AT_ONCE, permutations - start), count)) * 2 - 1, dtype=np.float64)
