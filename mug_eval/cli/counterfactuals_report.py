"""``mug-eval counterfactuals report`` and ``publish``: what a store holds, to look at and to hand on."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mug_eval.cli.arguments import Parser, at_least
from mug_eval.errors import QuestionError, UserError

_ROWS = 8
"""Edits on a contact sheet."""

Originals = Callable[[str, int], bytes]
"""(question index, position of the picture) -> its bytes."""


def report(argv: Sequence[str]) -> int:
    """Print the numbers of stores, and write them and contact sheets beside each.

    Raises:
        UserError: no store, or a picture of it that cannot be read.
        RunStopped: the disk is full.
    """
    parser = Parser(
        "mug-eval counterfactuals report",
        "STORE... [--data-file [NAME=]TSV] [--sheets N]",
        "What became of the questions: acceptance, tries, rejections, types, flips, cost, FID and KID; and contact sheets. Writes "
        "STORE/report/report.json and STORE/report/sheet-*.png.",
    )
    parser.add_argument("stores", nargs="+", type=Path, metavar="STORE", help="from mug-eval counterfactuals build")
    _add_originals(parser)
    parser.add_argument("--sheets", type=at_least(0), default=40, metavar="N", help="edits on contact sheets, evenly chosen (40)")
    args = parser.read(argv)
    from mug_eval.atomic import atomic_write
    from mug_eval.counterfactual.report import read_store, report_text, summary

    stores = {folder: read_store(folder) for folder in args.stores}
    files = _data_files(args, *(store.build for store in stores.values()))
    reports = []
    for folder, store in stores.items():
        numbers = summary(store)
        originals, why = _originals(store.build, files, args.work_dir)
        if store.accepted and originals is None:
            print(f"{folder}: {why}; without the originals there are no contact sheets, FID or KID")
        elif store.accepted and originals is not None:
            numbers["set_distance"] = _set_distance(store.build, store.folder, store.accepted, originals)
            for path in _write_sheets(store.folder, store.accepted, originals, args.sheets):
                print(path)
        atomic_write(folder / "report" / "report.json", json.dumps(numbers, indent=2, ensure_ascii=False) + "\n")
        reports.append(numbers)
    print(report_text(reports))
    return 0


def publish(argv: Sequence[str]) -> int:
    """Write a store as an image folder.

    Raises:
        UserError: no store, nothing in it, or the folder is in use.
        RunStopped: the disk is full.
    """
    parser = Parser(
        "mug-eval counterfactuals publish",
        "STORE OUT [--originals]",
        "Write a store's accepted pictures and their provenance, without answers, as an image folder for datasets.load_dataset.",
    )
    parser.add_argument("store", type=Path, metavar="STORE", help="from mug-eval counterfactuals build")
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder that is not there yet")
    parser.add_argument("--originals", action="store_true", help="publish the pictures I+ too; mind their licence")
    _add_originals(parser)
    args = parser.read(argv)
    from mug_eval.counterfactual.publish import publish as write
    from mug_eval.counterfactual.report import read_store

    originals = None
    if args.originals:
        build = read_store(args.store).build
        originals, why = _originals(build, _data_files(args, build), args.work_dir)
        if originals is None:
            raise UserError(f"--originals: {why}")
    count = write(args.store, args.out, originals)
    print(f"{args.out}: {count} pictures; datasets.load_dataset('imagefolder', data_dir='{args.out}') reads them")
    return 0


def _add_originals(parser: Parser) -> None:
    parser.add_argument(
        "--data-file", nargs="+", action="extend", metavar="[NAME=]TSV", help="the benchmark's file, where the pictures I+ are"
    )
    parser.add_argument(
        "--work-dir",
        type=Path,
        default=Path("outputs"),
        metavar="DIR",
        help="of the build, which keeps a copy of it (default: outputs)",
    )


def _data_files(args: argparse.Namespace, *builds: Mapping[str, Any]) -> Mapping[str, Path]:
    from mug_eval.benchmarks.data_files import data_files

    return data_files(args.data_file or (), list(dict.fromkeys(str(build["benchmark"]) for build in builds)))


def _originals(build: Mapping[str, Any], files: Mapping[str, Path], work_dir: Path) -> tuple[Originals | None, str]:
    """Where the pictures I+ are: in the file given, in the build's own copy, or in VLMEvalKit's folder; else why they are not."""
    from mug_eval.benchmarks import load_task, open_benchmark
    from mug_eval.benchmarks.vlmeval import downloaded

    task, sha256 = load_task(build["benchmark"]), str(build["dataset_sha256"])
    data_file = files.get(task.name)
    copy = work_dir / ".data" / sha256[:16] / f"{task.upstream}_local.tsv"
    if data_file is None and copy.is_file():
        data_file = copy
    if data_file is None and not downloaded(task.upstream).is_file():
        return None, f"the file of {task.name} is neither in {work_dir} nor downloaded: give --data-file or --work-dir"
    source = open_benchmark(task, work_dir=work_dir, data_file=data_file)
    if source.sha256 != sha256:
        raise UserError(f"{data_file or task.upstream} is not the file that the store was built for (another SHA-256)")

    def original(index: str, position: int) -> bytes:
        try:
            return dict(source.pictures(index))[position]
        except (KeyError, QuestionError) as error:
            raise UserError(f"question {index} of {task.name} has no picture {position + 1} ({error})") from error

    return original, ""


def _pair(folder: Path, line: Mapping[str, Any], originals: Originals) -> tuple[Any, Any]:
    """(I+, I-) as arrays."""
    import numpy as np

    from mug_eval.counterfactual.editors import as_picture

    try:
        data = (folder / line["file"]).read_bytes()
        if hashlib.sha256(data).hexdigest() != line["file_sha256"]:
            raise QuestionError("not the picture that the manifest describes")
        after = as_picture(data)
    except (OSError, QuestionError) as error:
        raise UserError(f"{line['file']} of {folder} cannot be read ({error}); restore it or build again") from error
    return np.asarray(as_picture(originals(line["question_index"], line["position"]))), np.asarray(after)


def _set_distance(
    build: Mapping[str, Any], folder: Path, accepted: Sequence[Mapping[str, Any]], originals: Originals
) -> dict[str, Any] | None:
    """FID and KID over the pooled features of the semantic judge; None for fewer than two edits."""
    if len(accepted) < 2:
        return None
    from dataclasses import asdict

    import numpy as np

    from mug_eval.counterfactual.features import features
    from mug_eval.counterfactual.frechet import set_distance

    judge = features(build["features"]["semantic"]["name"])
    before, after = [], []
    for line in accepted:
        pooled = judge.pooled(_pair(folder, line, originals))
        before.append(pooled[0])
        after.append(pooled[1])
    return {"features": judge.name, **asdict(set_distance(np.stack(before), np.stack(after)))}


def _write_sheets(folder: Path, accepted: Sequence[Mapping[str, Any]], originals: Originals, most: int) -> list[Path]:
    import io

    from mug_eval.atomic import atomic_write
    from mug_eval.counterfactual.contact_sheet import Row, sheet
    from mug_eval.dry_run import evenly

    lines = {line["question_index"]: line for line in accepted}
    chosen = [lines[index] for index in evenly(list(lines), most)] if most else []
    written = []
    for start in range(0, len(chosen), _ROWS):
        rows = []
        for line in chosen[start : start + _ROWS]:
            before, after = _pair(folder, line, originals)
            scores = ", ".join(f"C_{name} {value:.3f}" for name, value in line["scores"].items())
            caption = [f"question {line['question_index']} ({line['edit_type']})", f"{line['edit']}: {line['target']}"]
            rows.append(Row(before, after, line["boxes"], [*caption, line["instruction"], scores, f"try {line['tries']}"]))
        out = io.BytesIO()
        sheet(rows).save(out, "PNG")
        written.append(folder / "report" / f"sheet-{start // _ROWS + 1:02d}.png")
        atomic_write(written[-1], out.getvalue())
    return written
