"""What may have been behind a thing: a hole in the picture is filled from what is around it.

Smooth ground (sky, a wall) is continued by a surface with the grain of its surroundings; any other ground is put together from
patches of the surroundings (Wexler et al., Space-Time Completion of Video, 2007, with the search of Barnes et al., PatchMatch,
2009; both made of whole-array steps, from coarse to fine).
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from mug_eval.counterfactual.editors.opencv.masks import Mask, Pixels, widened

Floats = NDArray[np.float32]

_RADIUS = 3
_SMOOTH = 5.0
"""Levels of 255: surroundings that a quadratic surface meets within this (root mean square) are smooth ground."""
_MOST_SEARCHED = 12_000
"""Pixels of a hole up to which patches are searched for at full size; a larger one is searched at half the size, and so on."""
_MOST_FILLED = 250_000
_JUMPS = (1, 2, 4)


def fill(picture: Pixels, hole: Mask, seed: int) -> Pixels:
    """The picture with the hole filled; every other pixel as it was.

    Args:
        picture: the hole and its surroundings, at least a few pixels of them.
        hole: True where the picture is unknown.
        seed: of the patch search and of the grain.

    Raises:
        ValueError: there are no surroundings.
    """
    if hole.all():
        raise ValueError("a hole needs surroundings")
    if not hole.any():
        return picture.copy()
    if np.count_nonzero(hole) > _MOST_FILLED:
        return _at_half_size(picture, hole, seed)
    draw = np.random.default_rng(seed)
    image = picture.astype(np.float32)
    surface, roughness = _surface(image, hole)
    smooth = roughness <= _SMOOTH
    filled = surface + _grain(image, hole, draw) if smooth else _from_patches(image, hole, draw)
    result = picture.copy()
    result[hole] = np.clip(np.rint(filled[hole]), 0, 255).astype(np.uint8)
    return result


def _at_half_size(picture: Pixels, hole: Mask, seed: int) -> Pixels:
    """A very large hole, filled at half the size: a little soft, but in the memory and time of a small one."""
    small, unknown = _halved(picture.astype(np.float32), hole)
    ground = fill(np.rint(small).astype(np.uint8), unknown | (cv2.resize(hole.astype(np.uint8), unknown.shape[::-1]) > 0), seed)
    larger = cv2.resize(ground, hole.shape[::-1], interpolation=cv2.INTER_CUBIC)
    return np.where(hole[..., None], larger, picture)


def _surface(image: Floats, hole: Mask) -> tuple[Floats, float]:
    """A quadratic surface through the surroundings, corrected to meet them at the rim; and how far from them it is without."""
    rim = widened(hole, max(4, round(0.15 * math.sqrt(np.count_nonzero(hole))))) & ~hole
    y, x = (np.linspace(-1, 1, size, dtype=np.float32) for size in hole.shape)
    terms = np.stack(
        np.broadcast_arrays(np.float32(1), x[None, :], y[:, None], x[None, :] ** 2, y[:, None] ** 2, x * y[:, None]), -1
    )
    known = terms[rim].astype(np.float64)
    factors = np.linalg.lstsq(known, image[rim].astype(np.float64), rcond=None)[0]
    surface = (terms @ factors.astype(np.float32)).astype(np.float32)
    error = image - surface
    roughness = float(np.sqrt(np.mean(error[rim] ** 2)))
    bend = membrane(np.asarray(cv2.GaussianBlur(error, (0, 0), 1.5), np.float32), widened(hole, 3))
    return np.add(surface, bend, dtype=np.float32), roughness


def membrane(values: Floats, hole: Mask) -> Floats:
    """Values continued into the hole without a bend: means of what is known, from coarse to fine, then smoothed (pull-push)."""
    weight = (~hole).astype(np.float32)
    if min(hole.shape) <= 2 or not hole.any():
        total = max(float(weight.sum()), 1e-6)
        mean = (values * weight[..., None]).sum(axis=(0, 1)) / total
        return np.where(hole[..., None], mean, values).astype(np.float32)
    size = ((hole.shape[1] + 1) // 2, (hole.shape[0] + 1) // 2)
    share = cv2.resize(weight, size, interpolation=cv2.INTER_AREA)
    means = cv2.resize(values * weight[..., None], size, interpolation=cv2.INTER_AREA) / np.maximum(share, 1e-6)[..., None]
    coarse = membrane(means.astype(np.float32), share < 1e-3)
    result = np.where(hole[..., None], cv2.resize(coarse, hole.shape[::-1], interpolation=cv2.INTER_LINEAR), values)
    result = result.astype(np.float32)
    for _ in range(8):
        result[hole] = cv2.blur(result, (3, 3))[hole]
    return result


def _grain(image: Floats, hole: Mask, draw: np.random.Generator) -> Floats:
    """Noise as strong as that of the surroundings, the same in all channels, as most of a photograph's is."""
    rim = widened(hole, 12) & ~widened(hole, 2)
    grey = image.mean(axis=2)
    if not rim.any():
        return np.zeros((*hole.shape, 1), np.float32)
    noise = grey - cv2.GaussianBlur(grey, (0, 0), 1.5)
    deviation = 1.4826 * float(np.median(np.abs(noise[rim])))
    return (deviation * draw.standard_normal(hole.shape)).astype(np.float32)[..., None]


def _from_patches(image: Floats, hole: Mask, draw: np.random.Generator) -> Floats:
    """From coarse, where the hole is a few pixels wide, to full size; each size starts from the one before."""
    pyramid = [(image, hole)]
    while True:
        last, unknown = pyramid[-1]
        thickness = float(cv2.distanceTransform(np.pad(unknown, 1).astype(np.uint8), cv2.DIST_L2, 3).max())
        if thickness <= 3 or min(unknown.shape) < 8 * _RADIUS:
            break
        pyramid.append(_halved(last, unknown))
    at, unknown = pyramid[-1]
    result = membrane(at, unknown)
    nearest: NDArray[np.int64] | None = None
    for level in range(len(pyramid) - 1, -1, -1):
        at, unknown = pyramid[level]
        if level < len(pyramid) - 1:
            larger = cv2.resize(result, unknown.shape[::-1], interpolation=cv2.INTER_LINEAR)
            result = np.where(unknown[..., None], larger, at).astype(np.float32)
        search = _Search(result, unknown, nearest, draw)
        if not search.possible:
            result, nearest = membrane(at, unknown), None
            continue
        rounds = min(8, 2 + 2 * level) if np.count_nonzero(unknown) <= _MOST_SEARCHED else 0
        for _ in range(rounds):
            search.improve(result)
            result = search.vote(result)
        if not rounds:
            search.measure(result)
            result = search.vote(result)
        nearest = search.map()
    return result


def _halved(image: Floats, hole: Mask) -> tuple[Floats, Mask]:
    size = ((hole.shape[1] + 1) // 2, (hole.shape[0] + 1) // 2)
    share = cv2.resize((~hole).astype(np.float32), size, interpolation=cv2.INTER_AREA)
    values = cv2.resize(image * (~hole)[..., None], size, interpolation=cv2.INTER_AREA) / np.maximum(share, 1e-6)[..., None]
    return values.astype(np.float32), share < 0.5


class _Search:
    """Which patch of the surroundings each patch over the hole is most like, at one size.

    Patches are known by their centre's index into the flattened picture, which is padded so that every patch lies inside it.
    """

    def __init__(self, image: Floats, hole: Mask, coarser: NDArray[np.int64] | None, draw: np.random.Generator) -> None:
        self._draw = draw
        self._shape = hole.shape
        self._width = hole.shape[1] + 2 * _RADIUS
        self._padded_hole = np.pad(hole, _RADIUS)
        window = np.arange(-_RADIUS, _RADIUS + 1)
        self._window = (window[:, None] * self._width + window[None, :]).ravel()
        inside = np.pad(np.ones(hole.shape, bool), _RADIUS)
        square = np.ones((2 * _RADIUS + 1, 2 * _RADIUS + 1), np.uint8)
        clean = (~self._padded_hole & inside).astype(np.uint8)
        self._valid = cv2.erode(clean, square, borderValue=0).astype(bool).ravel()
        self._sources = np.flatnonzero(self._valid)
        self._targets = np.flatnonzero((cv2.dilate(self._padded_hole.astype(np.uint8), square).astype(bool) & inside).ravel())
        self._slot = np.full(self._valid.size, -1)
        self._slot[self._targets] = np.arange(self._targets.size)
        depth = cv2.distanceTransform(self._padded_hole.astype(np.uint8), cv2.DIST_L2, 3).ravel()[self._targets]
        self._trust = np.power(1.25, -np.minimum(depth, 30)).astype(np.float32)
        if self.possible:
            self._nearest = self._sources[draw.integers(0, self._sources.size, self._targets.size)]
            if coarser is not None:
                self._start_from(coarser)
        self._cost = np.full(self._targets.size, np.inf, np.float32)

    @property
    def possible(self) -> bool:
        """Whether there are patches without a hole to choose from."""
        return self._sources.size >= 16

    def improve(self, image: Floats) -> None:
        """Search once more: try the neighbours' sources, then places nearer and nearer to the own."""
        self.measure(image)
        for jump in _JUMPS:
            for step in (jump, -jump, jump * self._width, -jump * self._width):
                there = self._targets - step
                slot = np.where((there >= 0) & (there < self._slot.size), self._slot[there % self._slot.size], -1)
                self._try(np.where(slot >= 0, self._nearest[slot] + step, self._nearest))
        reach = max(self._shape)
        while reach >= 1:
            down = self._draw.integers(-reach, reach + 1, self._targets.size)
            right = self._draw.integers(-reach, reach + 1, self._targets.size)
            self._try(self._nearest + down * self._width + right)
            reach //= 3

    def measure(self, image: Floats) -> None:
        """Look at the picture as it is now."""
        padded = np.pad(image, ((_RADIUS, _RADIUS), (_RADIUS, _RADIUS), (0, 0)), mode="edge")
        self._flat = np.ascontiguousarray(padded.reshape(-1, 3))
        self._patches = self._flat[self._targets[:, None] + self._window]
        self._cost = self._distance(np.arange(self._targets.size), self._nearest)

    def vote(self, image: Floats) -> Floats:
        """Every unknown pixel as the patches over it would have it; the likelier and the nearer to the rim, the heavier."""
        spread = max(float(np.percentile(self._cost, 60)), 1.0)
        weight = np.exp(-self._cost / spread).astype(np.float32) * self._trust + 1e-12
        total = np.zeros(self._flat.shape[0], np.float32)
        colour = np.zeros_like(self._flat)
        for step in self._window:
            total[self._targets + step] += weight  # all different for one step, so that nothing is lost
            colour[self._targets + step] += weight[:, None] * self._flat[self._nearest + step]
        rows, columns = self._shape
        voted = (colour / np.maximum(total, 1e-20)[:, None]).reshape(-1, self._width, 3)
        voted = voted[_RADIUS : _RADIUS + rows, _RADIUS : _RADIUS + columns]
        unknown = self._padded_hole[_RADIUS : _RADIUS + rows, _RADIUS : _RADIUS + columns]
        return np.where(unknown[..., None], voted, image).astype(np.float32)

    def map(self) -> NDArray[np.int64]:
        """(rows, columns, 2): the source's (row, column) for each patch that was searched for, -1 elsewhere."""
        found = np.full((*self._shape, 2), -1, np.int64)
        y, x = np.divmod(self._targets, self._width)
        source_y, source_x = np.divmod(self._nearest, self._width)
        found[y - _RADIUS, x - _RADIUS] = np.stack([source_y, source_x], -1) - _RADIUS
        return found

    def _start_from(self, coarser: NDArray[np.int64]) -> None:
        """Take over what was found at half the size."""
        y, x = np.divmod(self._targets, self._width)
        y, x = y - _RADIUS, x - _RADIUS
        half = coarser[np.minimum(y // 2, coarser.shape[0] - 1), np.minimum(x // 2, coarser.shape[1] - 1)]
        source_y = np.clip(2 * half[:, 0] + y % 2, 0, self._shape[0] - 1)
        source_x = np.clip(2 * half[:, 1] + x % 2, 0, self._shape[1] - 1)
        source = (source_y + _RADIUS) * self._width + source_x + _RADIUS
        self._nearest = np.where((half[:, 0] >= 0) & self._valid[source], source, self._nearest)

    def _try(self, candidates: NDArray[np.int64]) -> None:
        inside = (candidates >= 0) & (candidates < self._valid.size) & (candidates != self._nearest)
        which = np.flatnonzero(inside & self._valid[candidates % self._valid.size])
        cost = self._distance(which, candidates[which])
        better = cost < self._cost[which]
        which = which[better]
        self._nearest[which] = candidates[which]
        self._cost[which] = cost[better]

    def _distance(self, which: NDArray[np.int64], sources: NDArray[np.int64]) -> Floats:
        """Mean squared difference, in levels, of patches and their candidates."""
        cost = np.empty(which.size, np.float32)
        for start in range(0, which.size, 4096):  # in pieces that stay in the processor's cache
            part = slice(start, start + 4096)
            difference = self._patches[which[part]] - self._flat[sources[part][:, None] + self._window]
            cost[part] = np.einsum("nkc,nkc->n", difference, difference) / (3 * self._window.size)
        return cost
