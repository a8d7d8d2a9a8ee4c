"""``mug-eval plan --gap 1.0``: how many questions and seeds a claim needs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mug_eval.cli.arguments import Parser, at_least
from mug_eval.errors import UserError

if TYPE_CHECKING:
    from mug_eval.statistics.pilot import Pilot
    from mug_eval.statistics.power import Design

PLAYED = {"MMMU_DEV_VAL": 900}
"""Questions that are scored, where they are not all rows of the published set (MMMU: the validation split)."""

_SMALLEST_GAP = 1e-6

_EXAMPLES = """\
examples:
  mug-eval plan --gap 1.0                                   what one point takes if the methods disagree on 15 % of the questions
  mug-eval plan --gap 1.0 --discordant 12 --rerun 5         and a method with itself, under another seed, on 5 %
  mug-eval plan --gap 1.0 --runs outputs/mug-qwen --against outputs/direct-qwen      as these runs disagree

The formulas: docs/statistics.md.
"""


def command(argv: Sequence[str]) -> int:
    """Print the plan.

    Raises:
        UserError: numbers that no pair of methods can have, or runs that cannot be compared.
        RunStopped: the JSON file cannot be written.
    """
    parser = Parser(
        "mug-eval plan",
        "--gap POINTS [--discordant P] [--rerun P] [--runs RUN... --against RUN...] [options]",
        "How many questions and seeds are needed to find a difference between two methods that answer the same questions.",
        _EXAMPLES,
    )
    parser.add_argument("--gap", type=_percent, required=True, metavar="POINTS", help="the true difference to be found, e.g. 1.0")
    parser.add_argument(
        "--discordant", type=_percent, metavar="P", help="%% of questions that exactly one of the two answers rightly (default: 15)"
    )
    parser.add_argument(
        "--rerun",
        type=_percent,
        metavar="P",
        help="%% of questions on which a method disagrees with itself under another seed (default: 0)",
    )
    parser.add_argument(
        "--design-effect", type=float, metavar="D", help="how many dependent questions are worth one (default: 1, independent)"
    )
    parser.add_argument("--runs", nargs="+", type=Path, metavar="RUN", help="take these three numbers from runs ...")
    parser.add_argument("--against", nargs="+", type=Path, metavar="RUN", help="... and what they are compared with")
    parser.add_argument("--seeds", nargs="+", type=at_least(1), default=[1, 2, 3, 5, 10], metavar="K", help="seeds to plan for")
    parser.add_argument("--alpha", type=float, default=0.05, metavar="A", help="of the two-sided test (default: 0.05)")
    parser.add_argument("--power", type=float, default=0.8, metavar="B", help="how often the difference is found (default: 0.8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the plan as JSON too")
    args = parser.read(argv)
    if args.gap < _SMALLEST_GAP:
        raise UserError(f"--gap must be more than 0 points, {_SMALLEST_GAP:g} at least")
    designs = _designs(args)
    rows = [_planned(name, design, args.gap, sorted(set(args.seeds))) for name, design in designs]
    if args.json is not None:
        import json

        from mug_eval.atomic import atomic_write
        from mug_eval.statistics.as_json import plain

        atomic_write(args.json, json.dumps(plain({"gap": args.gap, "plans": rows}), indent=2, allow_nan=False) + "\n")
    for row in rows:
        print(_text(row, args.gap))
    return 0


def _designs(args: argparse.Namespace) -> list[tuple[str, Design]]:
    """What is expected, by name: one for each comparison of the runs, or one from the options."""
    from mug_eval.statistics.power import Design

    pilots: list[Pilot] = []
    if (args.runs is None) != (args.against is None):
        raise UserError("--runs and --against belong together: name the runs and what they are compared with")
    if args.runs is not None:
        from mug_eval.statistics.pilot import pilots_of
        from mug_eval.statistics.runs import by_seed, find_runs

        pilots = pilots_of(by_seed(find_runs(args.runs)), by_seed(find_runs(args.against)))
    given = [("expected", 0.15, 0.0, 1.0)]
    measured = [(pilot.name, pilot.discordant, pilot.rerun, pilot.design_effect) for pilot in pilots]
    found = []
    for name, discordant, rerun, effect in measured or given:
        discordant = discordant if args.discordant is None else args.discordant / 100
        rerun = rerun if args.rerun is None else args.rerun / 100
        effect = effect if args.design_effect is None else args.design_effect
        try:
            found.append((name, Design(discordant, rerun, effect, args.alpha, args.power)))
        except ValueError as error:
            raise UserError(f"{name}: {error}") from error
    return found


def _planned(name: str, design: Design, gap: float, seeds: Sequence[int]) -> dict[str, object]:
    from mug_eval.statistics.power import power_of, questions_needed, smallest_gap

    needs, benchmarks = [], []
    try:
        for count in seeds:
            needs.append({"seeds": count, "questions": questions_needed(gap / 100, design, count)})
        for benchmark, questions in _sizes():
            per_seed = [
                {
                    "seeds": count,
                    "power": power_of(questions, gap / 100, design, count),
                    "smallest_gap": 100 * smallest_gap(questions, design, count),
                }
                for count in seeds
            ]
            benchmarks.append({"benchmark": benchmark, "questions": questions, "by_seeds": per_seed})
    except ValueError as error:
        raise UserError(f"{name}: {error} (--discordant)") from error
    return {"name": name, "design": design, "needs": needs, "benchmarks": benchmarks}


def _sizes() -> list[tuple[str, int]]:
    """The published benchmarks and how many of their questions are scored."""
    from mug_eval.benchmarks import load_task, task_names

    tasks = [load_task(name) for name in task_names()]
    return [(task.name, PLAYED.get(task.name, task.rows)) for task in tasks if task.rows and not task.drawn]


def _text(row: dict[str, object], gap: float) -> str:
    from mug_eval.statistics.power import Design
    from mug_eval.statistics.tables import table

    design, needs, benchmarks = row["design"], row["needs"], row["benchmarks"]
    assert isinstance(design, Design) and isinstance(needs, list) and isinstance(benchmarks, list)
    head = (
        f"{row['name']}: {gap:g} points, found in {100 * design.power:g} % of studies by a two-sided test at {100 * design.alpha:g} %,\n"
        f"if the methods disagree on {100 * design.discordant:.1f} % of questions, each with itself on {100 * design.rerun:.1f} %, "
        f"and {design.design_effect:.2f} dependent questions are worth one"
    )
    if design.rerun == 0 and len(needs) > 1:  # more seeds take nothing away then: all columns would be one
        columns, shown = ["seeds of each method", "any number"], 1
    else:
        columns, shown = ["seeds of each method", *(str(need["seeds"]) for need in needs)], len(needs)
    rows = [["questions needed", *(f"{need['questions']:,}" for need in needs[:shown])]]
    for one in benchmarks:
        cells = [
            f"{100 * cell['power']:.0f} % ({'-' if math.isnan(cell['smallest_gap']) else format(cell['smallest_gap'], '.1f')})"
            for cell in one["by_seeds"][:shown]
        ]
        rows.append([f"{one['benchmark']}, {one['questions']:,}: power (finds)", *cells])
    alike = (
        "seeds matter only if a method disagrees with itself: --rerun P, or --runs with several seeds\n"
        if shown < len(needs)
        else ""
    )
    return f"{head}\n{table(columns, rows, 120)}finds: the smallest true difference, in points, found with that power\n{alike}"


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of percent") from None
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} must lie between 0 and 100 percent")
    return value
