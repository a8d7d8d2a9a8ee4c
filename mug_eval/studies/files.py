"""The files of a study: ``table.md``, ``table.csv``, ``study.json`` and ``figure.svg``, ``figure.pdf``."""

from __future__ import annotations

import json
from pathlib import Path

from mug_eval.atomic import atomic_write
from mug_eval.report.plot import draw
from mug_eval.statistics.as_json import plain
from mug_eval.studies.finished import Finished
from mug_eval.studies.outcome import Outcome, as_json, comma_separated, markdown

SCHEMA = 1


def write_files(folder: Path, finished: Finished, outcome: Outcome, extra: tuple[str, ...] = ()) -> list[Path]:
    """Write a study's files; the same finished runs give the same bytes.

    Args:
        folder: made if it is not there.
        finished: the runs.
        outcome: what was read from them.
        extra: further formats of the figure.

    Returns:
        The files.

    Raises:
        RunStopped: the disk is full.
        UserError: matplotlib is not installed (the tables are written all the same).
    """
    study = finished.study
    files: list[tuple[str, str]] = [
        ("table.md", markdown(outcome, f"{study.name}: {study.summary}")),
        ("table.csv", comma_separated(outcome)),
        ("study.json", study_json(finished, outcome)),
    ]
    written = []
    for name, text in files:
        atomic_write(folder / name, text.encode("utf-8", "backslashreplace"))
        written.append(folder / name)
    for form in ("svg", "pdf", *extra):
        path = folder / f"figure.{form}"
        if outcome.chart is None:
            path.unlink(missing_ok=True)  # of an earlier time, when there was something to draw
        else:
            atomic_write(path, draw(outcome.chart, form))
            written.append(path)
    return written


def study_json(finished: Finished, outcome: Outcome) -> str:
    """Everything, with the runs that it was read from; where they lie is named from their work-dir."""
    casting = finished.casting
    runs = []
    for key, folders in casting.folders.items():
        group = finished.groups.get(key)
        first = group.runs[0] if group is not None else None
        runs.append(
            {
                "backbone": key.backbone,
                "benchmark": key.benchmark,
                "arm": key.arm,
                "folder": "/".join(folders[0].parts[-2:]),
                "seeds": list(casting.seeds),
                "state": "complete" if group is not None else f"owed: {finished.owed[key]}",
                "questions": len(group.indices) if group is not None else None,
                "limit": casting.plans[0].jobs[0].limit,
                "config": plain(first.config) if first is not None else None,
                "cost": plain(group.cost) if group is not None else None,
            }
        )
    whole = {
        "schema": SCHEMA,
        "study": casting.study.name,
        "summary": casting.study.summary,
        "baseline": casting.study.baseline,
        "runs": runs,
        **as_json(outcome),
    }
    return json.dumps(whole, indent=2, ensure_ascii=True, allow_nan=False) + "\n"
