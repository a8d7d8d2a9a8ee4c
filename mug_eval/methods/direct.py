"""``direct``: one call, the benchmark's own prompt."""

from __future__ import annotations

from dataclasses import dataclass

from mug_eval.methods.conversation import ask_answer, record_heard, turn
from mug_eval.methods.method import CallRange, Method, Table, Verdict
from mug_eval.question import Question


@dataclass(frozen=True, slots=True)
class DirectConfig:
    """Nothing to set."""


async def play(question: Question, table: Table, config: DirectConfig) -> Verdict:
    """Ask the question as the benchmark's loader words it."""
    heard = await ask_answer(table, "solver", turn(question.prompt), question.answer_format)
    record_heard(table, "answer", "solver", heard)
    return Verdict(heard.answer, heard.raw)


METHOD = Method("direct", "one call, the benchmark's own prompt", DirectConfig, play, lambda question, config: CallRange(1, 1))
