"""VLMEvalKit's own scorers, from scratch each time, their tables as JSON and headline numbers."""

from __future__ import annotations

import errno
import math
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from mug_eval.benchmarks import vlmeval
from mug_eval.benchmarks.benchmark import Scores
from mug_eval.benchmarks.task import Task
from mug_eval.errors import RunStopped, UserError

EXACT_MATCHING = "exact_matching"
"""VLMEvalKit's name for scoring without a language model."""

_ROW_TABLES = (("*_auxmatch.tsv", "score"), ("*_result.tsv", "hit"))
"""Where the yes/no and the multiple-choice scorers of ms-vlmeval 0.0.20 write each row's verdict."""


def score_predictions(task: Task, dataset: Any, predictions_file: Path, judge: str, work_dir: Path) -> Scores:
    """Run ``dataset.evaluate`` on a copy of the predictions in a fresh folder (it reuses whatever result files it finds).

    Args:
        task: which of the scorer's numbers are the results.
        dataset: the instance of VLMEvalKit's class.
        predictions_file: the exchange TSV.
        judge: ``exact_matching``, or a model that VLMEvalKit's ``build_judge`` knows.
        work_dir: where the folder is made.

    Raises:
        UserError: the judge does not answer; the file cannot be read; the scorer fails.
        RunStopped: the disk is full.
    """
    settings: dict[str, Any] = {"model": judge, "nproc": 4}
    if judge != EXACT_MATCHING:
        check_judge(judge)
        settings |= {"retry": 3, "verbose": False}
    # VLMEvalKit derives its file names by replacing ".tsv" wherever it stands in the path.
    parent = None if ".tsv" in str(work_dir.resolve()) else work_dir
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".scoring-", dir=parent))
    except OSError as error:
        raise RunStopped(f"cannot make a folder for scoring in {work_dir}: {error.strerror}") from error
    try:
        copy = folder / f"mug_eval_{dataset.dataset_name}.tsv"
        try:
            shutil.copyfile(predictions_file, copy)
            scored = pd.read_csv(copy, sep="\t", usecols=lambda name: name in ("index", "prediction", task.explode))
        except FileNotFoundError as error:
            raise UserError(f"{predictions_file}: no such file") from error
        except ValueError as error:
            raise UserError(f"{predictions_file}: not a predictions file ({error})") from error
        with vlmeval.environment(PRED_FORMAT="tsv", EVAL_FORMAT="csv"), vlmeval.quiet():
            result = dataset.evaluate(str(copy), **settings)
        right = _right(folder)
    except UserError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunStopped(f"the disk is full: {folder.parent} has no room for scoring") from error
        raise UserError(f"{task.name}: scoring {predictions_file} failed: {error}") from error
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise UserError(f"{task.name}: VLMEvalKit's scorer failed on {predictions_file}: {type(error).__name__}: {said}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = _rows(result)
    headline, categories = read_headline(task, rows)
    extra: dict[str, Any] = {"judge": judge, "n_scored": len(scored), "categories": categories}
    if task.explode is not None:
        extra |= {"n_unique": len(scored), "n_exploded": sum(1 + str(cell).count(",") for cell in scored[task.explode])}
    return Scores({"rows": rows}, headline, extra, right)


def check_judge(judge: str) -> None:
    """Ask the judge for one word: VLMEvalKit itself goes on with exact matching, and says so only in a warning.

    Raises:
        UserError: the judge cannot be built (no key) or does not answer.
    """
    build_judge = vlmeval.load("vlmeval.dataset.utils.judge_util").build_judge
    with vlmeval.quiet():
        try:
            model = build_judge(model=judge, retry=2, wait=0.2, timeout=60, verbose=False)
            said = model.generate("hello")
            works = isinstance(said, str) and bool(said) and model.fail_msg.strip() not in said
        except Exception:
            # Their messages can hold the key.
            works = False
    if not works:
        raise UserError(
            f"the judge {judge!r} does not answer: set OPENAI_API_KEY (and OPENAI_API_BASE to a server's /chat/completions), "
            f"or use --judge {EXACT_MATCHING}"
        )


def _right(folder: Path) -> dict[str, bool]:
    """Which rows the scorer took for right, from the table of all rows that it leaves beside its scores.

    Raises:
        UserError: there is no such table.
    """
    for pattern, column in _ROW_TABLES:
        for path in sorted(folder.glob(pattern)):
            table = pd.read_csv(path, sep="\t", dtype={"index": str}, usecols=["index", column])
            # A row that is counted once for each of its categories is right in all of them or in none.
            return {index: bool(value) for index, value in zip(table["index"], table[column], strict=True)}
    raise UserError("VLMEvalKit's scorer left no table of the rows that it scored: is this another version than setup.cfg names?")


def _rows(result: Any) -> list[dict[str, Any]]:
    """A scorer's DataFrame or dictionary as JSON rows, in an order that does not depend on PYTHONHASHSEED."""
    records = result.to_dict("records") if isinstance(result, pd.DataFrame) else [dict(result)]
    rows = [{str(key).strip(): _plain(value) for key, value in record.items()} for record in records]
    return sorted(rows, key=lambda row: (row.get("split") != "Overall", str(row.get("split"))))


def _plain(value: Any) -> Any:
    """A cell as JSON has it; NaN is null."""
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value.strip() if isinstance(value, str) else value


def read_headline(task: Task, rows: list[dict[str, Any]]) -> tuple[dict[str, float], dict[str, dict[str, float | None]]]:
    """The headline numbers and the categories' numbers of a scorer's table, in percent.

    Raises:
        UserError: the table does not hold what the task file says.
    """
    told = task.scores
    column, value = told.row
    main = next((row for row in rows if str(row.get(column)) == value), None)
    if main is None:
        raise UserError(f"{task.name}: the scorer's table has no row with {column} = {value}")

    def numbers(row: dict[str, Any]) -> dict[str, float | None]:
        found = {ours: _scaled(row.get(theirs), told.scale) for ours, theirs in told.numbers}
        for ours, parts in told.means:
            values = [found[part] for part in parts]
            found[ours] = None if None in values else math.fsum(number for number in values if number is not None) / len(values)
        return found

    headline = {}
    for name, number in numbers(main).items():
        if number is None:
            raise UserError(f"{task.name}: the scorer's table has no number for {name}")
        headline[name] = number
    if told.categories == "rows":
        return headline, {str(row.get(column)): numbers(row) for row in rows if row is not main}
    shown = {column, *(theirs for _, theirs in told.numbers)}
    (ours, _), *_ = told.numbers
    return headline, {name: {ours: _scaled(number, told.scale)} for name, number in sorted(main.items()) if name not in shown}


def _scaled(number: Any, scale: float) -> float | None:
    return number * scale if isinstance(number, (int, float)) else None
