"""A comparison as JSON: everything that the tables show and what they leave out; the same bytes for the same runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from mug_eval.statistics.compare import Comparison, Scored
from mug_eval.statistics.cost import Control, tokens
from mug_eval.statistics.runs import Group

SCHEMA = 1


def comparison_json(comparison: Comparison, *, seed: int, resamples: int, permutations: int) -> str:
    """The whole comparison.

    Args:
        comparison: what was found.
        seed: of the draws.
        resamples: of the bootstrap.
        permutations: of the test.
    """
    whole = {
        "schema": SCHEMA,
        "seed": seed,
        "resamples": resamples,
        "permutations": permutations,
        "runs": [plain(one) for one in comparison.scored],
        "comparisons": [plain(one) for one in comparison.compared],
        "notes": list(comparison.notes),
    }
    return json.dumps(whole, indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """Dataclasses as objects, a number that is none as null; runs by what they are, without where they lie."""
    if isinstance(value, Group):
        return _group(value)
    if isinstance(value, Control):
        model = None if value.group is None else value.group.model
        return {"model": model, "ratio": value.ratio, "same_budget": value.same_budget, "wanted": value.wanted}
    if is_dataclass(value) and not isinstance(value, type):
        found = {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
        if isinstance(value, Scored):
            found["cost"] = {**value.group.cost, "tokens": tokens(value.group)}
        return found
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _group(group: Group) -> dict[str, Any]:
    run = group.runs[0]
    return {
        "model": group.model,
        "benchmark": group.benchmark,
        "method": group.method,
        "backbone": plain(run.config["backbone"]),
        "seeds": list(group.seeds),
        "dataset_sha256": run.config["dataset_sha256"],
        "image_size": run.config["image_size"],
        "judge": run.scores.get("judge"),
    }
