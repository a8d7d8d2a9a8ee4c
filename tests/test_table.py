"""The real table: what a draw depends on (validity rule 5), and that every call of a game is in its record (rule 7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from scripted import against, question

from mug_eval.chat import Json, Message, Reply, Sampling, Usage
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.journal import Journal
from mug_eval.engine.runner import Setting, play_question
from mug_eval.engine.table import GameTable
from mug_eval.methods import methods
from mug_eval.question import Question


class Asked:
    """A backbone that answers like everybody in ``against({})`` and keeps the seeds that it was given."""

    fingerprint = "asked"

    def __init__(self) -> None:
        self.seeds: list[int | None] = []

    async def chat(self, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> Reply:
        self.seeds.append(sampling.seed)
        return Reply(against({})("Agent 1", 0, messages), Usage(7, 3, sum(len(message.images) for message in messages)))

    async def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "journal.sqlite") as opened:
        yield opened


def table_of(journal: Journal, asked: Question, method: str = "mug", seed: int = 0, model: Asked | None = None) -> GameTable:
    return GameTable(asked, method, Sampling(), seed, Dispatcher(model or Asked(), journal, DispatchPolicy()))


SAME: dict[str, Any] = {"asked": question(), "method": "mug", "seed": 0}
OTHERS: dict[str, dict[str, Any]] = {
    "question index": {"asked": replace(question(), index="8")},
    "benchmark": {"asked": replace(question(), benchmark="OTHER")},
    "method": {"method": "mad-vote"},
    "run seed": {"seed": 1},
}


@pytest.mark.parametrize("other", OTHERS)
async def test_every_draw_depends_on(journal: Journal, other: str) -> None:
    def draws(**named: Any) -> list[float]:
        table = table_of(journal, **named)
        return [table.random(purpose).random() for purpose in ("undercover", "elimination 2")]

    assert draws(**SAME) == draws(**SAME)
    assert not set(draws(**SAME)) & set(draws(**{**SAME, **OTHERS[other]}))


@pytest.mark.parametrize("other", OTHERS)
async def test_every_calls_seed_depends_on(journal: Journal, other: str) -> None:
    numbers = count()

    async def seeds(**named: Any) -> list[int | None]:
        model = Asked()
        table = table_of(journal, model=model, **named)
        for seat in ("Agent 1", "Agent 2", "Agent 1"):
            await table.ask(seat, [Message("user", (f"never asked before: {next(numbers)}",))])
        return model.seeds

    first, again, different = await seeds(**SAME), await seeds(**SAME), await seeds(**{**SAME, **OTHERS[other]})
    assert first == again
    assert len({*first, *different}) == 6, "by seat and by number of the call within the seat, too"


@pytest.mark.parametrize("name", sorted(methods()))
async def test_every_call_of_a_game_is_in_its_record_and_in_the_journal(journal: Journal, name: str) -> None:
    model, method = Asked(), methods()[name]
    setting = Setting(method, method.config(), Sampling(), 0)
    dispatcher = Dispatcher(model, journal, DispatchPolicy())
    record = await play_question(question(), setting, dispatcher, lambda index, answer: "x")
    assert len(record["calls"]) == len(model.seeds) == len(journal) == record["usage"]["calls"] > 0
    assert record["usage"]["prompt_tokens"] == 7 * len(model.seeds)
    assert record["usage"]["images"] == sum(call["images"] for call in record["calls"])
    for call in record["calls"]:
        recorded = journal.read(call["key"])
        assert recorded is not None and recorded.reply.text == call["text"]
