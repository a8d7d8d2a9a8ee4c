"""Pictures to look at: I+, I- and where they differ, side by side, an edit a row."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mug_eval.counterfactual.change import VISIBLE
from mug_eval.counterfactual.features import Picture, lab_of

CELL = (340, 240)
HEADINGS = ("I+ and the target's box", "I\u2212", "what changed visibly")
_CAPTION = 330
_GAP = 8
_HEAD = 24


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One edit.

    Attributes:
        before: I+, (height, width, 3), RGB bytes.
        after: I-, of the same size.
        boxes: where the edit was to happen, in pixels.
        caption: what it is, lines of text.
    """

    before: Picture
    after: Picture
    boxes: Sequence[Sequence[float]]
    caption: Sequence[str]


def sheet(rows: Sequence[Row]) -> Image.Image:
    """All rows on one page: I+ with its boxes, I-, and I- in grey with what changed visibly in red."""
    across = 3 * (CELL[0] + _GAP) + _CAPTION + _GAP
    page = Image.new("RGB", (across, _HEAD + len(rows) * (CELL[1] + _GAP) + _GAP), "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(13)
    for place, words in enumerate(HEADINGS):
        pen.text((_GAP + place * (CELL[0] + _GAP), _GAP), words, fill="black", font=font)
    for number, row in enumerate(rows):
        top = _HEAD + _GAP + number * (CELL[1] + _GAP)
        scale = min(CELL[0] / row.before.shape[1], CELL[1] / row.before.shape[0])
        for place, picture in enumerate((row.before, row.after, difference(row.before, row.after))):
            left = _GAP + place * (CELL[0] + _GAP)
            page.paste(_fitted(picture, scale), (left, top))
            if place == 0:
                for box in row.boxes:
                    corners = [left + box[0] * scale, top + box[1] * scale, left + box[2] * scale - 1, top + box[3] * scale - 1]
                    pen.rectangle(corners, outline=(255, 200, 0))
        lines = [line for words in row.caption for line in textwrap.wrap(words, 46) or [""]]
        pen.multiline_text((_GAP + 3 * (CELL[0] + _GAP), top), "\n".join(lines[:14]), fill="black", font=font)
    return page


def difference(before: Picture, after: Picture) -> Picture:
    """I- in grey, with what differs visibly from I+ (as C_change counts it) in red."""
    apart = np.linalg.norm(cv2.GaussianBlur(lab_of(after) - lab_of(before), (0, 0), 1.0), axis=-1) > VISIBLE
    grey = np.repeat((after.mean(axis=2, keepdims=True) * 0.6 + 80).astype(np.uint8), 3, axis=2)
    grey[apart] = (220, 30, 30)
    return np.asarray(grey, np.uint8)


def _fitted(picture: Picture, scale: float) -> Image.Image:
    size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
    return Image.fromarray(picture).resize(size, Image.Resampling.BOX if scale < 1 else Image.Resampling.NEAREST)
