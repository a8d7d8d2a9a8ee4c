"""The debate that mad-vote and mad-judge share (Du et al. 2023): agents answer, read each other's last replies, answer again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mug_eval.methods.conversation import Heard, answer_line, ask_answer, record_heard, statements, together, turn
from mug_eval.methods.method import Table
from mug_eval.question import Question

RULES = "Agents {first} to {last} answer the question above, each on their own at first, then after reading each other's answers."
FIRST = "You are {seat}. Say which details of the picture matter, reason from them step by step, then answer."
AGAIN = (
    "You are {seat}. Compare the others' reasoning with your own and with what you see. Where they are right, take it up; where they "
    "are wrong, say why. Then answer again."
)


@dataclass(frozen=True, slots=True)
class DebateConfig:
    """Settings of a debate.

    Attributes:
        agents: number of agents (Du et al. and the MUG paper's baseline: 3).
        rounds: rounds of answers, the first one alone included (Du et al.: 2).
    """

    agents: int = 3
    rounds: int = 2

    def __post_init__(self) -> None:
        if self.agents < 2:
            raise ValueError("agents must be at least 2")
        if self.rounds < 1:
            raise ValueError("rounds must be at least 1")


def seats(count: int) -> tuple[str, ...]:
    """Neutral names (validity rule 1)."""
    return tuple(f"Agent {i + 1}" for i in range(count))


async def debate_round(question: Question, table: Table, agents: int, number: int, before: Sequence[Heard]) -> list[Heard]:
    """One round: all agents answer at once, having read everyone's reply of the round before.

    Everyone gets the same transcript, own reply included, so that the prompts share all but their last lines.

    Args:
        question: what is debated.
        table: where.
        agents: how many.
        number: of this round, from 1.
        before: the replies of the round before, by seat; empty in the first round.
    """
    names = seats(agents)
    rules = RULES.format(first=1, last=agents)
    transcript = "Answers so far.\n\n" + statements([(s, h.text) for s, h in zip(names, before, strict=True)]) if before else ""
    task = AGAIN if before else FIRST
    line = answer_line(question.answer_format)
    heard = await together(
        [
            ask_answer(
                table, seat, turn(question.prompt, rules, transcript, f"{task.format(seat=seat)} {line}"), question.answer_format
            )
            for seat in names
        ]
    )
    for seat, reply in zip(names, heard, strict=True):
        record_heard(table, "statement", seat, reply, round=number, phase="reason")
    return list(heard)
