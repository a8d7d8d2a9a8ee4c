"""Charts of pages: where the marks of an SVG go (figures for papers: ``plot``). The numbers are statistics' own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mug_eval.report.families import Family, Shown
from mug_eval.statistics.games import Detection

WIDTH, HEIGHT = 460.0, 270.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 16.0, 28.0, 42.0


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where, and what is written there."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A point with its interval, in the drawing's units; ``low`` is the lower end of the interval and thus the larger y."""

    x: float
    y: float
    low: float
    high: float
    label: str
    label_y: float
    label_left: bool
    mine: bool
    tip: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A chart of a page, as a template writes it into SVG.

    Attributes:
        x_ticks: of the horizontal axis.
        y_ticks: of the vertical axis.
        marks: points with intervals.
        line: "x,y x,y ..." through the marks, or "".
        lots: the same of what drawing lots would give.
        x_label: what the horizontal axis is.
        y_label: what the vertical axis is.
        width: of the drawing.
        height: of the drawing.
        left: where the vertical axis is.
        right: where the field ends.
        top: where the field begins.
        bottom: where the horizontal axis is.
    """

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    marks: tuple[Mark, ...]
    line: str
    lots: str
    x_label: str
    y_label: str
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM


def survival_chart(hunt: Detection) -> Drawing:
    """The share of undercover agents still there after each round, with what drawing lots would leave."""
    last = max(1, len(hunt.rounds))

    def place_x(number: int) -> float:
        return LEFT + 14 + (WIDTH - RIGHT - LEFT - 40) * number / last

    marks = []
    for one in hunt.rounds:
        value = one.survived
        y = _y(100 * value.value, 0, 100)
        reach = f"{100 * value.low:.1f} to {100 * value.high:.1f}"
        tip = f"after round {one.number}: {100 * value.value:.1f} % ({reach}), lots {100 * one.by_chance:.1f} %"
        low, high = (_y(100 * end, 0, 100) if math.isfinite(end) else y for end in (value.low, value.high))
        marks.append(Mark(place_x(one.number), y, low, high, f"{100 * value.value:.0f} %", y - 9, False, True, tip))
    start = f"{place_x(0):.1f},{_y(100, 0, 100):.1f}"
    line = " ".join([start, *(f"{mark.x:.1f},{mark.y:.1f}" for mark in marks)])
    lots = " ".join([start, *(f"{place_x(one.number):.1f},{_y(100 * one.by_chance, 0, 100):.1f}" for one in hunt.rounds)])
    x_ticks = tuple(Tick(place_x(number), "start" if number == 0 else f"round {number}") for number in range(last + 1))
    y_ticks = tuple(Tick(_y(value, 0, 100), str(value)) for value in (0, 25, 50, 75, 100))
    return Drawing(x_ticks, y_ticks, tuple(marks), line, lots, "", "undercover still there, %")


def cost_chart(family: Family, mine: Shown) -> Drawing | None:
    """The first score of every run of a family against its calls a question; None if no run says its calls."""
    runs = [(member, calls) for member in family.members if (calls := member.scored.group.cost["calls"])]
    if not runs:
        return None
    scores = [next(iter(member.scored.scores.values())) for member, _ in runs]
    ends = [end for score in scores for end in (score.low, score.high, score.value) if math.isfinite(end)]
    bottom = max(0.0, math.floor(min(ends) / 10) * 10)
    top = min(100.0, math.ceil(max(ends) / 10) * 10)
    top, bottom = (top, bottom) if top > bottom else (bottom + 10, bottom)
    most = max(calls for _, calls in runs)
    step = _step(most)
    last = step * math.ceil(most * 1.02 / step)

    def place_x(calls: float) -> float:
        return LEFT + (WIDTH - RIGHT - LEFT) * calls / last

    names = _short([member.label for member, _ in runs])
    marks: list[Mark] = []
    placed: list[tuple[Mark, Shown]] = []
    # No label on a point or on another label; a point is as wide as 12 units.
    taken: list[tuple[float, float, float]] = [
        (place_x(calls) - 6, place_x(calls) + 6, _y(score.value, bottom, top) + 4)
        for (_, calls), score in zip(runs, scores, strict=True)
    ]
    for (member, calls), score in sorted(zip(runs, scores, strict=True), key=lambda pair: -pair[1].value):
        x, y = place_x(calls), _y(score.value, bottom, top)
        low, high = (_y(end, bottom, top) if math.isfinite(end) else y for end in (score.low, score.high))
        name = names[member.label]
        reach = 6.4 * len(name) + 10
        left = x + reach > WIDTH - RIGHT
        span = (x - reach, x - 7) if left else (x + 7, x + reach)
        label_y = y + 4
        while any(abs(label_y - other) < 13 and span[0] < end and span[1] > begin for begin, end, other in taken):
            label_y += 3
        taken.append((*span, label_y))
        tip = f"{member.label}: {score.value:.1f} % ({score.low:.1f} to {score.high:.1f}) for {calls:.1f} calls a question"
        marks.append(Mark(x, y, low, high, name, label_y, left, member is mine, tip))
        placed.append((marks[-1], member))
    best = sorted((mark for mark, member in placed if member.scored.frontier), key=lambda mark: mark.x)
    line = " ".join(f"{mark.x:.1f},{mark.y:.1f}" for mark in best) if len(best) > 1 else ""
    count = round(last / step)
    x_ticks = tuple(Tick(place_x(step * number), f"{step * number:g}") for number in range(count + 1))
    y_step = 10 if top - bottom > 20 else 5
    y_ticks = tuple(Tick(_y(value, bottom, top), str(value)) for value in range(int(bottom), int(top) + 1, y_step))
    return Drawing(x_ticks, y_ticks, tuple(marks), line, "", "calls a question", f"{next(iter(mine.scored.scores))}, %")


def _short(labels: Sequence[str]) -> dict[str, str]:
    """Labels without what all of them end with from a dash on: the backbone's name."""
    tails = {label[label.index("-") :] if "-" in label else "" for label in labels}
    common = min(tails, key=len) if tails else ""
    while common and not all(label.endswith(common) and len(label) > len(common) for label in labels):
        after = common.find("-", 1)
        common = common[after:] if after > 0 else ""
    return {label: label.removesuffix(common) if len(labels) > 1 else label for label in labels}


def _y(value: float, bottom: float, top: float) -> float:
    return TOP + (HEIGHT - BOTTOM - TOP) * (top - value) / (top - bottom)


def _step(most: float) -> float:
    """A round distance between ticks that makes about five of them."""
    raw = max(most, 1e-9) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)
