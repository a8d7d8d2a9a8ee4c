"""Calls about one picture as one training row: what they share once, then each call's own part, blind to the others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mug_eval.chat import ImageRef
from mug_eval.reference_vlm.model import IMAGE_PAD
from mug_eval.reference_vlm.oracle import STATEMENT, Call
from mug_eval.reference_vlm.scenes import GRID, Scene

CELLS = GRID * GRID
_CELL_PLACES = np.stack([np.zeros(CELLS, np.int64), *np.divmod(np.arange(CELLS), GRID)])
_ENTRY = re.compile(
    r"(?:(?P<size>small|large) (?P<colour>[a-z]+) (?P<shape>[a-z]+)|sign (?P<word>[a-z0-9]+)) r(?P<row>[1-6])c(?P<column>[1-6])"
)
_ABOUT = re.compile(r'(Agent \d):( .*?), so|"(Agent \d)(": \{.*?\})')
_TOTAL = re.compile(r"Total (\d)")
_WEIGHTS: tuple[tuple[re.Pattern[str], float], ...] = (
    (re.compile(r"(?:Answer|needed): (.+)$", re.MULTILINE), 4.0),
    (re.compile(r"(fits|differs)\."), 4.0),
    (re.compile(r" r\dc\d (right|wrong)"), 3.0),
    (re.compile(r"(Agent \d)"), 5.0),
    (re.compile(r'": (\d)'), 4.0),
    (re.compile(r"^(?:The |Count of).*?( .+)$", re.MULTILINE), 3.0),
    (re.compile(r": (left|right|above|below|level),"), 4.0),
    (re.compile(r", so (.+)\.$", re.MULTILINE), 4.0),
    (re.compile(r'^{"target": (.+?), "instruction"'), 4.0),
    (re.compile(r"(is wrong|holds|is right|stand|give)"), 3.0),
)
"""Parts of a reply that count more, or the one token that decides would drown among those that describe."""


@dataclass(frozen=True, slots=True)
class Row:
    """One training row of L tokens.

    Attributes:
        ids: L token ids.
        positions: (3, L), time, row and column of M-RoPE.
        part: L numbers, 0 for what all calls share, then the call's number from 1: a token sees its own part and part 0.
        weights: L weights of the loss for predicting the token; 0 where it is not to be learnt.
        fits: L labels, 1 where an entry of somebody's list ends that is not true of the picture, 0 where one does that is, else -1.
        agents: L labels, n where Agent n says the words in the prompt, or where the reply is about Agent n, else -1.
        scenes: what the row's pictures show.
    """

    ids: list[int]
    positions: torch.Tensor
    part: list[int]
    weights: list[float]
    fits: list[int]
    agents: list[int]
    scenes: tuple[Scene, ...]

    def __len__(self) -> int:
        return len(self.ids)


def chat_text(call: Call) -> str:
    """The prompt as the chat template renders it, with one mark for every visual token."""
    pieces = []
    for message in call.messages:
        parts = (
            "<|vision_start|>" + "<|image_pad|>" * CELLS + "<|vision_end|>" if isinstance(part, ImageRef) else part
            for part in message.parts
        )
        pieces.append(f"<|im_start|>{message.role}\n{''.join(parts)}<|im_end|>\n")
    return "".join(pieces) + "<|im_start|>assistant\n"


def grid_positions(ids: Sequence[int]) -> torch.Tensor:
    """M-RoPE's positions, (3, L): text counts on in all three, a picture's cells spread over rows and columns."""
    steps = np.ones(len(ids), dtype=np.int64)
    first = np.flatnonzero(np.asarray(ids) == IMAGE_PAD)[::CELLS].tolist()
    for i in first:
        steps[i : i + CELLS] = 0
        steps[i + CELLS - 1] = GRID  # after a picture text goes on behind its last row and column
    at = np.cumsum(steps) - steps
    positions = np.broadcast_to(at, (3, len(ids))).copy()
    for i in first:
        positions[:, i : i + CELLS] = at[i] + _CELL_PLACES
    return torch.from_numpy(positions)


def _encoded(call: Call, tokenizer: Any) -> tuple[list[int], list[float], list[int], list[int]]:
    """One call's ids, loss weights, labels of the entries in its prompt, and which agent its tokens are of."""
    prompt = chat_text(call)
    text = f"{prompt}{call.reply}<|im_end|>"
    encoding = tokenizer._tokenizer.encode(text, add_special_tokens=False)
    # Of a conclusion only the answer is to be learnt: the reason was not the reply to this prompt.
    base = {"answer": 4.0, "conclude": 0.0}.get(call.task, 1.0)
    spans = [
        (len(prompt) + match.start(1), len(prompt) + match.end(1), weight)
        for pattern, weight in (_WEIGHTS if base else _WEIGHTS[:1])
        for match in pattern.finditer(call.reply)
    ]
    weights = []
    for start, end in encoding.offsets:
        if start < len(prompt):
            weights.append(0.0)
        else:
            weights.append(max((weight for a, b, weight in spans if start < b and end > a), default=base))
    fits = [-1] * len(weights)
    if len(call.scenes) == 1 and call.task not in ("answer", "describe", "conclude", "drill"):
        ends = _mismatches(prompt, call.scenes[0])
        fits = [ends.get(end, -1) if end <= len(prompt) else -1 for _, end in encoding.offsets]
    return encoding.ids, weights, fits, _agents(prompt, call, encoding.offsets)


def _agents(prompt: str, call: Call, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """For each token the number of the agent who says it, or whom the reply rates or compares there; -1 for all others."""
    spans = [(*match.span(2), match[1]) for match in STATEMENT.finditer(prompt)]
    if call.task in ("again", "vote"):
        for match in _ABOUT.finditer(call.reply):
            group = 2 if match[1] else 4
            spans.append((len(prompt) + match.start(group), len(prompt) + match.end(group), match[group - 1]))
    labels = [-1] * len(offsets)
    numbered = [(start, end, int(name[-1])) for start, end, name in spans if re.fullmatch(r"Agent [1-6]", name)]
    for i, (start, end) in enumerate(offsets):
        labels[i] = next((number for a, b, number in numbered if a <= start and end <= b), -1)
    return labels


def _mismatches(prompt: str, own: Scene) -> dict[int, int]:
    """Where in a prompt an entry of somebody's list ends -> 1 if it does not fit the own picture, 0 if it does."""
    ends = {}
    things = {thing.cell: thing for thing in own.things}
    for match in _ENTRY.finditer(prompt):
        thing = things.get((int(match["row"]), int(match["column"])))
        ends[match.end()] = int(thing is None or thing.described() != match[0])
    ends |= {match.end(): int(int(match[1]) != len(things)) for match in _TOTAL.finditer(prompt)}
    return ends


def pack(calls: Sequence[Call], tokenizer: Any) -> Row:
    """Pack calls that saw the same pictures."""
    encoded = [_encoded(call, tokenizer) for call in calls]
    first = encoded[0][0]
    shared = 0
    limit = min(next(i for i, weight in enumerate(weights) if weight) for _, weights, _, _ in encoded)
    # The last shared token must be the prompt's, and each call must keep at least one token of its own before its reply.
    while shared < limit - 1 and all(ids[shared] == first[shared] for ids, *_ in encoded):
        shared += 1
    ids, weights, fits, agents = list(first[:shared]), [0.0] * shared, [-1] * shared, encoded[0][3][:shared]
    part, positions = [0] * shared, [grid_positions(first)[:, :shared]]
    for number, (own_ids, own_weights, own_fits, own_agents) in enumerate(encoded, 1):
        ids += own_ids[shared:]
        weights += own_weights[shared:]
        fits += own_fits[shared:]
        agents += own_agents[shared:]
        part += [number] * (len(own_ids) - shared)
        positions.append(grid_positions(own_ids)[:, shared:])
    return Row(ids, torch.cat(positions, 1), part, weights, fits, agents, calls[0].scenes)


@dataclass(frozen=True, slots=True)
class Batch:
    """B rows, padded on the right to L.

    Attributes:
        ids: (B, L).
        positions: (3, B, L).
        mask: (B, 1, L, L), True where the row's token may look.
        targets: (B, L), the token that follows within the same call; 0 where there is none.
        weights: (B, L), of predicting the target.
        fits: (B, L), labels as in Row.
        agents: (B, L), labels as in Row.
        scenes: every picture, in the order of the rows.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor
    fits: torch.Tensor
    agents: torch.Tensor
    scenes: list[Scene]


def collate(rows: Sequence[Row]) -> Batch:
    """Pad rows to one length."""
    count, longest = len(rows), max(len(row) for row in rows)
    ids = torch.zeros(count, longest, dtype=torch.long)
    positions = torch.zeros(3, count, longest, dtype=torch.long)
    part = torch.full((count, longest), -1)
    weights, fits, agents = torch.zeros(count, longest), torch.full((count, longest), -1), torch.full((count, longest), -1)
    for i, row in enumerate(rows):
        size = len(row)
        ids[i, :size], positions[:, i, :size] = torch.tensor(row.ids), row.positions
        part[i, :size], weights[i, :size], fits[i, :size] = (
            torch.tensor(row.part),
            torch.tensor(row.weights),
            torch.tensor(row.fits),
        )
        agents[i, :size] = torch.tensor(row.agents)
    order = torch.arange(longest)
    same = part[:, :, None] == part[:, None, :]
    mask = (order[None, :, None] >= order[None, None, :]) & (same | (part[:, None, :] == 0))
    targets, ahead = torch.zeros_like(ids), torch.zeros_like(weights)
    targets[:, :-1], ahead[:, :-1] = ids[:, 1:], weights[:, 1:]
    return Batch(ids, positions, mask[:, None], targets, ahead, fits, agents, [scene for row in rows for scene in row.scenes])
