"""Figures for papers from finished runs: accuracy against its price, the hunt for the undercover, what a protocol fixed and broke."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mug_eval.errors import UserError
from mug_eval.report.plot import CAPTION, Chart, Panel, Point, Series
from mug_eval.statistics.comparable import obstacles
from mug_eval.statistics.cost import CONTROL, tokens
from mug_eval.statistics.definition import sums_of
from mug_eval.statistics.games import Detection, game_statistics
from mug_eval.statistics.measure import Measured, measure
from mug_eval.statistics.runs import Group, Run, by_seed, folders_below, no_folder, read_run
from mug_eval.statistics.scores import Score

COST_CAPTION = f"{CAPTION} Points of the same price are set a little apart."


@dataclass(frozen=True, slots=True)
class Priced:
    """A group of runs with a score, to be drawn against its price.

    Attributes:
        label: its name.
        group: the runs.
        score: what is drawn.
    """

    label: str
    group: Group
    score: Score


@dataclass(frozen=True, slots=True)
class Named:
    """A chart and the name of its file."""

    name: str
    chart: Chart


def cost_panels(title: str, score: str, priced: Sequence[Priced]) -> tuple[Panel, ...]:
    """Accuracy against calls, and against tokens where all runs know them; self-consistency joined to a curve as the control."""
    by_calls = [(one, one.group.cost["calls"] or 0.0) for one in priced]
    panels = [_cost_panel(title, score, by_calls, "calls a question (log)")]
    by_tokens = [(one, count) for one in priced if (count := tokens(one.group))]
    if len(by_tokens) == len(priced):
        panels.append(_cost_panel(title, score, by_tokens, "tokens a question, prompt and reply (log)"))
    return tuple(panels)


def _cost_panel(title: str, score: str, priced: Sequence[tuple[Priced, float]], x_label: str) -> Panel:
    series: list[Series] = []
    for backbone in dict.fromkeys(one.group.backbone for one, _ in priced):
        mine = [(one, price) for one, price in priced if one.group.backbone == backbone]
        controls = [(one, price) for one, price in mine if one.group.method == CONTROL]
        if controls:
            names = ", ".join(one.label for one, _ in sorted(controls, key=lambda pair: pair[1]))
            series.append(Series(f"control: {names}", tuple(_point(*pair) for pair in controls), "control"))
        series += [Series(one.label, (_point(one, price),)) for one, price in mine if one.group.method != CONTROL]
    return Panel(title, tuple(series), x_label=x_label, y_label=f"{score} (%)", log_x=True)


def _point(one: Priced, price: float) -> Point:
    return Point(price, one.score.value, one.score.low, one.score.high)


def survival_panel(title: str, hunts: Sequence[tuple[str, Detection]]) -> Panel:
    """The share of undercovers still there after each round, against lots in place of votes."""
    series: list[Series] = []
    seen: dict[tuple[float, ...], None] = {}
    for label, hunt in hunts:
        points = [Point(0, 100)]
        points += [Point(r.number, 100 * r.survived.value, 100 * r.survived.low, 100 * r.survived.high) for r in hunt.rounds]
        series.append(Series(label, tuple(points)))
        seen.setdefault((1.0, *(round(r.by_chance, 4) for r in hunt.rounds)))
    # Of games with more agents there is another curve; one name says what they are.
    series += [Series("by lots", tuple(Point(place, 100 * share) for place, share in enumerate(curve)), "chance") for curve in seen]
    return Panel(title, tuple(series), x_label="detection rounds played", y_label="undercover still there (% of games)")


def changes_panel(title: str, against: str, changes: Sequence[tuple[str, int, int]]) -> Panel:
    """Questions that each run answers rightly and the baseline wrongly, and the other way round."""
    names = tuple(label for label, _, _ in changes)
    fixed = tuple(Point(place, fixed) for place, (_, fixed, _) in enumerate(changes))
    broken = tuple(Point(place, -broken) for place, (_, _, broken) in enumerate(changes))
    return Panel(title, (Series("fixed", fixed), Series("broken", broken)), names, x_label=f"questions, against {against}")


def finished_groups(place: Path, left_out: Callable[[str], None] = lambda _: None) -> list[Group]:
    """Every complete run below a folder, seeds put together.

    A run that is not complete, cannot be read or is there a second time hinders no other.

    Args:
        place: a work-dir, or a folder with several.
        left_out: told of each such run, with the reason.

    Raises:
        UserError: no such folder, or no run in it that can be drawn.
    """
    if not place.is_dir():
        raise UserError(f"{place}: {no_folder(place)}; give a work-dir with finished runs")
    begun = sorted(folders_below(place))
    if not begun:
        raise UserError(f"{place}: no run is there; figures are drawn from finished runs, <work-dir>/<model>/<benchmark>")
    runs: list[Run] = []
    refused: list[str] = []
    for folder in begun:
        try:
            run = read_run(folder)
            # What is wrong with its games or its scores would else be found when other figures are already drawn.
            sums_of(run)
            game_statistics(Group((run,)))
            by_seed([*runs, run])  # the same run may lie in two places
        except UserError as error:
            refused.append(str(error))
        else:
            runs.append(run)
    for reason in refused if runs else refused[:-1]:
        left_out(reason)
    if not runs:
        raise UserError(refused[-1])
    return by_seed(runs)


def figures_of(groups: Sequence[Group]) -> Iterator[Named]:
    """Three figures for every set of runs on the same questions, as far as there is something to draw."""
    for benchmark, number, beside in _comparable_sets(groups):
        name = benchmark if number == 0 else f"{benchmark}-{number + 1}"
        bases = [_baseline(group, beside) for group in beside]
        measured = measure(beside, bases)
        score = next(iter(measured[0].scores))
        title = f"{benchmark}, {len(beside[0].indices)} questions"
        priced = [Priced(one.group.model, one.group, one.scores[score]) for one in measured]
        yield Named(f"{name}-cost", Chart("points", cost_panels(title, score, priced), caption=COST_CAPTION))
        hunts = [(group.model, hunt) for group in beside if (hunt := game_statistics(group).detection) is not None]
        if hunts:
            yield Named(f"{name}-survival", Chart("lines", (survival_panel(title, hunts),)))
        yield from _changes(name, title, measured, bases)


def _changes(name: str, title: str, measured: Sequence[Measured], bases: Sequence[Group | None]) -> Iterator[Named]:
    panels = []
    for base in {id(base): base for base in bases if base is not None}.values():
        told = [
            (one.group.model, one.against.fixed, one.against.broken)
            for one, theirs in zip(measured, bases, strict=True)
            if theirs is base and one.against is not None and one.against.fixed is not None and one.against.broken is not None
        ]
        if told:
            panels.append(changes_panel(title, base.model, told))
    if panels:
        yield Named(f"{name}-changes", Chart("bars", tuple(panels), caption="Right where the other was wrong, and the reverse."))


def _baseline(group: Group, beside: Sequence[Group]) -> Group | None:
    """The single answer of the same backbone."""
    return next((other for other in beside if other.method == "direct" and other.backbone == group.backbone), None)


def _comparable_sets(groups: Sequence[Group]) -> Iterator[tuple[str, int, list[Group]]]:
    """(benchmark, which set of it from 0, groups): those of other questions, resolutions or judges are drawn apart."""
    sets: dict[str, list[list[Group]]] = {}
    for group in groups:
        mine = sets.setdefault(group.benchmark, [])
        home = next((one for one in mine if not obstacles(one[0].runs[0], group.runs[0])), None)
        if home is None:
            mine.append([group])
        else:
            home.append(group)
    for benchmark, mine in sorted(sets.items()):
        for number, beside in enumerate(mine):
            yield benchmark, number, beside
