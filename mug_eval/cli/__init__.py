"""The command line: what the user typed -> a plan, one game as text, or what there is.

Nothing heavy is imported before it is needed, so that ``--help`` and ``list`` answer at once.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from mug_eval import __version__
from mug_eval.errors import RunStopped, UserError
from mug_eval.names import unknown

_OVERVIEW = """\
usage: mug-eval COMMAND ...

Evaluate multi-agent protocols on vision-language benchmarks.

commands:
  run              play models on benchmarks and score them (the same as python run_eval.py)
  show             print one whole game as text
  view             show runs and games as pages in a browser
  compare          say whether a difference between runs is more than luck, and what was paid for it
  plan             say how many questions and seeds a claim needs
  study            play and write one of the paper's tables or figures, or one of ours
  figures          draw figures for papers from finished runs
  board            make and check the leaderboard, add a run's row to it
  submit           write a run's answers as another leaderboard takes them
  demo             play every protocol on drawn scenes with the model that comes with mug_eval
  counterfactuals  build the altered pictures that MUG plays with, report on them, publish them
  scenes           write benchmarks of drawn scenes with counterfactual pictures
  list             methods, backbones, benchmarks, editors and presets, and what each needs

mug-eval COMMAND --help says more; mug-eval --version prints the version.
"""

_COMMANDS = (
    "run",
    "show",
    "view",
    "compare",
    "plan",
    "study",
    "figures",
    "board",
    "submit",
    "demo",
    "counterfactuals",
    "scenes",
    "list",
)
_MODULES = {"plan": "power", "list": "listing"}
"""Commands whose module has another name: ``plan`` is a run's, and ``list`` would hide Python's."""


def program(*before: str) -> int:
    """:func:`main` for a process of its own, with the process's arguments after ``before``."""
    code = main([*before, *sys.argv[1:]])
    if code == 130 and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # Threads are waited for now; who presses Ctrl-C once more wants the process gone, not Python's account of it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def main(arguments: Sequence[str]) -> int:
    """Run one command.

    Args:
        arguments: without the program's name.

    Returns:
        The exit code: 0 complete, 2 the user's mistake, 3 questions are owed, 130 interrupted.
    """
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a game in any language must print on any terminal
    return guarded(lambda: _command(list(arguments)))


def _open_closed_streams() -> None:
    """Send stdout and stderr nowhere where the caller closed them (``2>&-``), so that what is printed is lost and nothing else.

    The descriptors are filled too: the next file that is opened would else become stderr, and take what is meant for that.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (it lives as long as the process)


def _command(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_OVERVIEW, end="", file=sys.stdout if arguments else sys.stderr)
        return 0 if arguments else 2
    command, rest = arguments[0], arguments[1:]
    if command == "--version":
        print(f"mug-eval {__version__}")
        return 0
    if command == "--list":  # as run_eval.py takes it
        command = "list"
    if command in _COMMANDS:
        module = import_module(f"mug_eval.cli.{_MODULES.get(command, command)}")  # one only: some take seconds to import
        return int(module.command(rest))
    if command.startswith("-"):
        raise UserError(f"name a command before {command}, e.g. mug-eval run {command} ... ({', '.join(_COMMANDS)})")
    raise UserError(unknown("command", command, _COMMANDS))


def guarded(action: Callable[[], int]) -> int:
    """Run the action and turn the ways it may end into one line on stderr and an exit code; a bug keeps its traceback."""
    try:
        try:
            code = action()
        except SystemExit as stop:  # argparse after --help
            code = stop.code if isinstance(stop.code, int) else 0
        sys.stdout.flush()
        return code
    except UserError as error:
        return _say(f"error: {error}", 2)
    except RunStopped as error:
        more = "" if "same command" in str(error) else "; what is done is kept, the same command continues"
        return _say(f"stopped: {error}{more}", 3)
    except KeyboardInterrupt as interrupt:
        return _say(f"interrupted: {str(interrupt) or 'what is done is kept, the same command continues'}", 130)
    except BrokenPipeError:  # the reader went away (mug-eval list | head)
        _drop_stdout()
        return 128 + signal.SIGPIPE
    except PermissionError as error:
        if error.filename is None:
            raise
        return _say(
            f"error: {error.filename}: {error.strerror}; this command needs the right to read and write what it is given", 2
        )
    except RuntimeError as error:
        if not str(error).startswith("Symlink loop"):  # as pathlib says it
            raise
        return _say(f"error: {error}: a link that leads to itself; give another name", 2)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP) and error.filename is not None:
            return _say(f"error: {error.filename}: {error.strerror}; give another name", 2)
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _drop_stdout()
        return _say("stopped: the disk is full: make room and give the same command again", 3)


def _drop_stdout() -> None:
    """Send what is left in stdout's buffer nowhere: Python would fail at it once more when it exits."""
    with contextlib.suppress(OSError):  # no file behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(text: str, code: int) -> int:
    from mug_eval.cli.notes import note  # a server's words may be in the message

    note(f"mug-eval: {text}")
    return code
