"""Many pictures through the vision tower at once, for training.

The class itself loops over the pictures. This path uses the same weights; it agrees with the class to rounding (a test compares them).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from mug_eval.reference_vlm.attention import attend
from mug_eval.reference_vlm.drawing import CELL, SIDE
from mug_eval.reference_vlm.model import MEAN, MERGE, PATCH, STD
from mug_eval.reference_vlm.scenes import COLOURS, GRID, SHAPES, SIGN, SIZES, WORDS, Scene

ASPECTS = {"shape": ("", *SHAPES, SIGN), "colour": ("", *COLOURS), "size": ("", *SIZES), "word": ("", *WORDS)}
"""What is to be named of every cell; the first value of each stands for "nothing there"."""


def patches(pictures: NDArray[np.uint8]) -> torch.Tensor:
    """Normalised patches in the order of Qwen's processor, one frame only.

    Args:
        pictures: (batch, 168, 168, 3), RGB.

    Returns:
        (batch, 144, 588): the four patches of a cell beside each other, each (channel, row, column) flattened.
    """
    x = torch.from_numpy(pictures).float().div_(255)
    x = (x - torch.tensor(MEAN)) / torch.tensor(STD)
    x = x.view(-1, GRID, MERGE, PATCH, GRID, MERGE, PATCH, 3).permute(0, 1, 4, 2, 5, 7, 3, 6)
    return x.reshape(len(pictures), (SIDE // PATCH) ** 2, 3 * PATCH * PATCH)


def _positions() -> torch.Tensor:
    """(row, column) of every patch, (144, 2), in the order of :func:`patches`."""
    places = torch.arange(SIDE // PATCH).view(GRID, MERGE)
    rows = places[:, None, :, None].expand(GRID, GRID, MERGE, MERGE).reshape(-1)
    columns = places[None, :, None, :].expand(GRID, GRID, MERGE, MERGE).reshape(-1)
    return torch.stack([rows, columns], -1)


def encode(visual: Any, x: torch.Tensor) -> torch.Tensor:
    """The tower's merged tokens.

    Args:
        visual: the model's ``model.visual``.
        x: (batch, 144, 588).

    Returns:
        (batch, 36, width of the language model), cells in reading order.
    """
    batch, count, _ = x.shape
    kernel = visual.patch_embed.proj.weight.sum(2).flatten(1)  # a still is two equal frames
    x = functional.linear(x, kernel)
    cos, sin = (part[None, None] for part in visual.rotary_pos_emb(x, _positions()))
    for block in visual.blocks:
        attention = block.attn
        qkv = attention.qkv(block.norm1(x)).view(batch, count, 3, attention.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k = (part * cos + _rotated(part) * sin for part in (qkv[0], qkv[1]))
        if torch.is_autocast_enabled("cpu"):
            mixed = attend(q, k, qkv[2], None, attention.scaling)
        else:
            mixed = functional.scaled_dot_product_attention(q, k, qkv[2], scale=attention.scaling)
        x = x + attention.proj(mixed.transpose(1, 2).reshape(batch, count, -1))
        x = x + block.mlp(block.norm2(x))
    merged: torch.Tensor = visual.merger(x.reshape(batch * count, -1))
    return merged.view(batch, GRID * GRID, -1)


def _rotated(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


class CellHeads(torch.nn.Module):  # type: ignore[misc]
    """Names shape, colour, size and word of every cell from its token; for training only."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = torch.nn.ModuleDict({aspect: torch.nn.Linear(width, len(values)) for aspect, values in ASPECTS.items()})

    def loss(self, tokens: torch.Tensor, labels: dict[str, torch.Tensor]) -> torch.Tensor:
        """Mean cross-entropy over the aspects; cells with something in them count four times.

        Args:
            tokens: (batch, 36, width).
            labels: aspect -> (batch, 36).
        """
        weight = torch.where(labels["shape"] > 0, 4.0, 1.0)
        total = torch.zeros(())
        for aspect, head in self.heads.items():
            each = functional.cross_entropy(head(tokens).float().flatten(0, 1), labels[aspect].flatten(), reduction="none")
            total = total + (each * weight.flatten()).sum() / weight.sum()
        return total / len(self.heads)

    def right(self, tokens: torch.Tensor, labels: dict[str, torch.Tensor]) -> dict[str, float]:
        """Share of the cells with something in them that are named rightly, by aspect."""
        occupied = labels["shape"] > 0
        return {a: (head(tokens).argmax(-1) == labels[a])[occupied].float().mean().item() for a, head in self.heads.items()}


def cell_labels(scenes: list[Scene]) -> dict[str, torch.Tensor]:
    """What is in every cell: aspect -> (batch, 36), indices into ASPECTS."""
    labels = {aspect: torch.zeros(len(scenes), GRID * GRID, dtype=torch.long) for aspect in ASPECTS}
    for i, scene in enumerate(scenes):
        for thing in scene.things:
            cell = (thing.row - 1) * GRID + thing.column - 1
            for aspect, values in ASPECTS.items():
                labels[aspect][i, cell] = values.index(getattr(thing, aspect))
    return labels


def blurred(pictures: NDArray[np.uint8], which: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Some pictures as they look after the ``paper`` preset enlarged them to 224 x 224 and the processor brought them back."""
    from PIL import Image

    out = pictures.copy()
    for i in np.flatnonzero(which):
        large = Image.fromarray(pictures[i]).resize((8 * CELL, 8 * CELL), Image.Resampling.BICUBIC)
        out[i] = np.asarray(large.resize((SIDE, SIDE), Image.Resampling.BICUBIC))
    return out
