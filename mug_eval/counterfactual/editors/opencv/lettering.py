"""Other printed words: the old ones are erased from their ground, the new ones set in their height, weight and colour."""

from __future__ import annotations

import re
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from mug_eval.counterfactual.editors.editor import EditFailed
from mug_eval.counterfactual.editors.opencv.fill import fill
from mug_eval.counterfactual.editors.opencv.masks import Mask, Pixels, filled, widened
from mug_eval.counterfactual.editors.opencv.region import width
from mug_eval.counterfactual.plan import Box

_LEAST_CONTRAST = 14.0
_LEAST_INK, _MOST_INK = 0.01, 0.65
_FINE = 4
_NARROWEST = 0.7
_SMALLEST = 0.6
_LEAST_PLATE = 0.2
"""Share of the box."""
_RECTANGULAR = 0.88
"""Share of its own box that a plate fills: an O, its inside filled, has 0.79."""
_LIKE_PROPORTIONS = 0.25
_QUOTED = re.compile(r"[\"'“‘«](.+?)[\"'”’»]")


@dataclass(frozen=True, slots=True)
class _Print:
    """What is printed in a box.

    Attributes:
        ink: which pixels of the picture are ink.
        colour: of the ink, RGB.
        box: around the ink.
        line: height of one line, pixels.
        stroke: how thick its strokes are, pixels.
    """

    ink: Mask
    colour: NDArray[np.float32]
    box: Box
    line: float
    stroke: float


def relettered(picture: Pixels, box: Box, words: str, target: str, seed: int) -> Pixels:
    """The picture with other words in the box.

    The old words, where the target quotes them (``the sign "STOP"``), tell how large the type is; else capitals are taken to be as
    high as a line of ink. The type is Pillow's own sans serif, narrowed to 70 % and made smaller to 60 % where the words are long.

    Args:
        picture: the box and what is around it.
        box: in pixels of ``picture``.
        words: what is to stand there, one line.
        target: what stands there.
        seed: of the erased ground's grain.

    Raises:
        EditFailed: no words are given, none can be made out in the box, or they do not fit; or the type has no such letters.
    """
    words = " ".join(words.split())
    if not words:
        raise EditFailed("no words are given to stand there")
    plate = _plate(picture, box)
    if plate is not None:  # seen alone, so that its ground is continued from itself and the words stay on it
        left, top, right, bottom = plate
        crop = np.ascontiguousarray(picture[top:bottom, left:right])
        result = picture.copy()
        result[top:bottom, left:right] = _relettered(crop, (0, 0, right - left, bottom - top), words, target, seed)
        return result
    return _relettered(picture, box, words, target, seed)


def _plate(picture: Pixels, box: Box) -> Box | None:
    """The upright plate within the box that words stand on, where the box holds more than that: its ground is then no ink."""
    left, top = box[:2]
    levels, _ = _apart(picture, box)
    found = cv2.threshold(levels, 0, 1, cv2.THRESH_BINARY + cv2.THRESH_OTSU)[1]
    count, labels, statistics, _ = cv2.connectedComponentsWithStats(found, connectivity=4)
    if count < 2:
        return None
    main = 1 + int(np.argmax(statistics[1:, cv2.CC_STAT_AREA]))
    x, y, across, down = (int(value) for value in statistics[main, :4])
    if across * down < _LEAST_PLATE * levels.size or min(across, down) < 8:
        return None
    solid = filled(labels == main)
    if np.count_nonzero(solid) < _RECTANGULAR * across * down:
        return None
    # One pixel less: the edge is often half of each.
    plate = left + x + 1, top + y + 1, left + x + across - 1, top + y + down - 1
    try:
        _read_print(picture[plate[1] : plate[3], plate[0] : plate[2]], (0, 0, across - 2, down - 2), "")
    except EditFailed:  # a bar or a block of ink, with nothing on it
        return None
    return plate


def _relettered(picture: Pixels, box: Box, words: str, target: str, seed: int) -> Pixels:
    old = _read_print(picture, box, target)
    mask = _within(_set(words, _old_words(target, old), old, width(box)), picture.shape, words)
    ground = fill(picture, widened(old.ink, max(1, round(old.stroke / 3))), seed)
    rows, columns = mask.shape
    top = round((old.box[1] + old.box[3]) / 2 - rows / 2)
    left = old.box[0] if columns <= 0.5 * width(old.box) else round((old.box[0] + old.box[2]) / 2 - columns / 2)
    left = max(0, min(left, picture.shape[1] - columns))
    top = max(0, min(top, picture.shape[0] - rows))
    place = (slice(top, top + rows), slice(left, left + columns))
    mixed = ground[place] + mask[..., None] * (old.colour - ground[place])
    ground[place] = np.clip(np.rint(mixed), 0, 255).astype(np.uint8)
    return ground


def _read_print(picture: Pixels, box: Box, target: str) -> _Print:
    left, top, right, bottom = box
    levels, distance = _apart(picture, box)
    threshold, found = cv2.threshold(levels, 0, 1, cv2.THRESH_BINARY + cv2.THRESH_OTSU)
    ink = found > 0
    share = float(ink.mean())
    contrast = float(distance[ink].mean() - distance[~ink].mean()) if 0 < share < 1 else 0.0
    if contrast < _LEAST_CONTRAST or not _LEAST_INK <= share <= _MOST_INK:
        raise EditFailed(f"no printed words can be made out in the box of {target!r}")
    core = distance >= np.percentile(distance[ink], 60)
    colour = np.median(picture[top:bottom, left:right][core & ink], axis=0).astype(np.float32)
    ys, xs = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    whole = np.zeros(picture.shape[:2], bool)
    # Half-covered pixels at the strokes' edges would stay as a shadow of the old words.
    whole[top:bottom, left:right] = levels > threshold / 2
    around = (left + int(xs[0]), top + int(ys[0]), left + int(xs[-1]) + 1, top + int(ys[-1]) + 1)
    return _Print(whole, colour, around, _line_height(ink), _stroke(ink))


def _within(mask: NDArray[np.float32], room: tuple[int, ...], words: str) -> NDArray[np.float32]:
    """The letters without the empty rows and columns around them, and no larger than the picture or plate that they go onto.

    Raises:
        EditFailed: they would be too small to be read.
    """
    inked = mask > 0.02
    ys, xs = np.flatnonzero(inked.any(axis=1)), np.flatnonzero(inked.any(axis=0))
    if not ys.size:
        raise EditFailed(f"{words!r} would be too small to be read")
    mask = mask[ys[0] : ys[-1] + 1, xs[0] : xs[-1] + 1]
    factor = min(1.0, room[0] / mask.shape[0], room[1] / mask.shape[1])
    if factor < _SMALLEST:
        raise EditFailed(f"{words!r} does not fit into {room[1]} pixels")
    size = max(1, int(mask.shape[1] * factor)), max(1, int(mask.shape[0] * factor))
    return mask if factor == 1 else np.asarray(cv2.resize(mask, size, interpolation=cv2.INTER_AREA))


def _apart(picture: Pixels, box: Box) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """How far each pixel of the box is in colour from the box's frame: in half units up to 255, and in CIE Lab's."""
    left, top, right, bottom = box
    lab = cv2.cvtColor(picture[top:bottom, left:right].astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    frame = np.concatenate([lab[0], lab[-1], lab[:, 0], lab[:, -1]])
    distance = np.asarray(np.linalg.norm(lab - np.median(frame, axis=0), axis=2), np.float32)
    return np.clip(distance * 2, 0, 255).astype(np.uint8), distance


def _old_words(target: str, old: _Print) -> str | None:
    """What stands there: as the target quotes it, or the one of its words that has the proportions of the ink (``sun sign``)."""
    quoted = _QUOTED.search(target)
    if quoted:
        return quoted[1]
    across, down = width(old.box), old.box[3] - old.box[1]

    def apart(word: str) -> float:
        left, top, right, bottom = _box_of(word, 200)
        return abs(float(np.log(max(1.0, right - left) / max(1.0, bottom - top) * down / across)))

    near = [(apart(word), word) for word in target.split() if all(_has(letter) for letter in word)]
    return min(near)[1] if near and min(near)[0] < _LIKE_PROPORTIONS else None


def _line_height(ink: Mask) -> float:
    """Height of the highest line: rows of ink without an empty row between them."""
    rows = np.concatenate([[0], (ink.mean(axis=1) > 0.004).astype(np.int8), [0]])
    starts, ends = np.flatnonzero(np.diff(rows) == 1), np.flatnonzero(np.diff(rows) == -1)
    return float((ends - starts).max()) if starts.size else float(ink.shape[0])


def _stroke(ink: Mask) -> float:
    """Thickness of the strokes: twice the usual depth of their middle lines."""
    depth = cv2.distanceTransform(np.pad(ink, 1).astype(np.uint8), cv2.DIST_L2, 5)
    ridge = (depth > 0) & (depth >= cv2.dilate(depth, np.ones((3, 3), np.uint8)))
    return float(2 * np.median(depth[ridge]) - 0.5) if ridge.any() else 1.0


def _set(words: str, old_words: str | None, old: _Print, room: int) -> NDArray[np.float32]:
    """The new words as weights in 0..1, as large as they are to be."""
    sample = old_words or "H"
    high = _box_of(sample, 200)
    size = 200 * old.line / max(1.0, high[3] - high[1])
    missing = [letter for letter in words if not letter.isspace() and not _has(letter)]
    if missing:
        raise EditFailed(f"the type has no {missing[0]!r}")
    most = max(room, width(old.box))
    stretch = 1.0
    if old_words:
        stretch = float(np.clip(width(old.box) * 200 / size / max(1.0, high[2] - high[0]), _NARROWEST, 1.4))
    natural = (_box_of(words, 200)[2] - _box_of(words, 200)[0]) * size / 200
    if natural * stretch > most:
        narrowed = max(_NARROWEST, min(stretch, most / natural))
        shrunk = min(1.0, most / (natural * narrowed))
        if shrunk < _SMALLEST:
            raise EditFailed(f"{words!r} does not fit into {room} pixels")
        stretch, size = narrowed, size * shrunk
    fine = max(4.0, size * _FINE)
    weight = max(0, round((old.stroke * _FINE - _stroke(_drawn(words, fine, 0) > 127)) / 2))
    drawn = _drawn(words, fine, min(weight, round(0.08 * fine)))
    target = max(1, round(drawn.shape[1] * stretch / _FINE)), max(1, round(drawn.shape[0] / _FINE))
    soft = cv2.resize(drawn.astype(np.float32) / 255, target, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.GaussianBlur(soft, (0, 0), 0.5))


def _drawn(words: str, size: float, weight: int) -> NDArray[np.uint8]:
    """The words in white on black, with as little around as there can be."""
    font = ImageFont.load_default(size)
    left, top, right, bottom = font.getbbox(words, stroke_width=weight)
    canvas = Image.new("L", (int(right - left) + 2 * _FINE, int(bottom - top) + 2 * _FINE))
    ImageDraw.Draw(canvas).text((_FINE - left, _FINE - top), words, fill=255, font=font, stroke_width=weight)
    return np.asarray(canvas)


def _box_of(words: str, size: float) -> tuple[float, float, float, float]:
    return ImageFont.load_default(size).getbbox(words)


def _has(letter: str) -> bool:
    """Whether the type has the letter: what it lacks is drawn as one and the same box."""
    font = ImageFont.load_default(40)
    return bytes(font.getmask(letter)) != bytes(font.getmask("\U0010fffe"))
