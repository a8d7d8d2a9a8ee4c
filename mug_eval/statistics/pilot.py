"""What a small comparison says of a larger one: how often methods disagree, with each other and with themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from mug_eval.errors import UserError
from mug_eval.statistics.comparable import check_comparable
from mug_eval.statistics.compare import partner
from mug_eval.statistics.intervals import cluster_error
from mug_eval.statistics.runs import Group, Run


@dataclass(frozen=True, slots=True)
class Pilot:
    """Measured on runs; what ``power.Design`` is made from.

    Attributes:
        name: which comparison.
        discordant: share of questions that exactly one of two runs answers rightly, over all pairs of seeds.
        rerun: share of questions on which two seeds of one method disagree, the mean of both methods; 0 where none has two.
        design_effect: the clustered over the plain variance of the difference; 1 where one of them is 0 or unknown.
    """

    name: str
    discordant: float
    rerun: float
    design_effect: float


def pilots_of(groups: Sequence[Group], against: Sequence[Group]) -> list[Pilot]:
    """One for each group that is not compared with itself.

    Raises:
        UserError: runs that cannot be compared, or that never disagree.
    """
    found = []
    for group in groups:
        base = partner(group, against)
        if {run.folder.resolve() for run in base.runs} == {run.folder.resolve() for run in group.runs}:
            continue
        for run in (*group.runs[1:], *base.runs):
            check_comparable(group.runs[0], run)
        found.append(_pilot(group, base))
    if not found:
        raise UserError("there is nothing to plan from: the runs named are those after --against")
    return found


def _pilot(group: Group, base: Group) -> Pilot:
    name = f"{group.model} - {base.model} on {group.benchmark}"
    discordant = [_apart(one, other) for one, other in product(group.runs, base.runs)]
    if not any(discordant):
        raise UserError(f"{name}: the runs never disagree, so they say nothing of how often others would; give --discordant")
    reruns = [
        sum(apart) / len(apart)
        for many in (group, base)
        if (apart := [_apart(one, other) for one, other in combinations(many.runs, 2)])
    ]
    differences = [a - b for a, b in zip(group.values, base.values, strict=True)]
    plain, _ = cluster_error(differences, range(len(differences)))
    clustered, _ = cluster_error(differences, group.clusters)
    known = plain > 0 and clustered > 0 and not math.isnan(clustered)
    share = sum(discordant) / len(discordant)
    return Pilot(name, share, min(share, sum(reruns) / len(reruns)) if reruns else 0.0, (clustered / plain) ** 2 if known else 1.0)


def _apart(one: Run, other: Run) -> float:
    return sum(one.right[index] != other.right[index] for index in one.right) / len(one.right)
