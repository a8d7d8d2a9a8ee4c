"""MMStar: an xlsx with the columns of the authors' example (eval/submits of github.com/MMStar-Benchmark/MMStar).

Read by their mmstar.py: the first character of the prediction, in lower case, is held against the answer; counts are by category and
l2_category, and divided by 250 and 1500 whatever is there. An answer that is none is ``Z``: no option. (A sentence would not do: one that
begins with ``Cannot`` is read as C.)
"""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

from mug_eval.errors import UserError
from mug_eval.leaderboard.submit.source import Answered, Source, Written

LEADERBOARD = "MMStar"
UPSTREAM = ("MMStar",)

UNPARSED = "Z"

COLUMNS = ("index", "question", "answer", "category", "l2_category", "bench", "prediction")

_PUBLISHED = 1500
_LONGEST = 32_767
"""Characters of a cell."""

_NOT_XML = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write(source: Source) -> Written:
    """The file: the answers with the pictures seen.

    Raises:
        UserError: the table lacks a column, or an answer is none of the options.
    """
    for column in ("l2_category", "bench"):
        if column not in source.answered[0].row:
            raise UserError(f"the table has no column {column}, which MMStar's evaluation reads: play the published MMStar")
    rows = [_row(one) for one in source.answered]
    notes = [f"{len(source.unparsed)} answers are none and written as Z, which is wrong"] if source.unparsed else []
    if len(rows) != _PUBLISHED:
        notes.append(f"{len(rows)} questions, where MMStar has {_PUBLISHED}, by which its evaluation divides")
    notes.append("the leaderboard also wants the answers without pictures, of this model and of its language model: two files more")
    return Written({f"{source.run.model}_MMStar.xlsx": _workbook(rows)}, tuple(notes))


def _row(one: Answered) -> list[str | int]:
    options = {name: cell.strip() for name, cell in one.row.items() if len(name) == 1 and name.isupper() and cell}
    if one.answer is not None and one.answer not in options:
        raise UserError(f"question {one.index}: the answer {one.answer!r} is none of the options {', '.join(options)}")
    shown = ", ".join(f"{name}: {text}" for name, text in options.items())
    # The published table has the options in columns; the authors' example has them below the question.
    question = one.row["question"] if "Options:" in one.row["question"] else f"{one.row['question']}\nOptions: {shown}"
    return [
        int(one.index) if one.index.isdigit() else one.index,
        question,
        *(one.row[name] for name in ("answer", "category", "l2_category", "bench")),
        UNPARSED if one.answer is None else one.answer,
    ]


def _workbook(rows: list[list[str | int]]) -> bytes:
    """An xlsx in which every text is a text, the same bytes every time."""
    from openpyxl import Workbook  # type: ignore[import-untyped]

    book = Workbook()
    sheet = book.active
    table: list[list[str | int]] = [list(COLUMNS), *rows]
    for number, row in enumerate(table, 1):
        for place, value in enumerate(row, 1):
            cell: Any = sheet.cell(number, place)
            if isinstance(value, int):
                cell.value = value
                continue
            text = _NOT_XML.sub("", value)
            if len(text) > _LONGEST:
                raise UserError(
                    f"row {number - 1}: {COLUMNS[place - 1]} is longer than a cell of an xlsx can be ({_LONGEST} characters)"
                )
            cell.value = text
            cell.data_type = "s"  # else "=1+1" is a formula, which readers see as 0
    buffer = io.BytesIO()
    book.save(buffer)
    return _without_times(buffer.getvalue())


def _without_times(archive: bytes) -> bytes:
    """The same xlsx without the moment in which it was written."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for item in old.infolist():
            content = old.read(item)
            if item.filename == "docProps/core.xml":
                content = re.sub(rb"(<dcterms:\w+[^>]*>)[^<]*(</dcterms)", rb"\g<1>1980-01-01T00:00:00Z\g<2>", content)
            new.writestr(zipfile.ZipInfo(item.filename, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
