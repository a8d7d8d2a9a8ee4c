"""Runs many calls as one batch, computing what they share once: pictures, prefixes, and every step of decoding.

The model is only ever called through its own ``forward``, with explicit positions, so that no state of the model itself (Qwen's
``rope_deltas``) is read or written, and calls of different games can be mixed at will.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from mug_eval.backbones.hf_prompt import Picture, Prompt
from mug_eval.backbones.hf_row import Counts, Row
from mug_eval.backbones.kv_rows import KVRows, Segment, part
from mug_eval.backbones.prefix_tree import PrefixTree, shared
from mug_eval.backbones.token_draw import next_tokens

_LEAST_SHARED = 32
"""Tokens that calls must have in common to be worth a pass of their own."""
_ROOM = 64
"""Decoding steps until the buffers grow."""


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Tokens [start, end) of a prompt that have to be computed, and the segments of those before."""

    prompt: Prompt
    start: int
    end: int
    before: list[Segment]


class SharedRunner:
    """A ``hf_row.Runner`` over prefix cache, picture embeddings and batches.

    Args:
        model: a transformers image-text-to-text model in evaluation mode.
        ends: token ids that end a reply.
        pad: a token id for the left of short rows; no placeholder of pictures.
        prefix_bytes: most bytes of cached prefixes.
        feature_bytes: most bytes of cached picture embeddings.
        pass_tokens: most tokens of one pass over prompts, if more than one call is in it.
    """

    def __init__(
        self, model: Any, ends: frozenset[int], pad: int, *, prefix_bytes: int, feature_bytes: int, pass_tokens: int = 8192
    ) -> None:
        self._model = model
        self._ends = ends
        self._pad = pad
        self._pass_tokens = pass_tokens
        self._layers = int(model.config.get_text_config().num_hidden_layers)
        self._device = model.get_input_embeddings().weight.device
        self.tree = PrefixTree(prefix_bytes)
        self._features: OrderedDict[str, Any] = OrderedDict()
        self._feature_room = feature_bytes
        self._cache: KVRows | None = None
        self._slots: list[Row] = []
        """The rows of the decoding batch, finished ones included until it is rebuilt."""
        self._seen: torch.Tensor | None = None
        self.counts = Counts()

    @property
    def active(self) -> list[Row]:
        """Rows that were started and have not ended."""
        return [row for row in self._slots if not row.finish]

    def start(self, rows: list[Row]) -> None:
        """Compute the prompts, draw each row's first token, and join the decoding batch."""
        self._compute_what_is_shared([row.prompt for row in rows])
        joining: list[tuple[Row, list[Segment]]] = []
        pieces = []
        for row in rows:
            start, before = self._known(row.prompt, row.prompt.length - 1)
            pieces.append(_Piece(row.prompt, start, row.prompt.length, before))
        first: list[int] = [0] * len(rows)
        for batch in self._packs(pieces):
            logits, segments = self._compute([pieces[i] for i in batch])
            seen = _seen([rows[i] for i in batch], logits)
            for i, token, segment in zip(batch, next_tokens(logits, [rows[i].draw for i in batch], seen), segments, strict=True):
                first[i] = token
                joining.append((rows[i], [*pieces[i].before, segment]))
        for row, token in zip(rows, first, strict=True):
            row.take(token, self._ends)
            self.counts.prompt_tokens += row.prompt.length
            self.counts.pictures += len(row.prompt.pictures)
        self._rebuild([(row, segments) for row, segments in joining if not row.finish])

    def step(self) -> None:
        """One pass that gives every active row its next token."""
        assert self._cache is not None
        rows, width = self._slots, self._cache.width
        lengths = torch.tensor([_cached(row) + 1 for row in rows], device=self._device)
        columns = torch.arange(width + 1, device=self._device)
        mask = (columns[None] >= (width + 1 - lengths)[:, None]).long()
        last = torch.tensor([[row.tokens[-1]] for row in rows], device=self._device)
        position = torch.tensor([[row.prompt.next_position + len(row.tokens) - 1] for row in rows], device=self._device)
        if rows[0].prompt.positions.ndim == 2:
            position = position.expand(3, -1, -1)
        logits = self._forward(last, mask, position, self._cache)
        if self._seen is not None:
            self._seen.scatter_(1, last, True)
        tokens = next_tokens(logits, [row.draw for row in rows], self._seen)
        finished = 0
        for row, token in zip(rows, tokens, strict=True):
            if not row.finish:  # a finished row keeps its place until the batch is rebuilt, but others read its reply by now
                row.take(token, self._ends)
            finished += bool(row.finish)
        self.counts.steps += 1
        self.counts.step_rows += len(rows)
        if finished * 4 >= len(rows):
            self._rebuild([])

    def drop(self) -> list[Row]:
        """Let go of the batch and of everything cached."""
        rows = self.active
        self._cache, self._slots, self._seen = None, [], None
        self._features.clear()
        self.tree.clear()
        return rows

    def logits(self, prompts: Sequence[Prompt]) -> torch.Tensor:
        """(prompts, vocabulary): of the first token of the reply to each, by the same way as :meth:`start`."""
        self._compute_what_is_shared(prompts)
        known = [self._known(prompt, prompt.length - 1) for prompt in prompts]
        pieces = [_Piece(prompt, start, prompt.length, before) for prompt, (start, before) in zip(prompts, known, strict=True)]
        found: dict[int, torch.Tensor] = {}
        for batch in self._packs(pieces):
            found.update(zip(batch, self._compute([pieces[i] for i in batch])[0], strict=True))
        return torch.stack([found[i] for i in range(len(prompts))])

    def _rebuild(self, joining: Sequence[tuple[Row, list[Segment]]]) -> None:
        """The decoding batch without the finished rows and with the new ones."""
        old = self._cache
        kept: list[tuple[Row, list[Segment]]] = []
        for i, row in enumerate(self._slots):
            if not row.finish:
                assert old is not None
                kept.append((row, [old.segment(i, old.width - _cached(row), old.width, copy=False)]))
        both = [*kept, *joining]
        self._cache = KVRows.of([segments for _, segments in both], _ROOM) if both else None
        self._slots = [row for row, _ in both]
        if any(row.draw.repetition_penalty != 1.0 for row in self._slots):
            vocabulary = int(self._model.get_output_embeddings().weight.shape[0])
            self._seen = _seen(self._slots, torch.empty((len(both), vocabulary), device=self._device))
        else:
            self._seen = None

    def _known(self, prompt: Prompt, most: int) -> tuple[int, list[Segment]]:
        """The longest cached prefix of at most that many tokens that cuts no picture."""
        start, segments = self.tree.match(prompt.keys[:most])
        outside = _outside_pictures(prompt, start)
        while segments and start > outside:
            last = segments.pop()
            length = last[0].shape[2]
            start -= length
            if start < outside:
                segments.append(part(last, 0, outside - start))
                start = outside
        return start, segments

    def _compute_what_is_shared(self, prompts: Sequence[Prompt]) -> None:
        """Compute once what several prompts begin with and nobody has computed yet, from one fork to the next."""
        ordered = sorted(prompts, key=lambda prompt: prompt.keys.tolist())
        common = [min(shared(one.keys, other.keys), one.length - 1, other.length - 1) for one, other in pairwise(ordered)]
        reached = -1
        while True:
            known = [self._known(prompt, prompt.length - 1) for prompt in ordered]
            progress = sum(start for start, _ in known)
            if progress == reached:
                return  # what was computed could not be kept: the budget is too small for it
            reached = progress
            pieces = []
            i = 0
            while i < len(ordered):
                j, end = i, ordered[i].length
                while j < len(common) and common[j] - known[i][0] >= _LEAST_SHARED:
                    end = min(end, common[j])
                    j += 1
                if j > i:
                    end = _outside_pictures(ordered[i], end)
                    if end - known[i][0] >= _LEAST_SHARED:
                        pieces.append(_Piece(ordered[i], known[i][0], end, known[i][1]))
                i = j + 1
            if not pieces:
                return
            for batch in self._packs(pieces):
                self._compute([pieces[i] for i in batch])

    def _packs(self, pieces: Sequence[_Piece]) -> Iterable[list[int]]:
        """Indices of pieces to compute together: of like length, so that little is padding, and not too many tokens."""
        order = sorted(range(len(pieces)), key=lambda i: (pieces[i].end - pieces[i].start, pieces[i].start))
        pack: list[int] = []
        for i in order:
            length = pieces[i].end - pieces[i].start
            shortest = pieces[pack[0]].end - pieces[pack[0]].start if pack else length
            if pack and (length * (len(pack) + 1) > self._pass_tokens or length > 2 * shortest + 64):
                yield pack
                pack = []
            pack.append(i)
        if pack:
            yield pack

    def _compute(self, pieces: Sequence[_Piece]) -> tuple[torch.Tensor, list[Segment]]:
        """One pass over pieces of prompts.

        The columns are: what is known of each row, flush right; then its new tokens, flush right. The mask covers the gaps.

        Returns:
            (pieces, vocabulary) logits after the last token of each, and the keys and values of the new tokens, which are cached.
        """
        known = max(piece.start for piece in pieces)
        new = max(piece.end - piece.start for piece in pieces)
        cache = KVRows.of([piece.before for piece in pieces], new) if known else KVRows.empty(self._layers, new)
        ids = torch.full((len(pieces), new), self._pad)
        mask = torch.zeros((len(pieces), known + new), dtype=torch.long)
        lanes = 3 if pieces[0].prompt.positions.ndim == 2 else 1
        positions = torch.zeros((lanes, len(pieces), new), dtype=torch.long)
        pictures: list[Picture] = []
        for i, piece in enumerate(pieces):
            length = piece.end - piece.start
            ids[i, new - length :] = torch.from_numpy(piece.prompt.tokens[piece.start : piece.end])
            mask[i, known - piece.start : known] = 1
            mask[i, known + new - length :] = 1
            positions[:, i, new - length :] = piece.prompt.positions[..., piece.start : piece.end]
            pictures += [picture for start, _, picture in piece.prompt.pictures if piece.start <= start < piece.end]
        features = _joined([self._embedded(picture) for picture in pictures]) if pictures else None
        where = positions if lanes == 3 else positions[0]
        logits = self._forward(ids.to(self._device), mask.to(self._device), where.to(self._device), cache, features)
        self.counts.prefill_batches += 1
        segments = []
        for i, piece in enumerate(pieces):
            length = piece.end - piece.start
            self.counts.computed_tokens += length
            segment = cache.segment(i, cache.width - length, cache.width)
            self.tree.insert(piece.prompt.keys[: piece.end], piece.start, segment)
            segments.append(segment)
        return logits, segments

    def _forward(self, ids: Any, mask: Any, positions: Any, cache: KVRows, features: Any = None) -> torch.Tensor:
        extra = {} if features is None else {"mm_encoder_outputs": {"image": features}}
        out = self._model(
            input_ids=ids, attention_mask=mask, position_ids=positions, cache=cache, use_cache=True, logits_to_keep=1, **extra
        )
        return out.logits[:, -1]

    def _embedded(self, picture: Picture) -> Any:
        """The vision tower's output for one picture, computed once while it is kept."""
        known = self._features.get(picture.sha256)
        if known is not None:
            self._features.move_to_end(picture.sha256)
            return known
        inputs = {
            name: value.to(self._device) if isinstance(value, torch.Tensor) else value for name, value in picture.inputs.items()
        }
        output = self._model.get_image_features(**inputs, return_dict=True)
        needed = {name: output[name] for name in ("pooler_output", "deepstack_features") if output.get(name) is not None}
        embedded = type(output)(**needed)
        self.counts.encoded_pictures += 1
        self._features[picture.sha256] = embedded
        held = sum(_bytes(value) for one in self._features.values() for value in one.values())
        while held > self._feature_room and len(self._features) > 1:
            _, gone = self._features.popitem(last=False)
            held -= sum(_bytes(value) for value in gone.values())
        return embedded


def _cached(row: Row) -> int:
    """Tokens of a row that the decoding batch holds: all but the last, which goes in at the next step."""
    return row.prompt.length + len(row.tokens) - 1


def _outside_pictures(prompt: Prompt, at: int) -> int:
    """The place itself, or the start of the picture that it would cut."""
    return next((start for start, end, _ in prompt.pictures if start < at < end), at)


def _seen(rows: Sequence[Row], logits: torch.Tensor) -> torch.Tensor | None:
    """(rows, vocabulary): which tokens a row's prompt and reply have; None where no row asks."""
    if all(row.draw.repetition_penalty == 1.0 for row in rows):
        return None
    seen = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
    for i, row in enumerate(rows):
        seen[i, torch.from_numpy(row.prompt.tokens).to(logits.device)] = True
        if row.tokens:
            seen[i, torch.tensor(row.tokens, device=logits.device)] = True
    return seen


def _joined(outputs: Sequence[Any]) -> Any:
    """The vision tower's outputs for several pictures as it would have given them for all at once."""
    first = outputs[0]
    return type(first)(**{name: _chained([output[name] for output in outputs]) for name in first})


def _chained(values: Sequence[Any]) -> Any:
    if isinstance(values[0], torch.Tensor):
        return torch.cat(list(values))
    if isinstance(values[0], tuple):
        return tuple(item for value in values for item in value)
    return [_chained(level) for level in zip(*values, strict=True)]  # one entry a layer, as Qwen3-VL's deepstack


def _bytes(value: Any) -> int:
    return value.nbytes if isinstance(value, torch.Tensor) else sum(_bytes(item) for item in value)
