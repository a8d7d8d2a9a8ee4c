"""Numbers that papers report: beside measured ones on the board, marked, with their source; never compared by a test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mug_eval.json_fields import Fields, opened, read_json
from mug_eval.leaderboard.entry import NAME
from mug_eval.leaderboard.private import private_parts

SCHEMA = 1

_DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12][0-9]|3[01]))?"


@dataclass(frozen=True, slots=True)
class Reported:
    """One number that somebody reports.

    Attributes:
        id: ``<file>/<backbone>/<method>/<benchmark>``.
        method: ``mug``, or what the source calls it.
        backbone: as the source calls it.
        closed: whether its weights cannot be had.
        benchmark: as in ``--data``, or as the source calls it.
        score_name: as in a run's scores where it is the same number.
        score: in percent.
        source: where it is reported, an address.
        date: of the source, YYYY-MM or YYYY-MM-DD.
        read_from: ``tables`` of the source itself, or a ``summary`` of it by somebody else.
    """

    id: str
    method: str
    backbone: str
    closed: bool
    benchmark: str
    score_name: str
    score: float
    source: str
    date: str
    read_from: str


def read_reference(folder: Path) -> list[Reported]:
    """All numbers of a folder's ``*.json``, in the files' order.

    Raises:
        UserError: a file is not valid; names it and the field.
    """
    found: list[Reported] = []
    for path in sorted(folder.glob("*.json")):
        found += _read(path)
    return found


def _read(path: Path) -> list[Reported]:
    value = read_json(path)
    top = opened(value, path, SCHEMA)
    source = top.fields("source")
    source.text("title")
    url, date = source.text("url", r"https://[^\s<>\"'`|]+"), source.text("date", _DATE)
    read_from = source.text("read_from", "tables|summary")
    source.text("note")
    source.done()
    found, ids = [], set()
    for place, item in enumerate(top.items("rows", lambda row: isinstance(row, dict), "rows", 1)):
        row = Fields(item, path, f"rows[{place}]")
        method, backbone, benchmark = row.text("method", NAME), row.text("backbone", NAME), row.text("benchmark", NAME)
        closed, scores = row.flag("closed"), row.plain("scores")
        row.done()
        numbers = Fields(scores, path, f"rows[{place}].scores")
        if not scores:
            raise numbers.wrong("", "must not be empty")
        name = f"{path.stem}/{backbone}/{method}/{benchmark}"
        if name in ids:
            raise row.wrong("", f"is {name} a second time")
        ids.add(name)
        found += [
            Reported(name, method, backbone, closed, benchmark, score, numbers.number(score, 0, 100), url, date, read_from)
            for score in scores
        ]
    top.done()
    for field, what in private_parts(value):
        raise top.wrong(field, f"holds {what}, which must not be published")
    return found
