"""What identifies a job's games: a result folder is continued with the same identity or not at all."""

from __future__ import annotations

from typing import Any

from mug_eval.configuration import as_json
from mug_eval.plan import Job


def identity(job: Job, *, dataset_sha256: str = "", counterfactuals_sha256: str = "") -> dict[str, Any]:
    """Everything that changes a job's games, as JSON values. A folder begun under another identity must not be continued.

    Left out are the judge and the limit (they change what is scored and how many are played, not a game), and where files lie.

    Args:
        job: the job.
        dataset_sha256: of the benchmark's TSV, once it is open.
        counterfactuals_sha256: of the counterfactual folder's content.
    """
    pictures = job.method.uses_counterfactual and job.counterfactuals is not None
    return {
        **({} if job.ablation is None else {"ablation": job.ablation}),
        "method": job.method.name,
        "config": as_json(job.config),
        "backbone": job.backbone.identity,
        "preset": job.preset,
        "sampling": as_json(job.sampling),
        "image_size": list(job.image_size) if job.image_size else None,
        "seed": job.seed,
        "benchmark": job.benchmark,
        "dataset_sha256": dataset_sha256,
        "counterfactuals": {"sha256": counterfactuals_sha256, "match": job.match} if pictures else None,
    }
