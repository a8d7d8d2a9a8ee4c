"""What of a thing its outline missed, where the ground tells: on smooth ground nothing of it may be left standing."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from mug_eval.counterfactual.editors.opencv.masks import Mask, Pixels, resized, widened
from mug_eval.counterfactual.editors.opencv.region import clipped, grown, margin
from mug_eval.counterfactual.plan import Box

_WORKING_SIDE = 480
_SMOOTH = 12.0
_STANDS_OUT = 18.0
"""Levels of 255, in any channel: up to the first it is ground, from the second on it is none."""
_MOSTLY = 0.6


def with_leftovers(picture: Pixels, box: Box, hole: Mask) -> Mask:
    """The hole, and the loose parts of the thing beside it: a hand, the tip of a rocket, before a sky.

    Where most of what surrounds the box lies on a smooth surface, all that stands out from it in the box belongs to the thing, but for
    what goes on beyond the box's neighbourhood: a tree that grows into it.

    Args:
        picture: the box and what is around it.
        box: in pixels of ``picture``.
        hole: what is known of the thing.
    """
    rows, columns = hole.shape
    scale = min(1.0, _WORKING_SIDE / max(rows, columns))
    small = resized(picture, (max(1, round(columns * scale)), max(1, round(rows * scale)))).astype(np.float32)
    shape = small.shape[:2]
    known = cv2.resize(hole.astype(np.uint8), shape[::-1], interpolation=cv2.INTER_AREA) > 0
    own = _rectangle(shape, box, scale)
    near = _rectangle(shape, clipped(grown(box, margin(box) - 4), (columns, rows)), scale)
    surface = _ground(small, near & ~widened(own | known, 2))
    if surface is None:
        return hole
    odd = (np.abs(small - surface).max(axis=2) > _STANDS_OUT) & near & ~known
    count, labels = cv2.connectedComponents(odd.astype(np.uint8))
    rim = near & ~cv2.erode(near.astype(np.uint8), np.ones((3, 3), np.uint8), borderValue=1).astype(bool)
    beyond = np.isin(np.arange(count), labels[rim])
    sizes, inside = np.bincount(labels.ravel(), minlength=count), np.bincount(labels[own], minlength=count)
    loose = ~beyond & (2 * inside >= sizes)
    loose[0] = False
    found = cv2.resize(loose[labels].astype(np.uint8), (columns, rows), interpolation=cv2.INTER_NEAREST) > 0
    if not found.any():
        return hole
    within = _rectangle(hole.shape, clipped(grown(box, margin(box) - 4), (columns, rows)), 1.0)
    return hole | (widened(found, round(2 / scale)) & within)


def _rectangle(shape: tuple[int, ...], box: Box, scale: float) -> Mask:
    mask = np.zeros(shape[:2], bool)
    mask[round(box[1] * scale) : round(box[3] * scale), round(box[0] * scale) : round(box[2] * scale)] = True
    return mask


def _ground(picture: NDArray[np.float32], rim: Mask) -> NDArray[np.float32] | None:
    """The quadratic surface that most of the rim lies on, (rows, columns, 3); None if there is none."""
    if np.count_nonzero(rim) < 60:
        return None
    y, x = (np.linspace(-1, 1, size, dtype=np.float32) for size in picture.shape[:2])
    terms = np.stack(
        np.broadcast_arrays(np.float32(1), x[None, :], y[:, None], x[None, :] ** 2, y[:, None] ** 2, x * y[:, None]), -1
    )
    known, colours = terms[rim], picture[rim]
    on_it = np.abs(colours - np.median(colours, axis=0)).max(axis=1) <= 3 * _SMOOTH
    for limit in (2 * _SMOOTH, 1.5 * _SMOOTH, _SMOOTH):
        if on_it.mean() < _MOSTLY:
            return None
        factors = np.linalg.lstsq(known[on_it].astype(np.float64), colours[on_it].astype(np.float64), rcond=None)[0]
        on_it = np.abs(colours - known @ factors).max(axis=1) <= limit
    if on_it.mean() < _MOSTLY:
        return None
    return np.asarray(terms @ factors.astype(np.float32), np.float32)
