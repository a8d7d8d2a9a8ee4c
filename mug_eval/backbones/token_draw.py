"""The next token of every call of a batch: greedy exactly, or drawn by the call's own generator, whoever shares its batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mug_eval.chat import Sampling
from mug_eval.seeds import derive_seed


@dataclass(slots=True, eq=False)
class Draw:
    """How one call chooses its tokens.

    Attributes:
        temperature: 0 for greedy.
        top_k: candidates kept; 0 for all.
        top_p: nucleus mass of what ``top_k`` left; 1 for all.
        repetition_penalty: of tokens that the prompt or the reply has already; 1 for none.
        generator: of this call alone, on the CPU, so that a seed draws the same on every device.
    """

    temperature: float
    top_k: int
    top_p: float
    repetition_penalty: float
    generator: torch.Generator


def draw_for(sampling: Sampling, defaults: Any) -> Draw:
    """The call's settings, and the model's own (``generation_config``) where they are None. One number a token is drawn.

    Args:
        sampling: of the call. Without a seed the draw is still a seeded one, the same for every such call.
        defaults: the model's ``generation_config``.
    """
    temperature = sampling.temperature
    if temperature is None:
        temperature = (defaults.temperature or 1.0) if getattr(defaults, "do_sample", False) else 0.0
    top_k = sampling.top_k if sampling.top_k is not None else getattr(defaults, "top_k", None) or 0
    top_p = sampling.top_p if sampling.top_p is not None else getattr(defaults, "top_p", None) or 1.0
    generator = torch.Generator().manual_seed(derive_seed("tokens", sampling.seed if sampling.seed is not None else "no seed"))
    return Draw(
        float(temperature), int(top_k), float(top_p), float(getattr(defaults, "repetition_penalty", None) or 1.0), generator
    )


def next_tokens(logits: torch.Tensor, draws: Sequence[Draw], seen: torch.Tensor | None = None) -> list[int]:
    """One token a row.

    Candidates are cut by ``top_k`` and then by ``top_p``, as transformers does, and taken by inverting the cumulative distribution at
    one uniform number from the row's generator. A row's result depends on its own logits and generator alone.

    Args:
        logits: (rows, vocabulary), any float type.
        draws: one a row.
        seen: (rows, vocabulary) bool, tokens that a row has already; needed where a penalty is not 1.
    """
    logits = logits.float()
    if seen is not None and any(draw.repetition_penalty != 1.0 for draw in draws):
        penalty = torch.tensor([draw.repetition_penalty for draw in draws], device=logits.device)[:, None]
        logits = torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)
    tokens: list[int] = logits.argmax(-1).tolist()
    drawn = [i for i, draw in enumerate(draws) if draw.temperature > 0 and draw.top_k != 1]
    if drawn:
        chosen = _drawn(logits[drawn], [draws[i] for i in drawn])
        for i, token in zip(drawn, chosen, strict=True):
            tokens[i] = token
    return tokens


def _drawn(logits: torch.Tensor, draws: Sequence[Draw]) -> list[int]:
    vocabulary = logits.shape[-1]
    # A stable sort and not topk: bf16 logits tie often, and the order of a tie must not depend on who else is in the batch.
    values, order = logits.sort(dim=-1, descending=True, stable=True)
    device = logits.device

    def column(numbers: Sequence[float], dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.tensor(numbers, dtype=dtype, device=device)[:, None]

    rank = torch.arange(values.shape[-1], device=device)
    kept = rank < column([draw.top_k or vocabulary for draw in draws], torch.int64)
    scaled = (values.double() / column([draw.temperature for draw in draws])).masked_fill(~kept, -torch.inf)
    weights = scaled.softmax(-1)
    before = weights.cumsum(-1) - weights
    kept = kept & (before < column([draw.top_p for draw in draws]))
    kept[:, 0] = True
    weights = weights.masked_fill(~kept, 0.0)
    cumulative = weights.cumsum(-1)
    uniform = column([float(torch.rand((), generator=draw.generator, dtype=torch.float64)) for draw in draws])
    place = torch.searchsorted(cumulative, uniform * cumulative[:, -1:], right=True)
    place = torch.minimum(place, kept.sum(-1, keepdim=True) - 1)
    return order.gather(1, place)[:, 0].tolist()  # type: ignore[no-any-return]
