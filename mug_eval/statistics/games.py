"""What happened in the games: the undercover found or not, by whom and when, and what the talk did to the answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mug_eval.benchmarks import load_task
from mug_eval.errors import UserError
from mug_eval.methods.mug import found_by_chance
from mug_eval.statistics.intervals import DIFFERENCE, Estimate, mean_interval, share_interval
from mug_eval.statistics.runs import Group, Run


@dataclass(frozen=True, slots=True)
class Round:
    """One detection round, over all games with an undercover.

    Attributes:
        number: from 1.
        voting: games that came to this round.
        survived: share of all games whose undercover is still there after it.
        by_chance: the same, had lots been drawn in place of votes.
    """

    number: int
    voting: int
    survived: Estimate
    by_chance: float


@dataclass(frozen=True, slots=True)
class Detection:
    """The hunt for the undercover, in games that had one.

    Attributes:
        games: how many.
        found: share of games in which it was voted out.
        found_by_chance: the same, by lots.
        above_chance: the difference of the two, game by game.
        rounds: the survival curve.
        normal_votes: votes of agents that are not the undercover, share that names it; None if there was no vote.
        votes_by_chance: the same for a vote drawn among the others.
        votes_above_chance: the difference of the two, vote by vote.
        abstentions: ballots that could not be read, of all seats.
        normals_lost: normal agents voted out, a game.
    """

    games: int
    found: Estimate
    found_by_chance: float
    above_chance: Estimate
    rounds: tuple[Round, ...]
    normal_votes: Estimate | None
    votes_by_chance: float | None
    votes_above_chance: Estimate | None
    abstentions: int
    normals_lost: Estimate


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of first answers: those that agents over the true picture gave before they had heard anybody.

    Shares are of all first answers that could be read and held against the gold answer; they add up to 1.
    """

    first_answers: int
    right_to_wrong: Estimate
    wrong_to_right: Estimate
    stayed_right: float
    stayed_wrong: float


@dataclass(frozen=True, slots=True)
class GameStatistics:
    """All of it, over the games of one group of runs or a part of them.

    Attributes:
        games: how many.
        right: share of right answers.
        unparsed: games without an answer.
        asked_again: events in which a format reminder was needed.
        silent: statements of the talk from which no answer could be read.
        detection: None where no game had an undercover.
        changed: None where nobody stated an answer before the talk.
        by: kind of division (``category``, ``edit``, ``edit_type``) -> its value -> the same statistics over that part;
            a question of several categories (POPE) counts in each.
    """

    games: int
    right: Estimate
    unparsed: int
    asked_again: int
    silent: int
    detection: Detection | None
    changed: Changed | None
    by: Mapping[str, Mapping[str, GameStatistics]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """What statistics keep of one game; the words are dropped."""

    cluster: str
    right: bool
    unparsed: bool
    asked_again: int
    silent: int
    abstentions: int
    first_right: tuple[bool, ...]
    found_round: int | None
    rounds: int
    chance: tuple[float, ...]
    normals_lost: int
    votes: tuple[tuple[bool, float], ...]
    undercover: bool
    parts: Mapping[str, tuple[str, ...]]


def game_statistics(group: Group, only: Collection[str] | None = None) -> GameStatistics:
    """Read the games of a group of runs; seeds are pooled, with a question's games in one cluster.

    Args:
        group: the runs.
        only: the questions whose games are counted, at least one of them in the runs; None: all.

    Raises:
        UserError: a game is missing, or was changed from outside.
    """
    told = [_read(run, game) for run in group.runs for game in run.games() if only is None or game["index"] in only]
    kinds = sorted({kind for one in told for kind in one.parts}, key=_KINDS.index)
    by: dict[str, dict[str, GameStatistics]] = {}
    for kind in kinds:
        values = sorted({value for one in told for value in one.parts.get(kind, ())})
        by[kind] = {value: _over([one for one in told if value in one.parts.get(kind, ())]) for value in values}
    return replace(_over(told), by=by)


_KINDS = ("category", "edit", "edit_type")


def _read(run: Run, game: Mapping[str, Any]) -> Told:
    try:
        return _told(run, game)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise not_a_game(run, game, error) from error


def not_a_game(run: Run, game: Mapping[str, Any], error: Exception) -> UserError:
    """The one line for a game that does not say what games say."""
    return UserError(
        f"{run.folder / 'games.jsonl'}: the game {game['index']!r} has not the shape of a game ({type(error).__name__}: {error}); "
        "the file was changed from outside"
    )


def _told(run: Run, game: Mapping[str, Any]) -> Told:
    """One line of ``games.jsonl``."""
    index, facts, events = game["index"], game["facts"], game["events"]
    seats: Mapping[str, Any] = next((event for event in events if event["event"] == "seats"), {})
    odd = seats.get("undercover")
    statements = [event for event in events if event["event"] == "statement"]
    # The answer that a single call gives is the final one; only one that something follows can change.
    drafts = [event for event in events[:-1] if event["event"] == "answer" and event["seat"] == "solver"][:1]
    played = bool(facts.get("undercover_played")) and "undercover_found" in facts
    rounds, lost, chance = 0, 0, list[float]()
    if played:
        agents = len(seats["order"])
        most = _whole(run.config["config"]["detection_rounds"], 1)
        rounds, lost = (
            _whole(facts.get("detection_rounds", 0), 0, min(most, len(events))),
            _whole(facts.get("normals_lost", 0), 0, agents),
        )
        # In a round for every agent lots have done what they can.
        chance = [found_by_chance(agents, number + 1) for number in range(min(most, max(agents, rounds)))]
        if not chance:
            raise ValueError("an undercover in a game without a vote")
    edit = seats.get("edit") or {}
    category = run.rows[index].get("category") or ""
    # The scorer counts a row of POPE's "random,popular" in each of the two, and so do its categories here.
    several = load_task(run.benchmark).explode == "category"
    parts = {
        "edit": edit.get("edit"),
        "edit_type": edit.get("edit_type", edit.get("type")),
    }
    return Told(
        cluster=run.clusters[index],
        right=run.right[index],
        unparsed="unparsed" in game["answer"],
        asked_again=sum(bool(event.get("asked_again")) for event in events),
        silent=sum(event.get("answer") is None for event in statements),
        abstentions=sum(event["vote"] is None for event in events if event["event"] == "vote"),
        first_right=tuple(_first_right(run.rows[index], [*statements, *drafts], odd)),
        found_round=_whole(facts["found_round"], 1, rounds) if played and facts.get("found_round") is not None else None,
        rounds=rounds,
        chance=tuple(chance),
        normals_lost=lost,
        votes=tuple(_votes(events, odd)) if played else (),
        undercover=played,
        parts={
            **({"category": tuple(category.split(",")) if several else (category,)} if category else {}),
            **{kind: (str(value),) for kind, value in parts.items() if value},
        },
    )


def _whole(value: Any, least: int, most: int | None = None) -> int:
    if type(value) is not int or value < least or (most is not None and value > most):
        raise ValueError(f"{ascii(value)[:40]} where a whole number from {least}{'' if most is None else f' to {most}'} belongs")
    return value


def _first_right(row: Mapping[str, str], said: Sequence[Mapping[str, Any]], odd: str | None) -> Iterator[bool]:
    """Whether the first answers of agents over the true picture are right; open answers, which only the scorer can read, are left out."""
    gold = row["answer"]
    if gold not in ("Yes", "No") and not (len(gold) == 1 and row.get(gold)):
        return
    for event in said:
        alone = event["event"] == "answer"  # a draft, before its critic
        first = alone or (event["round"] == 1 and event["phase"] in ("observe", "reason"))
        if first and event["seat"] != odd and event["answer"] is not None:
            yield event["answer"] == gold


def _votes(events: Sequence[Mapping[str, Any]], odd: str | None) -> Iterator[tuple[bool, float]]:
    """For each vote of a normal agent: whether it names the undercover, and how often a drawn one would."""
    cast = [event for event in events if event["event"] == "vote"]
    for event in cast:
        left = sum(other["round"] == event["round"] for other in cast)
        if event["seat"] != odd and event["vote"] is not None:
            yield event["vote"] == odd, 1 / (left - 1)


def _over(told: Sequence[Told]) -> GameStatistics:
    return GameStatistics(
        games=len(told),
        right=share_interval([one.right for one in told], [one.cluster for one in told]),
        unparsed=sum(one.unparsed for one in told),
        asked_again=sum(one.asked_again for one in told),
        silent=sum(one.silent for one in told),
        detection=_detection([one for one in told if one.undercover]),
        changed=_changed(told),
    )


def _detection(told: Sequence[Told]) -> Detection | None:
    if not told:
        return None
    clusters = [one.cluster for one in told]
    found = [one.found_round is not None for one in told]
    lots = [one.chance[-1] for one in told]
    votes = [(hit, chance, one.cluster) for one in told for hit, chance in one.votes]
    voters = [cluster for _, _, cluster in votes]
    return Detection(
        games=len(told),
        found=share_interval(found, clusters),
        found_by_chance=sum(lots) / len(lots),
        above_chance=mean_interval([hit - chance for hit, chance in zip(found, lots, strict=True)], clusters, within=DIFFERENCE),
        rounds=tuple(_round(told, clusters, number) for number in range(1, max(one.rounds for one in told) + 1)),
        normal_votes=share_interval([hit for hit, _, _ in votes], voters) if votes else None,
        votes_by_chance=sum(chance for _, chance, _ in votes) / len(votes) if votes else None,
        votes_above_chance=mean_interval([hit - chance for hit, chance, _ in votes], voters, within=DIFFERENCE) if votes else None,
        abstentions=sum(one.abstentions for one in told),
        normals_lost=mean_interval([float(one.normals_lost) for one in told], clusters),
    )


def _round(told: Sequence[Told], clusters: Sequence[str], number: int) -> Round:
    """After a round the undercover is gone for good or still there: a game that ended without finding it counts as survived."""
    survived = [one.found_round is None or one.found_round > number for one in told]
    lots = [one.chance[min(number, len(one.chance)) - 1] for one in told]
    return Round(number, sum(one.rounds >= number for one in told), share_interval(survived, clusters), 1 - sum(lots) / len(lots))


def _changed(told: Sequence[Told]) -> Changed | None:
    pairs = [(first, one.right, one.cluster) for one in told for first in one.first_right]
    if not pairs:
        return None
    clusters = [cluster for _, _, cluster in pairs]

    def share(happened: Callable[[bool, bool], bool]) -> Estimate:
        return share_interval([happened(first, last) for first, last, _ in pairs], clusters)

    return Changed(
        first_answers=len(pairs),
        right_to_wrong=share(lambda first, last: first and not last),
        wrong_to_right=share(lambda first, last: last and not first),
        stayed_right=share(lambda first, last: first and last).value,
        stayed_wrong=share(lambda first, last: not first and not last).value,
    )
