"""``mug-eval counterfactuals``: build pictures I- for a benchmark, report on them, publish them."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mug_eval.cli.arguments import Parser, at_least, seconds
from mug_eval.errors import UserError
from mug_eval.names import unknown

if TYPE_CHECKING:
    from mug_eval.building import BuildPlan, Built

CAUSES = ("no_picture", "unreadable", "planner_refused", "no_graph", "no_plan", "no_edit", "rejected")
_OVERVIEW = """\
usage: mug-eval counterfactuals build|report|publish ...

  build    plan, edit and judge a picture I- for each question of a benchmark; may be stopped, the same command continues
  report   what became of the questions, what it cost, and contact sheets to look at
  publish  write the accepted pictures as an image folder that datasets.load_dataset reads
"""
_EXAMPLES = """\
examples:
  mug-eval counterfactuals build --data POPE --planner qwen --editor qwen-image-edit --out cf/pope
  mug-eval counterfactuals build --data POPE --data-file POPE=my.tsv --planner reference --editor opencv --out cf/pope --limit 50
  mug-eval counterfactuals report cf/pope
  python run_eval.py --model mug-qwen --data POPE --counterfactuals cf/pope

Exit codes: 0 every question is decided; 2 a mistake in the command; 3 questions are owed, the same command continues.
"""


def command(argv: Sequence[str]) -> int:
    """Run one of the three.

    Raises:
        UserError: the user's mistake.
        RunStopped: a build cannot go on; the same command continues.
    """
    if not argv or argv[0] in ("-h", "--help"):
        print(_OVERVIEW, end="", file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    from mug_eval.cli import counterfactuals_report

    commands = {"build": _build, "report": counterfactuals_report.report, "publish": counterfactuals_report.publish}
    if argv[0] not in commands:
        raise UserError(unknown("command", argv[0], commands))
    return commands[argv[0]](argv[1:])


def _build_parser() -> Parser:
    options = Parser(
        "mug-eval counterfactuals build",
        "--data NAME --planner NAME --editor NAME --out DIR [options]",
        "Make pictures that differ from a benchmark's in the one fact that is asked about.",
        _EXAMPLES,
    )
    what = options.add_argument_group("what is made")
    what.add_argument("--data", required=True, metavar="NAME", help="benchmark, e.g. POPE")
    what.add_argument("--data-file", metavar="[NAME=]TSV", help="a local file in its format instead of the published one")
    what.add_argument("--out", type=Path, required=True, metavar="DIR", help="the store; made, or continued")
    what.add_argument("--limit", type=at_least(1), metavar="N", help="only the first N questions")
    what.add_argument(
        "--about",
        choices=("question", "other"),
        default="question",
        help="edit what the question is about, or something other, for --ablation random-edit (default: question)",
    )
    who = options.add_argument_group("who makes it")
    who.add_argument("--planner", required=True, metavar="NAME", help="a backbone's short name, or KIND:NAME (mug-eval list)")
    who.add_argument("--base-url", metavar="URL", help="of the planner's OpenAI-compatible server")
    who.add_argument(
        "--boxes",
        default="auto",
        metavar="NAME",
        help="how the planner states boxes: qwen2.5, thousandths, pixels (default: by its name)",
    )
    who.add_argument("--editor", required=True, metavar="NAME", help="opencv, qwen-image-edit, flux-kontext, ..., or KIND:WHAT")
    who.add_argument("--editor-url", metavar="URL", help="of an editor's server")
    who.add_argument("--editor-threads", type=at_least(1), default=1, metavar="N", help="edits at a time (default: 1)")
    who.add_argument(
        "--features",
        nargs="+",
        default=["handmade"],
        metavar="NAME",
        help="what judges: one name, or three for C_vs, C_sc, C_na: handmade, efficientnet-lite0, timm:..., open_clip:... (handmade)",
    )
    who.add_argument("--device", default="auto", metavar="NAME", help="of models in this process (default: auto)")
    who.add_argument("--dtype", choices=("auto", "bf16", "fp16", "fp32"), default="auto", help="their number format")
    who.add_argument(
        "--set",
        nargs="+",
        action="extend",
        metavar="X.Y=V",
        help="effort.plans, effort.tries, rule.c and its other weights and floors, sampling.<field> of the planner",
    )
    who.add_argument(
        "--check-flip",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="ask the planner the question over I+ and I-, to see whether its answer changes (2 calls an accepted edit)",
    )
    what.add_argument(
        "--retry-given-up",
        nargs="*",
        choices=CAUSES,
        metavar="CAUSE",
        help=f"try again, with other draws, what was given up: for any cause, or for those named ({', '.join(CAUSES)})",
    )
    who.add_argument("--seed", type=int, default=0, metavar="N", help="of every draw (default: 0)")

    run = options.add_argument_group("how it runs")
    run.add_argument("--work-dir", type=Path, default=Path("outputs"), metavar="DIR", help="of the journal (default: outputs)")
    run.add_argument("--concurrency", type=at_least(1), default=8, metavar="N", help="calls in flight at a time (default: 8)")
    run.add_argument("--timeout", type=seconds, default=600.0, metavar="S", help="seconds that one call may take (default: 600)")
    run.add_argument("--retries", type=at_least(0), default=5, metavar="N", help="further tries of a call that failed (default: 5)")
    run.add_argument("--patience", type=seconds, default=900.0, metavar="S", help="seconds to wait for a server that stays away")
    run.add_argument("--call-budget", type=at_least(0), metavar="N", help="stop after that many requests")
    run.add_argument("--token-budget", type=at_least(0), metavar="N", help="stop after that many tokens")
    run.add_argument("--wait", action="store_true", help="wait for another run on the same work-dir instead of refusing")
    run.add_argument("--quiet", action="store_true", help="no progress, closing lines only")
    return options


def _build(argv: Sequence[str]) -> int:
    args = _build_parser().read(argv)
    plan = _build_plan(args)
    from mug_eval.engine.lock import work_dir_lock
    from mug_eval.progress import open_reporter
    from mug_eval.termination import run_until_terminated

    with work_dir_lock(args.work_dir, args.wait), open_reporter(quiet=args.quiet, stream=sys.stderr) as reporter:
        built = run_until_terminated(_run(plan, args, reporter))
    print(
        f"{args.out}: {built.accepted} of {built.questions} questions have a counterfactual picture, {built.given_up} cannot get one, "
        f"{len(built.owed)} are owed"
    )
    if built.accepted:
        place = "" if args.work_dir == Path("outputs") else f" --work-dir {shlex.quote(str(args.work_dir))}"
        print(f"look at them: mug-eval counterfactuals report {shlex.quote(str(args.out))}{place}")
    return 3 if built.owed else 0


async def _run(plan: BuildPlan, args: argparse.Namespace, reporter: Any) -> Built:
    from mug_eval.backbones.catalogue import open_backbone
    from mug_eval.building import open_source, run_build
    from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
    from mug_eval.engine.journal import Journal

    source = open_source(plan, args.work_dir)
    for note in source.notes:
        reporter.note(f"{plan.benchmark}: {note}")
    policy = DispatchPolicy(
        concurrency=args.concurrency,
        timeout=args.timeout,
        retries=args.retries,
        patience=args.patience,
        call_budget=args.call_budget,
        token_budget=args.token_budget,
        seed=args.seed,
    )
    with Journal(args.work_dir / "journal.sqlite") as journal:
        model = open_backbone(plan.planner, concurrency=args.concurrency, timeout=args.timeout, sampling=plan.sampling)
        try:
            return await run_build(plan, source, Dispatcher(model, journal, policy), model.fingerprint, args.concurrency, reporter)
        finally:
            await model.close()


def _build_plan(args: argparse.Namespace) -> BuildPlan:
    from mug_eval.backbones.catalogue import parse_backbone
    from mug_eval.benchmarks import task_names
    from mug_eval.benchmarks.data_files import data_files
    from mug_eval.building import PLANNER_SAMPLING, BuildPlan
    from mug_eval.chat import Sampling
    from mug_eval.configuration import as_json, merge, parse_set, resolve
    from mug_eval.counterfactual.boxes import frame_named
    from mug_eval.counterfactual.editor_catalogue import parse_editor
    from mug_eval.counterfactual.workshop import Effort
    from mug_eval.decoding import check_sampling
    from mug_eval.plan import at_server

    if args.data not in task_names():
        raise UserError(unknown("benchmark", args.data, task_names()))
    spec = at_server(parse_backbone(args.planner), args.base_url)
    if spec.kind == "hf":
        spec = replace(spec, device=args.device, dtype=args.dtype)
    settings = parse_set(args.set or [])
    for namespace, values in settings.items():
        if namespace not in ("effort", "rule", "sampling"):
            raise UserError(unknown("settings", namespace, ("effort", "rule", "sampling")))
        if not isinstance(values, dict):
            raise UserError(f"{namespace}={values!r}: name the field as well, e.g. --set {namespace}.FIELD=VALUE")
    decoding = merge(as_json(PLANNER_SAMPLING), settings.get("sampling", {}))
    if decoding.pop("seed", None) is not None:
        raise UserError("sampling.seed is drawn from the build's seed for each call: use --seed")
    sampling = resolve(Sampling, decoding, where="sampling")
    check_sampling(sampling)
    effort = {"check_flip": args.check_flip, **settings.get("effort", {})}
    return BuildPlan(
        out=args.out,
        benchmark=args.data,
        planner=spec,
        editor=parse_editor(args.editor),
        data_file=data_files([args.data_file] if args.data_file else (), [args.data]).get(args.data),
        limit=args.limit,
        sampling=sampling,
        frame=None if args.boxes == "auto" else frame_named(args.boxes),
        features=tuple(args.features),
        rule=settings.get("rule", {}),
        effort=resolve(Effort, effort, where="effort"),
        about=args.about,
        seed=args.seed,
        editor_url=args.editor_url,
        editor_threads=args.editor_threads,
        device=args.device,
        dtype=args.dtype,
        retry=None if args.retry_given_up is None else tuple(args.retry_given_up),
    )
