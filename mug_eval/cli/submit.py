"""``mug-eval submit RUN --to FORMAT``: a run as another leaderboard takes it. Nothing is sent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mug_eval.cli.arguments import Parser
from mug_eval.cli.notes import note

_FORMATS = ("openvlm", "hf", "mmmu", "hallusionbench", "pope", "mmstar")

_EXAMPLES = """\
formats:
  openvlm         OpenVLM.json, a row of one model with all the runs named; needs --meta
  hf              a file of .eval_results/ of a model's repository on the Hugging Face hub; needs --hub-task
  mmmu            the answers by id, as EvalAI and MMMU's main_eval_only.py take them
  hallusionbench  the authors' questions with model_prediction; needs --questions HallusionBench.json
  pope            a file a split, in the order of POPE's own files with --questions DIR
  mmstar          the xlsx of the authors' example

examples:
  mug-eval submit outputs/mug-qwen/POPE --to pope --questions POPE/output/coco --out pope/
  mug-eval submit outputs/mug-qwen/MMMU_DEV_VAL --to mmmu --out mmmu.json
  mug-eval submit outputs/mug-qwen --to openvlm --meta meta.yaml

What each format does with an answer that is none: docs/leaderboards.md.
"""


def command(argv: Sequence[str]) -> int:
    """Write a submission.

    Raises:
        UserError: a run that the leaderboard does not take; says why.
        RunStopped: the disk is full.
    """
    parser = Parser(
        "mug-eval submit",
        "RUN... --to FORMAT [options]",
        "Write a finished run's answers or scores as another leaderboard takes them, checked against that format's rules.",
        _EXAMPLES,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a finished run; several only for openvlm")
    parser.add_argument("--to", required=True, choices=_FORMATS, metavar="FORMAT", help=f"one of {', '.join(_FORMATS)}")
    parser.add_argument(
        "--out", type=Path, metavar="F", help="the file, or the folder for several (default: the usual names, here)"
    )
    parser.add_argument("--rehearsal", action="store_true", help="take other questions than the published ones, to see the file")
    parser.add_argument("--data-file", metavar="[NAME=]TSV", help="the table that was played, if the work-dir has it no more")
    parser.add_argument("--questions", type=Path, metavar="PATH", help="the authors' own questions (hallusionbench, pope)")
    parser.add_argument("--keep-unparsed", action="store_true", help="pope: write answers that are none, to be counted as yes")
    parser.add_argument("--meta", type=Path, metavar="YAML", help="openvlm: what a run does not know of its model")
    parser.add_argument("--hub-dataset", metavar="ID", help="hf: the benchmark on the hub (default: where its authors put it)")
    parser.add_argument("--hub-task", metavar="ID", help="hf: the task in the benchmark's eval.yaml")
    parser.add_argument("--source-url", metavar="URL", help="hf: where the run can be read")
    args = parser.read(argv)

    from mug_eval.benchmarks.data_files import data_files
    from mug_eval.leaderboard.submit.formats import Options, make_submission, save
    from mug_eval.statistics.runs import find_runs

    runs = find_runs(args.runs)
    tables = data_files([args.data_file] if args.data_file else (), list(dict.fromkeys(run.benchmark for run in runs)))
    options = Options(
        rehearsal=args.rehearsal,
        data_file=next(iter(tables.values()), None),
        questions=args.questions,
        keep_unparsed=args.keep_unparsed,
        meta=args.meta,
        hub_dataset=args.hub_dataset,
        hub_task=args.hub_task,
        source_url=args.source_url,
    )
    written = make_submission(runs, args.to, options)
    for path in save(written, args.out):
        print(f"wrote {path}")
    if args.rehearsal:
        note("note: a rehearsal; do not submit it")
    for said in written.notes:
        note(f"note: {said}")
    return 0
