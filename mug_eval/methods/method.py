"""The seam between a protocol and the world: a table to play at, a verdict to return, a method to register."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mug_eval.chat import Json, Message, Reply, Sampling
from mug_eval.question import Answer, Question, Unparsed


class Table(Protocol):
    """Where one game is played. Its three methods are a protocol's only effects.

    A game must be a pure function of (question, config, seeds, replies): ``record`` and ``random`` are called outside concurrent
    sections, so that the trace does not depend on which reply came first.
    """

    @property
    def sampling(self) -> Sampling:
        """The run's decoding settings, the same for every method (validity rule 6)."""
        ...

    async def ask(
        self, seat: str, messages: Sequence[Message], *, sampling: Sampling | None = None, schema: Json | None = None
    ) -> Reply:
        """One call to the backbone, on the record.

        Args:
            seat: who asks (``Agent 2``, ``judge``): names the call in the trace and seeds its draw together with the number of
                calls that the seat made before. One seat makes one call at a time.
            messages: the conversation.
            sampling: the run's settings if None. Its ``seed`` is always set by the table.
            schema: JSON schema for the reply, where the backbone can be held to one.
        """
        ...

    def random(self, purpose: str) -> random.Random:
        """The generator for one kind of draw, seeded by (run seed, benchmark, question index, method, purpose)."""
        ...

    def record(self, kind: str, **fields: Any) -> None:
        """Add an event to the trace; fields are JSON values."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a game ended.

    Attributes:
        answer: the final answer, or why there is none.
        raw: the reply from which the answer was read ("" where no single reply gave it, as in a vote).
        ended: one word for how it came about (``answered``, ``voted``, ``undercover_found``, ``undercover_survived``, ...).
        facts: measurements of the game (rounds played, undercover found, ...), JSON values, averaged in the reports.
    """

    answer: Answer | Unparsed
    raw: str = ""
    ended: str = "answered"
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CallRange:
    """How many calls one question takes, at least and at most, when every reply parses at first."""

    least: int
    most: int


PlayMethod = Callable[[Question, Table, Any], Coroutine[Any, Any, Verdict]]


@dataclass(frozen=True, slots=True)
class Method:
    """A protocol as the rest of the house sees it.

    Attributes:
        name: as in ``--model <name>-<backbone>``.
        summary: one line for ``--list``.
        config: a frozen dataclass of plain fields with defaults; its ``__post_init__`` raises ValueError on a bad value.
        play: the algorithm.
        calls: (question, config) -> the calls one question takes, for ``--dry-run``.
        uses_counterfactual: whether it looks at ``Question.altered``.
    """

    name: str
    summary: str
    config: type[Any]
    play: PlayMethod
    calls: Callable[[Question, Any], CallRange]
    uses_counterfactual: bool = False
