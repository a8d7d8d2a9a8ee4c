"""OpenVLM leaderboard: a model's row of OpenVLM.json, ``{"time": ..., "results": {model: {"META": ..., benchmark: scores}}}``.

Read by the leaderboard's gen_table.py (the space opencompass/open_vlm_leaderboard): of META it takes ``Method`` (name and address),
``Parameters`` (``7B``, or empty where unknown), ``Language Model``, ``Vision Model``, ``OpenSource`` and ``Verified`` (``Yes`` or ``No``);
of a benchmark every number by name, sorted by ``Overall``. Scores are VLMEvalKit's own, in percent with one decimal, by its names for rows
and columns; an answer that is none was counted as wrong by them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mug_eval.configuration import load_config
from mug_eval.errors import UserError
from mug_eval.json_fields import Fields
from mug_eval.leaderboard.private import private_parts
from mug_eval.leaderboard.submit.source import Written
from mug_eval.statistics.runs import Run

LEADERBOARD = "the OpenVLM leaderboard"
NAMES = {"POPE": "POPE", "MMStar": "MMStar", "HallusionBench": "HallusionBench", "MMMU_DEV_VAL": "MMMU_VAL"}
"""VLMEvalKit's name of a published set -> the leaderboard's."""

META = ("Method", "Parameters", "Language Model", "Vision Model", "Org", "OpenSource")
_OVERALL = {"POPE": "F1", "MMStar": "Overall", "HallusionBench": "Avg", "MMMU_DEV_VAL": "validation"}
"""Which of our headline numbers the leaderboard calls Overall."""


def write(runs: Sequence[Run], upstream: Mapping[str, str], meta_file: Path | None) -> Written:
    """The row of one model.

    Args:
        runs: of one model, each on another benchmark, all checked.
        upstream: our name of each benchmark -> VLMEvalKit's.
        meta_file: YAML with what a run does not know, the fields of ``META``; ``Method`` is a list of name and address.

    Raises:
        UserError: runs of several models or of one benchmark twice, or a META that is not one.
    """
    models = {run.model for run in runs}
    if len(models) > 1:
        raise UserError(f"a row is of one model, and these runs are of {', '.join(sorted(models))}")
    scores: dict[str, dict[str, float]] = {}
    for run in runs:
        name = upstream[run.benchmark]
        if NAMES[name] in scores:
            raise UserError(f"two runs are on {NAMES[name]}; name one")
        scores[NAMES[name]] = _scores(run, name)
    finished = max(str(run.run["finished"]) for run in runs)
    meta = _meta(meta_file, finished[:10].replace("-", "/"))
    time = re.sub(r"\D", "", finished[:19])
    row = {"META": meta, **{name: scores[name] for name in NAMES.values() if name in scores}}
    whole = {"time": time, "results": {meta["Method"][0]: row}}
    notes = []
    unparsed = sum(int(run.scores["unparsed"]) for run in runs)
    if unparsed:
        notes.append(f"{unparsed} answers are none and were counted as wrong by VLMEvalKit's scorers")
    missing = [name for name in NAMES.values() if name not in scores]
    if missing:
        notes.append(f"not in the row: {', '.join(missing)}")
    notes.append("the leaderboard's maintainers evaluate a model again before they list it: Verified is No")
    return Written({"OpenVLM.json": (json.dumps(whole, indent=2) + "\n").encode()}, tuple(notes))


def _scores(run: Run, name: str) -> dict[str, float]:
    """The headline, and for multiple choice the categories, each of which is one number there."""
    headline = run.scores["headline"]
    found = {"Overall": headline[_OVERALL[name]], **{key: value for key, value in headline.items() if key != _OVERALL[name]}}
    if name in ("MMStar", "MMMU_DEV_VAL"):
        for category, numbers in run.scores["categories"].items():
            found[category] = next(iter(numbers.values()))
    wrong = [key for key, value in found.items() if not isinstance(value, int | float) or not 0 <= value <= 100]
    if wrong:
        raise UserError(f"{run.folder}/scores.json: {wrong[0]} is no percentage; give the run's command again")
    return {key: round(value, 1) for key, value in found.items()}


def _meta(path: Path | None, date: str) -> dict[str, Any]:
    wanted = (
        'Method: [NAME, "https://..."], Parameters: "7B" (or ""), Language Model: TEXT, Vision Model: TEXT, Org: TEXT, '
        'OpenSource: "Yes" or "No"'
    )
    if path is None:
        raise UserError(f"openvlm needs --meta FILE, YAML with what a run does not know: {wanted}")
    try:
        meta = Fields(load_config(path), path)
    except UserError as error:
        raise UserError(str(error).replace("--config", "--meta", 1)) from None
    method = meta.items("Method", lambda item: isinstance(item, str) and bool(item.strip()), f"name and address ({wanted})", 2)
    if len(method) != 2 or not re.fullmatch(r"https?://[^\s<>\"']+", method[1]) or re.search(r"[<>]", method[0]):
        raise meta.wrong("Method", "must be the model's name and its address")
    found: dict[str, Any] = {"Method": list(method), "Parameters": meta.text("Parameters", r"(?:[0-9]+(?:\.[0-9]+)?B)?")}
    for name in ("Language Model", "Vision Model", "Org"):
        found[name] = meta.text(name, r"[^\x00-\x1f<>]+")
    found |= {"Time": date, "Verified": "No", "OpenSource": meta.text("OpenSource", "Yes|No")}
    meta.done()
    for field, what in private_parts(found):
        raise meta.wrong(field, f"holds {what}, which must not be published")
    return found
