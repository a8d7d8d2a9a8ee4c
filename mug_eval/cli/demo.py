"""``mug-eval demo``: every protocol at work on drawn scenes with the model that comes with mug_eval, in a minute or two on a CPU."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from mug_eval.cli.arguments import Parser, at_least
from mug_eval.errors import RunStopped
from mug_eval.statistics.intervals import Estimate, share_interval
from mug_eval.statistics.paired import Paired, compare_hits
from mug_eval.statistics.runs import Run, read_run

METHODS = ("direct", "sc5", "mad-vote", "mad-judge", "cfmad", "mug")
BENCHMARK = "ScenesMCQ"


def command(argv: Sequence[str]) -> int:
    """Draw the scenes, play, and print what came out.

    Raises:
        UserError: too few questions, a folder with other results.
        RunStopped: the disk is full, or a run stopped.
    """
    parser = Parser(
        "mug-eval demo",
        "[--questions N] [--out DIR] [--seed S]",
        f"Play {', '.join(METHODS)} with the small model that comes with mug_eval on questions about drawn scenes, with a counterfactual "
        "picture for each, and print accuracy beside its price.",
    )
    parser.add_argument(
        "--questions", type=at_least(20), default=200, metavar="N", help="questions, each about a scene of its own (200)"
    )
    parser.add_argument("--out", type=Path, default=Path("demo"), metavar="DIR", help="scenes and results (default demo)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of scenes, questions and games (default 0)")
    args = parser.read(argv)

    from mug_eval.reference_vlm.benchmark_files import COUNTERFACTUALS, write_benchmarks

    started = time.monotonic()
    scenes = args.out / f"scenes-{args.questions}-{args.seed}"
    table = scenes / f"{BENCHMARK}.tsv"
    if not table.is_file():
        table = write_benchmarks(scenes, args.questions, args.seed, names=(BENCHMARK,))[BENCHMARK]
    print(f"{args.questions} questions about drawn scenes: {table}", flush=True)
    results = args.out / f"results-{args.questions}-{args.seed}"
    common = ["--data", BENCHMARK, "--data-file", f"{BENCHMARK}={table}", "--counterfactuals", str(scenes / COUNTERFACTUALS)]
    common += ["--seed", str(args.seed), "--quiet"]
    # Small products gain nothing from a second core; a second process does.
    halves = (("mug", "sc5"), ("mad-judge", "mad-vote", "cfmad", "direct"))
    _play(
        [
            [*common, "--work-dir", str(results / str(n)), "--model", *(f"{m}-reference" for m in half)]
            for n, half in enumerate(halves)
        ]
    )
    where = {method: results / str(n) for n, half in enumerate(halves) for method in half}
    runs = {method: read_run(where[method] / f"{method}-reference" / BENCHMARK) for method in METHODS}
    print(table_of(runs, shutil.get_terminal_size((120, 24)).columns))
    example = runs["mug"].folder
    print(f"\none game: mug-eval show {example} --index 1      {time.monotonic() - started:.0f} s in all")
    return 0


def _play(commands: Sequence[Sequence[str]]) -> None:
    """Runs beside each other, one thread each."""
    running = [
        subprocess.Popen([sys.executable, "-m", "mug_eval", "run", *command], stdout=subprocess.DEVNULL) for command in commands
    ]
    try:
        codes = [process.wait() for process in running]
    except BaseException:
        for process in running:
            process.terminate()
        for process in running:
            process.wait()
        raise
    if any(codes):
        raise RunStopped("a run of the demonstration did not end well (see above); the same command continues")


def table_of(runs: dict[str, Run], width: int = 120) -> str:
    """Accuracy with its interval and the difference to ``direct``, beside calls, tokens and seconds a question."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title_justify="left")
    for column in ("", "accuracy %", "95 %", "against direct", "95 %", "calls", "tokens", "seconds"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    base = runs["direct"]
    for method, run in runs.items():
        share = _accuracy(run)
        paired = None if method == "direct" else _against(run, base)
        tokens = [run.cost["prompt_tokens"], run.cost["completion_tokens"]]
        table.add_row(
            method,
            f"{100 * share.value:.1f}",
            _ends(share),
            "" if paired is None else f"{100 * paired.difference.value:+.1f}",
            "" if paired is None else _ends(paired.difference),
            f"{run.cost['calls'] or 0:.1f}",
            "-" if None in tokens else f"{sum(filter(None, tokens)):,.0f}",
            f"{run.cost['seconds'] or 0:.2f}",
        )
    console = Console(width=max(width, 90), color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(table)
    mug, same_price = runs["mug"], _against(runs["mug"], runs["sc5"])
    alone = _against(mug, base)
    return "\n".join(
        [
            captured.get().rstrip(),
            "",
            "calls, tokens and seconds are means a question (seconds: the sum of its calls' own)",
            found_line(mug),
            f"mug against direct: {_said(alone)}",
            f"mug against sc5:    {_said(same_price)}",
        ]
    )


def found_line(mug: Run) -> str:
    """How often the undercover was found, against lots."""
    rounds = [game["facts"] for game in mug.games() if game["facts"].get("undercover_played")]
    if not rounds:
        return "no game had an undercover"
    found = share_interval([bool(facts["undercover_found"]) for facts in rounds], range(len(rounds)))
    first = sum(facts["found_round"] == 1 for facts in rounds) / len(rounds)
    lots = sum(facts["found_by_chance"] for facts in rounds) / len(rounds)
    return (
        f"undercover found in {100 * found.value:.0f} % of {found.n} games ({_ends(found)}), in the first round in {100 * first:.0f} %; "
        f"by lots: {100 * lots:.0f} %"
    )


def _accuracy(run: Run) -> Estimate:
    indices = list(run.right)
    return share_interval([run.right[i] for i in indices], [run.clusters[i] for i in indices])


def _against(run: Run, other: Run) -> Paired:
    indices = list(run.right)
    return compare_hits([run.right[i] for i in indices], [other.right[i] for i in indices], [run.clusters[i] for i in indices])


def _ends(estimate: Estimate) -> str:
    return f"{100 * estimate.low:.1f} to {100 * estimate.high:.1f}"


def _said(paired: Paired) -> str:
    difference = paired.difference
    return (
        f"{100 * difference.value:+.1f} points ({_ends(difference)}); {paired.fixed} questions fixed, {paired.broken} broken, "
        f"exact McNemar p = {paired.p:.3f}"
    )
