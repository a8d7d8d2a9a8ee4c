"""Numbers that papers report, to stand beside measured ones. They enter no mean, no difference and no test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

MARK = "reported"


@dataclass(frozen=True, slots=True)
class Reported:
    """One line of the paper: a backbone and an arm on a benchmark.

    Attributes:
        backbone: as the paper names it.
        arm: by our name.
        benchmark: by our name.
        values: score -> value, in the paper's order.
    """

    backbone: str
    arm: str
    benchmark: str
    values: Mapping[str, float]


@cache
def source() -> str:
    """Where the numbers are from, in a line."""
    paper = _file()
    return f"{paper['title']}, {paper['source']}, published {paper['published']}, {paper['url']}"


def short_source() -> str:
    """The same for a cell."""
    return str(_file()["source"])


@cache
def reported(study: str) -> tuple[Reported, ...]:
    """What the paper reports for a study; nothing for most of ours."""
    lines: dict[tuple[str, str, str], dict[str, float]] = {}
    for one in _file()["numbers"]:
        if one["study"] == study:
            lines.setdefault((one["backbone"], one["arm"], one["benchmark"]), {})[one["score"]] = one["value"]
    return tuple(Reported(*key, values) for key, values in lines.items())


@cache
def _file() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("reported.json").read_text(encoding="utf-8"))
    return found
