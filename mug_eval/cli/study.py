"""``mug-eval study NAME``: one of the paper's tables or figures, or one of ours, from one command."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mug_eval.cli.arguments import Parser, at_least, seconds
from mug_eval.errors import RunStopped, UserError

if TYPE_CHECKING:
    from mug_eval.studies.playing import Casting
    from mug_eval.studies.study import Study

_OVERVIEW = """\
usage: mug-eval study NAME --backbone NAME [options]
       mug-eval study list

Play what a table or figure needs and write it. mug-eval study list says which there are and what each costs; mug-eval study NAME
--help lists the options.
"""
_EXAMPLES = """\
examples:
  mug-eval study list
  mug-eval study ablations --backbone qwen --counterfactuals MMStar=cf/mmstar --data MMStar --limit 200 --dry-run
  mug-eval study agents --backbone reference --data ScenesMCQ --data-file ScenesMCQ=scenes/ScenesMCQ.tsv \\
      --counterfactuals scenes/counterfactuals --limit 100
  mug-eval study main-table --backbone qwen internvl --work-dir outputs --counterfactuals POPE=cf/pope --data POPE --seeds 0 1 2

A study that was stopped continues when the same command is given again; arms that another study or mug-eval run has played in the
same work-dir are not played again. Arms that are not complete stand as owed.
Exit codes: 0 complete; 2 a mistake in the command; 3 arms are owed, the same command continues.
"""


def command(argv: Sequence[str]) -> int:
    """Play and write one study, or list them.

    Raises:
        UserError: the user's mistake.
        RunStopped: a run cannot go on; the tables of what is complete are written first.
    """
    if not argv or argv[0] in ("-h", "--help"):
        print(_OVERVIEW, end="", file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    from mug_eval.studies.catalogue import find_study

    if argv[0] in ("list", "--list"):
        Parser("mug-eval study list", "", "List the studies.").read(argv[1:])
        sys.stdout.write(listing(min(shutil.get_terminal_size((100, 24)).columns, 120)))
        return 0
    if argv[0].startswith("-"):
        raise UserError(f"name a study before {argv[0]}, e.g. mug-eval study ablations {argv[0]} ... (mug-eval study list)")
    return _study(find_study(argv[0]), argv[1:])


def _parser(study: Study) -> Parser:
    options = Parser(f"mug-eval study {study.name}", "--backbone NAME... [options]", f"{study.summary}.", _EXAMPLES)
    what = options.add_argument_group("what is played")
    what.add_argument("--backbone", nargs="+", metavar="NAME", help="models: short names or KIND:NAME (mug-eval list)")
    what.add_argument("--data", nargs="+", metavar="NAME", help=f"benchmarks (default: {' '.join(study.benchmarks)})")
    what.add_argument("--data-file", nargs="+", metavar="NAME=TSV", help="a local file instead of the published one")
    what.add_argument(
        "--counterfactuals", nargs="+", metavar="[NAME=]DIR", help="the altered pictures, of all benchmarks or of one; or auto"
    )
    what.add_argument("--limit", type=at_least(1), metavar="N", help="only the first N questions of each benchmark")
    what.add_argument("--seeds", nargs="+", type=int, default=[0], metavar="S", help="one run of every arm for each (default: 0)")
    what.add_argument(
        "--only", nargs="+", metavar="ARM", help=f"only these arms: {', '.join(repr(arm.label) for arm in study.arms)}"
    )
    how = options.add_argument_group("how it is played (as in mug-eval run)")
    how.add_argument("--base-url", metavar="URL", help="of an OpenAI-compatible server")
    how.add_argument("--preset", choices=("native", "paper"), default="native", help="decoding and resolution (default: native)")
    how.add_argument("--set", nargs="+", action="extend", metavar="X.Y=V", help="settings that the study leaves open")
    how.add_argument("--judge", default="exact_matching", metavar="NAME", help="of VLMEvalKit's scorers")
    how.add_argument("--device", default="auto", metavar="NAME", help="of hf: models")
    how.add_argument("--dtype", choices=("auto", "bf16", "fp16", "fp32"), default="auto", help="of hf: models")
    run = options.add_argument_group("how it runs")
    run.add_argument("--out", type=Path, default=Path("studies"), metavar="DIR", help="tables go to DIR/NAME (default: studies)")
    run.add_argument(
        "--work-dir",
        type=Path,
        metavar="DIR",
        help="journal and results, shared by all studies (default: OUT/runs); may be a run's",
    )
    run.add_argument("--png", action="store_true", help="also write figure.png")
    run.add_argument("--concurrency", type=at_least(1), metavar="N", help="calls in flight at a time")
    run.add_argument("--timeout", type=seconds, default=600.0, metavar="S", help="seconds that one call may take")
    run.add_argument("--retries", type=at_least(0), default=5, metavar="N", help="further tries of a call that failed")
    run.add_argument("--patience", type=seconds, default=900.0, metavar="S", help="seconds to wait for a server that stays away")
    run.add_argument("--call-budget", type=at_least(0), metavar="N", help="stop after that many requests")
    run.add_argument("--token-budget", type=at_least(0), metavar="N", help="stop after that many tokens")
    run.add_argument("--allow-missing", action="store_true", help="score arms even if questions of them are owed")
    run.add_argument("--wait", action="store_true", help="wait for another run on the same work-dir")
    run.add_argument("--quiet", action="store_true", help="no progress")
    run.add_argument("--dry-run", action="store_true", help="count questions, calls and tokens, ask nothing")
    run.add_argument("--no-play", action="store_true", help="only read what is complete in the work-dir")
    return options


def _study(study: Study, argv: Sequence[str]) -> int:
    args = _parser(study).read(argv)
    from mug_eval.report.plot import require_matplotlib
    from mug_eval.studies.playing import cast

    if args.work_dir is None:
        args.work_dir = args.out / "runs"
    casting = cast(study, args, _common(args))
    if args.dry_run:
        return _dry_run(casting)
    require_matplotlib()  # before hours of play, not after
    stopped: RunStopped | None = None
    if not args.no_play:
        try:
            _play(casting)
        except RunStopped as error:
            stopped = error
    code = _write(casting, args.out / study.name, ("png",) if args.png else ())
    if stopped is not None:
        raise stopped
    return code


def _common(args: argparse.Namespace) -> argparse.Namespace:
    """The options of ``mug-eval run`` that hold for every arm."""
    from mug_eval.cli import run

    common = run.parser().read([])
    shared = (
        *("data_file", "limit", "base_url", "preset", "set", "judge", "device", "dtype", "concurrency", "timeout", "retries"),
        *("patience", "call_budget", "token_budget", "allow_missing", "wait", "quiet", "dry_run"),
    )
    for name in shared:
        setattr(common, name, getattr(args, name))
    return common


def _play(casting: Casting) -> None:
    """Every seed's plan. What ``mug-eval run`` prints at the end goes to stderr: the study's table is what was asked for."""
    from mug_eval.evaluation import evaluate

    for plan in casting.plans:
        with contextlib.redirect_stdout(sys.stderr):
            evaluate(plan)


def _dry_run(casting: Casting) -> int:
    from mug_eval.cli.run import dry_run
    from mug_eval.evaluation import evaluate

    dry_run(casting.plans[0], evaluate)
    if len(casting.seeds) > 1:
        print(f"the same for each of {len(casting.seeds)} seeds")
    return 0


def _write(casting: Casting, folder: Path, extra: tuple[str, ...]) -> int:
    from mug_eval.studies.files import write_files
    from mug_eval.studies.finished import read_finished
    from mug_eval.studies.outcome import markdown

    finished = read_finished(casting)
    if not finished.groups:
        reasons = ", ".join(dict.fromkeys(finished.owed.values()))
        raise UserError(f"no arm of {casting.study.name} is complete in {casting.plans[0].work_dir} ({reasons})")
    outcome = casting.study.read(finished)
    paths = write_files(folder, finished, outcome, extra)
    print(markdown(outcome, f"{casting.study.name}: {casting.study.summary}"))
    print("\n".join(str(path) for path in paths))
    left_out = any(int(run.scores["missing"]) for group in finished.groups.values() for run in group.runs)
    return 3 if finished.owed or left_out else 0


def listing(width: int = 100) -> str:
    """What each study is and what it costs."""
    from mug_eval.cli.listing import EXAMPLES
    from mug_eval.studies.catalogue import STUDIES, calls_of

    titles = {"paper": "Of the paper (reported numbers stand beside the measured ones where they are known)", "ours": "Ours"}
    lines: list[str] = []
    for source, title in titles.items():
        lines += [title] if not lines else ["", title]
        for study in STUDIES.values():
            if study.source != source:
                continue
            costs = []
            for label, question in EXAMPLES.items():
                calls = calls_of(study, question)
                costs.append(f"{calls.least if calls.least == calls.most else f'{calls.least} to {calls.most}'} ({label})")
            pictures = "; needs altered pictures" if any(arm.needs_pictures for arm in study.arms) else ""
            lines += _hanging(study.name, study.summary, width)
            lines += _hanging("", f"{len(study.arms)} arms: {'; '.join(arm.label for arm in study.arms)}", width)
            lines += _hanging("", f"calls a question, all arms: {', '.join(costs)}{pictures}", width)
            lines += _hanging("", f"benchmarks: {' '.join(study.benchmarks)}{_also(study)}", width)
    return "\n".join(lines) + "\n"


def _also(study: Study) -> str:
    from mug_eval.benchmarks import load_task, task_names
    from mug_eval.studies.playing import fits

    if study.accepts == "any":
        return ", or any other"
    others = [name for name in task_names() if fits(study.accepts, load_task(name)) and name not in study.benchmarks]
    return f", or {' '.join(others)}" if others else ""


def _hanging(name: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=f"  {name}".ljust(24),
        subsequent_indent=" " * 24,
        break_long_words=False,
        break_on_hyphens=False,
    )
