"""``mug-eval view OUT``: runs and games as pages, served on this machine or written to a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from mug_eval.cli.arguments import Parser, at_least
from mug_eval.cli.notes import note

_EXAMPLES = """\
examples:
  mug-eval view outputs                   pages of every run below outputs, at http://127.0.0.1:8765/
  mug-eval view outputs --build pages     the same as files: open pages/index.html, or put the folder on any web server

Pictures are found by what a run recorded. If they have moved since: --data-file NAME=TSV, --counterfactuals DIR. docs/pages.md says more.
"""


def command(argv: Sequence[str]) -> int:
    """Build the pages; serve them unless ``--build`` is given.

    Raises:
        UserError: no run is there, the folder or the port cannot be used.
        RunStopped: the disk is full.
    """
    parser = Parser("mug-eval view", "OUT [--port N] [--build DIR] [options]", "Look at runs and games in a browser.", _EXAMPLES)
    parser.add_argument("out", type=Path, metavar="OUT", help="a work-dir, a run's folder, or a folder of work-dirs")
    parser.add_argument("--port", type=at_least(0), default=8765, metavar="N", help="on 127.0.0.1 (default: 8765; 0: any free one)")
    parser.add_argument("--build", type=Path, metavar="DIR", help="write the pages to a folder and do not serve them")
    parser.add_argument(
        "--against", metavar="MODEL", help="the model that others are held against (default: direct, or the cheapest)"
    )
    parser.add_argument("--data-file", nargs="+", action="extend", metavar="NAME=TSV", help="where a benchmark's file lies now")
    parser.add_argument("--counterfactuals", type=Path, action="append", metavar="DIR", help="where altered pictures lie now")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the resamples (default: 0)")
    args = parser.read(argv)

    from mug_eval.benchmarks import task_names
    from mug_eval.benchmarks.data_files import data_files
    from mug_eval.report.pictures import Places
    from mug_eval.report.site import Site, build_site

    out = args.out.resolve()
    places = Places(
        data_files(args.data_file or (), task_names()), tuple(args.counterfactuals or ()), (out, *list(out.parents)[:5])
    )

    def build(folder: Path) -> Site:
        site = build_site(args.out, folder, against=args.against, places=places, seed=args.seed, note=note)
        for name, why in site.left_out:
            note(f"left out: {name}: {why}")
        return site

    if args.build is not None:
        site = build(args.build)
        print(f"{site.runs} runs, {site.games} games: open {args.build / 'index.html'}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mug-eval-pages-") as folder:
        from mug_eval.report.serve import HOST, serving

        with serving(Path(folder), args.port) as server:  # the port first: building may take a while
            site = build(Path(folder))
            print(f"{site.runs} runs, {site.games} games: http://{HOST}:{server.server_address[1]}/ (Ctrl-C ends it)", flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                return 0
    return 0
