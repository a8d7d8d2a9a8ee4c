"""One run at a time in a work-dir."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from mug_eval.errors import UserError


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def work_dir_lock(work_dir: Path, wait: bool, say: Callable[[str], None] = _say) -> Iterator[None]:
    """Hold a work-dir; made if it is not there.

    The lock is the system's (``flock`` on ``.lock``, the holder's process number inside): it goes with its process, however that
    ends.

    Args:
        work_dir: where journal and results are.
        wait: whether to wait for a run that holds it.
        say: told, before waiting, for whom.

    Raises:
        UserError: another run holds it and ``wait`` is not set, or the folder cannot be made or locked.
    """
    path = work_dir / ".lock"
    try:
        work_dir.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    except OSError as error:
        raise UserError(f"cannot use {work_dir} as work-dir ({error.strerror}); choose another --work-dir") from error
    with file:
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = f"another run (process {file.read().strip() or 'unknown'})"
                if not wait:
                    raise UserError(
                        f"{holder} is using {work_dir}; wait for it with --wait, or choose another --work-dir"
                    ) from None
                say(f"waiting for {holder} to leave {work_dir}")
                fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            raise UserError(f"{work_dir} cannot be locked ({error.strerror}); choose a --work-dir on a local disk") from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
