"""A result folder as statistics read it: each question's verdict and cluster, and what the run cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mug_eval.errors import UserError


@dataclass(frozen=True, slots=True)
class Run:
    """One model on one benchmark, complete.

    Attributes:
        folder: ``<work-dir>/<model>/<benchmark>``.
        model: ``mug-qwen``.
        benchmark: ``POPE``.
        right: question index -> whether the scorer took the answer for right.
        clusters: question index -> which questions it depends on.
        scores: ``scores.json``.
        run: ``run.json``.
    """

    folder: Path
    model: str
    benchmark: str
    right: Mapping[str, bool]
    clusters: Mapping[str, str]
    scores: Mapping[str, Any]
    run: Mapping[str, Any]

    @property
    def cost(self) -> Mapping[str, float | None]:
        """Means a question: calls, prompt_tokens, completion_tokens, images, seconds."""
        cost: Mapping[str, float | None] = self.scores["cost"]
        return cost

    def games(self) -> Iterator[dict[str, Any]]:
        """The lines of ``games.jsonl``, one in memory at a time."""
        with (self.folder / "games.jsonl").open("rb") as file:
            for line in file:
                yield json.loads(line)


def read_run(folder: Path) -> Run:
    """Read a result folder.

    Raises:
        UserError: no run is there, it is not complete, or a file of it is damaged.
    """
    if not (folder / "run.json").is_file():
        state = "is not complete: give its command again" if (folder / "plan.json").is_file() else "holds no run"
        raise UserError(f"{folder} {state}; a run is <work-dir>/<model>/<benchmark>")
    try:
        run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        scores = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
        _head, *lines = (folder / "items.tsv").read_text(encoding="utf-8").splitlines()
        right, clusters = {}, {}
        for line in lines:
            index, cluster, hit = line.split("\t")
            right[json.loads(index)] = {"0": False, "1": True}[hit]
            clusters[json.loads(index)] = json.loads(cluster)
        return Run(folder, run["model"], run["benchmark"], right, clusters, scores, run)
    except FileNotFoundError as error:
        raise UserError(f"{error.filename}: no such file, though the run is marked complete; give its command again") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{folder}: a file of this run is damaged ({type(error).__name__}: {error}); give its command again"
        ) from error
