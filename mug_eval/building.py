"""Builds of counterfactual pictures as the house runs them: names resolved, everything opened, one store a build."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mug_eval.backbones.catalogue import BackboneSpec
from mug_eval.benchmarks import Benchmark, load_task, open_benchmark
from mug_eval.chat import Sampling
from mug_eval.configuration import as_json, merge, resolve
from mug_eval.counterfactual.boxes import Frame, frame_of
from mug_eval.counterfactual.build import Owed, build
from mug_eval.counterfactual.constraints import Judges, Rule, default_rule, is_measured
from mug_eval.counterfactual.editor_catalogue import EditorEntry
from mug_eval.counterfactual.editors import open_editor
from mug_eval.counterfactual.features import Features, features
from mug_eval.counterfactual.store import Store
from mug_eval.counterfactual.workshop import About, Effort, Workshop, identity
from mug_eval.engine.dispatcher import Dispatcher
from mug_eval.errors import UserError
from mug_eval.progress import Reporter

PLANNER_SAMPLING = Sampling(temperature=0.0, max_tokens=1024)
DEFAULT_FEATURES = ("handmade",)
"""Need no weights; the study gives them the same rates as the trained ones that could be had (docs/counterfactuals.md)."""


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """One build.

    Attributes:
        out: the store's folder.
        benchmark: ``POPE``.
        planner: who plans.
        editor: who edits.
        data_file: a local TSV instead of the published one.
        limit: decide only that many questions.
        sampling: the planner's decoding.
        frame: in which it states boxes; by its name if None.
        features: one name for all judges, or three: of C_vs, C_sc and C_na.
        rule: fields of :class:`~mug_eval.counterfactual.constraints.Rule` that are not as measured.
        effort: how long to try.
        about: edits of what the question is about, or of something other.
        seed: of every draw.
        editor_url: of an editor's server.
        editor_threads: edits at a time.
        device: of an editor in this process.
        dtype: its number format.
        questions_at_once: most questions in work; by the other limits if None.
        retry: try again what was given up for one of these causes, for any if empty; nothing if None.
    """

    out: Path
    benchmark: str
    planner: BackboneSpec
    editor: EditorEntry
    data_file: Path | None = None
    limit: int | None = None
    sampling: Sampling = PLANNER_SAMPLING
    frame: Frame | None = None
    features: tuple[str, ...] = DEFAULT_FEATURES
    rule: Mapping[str, Any] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)
    about: About = "question"
    seed: int = 0
    editor_url: str | None = None
    editor_threads: int = 1
    device: str = "auto"
    dtype: str = "auto"
    questions_at_once: int | None = None
    retry: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """What a build came to.

    Attributes:
        questions: of the benchmark, within the limit.
        accepted: those with a picture.
        given_up: those without, for good.
        owed: those that could not be decided.
    """

    questions: int
    accepted: int
    given_up: int
    owed: tuple[Owed, ...]


def judges_named(names: Sequence[str], device: str = "cpu") -> Judges:
    """The judges by the names of their features; the same name is loaded once.

    Raises:
        UserError: neither one name nor three, an unknown one, or weights that cannot be had.
    """
    if len(names) not in (1, 3):
        raise UserError(f"--features takes one name, or three (of C_vs, C_sc and C_na), not {len(names)}")
    loaded: dict[str, Features] = {name: features(name, device) for name in dict.fromkeys(names)}
    visual, semantic, natural = (loaded[name] for name in (names if len(names) == 3 else (*names, *names, *names)))
    return Judges(visual, semantic, natural)


def open_source(plan: BuildPlan, work_dir: Path) -> Benchmark:
    """The benchmark, its pictures at their own size.

    Raises:
        UserError: as :func:`~mug_eval.benchmarks.open_benchmark`.
    """
    return open_benchmark(load_task(plan.benchmark), work_dir=work_dir, data_file=plan.data_file, limit=plan.limit)


async def run_build(
    plan: BuildPlan, source: Benchmark, dispatcher: Dispatcher, fingerprint: str, concurrency: int, reporter: Reporter
) -> Built:
    """Build, or go on building, one store.

    Args:
        plan: what to build.
        source: from :func:`open_source`.
        dispatcher: the way to the planner.
        fingerprint: the planner's.
        concurrency: most calls in flight, for the number of questions in work.
        reporter: shows how far it is.

    Raises:
        UserError: a setting that cannot be, a store that was built with others, a planner or editor that will never work.
        RunStopped: the build cannot go on; the same command continues.
    """
    judges = judges_named(plan.features)
    editor = open_editor(plan.editor, base_url=plan.editor_url, device=plan.device, dtype=plan.dtype)
    with contextlib.closing(editor):
        rule = resolve(Rule, merge(as_json(default_rule(judges)), plan.rule), where="rule")
        shop = Workshop(
            dispatcher=dispatcher,
            planner=fingerprint,
            frame=plan.frame or frame_of(plan.planner.name, plan.planner.model),
            sampling=plan.sampling,
            editor=editor,
            judges=judges,
            rule=rule,
            effort=plan.effort,
            about=plan.about,
            seed=plan.seed,
            # While an edit is made, the next ones must be planned, and a batch be ready when a thread is.
            questions_at_once=plan.questions_at_once or concurrency + 4 * editor.batch * plan.editor_threads,
            editor_threads=plan.editor_threads,
        )
        if not is_measured(judges) and "c" not in plan.rule:
            reporter.note(f"c = {rule.c:g} was measured for other features than {' '.join(plan.features)}; set rule.c for these")
        with Store(plan.out, identity(shop, source.name, source.sha256, plan.planner.identity)) as store:
            if store.lost:
                reporter.note(f"{len(store.lost)} pictures of {plan.out} are missing or damaged, and are made again")
            if plan.retry is not None:
                again = store.take_up_again(source.indices, plan.retry)
                reporter.note(f"{len(again)} questions that were given up are tried again")
            done = [index for index in source.indices if store.decided(index)]
            title = f"counterfactuals of {plan.benchmark}"
            progress = reporter.job(
                title,
                len(source.indices),
                done=len(done),
                unparsed=sum(index in store.given_up for index in done),
                traffic=lambda: dispatcher.statistics,
                lacking="without a counterfactual",
            )
            try:
                owed = await build(source, store, shop, progress.on_done)
            finally:
                reporter.close(progress)
            built = Built(
                len(source.indices),
                sum(index in store.accepted for index in source.indices),
                sum(index in store.given_up for index in source.indices),
                tuple(owed),
            )
            store.close(source.indices)
    for one in owed[:5]:
        reporter.note(f"{title}: question {one.index} is owed: {one.reason}")
    if len(owed) > 5:
        reporter.note(f"{title}: and {len(owed) - 5} more")
    return built
