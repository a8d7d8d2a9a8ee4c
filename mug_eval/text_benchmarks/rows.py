"""A row of a text benchmark, and how its fields are read from a stranger's record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

LONGEST_INDEX = 200
"""Characters of a row's name; it is also a cell and a line on the terminal."""

_KINDS = {
    bool: "a truth value",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


class FieldError(ValueError):
    """A field is missing or of the wrong type: the message names it and says what is there."""


@dataclass(frozen=True, slots=True)
class TextRow:
    """One row, its answer beside it. What is put to a model is made of ``prompt`` and ``options`` alone.

    Attributes:
        index: the row's name, unique within the file.
        prompt: the whole text of the question, its options listed.
        options: (letter, text) in the file's order; empty for an open question.
        gold: an option's letter, or the references of an open question.
        keys: what may make rows dependent, by name (``passage``, ``dialogue``, ...).
        category: by which scores are divided, or "".
        fault: why the question cannot be put, or "".
    """

    index: str
    prompt: str
    options: tuple[tuple[str, str], ...]
    gold: tuple[str, ...]
    keys: Mapping[str, str] = field(default_factory=dict)
    category: str = ""
    fault: str = ""


def value_at(record: Any, path: str) -> Any:
    """What is at ``question.stem`` of nested objects.

    Raises:
        FieldError: a name on the way is missing, or lies in something that is no object.
    """
    value, walked = record, ""
    for name in path.split("."):
        if not isinstance(value, dict):
            raise FieldError(f"{walked or 'the row'} is {kind(value)}, not an object")
        walked = f"{walked}.{name}" if walked else name
        if name not in value:
            raise FieldError(f"field {walked} is missing")
        value = value[name]
    return value


def text_at(record: Any, path: str, *, may_be_empty: bool = False) -> str:
    """A text, without what no file or server takes (NUL, halves of surrogate pairs) and without outer white space.

    Raises:
        FieldError: it is missing, no text, or blank.
    """
    value = value_at(record, path)
    if not isinstance(value, str):
        raise FieldError(f"field {path} is {kind(value)}, not text")
    text = clean(value)
    if not text and not may_be_empty:
        raise FieldError(f"field {path} is empty")
    return text


def list_at(record: Any, path: str) -> list[Any]:
    """A list.

    Raises:
        FieldError: it is missing or something else.
    """
    value = value_at(record, path)
    if not isinstance(value, list):
        raise FieldError(f"field {path} is {kind(value)}, not a list")
    return value


def index_at(record: Any, path: str) -> str:
    """A row's name: a text or a whole number, printable, of one line.

    Raises:
        FieldError: it is missing or cannot be a name.
    """
    value = value_at(record, path)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise FieldError(f"field {path} is {kind(value)}, not a name")
    name = clean(value if isinstance(value, str) else str(value))
    if not name or len(name) > LONGEST_INDEX or not name.isprintable():
        raise FieldError(f"field {path} must be 1 to {LONGEST_INDEX} printable characters")
    return name


def clean(text: str) -> str:
    """The text as every file and server takes it."""
    return text.replace("\x00", "").encode("utf-8", errors="replace").decode("utf-8").strip()


def kind(value: Any) -> str:
    """What a value is, for messages."""
    return _KINDS.get(type(value), type(value).__name__)
