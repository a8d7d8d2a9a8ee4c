"""Studies of the pictures I-: which kinds of question there are, and whether better edits have more effect."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mug_eval.counterfactual.folder import MANIFEST
from mug_eval.counterfactual.planning_prompts import QUESTION_TYPES
from mug_eval.counterfactual.report import PAPER_TYPES, read_store
from mug_eval.counterfactual.store import BUILD
from mug_eval.errors import UserError
from mug_eval.report.plot import Chart, Panel, Point, Series
from mug_eval.statistics.games import game_statistics, not_a_game
from mug_eval.statistics.measure import gap, part_of, share_right
from mug_eval.statistics.runs import Group
from mug_eval.studies.finished import Finished
from mug_eval.studies.outcome import Cell, Column, Outcome, Row, Table
from mug_eval.studies.playing import Key
from mug_eval.studies.reported import short_source, source
from mug_eval.studies.score_tables import NO_WIDTH, cautions, questions_title

DIRECT, MUG = "direct", "mug"
"""Labels of the two arms that these studies hold against each other."""

WIDTHS = f"In brackets: 95 % intervals, clustered. {NO_WIDTH}"
UNTYPED = "no type"
EFFECT = (
    Column("direct, right"),
    Column("mug, right"),
    Column("mug less direct", "points", sign=True),
    Column("undercover found"),
    Column("found by lots"),
)
THIRDS = ("lowest third", "middle third", "highest third")


def question_types(finished: Finished) -> Outcome:
    """Questions by what their edit is about: how many there are, and both arms' accuracy."""
    columns = (
        Column("share"),
        Column("questions", "", 0),
        *EFFECT,
    )
    tables, panels, notes = [], [], []
    for benchmark in finished.casting.benchmarks:
        rows: list[Row] = []
        for backbone in finished.casting.backbones:
            rows += _owed(finished, backbone, benchmark, len(columns))
            mug = finished.groups.get(Key(backbone, benchmark, MUG))
            if mug is None:
                continue
            types, from_edits = _types(mug, finished.casting.pictures.get(benchmark))
            if from_edits:
                notes.append(f"{benchmark}: its pictures state no question types, so questions are divided by the kind of edit.")
            direct = finished.groups.get(Key(backbone, benchmark, DIRECT))
            mine = _type_rows(backbone, types, mug, direct)
            rows += mine
            if direct is not None:
                panels.append(_gap_panel(f"{benchmark}, {backbone}", mine))
        rows += [
            Row(("", kind), (Cell(share), *(None,) * (len(columns) - 1)), "reported", f"reported: {short_source()}")
            for kind, share in PAPER_TYPES.get(benchmark, {}).items()
        ]
        tables.append(Table(questions_title(finished, benchmark), ("backbone", "type"), columns, tuple(rows), benchmark))
    if any(benchmark in PAPER_TYPES for benchmark in finished.casting.benchmarks):
        notes.append(f"In italics: shares reported by {source()}; not measured here.")
    notes.append("Shares are of the questions whose type is known.")
    notes += [WIDTHS, *cautions(finished)]
    return Outcome(tuple(tables), Chart("dots", tuple(panels)) if panels else None, tuple(dict.fromkeys(notes)))


def _owed(finished: Finished, backbone: str, benchmark: str, width: int) -> list[Row]:
    return [
        Row((backbone, f"all ({arm.label})"), (None,) * width, "owed", finished.why(backbone, benchmark, arm))
        for name, arm, group in finished.places(benchmark)
        if group is None and name == backbone
    ]


def _type_rows(backbone: str, types: Mapping[str, str], mug: Group, direct: Group | None) -> list[Row]:
    counted = Counter(types.values())
    names = [*(name for name in QUESTION_TYPES if counted[name]), *sorted(counted.keys() - set(QUESTION_TYPES))]
    untyped = [index for index in mug.indices if index not in types]
    parts = [(name, [index for index in mug.indices if types.get(index) == name]) for name in names]
    rows = []
    for name, indices in [*parts, *([(UNTYPED, untyped)] if untyped else [])]:
        with_mug = part_of(mug, indices)
        before = part_of(direct, indices) if direct is not None else None
        hunt = _hunt(mug, indices)
        cells = (
            Cell(100 * len(indices) / len(types)) if name != UNTYPED and types else None,
            Cell(len(indices)),
            Cell.of(share_right(before), 100) if before is not None else None,
            Cell.of(share_right(with_mug), 100),
            Cell.apart(gap(with_mug, before), 100) if before is not None else None,
            *hunt,
        )
        rows.append(Row((backbone, name), cells))
    return rows


def _hunt(mug: Group, indices: Sequence[str]) -> tuple[Cell | None, Cell | None]:
    """The undercover found in the games of some questions, and by lots."""
    if not indices:
        return None, None
    hunt = game_statistics(mug, set(indices)).detection
    return (None, None) if hunt is None else (Cell.of(hunt.found, 100), Cell(100 * hunt.found_by_chance))


def _gap_panel(title: str, rows: Sequence[Row]) -> Panel:
    gaps = [(row.labels[-1], row.cells[1], row.cells[4]) for row in rows]
    points = tuple(_point(place, cell) for place, (_, _, cell) in enumerate(gaps) if cell is not None and cell.value is not None)
    names = tuple(f"{name} ({count.value:.0f})" if count and count.value is not None else name for name, count, _ in gaps)
    zero = Series("no effect", (Point(0, 0),), "chance")
    return Panel(title, (Series("mug less direct", points), zero), names, x_label="mug less direct (points)")


def _point(place: float, cell: Cell) -> Point:
    assert cell.value is not None
    if cell.low is None or cell.high is None:
        return Point(place, cell.value)
    return Point(place, cell.value, cell.low, cell.high)


def _edits(mug: Group) -> dict[str, Mapping[str, Any]]:
    """Question -> what its game says of the edit."""
    found = {}
    for game in mug.runs[0].games():
        try:
            seats: Mapping[str, Any] = next((event for event in game["events"] if event["event"] == "seats"), {})
            edit = seats.get("edit") or {}
            if not isinstance(edit, Mapping):
                raise TypeError("its edit is no object")
        except (AttributeError, KeyError, TypeError) as error:
            raise not_a_game(mug.runs[0], game, error) from error
        if edit:
            found[game["index"]] = edit
    return found


def _types(mug: Group, pictures: Path | None) -> tuple[dict[str, str], bool]:
    """Question -> its type, and whether kinds of edits had to take their place."""
    edits = _edits(mug)
    typed = {index: str(edit["edit_type"]) for index, edit in edits.items() if edit.get("edit_type")}
    if pictures is not None and (pictures / BUILD).is_file():
        store = read_store(pictures)
        if store.build.get("benchmark") == mug.benchmark:
            given_up = {line["question_index"]: line["edit_type"] for line in store.given_up if line.get("edit_type")}
            typed.update({index: str(kind) for index, kind in given_up.items() if index in mug.runs[0].rows})
    if typed:
        return typed, False
    return {
        index: str(edit.get("edit") or edit.get("type")) for index, edit in edits.items() if edit.get("edit") or edit.get("type")
    }, True


@dataclass(frozen=True, slots=True)
class _Third:
    """Questions whose edit has a score in one third of all of them."""

    name: str
    indices: tuple[str, ...]
    low: float
    high: float
    mean: float


def edit_quality(finished: Finished) -> Outcome:
    """For each score of the edits: MUG's effect and the hunt, in the thirds of the edits."""
    columns = (
        Column("edits", "", 0),
        Column("score from", "", 3),
        Column("to", "", 3),
        *EFFECT,
    )
    tables, panels, notes = [], [], []
    for benchmark in finished.casting.benchmarks:
        rows: list[Row] = []
        for backbone in finished.casting.backbones:
            rows += [
                Row((row.labels[0], "all", row.labels[1]), row.cells, row.status, row.remark)
                for row in _owed(finished, backbone, benchmark, len(columns))
            ]
            mug = finished.groups.get(Key(backbone, benchmark, MUG))
            direct = finished.groups.get(Key(backbone, benchmark, DIRECT))
            if mug is None or direct is None:
                continue
            scores = _scores(mug, finished.casting.pictures.get(benchmark))
            if not scores:
                notes.append(
                    f"{benchmark}: its pictures have no scores, so there is nothing to hold the effect against; mug-eval "
                    "counterfactuals build scores what it makes."
                )
            for name in dict.fromkeys(name for of in scores.values() for name in of):
                found = [(third, _third_row(backbone, name, third, mug, direct)) for third in _thirds(scores, name)]
                rows += [row for _, row in found]
                if len(found) > 1:
                    panels.append(_quality_panel(f"{benchmark}, {backbone}: {name}", name, found))
        if rows:
            tables.append(
                Table(questions_title(finished, benchmark), ("backbone", "score", "edits"), columns, tuple(rows), benchmark)
            )
    notes += [
        "Scores are those of docs/counterfactuals.md, of accepted edits only, so that their range is what the constraints left. Thirds by "
        "rank; equal scores stay together. An association: better edits may be those of easier questions.",
        WIDTHS,
        *cautions(finished),
    ]
    if not tables:
        tables = [Table("No scored edits", ("backbone", "score", "edits"), columns, ())]
    chart = Chart("lines", tuple(panels), columns=3) if panels else None
    return Outcome(tuple(tables), chart, tuple(dict.fromkeys(notes)))


def _scores(mug: Group, pictures: Path | None) -> dict[str, dict[str, float]]:
    """Question -> the scores of the edit that its game was played with, found by the picture's file."""
    if pictures is None or not (pictures / MANIFEST).is_file():
        return {}
    known: dict[str, dict[str, float]] = {}
    try:
        for text in (pictures / MANIFEST).read_text(encoding="utf-8-sig").splitlines():
            line = json.loads(text) if text.strip() else {}
            scores = line.get("scores")
            if isinstance(scores, dict):
                known[str(line.get("file"))] = {
                    str(name): float(value)
                    for name, value in scores.items()
                    if isinstance(value, int | float) and not isinstance(value, bool)
                }
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{pictures / MANIFEST} cannot be read ({type(error).__name__}: {error})") from error
    return {index: known[edit["file"]] for index, edit in _edits(mug).items() if edit.get("file") in known}


def _thirds(scores: Mapping[str, Mapping[str, float]], name: str) -> list[_Third]:
    """Edits in three parts by rank of a score. Equal scores are never divided, so that parts may be empty, and are left out."""
    ranked = sorted((of[name], index) for index, of in scores.items() if name in of)
    values = [value for value, _ in ranked]
    marks = [values[min(len(values) - 1, len(values) * part // 3)] for part in (1, 2)] if values else []
    parts: list[list[tuple[float, str]]] = [[], [], []]
    for value, index in ranked:
        parts[sum(value >= mark for mark in marks) if values[0] < values[-1] else 0].append((value, index))
    return [
        _Third(label, tuple(index for _, index in part), part[0][0], part[-1][0], sum(value for value, _ in part) / len(part))
        for label, part in zip(THIRDS if values and values[0] < values[-1] else ("all alike",) * 3, parts, strict=True)
        if part
    ]


def _third_row(backbone: str, name: str, third: _Third, mug: Group, direct: Group) -> Row:
    with_mug, before = part_of(mug, third.indices), part_of(direct, third.indices)
    cells = (
        Cell(len(third.indices)),
        Cell(third.low),
        Cell(third.high),
        Cell.of(share_right(before), 100),
        Cell.of(share_right(with_mug), 100),
        Cell.apart(gap(with_mug, before), 100),
        *_hunt(mug, third.indices),
    )
    return Row((backbone, name, third.name), cells)


def _quality_panel(title: str, name: str, found: Sequence[tuple[_Third, Row]]) -> Panel:
    points = tuple(_point(third.mean, cell) for third, row in found if (cell := row.cells[5]) is not None)
    ends = (found[0][0].mean, found[-1][0].mean)
    zero = Series("no effect", tuple(Point(place, 0) for place in ends), "chance")
    return Panel(
        title, (Series("mug less direct", points), zero), x_label=f"{name}, mean of the third", y_label="mug less direct (points)"
    )
