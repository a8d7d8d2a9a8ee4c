"""Runs many calls as one batch, computing what they share once: pictures, prefixes, and every step of decoding.

The model is only ever called through its own ``forward``, with explicit positions, so that no state of the model itself (Qwen's
``rope_deltas``) is read or written, and calls of different games can be mixed at will.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import torch

from mug_eval.backbones import cpu_products
from mug_eval.backbones.decoding import Cohort, Member, Step
from mug_eval.backbones.hf_prompt import Picture, Prompt
from mug_eval.backbones.hf_row import Counts, Row
from mug_eval.backbones.kv_segments import HandThrough, Segment, part, tokens
from mug_eval.backbones.packed_prompts import PackedPrompts, Piece
from mug_eval.backbones.pass_attention import Installed, Pass, running
from mug_eval.backbones.prefix_tree import PrefixTree, shared
from mug_eval.backbones.token_draw import next_tokens

_LEAST_SHARED = 32
"""Tokens that calls must have in common to be worth a pass of their own."""
_MOST_COHORTS = 4
"""Cohorts of calls that decode side by side; each costs some small products a step."""
_MOST_PACKED = 1 << 30
"""Bytes of weights that are held a second time on a CPU."""


class SharedRunner:
    """A ``hf_row.Runner`` over prefix cache, picture embeddings and batches.

    Args:
        model: a transformers image-text-to-text model in evaluation mode.
        ends: token ids that end a reply.
        prefix_bytes: most bytes of cached prefixes.
        feature_bytes: most bytes of cached picture embeddings.
        pass_tokens: most tokens of one pass over prompts, if more than one call is in it.

    Raises:
        ValueError: the model attends in a way that cannot be shared.
    """

    def __init__(self, model: Any, ends: frozenset[int], *, prefix_bytes: int, feature_bytes: int, pass_tokens: int = 8192) -> None:
        self._model = model
        self._ends = ends
        self._pass_tokens = pass_tokens
        self._layers = int(model.config.get_text_config().num_hidden_layers)
        embeddings = model.get_input_embeddings().weight
        self._device, self._kind = embeddings.device, embeddings.dtype
        self._installed = Installed(model)
        if cpu_products.available(self._kind, self._device):
            linears = [module for module in model.modules() if type(module) is torch.nn.Linear]
            packed = sum(module.weight.nbytes for module in linears) <= _MOST_PACKED
            for module in linears:
                self._installed.replace(module, cpu_products.linear(module, packed=packed))
        self.tree = PrefixTree(prefix_bytes)
        self._features: OrderedDict[str, Any] = OrderedDict()
        self._feature_room = feature_bytes
        self._cohorts: list[Cohort] = []
        """The decoding batch; calls that have ended keep their place until a quarter of their cohort has."""
        self._seen: torch.Tensor | None = None
        self.counts = Counts()

    @property
    def active(self) -> list[Row]:
        """Rows that were started and have not ended."""
        return [row for row in self._rows if not row.finish]

    @property
    def _rows(self) -> list[Row]:
        return [row for cohort in self._cohorts for row in cohort.rows]

    def start(self, rows: list[Row]) -> None:
        """Compute the prompts, draw each row's first token, and join the decoding batch."""
        prompts = [row.prompt for row in rows]
        self._compute_what_is_shared(prompts)
        joining: list[Member] = []
        for batch, pieces, logits, segments in self._computed(prompts):
            some = [rows[i] for i in batch]
            chosen = next_tokens(logits, [row.draw for row in some], _seen(some, logits.shape, logits.device))
            for row, piece, token, segment in zip(some, pieces, chosen, segments, strict=True):
                row.take(token, self._ends)
                if not row.finish:
                    joining.append((row, [*piece.before, segment]))
        for prompt in prompts:
            self.counts.prompt_tokens += prompt.length
            self.counts.pictures += len(prompt.pictures)
        if joining:
            self._cohorts += Cohort.several(joining)
        self._tidy()

    def step(self) -> None:
        """One pass that gives every active row its next token."""
        rows = self._rows
        last = torch.tensor([row.tokens[-1] for row in rows], device=self._device)
        position = torch.tensor([row.prompt.next_position + len(row.tokens) - 1 for row in rows], device=self._device)
        if rows[0].prompt.positions.ndim == 2:
            position = position.expand(3, -1)
        logits = self._forward(last, position, Step(self._cohorts), None)
        for cohort in self._cohorts:
            cohort.advance()
        if self._seen is not None:
            self._seen.scatter_(1, last[:, None], True)
        for row, token in zip(rows, next_tokens(logits, [row.draw for row in rows], self._seen), strict=True):
            if not row.finish:  # a finished row keeps its place for a while, but others read its reply by now
                row.take(token, self._ends)
        self.counts.steps += 1
        self.counts.step_rows += len(rows)
        self._tidy()

    def drop(self) -> list[Row]:
        """Let go of the batch and of everything cached."""
        rows = self.active
        self._cohorts, self._seen = [], None
        self._features.clear()
        self.tree.clear()
        return rows

    def leave(self) -> None:
        """Give the model back as it was."""
        self._installed.remove()

    def logits(self, prompts: Sequence[Prompt]) -> torch.Tensor:
        """(prompts, vocabulary): of the first token of the reply to each, by the same way as :meth:`start`."""
        self._compute_what_is_shared(prompts)
        found: dict[int, torch.Tensor] = {}
        for batch, _, logits, _ in self._computed(prompts):
            found.update(zip(batch, logits, strict=True))
        return torch.stack([found[i] for i in range(len(prompts))])

    def _tidy(self) -> None:
        """Cohorts without the many that have ended, and not too many cohorts."""
        before = self._rows
        whole = [cohort.without_finished() if cohort.finished * 4 >= len(cohort.rows) else cohort for cohort in self._cohorts]
        self._cohorts = [cohort for cohort in whole if cohort is not None]
        if len(self._cohorts) > _MOST_COHORTS:
            *small, largest = sorted(self._cohorts, key=lambda cohort: len(cohort.rows))
            self._cohorts = [largest, *Cohort.several([member for cohort in small for member in cohort.members()])]
        rows = self._rows
        if rows != before or (self._seen is None and rows):
            vocabulary = int(self._model.get_output_embeddings().weight.shape[0])
            self._seen = _seen(rows, (len(rows), vocabulary), self._device)

    def _known(self, prompt: Prompt, most: int) -> tuple[int, list[Segment]]:
        """The longest cached prefix of at most that many tokens that cuts no picture."""
        start, segments = self.tree.match(prompt.keys[:most])
        outside = _outside_pictures(prompt, start)
        while segments and start > outside:
            last = segments.pop()
            start -= tokens(last)
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
                        pieces.append(Piece(ordered[i], known[i][0], end, known[i][1]))
                i = j + 1
            if not pieces:
                return
            for batch in self._packs(pieces):
                self._compute([pieces[i] for i in batch], read=False)

    def _computed(self, prompts: Sequence[Prompt]) -> Iterable[tuple[list[int], list[Piece], torch.Tensor, list[Segment]]]:
        """What is not known of each prompt, pass by pass: which prompts, their pieces, logits of the last token, and segments."""
        pieces = []
        for prompt in prompts:
            start, before = self._known(prompt, prompt.length - 1)
            pieces.append(Piece(prompt, start, prompt.length, before))
        for batch in self._packs(pieces):
            some = [pieces[i] for i in batch]
            yield batch, some, *self._compute(some, read=True)

    def _packs(self, pieces: Sequence[Piece]) -> Iterable[list[int]]:
        """Indices of pieces to compute together: those after the same prefix follow one another, and not too many tokens."""
        pack: list[int] = []
        total = 0
        for i in sorted(range(len(pieces)), key=lambda i: (pieces[i].start, pieces[i].prompt.keys.tolist())):
            if pack and total + pieces[i].length > self._pass_tokens:
                yield pack
                pack, total = [], 0
            pack.append(i)
            total += pieces[i].length
        if pack:
            yield pack

    def _compute(self, pieces: Sequence[Piece], *, read: bool) -> tuple[torch.Tensor, list[Segment]]:
        """One pass over pieces of prompts.

        Args:
            pieces: in the order in which they are packed.
            read: whether logits are wanted.

        Returns:
            (pieces, vocabulary) logits after the last token of each, none if they are not wanted; and the keys and values of the new
            tokens, which are cached.
        """
        ids = torch.cat([torch.from_numpy(piece.prompt.tokens[piece.start : piece.end]) for piece in pieces])
        positions = torch.cat([piece.prompt.positions[..., piece.start : piece.end] for piece in pieces], dim=-1)
        pictures = [picture for piece in pieces for start, _, picture in piece.prompt.pictures if piece.start <= start < piece.end]
        features = _joined([self._embedded(picture) for picture in pictures]) if pictures else None
        one = PackedPrompts(pieces, self._layers, self._kind, self._device, read=read)
        logits = self._forward(ids.to(self._device), positions.to(self._device), one, one.needed, features)
        self.counts.prefill_batches += 1
        segments = list(one.segments())
        for piece, segment in zip(pieces, segments, strict=True):
            self.counts.computed_tokens += piece.length
            self.tree.insert(piece.prompt.keys[: piece.end], piece.start, segment)
        return logits, segments

    def _forward(self, ids: Any, positions: Any, one: Pass, read: Any, features: Any = None) -> torch.Tensor:
        """(read, vocabulary) logits of a pass over tokens (n,) at positions (n,) or (3, n), which ``one`` lets look; all if None."""
        extra = {} if features is None else {"mm_encoder_outputs": {"image": features}}
        with running(one):
            out = self._model(
                input_ids=ids[None],
                position_ids=positions[..., None, :],
                cache=HandThrough(self._layers),
                use_cache=True,
                logits_to_keep=0 if read is None else read,
                **extra,
            )
        return out.logits[0]

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


def _outside_pictures(prompt: Prompt, at: int) -> int:
    """The place itself, or the start of the picture that it would cut."""
    return next((start for start, end, _ in prompt.pictures if start < at < end), at)


def _seen(rows: Sequence[Row], shape: Sequence[int], device: torch.device) -> torch.Tensor | None:
    """(rows, vocabulary): which tokens a row's prompt and reply have; None where no row asks."""
    if all(row.draw.repetition_penalty == 1.0 for row in rows):
        return None
    seen = torch.zeros(tuple(shape), dtype=torch.bool, device=device)
    for i, row in enumerate(rows):
        seen[i, torch.from_numpy(row.prompt.tokens).to(device)] = True
        if row.tokens:
            seen[i, torch.tensor(row.tokens, device=device)] = True
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
