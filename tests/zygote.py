"""Loads VLMEvalKit once, then runs the real command line in forked processes that a test may kill.

Reads one JSON list of arguments a line, answers ``pid N`` and, when that process has ended, ``exit CODE`` (negative: the signal).
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from mug_eval.benchmarks.vlmeval import load
from mug_eval.cli import main


def _child(argv: list[str]) -> None:
    # The test reads our pipe: a child speaks to stderr only.
    os.dup2(2, 1)
    try:
        code = main(argv)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve() -> None:
    load("vlmeval.dataset")
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _child(json.loads(line))
        print(f"pid {pid}", flush=True)
        _, status = os.waitpid(pid, 0)
        print(f"exit {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    serve()
