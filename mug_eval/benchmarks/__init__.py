"""The only door to VLMEvalKit: load, prompt, predictions file, score, register.

Light to import: VLMEvalKit, pandas and torch are loaded when a benchmark is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mug_eval.benchmarks.benchmark import Benchmark, CounterfactualSource, FoundCounterfactual, Scores
from mug_eval.benchmarks.task import Task, load_task, task_names

__all__ = [
    "Benchmark",
    "CounterfactualSource",
    "FoundCounterfactual",
    "Scores",
    "Task",
    "check_judge",
    "load_task",
    "open_benchmark",
    "register",
    "task_names",
]


def open_benchmark(
    task: Task,
    *,
    work_dir: Path,
    data_file: Path | None = None,
    image_size: tuple[int, int] | None = None,
    limit: int | None = None,
    counterfactuals: CounterfactualSource | None = None,
) -> Benchmark:
    """Load a benchmark: with VLMEvalKit's own class, or by :mod:`mug_eval.text_benchmarks` if it has no pictures.

    Args:
        task: which one.
        work_dir: folder for the copy of a local TSV and for scoring; made if missing.
        data_file: a file in the benchmark's format, or None for the published set (downloaded by VLMEvalKit when it is not there; from
            the hub if it has no pictures).
        image_size: (width, height) in pixels to which every picture is resized, or None for its own size.
        limit: play only so many rows.
        counterfactuals: where altered pictures come from, or None to play without.

    Raises:
        UserError: the file is missing, malformed or unsafe, or the published set cannot be downloaded.
        RunStopped: the disk is full.
    """
    if task.text is not None:
        from mug_eval.text_benchmarks import open_text

        return open_text(task, data_file=data_file, limit=limit)
    from mug_eval.benchmarks.dataset import open_dataset

    return open_dataset(
        task,
        work_dir=work_dir,
        data_file=data_file,
        image_size=image_size,
        limit=limit,
        counterfactuals=counterfactuals,
    )


def check_judge(judge: str) -> None:
    """See that a judge answers, before anything is spent: VLMEvalKit itself goes on with exact matching and says so in a warning only.

    Raises:
        UserError: the judge cannot be built (no key) or does not answer.
    """
    from mug_eval.benchmarks.score import EXACT_MATCHING
    from mug_eval.benchmarks.score import check_judge as ask

    if judge != EXACT_MATCHING:
        ask(judge)


def register(models: Iterable[str] | None = None, **settings: Any) -> list[str]:
    """Put every ``<method>-<backbone>`` into VLMEvalKit's ``supported_VLM``, so that its own ``run.py`` and ``infer_data_job`` play them.

    Args:
        models: model names, or None for all methods (self-consistency as sc3, sc5, sc12) with all short backbone names.
        settings: see :func:`mug_eval.registration.register_models`.

    Returns:
        The names that were registered.

    Raises:
        UserError: an unknown name or setting, or VLMEvalKit has a model of that name already.
    """
    # The one arrow that points up: users look for this name here, and what plays a game is above this package.
    from mug_eval.registration import register_models

    return register_models(models, **settings)
