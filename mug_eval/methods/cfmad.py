"""``cfmad``: counterfactual debate with preset stances (arXiv 2406.11514, COLING 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from mug_eval.answers import parse_answer, plurality, same, spoken
from mug_eval.methods.chain_of_thought import chain_prompt
from mug_eval.methods.conversation import answer_line, ask_answer, ask_until_read, record_heard, statements, together, turn
from mug_eval.methods.method import CallRange, Method, Table, Verdict
from mug_eval.methods.self_consistency import sample_chains
from mug_eval.question import Answer, Question, Unparsed
from mug_eval.transcript import Transcript, pieces_of

ABDUCTION = (
    'Suppose that the right answer is "{stance}". Make the strongest case for it: which details of the picture speak for it, and how '
    "does it follow from them? Argue for this answer only, in at most 100 words."
)
CRITIQUE = (
    'Somebody argues above that the right answer is "{stance}". Persuade them that it is wrong: which of the details that they state '
    "are not there or are different, where does their reasoning fail? At most 100 words."
)
REBUTTAL = (
    'You argued above that the right answer is "{stance}", and a critic has answered. Reply to the critic: defend what stands, '
    "concede what does not. At most 100 words."
)
JUDGE = (
    "Above, each candidate answer was argued for, criticised and defended. The cases were assigned, so how well one is argued says "
    "nothing by itself: check every stated detail against the picture, then choose exactly one answer."
)


@dataclass(frozen=True, slots=True)
class CfmadConfig:
    """Settings of CFMAD.

    Attributes:
        stances: ``all`` candidates, as in the paper; ``top2``: the answer of one chain of thought and one other drawn at random, the
            released code's economy (open questions: the most frequent candidate and one other).
        rounds: rounds of critique and rebuttal (paper: saturates at 2 to 3).
        candidates: chains sampled to find candidates where the question offers none.
        temperature: of those chains.
    """

    stances: Literal["all", "top2"] = "all"
    rounds: int = 1
    candidates: int = 5
    temperature: float = 0.7

    def __post_init__(self) -> None:
        if self.rounds < 0:
            raise ValueError("rounds must be at least 0")
        if self.candidates < 2:
            raise ValueError("candidates must be at least 2")
        if not 0 <= self.temperature <= 2:
            raise ValueError("temperature must lie in 0..2")


@dataclass(slots=True)
class Case:
    """What was said for and against one stance."""

    stance: str
    said: list[tuple[int, str, str]] = field(default_factory=list)
    """(round, what it is, words); the argument is of round 0"""

    def transcript(self) -> Transcript:
        """The case so far, in words."""
        return Transcript((number, statements([(kind, text)])) for number, kind, text in self.said)


async def play(question: Question, table: Table, config: CfmadConfig) -> Verdict:
    """Abduction for every stance, critique and rebuttal, then a judge over all cases."""
    stances = await _stances(question, table, config)
    if isinstance(stances, Unparsed):
        return Verdict(stances, ended="no_stances")
    table.record("stances", stances=list(stances))
    if len(stances) == 1:
        return Verdict(Answer(stances[0]), ended="single_candidate", facts={"stances": 1})
    cases = [Case(stance) for stance in stances]
    await _speak(question, table, cases, "advocate", "Argument", ABDUCTION, 0)
    for number in range(1, config.rounds + 1):
        await _speak(question, table, cases, "critic", "Critique", CRITIQUE, number)
        await _speak(question, table, cases, "advocate", "Rebuttal", REBUTTAL, number)

    shown = list(cases)
    table.random("judge order").shuffle(shown)
    sections = [(f'Case for "{question.answer_format.describe(case.stance)}".', case.transcript()) for case in shown]
    transcript = Transcript(pieces_of(section for case in sections for section in case))
    line = answer_line(question.answer_format)
    named = ", ".join(f'"{question.answer_format.describe(case.stance)}"' for case in shown)
    chosen, replies = await ask_until_read(
        table,
        "judge",
        turn(question.prompt, transcript, f"{JUDGE} {line}"),
        lambda text: _one_of(stances, text, question),
        f"No answer that was argued for could be read from that. Choose exactly one of {named}. {line}",
    )
    table.record(
        "judgement",
        text=spoken(replies[-1]).strip(),
        answer=chosen.value if isinstance(chosen, Answer) else None,
        order=[case.stance for case in shown],
        asked_again=len(replies) > 1,
    )
    return Verdict(chosen, replies[-1], "judged", {"stances": len(stances)})


def _one_of(stances: Sequence[str], text: str, question: Question) -> Answer | Unparsed:
    """The judge's choice: an answer that nobody argued for is none."""
    answer = parse_answer(text, question.answer_format)
    if isinstance(answer, Unparsed):
        return answer
    for stance in stances:
        if same(answer, Answer(stance), question.answer_format):
            return Answer(stance)
    return Unparsed("the judge chose an answer that was not argued for")


async def _speak(question: Question, table: Table, cases: Sequence[Case], speaker: str, kind: str, task: str, number: int) -> None:
    """One phase: the advocate or the critic of every stance speaks, all at once, each seeing its own case so far."""
    replies = await together(
        [
            table.ask(
                f"{speaker} {case.stance}",
                turn(
                    question.prompt,
                    case.transcript(),
                    task.format(stance=question.answer_format.describe(case.stance)),
                ),
            )
            for case in cases
        ]
    )
    for case, reply in zip(cases, replies, strict=True):
        text = spoken(reply.text).strip()
        case.said.append((number, kind, text))
        table.record(kind.lower(), stance=case.stance, round=number, text=text)


async def _stances(question: Question, table: Table, config: CfmadConfig) -> tuple[str, ...] | Unparsed:
    """The answers to be argued for; all of them distinct."""
    answer_format = question.answer_format
    candidates = answer_format.candidates
    if not candidates:
        chains = await sample_chains(question, table, config.candidates, config.temperature)
        for i, heard in enumerate(chains):
            record_heard(table, "answer", f"chain {i + 1}", heard)
        top, votes = plurality([heard.answer for heard in chains], answer_format, table.random("candidates"))
        if isinstance(top, Unparsed):
            return Unparsed("no candidate answer could be read from the sampled chains")
        if config.stances == "all" or len(votes) == 1:
            return tuple(votes)
        others = [value for value in votes if value != top.value]
        return top.value, table.random("second stance").choice(others)
    if config.stances == "all" or len(candidates) <= 2:
        return candidates
    first = await ask_answer(table, "solver", chain_prompt(question), answer_format)
    record_heard(table, "answer", "solver", first)
    if isinstance(first.answer, Unparsed):
        return Unparsed("no first answer to take a stance from")
    others = [candidate for candidate in candidates if candidate != first.answer.value]
    return first.answer.value, table.random("second stance").choice(others)


def calls(question: Question, config: CfmadConfig) -> CallRange:
    """M (1 + 2 rounds) + 1, and the calls that find the stances."""
    per_stance, offered = 1 + 2 * config.rounds, len(question.answer_format.candidates)
    if not offered:
        most = config.candidates if config.stances == "all" else 2
        return CallRange(config.candidates, config.candidates + most * per_stance + 1)
    if config.stances == "top2" and offered > 2:
        return CallRange(1 + 2 * per_stance + 1, 1 + 2 * per_stance + 1)
    if offered == 1:
        return CallRange(0, 0)
    return CallRange(offered * per_stance + 1, offered * per_stance + 1)


METHOD = Method(
    "cfmad", "counterfactual debate: every answer argued for, criticised, defended; a judge chooses", CfmadConfig, play, calls
)
