"""``mug-eval demo``: every protocol at work on drawn scenes with the model that comes with mug_eval, in a minute or two on a CPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from mug_eval.cli.arguments import Parser, at_least
from mug_eval.errors import RunStopped

METHODS = ("mug", "cfmad", "mad-judge", "mad-vote", "sc5")
BASE = "direct"
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
        f"Play {', '.join((BASE, *METHODS))} with the small model that comes with mug_eval on questions about drawn scenes, with a "
        "counterfactual picture for each, and print accuracy beside its price.",
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
    if not (scenes / COUNTERFACTUALS / "manifest.jsonl").is_file():  # written last
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
    folders = {method: path / f"{method}-reference" / BENCHMARK for method, path in where.items()}
    print(comparison_of(folders, shutil.get_terminal_size((120, 24)).columns))
    print(f"one game: mug-eval show {folders['mug']} --index 1      {time.monotonic() - started:.0f} s in all")
    return 0


def _play(commands: Sequence[Sequence[str]]) -> None:
    """Runs beside each other, one thread each."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    running = [
        subprocess.Popen([sys.executable, "-m", "mug_eval", "run", *command], stdout=subprocess.DEVNULL, env=environment)
        for command in commands
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


def comparison_of(folders: Mapping[str, Path], width: int) -> str:
    """What ``mug-eval compare`` says of the methods' runs, each against ``direct`` (and against self-consistency)."""
    from mug_eval.statistics.compare import compare
    from mug_eval.statistics.runs import by_seed, find_runs
    from mug_eval.statistics.tables import comparison_text

    groups, base = by_seed(find_runs([folders[method] for method in METHODS])), by_seed(find_runs([folders[BASE]]))
    return comparison_text(compare(groups, base), width)
