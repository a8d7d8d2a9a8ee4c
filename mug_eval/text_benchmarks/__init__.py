"""Benchmarks without pictures, on which CFMAD was made: read from the published files or the hub, prompted and scored here.

VLMEvalKit has no part in them. To the rest of the house they are benchmarks like any other (``benchmarks.Benchmark``).
"""

from __future__ import annotations

from pathlib import Path

from mug_eval.benchmarks.benchmark import Benchmark
from mug_eval.benchmarks.task import Task

__all__ = ["open_text"]


def open_text(task: Task, *, data_file: Path | None = None, limit: int | None = None) -> Benchmark:
    """Open a benchmark without pictures.

    Args:
        task: which one; its ``text`` says how it is read.
        data_file: a file in the published format, or None for the hub's rows.
        limit: play only so many rows.

    Raises:
        UserError: the file is missing, malformed or has rows without an answer; or the hub cannot be had.
    """
    from mug_eval.text_benchmarks.benchmark import TextBenchmark
    from mug_eval.text_benchmarks.formats import read_rows
    from mug_eval.text_benchmarks.hub import load_records
    from mug_eval.text_benchmarks.records import read_records

    records = load_records(task) if data_file is None else read_records(data_file)
    rows, notes = read_rows(task, records)
    return TextBenchmark(task, rows, sha256=records.sha256, notes=notes, limit=limit)
