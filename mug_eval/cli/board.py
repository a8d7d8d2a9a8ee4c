"""``mug-eval board``: make the leaderboard's files, check them, or add a run's row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mug_eval.cli.arguments import Parser
from mug_eval.cli.notes import note
from mug_eval.errors import UserError

_ADD_EXAMPLES = """\
a RUN is <work-dir>/<model>/<benchmark>, or <work-dir>/<model> for all of its benchmarks. Runs that differ only in their seed become
one row. A row is written once: the same run gives the same row, and another row of that name is refused. A run that can be no row is
named, and the others are added.

examples:
  mug-eval board add outputs/mug-qwen outputs/direct-qwen
  mug-eval board add outputs/mug-reference --before 'mug-eval scenes --out . --questions 200 --seed 0'
  mug-eval board add seed0/mug-qwen/POPE seed1/mug-qwen/POPE --sample https://example.org/runs/mug-qwen-pope/

Exit codes: 0 all are on the board; 2 none can be; 3 some are not, and the messages say why.
"""


def command(argv: Sequence[str]) -> int:
    """Make or check the board, or add to it.

    Returns:
        0, or 3 if some of the runs that were to be added are not.

    Raises:
        UserError: a row is not valid, or the files are out of date with ``--check``.
        RunStopped: the disk is full.
    """
    if argv and argv[0] == "add":
        return _add(argv[1:])
    parser = Parser(
        "mug-eval board",
        "[--check] [--board DIR] | add RUN... [options]",
        "Make leaderboard.json, .csv, .md and .html from DIR/entries and DIR/reference; mug-eval board add --help: add a run's row.",
    )
    _board_option(parser)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 2 if a row is not valid or a file out of date"
    )
    args = parser.read(argv)

    from mug_eval.leaderboard.board import check_board, write_board

    if args.check:
        check_board(args.board)
        print(f"{args.board} is up to date")
        return 0
    changed = write_board(args.board)
    for path in changed:
        print(f"wrote {path}")
    if not changed:
        print(f"{args.board} is up to date")
    return 0


def _add(argv: Sequence[str]) -> int:
    parser = Parser("mug-eval board add", "RUN... [options]", "Write DIR/entries/<id>.json from finished runs.", _ADD_EXAMPLES)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="finished runs")
    _board_option(parser)
    parser.add_argument(
        "--sample",
        nargs="+",
        default=[],
        metavar="LINK",
        help="where games of this run can be read: https://... or a path within DIR",
    )
    parser.add_argument(
        "--before", metavar="COMMAND", help="what makes the table and the pictures, e.g. 'mug-eval scenes --out . --questions 200'"
    )
    args = parser.read(argv)

    from mug_eval.leaderboard.board import ENTRIES
    from mug_eval.leaderboard.entry import make_entries, write_entry

    entries, refused = make_entries(args.runs, args.sample, args.before)
    added = 0
    for entry in entries:
        try:
            path, new = write_entry(entry, args.board / ENTRIES)
        except UserError as error:  # another row of that name
            refused.append(str(error))
            continue
        added += 1
        subset = "" if entry["limit"] is None else f" (a subset: --limit {entry['limit']}; kept off the main board)"
        print(f"{'wrote' if new else 'already there:'} {path}{subset}")
    for reason in refused if added else refused[:-1]:
        note(f"not added: {reason}")
    if not added:
        raise UserError(refused[-1])
    print("then: mug-eval board" + ("" if args.board == Path("leaderboards") else f" --board {args.board}"))
    return 3 if refused else 0


def _board_option(parser: Parser) -> None:
    parser.add_argument("--board", type=Path, default=Path("leaderboards"), metavar="DIR", help="folder (default: leaderboards)")
