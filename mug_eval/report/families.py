"""The runs below a folder, put beside those that they can be compared with, with the numbers that statistics has for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mug_eval.errors import UserError
from mug_eval.names import unknown
from mug_eval.report.plain_text import without_places
from mug_eval.statistics.bootstrap import resample
from mug_eval.statistics.comparable import obstacles
from mug_eval.statistics.compare import Compared, Scored, compare
from mug_eval.statistics.definition import sums_of
from mug_eval.statistics.games import game_statistics
from mug_eval.statistics.paired import Paired, compare_hits
from mug_eval.statistics.runs import Group, Run, folders_below, no_folder, read_run
from mug_eval.statistics.scores import scores_of


@dataclass(frozen=True, slots=True)
class Shown:
    """A run that gets pages.

    Attributes:
        run: its files.
        slug: its name in file names and links; safe in both.
        label: its name on pages: the model, with the folder below OUT (and the seed) where two would look the same.
        scored: its scores and games.
        compared: its difference from the run that its family is held against; None for that run itself.
    """

    run: Run
    slug: str
    label: str
    scored: Scored
    compared: Compared | None


@dataclass(frozen=True, slots=True)
class Family:
    """Runs on the same questions, seen and scored alike, with the same backbone.

    Attributes:
        members: the run that the others are held against first.
        notes: what a reader should know.
    """

    members: tuple[Shown, ...]
    notes: tuple[str, ...] = ()

    @property
    def base(self) -> Shown:
        """The run that the others are held against."""
        return self.members[0]


@dataclass(slots=True)
class Found:
    """What lies below OUT.

    Attributes:
        families: of the complete runs.
        left_out: (folder below OUT, why it has no page).
    """

    families: list[Family] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)


def find_families(out: Path, against: str | None = None, *, seed: int = 0) -> Found:
    """Read every run below a folder.

    A run that is not complete or cannot be read is listed with the reason; it hinders no other.

    Args:
        out: a folder of result folders at any depth, or one of them.
        against: the model that the others are held against; None takes ``direct`` or else the run with the fewest calls.
        seed: of all draws.

    Raises:
        UserError: there is no such folder, no run in it, or no run of the model that ``against`` names.
    """
    if not out.is_dir():
        raise UserError(f"{out}: {no_folder(out)}; give a work-dir, <work-dir>/<model>/<benchmark>, or a folder of work-dirs")
    out = out.resolve()
    found = Found()
    runs: list[tuple[str, Run]] = []
    for folder in folders_below(out):
        name = "/".join(folder.parts[-2:]) if folder == out else folder.relative_to(out).as_posix()
        try:
            runs.append((name, read_run(folder)))
        except UserError as error:
            found.left_out.append((name, without_places(str(error))))
    if not runs and not found.left_out:
        raise UserError(f"{out}: no run there (no plan.json); play one with mug-eval run --work-dir {out}")
    models = [run.model for _, run in runs]
    if against is not None and against not in models:
        raise UserError(unknown("model", against, sorted(set(models))))
    slugs = _slugs([name for name, _ in runs])
    labels = {name: label for members in _families(runs) for name, label in _labels(members).items()}
    for members in _families(runs):
        _add_families(found, members, labels, slugs, against, seed)
    return found


def regroup(found: Found, family: Family, without: Shown, against: str | None = None, *, seed: int = 0) -> list[Family]:
    """The families of the other runs of a family, where one of them turns out to be damaged; what cannot be shown is left out.

    Args:
        found: told what is left out.
        family: whose numbers may be held against the damaged run.
        without: the damaged run.
        against: as in :func:`find_families`.
        seed: of all draws.
    """
    rest = [(member.slug, member.run) for member in family.members if member is not without]
    own = Found()
    if rest:
        labels = {member.slug: member.label for member in family.members}
        _add_families(own, rest, labels, {slug: slug for slug in labels}, against, seed)
    found.left_out += own.left_out
    return own.families


def _add_families(
    found: Found,
    members: Sequence[tuple[str, Run]],
    labels: Mapping[str, str],
    slugs: Mapping[str, str],
    against: str | None,
    seed: int,
) -> None:
    """Runs that may be compared as one family, without those that are damaged: they must not take the others' pages."""
    try:
        found.families.append(_family(members, labels, slugs, against, seed))
        return
    except UserError as error:
        said = f"not compared: {without_places(str(error))}"
    alone: list[Family] = []
    sound: list[tuple[str, Run]] = []
    for name, run in members:
        try:
            alone.append(_family([(name, run)], labels, slugs, None, seed))
            sound.append((name, run))
        except UserError as error:
            found.left_out.append((name, without_places(str(error))))
    if 0 < len(sound) < len(members):
        _add_families(found, sound, labels, slugs, against, seed)
    else:  # each is sound, and still they cannot be held against each other
        found.families += [Family(one.members, (*one.notes, said)) for one in alone]


def fixed_and_broken(one: Run, other: Run) -> Paired:
    """Two runs of one family, question by question."""
    order = list(one.right)
    return compare_hits([one.right[i] for i in order], [other.right[i] for i in order], [one.clusters[i] for i in order])


def _slugs(names: Sequence[str]) -> dict[str, str]:
    """Letters, digits, dots and dashes only, so that a slug is the same in a file name and in a link; unique without case too."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        slug = re.sub(r"[^A-Za-z0-9.-]+", "_", name.replace("/", "--"))[-120:].strip(".-_") or "run"
        whole, number = slug, 2
        while whole.lower() in taken:
            whole, number = f"{slug}_{number}", number + 1
        taken.add(whole.lower())
        found[name] = whole
    return found


def _families(runs: Sequence[tuple[str, Run]]) -> list[list[tuple[str, Run]]]:
    families: list[list[tuple[str, Run]]] = []
    for name, run in runs:
        mine = next((family for family in families if _alike(family[0][1], run)), None)
        if mine is None:
            families.append([(name, run)])
        else:
            mine.append((name, run))
    return families


def _alike(one: Run, other: Run) -> bool:
    return Group((one,)).backbone == Group((other,)).backbone and not obstacles(one, other)


def _labels(members: Sequence[tuple[str, Run]]) -> dict[str, str]:
    """A run's name among its family."""
    labels = {name: run.model for name, run in members}
    for name, run in members:
        same = [other for other, theirs in members if theirs.model == run.model]
        if len(same) > 1:
            seeds = {theirs.seed for other, theirs in members if other in same}
            labels[name] = f"{run.model}, seed {run.seed}" if len(seeds) == len(same) else f"{run.model} ({name.rsplit('/', 2)[0]})"
    return labels


def _family(
    members: Sequence[tuple[str, Run]], labels: Mapping[str, str], slugs: Mapping[str, str], against: str | None, seed: int
) -> Family:
    order = sorted(members, key=lambda member: _rank(member[1], against))
    groups = [Group((run,)) for _, run in order]
    notes: tuple[str, ...] = ()
    if len(groups) == 1:
        scored, compared = [_alone(groups[0], seed)], []
    else:
        comparison = compare(groups[1:], groups[:1], seed=seed)
        scored = [comparison.scored[-1], *comparison.scored[:-1]]  # compare() puts what is compared with last
        compared = [pair for pair in comparison.compared if not pair.as_control]
        notes = tuple(without_places(note) for note in comparison.notes)
    pairs: list[Compared | None] = [None, *compared]
    shown = [Shown(run, slugs[name], labels[name], one, pair) for (name, run), one, pair in zip(order, scored, pairs, strict=True)]
    return Family(tuple(shown), notes)


def _rank(run: Run, against: str | None) -> tuple[bool, bool, float, int, str]:
    calls = run.cost["calls"]
    return run.model != against, run.config["method"] != "direct", float("inf") if calls is None else calls, run.seed, run.model


def _alone(group: Group, seed: int) -> Scored:
    """A run that has nothing beside it."""
    sums = [sums_of(group.runs[0])]
    drawn = None if all(sums[0].plain) else resample([sums], seed)[0]
    return Scored(
        group=group,
        label=group.model,
        questions=len(group.indices),
        clusters=len(set(group.clusters)),
        scores=scores_of(group, sums, drawn),
        control=None,
        frontier=True,
        games=game_statistics(group),
    )
