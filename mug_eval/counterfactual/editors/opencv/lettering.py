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
from mug_eval.counterfactual.editors.opencv.masks import Mask, Pixels, widened
from mug_eval.counterfactual.editors.opencv.region import width
from mug_eval.counterfactual.plan import Box

_LEAST_CONTRAST = 14.0
_LEAST_INK, _MOST_INK = 0.01, 0.65
_FINE = 4
_NARROWEST = 0.7
_SMALLEST = 0.6
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
    old = _read_print(picture, box, target)
    quoted = _QUOTED.search(target)
    mask = _set(words, quoted[1] if quoted else None, old, width(box))
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
    lab = cv2.cvtColor(picture[top:bottom, left:right].astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    frame = np.concatenate([lab[0], lab[-1], lab[:, 0], lab[:, -1]])
    distance = np.linalg.norm(lab - np.median(frame, axis=0), axis=2)
    levels = np.clip(distance * 2, 0, 255).astype(np.uint8)
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
