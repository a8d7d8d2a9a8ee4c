"""One call on its way through a model in this process, and what runs such calls."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mug_eval.backbones.hf_prompt import Prompt
from mug_eval.backbones.token_draw import Draw
from mug_eval.chat import Sampling


@dataclass(slots=True, eq=False)
class Row:
    """One call.

    Attributes:
        prompt: what is asked.
        sampling: its decoding settings.
        most: most tokens of the reply.
        future: told when the row has ended; cancelled when nobody waits any more.
        draw: the settings and the generator of the present try.
        tokens: of the reply so far, the end token included.
        finish: ``stop`` or ``length`` once the reply is whole.
        alone: it was in a batch in which something failed, and must have no mates at its next try.
    """

    prompt: Prompt
    sampling: Sampling
    most: int
    future: Future[Row]
    draw: Draw
    tokens: list[int] = field(default_factory=list)
    finish: Literal["", "stop", "length"] = ""
    alone: bool = False

    def take(self, token: int, ends: frozenset[int]) -> None:
        """Add a token, and see whether it ends the reply."""
        self.tokens.append(token)
        if token in ends:
            self.finish = "stop"
        elif len(self.tokens) >= self.most:
            self.finish = "length"


@dataclass(slots=True)
class Counts:
    """What a model has done so far.

    Attributes:
        calls: replies finished.
        prompt_tokens: tokens of all prompts.
        computed_tokens: prompt tokens that went through the language model.
        pictures: pictures in all prompts.
        encoded_pictures: pictures that went through the vision tower.
        prefill_batches: forward passes over prompts.
        steps: forward passes that gave each call of a batch one token.
        step_rows: calls over all steps; divided by ``steps``, the mean batch.
        halvings: times that memory ran out and the token budget was halved.
    """

    calls: int = 0
    prompt_tokens: int = 0
    computed_tokens: int = 0
    pictures: int = 0
    encoded_pictures: int = 0
    prefill_batches: int = 0
    steps: int = 0
    step_rows: int = 0
    halvings: int = 0


class Runner(Protocol):
    """Runs rows. All methods are called by one thread, and any may raise ``torch.OutOfMemoryError`` or whatever the model raises."""

    counts: Counts

    @property
    def active(self) -> list[Row]:
        """Rows that were started and have not ended."""
        ...

    def start(self, rows: list[Row]) -> None:
        """Take in rows; each has its first token (or all of them) afterwards."""
        ...

    def step(self) -> None:
        """Give every active row one more token."""
        ...

    def drop(self) -> list[Row]:
        """Let go of all active rows and of every cache; returns the rows."""
        ...
