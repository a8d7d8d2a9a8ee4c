"""A scene as a picture: 168 x 168 pixels, one cell of the grid 28 x 28, on a textured background."""

from __future__ import annotations

import io
import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from mug_eval.reference_vlm.scenes import GRID, SIGN, Scene, Thing
from mug_eval.seeds import derive_seed

CELL = 28
SIDE = CELL * GRID
Pixels = NDArray[np.float32]

_RADIUS = {"small": 6.0, "large": 11.0}
_JITTER = {"small": 4, "large": 2, "": 0}
_RGB = {
    "red": (210, 35, 40),
    "orange": (240, 135, 25),
    "yellow": (240, 225, 50),
    "green": (40, 165, 60),
    "blue": (45, 85, 220),
    "purple": (150, 50, 180),
    "white": (245, 245, 245),
}
_FINE = 4
"""Masks are drawn this much larger and averaged: soft edges."""


def draw(scene: Scene) -> NDArray[np.uint8]:
    """The picture of a scene.

    Returns:
        (168, 168, 3), RGB. The look is a function of ``scene.look`` and of each thing's cell, so that a picture and its edited twin
        differ in nothing but what was edited.
    """
    rng = np.random.default_rng(scene.look)
    picture = _background(rng)
    for thing in scene.things:
        _put(picture, thing, np.random.default_rng(derive_seed(scene.look, thing.row, thing.column)))
    return np.clip(picture, 0, 255).astype(np.uint8)


def png(scene: Scene) -> bytes:
    """The picture as a PNG file's bytes."""
    buffer = io.BytesIO()
    Image.fromarray(draw(scene)).save(buffer, "PNG")
    return buffer.getvalue()


def _background(rng: np.random.Generator) -> Pixels:
    """Dull and rather dark: a slope, blotches and grain, or stripes."""
    base = rng.uniform(45, 115) + rng.uniform(-12, 12, 3)
    across, down = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
    grey = rng.uniform(-18, 18) * across + rng.uniform(-18, 18) * down
    if rng.random() < 0.5:
        coarse = rng.normal(0, 9, (GRID * 2, GRID * 2))
        grey = grey + np.repeat(np.repeat(coarse, CELL // 2, 0), CELL // 2, 1)
    else:
        angle, wave = rng.uniform(0, math.pi), rng.uniform(8, 40)
        grey = grey + rng.uniform(4, 12) * np.sin(wave * (across * math.cos(angle) + down * math.sin(angle)))
    grey = grey + rng.normal(0, 4, (SIDE, SIDE))
    picture: Pixels = (base + grey[..., None]).astype(np.float32)
    return picture


def _put(picture: Pixels, thing: Thing, rng: np.random.Generator) -> None:
    reach = _JITTER[thing.size]
    down, across = rng.integers(-reach, reach + 1, 2)
    mask = np.roll(_mask(thing.shape, thing.size), (down, across), (0, 1))[..., None]
    top, left = (thing.row - 1) * CELL, (thing.column - 1) * CELL
    cell = picture[top : top + CELL, left : left + CELL]
    if thing.shape == SIGN:
        cell[:] = cell * (1 - mask) + mask * _lettering(thing.word)[..., None]
    else:
        colour = np.asarray(_RGB[thing.colour]) * rng.uniform(0.9, 1.04) + rng.uniform(-8, 8, 3)
        cell[:] = cell * (1 - mask) + mask * colour


@cache
def _mask(shape: str, size: str) -> Pixels:
    """How much of each pixel of the cell a shape covers, (28, 28) in 0..1."""
    canvas = Image.new("L", (CELL * _FINE, CELL * _FINE))
    pen = ImageDraw.Draw(canvas)
    centre, r = CELL * _FINE / 2, _RADIUS.get(size, 0.0) * _FINE

    def corners(count: int, inner: float = 1.0) -> list[tuple[float, float]]:
        radii = (r, r * inner)
        angles = (2 * math.pi * i / count - math.pi / 2 for i in range(count))
        return [(centre + radii[i % 2] * math.cos(a), centre + radii[i % 2] * math.sin(a)) for i, a in enumerate(angles)]

    box = (centre - r, centre - r, centre + r, centre + r)
    if shape == SIGN:
        pen.rectangle((_FINE, 5 * _FINE, 27 * _FINE - 1, 23 * _FINE - 1), fill=255)
    elif shape == "circle":
        pen.ellipse(box, fill=255)
    elif shape == "ring":
        pen.ellipse(box, fill=255)
        pen.ellipse((centre - 0.55 * r, centre - 0.55 * r, centre + 0.55 * r, centre + 0.55 * r), fill=0)
    elif shape == "square":
        pen.rectangle((centre - 0.85 * r, centre - 0.85 * r, centre + 0.85 * r, centre + 0.85 * r), fill=255)
    elif shape == "triangle":
        pen.polygon(corners(3), fill=255)
    elif shape == "diamond":
        pen.polygon([(centre, centre - r), (centre + 0.7 * r, centre), (centre, centre + r), (centre - 0.7 * r, centre)], fill=255)
    elif shape == "star":
        pen.polygon(corners(10, 0.42), fill=255)
    else:
        pen.rectangle((centre - 0.3 * r, centre - r, centre + 0.3 * r, centre + r), fill=255)
        pen.rectangle((centre - r, centre - 0.3 * r, centre + r, centre + 0.3 * r), fill=255)
    mask: Pixels = np.asarray(canvas.reduce(_FINE), np.float32) / np.float32(255)
    return mask


@cache
def _lettering(word: str) -> Pixels:
    """A white plate with a dark word on it, (28, 28) in 0..255."""
    canvas = Image.new("L", (CELL, CELL), 235)
    font = ImageFont.load_default(size=17 if len(word) == 1 else 13)
    ImageDraw.Draw(canvas).text((CELL / 2, CELL / 2), word, fill=15, font=font, anchor="mm")
    plate: Pixels = np.asarray(canvas, np.float32)
    return plate
