"""``mad-vote``: multi-agent debate, then the plurality of the last answers (Du et al. 2023)."""

from __future__ import annotations

from mug_eval.answers import plurality
from mug_eval.methods.conversation import Heard
from mug_eval.methods.debate import DebateConfig, debate_round
from mug_eval.methods.method import CallRange, Method, Table, Verdict
from mug_eval.question import Question


async def play(question: Question, table: Table, config: DebateConfig) -> Verdict:
    """Debate for all rounds and vote; an agent without an answer abstains, ties are drawn among the tied."""
    heard: list[Heard] = []
    for number in range(1, config.rounds + 1):
        heard = await debate_round(question, table, config.agents, number, heard)
    answer, votes = plurality([reply.answer for reply in heard], question.answer_format, table.random("plurality"))
    table.record("count", votes=votes)
    return Verdict(answer, ended="voted", facts={"agreement": max(votes.values(), default=0) / config.agents})


METHOD = Method(
    "mad-vote",
    "multi-agent debate, plurality of the last answers",
    DebateConfig,
    play,
    lambda question, config: CallRange(config.agents * config.rounds, config.agents * config.rounds),
)
