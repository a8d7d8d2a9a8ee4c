"""The runs of a study as its tables read them: those that are complete, and the others by what is owed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mug_eval.errors import UserError
from mug_eval.identity import identity
from mug_eval.plan import Job
from mug_eval.statistics.comparable import check_comparable
from mug_eval.statistics.runs import Group, Run, by_seed, read_run
from mug_eval.studies.playing import Casting, Key
from mug_eval.studies.study import Arm, Study


@dataclass(frozen=True, slots=True)
class Finished:
    """A study after it was played.

    Attributes:
        casting: what was to be played.
        groups: the complete runs, the seeds of each together.
        owed: the others, with what is owed in words.
    """

    casting: Casting
    groups: Mapping[Key, Group]
    owed: Mapping[Key, str]

    @property
    def study(self) -> Study:
        """What was played."""
        return self.casting.study

    def places(self, benchmark: str) -> Iterator[tuple[str, Arm, Group | None]]:
        """Every backbone and arm on a benchmark, in the order of the table; None where the run is owed."""
        for backbone in self.casting.backbones:
            for arm in self.study.arms:
                yield backbone, arm, self.groups.get(Key(backbone, benchmark, arm.label))

    def why(self, backbone: str, benchmark: str, arm: Arm) -> str:
        """What is owed of a run that is not complete."""
        return self.owed[Key(backbone, benchmark, arm.label)]


def read_finished(casting: Casting) -> Finished:
    """Read the result folders of a study.

    Raises:
        UserError: a file of a complete run is damaged, or two runs answered other questions (another ``--limit`` came in between).
    """
    groups: dict[Key, Group] = {}
    owed: dict[Key, str] = {}
    for key, folders in casting.folders.items():
        runs = {folder: read_run(folder) for folder in folders if (folder / "run.json").is_file()}
        usable = [run for folder, run in runs.items() if _as_planned(run, casting.jobs[folder], casting.plans[0].allow_missing)]
        if len(usable) < len(folders):
            owed[key] = _owed(folders, len(usable), other=len(usable) < len(runs))
            continue
        found = by_seed(usable)
        if len(found) > 1:
            raise UserError(f"{folders[0]} and {folders[1]} differ in more than their seed: give the study's command again")
        groups[key] = found[0]
    for benchmark in casting.benchmarks:
        beside = [group for key, group in groups.items() if key.benchmark == benchmark]
        for group in beside[1:]:
            check_comparable(beside[0].runs[0], group.runs[0])
    return Finished(casting, groups, owed)


def _as_planned(run: Run, job: Job, allow_missing: bool) -> bool:
    """Whether a complete run is the one that is meant: another command may have left one of other questions or settings."""
    wanted = identity(job)
    same = all(
        run.config.get(name) == wanted[name]
        for name in ("method", "config", "backbone", "preset", "sampling", "image_size", "seed")
    )
    same = same and run.run.get("judge", job.judge) == job.judge
    return same and run.run["limit"] == job.limit and (allow_missing or int(run.scores["missing"]) == 0)


def _owed(folders: tuple[Path, ...], usable: int, *, other: bool) -> str:
    if other:
        return "complete with another --limit or --judge, other settings or questions left out"
    if len(folders) > 1:
        return f"{usable} of {len(folders)} seeds complete"
    games = _games(folders[0])
    return f"{games} games played, not complete" if games else "not played"


def _games(folder: Path) -> int:
    try:
        with (folder / "games.jsonl").open("rb") as lines:
            return sum(line.endswith(b"\n") for line in lines)
    except OSError:
        return 0
