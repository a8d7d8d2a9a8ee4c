"""A JSONL file whose lines name their question; a last line without its newline, which a kill has torn, is dropped at opening."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mug_eval.atomic import atomic_write, cannot_write
from mug_eval.errors import UserError
from mug_eval.json_bytes import json_bytes


class QuestionLines:
    """The file open for appending. Its lines are kept in memory.

    Attributes:
        path: the file; made if it is not there.
        size: in bytes.

    Raises:
        UserError: a whole line is no record of a question.
        RunStopped: the file cannot be opened or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise cannot_write(path, error) from error
        try:
            data = path.read_bytes()
            self.size = data.rfind(b"\n") + 1
            os.ftruncate(self._descriptor, self.size)
            self._lines = [self._parsed(number, line) for number, line in enumerate(data[: self.size].splitlines(), 1)]
        except OSError as error:
            os.close(self._descriptor)
            raise cannot_write(path, error) from error
        except BaseException:
            os.close(self._descriptor)
            raise

    def by_question(self) -> dict[str, list[dict[str, Any]]]:
        """The lines by question, in the file's order."""
        lines: dict[str, list[dict[str, Any]]] = {}
        for line in self._lines:
            lines.setdefault(line["question_index"], []).append(line)
        return lines

    def one_by_question(self) -> dict[str, dict[str, Any]]:
        """The line of each question, where a question may have one.

        Raises:
            UserError: a question has more.
        """
        for index, mine in self.by_question().items():
            if len(mine) > 1:
                raise UserError(f"{self.path}: question {index} stands there {len(mine)} times; delete all of its lines but one")
        return {line["question_index"]: line for line in self._lines}

    def append(self, lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Write lines in one piece; when this returns they are the system's.

        Returns:
            The lines as they would be read.

        Raises:
            RunStopped: the disk is full; the file is as it was.
        """
        data = b"".join(json_bytes(line) + b"\n" for line in lines)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, self.size)
            raise cannot_write(self.path, error) from error
        self.size += len(data)
        read = [json.loads(line) for line in data.splitlines()]
        self._lines += read
        return read

    def cut(self, size: int) -> None:
        """Take back what was appended since the file was so large."""
        while self.size > size:
            self.size -= len(json_bytes(self._lines.pop())) + 1
        os.ftruncate(self._descriptor, self.size)

    def rewrite(self, key: Callable[[Mapping[str, Any]], Any], kept: Callable[[Mapping[str, Any]], bool] = bool) -> None:
        """Sort the lines by a key, and keep those that are to be kept, atomically.

        Raises:
            RunStopped: the disk is full; the file is as it was.
        """
        lines = sorted(filter(kept, self._lines), key=key)
        data = b"".join(json_bytes(line) + b"\n" for line in lines)
        atomic_write(self.path, data)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        os.close(self._descriptor)
        self._descriptor, self._lines, self.size = descriptor, lines, len(data)

    def __enter__(self) -> QuestionLines:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def _parsed(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or not isinstance(fields.get("question_index"), str):
            raise UserError(f"{self.path} line {number} is no record of a question; delete that line and build again")
        return fields
