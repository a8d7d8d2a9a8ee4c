"""Keys and values of runs of tokens, and the cache that a transformers model is given: it hands through what is new and holds nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

Segment = tuple[torch.Tensor, ...]
"""Keys and values of a run of tokens of one call: for each layer a tensor (2, key heads, tokens, head size)."""


def tokens(segment: Segment) -> int:
    """Tokens of a segment."""
    return int(segment[0].shape[2])


def part(segment: Segment, start: int, end: int, *, copy: bool = False) -> Segment:
    """Tokens [start, end) of a segment; a view of it, or a copy that does not hold the whole in memory."""
    views = (layer[:, :, start:end] for layer in segment)
    return tuple(view.clone() if copy else view for view in views)


def span(path: Sequence[Segment], start: int, end: int) -> list[Segment]:
    """Tokens [start, end) of segments that follow one another, as views."""
    found, at = [], 0
    for segment in path:
        length = tokens(segment)
        first, last = max(start - at, 0), min(end - at, length)
        if first < last:
            found.append(segment if last - first == length else part(segment, first, last))
        at += length
    return found


def nbytes(segment: Segment) -> int:
    """Bytes of a segment."""
    return sum(layer.nbytes for layer in segment)


class HandThrough(Cache):  # type: ignore[misc]  # transformers is not typed
    """A cache that is always empty: positions are given, and who runs the pass keeps the keys and values (``pass_attention``)."""

    def __init__(self, layers: int) -> None:
        super().__init__(layers=[_Layer() for _ in range(layers)])


class _Layer(CacheLayerMixin):  # type: ignore[misc]
    is_sliding = False

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return key_states, value_states

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return query_length, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        return -1
