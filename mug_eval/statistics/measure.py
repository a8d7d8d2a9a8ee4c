"""The numbers of a study's runs, each by the statistics that ``mug-eval compare`` has. No formula is stated here."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mug_eval.statistics.bootstrap import resample
from mug_eval.statistics.definition import sums_of
from mug_eval.statistics.games import GameStatistics, game_statistics, not_a_game
from mug_eval.statistics.intervals import DIFFERENCE, SHARE, Estimate, mean_interval, share_interval
from mug_eval.statistics.paired import compare_hits, holm
from mug_eval.statistics.permutation import exchange_test
from mug_eval.statistics.runs import Group
from mug_eval.statistics.scores import Difference, Score, differences_of, scores_of

SEED = 0
"""Of the resamples and exchanges, as in ``mug-eval compare``."""


@dataclass(frozen=True, slots=True)
class Against:
    """A group against its baseline.

    Attributes:
        differences: by score.
        p: of the share of right answers: clusters exchanged, two-sided.
        p_holm: the same for all comparisons of the study; set by :func:`with_holm`.
        fixed: questions that only the group answers rightly; None with several seeds.
        broken: questions that only the baseline answers rightly.
    """

    differences: Mapping[str, Difference]
    p: float
    p_holm: float
    fixed: int | None
    broken: int | None


@dataclass(frozen=True, slots=True)
class Measured:
    """A group's numbers.

    Attributes:
        group: its runs.
        scores: by name, the first the share of right answers.
        against: None for the baseline itself, and where that is owed.
    """

    group: Group
    scores: Mapping[str, Score]
    against: Against | None


def measure(groups: Sequence[Group], baselines: Sequence[Group | None]) -> list[Measured]:
    """Score groups on the same questions, and compare each with its baseline.

    Args:
        groups: all of one benchmark.
        baselines: for each the group that it is compared with, or None.
    """
    if not groups:
        return []
    every = list({id(group): group for group in (*groups, *(base for base in baselines if base is not None))}.values())
    sums = {id(group): [sums_of(run) for run in group.runs] for group in every}
    drawn = {id(group): one for group, one in zip(every, resample([sums[id(group)] for group in every], SEED), strict=True)}
    found = []
    for group, base in zip(groups, baselines, strict=True):
        scores = scores_of(group, sums[id(group)], drawn[id(group)])
        against = None
        if base is not None and base is not group:
            exchanged = exchange_test(sums[id(group)], sums[id(base)], SEED)
            sides = [(one, sums[id(one)], drawn[id(one)]) for one in (group, base)]
            differences = differences_of(sides[0], sides[1], exchanged)
            single = len(group.runs) == len(base.runs) == 1
            hits = compare_hits([v == 1 for v in group.values], [v == 1 for v in base.values], group.clusters) if single else None
            p = next(iter(differences.values())).p
            against = Against(differences, p, p, hits.fixed if hits else None, hits.broken if hits else None)
        found.append(Measured(group, scores, against))
    return found


def with_holm(measured: Sequence[Measured]) -> list[Measured]:
    """Correct the p-values for the number of comparisons, over benchmarks and backbones alike."""
    compared = [one for one in measured if one.against is not None]
    adjusted = dict(zip(map(id, compared), holm([one.against.p for one in compared if one.against is not None]), strict=True))
    return [
        replace(one, against=replace(one.against, p_holm=adjusted[id(one)])) if one.against is not None else one for one in measured
    ]


def part_of(group: Group, indices: Collection[str], category: str | None = None, column: str = "category") -> Group:
    """The same runs over a part of their questions.

    Args:
        group: the runs.
        indices: the part.
        category: the scorer's row for that part: its headline takes the place of the whole run's, so that ``sums_of`` holds the
            part against the scorer's own numbers.
        column: that is to say ``category`` alone, so that a question that counts in several is counted once in this part.
    """
    runs = []
    for run in group.runs:
        kept = [index for index in run.rows if index in indices]
        rows = {index: {**run.rows[index], **({column: category} if category is not None else {})} for index in kept}
        scores = run.scores if category is None else {**run.scores, "headline": run.scores["categories"][category]}
        right = {index: run.right[index] for index in kept}
        clusters = {index: run.clusters[index] for index in kept}
        runs.append(replace(run, rows=rows, right=right, clusters=clusters, scores=scores))
    return Group(tuple(runs))


def share_right(group: Group) -> Estimate:
    """The share of right answers of a group or a part of one, as ``scores_of`` makes its interval."""
    if len(group.runs) == 1:
        return share_interval([value == 1 for value in group.values], group.clusters)
    return mean_interval(group.values, group.clusters, within=SHARE)


def gap(group: Group, base: Group) -> Estimate:
    """The difference of two groups' shares of right answers over the same questions."""
    return mean_interval(
        [one - other for one, other in zip(group.values, base.values, strict=True)], group.clusters, within=DIFFERENCE
    )


def games_of(group: Group) -> GameStatistics:
    """What happened in a group's games."""
    return game_statistics(group)


def seconds(group: Group) -> Estimate:
    """Seconds that the backbone took for a question's calls, one call after another."""
    spent: list[tuple[float, str]] = []
    for run in group.runs:
        for game in run.games():
            try:
                spent.append((float(game["usage"]["seconds"]), run.clusters[game["index"]]))
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise not_a_game(run, game, error) from error
    return mean_interval([value for value, _ in spent], [cluster for _, cluster in spent])
