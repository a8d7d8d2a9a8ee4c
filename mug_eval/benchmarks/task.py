"""What a benchmark is, told by one YAML file: ``tasks/<name>.yaml``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from mug_eval.errors import UserError
from mug_eval.names import unknown

AnswerStyle = Literal["yes_no", "choice", "open"]
CategoryPlace = Literal["rows", "columns"]


@dataclass(frozen=True, slots=True)
class Headline:
    """Which numbers of the scorer's table are the benchmark's results.

    Attributes:
        row: (column, value) that picks the table's row with the headline numbers.
        numbers: (our name, the scorer's column).
        means: (our name, names of ``numbers`` whose mean it is).
        scale: what the scorer's numbers are multiplied by, so that they are percent.
        categories: where the categories' numbers are: in the other ``rows`` or in the other ``columns``.
    """

    row: tuple[str, str]
    numbers: tuple[tuple[str, str], ...]
    means: tuple[tuple[str, tuple[str, ...]], ...]
    scale: float
    categories: CategoryPlace


@dataclass(frozen=True, slots=True)
class TextSource:
    """Where the rows of a benchmark without pictures come from (``mug_eval.text_benchmarks``); VLMEvalKit knows nothing of it.

    Attributes:
        format: which reader reads a row, by name.
        file: the published file's name, as users know it.
        hub: the data set's name on the Hugging Face hub.
        split: its split there.
        config: its configuration there, or None for the only one.
        revision: the revision to load, or None for the newest: sets that the hub keeps as a script are read from its conversion.
    """

    format: str
    file: str
    hub: str
    split: str
    config: str | None = None
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One benchmark as ``tasks/<name>.yaml`` describes it.

    Attributes:
        name: as in ``--data <name>``.
        summary: one line for ``--list``.
        upstream: VLMEvalKit's name of the published set; its name on the hub for a benchmark without pictures.
        loader: the class of ``vlmeval.dataset`` that loads, prompts and scores it; "" for a benchmark without pictures.
        answers: ``yes_no``, ``choice``, or ``open`` where no row has options.
        columns: columns that a TSV must have.
        labels: columns by which the scorer groups; none of their cells may be empty.
        rows: number of rows of the published set; 0 for a drawn one, which has any number.
        scores: the headline numbers.
        cluster: what makes questions dependent: column names, ``image`` (the pictures' bytes) or ``index.<n>`` (a part of it).
        open_without_options: whether a row without options is an open question.
        split: (column, value) of the rows that are played and reported, or None for all.
        explode: column whose comma-separated values make the scorer count a row several times, or None.
        index_parts: how many parts the scorer finds in an index at its underscores; 0 where it does not look.
        drawn: whether ``mug-eval scenes`` writes it; nothing is published then.
        text: where its rows come from, for a benchmark without pictures; else None.
    """

    name: str
    summary: str
    upstream: str
    loader: str
    answers: AnswerStyle
    columns: tuple[str, ...]
    labels: tuple[str, ...]
    rows: int
    scores: Headline
    cluster: tuple[str, ...]
    open_without_options: bool = False
    split: tuple[str, str] | None = None
    explode: str | None = None
    index_parts: int = field(default=0)
    drawn: bool = False
    text: TextSource | None = None


def task_folder() -> Path:
    """Where the task files are: beside the package in a checkout, else where setup.cfg installs them.

    Raises:
        UserError: neither folder holds a YAML file.
    """
    places = (Path(__file__).resolve().parents[2] / "tasks", Path(sys.prefix) / "share" / "mug_eval" / "tasks")
    for place in places:
        if any(place.glob("*.yaml")):
            return place
    raise UserError(f"no task files in {places[0]} or {places[1]}: install mug_eval again, or run it from a checkout")


def task_names() -> list[str]:
    """The benchmarks there are, in alphabetical order."""
    return sorted(path.stem for path in task_folder().glob("*.yaml"))


@cache
def load_task(name: str) -> Task:
    """Read ``tasks/<name>.yaml``.

    Raises:
        UserError: there is no such task (the nearest names are named), or its file is malformed (the field is named).
    """
    names = task_names()
    if name not in names:
        raise UserError(unknown("benchmark", name, names))
    path = task_folder() / f"{name}.yaml"
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
        if "like" in entries:  # in another benchmark's format
            base = task_folder() / f"{entries.pop('like')}.yaml"
            entries = yaml.safe_load(base.read_text(encoding="utf-8")) | entries
        return _task(entries)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError, KeyError, ValueError, AttributeError) as error:
        said = f"field {error} is missing" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise UserError(f"{path}: {said}") from error


def _task(entries: Mapping[str, Any]) -> Task:
    known = {entry.name for entry in fields(Task)}
    for key in entries:
        if key not in known:
            raise ValueError(unknown("field", str(key), sorted(known)))
    if entries["answers"] not in get_args(AnswerStyle):
        raise ValueError(f"answers must be one of {', '.join(get_args(AnswerStyle))}, not {entries['answers']!r}")
    split = entries.get("split")
    text = None if entries.get("text") is None else _text_source(entries["text"])
    if text is not None:  # what only VLMEvalKit asks for
        entries = {"upstream": text.hub, "loader": "", "columns": (), "labels": (), **entries}
    return Task(
        name=str(entries["name"]),
        summary=str(entries["summary"]),
        upstream=str(entries["upstream"]),
        loader=str(entries["loader"]),
        answers=entries["answers"],
        columns=tuple(map(str, entries["columns"])),
        labels=tuple(map(str, entries["labels"])),
        rows=int(entries["rows"]),
        scores=_headline(entries["scores"]),
        cluster=tuple(map(str, entries["cluster"])),
        open_without_options=bool(entries.get("open_without_options", False)),
        split=(str(split["column"]), str(split["value"])) if split else None,
        explode=entries.get("explode"),
        index_parts=int(entries.get("index_parts", 0)),
        drawn=bool(entries.get("drawn", False)),
        text=text,
    )


def _text_source(entries: Mapping[str, Any]) -> TextSource:
    known = {entry.name for entry in fields(TextSource)}
    for key in entries:
        if key not in known:
            raise ValueError(f"text: {unknown('field', str(key), sorted(known))}")
    config, revision = entries.get("config"), entries.get("revision")
    return TextSource(
        format=str(entries["format"]),
        file=str(entries["file"]),
        hub=str(entries["hub"]),
        split=str(entries["split"]),
        config=None if config is None else str(config),
        revision=None if revision is None else str(revision),
    )


def _headline(entries: Mapping[str, Any]) -> Headline:
    ((column, value),) = entries["row"].items()
    if entries["categories"] not in get_args(CategoryPlace):
        raise ValueError(f"scores.categories must be one of {', '.join(get_args(CategoryPlace))}")
    numbers = tuple((str(ours), str(theirs)) for ours, theirs in entries["headline"].items())
    means = tuple((str(ours), tuple(map(str, parts))) for ours, parts in entries.get("means", {}).items())
    for ours, parts in means:
        for part in parts:
            if part not in dict(numbers):
                raise ValueError(f"scores.means.{ours} names {part!r}, which is not in scores.headline")
    return Headline((str(column), str(value)), numbers, means, float(entries["scale"]), entries["categories"])
