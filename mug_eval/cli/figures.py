"""``mug-eval figures OUT``: figures for papers from the finished runs in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mug_eval.cli.arguments import Parser
from mug_eval.cli.notes import note

_EXAMPLES = """\
For every benchmark, and for every set of runs on the same questions of it:
  BENCHMARK-cost      accuracy against calls and tokens a question, with self-consistency as the control
  BENCHMARK-survival  the undercover still there after each round, against lots, where MUG was played
  BENCHMARK-changes   questions that each run fixed and broke against direct, where that was played

examples:
  mug-eval figures outputs --format pdf
  mug-eval figures demo/results-200-0 --format png --to figures
"""


def command(argv: Sequence[str]) -> int:
    """Draw the figures.

    Raises:
        UserError: nothing can be drawn, or matplotlib is not installed.
        RunStopped: the disk is full.
    """
    from mug_eval.report.plot import FORMATS, draw, require_matplotlib

    parser = Parser(
        "mug-eval figures",
        "OUT [--format FORMAT...] [--to DIR]",
        "Draw figures for papers from the finished runs in OUT.",
        _EXAMPLES,
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="a work-dir, or a folder with several")
    parser.add_argument(
        "--format", nargs="+", choices=FORMATS, default=["pdf"], metavar="FORMAT", help="pdf, svg, png (default: pdf)"
    )
    parser.add_argument("--to", type=Path, metavar="DIR", help="where they go (default: OUT/figures)")
    args = parser.read(argv)
    require_matplotlib()
    from mug_eval.atomic import atomic_write
    from mug_eval.report.figures import figures_of, finished_groups

    target = args.to if args.to is not None else args.out / "figures"
    for named in figures_of(finished_groups(args.out, lambda why: note(f"left out: {why}"))):
        for form in dict.fromkeys(args.format):
            path = target / f"{named.name}.{form}"
            atomic_write(path, draw(named.chart, form))
            print(path)
    return 0
