"""Attention for training on a CPU in bfloat16, where the fused kernel's backward pass is four times slower than plain products."""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface

NAME = "mug_eval_products"
HIDDEN = -1e4
"""Added to the scores of what may not be looked at."""


def additive(mask: torch.Tensor) -> torch.Tensor:
    """A mask to be added to scores.

    Args:
        mask: (B, 1, L, L), True where a token may look.
    """
    return torch.zeros(mask.shape, dtype=torch.bfloat16).masked_fill_(~mask, HIDDEN)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, scaling: float) -> torch.Tensor:
    """softmax(q k^T * scaling + mask) v.

    Args:
        q: (B, heads, L, width), as k and v.
        k: keys.
        v: values.
        mask: from :func:`additive`, or None.
        scaling: of the scores.

    Returns:
        (B, heads, L, width).
    """
    scores = (q * scaling).bfloat16() @ k.bfloat16().transpose(-1, -2)
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1) @ v.bfloat16()


def _forward(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """In the form in which transformers calls an attention."""
    return attend(query, key, value, attention_mask, scaling).transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, _forward)
