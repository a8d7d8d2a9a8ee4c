"""One row of the board: what was played, what came out, what it cost, and how to play it again. Written once, never changed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mug_eval.atomic import atomic_write
from mug_eval.benchmarks import load_task
from mug_eval.configuration import config_hash
from mug_eval.errors import UserError
from mug_eval.json_fields import Fields, opened, read_json
from mug_eval.leaderboard.private import private_parts
from mug_eval.leaderboard.reproduce import command_of
from mug_eval.statistics.bootstrap import RESAMPLES, resample
from mug_eval.statistics.cost import tokens
from mug_eval.statistics.definition import sums_of
from mug_eval.statistics.runs import Group, Run, by_seed, named_folders, read_run
from mug_eval.statistics.scores import scores_of

SCHEMA = 1
"""Version of the layout."""

NAME = r"[A-Za-z0-9][A-Za-z0-9._@-]*"
_SHA256 = r"[0-9a-f]{64}"
_DATE = r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_LINK = re.compile(r"https://[^\s<>\"'`|]+|(?!/)(?!.*\.\.)[A-Za-z0-9._/@#=&?-]+")
_INTERVALS = ("wilson", "t", "bootstrap")
_COST = ("calls", "prompt_tokens", "completion_tokens", "tokens", "images", "seconds")
_SETTINGS = ("method", "backbone", "benchmark", "decoding", "resolution", "counterfactuals", "seeds", "limit", "judge")
_ROUNDING = 1e-6


def make_entry(group: Group, samples: Sequence[str] = (), before: str | None = None) -> dict[str, Any]:
    """The row of finished runs that differ in nothing but their seed.

    Args:
        group: the runs.
        samples: links to games: ``https://...``, or paths within the leaderboard's folder.
        before: the command that makes the table and the pictures, where they are made and not downloaded.

    Returns:
        The row, valid by :func:`check_entry`. The same runs give the same row.

    Raises:
        UserError: a run that is not complete or whose files are damaged, or something in it that must not be published.
    """
    try:
        entry = _entry(group, samples, before)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(group.runs[0], error) from error
    check_entry(entry, Path(f"{entry['id']}.json"))
    return entry


def make_entries(
    places: Sequence[Path], samples: Sequence[str] = (), before: str | None = None
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of all runs that a user named, as far as they can be rows.

    Args:
        places: as :func:`named_folders` takes them.
        samples: see :func:`make_entry`.
        before: see :func:`make_entry`.

    Returns:
        The rows, and why there is none of the other runs, one line each. A row stands for all seeds that were named: where one of
        them cannot be read there is none of the others alone.

    Raises:
        UserError: no run is named, or one twice.
    """
    runs: list[Run] = []
    refused: list[str] = []
    broken: set[tuple[str, str]] = set()
    for folder in named_folders(places):
        try:
            runs.append(read_run(folder))
        except UserError as error:
            refused.append(str(error))
            broken.add((folder.resolve().parent.name, folder.resolve().name))
    entries: list[dict[str, Any]] = []
    for group in by_seed(runs):
        try:
            if (group.model, group.benchmark) in broken:
                raise UserError(f"{group.runs[0].folder}: another seed of it cannot be read, and a row is of all that are named")
            entries.append(make_entry(group, samples, before))
        except UserError as error:
            refused.append(str(error))
    return entries, refused


def damaged(run: Run, error: Exception) -> UserError:
    """The one line for a run whose files do not say what runs say."""
    return UserError(
        f"{run.folder}: run.json or scores.json is damaged or of an older version ({type(error).__name__}: {error}); play it again"
    )


def _entry(group: Group, samples: Sequence[str], before: str | None) -> dict[str, Any]:
    run = group.runs[0]
    for one in group.runs:
        whole(one)
    if len(set(group.clusters)) < 2:
        raise UserError(f"{run.folder}: all questions are of one cluster, which gives no interval; play more of them")
    sums = [sums_of(one) for one in group.runs]
    drawn = None if all(sums[0].plain) else resample([sums], 0, RESAMPLES)[0]
    published = is_published(run)
    method, ablation = {"name": run.config["method"], "config": run.config["config"]}, run.config.get("ablation")
    entry: dict[str, Any] = {
        "schema": SCHEMA,
        "model": run.model,
        "method": {**method, "ablation": ablation, "sha256": run.config["method_sha256"]},
        "backbone": {"identity": run.config["backbone"], "revision": run.config["fingerprint"]},
        "benchmark": {"name": run.benchmark, "sha256": run.config["dataset_sha256"], "published": published},
        "counterfactuals": run.config.get("counterfactuals"),
        "decoding": {"preset": run.config["preset"], **run.config["sampling"]},
        "resolution": run.config["image_size"],
        "seeds": list(group.seeds),
        "limit": run.run["limit"],
        "judge": run.scores["judge"],
        "scores": [_score(name, score) for name, score in scores_of(group, sums, drawn).items()],
        "questions": len(group.indices),
        "clusters": len(set(group.clusters)),
        "unparsed": [one.scores["unparsed"] for one in group.runs],
        "cost": {**{name: _rounded(value) for name, value in group.cost.items()}, "tokens": _rounded(tokens(group))},
        "versions": run.run["versions"],
        "command": (f"{before} && " if before else "") + command_of(group, published=published),
        "samples": list(samples),
        "date": max(one.run["finished"] for one in group.runs)[:10],
    }
    entry["config_sha256"] = _settings_hash(entry)
    entry["id"] = f"{run.model}_{run.benchmark}_{entry['config_sha256'][:8]}"
    entry["sha256"] = config_hash(entry)
    return entry


def is_published(run: Run) -> bool:
    """Whether a run's table has as many rows as the published one (what it was loaded from says so in the run's notes)."""
    return not load_task(run.benchmark).drawn and not any("rows, where the published" in note for note in run.run["notes"])


def write_entry(entry: Mapping[str, Any], folder: Path) -> tuple[Path, bool]:
    """Write a row to ``<folder>/<id>.json``.

    Returns:
        The file, and whether it is new; the same row may be given twice.

    Raises:
        UserError: another row has that name.
        RunStopped: the disk is full.
    """
    path, text = folder / f"{entry['id']}.json", json.dumps(entry, indent=2, sort_keys=True, allow_nan=False) + "\n"
    if path.exists():
        if path.read_bytes() != text.encode():
            raise UserError(
                f"{path} is there with other content, and rows are not changed: if the new one is right, remove the old one in a "
                "commit that says why"
            )
        return path, False
    atomic_write(path, text)
    return path, True


def read_entries(folder: Path) -> list[dict[str, Any]]:
    """All rows of a folder, sorted by name.

    Raises:
        UserError: one is not valid; names the file and the field.
    """
    found = []
    for path in sorted(folder.glob("*")):
        if path.name.startswith("."):
            continue
        if path.suffix != ".json" or not path.is_file():
            raise UserError(f"{path}: not a row of the board (<id>.json); remove it")
        entry = read_json(path)
        try:
            check_entry(entry, path)
        except RecursionError:
            raise UserError(f"{path}: nested too deeply") from None
        found.append(entry)
    return found


def check_entry(entry: Any, file: Path) -> None:
    """See that a row is one: every field there, of its type, in its bounds, and nothing else.

    Raises:
        UserError: it is not; one line with the file and the field.
    """
    top = opened(entry, file, SCHEMA)
    model, name, settings = top.text("model", NAME), top.text("id", NAME), top.text("config_sha256", _SHA256)
    benchmark = _check_settings(top)
    _check_scores(top)
    if top.whole("clusters", 1) > top.whole("questions", 1):
        raise top.wrong("clusters", "must not be more than questions")
    unparsed = top.items("unparsed", lambda item: type(item) is int and 0 <= item <= entry["questions"], "counts, one a seed")
    if len(unparsed) != len(entry["seeds"]):
        raise top.wrong("unparsed", f"must have one number a seed ({len(entry['seeds'])})")
    _check_cost(top.fields("cost"))
    versions = top.fields("versions")
    for package in _names(entry["versions"]):
        versions.text(package, r"[A-Za-z0-9.+!_-]+")
    top.text("command")
    top.items(
        "samples", lambda item: isinstance(item, str) and bool(_LINK.fullmatch(item)), "links (https://... or a relative path)"
    )
    top.text("date", _DATE)
    content = top.text("sha256", _SHA256)
    top.done()
    for field, what in private_parts(entry):
        raise top.wrong(field, f"holds {what}, which must not be published")
    if settings != _settings_hash(entry):
        raise top.wrong("config_sha256", "is not that of the settings: they were changed by hand")
    if name != f"{model}_{benchmark}_{settings[:8]}" or file.stem != name:
        raise top.wrong("id", f"must be {model}_{benchmark}_{settings[:8]}, and the file's name too")
    if content != config_hash({key: value for key, value in entry.items() if key != "sha256"}):
        raise top.wrong("sha256", "is not that of the row: it was changed by hand; add it again from its run")


def _check_settings(top: Fields) -> str:
    method = top.fields("method")
    played, config = method.text("name", NAME), method.plain("config")
    if played == "sc" and type(config.get("k", 0)) is not int:  # it is a part of the row's name
        raise method.wrong("config.k", "must be a whole number")
    method.text_or_none("ablation", NAME)
    method.text("sha256", _SHA256)
    method.done()
    backbone = top.fields("backbone")
    identity = backbone.fields("identity")
    identity.text("kind", "openai|hf|vlmevalkit")
    identity.text("model")
    for optional in ("provider", "dtype", "sha256"):
        if identity.has(optional):
            identity.text(optional)
    identity.done()
    backbone.text("revision")
    backbone.done()
    benchmark = top.fields("benchmark")
    name = benchmark.text("name", NAME)
    benchmark.text("sha256", _SHA256)
    benchmark.flag("published")
    benchmark.done()
    pictures = top.plain_or_none("counterfactuals")
    if pictures is not None:
        inner = Fields(pictures, top.file, "counterfactuals")
        inner.text("sha256", _SHA256)
        inner.text("match", "question|image|other")
        inner.done()
    decoding = top.fields("decoding")
    decoding.text("preset", "native|paper")
    decoding.number_or_none("temperature", 0, 2)
    decoding.number_or_none("top_p", 0, 1)
    decoding.whole_or_none("top_k", 1)
    decoding.whole("max_tokens", 1)
    decoding.whole_or_none("seed")
    decoding.done()
    if top.has_none("resolution"):
        top.take("resolution")
    elif len(top.items("resolution", lambda side: type(side) is int and side >= 1, "two sides in pixels", 2)) != 2:
        raise top.wrong("resolution", "must be [width, height] or null")
    seeds = top.items("seeds", lambda seed: type(seed) is int, "whole numbers", 1)
    if list(seeds) != sorted(set(seeds)):
        raise top.wrong("seeds", "must be sorted, each once")
    top.whole_or_none("limit", 1)
    top.text("judge", r"[A-Za-z0-9._:/@-]+")
    return name


def _check_scores(top: Fields) -> None:
    seeds, names = len(top.seen("seeds")), set()
    for place, value in enumerate(top.items("scores", lambda item: isinstance(item, dict), "scores", 1)):
        score = Fields(value, top.file, f"scores[{place}]")
        name = score.text("name", NAME)
        if name in names:
            raise score.wrong("name", f"is {name} a second time")
        names.add(name)
        low, high, number = score.number("low", 0, 100), score.number("high", 0, 100), score.number("value", 0, 100)
        # Percentile intervals of a ratio may end beside a value that is 0 or 100 by rounding alone.
        if not low - _ROUNDING <= number <= high + _ROUNDING:
            raise score.wrong("value", f"must lie in its interval, and {number:g} is outside of {low:g} to {high:g}")
        score.text("interval", "|".join(_INTERVALS))
        score.number_or_none("standard_error", 0)
        each = score.items("each", lambda item: type(item) in (int, float) and 0 <= item <= 100, "percents, one a seed")
        if len(each) != seeds or abs(sum(each) / len(each) - number) > 1e-3:
            raise score.wrong("each", f"must have one number a seed ({seeds}), with value as their mean")
        score.number_or_none("spread", 0)
        score.done()


def _check_cost(cost: Fields) -> None:
    cost.number("calls", 0)
    for name in _COST[1:]:
        cost.number_or_none(name, 0)
    cost.done()


def _names(value: Any) -> list[str]:
    """The fields of an object; none if it is no object."""
    return list(value) if isinstance(value, dict) else []


def whole(run: Run) -> None:
    """See that a run may be shown: nothing owed, its games there, and written by a version that says all that a row says."""
    owed = int(run.scores.get("missing", 0))
    if owed or (run.folder / "owed.json").exists():
        raise UserError(f"{run.folder}: {owed or 'some'} questions are owed; give the run's command again until none is")
    for name in ("method_sha256", "fingerprint"):
        if not isinstance(run.config.get(name), str):
            raise UserError(f"{run.folder}/run.json: config.{name} is missing: it is of an older version; play it again")
    for name in ("finished", "notes"):
        if name not in run.run:
            raise UserError(f"{run.folder}/run.json: {name} is missing: it is of an older version; play it again")
    for _ in run.games():  # raises where one is not there: no number without its game
        pass


def _score(name: str, score: Any) -> dict[str, Any]:
    numbers = {"value": score.value, "low": score.low, "high": score.high}
    return {
        "name": name,
        **{key: round(value, 4) for key, value in numbers.items()},
        "interval": score.interval,
        "standard_error": _rounded(score.standard_error),
        "each": [round(value, 4) for value in score.each],
        "spread": _rounded(score.spread),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None or value != value else round(value, 4)


def _settings_hash(entry: Mapping[str, Any]) -> str:
    return config_hash({name: entry[name] for name in _SETTINGS})
