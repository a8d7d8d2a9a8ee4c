"""How replies are drawn and pictures are sized: the preset's settings, and the user's over them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mug_eval.backbones.catalogue import BackboneSpec
from mug_eval.chat import Sampling
from mug_eval.configuration import as_json, merge, resolve
from mug_eval.errors import UserError

_MOST_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """How pictures are put to the model.

    Attributes:
        size: (width, height) in pixels to which every picture is resized, or None for its own size.
    """

    size: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.size is not None and not all(1 <= side <= 10_000 for side in self.size):
            raise ValueError("size must lie in 1..10000 pixels")


def decoding(backbone: BackboneSpec, preset: str, settings: Mapping[str, Any]) -> tuple[Sampling, ImageSettings]:
    """The preset's decoding and resolution with the user's own settings over it.

    Args:
        backbone: whose preset.
        preset: ``native`` or ``paper``.
        settings: ``{"sampling": {...}, "image": {...}}``.

    Raises:
        UserError: no such preset for this backbone, or a setting that cannot be.
    """
    sampling: dict[str, Any] = {}
    image: dict[str, Any] = {}
    if preset == "paper":
        if backbone.paper is None:
            raise UserError(
                f"the paper says nothing of {backbone.name}: no --preset paper for it; use --preset native and set "
                "sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_tokens and image.size with --set"
            )
        sampling, image = {**as_json(backbone.paper.sampling)}, {"size": list(backbone.paper.size)}
    mine = settings.get("sampling", {})
    if "seed" in mine:
        raise UserError("sampling.seed is drawn from the run's seed for each call: use --seed")
    sampling = {name: value for name, value in merge(sampling, mine).items() if name != "seed"}
    image = merge(image, settings.get("image", {}))
    if isinstance(image.get("size"), str | int):
        image["size"] = _size(str(image["size"]))
    chosen = resolve(Sampling, sampling, where="sampling")
    check_sampling(chosen)
    return chosen, resolve(ImageSettings, image, where="image")


def _size(text: str) -> list[int] | None:
    """``224x224`` or ``native``."""
    if text == "native":
        return None
    sides = re.fullmatch(r"([0-9]{1,5})x([0-9]{1,5})", text)
    if not sides:
        raise UserError(f"image.size={text}: write WIDTHxHEIGHT in pixels, e.g. 224x224, or native")
    return [int(sides[1]), int(sides[2])]


def check_sampling(sampling: Sampling) -> None:
    """See that decoding settings can be meant.

    Raises:
        UserError: one is out of range.
    """
    if sampling.temperature is not None and not 0 <= sampling.temperature <= 2:
        raise UserError(f"sampling.temperature={sampling.temperature:g} must lie in 0..2")
    if sampling.top_p is not None and not 0 < sampling.top_p <= 1:
        raise UserError(f"sampling.top_p={sampling.top_p:g} must lie in (0, 1]")
    if sampling.top_k is not None and sampling.top_k < 1:
        raise UserError(f"sampling.top_k={sampling.top_k} must be at least 1; leave it out for no limit")
    if sampling.max_tokens < 1:
        raise UserError(f"sampling.max_tokens={sampling.max_tokens} must be at least 1")
    if sampling.max_tokens > _MOST_TOKENS:
        raise UserError(f"sampling.max_tokens={sampling.max_tokens} must be at most {_MOST_TOKENS}")
