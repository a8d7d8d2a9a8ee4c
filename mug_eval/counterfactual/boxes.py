"""How a backbone states a box, and what that is in pixels of the picture."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mug_eval.counterfactual.plan import Box
from mug_eval.counterfactual.planning_prompts import BoxUnits
from mug_eval.errors import UserError
from mug_eval.names import unknown

Size = tuple[int, int]
"""(width, height) in pixels."""

SMALLEST_SIDE = 4
"""Pixels of the picture: a box with a shorter side holds nothing that could be edited and seen."""

_MOST_OUTSIDE = 0.02
"""Of the picture's side: what a box may reach beyond it, as rounding makes it, before it counts as outside."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The coordinates in which a backbone states boxes.

    Attributes:
        name: as after ``--boxes``.
        units: as the prompts name them.
        step: ``pixels`` are those of the picture resized to multiples of this; 0: of the picture as it is sent.
        least_pixels: width x height that a picture is enlarged to.
        most_pixels: width x height that it is reduced to.
    """

    name: str
    units: BoxUnits
    step: int = 0
    least_pixels: int = 0
    most_pixels: int = 0

    def seen(self, size: Size) -> Size:
        """The largest coordinates, (right, bottom), for a picture of this size."""
        if self.units == "thousandths":
            return 1000, 1000
        return resized(size, self.step, self.least_pixels, self.most_pixels) if self.step else size

    def in_picture(self, said: Sequence[float], size: Size) -> Box:
        """A box as it was said, in whole pixels of the picture.

        Args:
            said: left, top, right, bottom.
            size: of the picture.

        Raises:
            ValueError: four numbers that are no box, one that lies outside, or one too small; says so in one line.
        """
        words = f"[{', '.join(f'{edge:g}' for edge in said)}]"
        if len(said) != 4 or not all(math.isfinite(edge) for edge in said):
            raise ValueError(f"{words} is not four numbers")
        left, top, right, bottom = said
        if left >= right or top >= bottom:
            raise ValueError(f"{words} is empty: left must be less than right, and top less than bottom")
        across, down = self.seen(size)
        slack_x, slack_y = _MOST_OUTSIDE * across, _MOST_OUTSIDE * down
        if left < -slack_x or top < -slack_y or right > across + slack_x or bottom > down + slack_y:
            raise ValueError(f"{words} reaches out of the picture, which ends at {across}, {down}")
        box = (
            max(0, round(left * size[0] / across)),
            max(0, round(top * size[1] / down)),
            min(size[0], round(right * size[0] / across)),
            min(size[1], round(bottom * size[1] / down)),
        )
        if min(box[2] - box[0], box[3] - box[1]) < SMALLEST_SIDE:
            raise ValueError(f"{words} is too small to hold anything")
        return box

    def as_said(self, box: Box, size: Size) -> Box:
        """A box of the picture as the backbone would state it, rounded."""
        across, down = self.seen(size)
        scales = (across / size[0], down / size[1])
        left, top, right, bottom = (round(edge * scales[place % 2]) for place, edge in enumerate(box))
        return left, top, right, bottom


def resized(size: Size, step: int, least_pixels: int, most_pixels: int) -> Size:
    """The size at which the Qwen2-VL family sees a picture (transformers, ``smart_resize``): each side the nearest multiple of the step.

    Where that is more or fewer pixels than allowed, both sides are scaled alike, then cut down or filled up to a multiple.
    """
    width, height = (round(side / step) * step for side in size)
    if width * height > most_pixels:
        scale = math.sqrt(size[0] * size[1] / most_pixels)
        width, height = (max(step, math.floor(side / scale / step) * step) for side in size)
    elif width * height < least_pixels:
        scale = math.sqrt(least_pixels / (size[0] * size[1]))
        width, height = (math.ceil(side * scale / step) * step for side in size)
    return width, height


FRAMES: Mapping[str, Frame] = {
    frame.name: frame
    for frame in (
        Frame("thousandths", "thousandths"),
        Frame("pixels", "pixels"),
        Frame("qwen2.5", "pixels", 28, 56 * 56, 12_845_056),
        Frame("reference", "pixels", 28, 168 * 168, 168 * 168),
    )
}
"""By name: 0..1000 (InternVL, Qwen3-VL, Gemini); pixels as sent; pixels as Qwen2.5-VL's processor resizes with its own limits, and as the
reference model's does."""

_BY_MODEL = (
    (re.compile(r"qwen2[._-]?5[._-]?vl|^qwen(-3b|-72b)?$", re.IGNORECASE), "qwen2.5"),
    (re.compile(r"^reference$"), "reference"),
)


def frame_named(name: str) -> Frame:
    """The frame of that name.

    Raises:
        UserError: there is none.
    """
    if name not in FRAMES:
        raise UserError(unknown("convention of boxes", name, FRAMES))
    return FRAMES[name]


def frame_of(*names: str) -> Frame:
    """The frame of a backbone by its names (short name, model id): ``thousandths`` where none of them is known."""
    for pattern, frame in _BY_MODEL:
        if any(pattern.search(name) for name in names):
            return FRAMES[frame]
    return FRAMES["thousandths"]
