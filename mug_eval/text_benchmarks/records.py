"""Records of a data set: the lines of a published file, or the rows that the hub has."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from mug_eval.errors import UserError

_MOST_BYTES = 2**30
"""Of a file: it is read whole, and the largest published one has a fiftieth of that."""


@dataclass(frozen=True, slots=True)
class Records:
    """What a file holds, nothing of it checked yet.

    Attributes:
        named: the file, for messages.
        sha256: of its bytes.
        records: (where, value): ``line 3`` and what stands there.
        merged: whether rows that agree in everything are one: the hub repeats a claim for each piece of its evidence.
    """

    named: str
    sha256: str
    records: tuple[tuple[str, Any], ...]
    merged: bool = False


def read_records(path: Path) -> Records:
    """Read a file of JSON lines, one JSON value (a list is its rows), or, with the ending ``.csv``, of comma-separated values.

    Raises:
        UserError: it cannot be read, is empty, too large, no UTF-8, or a line is not JSON; says which.
    """
    named = f"--data-file {path}"
    try:
        if path.is_dir():
            raise UserError(f"{named}: a folder, a file is needed")
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{named}: larger than 1 GiB: split it")
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{named}: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{named}: no UTF-8 at byte {error.start}: save it as UTF-8") from error
    if not text.strip():
        raise UserError(f"{named}: empty")
    found = tuple(_csv(named, text) if path.suffix.lower() == ".csv" else _json(named, text))
    if not found:
        raise UserError(f"{named}: no rows")
    return Records(named, hashlib.sha256(data).hexdigest(), found)


def _csv(named: str, text: str) -> Iterator[tuple[str, Any]]:
    before = csv.field_size_limit(_MOST_BYTES)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        for row in reader:
            if None in row:
                raise UserError(f"{named} line {reader.line_num}: more cells than the first line has names")
            # A cell that the line lacks is None, and is then missing, not empty.
            yield f"line {reader.line_num}", {name: cell for name, cell in row.items() if cell is not None}
    except csv.Error as error:
        raise UserError(f"{named} line {reader.line_num}: not comma-separated values ({error})") from error
    finally:
        csv.field_size_limit(before)


def _json(named: str, text: str) -> Iterator[tuple[str, Any]]:
    # Not splitlines(): a text may hold other line ends, which JSON does not take for the end of a line.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if _is_json(lines[0][1]) and not (len(lines) == 1 and lines[0][1].lstrip().startswith("[")):
        for number, line in lines:
            yield f"line {number}", _load(line, f"{named} line {number}")
    elif lines[0][1].lstrip().startswith("[") or _is_json(text):  # a list of rows, or one indented value
        whole = _load(text, named)
        yield from ((f"row {number}", value) for number, value in enumerate(whole if isinstance(whole, list) else [whole], 1))
    else:
        _load(lines[0][1], f"{named} line {lines[0][0]}")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _load(text: str, where: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        said = " ".join(str(error).split())[:120]
        raise UserError(f"{where}: not JSON ({said})") from error


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")
