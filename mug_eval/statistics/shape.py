"""The shape of ``run.json`` and ``scores.json``, seen to once when a run is read: whoever reads a field later may trust its type."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from mug_eval.errors import UserError
from mug_eval.json_fields import Fields
from mug_eval.results import SCHEMA

_DEEPEST = 32
"""Objects within objects that a run's files may hold; what is written has a few."""

_COST = ("calls", "prompt_tokens", "completion_tokens", "images", "seconds")


def read_shaped(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """``run.json`` and ``scores.json`` of a result folder.

    Fields that nobody knows are left alone, and those that older versions did not write may lack; whoever needs one says so.

    Raises:
        UserError: a field lacks or is something else than what a run writes there; names the file and the field.
        OSError, ValueError, RecursionError: a file cannot be read, or is no JSON.
    """
    found = []
    for name, check in (("run.json", _check_run), ("scores.json", _check_scores)):
        path = folder / name
        whole = json.loads(path.read_text(encoding="utf-8"))
        try:
            top = Fields(whole, path)
            _check_layout(whole, path)
            dark = _impossible(whole)
            if dark is not None:
                raise top.wrong(*dark)
            check(top)
        except _OtherLayout as error:
            raise UserError(str(error)) from None
        except UserError as error:
            raise UserError(f"{error}: a file of this run is damaged; give its command again") from None
        found.append(whole)
    return found[0], found[1]


class _OtherLayout(UserError):
    """Not damaged, but of another version."""


def _check_layout(whole: dict[str, Any], path: Path) -> None:
    layout = whole.get("schema")
    if isinstance(layout, bool) or layout != SCHEMA:
        raise _OtherLayout(
            f"{path} has {f'layout {ascii(layout)[:20]}' if 'schema' in whole else 'no layout number'}, and this version "
            f"of mug_eval reads {SCHEMA}: use the version that wrote it, or play the run again"
        )


def _check_run(top: Fields) -> None:
    for name in ("model", "benchmark"):
        top.take(name)  # what they may be is seen to where they become names of files
    top.whole_or_none("limit", 1)
    versions = top.fields("versions")
    for package in top.seen("versions"):
        versions.text(package)
    config = top.fields("config")
    for name in ("method", "preset", "dataset_sha256"):
        config.text(name)
    for name in ("ablation", "method_sha256", "fingerprint"):
        if config.has(name):
            config.text_or_none(name)
    for name in ("config", "backbone", "sampling"):
        config.plain(name)
    if config.has("counterfactuals"):
        config.plain_or_none("counterfactuals")
    if config.has_none("image_size"):
        config.take("image_size")
    elif len(config.items("image_size", lambda side: type(side) is int and 0 < side < 10**6, "two sides in pixels")) != 2:
        raise config.wrong("image_size", "must be [width, height] or null")
    if type(config.take("seed")) is not int:
        raise config.wrong("seed", "must be a whole number")
    for name in ("judge", "started", "finished"):
        if top.has(name):
            top.text(name)
    for name in ("command", "notes"):
        if top.has(name):
            top.items(name, lambda item: isinstance(item, str), "texts")
    if top.has("counts"):
        top.plain("counts")
    if top.has("cost"):
        cost = top.fields("cost")
        for kind in ("mean", "total"):
            numbers = cost.fields(kind)
            for name in cost.seen(kind):
                numbers.number_or_none(name, 0)


def _check_scores(top: Fields) -> None:
    top.whole("missing")
    top.text("judge")
    if top.has("unparsed"):
        top.whole("unparsed")
    headline = top.fields("headline")
    for name in top.seen("headline"):
        headline.number(name)
    cost = top.fields("cost")
    for name in _COST:
        cost.number_or_none(name, 0)
    if top.has("categories"):
        categories = top.fields("categories")
        for category in top.seen("categories"):
            numbers = categories.fields(category)
            for name in categories.seen(category):
                numbers.number_or_none(name)
    if top.has("game"):
        game = top.fields("game")
        if game.has("ended"):
            ended = game.fields("ended")
            for name in game.seen("ended"):
                ended.whole(name)


def _impossible(value: Any, where: str = "", deep: int = 0) -> tuple[str, str] | None:
    """(field, what is wrong) of a value that no run writes wherever it stands: no number, or nested without end; None if all are well."""
    if isinstance(value, float) and not math.isfinite(value):
        return where, "must be a finite number"
    if deep > _DEEPEST:
        return where.split(".")[0], "is nested too deeply"
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        found = _impossible(part, f"{where}.{name}".removeprefix("."), deep + 1)
        if found is not None:
            return found
    return None
