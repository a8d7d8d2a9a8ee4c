"""What comes out of a study: tables whose every number says where it is from, and a chart; as Markdown, CSV and JSON.

The same runs give the same bytes.
"""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mug_eval.report.plot import Chart
from mug_eval.show import printable
from mug_eval.statistics.intervals import Estimate
from mug_eval.statistics.scores import Difference, Score

Status = Literal["measured", "reported", "owed"]
"""Where a row is from: from finished runs; from a paper; from nowhere yet, as its run is not complete."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One number.

    Attributes:
        value: None where there is none.
        low: lower end of the 95 % interval, None without.
        high: upper end.
    """

    value: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, estimate: Score | Difference | Estimate, times: float = 1.0) -> Cell:
        """An estimate with its interval; ends that are none are left out."""
        low, high = times * estimate.low, times * estimate.high
        return cls(times * estimate.value, *((None, None) if math.isnan(low) or math.isnan(high) else (low, high)))

    @classmethod
    def apart(cls, estimate: Difference | Estimate, times: float = 1.0) -> Cell:
        """A difference of two percentages in points. No difference lies beyond 100; a t interval over few clusters does not know that."""
        cell = cls.of(estimate, times)
        if cell.low is None or cell.high is None:
            return cell
        return cls(cell.value, max(-100.0, cell.low), min(100.0, cell.high))


@dataclass(frozen=True, slots=True)
class Column:
    """What stands in a column.

    Attributes:
        name: ``aAcc``.
        unit: ``%``, ``points``, ``calls a question``, or "" for a plain number.
        digits: after the point, in Markdown; CSV and JSON have them all.
        sign: whether a plus is written.
    """

    name: str
    unit: str = "%"
    digits: int = 1
    sign: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One line.

    Attributes:
        labels: one for each of the table's label heads.
        cells: one for each column; None where the column does not apply.
        status: where its numbers are from.
        remark: what a reader must know of it: the source of reported numbers, what is owed.
    """

    labels: tuple[str, ...]
    cells: tuple[Cell | None, ...]
    status: Status = "measured"
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One table.

    Attributes:
        title: what it shows.
        heads: of the columns with labels.
        columns: of those with numbers.
        rows: measured ones, owed ones in their place, reported ones last.
        benchmark: of all of its numbers; "" if it stands in the rows.
    """

    title: str
    heads: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    benchmark: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that a study says.

    Attributes:
        tables: at least one.
        chart: None where there is nothing to draw.
        notes: one line each.
    """

    tables: tuple[Table, ...]
    chart: Chart | None = None
    notes: tuple[str, ...] = ()


def markdown(outcome: Outcome, heading: str) -> str:
    """The tables and notes as Markdown; what strangers wrote cannot leave its cell."""
    parts = [f"# {_text(heading)}\n"]
    for table in outcome.tables:
        kept = [place for place, _ in enumerate(table.columns) if any(_said(row.cells[place]) for row in table.rows)]
        remarks = any(row.remark for row in table.rows)
        heads = [*table.heads, *(_head(table.columns[place]) for place in kept), *(["remark"] if remarks else [])]
        lines = [_line(_text(head) for head in heads)]
        lines.append(_line([*("---" for _ in table.heads), *("---:" for _ in kept), *(["---"] if remarks else [])]))
        for row in table.rows:
            numbers = [_number(row.cells[place], table.columns[place], row.status) for place in kept]
            lines.append(_line([*map(_text, row.labels), *numbers, *([_text(row.remark)] if remarks else [])]))
        parts.append(f"## {_text(table.title)}\n\n" + "\n".join(lines) + "\n")
    if outcome.notes:
        parts.append("\n".join(f"- {_text(note)}" for note in outcome.notes) + "\n")
    return "\n".join(parts)


def comma_separated(outcome: Outcome) -> str:
    """Every number on a line of its own with where it is from, for programs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["table", "benchmark", "row", "status", "column", "unit", "value", "low", "high", "remark"])
    for table in outcome.tables:
        for row in table.rows:
            name = " / ".join(label for label in row.labels if label)
            for column, cell in zip(table.columns, row.cells, strict=True):
                if _said(cell):
                    assert cell is not None
                    numbers = ["" if value is None else repr(float(value)) for value in (cell.value, cell.low, cell.high)]
                    words = [table.title, table.benchmark, name, row.status, column.name, column.unit]
                    writer.writerow([*map(_no_formula, words), *numbers, _no_formula(row.remark)])
            if not any(map(_said, row.cells)):
                words = [table.title, table.benchmark, name, row.status]
                writer.writerow([*map(_no_formula, words), "", "", "", "", "", _no_formula(row.remark)])
    return out.getvalue()


def as_json(outcome: Outcome) -> dict[str, Any]:
    """The same as JSON values."""
    return {
        "tables": [
            {
                "title": table.title,
                "benchmark": table.benchmark,
                "heads": list(table.heads),
                "columns": [{"name": column.name, "unit": column.unit} for column in table.columns],
                "rows": list(map(_json_row, table.rows)),
            }
            for table in outcome.tables
        ],
        "notes": list(outcome.notes),
    }


def _json_row(row: Row) -> dict[str, Any]:
    cells = [{"value": cell.value, "low": cell.low, "high": cell.high} if cell and _said(cell) else None for cell in row.cells]
    return {"labels": list(row.labels), "status": row.status, "remark": row.remark, "cells": cells}


def _said(cell: Cell | None) -> bool:
    return cell is not None and cell.value is not None and math.isfinite(cell.value)


def _head(column: Column) -> str:
    return f"{column.name}, {column.unit}" if column.unit else column.name


def _number(cell: Cell | None, column: Column, status: Status) -> str:
    if status == "owed":
        return "owed"
    if not _said(cell):
        return ""
    assert cell is not None and cell.value is not None
    sign = "+" if column.sign else ""
    text = f"{cell.value:{sign},.{column.digits}f}"
    if column.name.startswith("p") and column.unit == "" and cell.value < 0.001:
        text = "<0.001"
    if cell.low is not None and cell.high is not None:
        text += f" ({cell.low:{sign},.{column.digits}f} to {cell.high:{sign},.{column.digits}f})"
    return f"*{text}*" if status == "reported" else text


def _line(cells: Sequence[str] | Iterator[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _text(words: str) -> str:
    """One line that Markdown and HTML take for text."""
    flat = " ".join(printable(words).split())
    return "".join(f"\\{char}" if char in r"\`*_[]|#~" else char for char in html.escape(flat, quote=False))


def _no_formula(words: str) -> str:
    """A spreadsheet takes a text that begins like a formula for one."""
    flat = " ".join(printable(words).split())
    return f"'{flat}" if flat[:1] in ("=", "+", "-", "@") else flat
