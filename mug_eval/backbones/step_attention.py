"""Attention for steps of one token a row: two batched products instead of the general kernel, which is slow at that on a CPU.

Several times faster for small heads there (docs/performance.md); on a GPU no slower. Prompts go to transformers' own ``sdpa``.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

NAME = "mug_eval_step"


def install(model: Any) -> bool:
    """Let the language model (not the vision tower) use it, if it uses ``sdpa`` now. Returns whether it does."""
    text = model.config.get_text_config()
    if text._attn_implementation != "sdpa":
        return False
    AttentionInterface.register(NAME, attend)
    AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])
    text._attn_implementation = NAME
    return True


def uninstall(model: Any) -> None:
    """Back to ``sdpa``."""
    text = model.config.get_text_config()
    if text._attn_implementation == NAME:
        text._attn_implementation = "sdpa"


def attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """As transformers calls it.

    Args:
        module: the attention layer.
        query: (rows, heads, tokens, size).
        key: (rows, key heads, columns, size).
        value: as ``key``.
        attention_mask: bool (rows, 1, tokens, columns), true where a token looks, or None.
        dropout: 0; nothing is trained here.
        scaling: of the products; one over the root of the size if None.
        kwargs: handed on; anything that bends attention sends the call to ``sdpa``.

    Returns:
        (rows, tokens, heads, size), and no weights.
    """
    bent = kwargs.get("softcap") is not None or kwargs.get("position_bias") is not None
    if query.shape[2] != 1 or bent or (attention_mask is not None and attention_mask.dtype != torch.bool):
        return sdpa_attention_forward(  # type: ignore[no-any-return]
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    rows, heads, _, size = query.shape
    groups = key.shape[1]
    scale = size**-0.5 if scaling is None else scaling
    scores = torch.matmul(query.reshape(rows, groups, heads // groups, size) * scale, key.transpose(-1, -2))
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, -torch.inf)
    weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    return torch.matmul(weights, value).reshape(rows, 1, heads, size), None
