"""``mug-eval show OUT --index I``: find a run and a game in it, and print the game."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mug_eval.cli.arguments import Parser
from mug_eval.errors import RunStopped, UserError
from mug_eval.names import nearest
from mug_eval.show import Messages, ReadMessages, game_text, misshapen, printable

_GAMES = "games.jsonl"
_CHANGED = "the file was changed from outside"


def command(argv: Sequence[str]) -> int:
    """Print one game.

    Raises:
        UserError: no such run or game; says which there are.
    """
    parser = Parser(
        "mug-eval show",
        "OUT --index I [--prompts]",
        "Print one whole game as text: who said what, the votes, the answer, the cost.",
    )
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="a run's folder <work-dir>/<model>/<benchmark>, or a work-dir with one run"
    )
    parser.add_argument("--index", required=True, metavar="I", help="the question's index")
    parser.add_argument("--prompts", action="store_true", help="print every message of every call as it was sent")
    args = parser.read(argv)
    folder = find_run(args.out)
    record = find_game(folder / _GAMES, args.index)
    journal = folder.parent.parent / "journal.sqlite"
    if args.prompts and not journal.is_file():
        raise UserError(f"--prompts reads {journal}, which is not there")
    title = f"{folder.parent.name} on {folder.name}"
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    with _messages_of(journal, needed=args.prompts) as read:
        try:
            text = game_text(record, title=title, read=read, prompts=args.prompts, width=width)
        except RecursionError as error:
            raise UserError(f"the game {args.index!r} in {folder / _GAMES} is nested too deeply; {_CHANGED}") from error
    sys.stdout.write(text)
    return 0


@contextlib.contextmanager
def _messages_of(journal: Path, *, needed: bool) -> Iterator[ReadMessages | None]:
    """Looks calls up in a journal. A game can be read without: where they are not needed, a journal that cannot be read is none."""
    from mug_eval.engine.journal import Journal

    with contextlib.ExitStack() as stack:
        try:
            calls = stack.enter_context(Journal(journal, read_only=True))
        except (UserError, RunStopped):
            if needed:
                raise
            yield None
            return

        def read(key: str) -> Messages | None:
            try:
                call = calls.read(key)
            except UserError:
                if needed:
                    raise
                return None
            return None if call is None else call.messages

        yield read


def find_run(out: Path) -> Path:
    """The run's folder: ``out`` itself, or the only one below it.

    Raises:
        UserError: there is none, or there are several (they are listed).
    """
    if not out.is_dir():
        raise UserError(f"{out}: no such folder; give <work-dir>/<model>/<benchmark>")
    if (out / _GAMES).is_file():
        return out.resolve()
    runs = sorted(path.parent for pattern in (f"*/{_GAMES}", f"*/*/{_GAMES}") for path in out.glob(pattern))
    if not runs:
        raise UserError(f"{out}: no run there (no {_GAMES}); give <work-dir>/<model>/<benchmark>")
    if len(runs) > 1:
        raise UserError(f"{out} holds {len(runs)} runs, name one of them: {', '.join(str(run) for run in runs)}")
    return runs[0].resolve()


def find_game(path: Path, index: str) -> dict[str, Any]:
    """The record of one question.

    Raises:
        UserError: there is none (the nearest are named), or the file is not what it should be.
    """
    seen: list[str] = []
    for record in _records(path):
        if str(record.get("index")) == index:
            wrong = misshapen(record)
            if wrong:
                raise UserError(f"the game {index!r} in {path} has {wrong} that a game does not have; {_CHANGED}")
            return record
        seen.append(str(record.get("index")))
    if not seen:
        raise UserError(f"{path} holds no finished game yet")
    close = nearest(index, seen)
    examples = ", ".join(close or seen[:5])
    word = "nearest" if close else "the first ones"
    raise UserError(f"no game with index {index!r} in {path}; {word}: {printable(examples)} ({len(seen)} games)")


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The games, read without touching the file: a run may be writing it. A torn last line is a game that is not finished."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if not isinstance(record, dict):
                raise UserError(f"{path} line {number} is not a game; {_CHANGED}")
            yield record
