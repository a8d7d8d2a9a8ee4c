"""Steps of decoding: calls that began together, with what several of them share held and read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from mug_eval.backbones.hf_row import Row
from mug_eval.backbones.kv_segments import Segment, span, tokens
from mug_eval.backbones.prefix_tree import shared

Member = tuple[Row, list[Segment]]
"""A call and the segments of all its tokens that went through the model."""

_ROOM = 64
"""Steps until the buffers grow."""


@dataclass(frozen=True, slots=True, eq=False)
class _Places:
    """Where calls and groups meet, on one device.

    Attributes:
        mask: (calls, shared columns + capacity) added to the products.
        call: (groups * most calls of a group,) which call is there; 0 where none is.
        place: (calls,) the inverse.
        even: the groups are of one size, and the calls in the order of their groups: every call is where it is.
    """

    mask: torch.Tensor
    call: torch.Tensor
    place: torch.Tensor
    even: bool


class Cohort:
    """Calls that decode together, in groups that share a prefix.

    For each layer there is a buffer of what groups share, flush left, and one of what each call has for itself, flush right: there each
    step writes one column for all.

    Args:
        rows: the calls.
        group: for each call, its group.
        prefixes: for each layer (2, groups, key heads, columns, size).
        prefix_lengths: of each group.
        own: for each layer (2, calls, key heads, capacity, size).
        own_lengths: tokens of each call that lie in ``own``, flush right against ``used``.
        used: columns in use.
    """

    def __init__(
        self,
        rows: list[Row],
        group: list[int],
        prefixes: list[torch.Tensor],
        prefix_lengths: list[int],
        own: list[torch.Tensor],
        own_lengths: list[int],
        used: int,
    ) -> None:
        self.rows = rows
        self._group = group
        self._prefixes = prefixes
        self._prefix_lengths = prefix_lengths
        self._own = own
        self._own_lengths = own_lengths
        self._used = used
        self._places: dict[torch.device, _Places] = {}

    @classmethod
    def several(cls, members: Sequence[Member]) -> list[Cohort]:
        """Group the calls, and gather their keys and values: one cohort of groups, and one of the calls that share with none.

        Args:
            members: any number.
        """
        if not members:
            return []
        members = sorted(members, key=lambda member: member[0].prompt.keys.tolist())
        groups = _grouped([row for row, _ in members])
        together = [members[i] for some, _ in groups if len(some) > 1 for i in some]
        alone = [members[i] for some, _ in groups if len(some) == 1 for i in some]
        found = []
        if together:
            cuts = [cut for some, cut in groups if len(some) > 1]
            sizes = [len(some) for some, _ in groups if len(some) > 1]
            found.append(cls._of(together, sizes, cuts))
        if alone:
            found.append(cls._of(alone, [1] * len(alone), [row.prompt.length for row, _ in alone]))
        return found

    @classmethod
    def _of(cls, members: Sequence[Member], sizes: Sequence[int], cuts: list[int]) -> Cohort:
        """Calls in the order of their groups, with the sizes of these and the tokens that they share."""
        lengths = [sum(tokens(segment) for segment in path) for _, path in members]
        group = [g for g, size in enumerate(sizes) for _ in range(size)]
        own_lengths = [lengths[i] - cuts[group[i]] for i in range(len(members))]
        width, used = max(cuts), max(own_lengths)
        pattern = next(segment for _, path in members for segment in path)
        prefixes, own = [], []
        heads = [span(members[group.index(g)][1], 0, cut) for g, cut in enumerate(cuts)]
        tails = [span(path, cuts[g], length) for (_, path), g, length in zip(members, group, lengths, strict=True)]
        for layer, example in enumerate(pattern):
            two, key_heads, _, size = example.shape
            # What nobody fills is masked, but a NaN there would spoil the products all the same: zero.
            prefix = example.new_empty((two, len(cuts), key_heads, width, size))
            for g, path in enumerate(heads):
                at = 0
                prefix[:, g, :, cuts[g] :] = 0
                for segment in path:
                    prefix[:, g, :, at : at + tokens(segment)] = segment[layer]
                    at += tokens(segment)
            prefixes.append(prefix)
            private = example.new_empty((two, len(members), key_heads, used + _ROOM, size))
            for i, path in enumerate(tails):
                at = used - own_lengths[i]
                private[:, i, :, :at] = 0
                for segment in path:
                    private[:, i, :, at : at + tokens(segment)] = segment[layer]
                    at += tokens(segment)
            own.append(private)
        return cls([row for row, _ in members], group, prefixes, cuts, own, own_lengths, used)

    @property
    def finished(self) -> int:
        """Calls that have ended and still keep their place."""
        return sum(bool(row.finish) for row in self.rows)

    @property
    def columns(self) -> int:
        """Keys held."""
        groups, width = self._prefixes[0].shape[1], self._prefixes[0].shape[3]
        return int(groups * width + len(self.rows) * self._own[0].shape[3])

    def members(self) -> list[Member]:
        """The calls that have not ended, with their segments as views."""
        found = []
        for i, row in enumerate(self.rows):
            if not row.finish:
                g = self._group[i]
                prefix = tuple(layer[:, g, :, : self._prefix_lengths[g]] for layer in self._prefixes)
                own = tuple(layer[:, i, :, self._used - self._own_lengths[i] : self._used] for layer in self._own)
                found.append((row, [prefix, own]))
        return found

    def without_finished(self) -> Cohort | None:
        """The calls that have not ended; None if there are none. What groups share is not copied while most of them live."""
        kept = [i for i, row in enumerate(self.rows) if not row.finish]
        if not kept:
            return None
        alive = sorted({self._group[i] for i in kept})
        group, prefixes, prefix_lengths = [self._group[i] for i in kept], self._prefixes, self._prefix_lengths
        if len(alive) * 4 <= len(prefix_lengths) * 3:
            width = max(prefix_lengths[g] for g in alive)
            prefixes = [layer[:, alive, :, :width] for layer in prefixes]
            prefix_lengths = [prefix_lengths[g] for g in alive]
            group = [alive.index(g) for g in group]
        own_lengths = [self._own_lengths[i] for i in kept]
        left = self._used - max(own_lengths)
        own = [layer[:, kept, :, left:] for layer in self._own]
        return Cohort([self.rows[i] for i in kept], group, prefixes, prefix_lengths, own, own_lengths, self._used - left)

    def make_room(self) -> None:
        """For one more column."""
        if self._used < self._own[0].shape[3]:
            return
        for number, layer in enumerate(self._own):
            two, calls, heads, capacity, size = layer.shape
            grown = layer.new_zeros((two, calls, heads, capacity + _ROOM, size))
            grown[:, :, :, :capacity] = layer
            self._own[number] = grown
        self._places.clear()

    def advance(self) -> None:
        """Every call has one more column now."""
        self._used += 1
        self._own_lengths = [length + 1 for length in self._own_lengths]

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """One token of every call looks at what its group shares and at what is its own.

        Args:
            layer: which one.
            query: (heads, calls, size), scaled.
            key: (key heads, calls, size), goes into the next column.
            value: as ``key``.

        Returns:
            (calls, heads, size)
        """
        heads, calls, size = query.shape
        prefix, own = self._prefixes[layer], self._own[layer]
        key_heads, width = prefix.shape[2], prefix.shape[3]
        each, end = heads // key_heads, self._used + 1
        own[0, :, :, self._used] = key.transpose(0, 1)
        own[1, :, :, self._used] = value.transpose(0, 1)
        places = self._on(query.device)
        asking = query.transpose(0, 1).reshape(calls, key_heads, each, size)
        products = query.new_empty((calls, key_heads, each, width + end))
        there = torch.matmul(self._by_group(asking, places), prefix[0].transpose(-1, -2))
        self._by_call(there, each, places, products[..., :width])
        products[..., width:] = torch.matmul(asking, own[0, :, :, :end].transpose(-1, -2))
        products += places.mask[:, None, None, : width + end]
        weights = products.softmax(-1, dtype=torch.float32).to(query.dtype)  # bf16 loses too much here
        found = torch.empty_like(asking)
        self._by_call(torch.matmul(self._by_group(weights[..., :width], places), prefix[1]), each, places, found)
        found += torch.matmul(weights[..., width:], own[1, :, :, :end])
        return found.view(calls, heads, size)

    def _by_group(self, by_call: torch.Tensor, places: _Places) -> torch.Tensor:
        """(calls, key heads, each, n) -> (groups, key heads, most calls of a group * each, n)."""
        _, key_heads, each, n = by_call.shape
        groups = len(self._prefix_lengths)
        most = len(places.call) // groups
        placed = by_call if places.even else by_call[places.call]
        return placed.unflatten(0, (groups, most)).transpose(1, 2).reshape(groups, key_heads, most * each, n)

    def _by_call(self, by_group: torch.Tensor, each: int, places: _Places, into: torch.Tensor) -> None:
        """The inverse, into a tensor (calls, key heads, each, n)."""
        groups = len(by_group)
        there = by_group.unflatten(2, (-1, each)).transpose(1, 2)
        if places.even:
            into.unflatten(0, (groups, -1)).copy_(there)
        else:
            into.copy_(there.reshape(-1, *into.shape[1:])[places.place])

    def _on(self, device: torch.device) -> _Places:
        found = self._places.get(device)
        if found is None:
            found = self._places[device] = self._placed(device)
        return found

    def _placed(self, device: torch.device) -> _Places:
        groups, width = self._prefixes[0].shape[1], self._prefixes[0].shape[3]
        capacity = self._own[0].shape[3]
        inside = [0] * len(self.rows)
        count = [0] * groups
        for i, g in enumerate(self._group):
            inside[i] = count[g]
            count[g] += 1
        most = max(count)
        place = [g * most + n for g, n in zip(self._group, inside, strict=True)]
        call = [0] * (groups * most)
        for i, at in enumerate(place):
            call[at] = i
        columns = torch.arange(width + capacity)
        prefix = torch.tensor([self._prefix_lengths[g] for g in self._group])[:, None]
        first = width + self._used - torch.tensor(self._own_lengths)[:, None]
        hidden = (columns >= prefix) & (columns < first)
        mask = torch.zeros(hidden.shape, dtype=self._own[0].dtype).masked_fill(hidden, -torch.inf)
        even = place == list(range(groups * most))
        return _Places(mask.to(device), torch.tensor(call, device=device), torch.tensor(place, device=device), even)


class Step:
    """A ``pass_attention.Pass`` that gives every call of some cohorts one more token."""

    needed: torch.Tensor | None = None

    def __init__(self, cohorts: Sequence[Cohort]) -> None:
        self._cohorts = cohorts
        for cohort in cohorts:
            cohort.make_room()
        self.columns = sum(cohort.columns for cohort in cohorts)

    def attend(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float) -> torch.Tensor:
        """See ``pass_attention.Pass``."""
        query = query * scale
        found, at = [], 0
        for cohort in self._cohorts:
            some = slice(at, at + len(cohort.rows))
            found.append(cohort.attend(layer, query[:, some], key[:, some], value[:, some]))
            at = some.stop
        return found[0] if len(found) == 1 else torch.cat(found)


def _grouped(rows: Sequence[Row]) -> list[tuple[list[int], int]]:
    """(calls, tokens in common) of each group, for calls in the order of their tokens.

    A call joins the group before it if at least half of each prompt is in common, and more is saved than lost by the shorter prefix.
    """
    groups: list[tuple[list[int], int]] = [([0], rows[0].prompt.length)]
    longest = rows[0].prompt.length
    for i, (one, other) in enumerate(pairwise(row.prompt for row in rows), start=1):
        some, cut = groups[-1]
        common = min(cut, shared(one.keys, other.keys))
        longest = max(longest, other.length)
        if 2 * common >= longest and common * len(some) >= cut * (len(some) - 1):
            groups[-1] = ([*some, i], common)
        else:
            groups.append(([i], other.length))
            longest = other.length
    return groups
