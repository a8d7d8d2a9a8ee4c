"""The formats by name, and one way to write them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from mug_eval.atomic import atomic_write
from mug_eval.errors import UserError
from mug_eval.leaderboard.entry import damaged
from mug_eval.leaderboard.submit import hallusionbench, hub, mmmu, mmstar, openvlm, pope
from mug_eval.leaderboard.submit.source import Written, check_run, open_source
from mug_eval.statistics.runs import Run

FORMATS: Mapping[str, frozenset[str]] = {
    "openvlm": frozenset({"meta"}),
    "hf": frozenset({"hub_dataset", "hub_task", "source_url"}),
    "mmmu": frozenset({"data_file"}),
    "hallusionbench": frozenset({"data_file", "questions"}),
    "pope": frozenset({"data_file", "questions", "keep_unparsed"}),
    "mmstar": frozenset({"data_file"}),
}
"""Name -> the options that mean something to it."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user said beside the run and the format.

    Attributes:
        rehearsal: questions that are not the published ones will do.
        data_file: the benchmark's table, where the run did not keep it.
        questions: the authors' own questions: a file (hallusionbench) or a folder (pope).
        keep_unparsed: write answers that are none where the format would count them as one.
        meta: YAML with what the OpenVLM leaderboard wants to know of a model.
        hub_dataset: the benchmark's id on the hub.
        hub_task: the task's id there.
        source_url: where the run can be read.
    """

    rehearsal: bool = False
    data_file: Path | None = None
    questions: Path | None = None
    keep_unparsed: bool = False
    meta: Path | None = None
    hub_dataset: str | None = None
    hub_task: str | None = None
    source_url: str | None = None


def make_submission(runs: Sequence[Run], to: str, options: Options) -> Written:
    """A run's answers, or several runs' scores (openvlm), in a format.

    Args:
        runs: complete, as they were read.
        to: a name of ``FORMATS``.
        options: what else was said.

    Raises:
        UserError: runs that the format does not take or whose files are damaged, or options that mean nothing to it.
    """
    try:
        return _make(runs, to, options)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(runs[0], error) from error


def _make(runs: Sequence[Run], to: str, options: Options) -> Written:
    for entry in fields(Options):
        if entry.name != "rehearsal" and entry.name not in FORMATS[to] and getattr(options, entry.name) not in (None, False):
            raise UserError(f"--{entry.name.replace('_', '-')} means nothing to {to}; leave it out")
    if to == "openvlm":
        tasks = {
            run.benchmark: check_run(run, tuple(openvlm.NAMES), openvlm.LEADERBOARD, rehearsal=options.rehearsal) for run in runs
        }
        return openvlm.write(runs, {name: task.upstream for name, task in tasks.items()}, options.meta)
    if len(runs) != 1:
        raise UserError(f"{to} takes one run, and here are {len(runs)}: name <work-dir>/<model>/<benchmark>")
    (run,) = runs
    if to == "hf":
        task = check_run(run, tuple(hub.DATASETS), hub.LEADERBOARD, rehearsal=options.rehearsal)
        return hub.write(run, task.upstream, dataset=options.hub_dataset, task=options.hub_task, source_url=options.source_url)
    module = {"mmmu": mmmu, "hallusionbench": hallusionbench, "pope": pope, "mmstar": mmstar}[to]
    task = check_run(run, module.UPSTREAM, module.LEADERBOARD, rehearsal=options.rehearsal)
    source = open_source(run, task, options.data_file)
    if to == "pope":
        return pope.write(source, questions=options.questions, keep_unparsed=options.keep_unparsed)
    if to == "hallusionbench":
        return hallusionbench.write(source, questions=options.questions, rehearsal=options.rehearsal)
    return mmmu.write(source) if to == "mmmu" else mmstar.write(source)


def save(written: Written, out: Path | None) -> list[Path]:
    """Write the files: one to ``out`` (or, if that is a folder, into it), several into the folder ``out``; without it, here.

    Raises:
        UserError: several files, and ``out`` is a file.
        RunStopped: the disk is full.
    """
    if len(written.files) > 1:
        folder = out or Path()
        if folder.exists() and not folder.is_dir():
            raise UserError(f"--out {out}: {len(written.files)} files are written, so it must be a folder")
        places = {folder / name: content for name, content in written.files.items()}
    else:
        ((name, content),) = written.files.items()
        places = {out / name if out and out.is_dir() else out or Path(name): content}
    for path, content in places.items():
        atomic_write(path, content)
    return list(places)
