"""Edits without a model, from a box: what is outside of the target's neighbourhood stays as it is, to the pixel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import cv2
import numpy as np
from PIL import Image

from mug_eval.counterfactual.editors.editor import EditFailed
from mug_eval.counterfactual.editors.opencv.colour import named_colour, recoloured
from mug_eval.counterfactual.editors.opencv.fill import fill
from mug_eval.counterfactual.editors.opencv.leftovers import with_leftovers
from mug_eval.counterfactual.editors.opencv.lettering import relettered
from mug_eval.counterfactual.editors.opencv.masks import Mask, Outline, Pixels, feathered, joined, outline, widened
from mug_eval.counterfactual.editors.opencv.paste import Cutout, cut_out, pasted, scaled
from mug_eval.counterfactual.editors.opencv.places import places
from mug_eval.counterfactual.editors.opencv.region import (
    clipped,
    grown,
    height,
    margin,
    moved,
    neighbourhood,
    surroundings,
    usable,
    width,
)
from mug_eval.counterfactual.plan import Box, EditPlan

VERSION: Final = 4
"""Goes up with every change that changes pictures."""


class OpenCVEditor:
    """Removes, adds, replaces, recolours, resizes, moves, exchanges and re-letters by image processing alone.

    It cuts out what a plan's box holds, so the box should fit its object. ``replace`` needs an object of the same picture to put in
    place (or a colour): new things cannot be made up. Shadows and reflections stay. Every draw comes from the seed.
    """

    name: Final = "opencv"
    batch: Final = 1
    inventive: Final = False

    @property
    def fingerprint(self) -> str:
        """The version of the operations and of OpenCV, whose results may differ between releases."""
        return f"opencv:{VERSION} cv2 {cv2.__version__}"

    def close(self) -> None:
        """Nothing is held."""

    def touched(self, image: Image.Image, plan: EditPlan, seed: int) -> tuple[Box, ...]:
        """Where the edit may change pixels: the neighbourhoods (``region.neighbourhood``) of the target and of its new place.

        Raises:
            EditFailed: as by :meth:`edit`.
        """
        return tuple(neighbourhood(box, image.size) for box in self.places(image, plan, seed))

    def places(self, image: Image.Image, plan: EditPlan, seed: int) -> tuple[Box, ...]:
        """Where the target is, and where it, or one more of it, will be; of two that change places, where both are and will be.

        Raises:
            EditFailed: as by :meth:`edit`.
        """
        return tuple(dict.fromkeys(places(np.asarray(image.convert("RGB")), plan, seed)))

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        """See ``Editor.edit``.

        Raises:
            EditFailed: the box is outside or too small, there is no room, no such colour, no words in the box, ...
        """
        picture: Pixels = np.asarray(image.convert("RGB"))
        try:
            boxes = places(picture, plan, seed)
            result = _edited(picture, plan, boxes, seed)
        except cv2.error as error:
            raise EditFailed(f"OpenCV could not {plan.kind} {plan.target!r}: {' '.join(str(error).split())[:200]}") from error
        outside = np.ones(picture.shape[:2], bool)
        for box in boxes:
            left, top, right, bottom = neighbourhood(box, image.size)
            outside[top:bottom, left:right] = False
        result[outside] = picture[outside]
        return Image.fromarray(result)


def _edited(picture: Pixels, plan: EditPlan, boxes: tuple[Box, ...], seed: int) -> Pixels:
    box = boxes[0]
    if plan.kind == "remove":
        return _removed(picture, box, seed)
    if plan.kind == "recolour" or (plan.kind == "replace" and plan.to_box is None and named_colour(plan.to) is not None):
        return _in_view(picture, box, lambda view, at: _recoloured(view, at, plan, seed))
    if plan.kind == "retext":
        return _in_view(picture, box, lambda view, at: relettered(view, at, plan.to, plan.target, seed))
    if plan.kind == "replace":
        if plan.to_box is None:
            raise EditFailed(
                f"without a model {plan.to or 'a new thing'!r} can be put there only if the picture holds one (to_box)"
            )
        other, place = scaled(_cutout(picture, usable(plan, plan.to_box, picture.shape[1::-1]), seed), box)
        return _pasted(_removed(picture, box, seed), other, place)
    if plan.kind == "mirror":
        return _exchanged(picture, boxes, seed)
    own, place = scaled(_cutout(picture, box, seed), boxes[1])
    return _pasted(picture if plan.kind == "add" else _removed(picture, box, seed), own, place)


def _recoloured(view: Pixels, box: Box, plan: EditPlan, seed: int) -> Pixels:
    found = outline(view, box, seed)
    if not found.clear:
        raise EditFailed(f"no clear outline of {plan.target!r} in its box: paint would cover its ground too")
    return recoloured(view, found.mask, plan.to, plan.target)


def _exchanged(picture: Pixels, boxes: tuple[Box, ...], seed: int) -> Pixels:
    """The target and the other thing in each other's place; both are cut out before either is removed."""
    box, other, there, back = boxes
    cutouts = _cutout(picture, box, seed), _cutout(picture, other, seed)
    ground = _removed(_removed(picture, box, seed, unlike=other), other, seed)
    for cutout, place in zip(cutouts, (there, back), strict=True):
        ground = _pasted(ground, cutout, place)
    return ground


def _removed(picture: Pixels, box: Box, seed: int, unlike: Box | None = None) -> Pixels:
    """The picture with ground where the thing in the box was.

    Args:
        picture: the whole of it.
        box: of the thing.
        seed: of every draw.
        unlike: another thing that is no ground and must not be continued into the hole.

    Raises:
        EditFailed: nothing is around it to continue from.
    """
    view_at = surroundings(box, picture.shape[1::-1])

    def change(view: Pixels, at: Box) -> Pixels:
        found = outline(view, at, seed, thorough=True)
        hole = with_leftovers(view, at, _hole(found, at))
        rim = widened(hole, 2)
        unknown = rim.copy()
        if unlike is not None:
            left, top, right, bottom = clipped(grown(moved(unlike, -view_at[0], -view_at[1]), 2), rim.shape[::-1])
            unknown[top : max(top, bottom), left : max(left, right)] = True
        if unknown.all():
            raise EditFailed("nothing is around it to continue its ground from")
        ground = fill(view, unknown, seed).astype(np.float32)
        mixed = view + feathered(hole, 2)[..., None] * (ground - view)
        mixed[hole] = ground[hole]
        return np.clip(np.rint(mixed), 0, 255).astype(np.uint8)

    return _in_view(picture, box, change)


def _hole(found: Outline, box: Box) -> Mask:
    """A little more than the target: a rim of it left over is seen sooner than a strip of ground made up."""
    if not found.clear:
        return widened(found.mask, 3)
    side = max(width(box), height(box))
    hole = widened(joined(found.mask, round(0.05 * side)), max(3, round(0.025 * side)))
    left, top, right, bottom = clipped(grown(box, margin(box) - 4), hole.shape[::-1])
    near = np.zeros_like(hole)
    near[top:bottom, left:right] = True
    return hole & near


def _cutout(picture: Pixels, box: Box, seed: int) -> Cutout:
    left, top, right, bottom = surroundings(box, picture.shape[1::-1])
    view, at = np.ascontiguousarray(picture[top:bottom, left:right]), moved(box, -left, -top)
    return cut_out(view, outline(view, at, seed), at)


def _pasted(picture: Pixels, cutout: Cutout, place: Box) -> Pixels:
    return _in_view(picture, place, lambda view, at: pasted(view, cutout, at))


def _in_view(picture: Pixels, box: Box, change: Callable[[Pixels, Box], Pixels]) -> Pixels:
    """Change only the box's surroundings, so that a large picture costs no more than a small one."""
    left, top, right, bottom = surroundings(box, picture.shape[1::-1])
    result = picture.copy()
    result[top:bottom, left:right] = change(np.ascontiguousarray(picture[top:bottom, left:right]), moved(box, -left, -top))
    return result
