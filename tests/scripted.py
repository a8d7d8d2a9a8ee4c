"""A table with a script: exact replies in, exact game out."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mug_eval.chat import ImageRef, Json, Message, Reply, Sampling
from mug_eval.question import Altered, AnswerFormat, Question
from mug_eval.seeds import generator

Script = Callable[[str, int, Sequence[Message]], str]
"""(seat, number of the call within the seat, messages) -> reply"""


@dataclass
class Call:
    seat: str
    number: int
    messages: tuple[Message, ...]
    sampling: Sampling
    schema: Json | None

    @property
    def text(self) -> str:
        return "\n".join(message.text for message in self.messages)

    @property
    def images(self) -> list[str]:
        return [image.sha256 for message in self.messages for image in message.images]


@dataclass
class ScriptedTable:
    """Plays a game with scripted replies; ``draws`` forces single draws by purpose."""

    script: Script
    seed: int = 0
    sampling: Sampling = field(default_factory=lambda: Sampling(temperature=0.2, top_p=0.5, top_k=7, max_tokens=64))
    draws: dict[str, Callable[[Sequence[Any]], Any]] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    question_index: str = "7"
    purposes: list[str] = field(default_factory=list)

    async def ask(
        self, seat: str, messages: Sequence[Message], *, sampling: Sampling | None = None, schema: Json | None = None
    ) -> Reply:
        number = sum(call.seat == seat for call in self.calls)
        self.calls.append(Call(seat, number, tuple(messages), sampling or self.sampling, schema))
        return Reply(self.script(seat, number, messages))

    def random(self, purpose: str) -> random.Random:
        self.purposes.append(purpose)
        rng = generator(self.seed, "TEST", self.question_index, "method", purpose)
        if purpose in self.draws:
            forced = self.draws[purpose]
            rng.choice = forced  # type: ignore[method-assign,assignment]
        return rng

    def record(self, kind: str, **fields: Any) -> None:
        json.dumps(fields)
        self.events.append({"event": kind, **fields})

    @property
    def seats(self) -> list[str]:
        return [call.seat for call in self.calls]

    def happened(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == kind]


def picture(name: str) -> ImageRef:
    data = name.encode()
    return ImageRef(hashlib.sha256(data).hexdigest(), "image/png", 8, 8, data)


TRUE, ALTERED = picture("the picture of the question"), picture("the other picture")
YES_NO = AnswerFormat("yes_no")
CHOICE = AnswerFormat("choice", (("A", "a cat"), ("B", "a dog"), ("C", "a bus"), ("E", "a boat")))
OPEN = AnswerFormat("open")


def question(answer_format: AnswerFormat = YES_NO, altered: bool = True) -> Question:
    text = "Is there a dog in the picture?"
    edit = (("edit", "remove"), ("target", "SECRET-TARGET"))
    other = Altered((ALTERED, text), edit) if altered else None
    return Question("TEST", "7", (TRUE, text), answer_format, other)


def says(answer: str) -> Script:
    """Everybody gives the same answer and every feedback is content."""
    return lambda seat, number, messages: f"I looked closely.\nChange needed: no\nAnswer: {answer}"


def ballot(**scores: int) -> str:
    """Ballot that gives agent k (``a1=..``) the same score on all factors."""
    factors = ("inconsistency", "deviation", "inaccuracy", "suspicion")
    return json.dumps({f"Agent {key[1:]}": dict.fromkeys(factors, n) for key, n in scores.items()})


def is_vote(messages: Sequence[Message]) -> bool:
    return "JSON object" in messages[-1].text


def against(targets: dict[str, str], answer: str = "Yes") -> Script:
    """Everybody talks alike; in votes each seat rates its target 10 and everybody else 0."""

    def script(seat: str, number: int, messages: Sequence[Message]) -> str:
        if is_vote(messages):
            named = [f"Agent {n}" for n in range(1, 10) if f'"Agent {n}"' in messages[-1].text]
            return ballot(**{f"a{name.split()[1]}": 10 if name == targets.get(seat) else 0 for name in named})
        return f"I see a dog on a sofa.\nAnswer: {answer}"

    return script
