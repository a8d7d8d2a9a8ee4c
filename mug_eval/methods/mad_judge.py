"""``mad-judge``: the same debate as mad-vote; a judge reads the transcript and decides, maybe early (Liang et al. 2023)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mug_eval.answers import parse_answer, spoken
from mug_eval.methods.conversation import Heard, answer_line, ask_until_read, statements, turn
from mug_eval.methods.debate import DebateConfig, debate_round, seats
from mug_eval.methods.method import CallRange, Method, Table, Verdict
from mug_eval.question import Answer, Question, Unparsed
from mug_eval.transcript import Transcript

RULES = "Agents {first} to {last} debated the question above; every agent saw the picture. You are the judge."
DECIDE = "Weigh the agents' reasoning against the picture and decide which answer is right, in at most 100 words."
WAIT = 'If another round of debate is needed before you can decide, finish with the single line "Undecided" instead.'
_UNDECIDED = re.compile(r"\W*(?:answer\W+)?undecided\W*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MadJudgeConfig(DebateConfig):
    """Settings of a judged debate.

    Attributes:
        agents: as in the debate.
        rounds: as in the debate, the most there are.
        early_stop: whether the judge is asked after every round from the second on (in the first nobody has heard anybody) and may end
            the debate; else only after the last.
    """

    early_stop: bool = True


async def play(question: Question, table: Table, config: MadJudgeConfig) -> Verdict:
    """Debate until the judge decides; after the last round it has to."""
    heard: list[Heard] = []
    rounds: list[tuple[int, str]] = []
    for number in range(1, config.rounds + 1):
        heard = await debate_round(question, table, config.agents, number, heard)
        said = [(seat, reply.text) for seat, reply in zip(seats(config.agents), heard, strict=True)]
        rounds.append((number, f"Round {number}.\n\n{statements(said)}"))
        last = number == config.rounds
        if last or (config.early_stop and number > 1):
            answer, replies = await _judge(question, table, config, Transcript(rounds), may_wait=not last)
            decided = answer.value if isinstance(answer, Answer) else None
            text = spoken(replies[-1]).strip()
            table.record("judgement", round=number, text=text, answer=decided, asked_again=len(replies) > 1)
            if last or decided is not None:
                ended = "judged" if last else "judged_early"
                no_answer = Unparsed("the judge gave no answer")
                return Verdict(answer if isinstance(answer, Answer) else no_answer, replies[-1], ended, {"rounds": number})
    raise AssertionError("unreachable: the judge is asked after the last round")


async def _judge(
    question: Question, table: Table, config: MadJudgeConfig, transcript: Transcript, may_wait: bool
) -> tuple[Answer | Unparsed | None, tuple[str, ...]]:
    """The judge's answer; None for "undecided"."""

    def read(text: str) -> Answer | Unparsed | None:
        lines = [line for line in spoken(text).splitlines() if line.strip()]
        if may_wait and lines and _UNDECIDED.fullmatch(lines[-1]):
            return None
        return parse_answer(text, question.answer_format)

    line = answer_line(question.answer_format)
    task = " ".join((DECIDE, line, WAIT) if may_wait else (DECIDE, line))
    rules = RULES.format(first=1, last=config.agents)
    prompt = turn(question.prompt, rules, transcript, task)
    reminder = f"No answer could be read from that. {line}" + (f" {WAIT}" if may_wait else "")
    return await ask_until_read(table, "judge", prompt, read, reminder)


def calls(question: Question, config: MadJudgeConfig) -> CallRange:
    """Agents' calls of the rounds played, and the judge's."""
    n, rounds = config.agents, config.rounds
    if not config.early_stop or rounds == 1:
        return CallRange(rounds * n + 1, rounds * n + 1)
    return CallRange(2 * n + 1, rounds * n + rounds - 1)


METHOD = Method("mad-judge", "multi-agent debate, a judge decides and may end it early", MadJudgeConfig, play, calls)
