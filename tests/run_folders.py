"""Result folders written on the spot, in the layout of mug_eval/results.py."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mug_eval.results import SCHEMA, items_tsv


def cost(calls: float = 1.0, prompt: float | None = 100.0, completion: float | None = 10.0, seconds: float = 0.5) -> dict[str, Any]:
    return {"calls": calls, "prompt_tokens": prompt, "completion_tokens": completion, "images": calls, "seconds": seconds}


def game(index: str, **changes: Any) -> dict[str, Any]:
    """A line of games.jsonl of a direct answer."""
    usage = {"calls": 1, "prompt_tokens": 100, "completion_tokens": 10, "images": 1, "seconds": 0.5, "calls_without_usage": 0}
    whole = {"index": index, "prediction": "A", "answer": {"value": "A"}, "raw": "Answer: A", "ended": "answered"}
    return {**whole, "facts": {}, "events": [], "calls": [], "usage": usage, **changes}


def write_run(
    work_dir: Path,
    right: Mapping[str, bool],
    clusters: Mapping[str, str] | None = None,
    *,
    model: str = "direct-toy",
    method: str | None = None,
    benchmark: str = "ScenesMCQ",
    seed: int = 0,
    rows: Mapping[str, Mapping[str, str]] | None = None,
    headline: Mapping[str, float] | None = None,
    games: Sequence[Mapping[str, Any]] | None = None,
    config: Mapping[str, Any] | None = None,
    judge: str = "exact_matching",
    limit: int | None = None,
    price: Mapping[str, Any] | None = None,
    scorer: str = "0.0.20",
) -> Path:
    """``<work_dir>/<model>/<benchmark>``: by default multiple choice, gold always A, each question a cluster of its own."""
    folder = work_dir / model / benchmark
    folder.mkdir(parents=True)
    if rows is None:
        options = {"A": "yes", "B": "no", "answer": "A", "category": "shape"}
        rows = {index: {**options, "prediction": "A" if hit else "B"} for index, hit in right.items()}
    with (folder / "predictions.tsv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(
            file, ["index", *next(iter(rows.values()))], delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n"
        )
        writer.writeheader()
        writer.writerows({"index": index, **row} for index, row in rows.items())
    own = {index: index for index in right} if clusters is None else clusters
    (folder / "items.tsv").write_text(items_tsv(right, own.__getitem__), encoding="utf-8")
    identity = {
        "method": method or model.split("-")[0],
        "config": {},
        "backbone": {"kind": "openai", "model": "toy"},
        "preset": "native",
        "sampling": {"temperature": None},
        "image_size": None,
        "seed": seed,
        "benchmark": benchmark,
        "dataset_sha256": "d" * 64,
        **(config or {}),
    }
    said = headline if headline is not None else {"Overall": 100 * sum(right.values()) / len(right)}
    scores = {"schema": SCHEMA, "headline": dict(said), "missing": 0, "judge": judge, "cost": dict(price or cost())}
    (folder / "scores.json").write_text(json.dumps(scores))
    run = {
        "schema": SCHEMA,
        "model": model,
        "benchmark": benchmark,
        "config": identity,
        "limit": limit,
        "judge": judge,
        "versions": {"ms-vlmeval": scorer},
    }
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "plan.json").write_text(json.dumps(identity))
    lines = [game(index) for index in right] if games is None else games
    (folder / "games.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
