"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from mug_eval.errors import RunStopped, UserError

_NO_NAME = (errno.ENAMETOOLONG, errno.ELOOP)
"""Of names that nothing can have: too long for the system, or a link that leads to itself."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes its name only when the block ends well.

    It is written beside its place, flushed to the disk (fsync) and renamed, so that a reader or a kill sees the old file or the new
    one, never a half. The folder's own entry is flushed too, where the system can. The name beside its place is always the same, so
    that kills leave at most one behind; a second writer of the same file waits for the first. The folder is made if it is not there.
    A device or a pipe (``/dev/null``, ``/dev/stdout``) is written into: a file must not take its place.

    Raises:
        RunStopped: the disk is full or cannot be written; the old file stays as it was.
        UserError: a file is where a folder must be, or the reverse.
    """
    if path.name in ("", ".."):  # as of "." and of an empty word: no file can have that name
        raise cannot_write(path, IsADirectoryError())
    partial = path.with_name(f".{path.name}.part")
    try:
        if _is_stream(path):
            with path.open("wb") as file:
                yield file
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with _sole(partial) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                partial.replace(path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        _flush_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _sole(partial: Path) -> BinaryIO:
    """The file beside its place, empty and locked: whoever else writes it waits until it is closed, and then makes a new one."""
    while True:
        file = partial.open("ab")
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
            try:
                same = os.path.samestat(os.fstat(file.fileno()), partial.stat())
            except FileNotFoundError:  # renamed or removed by who held it
                same = False
            if same:
                file.truncate(0)
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def atomic_write(path: Path, content: bytes | str) -> None:
    """Write a whole file at once, text as UTF-8; see :func:`atomic_file`.

    Raises:
        RunStopped: the disk is full or cannot be written; the old file stays as it was.
    """
    with atomic_file(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def cannot_write(path: Path, error: OSError) -> RunStopped | UserError:
    """The one line for a disk that takes no more, or for a place that can never hold the file: that is a mistake in the command."""
    reason = error.strerror or str(error) or type(error).__name__
    if isinstance(error, IsADirectoryError):
        return UserError(f"cannot write {path}: it is a folder; name a file")
    if isinstance(error, FileExistsError | NotADirectoryError):
        in_the_way = next((folder for folder in (path, *path.parents) if folder.exists() and not folder.is_dir()), path)
        return UserError(f"cannot write {path}: {in_the_way} is a file; name a folder, or remove it")
    if error.errno in _NO_NAME:
        return UserError(f"cannot write {path}: {reason}; give another name")
    return RunStopped(f"cannot write {path}: {reason}; make room (or mend the folder) and give the same command again")


def _flush_folder(folder: Path) -> None:
    """Make a rename outlast a power cut; some file systems do not let a folder be flushed, and lose nothing but that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
