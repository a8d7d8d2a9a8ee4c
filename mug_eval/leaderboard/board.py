"""The board: made from the rows and the reported numbers, the same bytes every time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mug_eval.atomic import atomic_write
from mug_eval.benchmarks import load_task, task_names
from mug_eval.errors import UserError
from mug_eval.leaderboard.entry import read_entries
from mug_eval.leaderboard.reference import Reported, read_reference
from mug_eval.report.board_page import render_board
from mug_eval.statistics.runs import no_folder

SCHEMA = 1

ENTRIES, REFERENCE = "entries", "reference"
"""Folders of the rows and of the reported numbers, within the leaderboard's folder."""

COLUMNS = (
    *("id", "method", "backbone", "benchmark", "score_name", "score", "low", "high", "n", "calls", "tokens", "seconds"),
    *("reported", "source", "date", "command", "sample", "note"),
)

_NOTE = "Made by `mug-eval board` from `entries/` and `reference/`; what each number means: `docs/statistics.md`, `docs/leaderboards.md`."

Row = Mapping[str, Any]


def make_board(folder: Path) -> dict[str, Any]:
    """The board of a folder.

    Args:
        folder: with ``entries/`` and ``reference/``.

    Returns:
        ``{"schema", "rows", "subsets"}``: one row for each score of each entry and for each reported number, sorted by
        benchmark (those with a measured row first), score and value; ``subsets`` are those of runs with ``--limit``, which
        compare with nothing else. Null where unknown.

    Raises:
        UserError: the folder or a file in it is not valid.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: {no_folder(folder)}; mug-eval board add RUN... makes its first row")
    rows: list[dict[str, Any]] = []
    subsets: list[dict[str, Any]] = []
    for entry in read_entries(folder / ENTRIES):
        (rows if entry["limit"] is None else subsets).extend(_measured(entry))
    rows += [_reported(one) for one in read_reference(folder / REFERENCE)]
    measured = {row["benchmark"] for row in (*rows, *subsets) if not row["reported"]}

    def order(row: Row) -> tuple[Any, ...]:
        return row["benchmark"] not in measured, row["benchmark"], _score_place(row), -row["score"], row["reported"], row["id"]

    return {"schema": SCHEMA, "rows": sorted(rows, key=order), "subsets": sorted(subsets, key=order)}


def board_files(board: Mapping[str, Any]) -> dict[str, str]:
    """The files of a board, name -> content.

    Raises:
        UserError: Jinja2, which makes the page, is not installed.
    """
    return {
        "leaderboard.json": json.dumps(board, indent=2, ensure_ascii=True, allow_nan=False) + "\n",
        "leaderboard.csv": _csv(board["rows"]),
        "leaderboard.md": _markdown(board),
        "leaderboard.html": render_board(board),
    }


def write_board(folder: Path) -> list[Path]:
    """Write the board's files.

    Returns:
        Those that changed.

    Raises:
        UserError: a row is not valid.
        RunStopped: the disk is full.
    """
    changed = _stale(folder)
    for path, content in changed.items():
        atomic_write(path, content)
    return list(changed)


def check_board(folder: Path) -> None:
    """See that every row is valid and the board's files are those that the rows give.

    Raises:
        UserError: something is not; names it.
    """
    stale = _stale(folder)
    if stale:
        raise UserError(f"{', '.join(map(str, stale))} out of date: run mug-eval board and commit what it writes")


def _stale(folder: Path) -> dict[Path, str]:
    files = {folder / name: content for name, content in board_files(make_board(folder)).items()}
    return {path: content for path, content in files.items() if not path.is_file() or path.read_bytes() != content.encode()}


def _measured(entry: Row) -> Iterable[dict[str, Any]]:
    benchmark, identity = entry["benchmark"], entry["backbone"]["identity"]
    ablation = entry["method"]["ablation"]
    name = entry["method"]["name"] + (str(entry["method"]["config"].get("k", "")) if entry["method"]["name"] == "sc" else "")
    for score in entry["scores"]:
        yield {
            "id": entry["id"],
            "method": f"{name}@{ablation}" if ablation else name,
            "backbone": identity["model"],
            # Other questions are another benchmark: numbers over them must not stand in one column.
            "benchmark": benchmark["name"] if benchmark["published"] else f"{benchmark['name']}@{benchmark['sha256'][:8]}",
            "score_name": score["name"],
            **{key: score[source] for key, source in (("score", "value"), ("low", "low"), ("high", "high"))},
            "n": entry["questions"],
            **{key: entry["cost"][key] for key in ("calls", "tokens", "seconds")},
            "reported": False,
            "source": None,
            "date": entry["date"],
            "command": entry["command"],
            "sample": entry["samples"][0] if entry["samples"] else None,
            "note": played_otherwise(entry["decoding"]["preset"], entry["resolution"], entry["judge"], entry["seeds"]),
        }


def played_otherwise(preset: str, size: Sequence[int] | None, judge: str, seeds: Sequence[int]) -> str | None:
    """What makes a row compare with others only in part: runs of another resolution, decoding or judge stand in the same column."""
    parts = (
        "paper preset" if preset == "paper" else "",
        f"pictures at {size[0]}x{size[1]}" if size else "",
        f"judged by {judge}" if judge != "exact_matching" else "",
        f"mean of {len(seeds)} seeds" if len(seeds) > 1 else "",
    )
    return ", ".join(part for part in parts if part) or None


def _reported(one: Reported) -> dict[str, Any]:
    known = {
        **{"id": one.id, "method": one.method, "backbone": one.backbone, "benchmark": one.benchmark},
        **{"score_name": one.score_name, "score": one.score, "reported": True, "source": one.source, "date": one.date},
    }
    if one.read_from == "summary":
        known["note"] = "from a summary, not checked against the source"
    return {name: known.get(name) for name in COLUMNS}


def _score_place(row: Row) -> tuple[int, str]:
    names = _score_names(row["benchmark"])
    name = row["score_name"]
    return (names.index(name) if name in names else len(names)), name


def _score_names(benchmark: str) -> list[str]:
    """The scores of a benchmark in its task file's order; none if it is not one of ours."""
    name = benchmark.partition("@")[0]
    if name not in task_names():
        return []
    told = load_task(name).scores
    return [ours for ours, _ in (*told.numbers, *told.means)]


def _csv(rows: Sequence[Row]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {
            name: "" if row[name] is None else str(row[name]).lower() if name == "reported" else _no_formula(row[name])
            for name in COLUMNS
        }
        for row in rows
    )
    return buffer.getvalue()


def _no_formula(value: Any) -> Any:
    """A spreadsheet takes a text that begins like a formula for one."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value


def _markdown(board: Mapping[str, Any]) -> str:
    parts = [
        "# Leaderboard",
        _NOTE,
        "Percent with 95 % intervals; costs are means a question. *Italic*: reported, not measured here. Seconds hold for the machine that "
        "a row was played on and what else it did then: the same run takes other seconds elsewhere, or on another day.",
    ]
    for benchmark in dict.fromkeys(row["benchmark"] for row in board["rows"]):
        parts.append(f"## {_cell(benchmark)}")
        parts.append(_table([row for row in board["rows"] if row["benchmark"] == benchmark]))
    if board["subsets"]:
        parts.append("## Subsets")
        parts.append("Runs with `--limit`: these compare with nothing above.")
        for benchmark in dict.fromkeys(row["benchmark"] for row in board["subsets"]):
            parts.append(f"### {_cell(benchmark)}, first questions only")
            parts.append(_table([row for row in board["subsets"] if row["benchmark"] == benchmark]))
    if not board["rows"] and not board["subsets"]:
        parts.append("No rows yet.")
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(row["score_name"] for row in sorted(rows, key=_score_place)))
    heads = ["method", "backbone", *map(_cell, names), "n", "calls", "tokens", "seconds", "from"]
    lines = [heads, ["---", "---", *("---:" for _ in range(len(names) + 4)), "---"]]
    for group in {row["id"]: [other for other in rows if other["id"] == row["id"]] for row in rows}.values():
        first, by_name = group[0], {row["score_name"]: row for row in group}
        scores = [_with_interval(by_name.get(name)) for name in names]
        doubt = f", {_cell(first['note'])}" if first["note"] else ""
        link = (first["source"] or "").replace("(", "%28").replace(")", "%29")  # which would end the link
        source = f"[reported {first['date']}]({link}){doubt}" if first["reported"] else f"`{first['id']}`{doubt}"
        costs = [_number(first[name], digits) for name, digits in (("n", 0), ("calls", 2), ("tokens", 0), ("seconds", 2))]
        cells = [_cell(first["method"]), _cell(first["backbone"]), *scores, *costs]
        lines.append([*(f"*{cell}*" if first["reported"] and cell else cell for cell in cells), source])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _with_interval(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row['score']:.1f}" + ("" if row["low"] is None else f" [{row['low']:.1f}, {row['high']:.1f}]")


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _cell(text: str) -> str:
    """A text that neither ends a table's cell or line nor marks anything up."""
    return "".join(f"\\{char}" if char in "\\`*_|<>[]" else char for char in " ".join(text.split()))
