"""Small pictures with a known thing in a known place, for tests of editors."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mug_eval.counterfactual.plan import Box

BOX: Box = (60, 70, 100, 120)
RED = (200, 40, 40)


def ground(width: int = 240, height: int = 180, seed: int = 0, rough: float = 3.0) -> np.ndarray:
    """A light ground with a slope of brightness and grain of that deviation."""
    slope = np.linspace(150, 200, width)[None, :, None] + np.linspace(-15, 15, height)[:, None, None]
    grain = np.random.default_rng(seed).normal(0, rough, (height, width, 1))
    return np.clip(slope + grain + np.array([0, 5, -10]), 0, 255).astype(np.uint8)


def scene(
    box: Box = BOX, colour: tuple[int, int, int] = RED, width: int = 240, height: int = 180, rough: float = 3.0
) -> Image.Image:
    """An ellipse of that colour, lit from above, on the ground."""
    picture = ground(width, height, rough=rough)
    y, x = np.mgrid[: picture.shape[0], : picture.shape[1]]
    middle, radii = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2), ((box[2] - box[0]) / 2, (box[3] - box[1]) / 2)
    inside = ((x - middle[0]) / radii[0]) ** 2 + ((y - middle[1]) / radii[1]) ** 2 <= 1
    light = 1.15 - 0.4 * (y - box[1]) / (box[3] - box[1])
    picture[inside] = np.clip(np.array(colour) * light[inside][:, None], 0, 255).astype(np.uint8)
    return Image.fromarray(picture)


def sign(words: str = "STOP") -> tuple[Image.Image, Box]:
    """Dark words on the ground, and the box around them."""
    picture = Image.fromarray(ground(rough=1.0))
    font = ImageFont.load_default(32)
    ImageDraw.Draw(picture).text((60, 60), words, fill=(20, 30, 90), font=font)
    left, top, right, bottom = ImageDraw.Draw(picture).textbbox((60, 60), words, font=font)
    return picture, (int(left) - 4, int(top) - 4, int(right) + 5, int(bottom) + 5)


def reddish(picture: Image.Image) -> np.ndarray:
    """Where a picture is as red as the thing."""
    pixels = np.asarray(picture.convert("RGB")).astype(int)
    return (pixels[..., 0] - pixels[..., 1] > 60) & (pixels[..., 0] - pixels[..., 2] > 60)
