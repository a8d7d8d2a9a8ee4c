"""Where the target of a plan is and where it will be, by kind of edit."""

from __future__ import annotations

import re

import numpy as np

from mug_eval.counterfactual.editors.editor import EditFailed
from mug_eval.counterfactual.editors.opencv.masks import Pixels, outline
from mug_eval.counterfactual.editors.opencv.paste import free_place
from mug_eval.counterfactual.editors.opencv.region import (
    SMALLEST_SIDE,
    clipped,
    contains,
    height,
    moved,
    surroundings,
    usable,
    width,
)
from mug_eval.counterfactual.plan import Box, EditPlan
from mug_eval.seeds import derive_seed

_MOST_OF_PICTURE = 0.45
_SIZES = {"tiny": 0.4, "half": 0.5, "smaller": 0.6, "small": 0.6, "shorter": 0.6, "double": 2.0, "twice": 2.0, "huge": 2.0}
_SIZES |= dict.fromkeys(("larger", "bigger", "large", "big", "taller"), 1.5)
_LEAST_CHANGE = 1.15
_MOST_SHARED = 0.1
_AT_EDGE = 3
"""Pixels from the picture's edge."""
_SIDES = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "above": (0, -1), "down": (0, 1), "below": (0, 1)}


def places(picture: Pixels, plan: EditPlan, seed: int) -> tuple[Box, ...]:
    """(where the target is,), or (where it is, where it or one more of it will be); for ``mirror`` :func:`_exchanged`'s four.

    Raises:
        EditFailed: there is no such place in the picture.
    """
    size = picture.shape[1], picture.shape[0]
    box = usable(plan, plan.box, size)
    if plan.kind in ("remove", "replace", "move", "mirror", "resize") and _fills(box, size):
        raise EditFailed(f"{plan.target!r} fills more than {_MOST_OF_PICTURE:.0%} of the picture: nothing is left to continue from")
    if plan.kind == "resize":
        return box, _resized(box, plan, size)
    if plan.kind == "mirror":
        return _exchanged(picture, box, plan, seed)
    if plan.kind not in ("add", "move"):
        return (box,)
    if plan.kind == "add" and plan.to_box == plan.box:
        raise EditFailed(
            f"the picture holds no {plan.target!r} to copy, and without a model nothing new can be made: an editor that draws can "
            "(qwen-image-edit, flux-kontext, step1x, http:...)"
        )
    if plan.to_box is not None:
        place = usable(plan, plan.to_box, size)
    elif plan.kind == "move" and plan.to.strip():
        place = _aside(box, plan, size)
    else:
        place = free_place(picture, box, np.random.default_rng(derive_seed(seed, "place")), again=plan.kind == "add")
    _check_cut_sides(picture, box, place, plan, seed)
    return box, place


def _fills(box: Box, size: tuple[int, int]) -> bool:
    return width(box) * height(box) > _MOST_OF_PICTURE * size[0] * size[1]


def _resized(box: Box, plan: EditPlan, size: tuple[int, int]) -> Box:
    """The target's box at its new size, standing where it stood."""
    new = plan.to_box
    factor = _factor(plan) if new is None else min(width(new) / width(box), height(new) / height(box))
    middle, foot = (box[0] + box[2]) / 2, box[3]
    # No larger than the picture has room for: a foot stays where it is.
    room = min(2 * middle / width(box), 2 * (size[0] - middle) / width(box), foot / height(box))
    fitting = min(factor, room)
    if factor > 1 and fitting < _LEAST_CHANGE:
        raise EditFailed(f"there is no room for a larger {plan.target!r}")
    across, down = round(width(box) * fitting), round(height(box) * fitting)
    if min(across, down) < SMALLEST_SIDE:
        raise EditFailed(f"{plan.target!r} would be {across}x{down} pixels, too small to be seen")
    left = round(middle - across / 2)
    return clipped((left, foot - down, left + across, foot), size)


def _factor(plan: EditPlan) -> float:
    """The factor of ``smaller``, ``twice as large``, ``1.5``, ``150 %``, ``x2``."""
    number = re.search(r"(\d+(?:\.\d+)?)\s*(%?)", plan.to)
    if number:
        factor = float(number[1]) / (100 if number[2] else 1)
    else:
        words = re.findall(r"[a-z]+", plan.to.lower())
        # "half" and "twice" say how much, "smaller" and "larger" only in which direction.
        factor = next(
            (_SIZES[word] for word in (*(w for w in words if w in ("half", "twice", "double")), *words) if word in _SIZES), 0
        )
    if not 0.2 <= factor <= 4 or 1 / _LEAST_CHANGE < factor < _LEAST_CHANGE:
        raise EditFailed(f"{plan.to!r} is no size that {plan.target!r} could be given (0.2 to 4 times, but not nearly as it is)")
    return factor


def _exchanged(picture: Pixels, box: Box, plan: EditPlan, seed: int) -> tuple[Box, Box, Box, Box]:
    """(the target, the other thing, the target in the other's place, the other in the target's), each in its own size.

    A thing stands in the middle of the other's foot; shifted into the picture where it would reach beyond its edge.
    """
    size = picture.shape[1], picture.shape[0]
    if plan.to_box is None:
        raise EditFailed(f"with what is {plan.target!r} to change places? (no box of the other object)")
    other = usable(plan, plan.to_box, size)
    areas = [width(each) * height(each) for each in (box, other)]
    if sum(areas) > _MOST_OF_PICTURE * size[0] * size[1]:
        raise EditFailed(
            f"{plan.target!r} and the other thing fill more than {_MOST_OF_PICTURE:.0%} of the picture: nothing is left to continue from"
        )
    if _shared(box, other) > _MOST_SHARED * min(areas):
        raise EditFailed(f"the boxes of {plan.target!r} and of the other thing overlap: each would take a piece of the other along")
    there, back = _standing(box, other, size), _standing(other, box, size)
    if _shared(there, back) > _MOST_SHARED * min(areas):
        raise EditFailed(f"{plan.target!r} and the other thing are too near to each other to change places")
    _check_cut_sides(picture, box, there, plan, seed)
    _check_cut_sides(picture, other, back, plan, seed)
    return box, other, there, back


def _shared(one: Box, other: Box) -> int:
    """Pixels that two boxes share."""
    return max(0, min(one[2], other[2]) - max(one[0], other[0])) * max(0, min(one[3], other[3]) - max(one[1], other[1]))


def _standing(box: Box, where: Box, size: tuple[int, int]) -> Box:
    """The box in the middle of another one's foot, inside the picture."""
    left = min(max(0, (where[0] + where[2] - width(box)) // 2), size[0] - width(box))
    top = min(max(0, where[3] - height(box)), size[1] - height(box))
    return moved(box, left - box[0], top - box[1])


def _aside(box: Box, plan: EditPlan, size: tuple[int, int]) -> Box:
    """As far to that side as the target is wide or high, twice where there is room."""
    side = next((_SIDES[word] for word in re.findall(r"[a-z]+", plan.to.lower()) if word in _SIDES), None)
    if side is None:
        raise EditFailed(f"{plan.to!r} is no direction to move {plan.target!r} ({', '.join(_SIDES)})")
    for times in (2.0, 1.5, 1.0):
        place = moved(box, round(side[0] * times * width(box)), round(side[1] * times * height(box)))
        if contains(size, place):
            return place
    raise EditFailed(f"there is no room to move {plan.target!r} {plan.to}")


def _check_cut_sides(picture: Pixels, box: Box, place: Box, plan: EditPlan, seed: int) -> None:
    """What the picture's edge cuts off would show a straight cut elsewhere: it may only go along that edge."""
    edges = (0, 0, picture.shape[1], picture.shape[0])
    sides = [
        side
        for side, (own, there, edge) in enumerate(zip(box, place, edges, strict=True))
        if abs(own - edge) < _AT_EDGE and abs(there - edge) >= _AT_EDGE
    ]
    if not sides:
        return
    left, top, right, bottom = surroundings(box, picture.shape[1::-1])
    found = outline(np.ascontiguousarray(picture[top:bottom, left:right]), moved(box, -left, -top), seed)
    rims = (found.mask[:, :_AT_EDGE], found.mask[:_AT_EDGE], found.mask[:, -_AT_EDGE:], found.mask[-_AT_EDGE:])
    for side in sides:  # a box may reach the edge where the thing in it does not
        if not found.clear or rims[side].any():
            name = ("left", "upper", "right", "lower")[side]
            raise EditFailed(f"{plan.target!r} is cut off by the picture's {name} edge and cannot stand elsewhere")
