"""Studies whose question is how much: scores of arms, their differences from a baseline, and what was paid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from mug_eval.benchmarks import load_task
from mug_eval.report.figures import COST_CAPTION, Priced, cost_panels
from mug_eval.report.plot import CAPTION, Chart, Panel, Point, Series
from mug_eval.statistics.compare import FEW_CLUSTERS
from mug_eval.statistics.cost import control_of, needs_control, tokens
from mug_eval.statistics.games import GameStatistics
from mug_eval.statistics.measure import Measured, games_of, measure, with_holm
from mug_eval.statistics.runs import Group
from mug_eval.studies.finished import Finished
from mug_eval.studies.outcome import Cell, Column, Outcome, Row, Table
from mug_eval.studies.playing import Key
from mug_eval.studies.reported import Reported, reported, short_source, source
from mug_eval.studies.study import Arm

Axis = Literal["cost", "x", "arms"]

_NO_HUNT = {
    "gated": "not played, as all chains agreed",
    "no_counterfactual_picture": "without an undercover, for want of a picture",
}

NO_WIDTH = "A difference with an interval of no width: all clusters came out alike, which says nothing of how far it may be off."
INTERVALS = (
    "In brackets: 95 % intervals, clustered by the benchmark's dependent questions (docs/statistics.md). p: clusters exchanged, "
    f"two-sided, of the share of right answers; Holm: over all comparisons of this study. {NO_WIDTH}"
)


def score_study(finished: Finished, axis: Axis, x_label: str = "", drawn: Mapping[str, str] | None = None) -> Outcome:
    """One table a benchmark, and a panel.

    Args:
        finished: the runs.
        axis: what the chart shows the score against: its price, the arms' ``x``, or the arms by name.
        x_label: of the arms' ``x``.
        drawn: format of a benchmark -> the score that the chart shows in place of the first.
    """
    measured = measured_by_key(finished)
    games = {key: games_of(one.group) for key, one in measured.items() if one.group.method == "mug"}
    tables, panels = [], []
    for benchmark in finished.casting.benchmarks:
        names = score_names(benchmark)
        shown = (drawn or {}).get(load_task(benchmark).upstream, names[0])
        theirs = [line for line in reported(finished.study.name) if line.benchmark == benchmark]
        mine = {key: one for key, one in measured.items() if key.benchmark == benchmark}
        tables.append(_table(finished, benchmark, names, shown, mine, games, theirs))
        if mine:
            panels += _panels(finished, benchmark, shown, mine, theirs, axis, x_label)
    shape: Literal["points", "lines", "dots"] = {"cost": "points", "x": "lines", "arms": "dots"}[axis]  # type: ignore[assignment]
    chart = Chart(shape, tuple(panels), caption=COST_CAPTION if axis == "cost" else CAPTION) if panels else None
    return Outcome(tuple(tables), chart, tuple(_notes(finished, measured)))


def score_names(benchmark: str) -> tuple[str, ...]:
    """The headline scores of a benchmark, the first the share of right answers."""
    scores = load_task(benchmark).scores
    return (*dict(scores.numbers), *dict(scores.means))


def measured_by_key(finished: Finished) -> dict[Key, Measured]:
    """Every complete group measured, and compared with the baseline of its backbone where that is complete too."""
    found: dict[Key, Measured] = {}
    for benchmark in finished.casting.benchmarks:
        keys = [key for key in finished.groups if key.benchmark == benchmark]
        groups = [finished.groups[key] for key in keys]
        bases = [baseline_of(finished, key) for key in keys]
        found.update(zip(keys, measure(groups, bases), strict=True))
    return dict(zip(found, with_holm(list(found.values())), strict=True))


def baseline_of(finished: Finished, key: Key) -> Group | None:
    """What a group is compared with; None where that is owed or the study compares nothing."""
    base = finished.study.baseline
    return None if base is None else finished.groups.get(Key(key.backbone, key.benchmark, base))


def reported_rows(lines: Sequence[Reported], columns: Sequence[Column], scores: Mapping[str, str]) -> list[Row]:
    """What a paper reports, below what was measured.

    Args:
        lines: of this table's benchmark.
        columns: of the table.
        scores: column -> the score that stands in it; all other columns stay empty.
    """
    rows = []
    for line in lines:
        cells = tuple(
            Cell(line.values[scores[column.name]]) if scores.get(column.name) in line.values else None for column in columns
        )
        rows.append(Row((line.backbone, line.arm), cells, "reported", f"reported: {short_source()}"))
    return rows


def reported_note(finished: Finished) -> list[str]:
    """What to know of the reported rows; nothing where there are none."""
    lines = [line for line in reported(finished.study.name) if line.benchmark in finished.casting.benchmarks]
    if not lines:
        return []
    return [
        f"In italics: reported by {source()}, on the whole published benchmark, with the paper's settings and pictures; not measured here, "
        "and in no mean, difference or test."
    ]


def cautions(finished: Finished) -> list[str]:
    """Questions that are missing, and so few clusters that intervals are too short (``statistics.compare`` draws the same line)."""
    notes = []
    for benchmark in finished.casting.benchmarks:
        groups = [group for key, group in finished.groups.items() if key.benchmark == benchmark]
        missing = max((int(run.scores["missing"]) for group in groups for run in group.runs), default=0)
        clusters = min((len(set(group.clusters)) for group in groups), default=FEW_CLUSTERS)
        if missing:
            notes.append(f"{benchmark}: {missing} questions are missing, the numbers are of the others.")
        if clusters < FEW_CLUSTERS:
            notes.append(
                f"{benchmark} has {_counted(clusters, 'cluster')} here: with fewer than {FEW_CLUSTERS} intervals come out too short."
            )
    return notes


def questions_title(finished: Finished, benchmark: str) -> str:
    """``POPE: 200 questions in 80 clusters``, with the seeds if there are several."""
    group = next((group for key, group in finished.groups.items() if key.benchmark == benchmark), None)
    if group is None:
        return f"{benchmark}: no run is complete"
    seeds = f", {len(group.runs)} seeds" if len(group.runs) > 1 else ""
    return f"{benchmark}: {_counted(len(group.indices), 'question')} in {_counted(len(set(group.clusters)), 'cluster')}{seeds}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _table(
    finished: Finished,
    benchmark: str,
    names: Sequence[str],
    shown: str,
    measured: Mapping[Key, Measured],
    games: Mapping[Key, GameStatistics],
    theirs: Sequence[Reported],
) -> Table:
    base = finished.study.baseline
    apart = list(dict.fromkeys((names[0], shown))) if base is not None else []
    columns = [Column(name) for name in names]
    columns += [Column(f"{name} less {base}", "points", sign=True) for name in apart]
    columns += [Column("p", "", 3), Column("p (Holm)", "", 3), Column("fixed", "", 0), Column("broken", "", 0)]
    columns += [Column("undercover found"), Column("found by lots")]
    columns += [Column("calls", "a question"), Column("tokens", "a question", 0), Column("seconds", "a question", 2)]
    rows = []
    for backbone, arm, group in finished.places(benchmark):
        labels = (backbone, arm.label)
        key = Key(backbone, benchmark, arm.label)
        if group is None:
            rows.append(Row(labels, (None,) * len(columns), "owed", finished.why(backbone, benchmark, arm)))
            continue
        rows.append(Row(labels, tuple(_cells(measured[key], names, apart, games.get(key))), remark=_remark(group, games.get(key))))
    rows += reported_rows(theirs, columns, {name: name for name in names})
    return Table(questions_title(finished, benchmark), ("backbone", "arm"), tuple(columns), tuple(rows), benchmark)


def _cells(one: Measured, names: Sequence[str], apart: Sequence[str], games: GameStatistics | None) -> list[Cell | None]:
    against, cost = one.against, one.group.cost
    cells: list[Cell | None] = [Cell.of(one.scores[name]) for name in names]
    cells += [Cell.apart(against.differences[name]) if against else None for name in apart]
    cells += [Cell(value) if against else None for value in ((against.p, against.p_holm) if against else (None, None))]
    cells += [
        Cell(value) if value is not None else None for value in ((against.fixed, against.broken) if against else (None, None))
    ]
    hunt = games.detection if games else None
    cells += [Cell.of(hunt.found, 100) if hunt else None, Cell(100 * hunt.found_by_chance) if hunt else None]
    return [*cells, Cell(cost["calls"]), Cell(tokens(one.group)), Cell(cost["seconds"])]


def _remark(group: Group, games: GameStatistics | None) -> str:
    """What a number of this row may hide: games of MUG that were no hunt, by why; ballots and answers that could not be read."""
    ended: Counter[str] = Counter()
    for run in group.runs:
        ended.update(run.scores.get("game", {}).get("ended", {}))
    found = [f"{ended[name]} of {ended.total()} games {words}" for name, words in _NO_HUNT.items() if ended[name]]
    if games is not None and games.detection is not None and games.detection.abstentions:
        found.append(f"{games.detection.abstentions} ballots could not be read")
    unparsed = sum(int(run.scores.get("unparsed", 0)) for run in group.runs)
    if unparsed:
        found.append(f"{unparsed} of {len(group.runs) * len(group.indices)} games without an answer")
    return "; ".join(found)


def _panels(
    finished: Finished,
    benchmark: str,
    shown: str,
    measured: Mapping[Key, Measured],
    theirs: Sequence[Reported],
    axis: Axis,
    x_label: str,
) -> list[Panel]:
    several = len(finished.casting.backbones) > 1
    group = next(iter(measured.values())).group
    title = f"{benchmark}, {len(group.indices)} questions"
    if axis == "cost":
        priced = [
            Priced(f"{key.arm}, {key.backbone}" if several else key.arm, one.group, one.scores[shown])
            for key, one in measured.items()
        ]
        return list(cost_panels(title, shown, priced))
    arms = {arm.label: place if axis == "arms" else arm.x for place, arm in enumerate(finished.study.arms)}
    series = []
    for backbone in finished.casting.backbones:
        points = [
            Point(float(place), one.scores[shown].value, one.scores[shown].low, one.scores[shown].high)
            for label, place in arms.items()
            if place is not None and (one := measured.get(Key(backbone, benchmark, label))) is not None
        ]
        series.append(Series(backbone, tuple(points)))
        flat = [(arm, measured.get(Key(backbone, benchmark, arm.label))) for arm in finished.study.arms if arm.x is None]
        series += [_flat(arm, one, shown, arms, several and backbone) for arm, one in flat if axis == "x" and one is not None]
    for name in dict.fromkeys(line.backbone for line in theirs):
        points = [
            Point(float(place), line.values[shown])
            for line in theirs
            if line.backbone == name and shown in line.values and (place := arms.get(line.arm)) is not None
        ]
        if points:
            series.append(Series(f"{name}, reported", tuple(points), "reported"))
    if axis == "arms":
        return [Panel(title, tuple(series), tuple(arms), x_label=f"{shown} (%)")]
    return [Panel(title, tuple(series), x_label=x_label, y_label=f"{shown} (%)")]


def _flat(arm: Arm, one: Measured, shown: str, arms: Mapping[str, float | None], backbone: str | bool) -> Series:
    """An arm without a place on the axis, as a line across it."""
    places = [place for place in arms.values() if place is not None]
    label = f"{arm.label}, {backbone}" if backbone else arm.label
    score = one.scores[shown]
    return Series(label, tuple(Point(x, score.value, score.low, score.high) for x in (min(places), max(places))), "control")


def _without_hunts(finished: Finished) -> list[str]:
    """Why a row has no hunt at all: no question had a picture that the arm could be played with."""
    notes = []
    random_edits = [arm.label for arm in finished.study.arms if arm.ablation == "random-edit"]
    for key, group in finished.groups.items():
        ended: Counter[str] = Counter()
        for run in group.runs:
            ended.update(run.scores.get("game", {}).get("ended", {}))
        if key.arm in random_edits and ended.total() and ended["no_counterfactual_picture"] == ended.total():
            notes.append(
                f"{key.arm} on {key.benchmark} ({key.backbone}): no picture here has an edit that was made for another question about it, "
                "so that no game had an undercover and the row says nothing. "
                "mug-eval counterfactuals build --about other makes such edits; of drawn scenes, ScenesPOPE has them."
            )
    return notes


def _notes(finished: Finished, measured: Mapping[Key, Measured]) -> list[str]:
    notes = [INTERVALS, *cautions(finished), *_without_hunts(finished), *reported_note(finished)]
    if finished.owed:
        notes.append(f"{len(finished.owed)} of {len(finished.casting.folders)} arms are owed: the same command plays them.")
    every = [one.group for one in measured.values()]
    for key, one in measured.items():
        if not needs_control(one.group) or not any(arm.method.startswith("sc") for arm in finished.study.arms):
            continue
        control = control_of(one.group, every)
        if control.group is not None and control.same_budget:
            notes.append(f"{key.arm} on {key.benchmark} ({key.backbone}): its control at the same calls is {control.group.model}.")
        elif control.group is not None:
            notes.append(
                f"{key.arm} on {key.benchmark} ({key.backbone}) spends {control.ratio:.1f} times the calls of {control.group.model}, the "
                "nearest self-consistency: not the same budget."
            )
    return notes
