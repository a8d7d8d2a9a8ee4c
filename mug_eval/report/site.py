"""The whole site: index, board, run pages, game pages, their data and pictures, in one folder that opens from disk."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mug_eval.ablations import split_ablation, split_arm
from mug_eval.atomic import cannot_write
from mug_eval.errors import UserError
from mug_eval.leaderboard.board import played_otherwise
from mug_eval.plan import split_model
from mug_eval.report.board_page import render_board
from mug_eval.report.families import Family, Found, Shown, find_families, regroup
from mug_eval.report.game_page import game_files, games_html
from mug_eval.report.pictures import PictureBook, Places
from mug_eval.report.plain_text import command_line, without_places
from mug_eval.report.run_page import run_html
from mug_eval.report.templating import environment, static_text
from mug_eval.statistics.cost import tokens
from mug_eval.statistics.runs import Run

MARK = ".mug-eval-pages"
"""Says that a folder is a site of ours, which may be written anew."""

_STATIC = ("style.css", "sort.js", "game.js")
_FRESH, _PAST = ".mug-eval-fresh", ".mug-eval-past"
"""Within the folder: a site that is being written, and one whose place was taken."""

_OWN = ("index.html", "board.html", "static", "data", "img", MARK)


@dataclass(frozen=True, slots=True)
class Site:
    """What was built.

    Attributes:
        runs: how many runs have pages.
        games: how many games.
        left_out: (run, why it has no page).
    """

    runs: int
    games: int
    left_out: tuple[tuple[str, str], ...]


def build_site(
    out: Path,
    folder: Path,
    *,
    against: str | None = None,
    places: Places | None = None,
    seed: int = 0,
    note: Callable[[str], None] = lambda _: None,
) -> Site:
    """Build the pages of all runs below a folder.

    The new site is written beside the old one and takes its place when it is whole: whatever stops it before leaves the old one as
    it was. In the moment of the change there is no ``index.html``, so that a site that was cut off there does not look whole.

    Args:
        out: the result folders, at any depth.
        folder: where the site goes: a new or empty folder, or a site of ours.
        against: the model that the others are held against.
        places: where data may lie that the runs' records do not lead to.
        seed: of all draws.
        note: told what is being done, one line each.

    Raises:
        UserError: no run is there, or the folder holds something else.
        RunStopped: the disk is full.
    """
    environment()  # before anything is cleared
    if out.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{folder} holds the runs; choose another folder for the pages")
    found = find_families(out, against, seed=seed)
    _claim(folder)
    with _held(folder / MARK):
        fresh = folder / _FRESH
        try:
            _remove(fresh)
            site = _build(fresh, found, places or Places(), against, seed, note)
            _take_place(fresh, folder)
        except OSError as error:
            raise cannot_write(folder, error) from error
        finally:
            with contextlib.suppress(OSError):  # what cannot be removed now is removed by the next build
                _remove(fresh)
    return site


def _build(folder: Path, found: Found, places: Places, against: str | None, seed: int, note: Callable[[str], None]) -> Site:
    jinja = environment()
    (folder / "static").mkdir(parents=True, exist_ok=True)
    for name in _STATIC:
        _write(folder / "static" / name, static_text(name))
    with PictureBook(folder / "img", places) as book:
        todo, found.families = found.families, []
        while todo:
            family = todo.pop(0)
            damaged = _write_family(folder, family, book, note)
            if damaged is None:
                found.families.append(family)
                continue
            # Nothing may lead to a run that gets no pages, nor be held against it: the others are written anew.
            member, why = damaged
            found.left_out.append((member.slug, why))
            todo[:0] = regroup(found, family, member, against, seed=seed)
    _write(folder / "board.html", render_board(board_of(found), in_site=True))
    page = jinja.get_template("index.html").render(title="Runs", found=found, benchmarks=_benchmarks(found))
    _write(folder / "index.html", page)
    members = [member for family in found.families for member in family.members]
    return Site(len(members), sum(len(member.run.right) for member in members), tuple(found.left_out))


def _write_family(folder: Path, family: Family, book: PictureBook, note: Callable[[str], None]) -> tuple[Shown, str] | None:
    """The pages of a family's runs; or its first run that cannot be shown, and why. Of that one nothing is left."""
    for member in family.members:
        note(f"{member.label} on {member.run.benchmark}: {len(member.run.right)} games")
        try:
            _write_run(folder, member, family, book)
        except UserError as error:
            shutil.rmtree(folder / "data" / member.slug, ignore_errors=True)
            for kind in ("games", "run"):
                (folder / f"{kind}-{member.slug}.html").unlink(missing_ok=True)
            return member, without_places(str(error))
    return None


def board_of(found: Found) -> dict[str, Any]:
    """A board of the runs that were found, in the form that ``render_board`` takes."""
    rows = []
    for family in found.families:
        for member in family.members:
            name, score = next(iter(member.scored.scores.items()))
            group, run = member.scored.group, member.run
            model = run.config.get("backbone")
            rows.append(
                {
                    "id": member.slug,
                    "method": _method(member.run),
                    "backbone": without_places(str(model.get("model", ""))) if isinstance(model, dict) else "",
                    "benchmark": _questions(run, found),
                    "score_name": name,
                    "score": score.value,
                    "low": score.low if score.low == score.low else None,
                    "high": score.high if score.high == score.high else None,
                    "n": member.scored.questions,
                    "calls": group.cost["calls"],
                    "tokens": tokens(group),
                    "seconds": group.cost["seconds"],
                    "reported": False,
                    "source": "",
                    "date": str(run.run.get("finished") or "")[:10],
                    "command": command_line([str(word) for word in run.run.get("command") or []]),
                    "sample": f"run-{member.slug}.html",
                    "note": played_otherwise(run.config["preset"], run.config["image_size"], str(run.scores["judge"]), group.seeds),
                }
            )
    return {"schema": 1, "rows": rows}


def _questions(run: Run, found: Found) -> str:
    """The benchmark, and which questions of it, so that numbers over others do not stand in its column (as on the leaderboard)."""
    sha256 = str(run.config["dataset_sha256"])
    beside = {
        str(member.run.config["dataset_sha256"])
        for family in found.families
        for member in family.members
        if member.run.benchmark == run.benchmark
    }
    name = run.benchmark if len(beside) == 1 else f"{run.benchmark}@{sha256[:8]}"
    return name if run.run["limit"] is None else f"{name}, first {run.run['limit']}"


def _method(run: Run) -> str:
    """``mad-vote`` of ``mad-vote-qwen``, with its ablation."""
    rest, arm = split_arm(run.model)
    name, ablation = split_ablation(rest)
    try:
        method = split_model(name)[0]
    except UserError:  # a name that this version does not know
        method = str(run.config["method"])
    return "@".join(part for part in (method, ablation, arm) if part)


def _benchmarks(found: Found) -> list[tuple[str, list[Family]]]:
    names = sorted({family.base.run.benchmark for family in found.families})
    return [(name, [family for family in found.families if family.base.run.benchmark == name]) for name in names]


def _write_run(folder: Path, member: Shown, family: Family, book: PictureBook) -> None:
    data = folder / "data" / member.slug
    data.mkdir(parents=True, exist_ok=True)
    for name, content in game_files(member, family, book):
        _write(data / name, content)
    _write(folder / f"games-{member.slug}.html", games_html(member, family))
    _write(folder / f"run-{member.slug}.html", run_html(member, family))


@contextlib.contextmanager
def _held(mark: Path) -> Iterator[None]:
    """One build of a folder at a time: another would clear away what this one writes. The lock goes with its process."""
    try:
        file = mark.open("r")
    except OSError as error:
        raise cannot_write(mark, error) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{mark.parent}: another mug-eval view is writing pages there; wait for it, or choose another folder"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield


def _claim(folder: Path) -> None:
    """Make a site's folder ours.

    Raises:
        UserError: something else is in it.
        RunStopped: it cannot be made.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; choose a folder for the pages")
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / MARK).is_file():
            raise UserError(f"{folder} holds something else than pages of ours; choose a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / MARK).is_symlink():
            (folder / MARK).unlink()
        _write(folder / MARK, "Pages written by mug-eval view; the next build writes this folder anew.\n")
    except OSError as error:
        raise cannot_write(folder, error) from error


def _take_place(fresh: Path, folder: Path) -> None:
    """Put a whole site in the place of the earlier one; only names are changed, so that it takes no room and next to no time.

    Raises:
        OSError: the earlier one cannot be moved; it stands as it was.
        UserError: something else has the name of a page.
    """
    past = folder / _PAST
    _remove(past)
    past.mkdir()
    moved: list[tuple[Path, Path]] = []

    def move(path: Path, to: Path) -> None:
        path.rename(to / path.name)
        moved.append((path, to / path.name))

    try:
        for path in sorted(folder.iterdir(), key=lambda path: path.name != "index.html"):
            # A link in the place of a folder of ours goes, and what it leads to stays: else pages would be written there.
            page = path.suffix == ".html" and path.name.startswith(("run-", "games-"))
            if page and path.is_dir() and not path.is_symlink():
                raise UserError(
                    f"{path} is a folder, which no page of ours is; take it away, or choose another folder for the pages"
                )
            if page or (path.name in _OWN and path.name != MARK):
                move(path, past)
        for path in sorted(fresh.iterdir(), key=lambda path: path.name == "index.html"):
            move(path, folder)
    except (OSError, UserError):
        for before, now in reversed(moved):
            now.rename(before)
        _remove(past)
        raise
    _remove(past)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def _write(path: Path, text: str) -> None:
    # A page is not worth an fsync: it can be built again.
    path.write_text(text, encoding="utf-8", newline="\n")
