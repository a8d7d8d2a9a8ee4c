"""``cot``: one call that reasons, then answers (Wei et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass

from mug_eval.chat import Message
from mug_eval.methods.conversation import answer_line, ask_answer, record_heard, turn
from mug_eval.methods.method import CallRange, Method, Table, Verdict
from mug_eval.question import Question

TASK = "Think it through step by step: say which details of the picture matter, reason from them, then answer."


@dataclass(frozen=True, slots=True)
class ChainOfThoughtConfig:
    """Nothing to set."""


def chain_prompt(question: Question) -> tuple[Message, ...]:
    """The prompt of one chain; self-consistency and the gate sample the same one."""
    return turn(question.prompt, TASK, answer_line(question.answer_format))


async def play(question: Question, table: Table, config: ChainOfThoughtConfig) -> Verdict:
    """Reason and answer in one reply."""
    heard = await ask_answer(table, "solver", chain_prompt(question), question.answer_format)
    record_heard(table, "answer", "solver", heard)
    return Verdict(heard.answer, heard.raw)


METHOD = Method("cot", "one call that reasons, then answers", ChainOfThoughtConfig, play, lambda question, config: CallRange(1, 1))
