"""A stranger's TSV: what must hold before VLMEvalKit may evaluate its cells, and what pandas lost of them."""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from mug_eval.benchmarks.task import Task
from mug_eval.errors import UserError

REFERENCE_LENGTH = 64
"""An image cell of so many characters or fewer points at another row (vlmeval.dataset.image_base)."""

MISSING_WORDS = frozenset(
    {"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
    | {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
)
"""Cells that pandas.read_csv takes for missing values, which in an option or an answer are words."""

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}", re.ASCII)
_READ_AS_A_VALUE = frozenset({"true", "false", "inf", "infinity"})


def check_table(path: Path, frame: Any, task: Task) -> list[str]:
    """Refuse a table that VLMEvalKit would fail on or that would run a stranger's code.

    Args:
        path: the TSV, for messages.
        frame: the DataFrame that VLMEvalKit read from it, all rows.
        task: what the table must hold.

    Returns:
        Notes: rows that the loader will drop.

    Raises:
        UserError: with the row and the column.
    """
    named = str(path.name)
    if len(frame.columns) == 1 and "index" not in frame.columns:
        raise UserError(f"{named}: one column only ({str(frame.columns[0])[:60]!r}): is it separated by tabs?")
    missing = [column for column in task.columns if column not in frame.columns]
    if missing:
        raise UserError(f"{named}: no column {', '.join(missing)}; {task.name} needs {', '.join(task.columns)}")
    if len(frame) == 0:
        raise UserError(f"{named}: no rows")
    _check_width(path)
    _check_indices(named, frame["index"], task)
    kept = frame[~pd.isna(frame["image"])]
    if len(kept) == 0:
        raise UserError(f"{named}: column image is empty in every row")
    _check_images(named, kept)
    for column in task.labels:
        empty = _places(kept, pd.isna(kept[column]))
        # A label that is a word for "missing" is a label all the same.
        literal: Any = _literals(path, [column])[column] if empty else None
        for row, index in empty:
            if not str(literal.iloc[row - 1]).strip():
                raise UserError(f"{named}: row {row} (index {index}): column {column} is empty")
    if task.explode is not None:
        _check_parts(named, kept, task.explode)
    dropped = [str(index) for index in frame["index"][pd.isna(frame["image"])]]
    return [f"{len(dropped)} row(s) without a picture are dropped by the loader: {some(dropped)}"] if dropped else []


def _check_parts(named: str, frame: Any, column: str) -> None:
    """The scorer counts a row once for each part of the cell: an empty part would be a group without a name."""
    holed = frame[column].map(lambda cell: not all(part.strip() for part in str(cell).split(",")))
    for row, index in _places(frame, holed):
        raise UserError(f"{named}: row {row} (index {index}): column {column} has an empty part between its commas")


def _places(frame: Any, wanted: Any) -> list[tuple[int, str]]:
    """(row number from 1, index) of the wanted rows."""
    return [(int(row) + 1, str(index)) for row, index in frame["index"][wanted].items()]


def _check_width(path: Path) -> None:
    """Rows with one cell more than the header: pandas takes their first cells for row labels and shifts all others."""
    try:
        pd.read_csv(path, sep="\t", header=None, nrows=2, dtype=str, na_filter=False)
    except pd.errors.ParserError as error:
        raise UserError(f"{path.name}: its rows have more cells than its header") from error


def _check_indices(named: str, column: Any, task: Task) -> None:
    seen: dict[str, int] = {}
    numbers = 0
    for row, cell in enumerate(column, start=1):
        if pd.isna(cell):
            raise UserError(f"{named}: row {row}: column index is empty, or a word that means missing")
        index = str(cell)
        if _WHOLE_NUMBER.fullmatch(index):
            numbers += 1
            index = str(int(index))
        elif not _NAME.fullmatch(index) or index.lower() in _READ_AS_A_VALUE:
            raise UserError(
                f"{named}: row {row}: index {index[:60]!r} is not allowed: use a whole number, or a letter followed by letters, "
                "digits, _ and - (VLMEvalKit evaluates this cell as Python)"
            )
        if index in seen:
            raise UserError(f"{named}: rows {seen[index]} and {row} have the same index {index[:60]!r}")
        seen[index] = row
        if task.index_parts and len(index.split("_")) < task.index_parts:
            raise UserError(
                f"{named}: row {row}: index {index[:60]!r} has fewer than {task.index_parts} parts at its underscores, "
                f"which {task.name}'s scorer needs"
            )
    if 0 < numbers < len(seen):
        raise UserError(f"{named}: column index mixes numbers and names: use one kind")


def _check_images(named: str, frame: Any) -> None:
    cells = {str(index): str(cell) for index, cell in zip(frame["index"], frame["image"], strict=True)}
    paths = frame["image_path"] if "image_path" in frame.columns else [None] * len(frame)
    for (row, index), path_cell in zip(_places(frame, slice(None)), paths, strict=True):
        where = f"{named}: row {row} (index {index})"
        cell = cells[index]
        if len(cell) <= REFERENCE_LENGTH:
            target = cells.get(cell)
            # Like the loader, which resolves row after row: an earlier row's reference is resolved already.
            if target is None or len(target) <= REFERENCE_LENGTH:
                raise UserError(f"{where}: column image points at row {cell[:64]!r}, which has no picture")
            cells[index] = cell = target
        pictures = _strings(cell, f"{where}: column image")
        if path_cell is None:
            continue
        if not isinstance(path_cell, str):
            raise UserError(f"{where}: column image_path is empty or not a name")
        names = _strings(path_cell, f"{where}: column image_path")
        if len(names) != len(pictures):
            raise UserError(f"{where}: {len(pictures)} picture(s) in column image but {len(names)} name(s) in image_path")


def _strings(cell: str, where: str) -> list[str]:
    """The list of texts that a list-like cell holds, read without evaluating it; any other cell is one text."""
    if not (cell.startswith("[") and cell.endswith("]")):
        return [cell]
    try:
        found = ast.literal_eval(cell)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        found = None
    if not isinstance(found, list) or not found or not all(isinstance(part, str) for part in found):
        raise UserError(f"{where} is not a plain list of texts (VLMEvalKit would evaluate it as Python): {cell[:40]!r}")
    return found


def some(names: Iterable[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    shown = list(names)
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


def option_letters(columns: Iterable[Any]) -> list[str]:
    """The columns that hold options, in the order in which the loader shows them."""
    there = {str(column) for column in columns}
    return [letter for letter in string.ascii_uppercase if letter in there]


def _literals(path: Path, columns: Iterable[str]) -> Any:
    """Columns of a TSV as they are written: nothing is taken for a number or for missing."""
    wanted = set(columns)
    return pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False, na_filter=False, usecols=lambda name: name in wanted)


def restore_words(path: Path, data: Any, task: Task) -> tuple[Any, list[str]]:
    """Give the loader's table back what pandas took from it.

    Options, questions, answers and labels become the text that the TSV holds: an option ``None`` is an option, ``1`` in a column
    with gaps is not ``1.0``. Answers lose their outer white space, and Yes/No their odd case, since the scorers compare them
    letter by letter (and MMMU's takes ``A `` for an open question).

    Args:
        path: the TSV.
        data: the loader's DataFrame, whose row labels are the row numbers of the TSV.
        task: tells options from other columns.

    Returns:
        The repaired DataFrame and notes.
    """
    letters = option_letters(data.columns)
    columns = [*letters, *(name for name in ("question", "answer", *task.labels) if name in data.columns)]
    literal = _literals(path, columns).loc[data.index]
    notes = []
    words = [str(index) for index in data["index"][literal[letters].isin(MISSING_WORDS).any(axis=1)]]
    if words:
        notes.append(f"{len(words)} row(s) have an option that pandas takes for missing (None, N/A, ...), kept: {some(words)}")
    answers = [_answer(text, task) for text in literal["answer"]]
    trimmed = [str(index) for index, new, old in zip(data["index"], answers, literal["answer"], strict=True) if new != old]
    if trimmed:
        notes.append(f"{len(trimmed)} answer(s) with stray spaces or odd case were set right: {some(trimmed)}")
    repaired = {name: literal[name].where(literal[name] != "", None).astype(object) for name in columns}
    repaired["answer"] = pd.Series(answers, index=data.index, dtype=object)
    data = data.assign(**repaired)
    if task.open_without_options and letters:
        is_list = literal["answer"].str.fullmatch(r"\s*\[.*\]\s*") & repaired[letters[0]].isna()
        lists = [str(index) for index in data["index"][is_list]]
        if lists:
            notes.append(f"{len(lists)} open row(s) list several answers; the scorer knows only the whole list: {some(lists)}")
    # Without the pictures, of which iterrows would make a copy for each row.
    texts = data[["index", "answer", *letters]]
    hopeless = [str(row["index"]) for _, row in texts.iterrows() if not _can_be_right(row, letters, task)]
    if hopeless:
        notes.append(
            f"{len(hopeless)} row(s) have an answer that is none of the choices and are always scored wrong: {some(hopeless)}"
        )
    return data, notes


def _answer(text: str, task: Task) -> str:
    trimmed = text.strip()
    return trimmed.capitalize() if task.answers == "yes_no" and trimmed.lower() in ("yes", "no") else trimmed


def _can_be_right(row: Any, letters: list[str], task: Task) -> bool:
    if task.answers == "yes_no":
        return row["answer"] in ("Yes", "No")
    options = [letter for letter in letters if not pd.isna(row[letter])]
    if not options and task.open_without_options:
        return bool(row["answer"])
    return row["answer"] in options
