"""``mug``: Multi-agent Undercover Gaming (arXiv 2511.11182, AAAI 2026).

One agent is secretly handed a counterfactual picture I-. The agents talk and vote to find it; then those who are left answer over I+.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mug_eval.answers import parse_answer, same, spoken
from mug_eval.chat import Part
from mug_eval.methods import mug_prompts as words
from mug_eval.methods.conversation import Heard, answer_line, ask_answer, ask_until_read, record_heard, statements, together, turn
from mug_eval.methods.debate import seats
from mug_eval.methods.method import CallRange, Method, Table, Verdict
from mug_eval.methods.mug_ratings import (
    Ratings,
    ballot_example,
    ratings_schema,
    read_ratings,
    suspicion,
    vote_of,
)
from mug_eval.methods.mug_seating import most_uncertain
from mug_eval.methods.self_consistency import sample_chains
from mug_eval.question import Answer, Question, Unparsed
from mug_eval.transcript import Transcript, pieces_of

MOST_AGENTS: Final = 20
"""A game of more is a slip of the pen: every agent reads every other, so that the tokens grow with the square of their number."""


@dataclass(frozen=True, slots=True)
class MugConfig:
    """Settings of MUG. Where the paper and its code say nothing, docs/methods.md says what we chose and why.

    Attributes:
        agents: N, of whom at most one is the undercover (paper: unknown; released code: 3).
        undercover: who is it: drawn at ``random`` (paper), or the agent with the ``most_uncertain`` first answer, which costs N calls.
        observation_rounds: rounds of talk without a vote before the detection (paper: studies 0 to 3).
        detection_rounds: t_max, most rounds of talk and vote.
        summary_rounds: most rounds of the summarisation; it ends early when all agree.
        weights: w_1..w_4 of the vote factors inconsistency, deviation, inaccuracy, suspicion.
        no_counterfactual: ablation: the undercover plays its role over I+.
        no_undercover: ablation: nobody is the undercover and nobody votes; observation and summarisation stay.
        identical: ablation: where there is a counterfactual picture the undercover is handed I+ in its place, so that the games are those
            of the full method but for that picture.
        adaptive_stop: end the detection with nobody voted out when no agent's mean suspicion (0..10) reaches this; None: never.
        gate: play only if this many sampled chains disagree (0: always play; at least 2).
        gate_temperature: of those chains.
    """

    agents: int = 3
    undercover: Literal["random", "most_uncertain"] = "random"
    observation_rounds: int = 1
    detection_rounds: int = 3
    summary_rounds: int = 2
    weights: tuple[float, float, float, float] = (1.0, 1.0, 1.0, 1.0)
    no_counterfactual: bool = False
    no_undercover: bool = False
    identical: bool = False
    adaptive_stop: float | None = None
    gate: int = 0
    gate_temperature: float = 0.7

    def __post_init__(self) -> None:
        if self.agents < 3:
            raise ValueError("agents must be at least 3 (two normal agents and the undercover)")
        if self.agents > MOST_AGENTS:
            raise ValueError(f"agents must be at most {MOST_AGENTS}")
        if self.observation_rounds < 0:
            raise ValueError("observation_rounds must be at least 0")
        if self.detection_rounds < 1:
            raise ValueError("detection_rounds must be at least 1; no_undercover=true plays without a vote")
        if self.summary_rounds < 1:
            raise ValueError("summary_rounds must be at least 1")
        if min(self.weights) < 0 or sum(self.weights) <= 0:
            raise ValueError("weights must not be negative, and not all zero")
        if self.no_counterfactual and self.no_undercover:
            raise ValueError(
                "no_counterfactual and no_undercover exclude each other: without an undercover there is no picture to withhold"
            )
        if self.identical and (self.no_counterfactual or self.no_undercover):
            raise ValueError("identical excludes no_counterfactual and no_undercover: it is about the undercover's picture")
        if self.adaptive_stop is not None and not 0 < self.adaptive_stop <= 10:
            raise ValueError("adaptive_stop must lie in (0, 10]")
        if self.gate == 1 or self.gate < 0:
            raise ValueError("gate must be 0 (always play) or at least 2: one chain cannot disagree with itself")
        if not 0 <= self.gate_temperature <= 2:
            raise ValueError("gate_temperature must lie in 0..2")


@dataclass(slots=True)
class Game:
    """The state S^t of one game: who is left, who was handed which picture, and what was said so far (H)."""

    question: Question
    table: Table
    config: MugConfig
    undercover: str | None
    left: list[str]
    talk: list[tuple[int, str, str]] = field(default_factory=list)
    """(round, seat, words); a vote's outcome has the seat "" """

    def prompt(self, seat: str) -> Sequence[Part]:
        """The question over the picture that the seat was handed."""
        altered = self.question.altered
        if seat == self.undercover and altered is not None and not (self.config.no_counterfactual or self.config.identical):
            return altered.prompt
        return self.question.prompt

    def rules(self) -> str:
        """The public rules."""
        return words.RULES.format(count=self.config.agents)

    def transcript(self) -> Transcript:
        """What everybody is shown of the game so far: statements and votes in seat order, round by round."""
        pieces: list[tuple[int, str]] = []
        for number in dict.fromkeys(number for number, _, _ in self.talk):
            said = [(seat, text) for n, seat, text in self.talk if n == number and seat]
            outcome = [text for n, seat, text in self.talk if n == number and not seat]
            pieces.append((number, "\n\n".join([f"[Round {number}]", statements(said), *outcome])))
        return Transcript(pieces)

    def role(self, seat: str) -> str:
        """The seat's private role."""
        return (words.ODD if seat == self.undercover else words.COMMON).format(seat=seat)


async def play(question: Question, table: Table, config: MugConfig) -> Verdict:
    """Gate, detection (Game = D), summarisation (Game = M)."""
    facts: dict[str, Any] = {}
    if config.gate:
        agreed = await _gate(question, table, config)
        facts["gate_open"] = agreed is None
        if agreed is not None:
            return Verdict(agreed, ended="gated", facts=facts)
    game = await _seat(question, table, config)
    for number in range(1, config.observation_rounds + 1):
        await _talk(game, number, "observe")
    if game.undercover is None:
        ended = "no_undercover" if config.no_undercover else "no_counterfactual_picture"
    else:
        ended = await _detect(game, facts)
    facts["undercover_played"] = game.undercover is not None
    answer, raw = await _summarise(game, facts)
    return Verdict(answer, raw, ended, facts)


async def _gate(question: Question, table: Table, config: MugConfig) -> Answer | None:
    """The answer on which all sampled chains agree, or None if the question is worth a game (iMAD-like)."""
    chains = await sample_chains(question, table, config.gate, config.gate_temperature)
    for i, heard in enumerate(chains):
        record_heard(table, "answer", f"chain {i + 1}", heard)
    answers = [heard.answer for heard in chains]
    return _agreed(answers, question)


async def _seat(question: Question, table: Table, config: MugConfig) -> Game:
    """Choose the undercover. All agents are one backbone, so to draw the undercover's seat is to shuffle the seats."""
    names = seats(config.agents)
    playable = not config.no_undercover and (config.no_counterfactual or question.altered is not None)
    undercover = None
    if playable and config.undercover == "most_uncertain":
        undercover = await most_uncertain(question, table, names)
    elif playable:
        undercover = table.random("undercover").choice(names)
    elif not config.no_undercover:
        table.record("fallback", reason="no counterfactual picture for this question: played without an undercover")
    original = config.no_counterfactual or config.identical
    holds = None if undercover is None else "the original picture" if original else "the altered picture"
    edit = dict(question.altered.edit) if question.altered is not None and holds == "the altered picture" else {}
    table.record("seats", order=list(names), undercover=undercover, holds=holds, edit=edit)
    return Game(question, table, config, undercover, list(names))


async def _talk(game: Game, number: int, phase: str) -> None:
    """One round of talk: R_i^t = f(Q, I_i, role_i, H^{t-1}), all seats at once.

    The answer line is read for the statistics only; a statement is no answer, so a missing line is not asked for again.
    """
    question, table = game.question, game.table
    task = f"{words.TALK.format(round=number)} {answer_line(question.answer_format)}"
    replies = await together(
        [
            table.ask(seat, turn(game.prompt(seat), game.rules(), game.transcript(), f"{game.role(seat)}\n\n{task}"))
            for seat in game.left
        ]
    )
    for seat, reply in zip(game.left, replies, strict=True):
        text = spoken(reply.text).strip()
        answer = parse_answer(reply.text, question.answer_format)
        value = answer.value if isinstance(answer, Answer) else None
        game.talk.append((number, seat, text))
        table.record("statement", round=number, phase=phase, seat=seat, text=text, answer=value)


async def _detect(game: Game, facts: dict[str, Any]) -> str:
    """Rounds of talk and vote until the undercover is out, too few normal agents are left, or t_max is reached.

    Here the code knows the undercover, and uses it for nothing but to end the phase and to measure (validity rule 3).
    """
    config = game.config
    abstentions = 0
    found, number = False, 0
    while number < config.detection_rounds and not found and len([s for s in game.left if s != game.undercover]) >= 2:
        number += 1
        shown = config.observation_rounds + number
        await _talk(game, shown, "reason")
        ballots = await _vote(game, shown)
        abstentions += sum(1 for ballot in ballots.values() if isinstance(ballot, Unparsed))
        valid = {voter: ballot for voter, ballot in ballots.items() if not isinstance(ballot, Unparsed)}
        if config.adaptive_stop is not None and valid and _most_suspected(game, valid) < config.adaptive_stop:
            game.table.record("stop", round=shown, reason="nobody is suspected enough")
            break
        eliminated = _eliminate(game, shown, valid)
        if eliminated is not None:
            game.left.remove(eliminated)
            found = eliminated == game.undercover
    facts.update(
        undercover_found=found,
        found_round=number if found else None,
        detection_rounds=number,
        normals_lost=config.agents - 1 - len([seat for seat in game.left if seat != game.undercover]),
        abstentions=abstentions,
        found_by_chance=found_by_chance(config.agents, config.detection_rounds),
    )
    return "undercover_found" if found else "undercover_survived"


def found_by_chance(agents: int, rounds: int) -> float:
    """How often lots in place of votes would find the undercover: what ``undercover_found`` has to be read against."""
    missed = 1.0
    for left in range(agents, max(agents - rounds, 2), -1):
        missed *= 1 - 1 / left
    return round(1 - missed, 6)


async def _vote(game: Game, number: int) -> dict[str, Ratings | Unparsed]:
    """Every agent rates every other agent, all at once; a ballot that cannot be read is an abstention (validity rule 4)."""

    async def ballot(seat: str) -> tuple[Ratings | Unparsed, tuple[str, ...]]:
        others = [other for other in game.left if other != seat]
        example = ballot_example(others)
        task = words.VOTE.format(others=", ".join(others), example=example)
        return await ask_until_read(
            game.table,
            seat,
            turn(game.prompt(seat), game.rules(), game.transcript(), f"{game.role(seat)}\n\n{task}"),
            lambda text: read_ratings(text, others),
            words.VOTE_REMINDER.format(example=example),
            schema=ratings_schema(others),
        )

    cast = await together([ballot(seat) for seat in game.left])
    for seat, (ratings, replies) in zip(game.left, cast, strict=True):
        read = not isinstance(ratings, Unparsed)
        game.table.record(
            "vote",
            round=number,
            seat=seat,
            vote=_choice(game, number, seat, ratings) if not isinstance(ratings, Unparsed) else None,
            ratings=ratings if read else None,
            reason="" if not isinstance(ratings, Unparsed) else ratings.reason,
            asked_again=len(replies) > 1,
        )
    return {seat: ratings for seat, (ratings, _) in zip(game.left, cast, strict=True)}


def _choice(game: Game, number: int, voter: str, ratings: Ratings) -> str:
    """V_i of a valid ballot; the same draw whenever it is asked."""
    return vote_of(ratings, game.config.weights, game.table.random(f"vote {number} {voter}"))


def _most_suspected(game: Game, ballots: dict[str, Ratings]) -> float:
    """The highest mean suspicion (0..10) over the agents that are left."""
    given: dict[str, list[float]] = {}
    for ratings in ballots.values():
        for seat, rating in ratings.items():
            given.setdefault(seat, []).append(suspicion(rating, game.config.weights))
    return max(sum(values) / len(values) for values in given.values())


def _eliminate(game: Game, number: int, ballots: dict[str, Ratings]) -> str | None:
    """The plurality's choice leaves, ties by a seeded draw among the tied; nobody if all abstain."""
    votes = {voter: _choice(game, number, voter, ratings) for voter, ratings in ballots.items()}
    count = Counter(votes.values())
    tied = sorted(seat for seat, n in count.items() if n == max(count.values()))
    eliminated = game.table.random(f"elimination {number}").choice(tied) if tied else None
    game.table.record("elimination", round=number, votes=dict(count), eliminated=eliminated, tied=tied if len(tied) > 1 else [])
    cast = "; ".join(f"{seat}: {votes.get(seat, 'no vote')}" for seat in game.left)
    outcome = f"{eliminated} has left." if eliminated else "Nobody has left."
    game.talk.append((number, "", f"Votes. {cast}. {outcome}"))
    return eliminated


async def _summarise(game: Game, facts: dict[str, Any]) -> tuple[Answer | Unparsed, str]:
    """The agents that are left answer over I+, round by round until they agree; one call writes the final answer.

    A surviving undercover does not answer, but what it said stays in the talk: nobody found it out (validity rule 3).
    """
    question, table, config = game.question, game.table, game.config
    names = [seat for seat in game.left if seat != game.undercover]
    talked = [(number, f"[Round {number}] {statements([(seat, text)])}") for number, seat, text in game.talk if seat in game.left]
    introduction = words.DISCUSSED.format(count=config.agents, said="").rstrip()
    discussed = Transcript(pieces_of([introduction, Transcript(talked) if talked else "(nothing)"]))
    line = answer_line(question.answer_format)
    heard: list[Heard] = []
    conclusions = ""
    for number in range(1, config.summary_rounds + 1):
        task = f"{words.SUMMARISE} {line}"
        heard = await together(
            [
                ask_answer(
                    table, seat, turn(question.prompt, discussed, conclusions, task.format(seat=seat)), question.answer_format
                )
                for seat in names
            ]
        )
        conclusions = "Conclusions.\n\n" + statements([(seat, reply.text) for seat, reply in zip(names, heard, strict=True)])
        for seat, reply in zip(names, heard, strict=True):
            record_heard(table, "statement", seat, reply, round=number, phase="summary")
        facts["summary_rounds"] = number
        agreed = _agreed([reply.answer for reply in heard], question) is not None
        if len(names) > 1:  # one alone always agrees with itself
            facts["agreed"] = agreed
        if agreed:
            break
    final = await ask_answer(table, "writer", turn(question.prompt, conclusions, f"{words.FINAL} {line}"), question.answer_format)
    record_heard(table, "answer", "writer", final)
    return final.answer, final.raw


def _agreed(answers: Sequence[Answer | Unparsed], question: Question) -> Answer | None:
    """The one answer that all give; None if they differ or one gives none."""
    first = answers[0]
    if isinstance(first, Unparsed):
        return None
    for other in answers[1:]:
        if isinstance(other, Unparsed) or not same(first, other, question.answer_format):
            return None
    return first


def calls(question: Question, config: MugConfig) -> CallRange:
    """The calls of a game: found in the first round and agreed at once, or t_max and no agreement."""
    n, normals = config.agents, config.agents - 1
    before = config.gate
    talk = n * config.observation_rounds
    if config.no_undercover or (question.altered is None and not config.no_counterfactual):
        least, most = talk + n + 1, talk + n * config.summary_rounds + 1
    else:
        talk += n if config.undercover == "most_uncertain" else 0
        # Cheapest: the detection ends after one round, with a normal agent voted out if that ends it, since fewer answer then.
        least = talk + 2 * n + (normals - 1 if n == 3 or config.detection_rounds == 1 else normals) + 1
        # Dearest: nobody is voted out (all abstain) in any round.
        most = talk + 2 * n * config.detection_rounds + normals * config.summary_rounds + 1
    return CallRange(before if config.gate else least, before + most)


METHOD = Method(
    "mug",
    "Multi-agent Undercover Gaming: find the agent with the altered picture, then answer",
    MugConfig,
    play,
    calls,
    uses_counterfactual=True,
)
