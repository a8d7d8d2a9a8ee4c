"""``mug-eval scenes --out DIR``: write benchmarks of drawn scenes, with counterfactual pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mug_eval.cli.arguments import Parser, at_least


def command(argv: Sequence[str]) -> int:
    """Write the tables and say how they are played.

    Raises:
        UserError: too few questions.
        RunStopped: the disk is full or cannot be written.
    """
    parser = Parser(
        "mug-eval scenes",
        "--out DIR [--questions N] [--seed S]",
        "Write four benchmarks of drawn scenes in VLMEvalKit's formats (POPE, MMStar, HallusionBench, MMMU), and a counterfactual "
        "picture for every question.",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the tables and counterfactuals/")
    parser.add_argument("--questions", type=at_least(12), default=120, metavar="N", help="rows of each table (default 120)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of scenes and questions (default 0)")
    args = parser.read(argv)

    from mug_eval.reference_vlm.benchmark_files import COUNTERFACTUALS, write_benchmarks

    written = write_benchmarks(args.out, args.questions, args.seed)
    for name, path in written.items():
        print(f"{name}: {path}")
    files = " ".join(f"{name}={path}" for name, path in written.items())
    print(
        f"play them: mug-eval run --model mug-reference --data {' '.join(written)} --data-file {files} "
        f"--counterfactuals {args.out / COUNTERFACTUALS}"
    )
    return 0
