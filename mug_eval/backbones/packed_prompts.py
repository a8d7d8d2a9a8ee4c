"""A pass over parts of many prompts, packed one after another without padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from mug_eval.backbones import cpu_products
from mug_eval.backbones.hf_prompt import Prompt
from mug_eval.backbones.kv_segments import Segment, tokens

_CHUNK = {"cpu": 256}
"""Tokens that look together: of one part of a prompt, or of several parts after the same prefix."""
_CHUNK_ELSEWHERE = 1024
_ROUND_COLUMNS, _ROUND_ROWS = 64, 32


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Tokens [start, end) of a prompt that have to be computed, and the segments of those before."""

    prompt: Prompt
    start: int
    end: int
    before: list[Segment]

    @property
    def length(self) -> int:
        """Tokens to compute."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """Tokens [start, end) of the pass, which look at a prefix and at tokens [first, end) of the pass.

    Attributes:
        start: of the tokens that look.
        end: of these, and of what they look at.
        first: of what they look at.
        before: the prefix.
        mask: (end - start, end - first), or more where shapes are rounded up, added to the products with the pass's own tokens: 0, or
            minus infinity.
        needed: (n,) of the tokens that look, those whose output is read from the last layer.
    """

    start: int
    end: int
    first: int
    before: list[Segment]
    mask: torch.Tensor
    needed: torch.Tensor


class PackedPrompts:
    """A ``pass_attention.Pass`` over pieces.

    Args:
        pieces: in the order in which they are packed; those after the same prefix follow one another.
        layers: of the language model.
        kind: of keys and values.
        device: of the model's first layer.
        read: whether the last token of each piece is read; otherwise only keys and values are wanted.

    Attributes:
        last: (pieces,) place of each piece's last token in the pass.
    """

    def __init__(self, pieces: Sequence[Piece], layers: int, kind: torch.dtype, device: torch.device, *, read: bool) -> None:
        self.pieces = pieces
        self._kind = kind
        self._by_onednn = cpu_products.available(kind, device)
        self._new: list[torch.Tensor | None] = [None] * layers
        ends = torch.tensor([piece.length for piece in pieces]).cumsum(0)
        self.last = (ends - 1).to(device)
        self.needed: torch.Tensor | None = self.last if read else self.last[:0]
        chunk = _CHUNK.get(device.type, _CHUNK_ELSEWHERE)
        self._looks = [self._look(*one, device, read=read) for one in _chunks(pieces, chunk)]
        self.columns = sum(look.end - look.first + sum(map(tokens, look.before)) for look in self._looks)

    def _look(self, some: Sequence[Piece], first: int, start: int, end: int, device: torch.device, *, read: bool) -> _Look:
        lengths = torch.tensor([piece.length for piece in some])
        owner = torch.arange(len(some)).repeat_interleave(lengths)[: end - first]
        seen = (owner[start - first :, None] == owner[None]).tril(start - first)
        mask = torch.zeros(seen.shape, dtype=self._kind).masked_fill(~seen, -torch.inf)
        if self._by_onednn:  # it makes a program for every shape, so there had better be few
            before = sum(tokens(segment) for segment in some[0].before)
            mask = functional.pad(mask, (0, -(before + end - first) % _ROUND_COLUMNS), value=-torch.inf)
            mask = functional.pad(mask, (0, 0, 0, -(end - start) % _ROUND_ROWS))
        last = lengths.cumsum(0) + first - 1
        needed = last[(last >= start) & (last < end)] - start if read else last[:0]
        return _Look(start, end, first, some[0].before, mask.to(device), needed.to(device))

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
        """See ``pass_attention.Pass``."""
        heads, length, size = query.shape
        new = torch.stack((key, value))
        self._new[layer] = new
        query = query * scale
        last = layer == len(self._new) - 1
        out = (query.new_zeros if last else query.new_empty)((length, heads, size))
        for look in self._looks:
            parts = [*(segment[layer] for segment in look.before), new[:, :, look.first : look.end]]
            more = look.mask.shape[1] - (look.end - look.first)
            if more:
                parts.append(new.new_zeros((2, new.shape[1], more, size)))
            keys_values = torch.cat(parts, dim=2) if len(parts) > 1 else parts[0]
            asking, mask, where = query[:, look.start : look.end], look.mask.to(query.device), slice(look.start, look.end)
            if last:
                needed = look.needed.to(query.device)
                if not len(needed):
                    continue
                asking, mask, where = asking[:, needed], mask[needed], needed + look.start
            out[where] = (_by_head if self._by_onednn and not last else _by_sdpa)(asking, keys_values, mask)
        return out

    def segments(self) -> Iterator[Segment]:
        """Keys and values of each piece, copied out of the pass."""
        start = 0
        for piece in self.pieces:
            end = start + piece.length
            layers = [new for new in self._new if new is not None]
            assert len(layers) == len(self._new)
            yield tuple(new[:, :, start:end].clone() for new in layers)
            start = end


def _by_head(query: torch.Tensor, keys_values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Scaled queries (heads, n, size) over (2, key heads, columns, size), the mask for the last columns -> (n, heads, size)."""
    heads, several, size = query.shape
    groups, columns = keys_values.shape[1:3]
    each, (asking, own) = heads // groups, mask.shape
    query = functional.pad(query, (0, 0, 0, asking - several)).reshape(groups, each * asking, size)
    out = query.new_empty((asking, groups, each, size))
    for group in range(groups):
        products = cpu_products.product(query[group], keys_values[0, group])
        products.view(each, asking, columns)[:, :, columns - own :].add_(mask)
        found = cpu_products.product(products.softmax(-1), keys_values[1, group].t())
        out[:, group] = found.view(each, asking, size).transpose(0, 1)
    return out.view(asking, heads, size)[:several]


def _by_sdpa(query: torch.Tensor, keys_values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The same by torch's own kernels, on any device. Those with a mask know no groups of heads: a group is more queries here."""
    heads, asking, size = query.shape
    groups, columns = keys_values.shape[1:3]
    each = heads // groups
    whole = functional.pad(mask, (columns - mask.shape[1], 0)).repeat(each, 1)
    keys, values = keys_values[:, None]
    queries = query.reshape(1, groups, each * asking, size)
    found = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=whole, scale=1.0)
    return found.reshape(heads, asking, size).transpose(0, 1)


def _chunks(pieces: Sequence[Piece], chunk: int) -> Iterator[tuple[Sequence[Piece], int, int, int]]:
    """(pieces, first, start, end): the pieces begin at ``first``, and their tokens [start, end) look together."""
    i = at = 0
    while i < len(pieces):
        prefix = _prefix(pieces[i])
        j, end = i + 1, at + pieces[i].length
        while j < len(pieces) and end - at + pieces[j].length <= chunk and _prefix(pieces[j]) == prefix:
            end += pieces[j].length
            j += 1
        for start in range(at, end, chunk):
            yield pieces[i:j], at, start, min(start + chunk, end)
        i, at = j, end


def _prefix(piece: Piece) -> bytes:
    return piece.prompt.keys[: piece.start].tobytes()
