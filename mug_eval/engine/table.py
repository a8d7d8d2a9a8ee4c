"""The table at which one game is played: seeds every call and draw, and keeps the record."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mug_eval.chat import Json, Message, Reply, Sampling
from mug_eval.engine.dispatcher import Dispatcher
from mug_eval.question import Question
from mug_eval.seeds import derive_seed, generator


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
            key, reply = await self._dispatcher.ask(messages, settings, schema)
        finally:
            self._asking.remove(seat)
        self._calls.append((seat, ordinal, key, reply))
        return reply

    def random(self, purpose: str) -> random.Random:
        """The generator for one kind of draw of this game."""
        return generator(*self._name, purpose)

    def record(self, kind: str, **fields: Any) -> None:
        """Add an event to the trace."""
        self._events.append({"event": kind, **fields})

    def close(self) -> None:
        """The game is over: a call that comes now is a method's mistake."""
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
