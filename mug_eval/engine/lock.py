"""One process at a time in a folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mug_eval.errors import UserError


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True, slots=True)
class LockWords:
    """How the holder of a folder, and the folder, are spoken of to whoever finds it held.

    Attributes:
        role: what the folder is, ``work-dir``.
        other: who else may hold it, ``run``.
        doing: what the other does with it, ``using``.
        instead: what to choose where this one cannot be had, ``another --work-dir``.
        local: what to choose where it cannot be locked, ``a --work-dir``.
        wait: how to wait for the other, ``wait for it with --wait``.
    """

    role: str
    other: str
    doing: str
    instead: str
    local: str
    wait: str = "wait for it"


WORK_DIR = LockWords("work-dir", "run", "using", "another --work-dir", "a --work-dir", "wait for it with --wait")
STORE = LockWords("store", "build", "writing", "another folder", "a folder")


def work_dir_lock(work_dir: Path, wait: bool, say: Callable[[str], None] = _say) -> contextlib.AbstractContextManager[None]:
    """Hold a work-dir; see :func:`folder_lock`.

    Args:
        work_dir: where journal and results are.
        wait: whether to wait for a run that holds it.
        say: told, before waiting, for whom.
    """
    return folder_lock(work_dir, WORK_DIR, wait, say)


@contextlib.contextmanager
def folder_lock(folder: Path, words: LockWords, wait: bool = False, say: Callable[[str], None] = _say) -> Iterator[None]:
    """Hold a folder; made if it is not there.

    The lock is the system's (``flock`` on ``.lock``, the holder's process number inside): it goes with its process, however that
    ends.

    Args:
        folder: to be held.
        words: for messages.
        wait: whether to wait for who holds it.
        say: told, before waiting, for whom.

    Raises:
        UserError: another holds it and ``wait`` is not set, or the folder cannot be made or locked.
    """
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        raise UserError(f"cannot use {folder} as {words.role} ({error.strerror}); choose {words.instead}") from error
    with file:
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = f"another {words.other} (process {file.read().strip() or 'unknown'})"
                if not wait:
                    raise UserError(f"{holder} is {words.doing} {folder}; {words.wait}, or choose {words.instead}") from None
                say(f"waiting for {holder} to leave {folder}")
                fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise UserError(f"{folder} cannot be locked ({error.strerror}); choose {words.local} on a local disk") from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
