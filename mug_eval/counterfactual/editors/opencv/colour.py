"""Another colour for a thing: its main colour is moved in CIE Lab, so that light, shade and texture stay."""

from __future__ import annotations

import re

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import ImageColor

from mug_eval.counterfactual.editors.editor import EditFailed
from mug_eval.counterfactual.editors.opencv.masks import Mask, Pixels, feathered, widened

Floats = NDArray[np.float32]

# The colours that people name, as things have them; the web's are those of lamps.
_COLOURS = {
    "red": (200, 30, 35),
    "orange": (235, 125, 25),
    "yellow": (240, 205, 40),
    "green": (45, 140, 60),
    "turquoise": (50, 175, 175),
    "blue": (35, 85, 185),
    "purple": (120, 55, 150),
    "violet": (120, 55, 150),
    "pink": (235, 120, 165),
    "brown": (115, 75, 45),
    "beige": (220, 200, 165),
    "black": (28, 28, 30),
    "white": (238, 238, 236),
    "grey": (128, 128, 128),
    "gray": (128, 128, 128),
    "silver": (185, 187, 190),
    "gold": (205, 165, 60),
}
_SHADES = {"dark": -18.0, "deep": -12.0, "light": 18.0, "pale": 22.0, "bright": 6.0}
_GREY_PICTURE = 8
_SAME_COLOUR = 14.0
_NEAR, _FAR = 14.0, 34.0


def named_colour(words: str) -> tuple[float, float, float] | None:
    """(L, a, b) of a colour in words (``dark red``, ``#1e90ff``, ``bright sky blue``), None if no colour is named."""
    parts = re.findall(r"#[0-9a-f]{6}|#[0-9a-f]{3}\b|[a-z]+", words.lower())
    rgb: tuple[int, ...] | None = None
    for count in (1,) if parts and parts[-1] in _COLOURS else (3, 2, 1):
        for start in range(len(parts) - count, -1, -1):
            rgb = rgb or _lookup("".join(parts[start : start + count]))
    if rgb is None:
        return None
    lightness, a, b = _lab(np.array([[rgb[:3]]], np.uint8))[0, 0]
    shift = sum(_SHADES.get(part, 0.0) for part in parts) if parts[-1] in _COLOURS else 0.0
    return float(np.clip(lightness + shift, 8, 95)), float(a), float(b)


_AROUND = 16
_BESIDE = 12
"""Pixels around a thing that are looked at as its ground."""
_ALIKE = 10.0
_MOST_GROUND = 0.6
"""At most this share of them may have the main colour of what is to be painted, as far as the eye can tell at a glance."""


def recoloured(picture: Pixels, mask: Mask, words: str, target: str) -> Pixels:
    """The picture with the masked thing in another colour.

    Only its main colour and what is near that is moved: the windows of a red car do not turn blue.

    Raises:
        EditFailed: no colour is named, the thing has that colour or its ground's, or the picture has none.
    """
    wanted = named_colour(words)
    if wanted is None:
        raise EditFailed(f"{words!r} names no colour")
    lightness, a, b = wanted
    if (a * a + b * b) ** 0.5 > 12 and int(np.ptp(picture, axis=2).max()) <= _GREY_PICTURE:
        raise EditFailed(f"the picture is greyscale: nothing in it can turn {words}")
    rows, columns = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
    if not len(rows):
        return picture.copy()
    # No pixel farther off is touched, and a picture in floating point takes many times its bytes.
    top, left = max(0, rows[0] - _AROUND), max(0, columns[0] - _AROUND)
    whole, part = picture.copy(), (slice(top, rows[-1] + 1 + _AROUND), slice(left, columns[-1] + 1 + _AROUND))
    picture, mask = picture[part], mask[part]
    lab = _lab(picture)
    main = _main_colour(lab[mask])
    share = _near(lab, main)
    ground = widened(mask, _BESIDE + 2) & ~widened(mask, 2)
    if ground.any() and float((np.linalg.norm(lab[ground] - main, axis=1) < _ALIKE).mean()) > _MOST_GROUND:
        # Then the outline is likely the ground's own, or a thing's whose edge nobody could tell.
        raise EditFailed(f"{target!r} has the colour of its ground here: paint would cover that too")
    # A dark thing that becomes light goes most of the way, so that it is not mistaken for its old colour in another light.
    new_lightness = main[0] + 0.8 * (lightness - main[0])
    if float(np.linalg.norm(np.array([0.7 * (new_lightness - main[0]), a - main[1], b - main[2]]))) < _SAME_COLOUR:
        raise EditFailed(f"{target!r} is {words} as it is")
    shade = lab[..., 0] - main[0]
    contrast = float(np.clip((new_lightness + 20) / (main[0] + 20), 0.55, 1.25))
    moved = np.empty_like(lab)
    moved[..., 0] = np.clip(new_lightness + contrast * shade, 2, 98)
    depth = np.clip(moved[..., 0] / max(new_lightness, 1.0), 0.3, 1.15)
    highlight = np.clip((98 - moved[..., 0]) / max(98 - new_lightness, 20.0), 0.0, 1.0)  # a gleam has the colour of the light
    for channel, value in ((1, a), (2, b)):
        moved[..., channel] = value * depth * np.minimum(1, highlight * 1.6) + 0.35 * (lab[..., channel] - main[channel])
    weight = (feathered(widened(mask, 1), 1.5) * share)[..., None]
    result = lab + weight * (moved - lab)
    rgb = cv2.cvtColor(result.astype(np.float32), cv2.COLOR_LAB2RGB)
    changed = picture.copy()
    touched = weight[..., 0] > 1 / 512
    changed[touched] = np.clip(np.rint(rgb[touched] * 255), 0, 255).astype(np.uint8)
    whole[part] = changed
    return whole


def _lookup(name: str) -> tuple[int, ...] | None:
    if name in _COLOURS:
        return _COLOURS[name]
    try:
        return ImageColor.getrgb(name)
    except ValueError:
        return None


def _lab(picture: Pixels) -> Floats:
    """L in 0..100, a and b about -110..110."""
    return np.asarray(cv2.cvtColor(picture.astype(np.float32) / 255, cv2.COLOR_RGB2LAB))


def _main_colour(pixels: Floats) -> Floats:
    """(L, a, b) of the largest of three groups of pixels, where colourful ones count for more than grey ones."""
    sample = pixels[:: max(1, len(pixels) // 4000)] * np.array([0.5, 1, 1], np.float32)
    if len(sample) < 30:
        return np.asarray(np.median(pixels, axis=0))
    cv2.setRNGSeed(1)
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 20, 0.5)
    _, labels, centres = cv2.kmeans(np.ascontiguousarray(sample), 3, None, stop, 2, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    sizes = np.bincount(labels.ravel(), minlength=3) * (1 + np.hypot(centres[:, 1], centres[:, 2]) / 40)
    return np.asarray(centres[int(np.argmax(sizes))] / np.array([0.5, 1, 1], np.float32))


def _near(lab: Floats, main: Floats) -> Floats:
    """Weights in 0..1: how far each pixel has the main colour, in whatever light."""
    chroma = float(np.hypot(main[1], main[2]))
    if chroma > 18:
        # Its hue at another chroma, but no less than about its share of light: a dark spot is the thing in shade, a pale one a label.
        least = 0.5 * np.clip(lab[..., 0] / max(float(main[0]), 10.0), 0, 1.5)
        along = np.clip((lab[..., 1] * main[1] + lab[..., 2] * main[2]) / chroma**2, least, 1.6)
        distance = np.hypot(lab[..., 1] - along * main[1], lab[..., 2] - along * main[2])
    else:
        distance = np.hypot(lab[..., 1] - main[1], lab[..., 2] - main[2]) + 0.35 * np.abs(lab[..., 0] - main[0])
    step = np.clip((_FAR - distance) / (_FAR - _NEAR), 0, 1)
    return np.asarray(step * step * (3 - 2 * step), np.float32)
