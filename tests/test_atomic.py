"""What is written at once: files, and what is no file."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from mug_eval.atomic import atomic_write


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    before = Path(os.devnull).stat()
    atomic_write(Path(os.devnull), "lost")
    after = Path(os.devnull).stat()
    assert stat.S_ISCHR(after.st_mode) and (before.st_ino, before.st_rdev) == (after.st_ino, after.st_rdev)
    assert not Path(os.devnull).with_name(".null.part").exists()


def test_a_pipe_gets_the_words_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()))
    reader.start()
    atomic_write(pipe, "numbers")
    reader.join(60)
    assert heard == [b"numbers"] and stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    atomic_write(path, "one")
    first = path.stat().st_ino
    atomic_write(path, b"two")
    assert path.read_bytes() == b"two" and path.stat().st_ino != first and list(path.parent.iterdir()) == [path]
