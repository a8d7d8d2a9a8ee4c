"""The whole comparison: scores, differences, prices and games of runs, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mug_eval.errors import UserError
from mug_eval.statistics.bootstrap import RESAMPLES, Resampled, resample
from mug_eval.statistics.comparable import caveats, check_comparable
from mug_eval.statistics.cost import Control, control_of, needs_control, on_frontier
from mug_eval.statistics.definition import Sums, sums_of
from mug_eval.statistics.games import GameStatistics, game_statistics
from mug_eval.statistics.paired import compare_hits, correlation, holm, smallest_difference
from mug_eval.statistics.paper_test import PaperTest, paper_test
from mug_eval.statistics.permutation import PERMUTATIONS, Exchanged, exchange_test
from mug_eval.statistics.runs import Group
from mug_eval.statistics.scores import Difference, Score, differences_of, scores_of

FEW_CLUSTERS = 20
"""Below which clustered intervals are known to be too short."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A group of runs with all that is said of it alone.

    Attributes:
        group: the runs.
        label: its name in this comparison.
        questions: how many.
        clusters: how many groups of dependent questions.
        scores: by name, the first the share of right answers.
        control: self-consistency at its price; None where it needs none.
        frontier: whether none of the runs is better at its price.
        games: what happened in them.
    """

    group: Group
    label: str
    questions: int
    clusters: int
    scores: Mapping[str, Score]
    control: Control | None
    frontier: bool
    games: GameStatistics


@dataclass(frozen=True, slots=True)
class Compared:
    """One group of runs against another.

    Attributes:
        label: of the first.
        against: of the other.
        benchmark: of both.
        as_control: whether the other is here as self-consistency at the same price, not as what the user named.
        differences: by score.
        p: the headline: the exchange test on the share of right answers.
        p_holm: the same, for as many comparisons as there are.
        exact: whether the test made all exchanges.
        clusters_that_differ: how many clusters it could exchange.
        correlation: of the two over questions; NaN where one never varies.
        fixed: questions that only the first answers rightly; None with several seeds.
        broken: questions that only the other answers rightly; None with several seeds.
        mcnemar_p: exact, two-sided; None with several seeds.
        smallest_difference: in points of right answers, found with 80 % power at 5 %.
        paper: the paper's test, if it was asked for.
        caveats: what else differs between the two.
    """

    label: str
    against: str
    benchmark: str
    as_control: bool
    differences: Mapping[str, Difference]
    p: float
    p_holm: float
    exact: bool
    clusters_that_differ: int
    correlation: float
    fixed: int | None
    broken: int | None
    mcnemar_p: float | None
    smallest_difference: float
    paper: PaperTest | None
    caveats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything.

    Attributes:
        scored: every group, in the order given, those compared against last.
        compared: every comparison.
        notes: what a reader should know, one line each.
    """

    scored: tuple[Scored, ...]
    compared: tuple[Compared, ...]
    notes: tuple[str, ...]


def compare(
    groups: Sequence[Group],
    against: Sequence[Group],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    permutations: int = PERMUTATIONS,
    with_paper_test: bool = False,
) -> Comparison:
    """Compare groups of runs, each against the one of its benchmark (and backbone, if there are several).

    Args:
        groups: what is to be shown better or worse.
        against: what it is compared with; those among ``groups`` are not compared with themselves.
        seed: of all draws.
        resamples: of the bootstrap.
        permutations: of the test.
        with_paper_test: whether to add the paper's test.

    Raises:
        UserError: nothing to compare with, or runs that cannot be compared.
    """
    base_folders = {run.folder.resolve() for group in against for run in group.runs}
    first = [group for group in groups if not any(run.folder.resolve() in base_folders for run in group.runs)]
    if not first:
        raise UserError("there is nothing to compare: the runs named are those after --against")
    every = [*first, *against]
    pairs: list[tuple[Group, Group, bool]] = []
    for group in first:
        base = partner(group, against)
        check_comparable(group.runs[0], base.runs[0])
        pairs.append((group, base, False))
    controls = {id(group): control_of(group, every) for group in every if needs_control(group)}
    for group in first:
        control = controls.get(id(group))
        if control is None or control.group is None or any(pair[0] is group and pair[1] is control.group for pair in pairs):
            continue
        check_comparable(group.runs[0], control.group.runs[0])
        pairs.append((group, control.group, True))
    for group in every:
        for run in group.runs[1:]:
            check_comparable(group.runs[0], run)
    labels = _labels(every)
    sums = {id(group): [sums_of(run) for run in group.runs] for group in every}
    drawn = _resampled(every, sums, seed, resamples)
    scored = _scored(every, labels, sums, drawn, controls)
    found = []
    for one, other, as_control in pairs:
        exchanged = exchange_test(sums[id(one)], sums[id(other)], seed, permutations)
        sides = [(group, sums[id(group)], drawn.get(id(group))) for group in (one, other)]
        differences = differences_of(sides[0], sides[1], exchanged)
        compared_pair = _compared(one, other, labels, differences, exchanged, with_paper_test)
        found.append(replace(compared_pair, as_control=as_control))
    adjusted = holm([pair.p for pair in found])
    compared = tuple(replace(pair, p_holm=p) for pair, p in zip(found, adjusted, strict=True))
    return Comparison(tuple(scored), compared, tuple(_notes(scored, compared)))


def partner(group: Group, against: Sequence[Group]) -> Group:
    """The group to compare with: of the same benchmark, and of the same backbone if there are several."""
    same = [other for other in against if other.benchmark == group.benchmark]
    if len(same) > 1:
        same = [other for other in same if other.backbone == group.backbone]
    if not same:
        named = ", ".join(sorted({f"{other.model} on {other.benchmark}" for other in against}))
        raise UserError(
            f"{group.model} on {group.benchmark} has nothing to be compared with among {named}; name its run after --against"
        )
    if len(same) > 1:
        folders = ", ".join(str(run.folder) for other in same for run in other.runs)
        raise UserError(
            f"{group.model} on {group.benchmark} could be compared with each of {folders}; name one (seeds of one are put together)"
        )
    return same[0]


def _labels(groups: Sequence[Group]) -> dict[int, str]:
    """The model's name, with its work-dir where two of a benchmark have the same."""
    labels = {}
    for group in groups:
        same = [other for other in groups if (other.model, other.benchmark) == (group.model, group.benchmark)]
        labels[id(group)] = group.model if len(same) == 1 else str(group.runs[0].folder.parent)
    return labels


def _resampled(groups: Sequence[Group], sums: Mapping[int, Sequence[Sums]], seed: int, resamples: int) -> dict[int, Resampled]:
    """Resamples of every group that has a score that is no plain share; those with the same clusters share the draws."""
    drawn: dict[int, Resampled] = {}
    for group in groups:
        if id(group) not in drawn and not all(sums[id(group)][0].plain):
            together = [
                other for other in groups if other.benchmark == group.benchmark and set(other.clusters) == set(group.clusters)
            ]
            found = resample([sums[id(other)] for other in together], seed, resamples)
            drawn.update({id(other): one for other, one in zip(together, found, strict=True)})
    return drawn


def _scored(
    groups: Sequence[Group],
    labels: Mapping[int, str],
    sums: Mapping[int, Sequence[Sums]],
    drawn: Mapping[int, Resampled],
    controls: Mapping[int, Control],
) -> list[Scored]:
    means = {id(group): float(np.mean([one.values[0] for one in sums[id(group)]])) for group in groups}
    found = []
    for group in groups:
        beside = [(other, means[id(other)]) for other in groups if other.benchmark == group.benchmark]
        found.append(
            Scored(
                group=group,
                label=labels[id(group)],
                questions=len(group.indices),
                clusters=len(set(group.clusters)),
                scores=scores_of(group, sums[id(group)], drawn.get(id(group))),
                control=controls.get(id(group)),
                frontier=on_frontier(group, means[id(group)], beside),
                games=game_statistics(group),
            )
        )
    return found


def _compared(
    one: Group,
    other: Group,
    labels: Mapping[int, str],
    differences: Mapping[str, Difference],
    exchanged: Exchanged,
    with_paper_test: bool,
) -> Compared:
    values, theirs = one.values, other.values
    right = next(iter(differences.values()))
    single = len(one.runs) == len(other.runs) == 1
    hits = compare_hits([value == 1 for value in values], [value == 1 for value in theirs], one.clusters) if single else None
    return Compared(
        label=labels[id(one)],
        against=labels[id(other)],
        benchmark=one.benchmark,
        as_control=False,
        differences=differences,
        p=right.p,
        p_holm=right.p,
        exact=exchanged.exact,
        clusters_that_differ=exchanged.clusters,
        correlation=correlation(values, theirs),
        fixed=hits.fixed if hits else None,
        broken=hits.broken if hits else None,
        mcnemar_p=hits.p if hits else None,
        smallest_difference=smallest_difference(right.standard_error, len(set(one.clusters))),
        paper=paper_test(values, theirs) if with_paper_test else None,
        caveats=tuple(caveats(one.runs[0], other.runs[0])),
    )


def _notes(scored: Sequence[Scored], compared: Sequence[Compared]) -> Iterator[str]:
    said = set()
    for pair in compared:
        for caveat in pair.caveats:
            if caveat not in said:
                said.add(caveat)
                yield caveat
        if next(iter(pair.differences.values())).standard_error < 1e-9:
            yield (
                f"{pair.label} - {pair.against} on {pair.benchmark}: all clusters came out alike, so that the interval has no width; that "
                "says nothing of how far the difference may be off"
            )
    for one in scored:
        many = f"{one.clusters} cluster{'' if one.clusters == 1 else 's'}"
        few = f"{one.group.benchmark} has {many}: with fewer than {FEW_CLUSTERS} intervals come out too short"
        if one.clusters < FEW_CLUSTERS and few not in said:
            said.add(few)
            yield few
        missing = max(int(run.scores["missing"]) for run in one.group.runs)
        if missing:
            yield f"{one.label} on {one.group.benchmark}: {missing} questions are missing, the scores are of the others"
        control = one.control
        if control is None:
            continue
        calls = one.group.cost["calls"] or 0.0
        if control.group is None:
            yield (
                f"{one.label} on {one.group.benchmark} spends {calls:.1f} calls a question and has no control at that budget here: "
                f"play {control.wanted} and name it too"
            )
        elif not control.same_budget:
            yield (
                f"{one.label} on {one.group.benchmark} spends {control.ratio:.1f} times the calls of {control.group.model}, the nearest "
                f"self-consistency: not the same budget; {control.wanted} would be"
            )
        else:
            yield (
                f"{one.label} on {one.group.benchmark}: its control at the same budget is {control.group.model} "
                f"({calls:.1f} calls a question against {control.group.cost['calls'] or 0.0:.1f})"
            )
