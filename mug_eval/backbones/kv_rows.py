"""Keys and values of a batch of calls: rows of different length, flush right, in buffers that grow by the block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

Segment = tuple[torch.Tensor, ...]
"""Keys and values of a run of tokens of one call: for each layer a tensor (2, heads, tokens, head size)."""

_BLOCK = 64


class _Layer(CacheLayerMixin):  # type: ignore[misc]  # transformers is not typed
    """One layer: a buffer (2, rows, heads, capacity, head size), of which the first ``length`` columns are in use."""

    is_sliding = False

    def __init__(self, buffer: torch.Tensor | None = None, length: int = 0, room: int = 0) -> None:
        super().__init__()
        self.buffer = buffer
        self.length = length
        self._room = room
        self.is_initialized = buffer is not None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        if key_states.shape != value_states.shape:
            raise ValueError("keys and values of different shape")
        rows, heads, length, size = key_states.shape
        self.buffer = key_states.new_empty((2, rows, heads, max(length, self._room), size))
        self.is_initialized = True

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        if self.buffer is None:
            self.lazy_initialization(key_states, value_states)
        assert self.buffer is not None
        end = self.length + key_states.shape[-2]
        if end > self.buffer.shape[3]:
            two, rows, heads, _, size = self.buffer.shape
            grown = self.buffer.new_empty((two, rows, heads, end + _BLOCK, size))
            grown[:, :, :, : self.length] = self.buffer[:, :, :, : self.length]
            self.buffer = grown
        self.buffer[0, :, :, self.length : end] = key_states
        self.buffer[1, :, :, self.length : end] = value_states
        self.length = end
        return self.buffer[0, :, :, :end], self.buffer[1, :, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


class KVRows(Cache):  # type: ignore[misc]
    """The cache of one batch, as a transformers model takes it.

    What lies to the left of a short row is zero and must be masked by whoever calls the model.
    """

    @classmethod
    def empty(cls, layers: int, room: int) -> KVRows:
        """No token yet, room for some."""
        return cls(layers=[_Layer(room=room) for _ in range(layers)])

    @classmethod
    def of(cls, rows: Sequence[Sequence[Segment]], room: int) -> KVRows:
        """Every row the tokens of its segments one after another, flush right; at least one row has tokens.

        Args:
            rows: the segments of each row.
            room: further tokens to make room for.
        """
        lengths = [sum(segment[0].shape[2] for segment in row) for row in rows]
        width = max(lengths)
        pattern = next(segment for row in rows for segment in row)
        layers = []
        for number, first in enumerate(pattern):
            two, heads, _, size = first.shape
            buffer = first.new_empty((two, len(rows), heads, width + room, size))
            for i, row in enumerate(rows):
                start = width - lengths[i]
                buffer[:, i, :, :start] = 0  # masked, but a NaN there would spoil the products all the same
                for segment in row:
                    end = start + segment[number].shape[2]
                    buffer[:, i, :, start:end] = segment[number]
                    start = end
            layers.append(_Layer(buffer, width))
        return cls(layers=layers)

    @property
    def width(self) -> int:
        """Columns in use."""
        return int(self.layers[0].length)

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return sum(layer.buffer.nbytes for layer in self.layers if layer.buffer is not None)

    def segment(self, row: int, start: int, end: int, *, copy: bool = True) -> Segment:
        """Columns [start, end) of a row; a copy, that does not hold the batch in memory, or a view."""
        views = (layer.buffer[:, row, :, start:end] for layer in self.layers)
        return tuple(view.clone() if copy else view for view in views)


def part(segment: Segment, start: int, end: int, *, copy: bool = False) -> Segment:
    """Tokens [start, end) of a segment."""
    views = (layer[:, :, start:end] for layer in segment)
    return tuple(view.clone() if copy else view for view in views)


def nbytes(segment: Segment) -> int:
    """Bytes of a segment."""
    return sum(layer.nbytes for layer in segment)
