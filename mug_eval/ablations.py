"""The controls of MUG, and which pictures each is played with."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mug_eval.errors import UserError
from mug_eval.methods import Method

ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "no-counterfactual": {"no_counterfactual": True},
    "no-undercover": {"no_undercover": True},
    "random-edit": {},
    "identical": {"identical": True},
}
"""By name: the settings of ``mug`` that it fixes. ``random-edit`` is the full game over other pictures."""
AUTO = "auto"
"""In the place of a folder of counterfactuals: build them first."""


def split_ablation(name: str) -> tuple[str, str | None]:
    """``mug-qwen@identical`` -> (``mug-qwen``, ``identical``); other names stay as they are."""
    model, at, ablation = name.rpartition("@")
    return (model, ablation) if at and ablation in ABLATIONS else (name, None)


def split_arm(name: str) -> tuple[str, str]:
    """``mug-qwen@agents-4``, the folder of a study's arm -> (``mug-qwen``, ``agents-4``); "" for a name without one."""
    found = re.fullmatch(r"(.+)@([a-z_]+-[A-Za-z0-9._-]+)", name)
    return (found[1], found[2]) if found and found[2] not in ABLATIONS else (name, "")


def pictures_of(args: argparse.Namespace, method: Method, ablation: str | None, benchmark: str) -> dict[str, Any]:
    """Where a job's pictures I- come from and which of them it takes, as fields of ``plan.Job``.

    Args:
        args: the options of a run.
        method: that is played.
        ablation: of it, or None.
        benchmark: that is played.

    Raises:
        UserError: pictures that do not fit the ablation.
    """
    random_edit = ablation == "random-edit"
    if random_edit and args.counterfactual_match != "question":
        raise UserError("--counterfactual-match image cannot be had with random-edit, which needs to know what each edit is about")
    if args.counterfactuals is None:
        return {"match": args.counterfactual_match}
    if str(args.counterfactuals) == AUTO:
        if not method.uses_counterfactual or ablation in ("no-counterfactual", "no-undercover"):
            return {"match": args.counterfactual_match}
        folder = args.work_dir / "counterfactuals" / (f"{benchmark}@random-edit" if random_edit else benchmark)
        return {"counterfactuals": folder, "match": args.counterfactual_match, "build": True}
    about = _about(args.counterfactuals)
    if about == "other" and not random_edit and method.uses_counterfactual:
        raise UserError(
            f"{args.counterfactuals} was built with --about other, of what questions are not about: play it with --ablation random-edit"
        )
    match = "other" if random_edit and about != "other" else args.counterfactual_match
    return {"counterfactuals": args.counterfactuals, "match": match}


def _about(folder: Path) -> str | None:
    """What the edits of a store are about; None for a folder that is no store of ours."""
    try:
        build = json.loads((folder / "build.json").read_bytes())
    except (OSError, ValueError):
        return None
    return str(build.get("about")) if isinstance(build, dict) else None
