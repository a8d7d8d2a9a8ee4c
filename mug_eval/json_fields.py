"""JSON from strangers, read strictly: every mistake is one line with the file and the field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mug_eval.errors import UserError
from mug_eval.names import unknown

_MOST_BYTES = 1 << 20
_LARGEST = 1e15


def read_json(path: Path) -> Any:
    """A JSON file; NaN, infinities and a key that is there twice are refused.

    Raises:
        UserError: no such file, or not such JSON.
    """
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{path}: larger than 1 MiB, surely no row of a board")
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_constant, object_pairs_hook=_once)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text") from None
    except RecursionError:
        raise UserError(f"{path}: nested too deeply") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON ({error})") from None


def unprintable(value: Any, where: str = "") -> str | None:
    """The first field of a JSON value, in whose name or text something does not show as it is, or None.

    Bidirectional marks would make a row read other than it is, and halves of surrogate pairs have no bytes in UTF-8. Line ends may
    stand in a setting.
    """
    if isinstance(value, str):
        return None if value.replace("\n", "").replace("\t", "").isprintable() else where
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in parts:
        if isinstance(name, str) and not name.isprintable():
            return f"{where}.{name!a}".removeprefix(".")
        found = unprintable(entry, f"{where}.{name}".removeprefix("."))
        if found is not None:
            return found
    return None


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the field {name!r} is there twice")
        found[name] = value
    return found


class Fields:
    """An object of a JSON file, taken apart field by field; what is left over at the end is a mistake."""

    def __init__(self, value: Any, file: Path, where: str = "") -> None:
        """Take an object.

        Args:
            value: what should be one.
            file: it stands in, for messages.
            where: its own name in the file, "" for the whole.

        Raises:
            UserError: it is none.
        """
        self.file, self._where = file, where
        if not isinstance(value, dict):
            raise self.wrong("", "must be an object")
        self._whole: dict[str, Any] = value
        self._left = dict(value)
        self._known: list[str] = []

    def wrong(self, name: str, what: str) -> UserError:
        """The error for a field."""
        field = ".".join(part for part in (self._where, name) if part)
        return UserError(f"{self.file}: {field + ' ' if field else ''}{what}")

    def take(self, name: str) -> Any:
        """The value of a field that must be there."""
        self._known.append(name)
        if name not in self._left:
            raise self.wrong(name, "is missing")
        return self._left.pop(name)

    def has(self, name: str) -> bool:
        """Whether a field is there."""
        return name in self._whole

    def has_none(self, name: str) -> bool:
        """Whether a field is there and null."""
        return self.has(name) and self._whole[name] is None

    def seen(self, name: str) -> Any:
        """The value of a field that was taken before."""
        return self._whole[name]

    def done(self) -> None:
        """See that no field is left.

        Raises:
            UserError: one is that nobody knows.
        """
        for name in self._left:
            raise self.wrong("", f"has an {unknown('field', name, self._known)}")

    def text(self, name: str, pattern: str = r"[^\x00-\x1f]+") -> str:
        """A text that matches the pattern as a whole."""
        value = self.take(name)
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise self.wrong(name, f"must be a text of the form {pattern}, not {_short(value)}")
        return value

    def text_or_none(self, name: str, pattern: str = r"[^\x00-\x1f]+") -> str | None:
        """A text, or null."""
        if self.has_none(name):
            self.take(name)
            return None
        return self.text(name, pattern)

    def number(self, name: str, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number within bounds."""
        value = self.take(name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        # Compared before it is converted: JSON has whole numbers that no float can hold.
        if not number or not -_LARGEST < value < _LARGEST or not low <= value <= high:
            raise self.wrong(name, f"must be a number{_range(low, high)}, not {_short(value)}")
        return float(value)

    def number_or_none(self, name: str, low: float = -math.inf, high: float = math.inf) -> float | None:
        """A finite number within bounds, or null."""
        if self.has_none(name):
            self.take(name)
            return None
        return self.number(name, low, high)

    def whole(self, name: str, low: int = 0) -> int:
        """A whole number."""
        value = self.take(name)
        if type(value) is not int or value < low:
            raise self.wrong(name, f"must be a whole number from {low}, not {_short(value)}")
        return value

    def whole_or_none(self, name: str, low: int = 0) -> int | None:
        """A whole number, or null."""
        if self.has_none(name):
            self.take(name)
            return None
        return self.whole(name, low)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.take(name)
        if not isinstance(value, bool):
            raise self.wrong(name, f"must be true or false, not {_short(value)}")
        return value

    def fields(self, name: str) -> Fields:
        """An object within this one."""
        return Fields(self.take(name), self.file, ".".join(part for part in (self._where, name) if part))

    def plain(self, name: str) -> dict[str, Any]:
        """An object with any fields."""
        value = self.take(name)
        if not isinstance(value, dict):
            raise self.wrong(name, f"must be an object, not {_short(value)}")
        return value

    def plain_or_none(self, name: str) -> dict[str, Any] | None:
        """An object with any fields, or null."""
        if self.has_none(name):
            self.take(name)
            return None
        return self.plain(name)

    def items(self, name: str, fits: Callable[[Any], bool], what: str, least: int = 0) -> Sequence[Any]:
        """A list whose every item fits."""
        value = self.take(name)
        if not isinstance(value, list) or len(value) < least or not all(fits(item) for item in value):
            raise self.wrong(name, f"must be a list of {what}, not {_short(value)}")
        return value


def _range(low: float, high: float) -> str:
    if low == -math.inf and high == math.inf:
        return ""
    return f" from {low:g}" + ("" if high == math.inf else f" to {high:g}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def opened(value: Any, file: Path, schema: int) -> Fields:
    """The fields of a file from a stranger, seen to show as they are and to be of a schema.

    Raises:
        UserError: they are not.
    """
    top = Fields(value, file)
    dark = unprintable(value)
    if dark is not None:
        raise top.wrong(dark, "has characters that do not show (marks of direction, halves of pairs, controls); take them out")
    if top.whole("schema") != schema:
        raise top.wrong("schema", f"must be {schema}: this version of mug_eval knows no other")
    return top
