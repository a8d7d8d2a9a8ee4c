"""``mug-eval run``: play models on benchmarks and score them."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mug_eval import __version__
from mug_eval.cli.arguments import Parser, at_least, seconds
from mug_eval.errors import RunStopped, UserError

if TYPE_CHECKING:
    from mug_eval.plan import Plan

_DESCRIPTION = "Play multi-agent protocols on vision-language benchmarks and score them with VLMEvalKit's own scorers."

_EXAMPLES = """\
examples:
  python run_eval.py --model mug-qwen direct-qwen --data POPE MMStar
  python run_eval.py --method mug --backbone openai:my-model --base-url http://127.0.0.1:8000/v1 \\
      --data POPE --data-file POPE=my_pope.tsv --counterfactuals my_pictures --limit 20
  python run_eval.py --model mug-qwen --data POPE --set mug.agents=4 mug.detection_rounds=2 --dry-run
  python run_eval.py --list

A run that was stopped continues when the same command is given again: no recorded call is asked twice.
Exit codes: 0 complete; 2 a mistake in the command; 3 questions are owed, the same command continues.
"""


def parser() -> Parser:
    """The options of a run."""
    options = Parser("mug-eval run", "--model NAME... --data NAME... [options]", _DESCRIPTION, _EXAMPLES)
    options.add_argument("--list", action="store_true", help="print methods, backbones, benchmarks and presets, and stop")
    options.add_argument("--version", action="version", version=f"mug-eval {__version__}")

    play = options.add_argument_group("who plays")
    play.add_argument(
        "--model", nargs="+", action="extend", metavar="NAME", help="<method>-<backbone>, e.g. mug-qwen, sc12-gpt-4o-mini"
    )
    play.add_argument("--method", nargs="+", action="extend", metavar="NAME", help="a method, to be played by every --backbone")
    play.add_argument(
        "--backbone",
        nargs="+",
        action="extend",
        metavar="KIND:NAME",
        help="any model: openai:<model id>, hf:<hub name or folder>, vlmevalkit:<registered name>",
    )
    play.add_argument(
        "--base-url",
        metavar="URL",
        help="of an OpenAI-compatible server, e.g. http://127.0.0.1:8000/v1; its key comes from the environment",
    )

    play.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="of hf: models: auto, cpu, cuda, cuda:1, or spread over all GPUs (default: auto)",
    )
    play.add_argument(
        "--dtype",
        choices=("auto", "bf16", "fp16", "fp32"),
        default="auto",
        help="of hf: models (default: auto, bf16 on a GPU and fp32 on a CPU)",
    )

    data = options.add_argument_group("on what")
    data.add_argument(
        "--data", nargs="+", action="extend", metavar="NAME", help="benchmarks, e.g. POPE MMStar HallusionBench MMMU_DEV_VAL"
    )
    data.add_argument(
        "--data-file",
        nargs="+",
        action="extend",
        metavar="NAME=TSV",
        help="a local file in the benchmark's format instead of the published one",
    )
    data.add_argument(
        "--counterfactuals",
        type=Path,
        metavar="DIR",
        help="the altered pictures: a store of mug-eval counterfactuals, a manifest.jsonl with pictures, or files named as VLMEvalKit "
        "names its images; auto builds them first, with the backbone that plays and the opencv editor, in WORK_DIR/counterfactuals",
    )
    data.add_argument(
        "--counterfactual-match",
        choices=("question", "image"),
        default="question",
        help="use an altered picture only for the question it was made for, or for any question about its picture (default: question)",
    )
    data.add_argument("--limit", type=at_least(1), metavar="N", help="play only the first N questions of each benchmark")

    how = options.add_argument_group("how it is played")
    how.add_argument(
        "--preset",
        choices=("native", "paper"),
        default="native",
        help="decoding and resolution: the model's own, or the paper's (default: native)",
    )
    how.add_argument(
        "--set",
        nargs="+",
        action="extend",
        metavar="X.Y=V",
        help="settings: <method>.<field>, sampling.<field>, image.size (see --list)",
    )
    how.add_argument("--config", type=Path, metavar="FILE", help="the same in YAML; --set wins")
    how.add_argument(
        "--ablation",
        choices=("no-counterfactual", "no-undercover", "random-edit", "identical"),
        help="a control of mug, played as mug-<backbone>@<name>: the undercover holds I+; nobody is the undercover; I- differs in what the "
        "question is not about; as the full game, but I- is I+",
    )
    how.add_argument("--seed", type=int, default=0, metavar="N", help="of every draw (default: 0)")
    how.add_argument(
        "--judge",
        default="exact_matching",
        metavar="NAME",
        help="what VLMEvalKit's scorers read predictions with (default: exact_matching)",
    )

    run = options.add_argument_group("how it runs")
    run.add_argument("--work-dir", type=Path, default=Path("outputs"), metavar="DIR", help="journal and results (default: outputs)")
    run.add_argument(
        "--concurrency", type=at_least(1), metavar="N", help="calls in flight at a time (default: 8; 64 for hf: models)"
    )
    run.add_argument("--timeout", type=seconds, default=600.0, metavar="S", help="seconds that one call may take (default: 600)")
    run.add_argument("--retries", type=at_least(0), default=5, metavar="N", help="further tries of a call that failed (default: 5)")
    run.add_argument(
        "--patience", type=seconds, default=900.0, metavar="S", help="seconds to wait for a server that stays away (default: 900)"
    )
    run.add_argument("--call-budget", type=at_least(0), metavar="N", help="stop after that many requests")
    run.add_argument("--token-budget", type=at_least(0), metavar="N", help="stop after that many tokens")
    run.add_argument("--allow-missing", action="store_true", help="score even if questions are owed")
    run.add_argument("--wait", action="store_true", help="wait for another run on the same work-dir instead of refusing")
    run.add_argument("--quiet", action="store_true", help="no progress, closing lines only")
    run.add_argument("--dry-run", action="store_true", help="count questions, calls and tokens, ask nothing")
    return options


def command(argv: Sequence[str]) -> int:
    """Plan the run and evaluate it.

    Returns:
        The exit code of the evaluation.

    Raises:
        UserError: the user's mistake.
    """
    args = parser().read(argv)
    if args.list:
        from mug_eval.cli import listing

        return listing.command([])
    from mug_eval.plan import make_plan

    plan = make_plan(args)
    from mug_eval.evaluation import evaluate

    return dry_run(plan, evaluate) if plan.dry_run else evaluate(plan)


def dry_run(plan: Plan, evaluate: Callable[[Plan], int]) -> int:
    """Estimate in a temporary folder: an estimate leaves nothing in the work-dir, and nothing to continue."""
    try:
        with tempfile.TemporaryDirectory(prefix="mug_eval.") as folder:
            return evaluate(replace(plan, work_dir=Path(folder)))
    except (RunStopped, OSError) as error:
        if isinstance(error, OSError) and error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(
            f"the estimate needs room for copies of the tables in {tempfile.gettempdir()} ({error}): set TMPDIR"
        ) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt("nothing was asked") from None
