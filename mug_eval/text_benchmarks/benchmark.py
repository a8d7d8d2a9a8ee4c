"""A text benchmark as the rest of the house sees it: questions out, predictions in, scores out."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from mug_eval.atomic import atomic_write
from mug_eval.benchmarks.benchmark import Scores
from mug_eval.benchmarks.exchange import UNPARSED
from mug_eval.benchmarks.score import read_headline
from mug_eval.benchmarks.task import Task
from mug_eval.errors import QuestionError, UserError
from mug_eval.question import Answer, AnswerFormat, Question, Unparsed
from mug_eval.text_benchmarks.measures import Measured, measure, references_text
from mug_eval.text_benchmarks.rows import TextRow, clean

_JUDGE = "exact_matching"


class TextBenchmark:
    """Rows of a text benchmark as a :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""

    def __init__(self, task: Task, rows: Sequence[TextRow], *, sha256: str, notes: tuple[str, ...], limit: int | None) -> None:
        """Take rows that were read.

        Args:
            task: the benchmark.
            rows: in the file's order, each with a name of its own.
            sha256: of the file.
            notes: what happened while reading.
            limit: the most rows to be played, or None.
        """
        self.name = task.name
        self.sha256 = sha256
        self.notes = notes
        self._task = task
        self._rows = {row.index: row for row in rows}
        self.indices: tuple[str, ...] = tuple(self._rows)[:limit]

    def question(self, index: str) -> Question:
        """See :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""
        row = self._rows[index]
        if row.fault:
            raise QuestionError(f"row {index}: {row.fault}")
        return Question(self.name, index, (row.prompt,), self._answer_format(row))

    def pictures(self, index: str) -> tuple[tuple[int, bytes], ...]:
        """There are none, so that nothing can be altered.

        Raises:
            QuestionError: always.
        """
        raise QuestionError(f"row {index}: {self.name} has no pictures")

    def prediction(self, index: str, answer: Answer | Unparsed) -> str:
        """An option's letter, or the words of an open answer; nothing is as far from every reference as no answer."""
        if isinstance(answer, Unparsed):
            return "" if self._task.answers == "open" else UNPARSED
        return clean(answer.value)

    def write_predictions(self, path: Path, predictions: Mapping[str, str]) -> None:
        """See :class:`~mug_eval.benchmarks.benchmark.Benchmark`. Every cell is quoted."""
        rows = [row for row in self._rows.values() if row.index in predictions]
        letters = sorted({letter for row in rows for letter, _ in row.options})
        divided = ["category"] if any(row.category for row in rows) else []
        text = io.StringIO(newline="")
        sheet = csv.writer(text, delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n")
        sheet.writerow(["index", "answer", *divided, *letters, "prediction"])
        for row in rows:
            options = dict(row.options)
            cells = [row.index, references_text(self._task.answers, row.gold), *([row.category] if divided else [])]
            sheet.writerow([*cells, *(options.get(letter, "") for letter in letters), predictions[row.index]])
        atomic_write(path, text.getvalue())

    def score(self, predictions_file: Path, judge: str = _JUDGE) -> Scores:
        """Score the predictions of a file against the rows that were read, not against what the file says of them.

        Raises:
            UserError: it is no predictions file, or has a row that the benchmark does not have.
        """
        said = _predictions(predictions_file)
        strangers = said.keys() - self._rows.keys()
        if strangers:
            raise UserError(f"{predictions_file}: row {sorted(strangers)[0]!r} is none of {self.name}")
        if not said:
            raise UserError(f"{predictions_file}: no rows")
        rows = [row for row in self._rows.values() if row.index in said]
        measured = {row.index: measure(self._task.answers, said[row.index], row.gold) for row in rows}
        table = [{"split": "Overall", **self._numbers(rows, measured)}]
        for category in sorted({row.category for row in rows if row.category}):
            part = [row for row in rows if row.category == category]
            table.append({"split": category, **self._numbers(part, measured)})
        headline, categories = read_headline(self._task, table)
        extra: dict[str, Any] = {"judge": _JUDGE, "n_scored": len(rows), "categories": categories}
        return Scores({"rows": table}, headline, extra, {index: one.right for index, one in measured.items()})

    def cluster(self, index: str) -> str:
        """See :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""
        return "/".join(self._rows[index].keys[part] for part in self._task.cluster)

    def _answer_format(self, row: TextRow) -> AnswerFormat:
        return AnswerFormat("open") if self._task.answers == "open" else AnswerFormat("choice", row.options)

    def _numbers(self, rows: Sequence[TextRow], measured: Mapping[str, Measured]) -> dict[str, Any]:
        """The scores of some rows, in percent."""
        right = _percent([measured[row.index].right for row in rows])
        if self._task.answers != "open":
            return {"acc": right}
        by_dialogue: Callable[[TextRow], str] = lambda row: row.keys["dialogue"]  # noqa: E731
        dialogues = groupby(sorted(rows, key=by_dialogue), key=by_dialogue)
        return {
            "F1": _percent([measured[row.index].f1 for row in rows]),
            "HEQ-Q": right,
            "HEQ-D": _percent([all(measured[row.index].right for row in turns) for _, turns in dialogues]),
        }


def _percent(values: Sequence[float]) -> float:
    return 100 * math.fsum(values) / len(values)


def _predictions(path: Path) -> dict[str, str]:
    before = csv.field_size_limit(2**31 - 1)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", strict=True))
        found = {row["index"]: row["prediction"] for row in rows}
        if len(found) != len(rows) or None in found.values():
            raise ValueError("a row stands there twice or lacks a cell")
        return found
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise UserError(f"{path}: not a predictions file ({type(error).__name__}: {error})") from error
    finally:
        csv.field_size_limit(before)
