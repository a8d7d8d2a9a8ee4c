"""Hugging Face: a file of ``.eval_results/`` of the model's repository, from which the hub fills a benchmark's leaderboard.

The format is huggingface.co/docs/hub/eval-results: a list of ``{dataset: {id, task_id}, value, date, source: {url, name}, notes}``. The
data set must be one that the hub counts as a benchmark, and task_id one of its eval.yaml: both change there, so both are the user's to
say. The protocol stands in ``notes``: the number is the model's with it, not the model's alone.
"""

from __future__ import annotations

import re

import yaml

from mug_eval.errors import UserError
from mug_eval.leaderboard.private import private_parts
from mug_eval.leaderboard.submit.source import Written
from mug_eval.statistics.runs import Run

LEADERBOARD = "the Hugging Face hub"
DATASETS = {
    "POPE": "lmms-lab/POPE",
    "MMStar": "Lin-Chen/MMStar",
    "HallusionBench": "lmms-lab/HallusionBench",
    "MMMU_DEV_VAL": "MMMU/MMMU",
}
"""VLMEvalKit's name of a published set -> where it is on the hub."""

_SCORES = {"POPE": "F1", "MMStar": "Overall", "HallusionBench": "Avg", "MMMU_DEV_VAL": "validation"}
_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def write(run: Run, upstream: str, *, dataset: str | None, task: str | None, source_url: str | None) -> Written:
    """The file.

    Args:
        run: a checked run.
        upstream: VLMEvalKit's name of its benchmark.
        dataset: the hub's id of the benchmark; None for the known one.
        task: the task's id within it.
        source_url: where the run can be read; None for no source.

    Raises:
        UserError: no task, or an id or address that is none.
    """
    dataset = dataset or DATASETS[upstream]
    if task is None:
        raise UserError(f"hf needs --hub-task ID: the task's id in eval.yaml of huggingface.co/datasets/{dataset}")
    if not _ID.fullmatch(dataset) or not re.fullmatch(r"[\w.:-]+", task):
        raise UserError(f"--hub-dataset is OWNER/NAME and --hub-task one word, not {dataset!r} and {task!r}")
    if source_url is not None and not re.fullmatch(r"https://[^\s<>\"']+", source_url):
        raise UserError(f"--source-url {source_url!r}: write the whole https:// address")
    config, calls = run.config, float(run.scores["cost"]["calls"])
    name = _SCORES[upstream]
    parts = [
        f"{run.model}: protocol {config['method']}, {calls:.1f} calls a question",
        f"{name} by VLMEvalKit (ms-vlmeval {run.run['versions'].get('ms-vlmeval')}), {run.scores['judge']}",
        f"{len(run.rows)} questions, {run.scores['unparsed']} without an answer counted as wrong",
    ]
    entry = {
        "dataset": {"id": dataset, "task_id": task},
        "value": round(float(run.scores["headline"][name]), 2),
        "date": str(run.run["finished"])[:10],
        **({"source": {"url": source_url, "name": "mug_eval run"}} if source_url else {}),
        "notes": "; ".join(parts),
    }
    for field, what in private_parts(entry):
        raise UserError(f"the entry's {field} holds {what}, which must not be published")
    text = yaml.safe_dump([entry], sort_keys=False, allow_unicode=True, width=1000)
    notes = (
        f"put it into .eval_results/ of the model's repository; {dataset} must be a benchmark of the hub with the task {task}",
    )
    return Written({f"{upstream.lower()}_{config['method']}.yaml": text.encode()}, notes)
