"""Which pixels of a box are the thing in it: GrabCut, or the box with round corners where that finds no clear outline."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from mug_eval.counterfactual.editors.opencv.region import clipped, grown, height, width
from mug_eval.counterfactual.plan import Box

Pixels = NDArray[np.uint8]
"""A picture: (rows, columns, 3), RGB."""
Mask = NDArray[np.bool_]
"""(rows, columns)."""

_WORKING_SIDE = 320
_ROUNDS = 5
_LEAST_SHARE, _MOST_SHARE = 0.12, 0.97
_LEAST_EXTENT = 0.5
_MIDDLE = 0.32


@dataclass(frozen=True, slots=True)
class Outline:
    """The pixels of a target.

    Attributes:
        mask: True where the target is.
        clear: whether an outline was found; if not, ``mask`` is the box with round corners.
    """

    mask: Mask
    clear: bool


def outline(picture: Pixels, box: Box, seed: int, *, thorough: bool = False) -> Outline:
    """Find the target in its box (Rother et al., GrabCut, 2004; at a working size of at most 320 pixels).

    A box is taken to fit its object: an outline that leaves much of the box's width or height empty, or that fills it to the corners,
    is no outline of it.

    Args:
        picture: the box and what is around it.
        box: in pixels of ``picture``.
        seed: of GrabCut's clustering.
        thorough: with thin and small parts that may belong to it, for what must not be left over.
    """
    rows, columns = picture.shape[:2]
    scale = min(1.0, _WORKING_SIDE / max(rows, columns))
    small = resized(picture, (max(1, round(columns * scale)), max(1, round(rows * scale))))
    place = (round(box[0] * scale), round(box[1] * scale), round(box[2] * scale), round(box[3] * scale))
    found = _grabcut(small, place, seed, sure_middle=False, thorough=thorough)
    if found is None:  # colours like those around it: all taken for background, or for the target
        found = _grabcut(small, place, seed, sure_middle=True, thorough=thorough)
    if found is None:
        return Outline(rounded(picture.shape[:2], box), clear=False)
    soft = cv2.resize(found.astype(np.float32), (columns, rows), interpolation=cv2.INTER_LINEAR)
    return Outline(soft > 0.5, clear=True)


def resized(picture: Pixels, size: tuple[int, int]) -> Pixels:
    """The picture at (width, height) ``size``: means when it gets smaller, cubic when larger."""
    method = cv2.INTER_AREA if size[0] < picture.shape[1] else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, size, interpolation=method), np.uint8)


def rounded(shape: tuple[int, ...], box: Box) -> Mask:
    """The box as a mask, its corners rounded (a superellipse of exponent 4)."""
    y = (np.arange(shape[0]) + 0.5 - (box[1] + box[3]) / 2) / (height(box) / 2)
    x = (np.arange(shape[1]) + 0.5 - (box[0] + box[2]) / 2) / (width(box) / 2)
    return np.asarray((y[:, None] ** 4 + x[None, :] ** 4) <= 1)


def widened(mask: Mask, pixels: int) -> Mask:
    """The mask and everything up to ``pixels`` away from it."""
    if pixels < 1:
        return mask
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * pixels + 1, 2 * pixels + 1))
    return np.asarray(cv2.dilate(mask.astype(np.uint8), disc) > 0)


def joined(mask: Mask, pixels: int) -> Mask:
    """The mask with gaps of up to twice that many pixels closed, and without holes."""
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * pixels + 1, 2 * pixels + 1))
    padded = np.pad(mask.astype(np.uint8), pixels + 1)
    closed = cv2.morphologyEx(padded, cv2.MORPH_CLOSE, disc)[pixels + 1 : -pixels - 1, pixels + 1 : -pixels - 1]
    return filled(np.asarray(closed > 0))


def filled(mask: Mask) -> Mask:
    """The mask without holes."""
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    return np.asarray(cv2.drawContours(np.zeros(mask.shape, np.uint8), contours, -1, 1, cv2.FILLED) > 0)


def feathered(mask: Mask, pixels: float) -> NDArray[np.float32]:
    """The mask as weights in 0..1 with a soft edge of about ``pixels``, which lies half outside."""
    return np.asarray(cv2.GaussianBlur(mask.astype(np.float32), (0, 0), max(0.4, pixels / 2)))


def _grabcut(picture: Pixels, box: Box, seed: int, *, sure_middle: bool, thorough: bool) -> Mask | None:
    """The outline, None if it cannot be one.

    Args:
        picture: at working size.
        box: in its pixels.
        seed: of the clustering.
        sure_middle: the middle of the box belongs to the target, whatever it looks like.
        thorough: keep the thin and the small parts too.
    """
    rows, columns = picture.shape[:2]
    slack = max(1, round(0.02 * max(width(box), height(box))))
    left, top, right, bottom = clipped(grown(box, slack), (columns, rows))
    around = rows * columns - (right - left) * (bottom - top)
    if around < 0.1 * rows * columns or min(right - left, bottom - top) < 4:
        return None
    labels = np.full((rows, columns), cv2.GC_BGD, np.uint8)
    labels[top:bottom, left:right] = cv2.GC_PR_BGD
    labels[rounded(labels.shape, box)] = cv2.GC_PR_FGD
    if sure_middle:
        across, down = round(_MIDDLE * width(box)), round(_MIDDLE * height(box))
        labels[rounded(labels.shape, (box[0] + across, box[1] + down, box[2] - across, box[3] - down))] = cv2.GC_FGD
    cv2.setRNGSeed(seed & 0x7FFFFFFF)  # of this thread only
    background, foreground = np.zeros((1, 65), np.float64), np.zeros((1, 65), np.float64)
    try:
        cv2.grabCut(picture, labels, (0, 0, 0, 0), background, foreground, _ROUNDS, cv2.GC_INIT_WITH_MASK)
    except cv2.error:  # too few pixels or colours for its mixtures
        return None
    found = (labels == cv2.GC_FGD) | (labels == cv2.GC_PR_FGD)
    main = np.asarray(
        cv2.morphologyEx(found.astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8)) > 0
    )  # even sizes shift it
    main = filled(_large_parts(main))
    inside = main[box[1] : box[3], box[0] : box[2]]
    share = np.count_nonzero(inside) / max(1, inside.size)
    least = _LEAST_SHARE if not sure_middle else 2 * _LEAST_SHARE  # the middle alone is no outline
    if not least <= share <= _MOST_SHARE:
        return None
    across, down = inside.any(axis=0).mean(), inside.any(axis=1).mean()
    if min(across, down) < _LEAST_EXTENT:
        return None
    return found | main if thorough else main


def _large_parts(mask: Mask) -> Mask:
    """The connected parts that are at least a tenth of the largest."""
    count, labels, statistics, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    if count < 2:
        return mask
    areas = statistics[:, cv2.CC_STAT_AREA].copy()
    areas[0] = 0
    return np.asarray((areas >= 0.1 * areas.max())[labels] & mask)
