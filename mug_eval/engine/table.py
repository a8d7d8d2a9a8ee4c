"""The table at which one game is played: seeds every call and draw, and keeps the record."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mug_eval.chat import Json, Message, PromptTooLong, Reply, Sampling
from mug_eval.engine.dispatcher import Dispatcher
from mug_eval.question import Question
from mug_eval.seeds import derive_seed, generator
from mug_eval.transcript import without_oldest_round


class GameTable:
    """The ``methods.Table`` of one game.

    Args:
        question: the question that is played; names the draws.
        method: the method's name; names the draws.
        sampling: the run's decoding settings.
        seed: the run's seed.
        dispatcher: the way to the backbone.
    """

    def __init__(self, question: Question, method: str, sampling: Sampling, seed: int, dispatcher: Dispatcher) -> None:
        self._name = (seed, question.benchmark, question.index, method)
        self._sampling = sampling
        self._dispatcher = dispatcher
        self._asked: dict[str, int] = {}
        self._asking: set[str] = set()
        self._events: list[dict[str, Any]] = []
        self._calls: list[tuple[str, int, str, Reply]] = []
        self._shortened: list[tuple[str, int, int]] = []
        self._over = False

    @property
    def sampling(self) -> Sampling:
        """The run's decoding settings."""
        return self._sampling

    async def ask(
        self, seat: str, messages: Sequence[Message], *, sampling: Sampling | None = None, schema: Json | None = None
    ) -> Reply:
        """One call; see ``methods.Table.ask``.

        The draw is seeded by (run seed, benchmark, question index, method, seat, number of the call within the seat from 1), so
        that it does not depend on what other seats and games do.

        Where the backbone says that the prompt is over its context, the call is put again without the oldest round of the public
        transcript, and so on while there is a round to spare; the trace says so (``transcript_dropped``).

        Raises:
            RuntimeError: the seat has a call out already, or the game is over: the method is wrong.
            TransientError, RefusedError, RunStopped: as ``Dispatcher.ask``.
        """
        if self._over:
            raise RuntimeError(f"{seat} asks after its game is over; a method must await all its calls")
        if seat in self._asking:
            raise RuntimeError(f"{seat} asks while its last call is out; one seat makes one call at a time")
        ordinal = self._asked[seat] = self._asked.get(seat, 0) + 1
        settings = replace(sampling or self._sampling, seed=derive_seed(*self._name, seat, ordinal))
        self._asking.add(seat)
        try:
            key, reply, dropped = await self._ask_what_fits(messages, settings, schema)
        finally:
            self._asking.remove(seat)
        self._calls.append((seat, ordinal, key, reply))
        if dropped:
            self._shortened.append((seat, ordinal, dropped))
        return reply

    async def _ask_what_fits(self, messages: Sequence[Message], settings: Sampling, schema: Json | None) -> tuple[str, Reply, int]:
        """The call's key and reply, and how many rounds had to be left out for it."""
        shown, dropped = await self._as_recorded(messages, settings, schema)
        while True:
            try:
                return *await self._dispatcher.ask(shown, settings, schema), dropped
            except PromptTooLong as error:
                shorter = without_oldest_round(shown)
                if shorter is None and dropped:
                    message = f"{error}, with nothing but the newest round of the talk left in it"
                    raise PromptTooLong(message, error.tokens, error.limit) from error
                if shorter is None:
                    raise
                shown, dropped = shorter, dropped + 1

    async def _as_recorded(
        self, messages: Sequence[Message], settings: Sampling, schema: Json | None
    ) -> tuple[Sequence[Message], int]:
        """The conversation as the journal knows it, and how many rounds were left out; whole, where it was never answered.

        A refusal is not in the journal. Without this look, a game that is continued at a server with a larger context would be asked
        anew from here on instead of being replayed.
        """
        shorter = without_oldest_round(messages)
        if shorter is None or await self._dispatcher.recorded(messages, settings, schema):
            return messages, 0
        dropped = 1
        while shorter is not None:
            if await self._dispatcher.recorded(shorter, settings, schema):
                return shorter, dropped
            shorter, dropped = without_oldest_round(shorter), dropped + 1
        return messages, 0

    def random(self, purpose: str) -> random.Random:
        """The generator for one kind of draw of this game."""
        return generator(*self._name, purpose)

    def record(self, kind: str, **fields: Any) -> None:
        """Add an event to the trace."""
        self._record_shortened()
        self._events.append({"event": kind, **fields})

    def _record_shortened(self) -> None:
        """Say which calls went out without old rounds since the last event; in the order of the seats, not of the replies."""
        for seat, ordinal, dropped in sorted(self._shortened, key=lambda call: (_natural(call[0]), call[1])):
            self._events.append({"event": "transcript_dropped", "seat": seat, "call": f"{seat}#{ordinal}", "rounds": dropped})
        self._shortened.clear()

    def close(self) -> None:
        """The game is over: a call that comes now is a method's mistake."""
        self._record_shortened()
        self._over = True

    @property
    def events(self) -> list[dict[str, Any]]:
        """The trace, in the order recorded."""
        return self._events

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The answered calls by seat (``Agent 10`` after ``Agent 9``) and number within the seat, whenever they came back."""
        ordered = sorted(self._calls, key=lambda call: (_natural(call[0]), call[1]))
        return [
            {
                "call": f"{seat}#{ordinal}",
                "key": key,
                "text": reply.text,
                "finish_reason": reply.finish_reason,
                "prompt_tokens": reply.usage.prompt_tokens,
                "completion_tokens": reply.usage.completion_tokens,
                "images": reply.usage.images,
                "seconds": reply.seconds,
            }
            for seat, ordinal, key, reply in ordered
        ]


def _natural(name: str) -> tuple[tuple[str, int, str], ...]:
    """A key that sorts numbers within a name by their value; the digits as written decide between ``1`` and ``01``."""
    return tuple(("", int(piece), piece) if piece.isdecimal() else (piece, 0, "") for piece in re.split(r"(\d+)", name))
