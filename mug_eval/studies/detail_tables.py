"""Studies whose question is where and when: categories, rounds of the hunt, time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mug_eval.report.figures import survival_panel
from mug_eval.report.plot import Chart, Panel, Point, Series
from mug_eval.statistics.cost import tokens
from mug_eval.statistics.measure import Measured, games_of, measure, part_of, seconds, with_holm
from mug_eval.statistics.runs import Group
from mug_eval.studies.finished import Finished
from mug_eval.studies.outcome import Cell, Column, Outcome, Row, Table
from mug_eval.studies.playing import Key
from mug_eval.studies.reported import reported, short_source
from mug_eval.studies.score_tables import INTERVALS, baseline_of, cautions, questions_title, reported_note, score_names


def categories(finished: Finished) -> Outcome:
    """The scores within each of the scorer's categories, held against the scorer's own numbers for it."""
    parts: dict[tuple[Key, str], Measured] = {}
    for benchmark in finished.casting.benchmarks:
        for category in _categories(finished, benchmark):
            keys = [key for key in finished.groups if key.benchmark == benchmark]
            some = {key: _within(finished.groups[key], category) for key in keys}
            bases = [some[_base_key(key, finished)] if baseline_of(finished, key) is not None else None for key in keys]
            found = measure([some[key] for key in keys], bases)
            parts.update({(key, category): one for key, one in zip(keys, found, strict=True)})
    parts = dict(zip(parts, with_holm(list(parts.values())), strict=True))
    tables, panels = [], []
    for benchmark in finished.casting.benchmarks:
        mine = {place: one for place, one in parts.items() if place[0].benchmark == benchmark}
        tables.append(_category_table(finished, benchmark, mine))
        if mine:
            panels.append(_category_panel(finished, benchmark, mine))
    notes = [INTERVALS, *cautions(finished), *reported_note(finished)]
    if any(line.benchmark in finished.casting.benchmarks for line in reported(finished.study.name)):
        notes.append("The paper's categories stand by its own names; which score it reports for them is not known to us.")
    return Outcome(tuple(tables), Chart("dots", tuple(panels)) if panels else None, tuple(notes))


def _categories(finished: Finished, benchmark: str) -> list[str]:
    """The scorer's rows, in its order; those that sum up others are left out."""
    group = next((group for key, group in finished.groups.items() if key.benchmark == benchmark), None)
    if group is None:
        return []
    return [
        name for name in group.runs[0].scores["categories"] if any(name in of for of in map(_labels, group.runs[0].rows.values()))
    ]


def _labels(row: Mapping[str, str]) -> list[str]:
    """The categories in which a row counts: POPE lists several, HallusionBench has one within another."""
    if "l2-category" in row:
        return [row["l2-category"]]
    return row["category"].split(",")


def _within(group: Group, category: str) -> Group:
    """The questions of a category."""
    rows = group.runs[0].rows
    kept = {index for index, row in rows.items() if category in _labels(row)}
    column = "category" if "l2-category" not in next(iter(rows.values())) else "mug_eval category"
    return part_of(group, kept, category, column)


def _base_key(key: Key, finished: Finished) -> Key:
    assert finished.study.baseline is not None
    return Key(key.backbone, key.benchmark, finished.study.baseline)


def _category_table(finished: Finished, benchmark: str, parts: Mapping[tuple[Key, str], Measured]) -> Table:
    names = score_names(benchmark)
    base = finished.study.baseline
    columns = [Column("questions", "", 0), *(Column(name) for name in names)]
    columns += [Column(f"{names[0]} less {base}", "points", sign=True), Column("p", "", 3), Column("p (Holm)", "", 3)]
    columns += [Column("value, score unstated")]
    rows = []
    for category in dict.fromkeys(category for _, category in parts):
        for backbone, arm, group in finished.places(benchmark):
            if group is None:
                continue
            one = parts[Key(backbone, benchmark, arm.label), category]
            cells: list[Cell | None] = [Cell(len(one.group.indices)), *(Cell.of(one.scores[name]) for name in names)]
            if one.against is None:
                cells += [None, None, None, None]
            else:
                first = next(iter(one.against.differences.values()))
                cells += [Cell.apart(first), Cell(one.against.p), Cell(one.against.p_holm), None]
            rows.append(Row((category, backbone, arm.label), tuple(cells)))
    for backbone, arm, group in finished.places(benchmark):
        if group is None:
            rows.append(Row(("all", backbone, arm.label), (None,) * len(columns), "owed", finished.why(backbone, benchmark, arm)))
    for line in reported(finished.study.name):
        for category, value in line.values.items():
            if line.benchmark == benchmark:
                empty: tuple[Cell | None, ...] = (None,) * (len(columns) - 1)
                rows.append(
                    Row((category, line.backbone, line.arm), (*empty, Cell(value)), "reported", f"reported: {short_source()}")
                )
    return Table(questions_title(finished, benchmark), ("category", "backbone", "arm"), tuple(columns), tuple(rows), benchmark)


def _category_panel(finished: Finished, benchmark: str, parts: Mapping[tuple[Key, str], Measured]) -> Panel:
    score = score_names(benchmark)[0]
    found = dict.fromkeys(category for _, category in parts)
    several = len(finished.casting.backbones) > 1
    series = []
    for backbone, arm, group in finished.places(benchmark):
        if group is not None:
            of = [parts[Key(backbone, benchmark, arm.label), category].scores[score] for category in found]
            points = tuple(Point(place, one.value, one.low, one.high) for place, one in enumerate(of))
            series.append(Series(f"{arm.label}, {backbone}" if several else arm.label, points))
    counts = {category: len(one.group.indices) for (_, category), one in parts.items()}
    return Panel(benchmark, tuple(series), tuple(f"{category} ({counts[category]})" for category in found), x_label=f"{score} (%)")


def survival(finished: Finished) -> Outcome:
    """The undercover round by round."""
    columns = (
        Column("games", "", 0),
        Column("voting", "", 0),
        Column("undercover still there"),
        Column("by lots"),
        Column("found, less lots", "points", sign=True),
    )
    rows, panels = [], []
    for benchmark in finished.casting.benchmarks:
        hunts = []
        for backbone, arm, group in finished.places(benchmark):
            labels = (benchmark, backbone, arm.label)
            if group is None:
                rows.append(Row((*labels, ""), (None,) * 5, "owed", finished.why(backbone, benchmark, arm)))
                continue
            told = games_of(group)
            hunt = told.detection
            if hunt is None:
                rows.append(Row((*labels, ""), (Cell(0), None, None, None, None), remark="no game had an undercover"))
                continue
            hunts.append((f"{arm.label}, {backbone}", hunt))
            for place, one in enumerate(hunt.rounds):
                last = place == len(hunt.rounds) - 1
                cells = (
                    Cell(hunt.games),
                    Cell(one.voting),
                    Cell.of(one.survived, 100),
                    Cell(100 * one.by_chance),
                    Cell.apart(hunt.above_chance, 100) if last else None,
                )
                rows.append(Row((*labels, str(one.number)), cells))
        if hunts:
            panels.append(survival_panel(benchmark, hunts))
    table = Table("Undercover by round", ("benchmark", "backbone", "arm", "round"), columns, tuple(rows))
    notes = (
        "By lots: a seat drawn in place of the votes, in the same games. Still there: not voted out by the end of the round, however the "
        "game ended. The paper's curve is not among the numbers at hand.",
        "The hunt ends when fewer than two normal agents are left, so that three agents play one round of it at most, and N agents N - 2.",
        *cautions(finished),
    )
    return Outcome((table,), Chart("lines", tuple(panels)) if panels else None, notes)


def time_per_question(finished: Finished) -> Outcome:
    """Seconds, calls and tokens of a question."""
    columns = (
        Column("seconds", "a question", 2),
        Column("calls", "a question", 1),
        Column("tokens", "a question", 0),
        Column("seconds", "a call", 2),
    )
    tables, panels = [], []
    theirs = [(line.arm, value) for line in reported(finished.study.name) for value in line.values.values()]
    for benchmark in finished.casting.benchmarks:
        rows, points = [], []
        several = len(finished.casting.backbones) > 1
        for backbone, arm, group in finished.places(benchmark):
            labels = (backbone, arm.label)
            if group is None:
                rows.append(Row(labels, (None,) * 4, "owed", finished.why(backbone, benchmark, arm)))
                continue
            spent, calls = seconds(group), group.cost["calls"]
            each = spent.value / calls if calls else None
            rows.append(Row(labels, (Cell.of(spent), Cell(calls), Cell(tokens(group)), Cell(each))))
            points.append((f"{arm.label}, {backbone}" if several else arm.label, spent))
        rows += [
            Row(("unstated", name), (Cell(value), None, None, None), "reported", f"reported: {short_source()}; benchmark unstated")
            for name, value in theirs
        ]
        tables.append(Table(questions_title(finished, benchmark), ("backbone", "arm"), columns, tuple(rows), benchmark))
        if points:
            panels.append(_time_panel(benchmark, points))
    notes = (
        "Seconds: what the backbone took for a question's calls, one after another; the wait in a server's or a batch's queue is in "
        "them, so that only runs at the same concurrency on the same machine compare. In brackets: 95 % intervals, clustered.",
        "Making the picture I- is not in the measured seconds: pictures are made once and used by every run. What it costs: "
        "mug-eval counterfactuals report.",
        "In italics: reported by the paper for its own machines (8 x A100) and backbones; which parts its rows leave out is its wording.",
        *cautions(finished),
    )
    return Outcome(tuple(tables), Chart("dots", tuple(panels)) if panels else None, notes)


def _time_panel(benchmark: str, points: list[tuple[str, Any]]) -> Panel:
    drawn = tuple(Point(place, one.value, one.low, one.high) for place, (_, one) in enumerate(points))
    return Panel(benchmark, (Series("measured", drawn),), tuple(label for label, _ in points), x_label="seconds a question")
