"""``mug-eval compare RUN... --against RUN``: is a difference more than luck, and what was paid for it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mug_eval.cli.arguments import Parser, at_least

_EXAMPLES = """\
a RUN is <work-dir>/<model>/<benchmark>, or <work-dir>/<model> for all of its benchmarks. Runs that differ only in their seed are
put together. Every comparison is with the run of the same benchmark, and of the same backbone if several are given.

examples:
  mug-eval compare outputs/mug-qwen outputs/sc12-qwen --against outputs/direct-qwen
  mug-eval compare seed0/mug-qwen seed1/mug-qwen --against seed0/direct-qwen seed1/direct-qwen --json comparison.json

What each number means: docs/statistics.md.
"""


def command(argv: Sequence[str]) -> int:
    """Compare runs and print the tables.

    Raises:
        UserError: no such run, or runs that cannot be compared; says what differs.
        RunStopped: the JSON file cannot be written.
    """
    parser = Parser(
        "mug-eval compare",
        "RUN... --against RUN... [options]",
        "Scores with clustered intervals, differences with tests, prices and games of runs on the same questions.",
        _EXAMPLES,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="runs to be compared")
    parser.add_argument("--against", nargs="+", type=Path, required=True, metavar="RUN", help="what they are compared with")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything, also what the tables leave out")
    parser.add_argument(
        "--by", choices=("category", "edit", "edit_type"), help="also divide the games by the benchmark's category or by the edit"
    )
    parser.add_argument("--paper-test", action="store_true", help="add the paper's one-tailed paired t-test")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the resamples (default: 0)")
    parser.add_argument(
        "--resamples", type=at_least(1000, 1_000_000), default=10_000, metavar="N", help="of the bootstrap (default: 10000)"
    )
    parser.add_argument(
        "--permutations", type=at_least(1000, 1_000_000), default=10_000, metavar="N", help="of the test (default: 10000)"
    )
    args = parser.read(argv)

    from mug_eval.statistics.as_json import comparison_json
    from mug_eval.statistics.compare import compare
    from mug_eval.statistics.runs import by_seed, find_runs
    from mug_eval.statistics.tables import comparison_text

    groups, against = by_seed(find_runs(args.runs)), by_seed(find_runs(args.against))
    comparison = compare(
        groups,
        against,
        seed=args.seed,
        resamples=args.resamples,
        permutations=args.permutations,
        with_paper_test=args.paper_test,
    )
    if args.json is not None:
        from mug_eval.atomic import atomic_write

        text = comparison_json(comparison, seed=args.seed, resamples=args.resamples, permutations=args.permutations)
        atomic_write(args.json, text)
    width = shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else 160
    sys.stdout.write(comparison_text(comparison, width, args.by))
    return 0
