"""What accuracy was paid for: runs by their price, and self-consistency as the control at the same price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mug_eval.ablations import split_ablation, split_arm
from mug_eval.statistics.runs import Group

CONTROL = "sc"
"""The method that spends the same without any protocol (validity rule 6)."""

SAME_BUDGET = (0.8, 1.25)
"""Calls a question of a protocol over those of its control, for them to count as the same budget."""


@dataclass(frozen=True, slots=True)
class Control:
    """The control of a protocol's runs.

    Attributes:
        group: the self-consistency runs nearest in calls; None if there are none of this backbone on this benchmark.
        ratio: calls a question of the protocol over the control's; None without a control.
        same_budget: whether the ratio lies within ``SAME_BUDGET``.
        wanted: the model name that would be the control at the same number of calls, e.g. ``sc12-qwen``.
    """

    group: Group | None
    ratio: float | None
    same_budget: bool
    wanted: str


def needs_control(group: Group) -> bool:
    """Whether more than one call a question is spent, by something else than self-consistency."""
    return group.method != CONTROL and (group.cost["calls"] or 0) >= 1.5


def control_of(group: Group, others: Sequence[Group]) -> Control:
    """The self-consistency runs with the same backbone and benchmark that are nearest in calls a question."""
    calls = group.cost["calls"] or 0.0
    near = [
        other
        for other in others
        if other.method == CONTROL
        and other.backbone == group.backbone
        and other.benchmark == group.benchmark
        and other.cost["calls"]
    ]
    model = split_ablation(split_arm(group.model)[0])[0]  # whatever of MUG's was changed, the control is the plain model's
    wanted = f"{CONTROL}{max(2, round(calls))}-{model.removeprefix(group.method + '-')}"
    if not near:
        return Control(None, None, False, wanted)
    nearest = min(near, key=lambda other: abs((other.cost["calls"] or 0.0) - calls))
    ratio = calls / (nearest.cost["calls"] or 1.0)
    return Control(nearest, ratio, SAME_BUDGET[0] <= ratio <= SAME_BUDGET[1], wanted)


def tokens(group: Group) -> float | None:
    """Prompt and completion tokens a question; None where the backbone does not say."""
    prompt, completion = group.cost["prompt_tokens"], group.cost["completion_tokens"]
    return None if prompt is None or completion is None else prompt + completion


def on_frontier(group: Group, value: float, others: Sequence[tuple[Group, float]]) -> bool:
    """Whether no other run on the benchmark has at least this score for fewer calls, or a better one for no more.

    Args:
        group: the runs in question.
        value: their score.
        others: all runs on the same questions with their score, these included or not.
    """
    calls = group.cost["calls"] or 0.0
    for other, theirs in others:
        price = other.cost["calls"] or 0.0
        if (theirs >= value and price < calls) or (theirs > value and price <= calls):
            return False
    return True
