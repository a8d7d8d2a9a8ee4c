"""Result folders as statistics read them: each question's verdict, cluster and row, and what the run cost."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from mug_eval.errors import UserError
from mug_eval.statistics.shape import read_shaped

_LONGEST_CELL = 2**31 - 1
"""Python's csv module stops at 131,072 characters, and a model may ramble."""

_DEEPEST = 6
"""Folders below a place that are looked into."""


@dataclass(frozen=True, slots=True)
class Run:
    """One model on one benchmark, complete.

    Attributes:
        folder: ``<work-dir>/<model>/<benchmark>``.
        model: ``mug-qwen``.
        benchmark: ``POPE``.
        right: question index -> whether the scorer took the answer for right.
        clusters: question index -> which questions it depends on.
        rows: question index -> its row of ``predictions.tsv``: the table's columns but for pictures, and ``prediction``.
        scores: ``scores.json``.
        run: ``run.json``.
    """

    folder: Path
    model: str
    benchmark: str
    right: Mapping[str, bool]
    clusters: Mapping[str, str]
    rows: Mapping[str, Mapping[str, str]]
    scores: Mapping[str, Any]
    run: Mapping[str, Any]

    @property
    def cost(self) -> Mapping[str, float | None]:
        """Means a question: calls, prompt_tokens, completion_tokens, images, seconds."""
        cost: Mapping[str, float | None] = self.scores["cost"]
        return cost

    @property
    def config(self) -> Mapping[str, Any]:
        """What the games were played with (``identity.identity``)."""
        config: Mapping[str, Any] = self.run["config"]
        return config

    @property
    def seed(self) -> int:
        """Of every draw."""
        return int(self.config["seed"])

    def games(self) -> Iterator[dict[str, Any]]:
        """The lines of ``games.jsonl``, one in memory at a time.

        Raises:
            UserError: a line is not a game, a question has none or two.
        """
        path, owed = self.folder / "games.jsonl", set(self.right)
        try:
            with path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    try:
                        game = json.loads(line)
                    except (ValueError, RecursionError):
                        game = None
                    index = game.get("index") if isinstance(game, dict) else None
                    if not isinstance(index, str) or index not in owed:
                        raise UserError(
                            f"{path} line {number} is not a game of this run, or a second one; give the run's command again"
                        )
                    owed.discard(index)
                    yield game
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}, though the run is marked complete; give its command again") from error
        if owed:
            raise UserError(f"{path} has no game for {len(owed)} questions that were scored; give the run's command again")


@dataclass(frozen=True, slots=True)
class Group:
    """Runs that differ in nothing but their seed.

    Attributes:
        runs: in the order of their seeds.
    """

    runs: tuple[Run, ...]

    @property
    def model(self) -> str:
        """``mug-qwen``."""
        return self.runs[0].model

    @property
    def benchmark(self) -> str:
        """``POPE``."""
        return self.runs[0].benchmark

    @property
    def method(self) -> str:
        """``mug``."""
        return str(self.runs[0].config["method"])

    @property
    def backbone(self) -> str:
        """The backbone as the run knows it, for telling whether two are the same."""
        return json.dumps(self.runs[0].config["backbone"], sort_keys=True)

    @property
    def seeds(self) -> tuple[int, ...]:
        """One a run."""
        return tuple(run.seed for run in self.runs)

    @property
    def indices(self) -> tuple[str, ...]:
        """The questions, in the dataset's order."""
        return tuple(self.runs[0].rows)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The cluster of each question."""
        return tuple(self.runs[0].clusters[index] for index in self.indices)

    @property
    def values(self) -> tuple[float, ...]:
        """The share of seeds with a right answer, question by question (0 or 1 with one seed)."""
        return tuple(sum(run.right[index] for run in self.runs) / len(self.runs) for index in self.indices)

    @property
    def cost(self) -> dict[str, float | None]:
        """Means a question, over the seeds; None where a run does not know."""
        found: dict[str, float | None] = {}
        for name in ("calls", "prompt_tokens", "completion_tokens", "images", "seconds"):
            known = [value for run in self.runs if (value := run.cost[name]) is not None]
            found[name] = sum(known) / len(known) if len(known) == len(self.runs) else None
        return found


def read_run(folder: Path) -> Run:
    """Read a result folder.

    Raises:
        UserError: no run is there, it is not complete, or a file of it is damaged.
    """
    try:
        if not (folder / "run.json").is_file():
            state = "is not complete: give its command again" if (folder / "plan.json").is_file() else "holds no run"
            raise UserError(f"{folder} {state}; a run is <work-dir>/<model>/<benchmark>")
        run, scores = read_shaped(folder)
        _head, *lines = (folder / "items.tsv").read_text(encoding="utf-8").split("\n")[:-1]
        right, clusters = {}, {}
        for line in lines:
            index, cluster, hit = line.split("\t")
            index, cluster = json.loads(index), json.loads(cluster)
            if not isinstance(index, str) or not isinstance(cluster, str):
                raise TypeError(f"items.tsv: {ascii(line)[:60]} is not a question, its cluster and 0 or 1")
            right[index], clusters[index] = {"0": False, "1": True}[hit], cluster
        rows = _rows(folder / "predictions.tsv")
        if not right or rows.keys() != right.keys():
            raise ValueError(f"predictions.tsv has {len(rows)} questions, items.tsv {len(right)}")
        for name in ("model", "benchmark"):
            if not _is_folder_name(run[name]):
                raise ValueError(f"{name} is {ascii(run[name])[:60]}, which is the name of no folder")
        return Run(folder, run["model"], run["benchmark"], right, clusters, rows, scores, run)
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: no such file, though the run is marked complete; give its command again") from error
    except PermissionError as error:
        raise UserError(f"{error.filename}: {error.strerror}; you need the right to read a run's files") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, csv.Error) as error:
        raise UserError(
            f"{folder}: a file of this run is damaged ({type(error).__name__}: {error}); give its command again"
        ) from error


def _is_folder_name(name: Any) -> bool:
    """Whether it may be the last part of a path: names of a run are made into names of files, and must not lead elsewhere."""
    return isinstance(name, str) and 0 < len(name) <= 255 and name.isprintable() and not re.search(r"[/\\]|^\.+$", name)


def _rows(path: Path) -> dict[str, dict[str, str]]:
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = {row["index"]: row for row in csv.DictReader(file, delimiter="\t", strict=True)}
    finally:
        csv.field_size_limit(before)
    for index, row in rows.items():
        if None in row or None in row.values():  # as csv gives what is too much, and what lacks
            raise ValueError(
                f"predictions.tsv: the row of question {ascii(index)[:40]} has not as many cells as the table has columns"
            )
    return rows


def find_runs(places: Sequence[Path]) -> list[Run]:
    """Read the runs that a user named; see :func:`named_folders`.

    Raises:
        UserError: nothing is there, a run is not complete or damaged, or one is named twice.
    """
    return [read_run(folder) for folder in named_folders(places)]


def named_folders(places: Sequence[Path]) -> list[Path]:
    """The folders that a user named: a run's, or a model's, which stands for all of its benchmarks.

    Args:
        places: ``<work-dir>/<model>/<benchmark>`` or ``<work-dir>/<model>``. The journal of a work-dir is passed over, so that
            ``outputs/*`` may be given.

    Raises:
        UserError: nothing is there, or one is named twice.
    """
    found: dict[Path, Path] = {}
    for place in places:
        if place.is_file() and place.name.startswith("journal.sqlite"):
            continue
        if not place.is_dir():
            raise UserError(f"{place}: {no_folder(place)}; name a run, <work-dir>/<model>/<benchmark> or <work-dir>/<model>")
        folders = [] if _begun(place) else sorted(folder for folder in place.iterdir() if _begun(folder))
        for folder in folders or [place]:
            if folder.resolve() in found:
                raise UserError(f"{folder} is named twice")
            found[folder.resolve()] = folder
    if not found:
        raise UserError("no run is named; a run is <work-dir>/<model>/<benchmark>")
    return list(found.values())


def _begun(folder: Path) -> bool:
    """Whether it is a result folder. One that may not be looked into counts, so that it is named and not passed over."""
    try:
        return (folder / "plan.json").is_file()
    except PermissionError:
        return True


def no_folder(place: Path) -> str:
    """What stands where a folder should."""
    return "a file and no folder" if place.exists() else "no such folder"


def folders_below(place: Path) -> Iterator[Path]:
    """Every result folder below a folder, or the folder itself, complete or not; hidden folders are passed over.

    Folders that may not be looked into come last: what is in them is not known.

    Args:
        place: is looked into some folders deep: <demo>/<results>/<seed>/<model>/<benchmark> and one more.
    """
    closed: list[Path] = []
    for name, inner, files in os.walk(place, onerror=lambda error: closed.append(Path(error.filename))):
        folder = Path(name)
        if "plan.json" in files:
            inner.clear()
            yield folder
        deep = len(folder.relative_to(place).parts)
        inner[:] = sorted(name for name in inner if not name.startswith(".")) if deep < _DEEPEST else []
    yield from closed  # reading it will say why


def by_seed(runs: Sequence[Run]) -> list[Group]:
    """Put runs together that differ in nothing but their seed, in the order in which they first appear.

    Raises:
        UserError: two runs have the same seed too.
    """
    groups: dict[str, list[Run]] = {}
    for run in runs:
        rest = {name: value for name, value in run.config.items() if name != "seed"}
        key = json.dumps([run.model, run.benchmark, rest, run.run["limit"], run.scores.get("judge")], sort_keys=True)
        groups.setdefault(key, []).append(run)
    for group in groups.values():
        group.sort(key=lambda run: run.seed)
        for one, other in pairwise(group):
            if one.seed == other.seed:
                raise UserError(f"{one.folder} and {other.folder} are the same run twice (seed {one.seed}); name one of them")
    return [Group(tuple(group)) for group in groups.values()]
