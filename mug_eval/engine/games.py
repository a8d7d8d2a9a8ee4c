"""The games file: one JSON line a finished question. A torn last line is owed again; nothing else may be wrong with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mug_eval.atomic import atomic_file, cannot_write
from mug_eval.errors import UserError
from mug_eval.json_bytes import json_bytes

_FIELDS: dict[str, type] = {
    "index": str,
    "prediction": str,
    "answer": dict,
    "raw": str,
    "ended": str,
    "facts": dict,
    "events": list,
    "calls": list,
    "usage": dict,
}
_USAGE = {"calls", "prompt_tokens", "completion_tokens", "images", "seconds", "calls_without_usage"}


class GamesFile:
    """``games.jsonl`` open for appending. In memory it holds where each question's line begins, nothing of the games.

    Opening it drops a last line without its newline, which a kill has torn: that question is owed again and replays from the
    journal.

    Raises:
        UserError: a whole line is not a game's record, or two are of the same question.
        RunStopped: the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            self._offsets, self._size = _index_lines(path)
            os.ftruncate(self._descriptor, self._size)
        except BaseException:
            os.close(self._descriptor)
            raise

    def __contains__(self, index: str) -> bool:
        """Whether the question's game is recorded."""
        return index in self._offsets

    def __len__(self) -> int:
        """The number of recorded games."""
        return len(self._offsets)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one game's line; it is the system's when this returns, so a kill loses nothing of it.

        Raises:
            RunStopped: the disk is full; the file is as it was before the line.
            ValueError: the question is recorded already, or the record holds something that JSON has no word for.
        """
        index = record["index"]
        if index in self._offsets:
            raise ValueError(f"question {index} is recorded in {self.path} already")
        line = json_bytes(record) + b"\n"
        try:
            written = 0
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, self._size)  # what fits of a line is no line
            raise cannot_write(self.path, error) from error
        self._offsets[index] = self._size
        self._size += len(line)

    def record(self, index: str) -> dict[str, Any]:
        """One game's record.

        Raises:
            KeyError: the question is not recorded.
        """
        with self.path.open("rb") as file:
            file.seek(self._offsets[index])
            record: dict[str, Any] = json.loads(file.readline())
        return record

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The records in the file's order, one in memory at a time."""
        with self.path.open("rb") as file:
            for line in file:
                yield json.loads(line)

    def rewrite(self, order: Iterable[str]) -> None:
        """Put the lines into the given order, atomically, so that the file does not tell which game ended first.

        Args:
            order: question indices, the dataset's order. One that is not recorded is passed over (it is owed); a record that is not
                named is left out (a smaller ``--limit``), and comes back from the journal when it is asked for again.

        Raises:
            RunStopped: the disk is full; the file is as it was.
        """
        offsets: dict[str, int] = {}
        size = 0
        try:
            with self.path.open("rb") as old, atomic_file(self.path) as new:
                for index in order:
                    if index in self._offsets and index not in offsets:
                        old.seek(self._offsets[index])
                        offsets[index] = size
                        size += new.write(old.readline())
        except OSError as error:  # the folder was taken away
            raise cannot_write(self.path, error) from error
        os.close(self._descriptor)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
        self._offsets, self._size = offsets, size

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def __enter__(self) -> GamesFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _index_lines(path: Path) -> tuple[dict[str, int], int]:
    """Where each question's line begins, and where the whole lines end."""
    offsets: dict[str, int] = {}
    position = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                break
            index = _index_of(line)
            if index is None:
                raise UserError(f"{path} line {number} is not a game's record; delete that line and give the same command again")
            if index in offsets:
                raise UserError(
                    f"{path} line {number} repeats question {index}; delete one of the two and give the same command again"
                )
            offsets[index] = position
            position += len(line)
    return offsets, position


def _index_of(line: bytes) -> str | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or any(not isinstance(record.get(name), kind) for name, kind in _FIELDS.items()):
        return None
    whole = all(isinstance(entry, dict) for entry in (*record["events"], *record["calls"]))
    return record["index"] if whole and record["usage"].keys() >= _USAGE else None
