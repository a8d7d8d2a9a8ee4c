"""Runs that must not be compared, and why."""

from __future__ import annotations

from collections.abc import Iterable

from mug_eval.errors import UserError
from mug_eval.statistics.runs import Run


def check_comparable(one: Run, other: Run) -> None:
    """See that two runs answered the same questions, saw them alike and were scored alike.

    Raises:
        UserError: they did not; says what differs.
    """
    found = obstacles(one, other)
    if found:
        raise UserError(f"{one.folder} and {other.folder} cannot be compared: {'; '.join(found)}")


def obstacles(one: Run, other: Run) -> list[str]:
    """Why two runs cannot be compared, one entry a reason; none if they can."""
    if one.benchmark != other.benchmark:
        return [f"benchmarks differ ({one.benchmark}, {other.benchmark})"]
    found = []
    if one.config["dataset_sha256"] != other.config["dataset_sha256"]:
        found.append("questions differ (they come from different data files)")
    only, lacking = len(one.right.keys() - other.right.keys()), len(other.right.keys() - one.right.keys())
    if only or lacking:
        found.append(
            f"questions differ ({len(one.right)} and {len(other.right)}; {only} only in the first, {lacking} only in the second; "
            f"--limit {_limit(one)} and {_limit(other)}, {_missing(one)} and {_missing(other)} missing)"
        )
    splits = _splits(one), _splits(other)
    if splits[0] != splits[1]:
        found.append(f"splits differ ({splits[0]}, {splits[1]})")
    sizes = _size(one), _size(other)
    if sizes[0] != sizes[1]:
        found.append(f"resolutions differ ({sizes[0]}, {sizes[1]})")
    judges = one.scores.get("judge"), other.scores.get("judge")
    if judges[0] != judges[1]:
        found.append(f"judges differ ({judges[0]}, {judges[1]})")
    scorers = one.run["versions"].get("ms-vlmeval"), other.run["versions"].get("ms-vlmeval")
    if scorers[0] != scorers[1]:
        found.append(f"scorers differ (ms-vlmeval {scorers[0]}, {scorers[1]})")
    if not found and dict(one.clusters) != dict(other.clusters):
        found.append("clusters differ (the benchmark's task file has changed in between)")
    if not found:
        changed = _changed_cell(one, other)
        if changed:
            found.append(f"{changed} differs, though both come from one data file: predictions.tsv of one of them was changed")
    return found


def _changed_cell(one: Run, other: Run) -> str:
    """The first cell of the benchmark's table that two runs on it do not have in common; "" if there is none."""
    for index, row in one.rows.items():
        theirs = other.rows[index]
        for name, cell in row.items():
            if name != "prediction" and theirs.get(name, cell) != cell:
                return f"{ascii(name)[:40]} of question {ascii(index)[:40]}"
    return ""


def caveats(one: Run, other: Run) -> list[str]:
    """What differs between two runs that can be compared, and should be known to who reads the comparison."""
    found = []
    for name in ("preset", "sampling"):
        if one.config[name] != other.config[name]:
            found.append(f"{name} differs between {one.model} and {other.model}: {_short(one, name)}, {_short(other, name)}")
    if one.config["backbone"] != other.config["backbone"]:
        found.append(f"{one.model} and {other.model} are played by different backbones")
    return found


def _short(run: Run, name: str) -> str:
    value = run.config[name]
    return " ".join(f"{key}={item}" for key, item in value.items() if item is not None) if isinstance(value, dict) else str(value)


def _limit(run: Run) -> str:
    return "none" if run.run["limit"] is None else str(run.run["limit"])


def _missing(run: Run) -> int:
    return int(run.scores["missing"])


def _splits(run: Run) -> str:
    return _listed(row.get("split", "all") for row in run.rows.values())


def _listed(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))


def _size(run: Run) -> str:
    size = run.config["image_size"]
    return "the pictures' own" if size is None else "x".join(map(str, size))
