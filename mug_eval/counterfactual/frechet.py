"""Frechet and kernel distances between sets of vectors, exact in float64, also where there are fewer vectors than dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def frechet_distances(before: Floats, after: Floats) -> Floats:
    """The squared Frechet distance of the Gaussians fitted to two sets of vectors, for many pairs of sets.

    ``|m1 - m2|^2 + tr C1 + tr C2 - 2 tr sqrt(C1 C2)`` (Dowson and Landau, 1982; Heusel et al., 2017, for pictures). With centred X
    (n x d) and Y (m x d), ``tr sqrt(C1 C2)`` is the sum of the singular values of ``X Y^T / sqrt((n - 1)(m - 1))``: no root of a matrix
    that is singular for n < d, no complex numbers, and never more than n x m to decompose.

    Args:
        before: (..., n, d).
        after: (..., m, d).

    Returns:
        (...), 0 or more.

    Raises:
        ValueError: a set of fewer than two vectors has no covariance.
    """
    n, m = before.shape[-2], after.shape[-2]
    if min(n, m) < 2:
        raise ValueError(f"a Frechet distance needs two vectors or more on each side, not {n} and {m}")
    x, y = before.astype(np.float64), after.astype(np.float64)
    mean_x, mean_y = x.mean(-2, keepdims=True), y.mean(-2, keepdims=True)
    x, y = (x - mean_x) / np.sqrt(n - 1), (y - mean_y) / np.sqrt(m - 1)
    spread = (x * x).sum((-2, -1)) + (y * y).sum((-2, -1))
    if x.shape[-1] < min(n, m):  # the triangular factors have the same product's singular values, and are smaller
        x, y = (np.asarray(np.linalg.qr(side, mode="r"), np.float64) for side in (x, y))
    shared = np.linalg.svd(x @ np.swapaxes(y, -1, -2), compute_uv=False).sum(-1)
    apart = ((mean_x - mean_y) ** 2).sum((-2, -1))
    return np.asarray(apart + np.maximum(spread - 2 * shared, 0), np.float64)


def kernel_distance(first: Floats, second: Floats) -> float:
    """The unbiased squared maximum mean discrepancy with the kernel ``(x.y / d + 1)^3`` (Binkowski et al., 2018, KID).

    Over the whole sets, not over random subsets. It may be negative for sets that are alike.

    Args:
        first: (n, d).
        second: (m, d).

    Raises:
        ValueError: a set of fewer than two vectors.
    """
    n, m, d = len(first), len(second), first.shape[1]
    if min(n, m) < 2:
        raise ValueError(f"a kernel distance needs two vectors or more on each side, not {n} and {m}")
    xx, yy, xy = ((a @ b.T / d + 1) ** 3 for a, b in ((first, first), (second, second), (first, second)))
    within = (xx.sum() - np.trace(xx)) / (n * (n - 1)) + (yy.sum() - np.trace(yy)) / (m * (m - 1))
    return float(within - 2 * xy.mean())


@dataclass(frozen=True, slots=True)
class SetDistance:
    """How far the accepted edits, as a set, are from their originals.

    Attributes:
        pictures: on each side.
        fid: Frechet distance. Biased upwards for few pictures, by much: compare only sets of the same size and features, and never
            hold it against a threshold.
        fid_of_halves: the mean Frechet distance between random halves of the originals: what pictures that differ in nothing but the
            draw give at half the size. None for fewer than four.
        kid: kernel distance; unbiased, hence the one to compare across sizes.
    """

    pictures: int
    fid: float
    fid_of_halves: float | None
    kid: float


def set_distance(originals: Floats, edited: Floats, seed: int = 0, draws: int = 10) -> SetDistance:
    """FID and KID of edits against their originals.

    Args:
        originals: (n, d), pooled vectors.
        edited: (n, d).
        seed: of the halves.
        draws: how many times the originals are halved.

    Raises:
        ValueError: fewer than two pictures.
    """
    halves: float | None = None
    half = len(originals) // 2
    if half >= 2:
        rng = np.random.default_rng(seed)
        orders = [rng.permutation(len(originals)) for _ in range(draws)]
        halves = float(np.mean([frechet_distances(originals[o[:half]], originals[o[half : 2 * half]]) for o in orders]))
    return SetDistance(len(edited), float(frechet_distances(originals, edited)), halves, kernel_distance(originals, edited))
