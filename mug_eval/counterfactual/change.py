"""Where two pictures differ, pixel by pixel: did the edit do something, only there, and without a seam? No features needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from mug_eval.counterfactual.features import Picture, lab_of

Box = tuple[float, float, float, float]
"""(left, top, right, bottom) in pixels; right and bottom are the first ones outside."""

LONG_SIDE = 512
"""Larger pictures are measured at this many pixels, so that a value means the same for a thumbnail and for a 12-megapixel photograph."""

VISIBLE = 10.0
"""Differences in CIE L*a*b* (1976) above this count as seen, after smoothing by a Gaussian of one pixel, which takes away most of a
coder's noise. About four times a just noticeable difference."""

SEAM = 10.0
"""A step between neighbouring pixels that is larger than the original's by more than this is a new edge."""


@dataclass(frozen=True, slots=True)
class Change:
    """What differs.

    Attributes:
        change: share of the boxes' pixels that changed visibly, less the share outside; 0..1.
        local: 1 less the share of the pixels outside the boxes' neighbourhood that changed visibly; 0..1.
            seam: 1 without, 0 with a rectangle's seam: new straight edges along three sides of it.
    """

    change: float
    local: float
    seam: float


def measure(before: Picture, after: Picture, boxes: Sequence[Box]) -> Change:
    """Measure an edit.

    The neighbourhood of a box is the box grown by a tenth of its sides and four pixels: shadows, feathered masks.

    Args:
        before: I+, (height, width, 3).
        after: I-, of the same size.
        boxes: where the edit may change something: the target's box, and the place where a moved or added thing goes.

    Raises:
        ValueError: sizes differ, or no box lies in the picture.
    """
    if before.shape != after.shape:
        raise ValueError(f"an edit keeps the picture's size; these are {before.shape} and {after.shape}")
    scale = min(1.0, LONG_SIDE / max(before.shape[:2]))
    if scale < 1:
        size = (max(1, round(before.shape[1] * scale)), max(1, round(before.shape[0] * scale)))
        before, after = (np.asarray(cv2.resize(p, size, interpolation=cv2.INTER_AREA), np.uint8) for p in (before, after))
    scaled = [(box[0] * scale, box[1] * scale, box[2] * scale, box[3] * scale) for box in boxes]
    inside, near = np.zeros(before.shape[:2], bool), np.zeros(before.shape[:2], bool)
    for box in scaled:
        inside[_region(box, before.shape)] = True
        by_x, by_y = (box[2] - box[0]) / 10 + 4, (box[3] - box[1]) / 10 + 4
        near[_region((box[0] - by_x, box[1] - by_y, box[2] + by_x, box[3] + by_y), before.shape)] = True
    if not inside.any():
        raise ValueError(f"no box of {list(boxes)} lies in a picture of {before.shape[1]}x{before.shape[0]} pixels")
    lab_before, lab_after = lab_of(before), lab_of(after)
    seen = _seen(lab_before, lab_after)
    outside = float(seen[~near].mean()) if not near.all() else 0.0
    seam = max(_seam(lab_before, lab_after, box) for box in scaled)
    return Change(max(0.0, float(seen[inside].mean()) - outside), 1 - outside, 1 - seam)


def changed_pixels(before: Picture, after: Picture) -> NDArray[np.bool_]:
    """Which pixels changed visibly, (height, width).

    Args:
        before: I+, (height, width, 3).
        after: I-, of the same size.

    Raises:
        ValueError: sizes differ.
    """
    if before.shape != after.shape:
        raise ValueError(f"pictures to be compared have one size; these are {before.shape} and {after.shape}")
    return _seen(lab_of(before), lab_of(after))


def _seen(before: NDArray[np.float32], after: NDArray[np.float32]) -> NDArray[np.bool_]:
    return np.asarray(np.linalg.norm(cv2.GaussianBlur(after - before, (0, 0), 1.0), axis=-1) > VISIBLE, np.bool_)


def _region(box: Box, shape: tuple[int, ...]) -> tuple[slice, slice]:
    """The box as slices (rows, columns) within the picture, at least one pixel each way if it touches the picture."""
    rows, columns = (
        slice(max(0, int(np.floor(low))), max(0, min(most, int(np.ceil(high)))))
        for low, high, most in ((box[1], box[3], shape[0]), (box[0], box[2], shape[1]))
    )
    return rows, columns


def _seam(before: NDArray[np.float32], after: NDArray[np.float32], box: Box) -> float:
    """How much of a rectangle's outline is there in I- and not in I+, around a box: 0..1.

    For each of the four sides, the share of new edges on the best straight stretch, nine tenths as long as the side, in the box's half
    on that side. The second smallest of the four: one side may be hidden (at the picture's border, against a like ground), while
    things that stand or lie straight (poles, tables, doors) seldom bring three.
    """
    by_x, by_y = (box[2] - box[0]) / 4 + 4, (box[3] - box[1]) / 4 + 4
    near = _region((box[0] - by_x, box[1] - by_y, box[2] + by_x, box[3] + by_y), before.shape)
    shares = []
    for axis, side in ((1, box[3] - box[1]), (0, box[2] - box[0])):  # steps along x make vertical edges, as tall as the box
        steps = [np.linalg.norm(np.diff(lab[near], axis=axis), axis=-1) for lab in (before, after)]
        new = steps[1] - steps[0] > SEAM
        lines = new if axis == 1 else new.T
        stretch = max(8, round(0.9 * side))
        shares += [_densest(half, stretch) for half in np.array_split(lines, 2, axis=1)]
    return sorted(shares)[1]


def _densest(marks: NDArray[np.bool_], stretch: int) -> float:
    """The largest share of marks on any stretch of so many pixels down a column; a shorter column counts as it is, over the stretch."""
    if not marks.size:
        return 0.0
    count = np.vstack([np.zeros((1, marks.shape[1]), int), np.cumsum(marks, axis=0)])
    length = min(stretch, len(marks))
    return float((count[length:] - count[:-length]).max()) / stretch
