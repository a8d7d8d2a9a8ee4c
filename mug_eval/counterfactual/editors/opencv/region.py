"""Where an edit may touch the picture, and the piece of the picture that it needs to see."""

from __future__ import annotations

import math

from mug_eval.counterfactual.editors.editor import EditFailed
from mug_eval.counterfactual.plan import Box, EditPlan

SMALLEST_SIDE = 8
"""Pixels: what is smaller has no shape that could be cut out, and nobody would see it change."""
_SMALLEST_SHARE_INSIDE = 0.5
_LEAST_CONTEXT = 48
_CONTEXT = 0.75
_LEAST_MARGIN = 8
_MARGIN = 0.15


def margin(box: Box) -> int:
    """How far beyond a box its neighbourhood reaches, in pixels: 15 % of the longer side, at least 8."""
    return max(_LEAST_MARGIN, math.ceil(_MARGIN * max(width(box), height(box))))


def neighbourhood(box: Box, size: tuple[int, int]) -> Box:
    """The pixels around a box that an edit there may change, inside a picture of (width, height) ``size``."""
    return clipped(grown(box, margin(box)), size)


def surroundings(box: Box, size: tuple[int, int]) -> Box:
    """The piece of a picture of (width, height) ``size`` that is looked at for an edit of what the box holds."""
    return clipped(grown(box, max(_LEAST_CONTEXT, round(_CONTEXT * max(width(box), height(box))))), size)


def width(box: Box) -> int:
    """Pixels across."""
    return box[2] - box[0]


def height(box: Box) -> int:
    """Pixels down."""
    return box[3] - box[1]


def grown(box: Box, pixels: int) -> Box:
    """The box with ``pixels`` more on each side."""
    return box[0] - pixels, box[1] - pixels, box[2] + pixels, box[3] + pixels


def moved(box: Box, right: int, down: int) -> Box:
    """The box in another place."""
    return box[0] + right, box[1] + down, box[2] + right, box[3] + down


def clipped(box: Box, size: tuple[int, int]) -> Box:
    """The part of the box inside a picture of (width, height) ``size``; without an inside if there is none."""
    return max(0, box[0]), max(0, box[1]), min(size[0], box[2]), min(size[1], box[3])


def contains(size: tuple[int, int], box: Box) -> bool:
    """Whether the whole box lies inside a picture of that size."""
    return clipped(box, size) == box


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes share a pixel."""
    return max(one[0], other[0]) < min(one[2], other[2]) and max(one[1], other[1]) < min(one[3], other[3])


def usable(plan: EditPlan, box: Box, size: tuple[int, int]) -> Box:
    """The box of a plan, cut to the picture.

    Raises:
        EditFailed: most of it lies outside, or it is too small.
    """
    inside = clipped(box, size)
    area = max(0, width(inside)) * max(0, height(inside))
    if area < _SMALLEST_SHARE_INSIDE * width(box) * height(box):
        raise EditFailed(f"the box {box} of {plan.target!r} lies outside of the picture ({size[0]}x{size[1]})")
    if min(width(inside), height(inside)) < SMALLEST_SIDE:
        raise EditFailed(
            f"{plan.target!r} is too small to edit: {width(inside)}x{height(inside)} pixels, at least {SMALLEST_SIDE}x{SMALLEST_SIDE}"
        )
    return inside
