"""The board as one file: every row with its interval and its price, sortable, reported rows greyed."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from mug_eval.errors import UserError
from mug_eval.report.templating import environment, script_hash, static_text

_NUMBERS = ("score", "low", "high", "n", "calls", "tokens", "seconds")
_WORDS = ("id", "method", "backbone", "benchmark", "score_name", "source", "date", "command", "sample", "note")


def render_board(board: Mapping[str, Any], in_site: bool = False) -> str:
    """The board as HTML that needs no other file.

    Args:
        board: ``{"schema": 1, "rows": [{"id", "method", "backbone", "benchmark", "score_name", "score", "low", "high", "n", "calls",
            "tokens", "seconds", "reported", "source", "date", "command", "sample", "note"}]}``, null where unknown; scores in percent.
        in_site: beside the pages of runs, so that it leads to them.

    Raises:
        UserError: another schema, or a row that is not one.
    """
    if board.get("schema") != 1 or not isinstance(board.get("rows"), list):
        raise UserError("this board has another schema than 1, the one that pages know")
    rows = [_row(number, row) for number, row in enumerate(board["rows"], 1)]
    sorter = static_text("sort.js")
    return (
        environment()
        .get_template("board.html")
        .render(
            title="Board" if in_site else "mug_eval: leaderboard",
            in_site=in_site,
            rows=rows,
            benchmarks=sorted({row["benchmark"] for row in rows}),
            style=static_text("style.css"),
            script=sorter,
            script_hash=script_hash(sorter),
        )
    )


def _row(number: int, row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping):
        raise UserError(f"row {number} of the board is not an object")
    kept: dict[str, Any] = {"reported": bool(row.get("reported"))}
    for name in _NUMBERS:
        value = row.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value)):
            raise UserError(f"row {number} of the board: {name} is {value!r}, a number or null is wanted")
        kept[name] = value
    for name in _WORDS:
        value = row.get(name)
        kept[name] = "" if value is None else str(value)
    for name in ("source", "sample"):
        kept[f"{name}_link"] = _is_link(kept[name])
    return kept


def _is_link(text: str) -> bool:
    """Whether it may be followed: a page on the web, or a page of ours beside this one. Nothing that runs (``javascript:``)."""
    return re.fullmatch(r"https?://[^\s\"'<>\\]+|[A-Za-z0-9][A-Za-z0-9._-]*\.html(#[\w.%-]*)?", text) is not None
