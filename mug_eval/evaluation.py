"""A plan -> result folders: lock the work-dir, play every job, score it, mark it complete."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mug_eval.atomic import atomic_write
from mug_eval.backbones.catalogue import open_backbone
from mug_eval.benchmarks import Benchmark, check_judge, load_task, open_benchmark
from mug_eval.building import BuildPlan, open_source, run_build
from mug_eval.chat import ChatModel
from mug_eval.counterfactual.editor_catalogue import parse_editor
from mug_eval.counterfactual.folder import MANIFEST, CounterfactualFolder
from mug_eval.engine.budget import Budget
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.games import GamesFile
from mug_eval.engine.journal import Journal
from mug_eval.engine.lock import work_dir_lock
from mug_eval.engine.runner import Owed, PlayStopped, Setting, play_questions
from mug_eval.errors import RunStopped
from mug_eval.identity import identity
from mug_eval.plan import Job, Plan
from mug_eval.progress import Reporter, ScoreRow, open_reporter, score_table
from mug_eval.results import ResultFolder, Tally, items_tsv, method_fingerprint, run_json, scores_json, unless_repeated, write_json
from mug_eval.termination import run_until_terminated

_NO_JUDGE = "its predictions are canonical, so no judge is asked: scored with exact_matching"

OWED = 3
"""Exit code: questions are owed."""


def evaluate(plan: Plan) -> int:
    """Play and score all jobs of a plan.

    Returns:
        0 if every job is complete, 3 if questions are owed.

    Raises:
        UserError: the user's mistake; nothing is lost.
        RunStopped: the run cannot go on; what is done is kept.
    """
    if plan.dry_run:
        from mug_eval.dry_run import dry_run

        opened = _Opened(plan)
        print(dry_run(plan, opened.benchmark), end="")
        if any(job.build and opened.counterfactuals(job) is None for job in plan.jobs):
            print(
                "--counterfactuals auto builds the pictures first: at least 3 calls a question and 2 for each accepted edit, which are not "
                "in these numbers, and most games then have an undercover"
            )
        return 0
    evaluation: _Evaluation | None = None
    try:
        with work_dir_lock(plan.work_dir, plan.wait), open_reporter(quiet=plan.quiet, stream=sys.stderr) as reporter:
            evaluation = _Evaluation(plan, reporter)
            run_until_terminated(evaluation.run())
    finally:
        if evaluation is not None and evaluation.rows:
            width = shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 200
            print(score_table(evaluation.rows, width), end="")
    return OWED if evaluation.owing else 0


@dataclass(slots=True)
class _Opened:
    """Benchmarks and counterfactual folders of a plan, opened once: loading takes seconds and several models share them."""

    plan: Plan
    _benchmarks: dict[tuple[Any, ...], Benchmark] = field(default_factory=dict)
    _folders: dict[tuple[Any, ...], CounterfactualFolder] = field(default_factory=dict)

    def counterfactuals(self, job: Job) -> CounterfactualFolder | None:
        """The pictures I- of a job; None if it has none or does not look at them."""
        if job.counterfactuals is None or not job.method.uses_counterfactual:
            return None
        if job.build and not _holds_pictures(job.counterfactuals):  # not built yet, or nothing was accepted
            return None
        key = (job.counterfactuals, job.image_size, job.match)
        if key not in self._folders:
            self._folders[key] = CounterfactualFolder(job.counterfactuals, size=job.image_size, match=job.match)
        return self._folders[key]

    def benchmark(self, job: Job) -> Benchmark:
        """The benchmark of a job, its questions with that job's pictures."""
        folder = self.counterfactuals(job)
        key = (job.benchmark, job.data_file, job.image_size, job.limit, folder and (job.counterfactuals, job.match))
        if key not in self._benchmarks:
            self._benchmarks[key] = open_benchmark(
                load_task(job.benchmark),
                work_dir=self.plan.work_dir,
                data_file=job.data_file,
                image_size=job.image_size,
                limit=job.limit,
                counterfactuals=folder,
            )
        return self._benchmarks[key]


@dataclass(slots=True)
class _Evaluation:
    """One run over all jobs of a plan."""

    plan: Plan
    reporter: Reporter
    owing: bool = False
    rows: list[ScoreRow] = field(default_factory=list)
    opened: _Opened = field(init=False)
    _budget: Budget = field(init=False)
    _models: dict[tuple[Any, ...], tuple[ChatModel, Dispatcher]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.opened = _Opened(self.plan)
        self._budget = Budget(self.plan.call_budget, self.plan.token_budget)

    async def run(self) -> None:
        """Every job in order. All that can be a mistake is looked at before the first call is spent."""
        with Journal(self.plan.work_dir / "journal.sqlite") as journal:
            try:
                await self._build_counterfactuals(journal)
                await self._play(journal)
            finally:
                for model, _ in self._models.values():
                    await model.close()

    async def _build_counterfactuals(self, journal: Journal) -> None:
        """``--counterfactuals auto``: the pictures I- of the jobs, planned by the backbone that plays, edited by ``opencv``."""
        builds = {job.counterfactuals: job for job in self.plan.jobs if job.build}
        for folder, job in builds.items():
            assert folder is not None
            plan = BuildPlan(
                out=folder,
                benchmark=job.benchmark,
                planner=job.backbone,
                editor=parse_editor("opencv"),
                data_file=job.data_file,
                limit=job.limit,
                sampling=job.sampling,
                about="other" if job.ablation == "random-edit" else "question",
                seed=job.seed,
            )
            model, dispatcher = self._dispatcher(job, journal)
            source = open_source(plan, self.plan.work_dir)
            most = self.plan.calls_in_flight(job.backbone)
            built = await run_build(plan, source, dispatcher, model.fingerprint, most, self.reporter)
            self.reporter.note(f"{folder}: {built.accepted} of {built.questions} questions have a counterfactual picture")
            if built.owed and not self.plan.allow_missing:
                raise RunStopped(f"the counterfactual pictures of {len(built.owed)} questions of {job.benchmark} are owed")

    async def _play(self, journal: Journal) -> None:
        jobs = self.plan.jobs
        identities = []
        said: set[str] = set()
        for job in jobs:
            benchmark = self.opened.benchmark(job)
            judge_note = () if _judge(job) == job.judge else (_NO_JUDGE,)
            for note in (f"{job.benchmark}: {note}" for note in (*benchmark.notes, *judge_note, *_beyond_training(job))):
                if note not in said:
                    said.add(note)
                    self.reporter.note(note)
            identities.append(self._identity(job, benchmark))
        for judge in sorted({_judge(job) for job in jobs}):
            await asyncio.to_thread(check_judge, judge)
        for job in jobs:
            self._dispatcher(job, journal)
        for job, mine in zip(jobs, identities, strict=True):
            ResultFolder.of(self.plan.work_dir, job).begin(mine)
        for job, mine in zip(jobs, identities, strict=True):
            await self._play_and_score(job, mine, journal)

    def _identity(self, job: Job, benchmark: Benchmark) -> dict[str, Any]:
        folder = self.opened.counterfactuals(job)
        mine = identity(job, dataset_sha256=benchmark.sha256, counterfactuals_sha256="" if folder is None else folder.sha256)
        return {**mine, "method_sha256": method_fingerprint(job.method)}

    def _dispatcher(self, job: Job, journal: Journal) -> tuple[ChatModel, Dispatcher]:
        """One dispatcher a backbone, so that limits and budgets hold over all of its jobs.

        A model in this process is loaded once, by whatever name and with whatever decoding settings it is played.
        """
        backbone = job.backbone
        key = ("hf", backbone.model, backbone.device, backbone.dtype) if backbone.kind == "hf" else (backbone, job.sampling)
        if key not in self._models:
            plan = self.plan
            most = plan.calls_in_flight(backbone)
            model = open_backbone(backbone, concurrency=most, timeout=plan.timeout, sampling=job.sampling)
            policy = DispatchPolicy(
                concurrency=most,
                timeout=plan.timeout,
                retries=plan.retries,
                patience=plan.patience,
                seed=job.seed,
            )
            self._models[key] = model, Dispatcher(model, journal, policy, self._budget)
        return self._models[key]

    async def _play_and_score(self, job: Job, mine: dict[str, Any], journal: Journal) -> None:
        started = datetime.now(UTC).isoformat(timespec="seconds")
        benchmark = self.opened.benchmark(job)
        folder = ResultFolder.of(self.plan.work_dir, job)
        model, dispatcher = self._dispatcher(job, journal)
        before = folder.recorded()
        folder.reopen()
        stopped: PlayStopped | None = None
        with GamesFile(folder.games) as games:
            wanted = set(benchmark.indices)
            answered = ["value" in record["answer"] for record in games if record["index"] in wanted]
            progress = self.reporter.job(
                job.title,
                len(wanted),
                done=len(answered),
                unparsed=answered.count(False),
                traffic=lambda: dispatcher.statistics,
            )
            try:
                setting = Setting(job.method, job.config, job.sampling, job.seed)
                owed = await play_questions(
                    benchmark,
                    setting,
                    dispatcher,
                    games,
                    games_in_flight=self.plan.calls_in_flight(job.backbone),
                    on_done=progress.on_done,
                )
            except PlayStopped as error:
                stopped, owed = error, list(error.owed)
                progress.owed = len(owed)
            finally:
                self.reporter.close(progress)
            if owed:
                self._owe(job, folder, owed)
            if stopped and not self.plan.allow_missing:
                raise stopped
            games.rewrite(benchmark.indices)
            tally = Tally.over(games.record(index) for index in benchmark.indices if index in games)
            without = _played_without(job, tally)
            for note in without:
                self.reporter.note(f"{job.title}: {note}")
            predictions = {index: games.record(index)["prediction"] for index in benchmark.indices if index in games}
        headline: dict[str, float] = {}
        if predictions and (self.plan.allow_missing or not owed):
            benchmark.write_predictions(folder.predictions, predictions)
            scores = await asyncio.to_thread(benchmark.score, folder.predictions, _judge(job))
            headline = scores.headline
            atomic_write(folder.items, items_tsv(scores.right, benchmark.cluster))
            write_json(folder.scores, scores_json(job, scores, tally, len(owed)))
            notes = [
                *benchmark.notes,
                *_beyond_training(job),
                *without,
                *getattr(model, "notes", ()),
                *_counterfactual_notes(self.opened.counterfactuals(job)),
            ]
            finished = datetime.now(UTC).isoformat(timespec="seconds")
            record = run_json(
                job,
                {**mine, "fingerprint": model.fingerprint},
                tally,
                notes,
                command=sys.argv,
                rows=len(benchmark.indices),
                missing=len(owed),
                started=started,
                finished=finished,
            )
            write_json(folder.run, unless_repeated(record, before))
        self.rows.append(_row(job, tally, headline, len(owed)))
        if stopped:
            raise stopped

    def _owe(self, job: Job, folder: ResultFolder, owed: Sequence[Owed]) -> None:
        """List what is owed, in full in ``owed.json`` and in short on stderr."""
        self.owing = True
        for one in owed[:5]:
            self.reporter.note(f"{job.title}: question {one.index} is owed: {one.reason}")
        if len(owed) > 5:
            self.reporter.note(f"{job.title}: and {len(owed) - 5} more, listed in {folder.owed}")
        try:
            write_json(folder.owed, [{"index": one.index, "reason": one.reason} for one in owed])
        except RunStopped as error:  # what is owed follows from the games, so the list may be missing; why the run stopped may not
            self.reporter.note(str(error))


def _beyond_training(job: Job) -> tuple[str, ...]:
    """The shipped model answers everything, and knows one small world: its numbers elsewhere must not be taken for a method's."""
    if not job.backbone.shipped or load_task(job.benchmark).drawn:
        return ()
    return (
        f"{job.backbone.name} was trained on drawn scenes only (mug-eval scenes): what it answers here is guessing, and says nothing of "
        "a method",
    )


def _played_without(job: Job, tally: Tally) -> tuple[str, ...]:
    """A method that lives on altered pictures and got none is another method: said aloud, not only counted."""
    without = tally.ended["no_counterfactual_picture"]
    if not without:
        return ()
    more = "" if job.counterfactuals else "; give --counterfactuals DIR"
    if job.counterfactuals and job.ablation == "random-edit":
        more = "; a store built with --about other (or --counterfactuals auto) holds edits of what a question is not about"
    return (f"{without} of {tally.questions} questions had no counterfactual picture and were played without an undercover{more}",)


def _holds_pictures(store: Path) -> bool:
    try:
        return (store / MANIFEST).stat().st_size > 0
    except OSError:
        return False


def _judge(job: Job) -> str:
    """Who reads the predictions.

    Ours are ``Yes``, ``No`` or unparsed, and upstream asks a judge about an unparsed one up to five times, ever hotter, until it says Yes
    or No (vlmeval.dataset.utils.yorn: YOrN_auxeval): a default answer by another name (validity rule 4). Text benchmarks compare letters
    and words.
    """
    task = load_task(job.benchmark)
    return "exact_matching" if task.answers == "yes_no" or task.text is not None else job.judge


def _row(job: Job, tally: Tally, headline: dict[str, float], owed: int) -> ScoreRow:
    cost = tally.cost()
    return ScoreRow(
        model=job.model,
        benchmark=job.benchmark,
        headline=headline,
        questions=tally.questions,
        calls=cost["calls"],
        prompt_tokens=cost["prompt_tokens"],
        completion_tokens=cost["completion_tokens"],
        images=cost["images"],
        seconds=cost["seconds"],
        unparsed=tally.unparsed,
        owed=owed,
    )


def _counterfactual_notes(folder: CounterfactualFolder | None) -> tuple[str, ...]:
    return () if folder is None else tuple(folder.notes)
