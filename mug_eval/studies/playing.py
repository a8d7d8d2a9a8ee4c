"""A study's arms as jobs of a plan, and the result folders in which they end.

Every arm has a folder of its own in one work-dir, so that all share its journal: a call that one arm has made is not asked again
by another, nor by another study. Seeds other than 0 have work-dirs of their own beside it, as ``mug-eval compare`` wants them.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mug_eval.ablations import AUTO
from mug_eval.benchmarks import Task, load_task, task_names
from mug_eval.configuration import parse_set
from mug_eval.errors import UserError
from mug_eval.methods import methods
from mug_eval.names import unknown
from mug_eval.plan import Job, Plan, find_method, make_plan
from mug_eval.results import ResultFolder
from mug_eval.studies.study import Arm, Format, Study


@dataclass(frozen=True, slots=True)
class Key:
    """Which runs of a study are meant: all seeds of them."""

    backbone: str
    benchmark: str
    arm: str


@dataclass(frozen=True, slots=True)
class Casting:
    """A study with everything that the user chose.

    Attributes:
        study: what is played; its arms are those chosen.
        backbones: as named, a model's folder without where it lies.
        benchmarks: as named.
        seeds: of the runs.
        plans: one a seed.
        folders: the result folder of every run, one a seed.
        jobs: what is played into each folder.
        pictures: benchmark -> folder of altered pictures, where there is one.
    """

    study: Study
    backbones: tuple[str, ...]
    benchmarks: tuple[str, ...]
    seeds: tuple[int, ...]
    plans: tuple[Plan, ...]
    folders: Mapping[Key, tuple[Path, ...]]
    jobs: Mapping[Path, Job]
    pictures: Mapping[str, Path]


def cast(study: Study, args: argparse.Namespace, common: argparse.Namespace) -> Casting:
    """Resolve what the user typed.

    Args:
        study: what is to be played.
        args: ``backbone``, ``data``, ``counterfactuals``, ``seeds``, ``only``, ``work_dir`` of ``mug-eval study``.
        common: options of ``mug-eval run`` that hold for every arm; what is played is filled in.

    Raises:
        UserError: an unknown name, a setting or a picture folder that does not fit.
    """
    study = _chosen(study, args.only)
    if not args.backbone:
        raise UserError("say which model plays: --backbone NAME or KIND:NAME (mug-eval list names them)")
    benchmarks = tuple(args.data or study.benchmarks)
    for name in benchmarks:
        _check_format(study, name)
    for what, given in (("--backbone", args.backbone), ("--data", benchmarks), ("--seeds", args.seeds)):
        doubled = next((one for one in given if given.count(one) > 1), None)
        if doubled is not None:
            raise UserError(f"{what} names {doubled} twice; keep one")
    for item in common.data_file or []:
        if item.partition("=")[0] not in benchmarks:
            raise UserError(f"--data-file {item}: write NAME=TSV with a NAME of --data ({', '.join(benchmarks)})")
    pictures = _pictures(args.counterfactuals or [], benchmarks)
    _check_pictures(study, benchmarks, pictures, args)
    settings = _settings(study, common.set or [])
    shown = {name: _shown(name) for name in args.backbone}
    if len(set(shown.values())) < len(shown):
        raise UserError(f"--backbone names two folders that are called alike ({', '.join(shown.values())}): rename one")
    plans: list[Plan] = []
    folders: dict[Key, tuple[Path, ...]] = {}
    every: dict[Path, Job] = {}
    for seed in args.seeds:
        work_dir = args.work_dir if seed == 0 else args.work_dir.with_name(f"{args.work_dir.name}-seed-{seed}")
        jobs: dict[Path, Job] = {}
        first: Plan | None = None
        for backbone in args.backbone:
            for benchmark in benchmarks:
                for arm in study.arms:
                    plan = _arm_plan(arm, backbone, benchmark, seed, work_dir, common, pictures.get(benchmark), settings)
                    first = first or plan
                    job = replace(plan.jobs[0], model=f"{plan.jobs[0].model}{arm.suffix}")
                    folder = ResultFolder.of(work_dir, job).path
                    jobs[folder] = job
                    key = Key(shown[backbone], benchmark, arm.label)
                    folders[key] = (*folders.get(key, ()), folder)
        assert first is not None
        plans.append(replace(first, jobs=tuple(jobs.values())))
        every.update(jobs)
    return Casting(study, tuple(shown.values()), benchmarks, tuple(args.seeds), tuple(plans), folders, every, pictures)


def _shown(backbone: str) -> str:
    """A backbone's name in tables: where somebody keeps a model's folder is nobody's business."""
    kind, colon, name = backbone.partition(":")
    return f"{kind}:{Path(name).name}" if colon and Path(name).expanduser().is_dir() else backbone


def _chosen(study: Study, only: Sequence[str] | None) -> Study:
    if not only:
        return study
    labels = [arm.label for arm in study.arms]
    for label in only:
        if label not in labels:
            raise UserError(unknown(f"arm of {study.name}", label, labels))
    return replace(study, arms=tuple(arm for arm in study.arms if arm.label in only))


def _arm_plan(
    arm: Arm,
    backbone: str,
    benchmark: str,
    seed: int,
    work_dir: Path,
    common: argparse.Namespace,
    pictures: Path | None,
    settings: Mapping[str, Sequence[str]],
) -> Plan:
    """One run as ``mug-eval run`` would plan it, with all of its checks."""
    args = argparse.Namespace(**vars(common))
    method = find_method(arm.method)[0].name
    args.model = [arm.model(backbone)]
    args.data = [benchmark]
    args.data_file = [item for item in common.data_file or [] if item.partition("=")[0] == benchmark]
    args.set = [*settings[""], *settings.get(method, ()), *(f"{method}.{name}={value}" for name, value in arm.changed.items())]
    args.seed, args.work_dir = seed, work_dir
    args.counterfactuals = pictures
    return make_plan(args)


def _settings(study: Study, given: Sequence[str]) -> dict[str, list[str]]:
    """What the user set, by method; ``""`` for what holds for all. Arms of other methods must not be refused for it."""
    played = {find_method(arm.method)[0].name for arm in study.arms}
    parse_set(given)
    found: dict[str, list[str]] = {"": []}
    for setting in given:
        space, _, rest = setting.strip().partition(".")
        if space in methods() and space not in played:
            raise UserError(f"--set {setting}: {space} is not played in {study.name} (played: {', '.join(sorted(played))})")
        name = rest.partition("=")[0].strip()
        taken = [arm.label for arm in study.arms if find_method(arm.method)[0].name == space and name in arm.settings]
        if taken:
            raise UserError(f"--set {setting}: the study itself sets {space}.{name} ({', '.join(taken)}); leave it out")
        found.setdefault(space if space in methods() else "", []).append(setting)
    return found


def _check_format(study: Study, name: str) -> None:
    if name not in task_names():
        raise UserError(unknown("benchmark", name, task_names()))
    if not fits(study.accepts, load_task(name)):
        fitting = ", ".join(other for other in task_names() if fits(study.accepts, load_task(other)))
        raise UserError(f"{study.name} reads benchmarks in {study.accepts}'s format ({fitting}), and {name} is not")


def fits(accepts: Format, task: Task) -> bool:
    """Whether a benchmark is in a format."""
    return accepts == "any" or task.upstream == accepts


def _pictures(given: Sequence[str], benchmarks: Sequence[str]) -> dict[str, Path]:
    """``DIR`` for all benchmarks, or ``NAME=DIR`` for one."""
    found: dict[str, Path] = {}
    for item in given:
        name, equals, path = item.partition("=")
        named = bool(equals) and name in task_names()
        if named and name not in benchmarks:
            raise UserError(f"--counterfactuals {item}: {name} is not in --data ({', '.join(benchmarks)})")
        place = Path(path if named else item).expanduser()
        if str(place) != AUTO and not place.is_dir():
            raise UserError(f"--counterfactuals {place}: no such folder")
        for benchmark in [name] if named else benchmarks:
            if benchmark in found:
                raise UserError(f"--counterfactuals gives {benchmark} two folders; keep one")
            found[benchmark] = place
    return found


def _check_pictures(study: Study, benchmarks: Sequence[str], pictures: Mapping[str, Path], args: argparse.Namespace) -> None:
    needing = [arm.label for arm in study.arms if arm.needs_pictures]
    lacking = [name for name in benchmarks if name not in pictures]
    if needing and lacking:
        raise UserError(
            f"{study.name} plays MUG with altered pictures, and {', '.join(lacking)} has none: --counterfactuals [NAME=]DIR "
            "(mug-eval counterfactuals build makes them; mug-eval scenes writes its own), or auto"
        )
    if AUTO in map(str, pictures.values()) and (len(args.backbone) > 1 or len(args.seeds) > 1):
        raise UserError(
            "--counterfactuals auto plans with the backbone and seed that play, and here are several: build them once with mug-eval "
            "counterfactuals build, and give that folder"
        )
