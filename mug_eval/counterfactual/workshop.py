"""Who takes part in a build of counterfactual pictures, and what of it the pictures depend on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from mug_eval.chat import Sampling
from mug_eval.counterfactual.boxes import Frame
from mug_eval.counterfactual.constraints import Judges, Rule
from mug_eval.counterfactual.editors.editor import Editor
from mug_eval.engine.dispatcher import Dispatcher

About = Literal["question", "other"]


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to try.

    Attributes:
        plans: most plans for a question.
        tries: most seeds of each plan.
        check_flip: whether the planner answers the question over I+ and over I- in the end, to see whether its answer changes.
    """

    plans: int = 3
    tries: int = 2
    check_flip: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.plans <= 20 or not 1 <= self.tries <= 20:
            raise ValueError("plans and tries must lie in 1..20")


@dataclass(frozen=True, slots=True)
class Workshop:
    """Who takes part in a build, and how.

    Attributes:
        dispatcher: the way to the planner.
        planner: its fingerprint, for the record.
        frame: in which it states boxes.
        sampling: its decoding.
        editor: what changes pictures.
        judges: which features judge them.
        rule: when a picture is accepted.
        effort: how long to try.
        about: edits of what the ``question`` is about, or of something ``other`` (``--ablation random-edit``).
        seed: of every draw.
        questions_at_once: most questions in work; as many pictures are in memory.
        editor_threads: how many edits, or batches of them, at a time.
    """

    dispatcher: Dispatcher
    planner: str
    frame: Frame
    sampling: Sampling
    editor: Editor
    judges: Judges
    rule: Rule
    effort: Effort = field(default_factory=Effort)
    about: About = "question"
    seed: int = 0
    questions_at_once: int = 16
    editor_threads: int = 1


def identity(shop: Workshop, benchmark: str, dataset_sha256: str, planner: Mapping[str, Any]) -> dict[str, Any]:
    """What the pictures of a store depend on (``build.json``), as JSON values. How many at a time is no part of it, nor the limit.

    Args:
        shop: who takes part.
        benchmark: its name.
        dataset_sha256: of its TSV.
        planner: which model, as JSON values (``BackboneSpec.identity``).
    """
    return {
        "benchmark": benchmark,
        "dataset_sha256": dataset_sha256,
        "about": shop.about,
        "planner": {**planner, "boxes": shop.frame.name, "sampling": asdict(shop.sampling)},
        "editor": shop.editor.fingerprint,
        "features": shop.judges.provenance(),
        "rule": asdict(shop.rule),
        "effort": asdict(shop.effort),
        "seed": shop.seed,
        "code_sha256": _code_sha256(),
    }


def _code_sha256() -> str:
    """Of the modules that choose and judge edits: a store is not continued by another version of them."""
    here = Path(__file__).parent
    names = (
        "boxes build change constraints examples frechet planner planning_prompts question_types scene_graph unrelated whereabouts"
    )
    digest = hashlib.sha256()
    for name in names.split():
        digest.update((here / f"{name}.py").read_bytes())
    return digest.hexdigest()
