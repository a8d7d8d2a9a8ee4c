"""A thing cut out of the picture and put somewhere else, and where there is room for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from mug_eval.counterfactual.editors.editor import EditFailed
from mug_eval.counterfactual.editors.opencv.masks import Mask, Outline, Pixels, feathered, resized, widened
from mug_eval.counterfactual.editors.opencv.region import contains, grown, height, margin, neighbourhood, overlap, width
from mug_eval.counterfactual.plan import Box

_STRIP = 3
_SAME_GROUND = 18.0
_LEAST_SCALE, _MOST_SCALE = 0.15, 4.0
_SEARCHED_SIDE = 480
_NEARLY_AS_GOOD = 1.15
_OTHER_GROUND = 45.0
_MOST_TINT = 10.0
_MOST_SEAM = 16.0
"""Levels of 255, mean along the edge: what comes along of a thing's ground shows no block up to here."""
_BUSIER, _MORE_BUSY = 2.0, 2.5
"""A place whose colours deviate by more than that many times what they do around the thing, and so much more, is no free ground."""


@dataclass(frozen=True, slots=True)
class Cutout:
    """A thing with a strip of what surrounds it.

    Attributes:
        pixels: its box and ``_STRIP`` pixels around, edge pixels repeated where the picture ends.
        mask: which of them are the thing.
        ground: mean colour of what surrounds it, RGB.
        clear: whether its outline was found; if not, some of its ground comes along.
    """

    pixels: Pixels
    mask: Mask
    ground: NDArray[np.float32]
    clear: bool = True


def cut_out(picture: Pixels, found: Outline, box: Box) -> Cutout:
    """Take the thing in the box out of the picture."""
    place = (slice(box[1], box[3] + 2 * _STRIP), slice(box[0], box[2] + 2 * _STRIP))
    pixels = np.pad(picture, ((_STRIP, _STRIP), (_STRIP, _STRIP), (0, 0)), mode="edge")[place]
    return Cutout(pixels, np.pad(found.mask, _STRIP)[place], _ground(picture, found.mask), found.clear)


def scaled(cutout: Cutout, box: Box) -> tuple[Cutout, Box]:
    """The thing as large as fits into the box in its own proportions, standing in the middle of the box's foot; and its own box.

    Raises:
        EditFailed: it would be more than four times as large, or less than a seventh.
    """
    own_width, own_height = cutout.mask.shape[1] - 2 * _STRIP, cutout.mask.shape[0] - 2 * _STRIP
    factor = min(width(box) / own_width, height(box) / own_height)
    if not _LEAST_SCALE <= factor <= _MOST_SCALE:
        raise EditFailed(f"it would have to be scaled by {factor:.2f} to stand there")
    size = max(1, round(own_width * factor)), max(1, round(own_height * factor))
    left = (box[0] + box[2] - size[0]) // 2
    place = (left, box[3] - size[1], left + size[0], box[3])
    if size == (own_width, own_height):
        return cutout, place
    whole = (size[0] + 2 * _STRIP, size[1] + 2 * _STRIP)
    soft = cv2.resize(cutout.mask.astype(np.float32), whole, interpolation=cv2.INTER_LINEAR)
    return replace(cutout, pixels=resized(cutout.pixels, whole), mask=soft > 0.5), place


def pasted(picture: Pixels, cutout: Cutout, box: Box) -> Pixels:
    """The picture with the thing in the box, which has its size.

    Where the ground is like the one that it comes from, the strip around it is blended in gradients (Perez et al., Poisson Image
    Editing, 2003), so that its outline need not be exact; where that would tint it, its edge is only softened.

    Raises:
        EditFailed: its outline was not found and its ground, some of which comes along, is not like that of its new place.
    """
    rows, columns = picture.shape[:2]
    where = (box[0] - _STRIP, box[1] - _STRIP, box[2] + _STRIP, box[3] + _STRIP)
    left, top = max(0, -where[0]), max(0, -where[1])
    right, bottom = max(0, where[2] - columns), max(0, where[3] - rows)
    inner = (slice(top, cutout.mask.shape[0] - bottom), slice(left, cutout.mask.shape[1] - right))
    place = (slice(where[1] + top, where[3] - bottom), slice(where[0] + left, where[2] - right))
    thing, mask = cutout.pixels[inner], cutout.mask[inner]
    if not cutout.clear:
        rim = mask & widened(~mask, 2)
        if float(np.abs(thing[rim].astype(np.float32) - picture[place][rim]).mean()) > _MOST_SEAM:
            raise EditFailed(
                "no clear outline of it in its box: a block of its ground would come along, unlike that of its new place"
            )
    whole = np.zeros((rows, columns), bool)
    whole[place] = mask
    alpha = feathered(mask, 1.6)[..., None]
    result = picture.copy()
    mixed = picture[place] + alpha * (thing.astype(np.float32) - picture[place])
    result[place] = np.clip(np.rint(mixed), 0, 255).astype(np.uint8)
    apart = float(np.linalg.norm(cutout.ground - _ground(picture, whole)))
    strip = widened(whole, _STRIP - 1)
    inside = not (strip[:2].any() or strip[-2:].any() or strip[:, :2].any() or strip[:, -2:].any())
    if apart > _SAME_GROUND or not inside:
        return result
    source = picture.copy()
    source[place] = thing
    across, down = np.flatnonzero(strip.any(axis=0)), np.flatnonzero(strip.any(axis=1))
    middle = (
        int(across[0]) + (int(across[-1]) - int(across[0]) + 1) // 2,
        int(down[0]) + (int(down[-1]) - int(down[0]) + 1) // 2,
    )
    blended = cv2.seamlessClone(source, picture, strip.astype(np.uint8) * 255, middle, cv2.NORMAL_CLONE)
    if float(np.abs(blended[whole].astype(np.float32) - result[whole]).mean()) > _MOST_TINT:
        return result
    result = picture.copy()
    result[strip] = blended[strip]
    return result


def free_place(picture: Pixels, box: Box, draw: np.random.Generator, *, again: bool) -> Box:
    """A place for the thing in the box: about as high up, since that is as far away, on ground like that around the box.

    Args:
        picture: the whole picture.
        box: where the thing is.
        draw: picks one of the best places.
        again: one more of the thing: not in its place, and smaller where there is no room for its size; else it is to be moved, by
            at least two thirds of its width.

    Raises:
        EditFailed: there is no room beside it, or only on other things.
    """
    rows, columns = picture.shape[:2]
    scale = min(1.0, _SEARCHED_SIDE / max(rows, columns))
    small = resized(picture, (max(1, round(columns * scale)), max(1, round(rows * scale))))
    lab = np.asarray(cv2.cvtColor(small.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), np.float32)
    before = _around(lab, box, scale, hollow=True)
    taken = grown(box, 2) if again else (box[0] + width(box) // 3, box[1], box[2] - width(box) // 3, box[3])
    for size in (1.0, 0.8, 0.6) if again else (1.0,):
        found = []
        for place in _candidates(box, (columns, rows), size):
            if contains((columns, rows), place) and not overlap(place, taken):
                there = _around(lab, place, scale, hollow=False)
                if (there[3:] > _BUSIER * before[3:] + _MORE_BUSY).any():
                    continue  # other things stand there: on one of them it would be no more of its kind
                found.append((float(np.abs(there - before).sum()), place))
        found.sort()
        if found and found[0][0] <= _OTHER_GROUND:
            best = [place for score, place in found[:6] if score <= _NEARLY_AS_GOOD * found[0][0] + 1]
            return best[int(draw.integers(len(best)))]
    raise EditFailed(f"there is no free ground beside it for {width(box)}x{height(box)} pixels")


def _candidates(box: Box, size: tuple[int, int], scale: float) -> Iterator[Box]:
    across, down = round(width(box) * scale), round(height(box) * scale)
    for up in (0, -(height(box) // 8), height(box) // 8):
        # What is smaller is farther away, and stands higher in the picture.
        foot = box[3] - up - round(0.4 * (1 - scale) * height(box))
        for left in [*range(0, size[0] - across, max(1, across // 5)), size[0] - across]:
            yield left, foot - down, left + across, foot


def _around(lab: NDArray[np.float32], box: Box, scale: float, *, hollow: bool) -> NDArray[np.float32]:
    """Mean and deviation of L, a, b: of the ground around the box, or of what a thing there would hide."""
    near = neighbourhood(box, (round(lab.shape[1] / scale), round(lab.shape[0] / scale)))
    left, top, right, bottom = (round(value * scale) for value in near)
    which = np.zeros(lab.shape[:2], bool)
    which[top : max(bottom, top + 1), left : max(right, left + 1)] = True
    if hollow:
        left, top, right, bottom = (round(value * scale) for value in box)
        which[top:bottom, left:right] = False
    if not which.any():
        return np.zeros(6, np.float32)
    return np.concatenate([lab[which].mean(axis=0), lab[which].std(axis=0)]).astype(np.float32)


def _ground(picture: Pixels, mask: Mask) -> NDArray[np.float32]:
    """Mean colour of the strip around the mask."""
    ys, xs = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not ys.size:
        return np.zeros(3, np.float32)
    reach = margin((int(xs[0]), int(ys[0]), int(xs[-1]) + 1, int(ys[-1]) + 1))
    place = (slice(max(0, ys[0] - reach), ys[-1] + reach + 1), slice(max(0, xs[0] - reach), xs[-1] + reach + 1))
    near = mask[place]
    strip = widened(near, min(reach, 10)) & ~widened(near, 2)
    return picture[place][strip].mean(axis=0).astype(np.float32) if strip.any() else np.zeros(3, np.float32)
