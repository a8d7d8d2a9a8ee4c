"""What must not be published: a machine's paths, its network, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_URL = re.compile(r"https?://[^\s'\"]+")
_PRIVATE = (
    ("a path of a machine", re.compile(r"(?<![\w.])(?:~|\.\.?)?/[\w.@-]+/[\w.@/-]+|(?<!\w)~/|\b[A-Za-z]:\\|\\\\\w|file://")),
    ("a key", re.compile(r"\b(?:sk-[\w-]{8,}|hf_\w{8,}|gh[pousr]_\w{16,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{20,}|Bearer\s+\S+)")),
    (
        "an address of a private network",
        re.compile(
            r"\b(?:localhost|127(?:\.\d{1,3}){3}|10(?:\.\d{1,3}){3}|192\.168(?:\.\d{1,3}){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2})\b"
        ),
    ),
    ("a user name or password in an address", re.compile(r"://[^/\s'\"]*@")),
)


def private_parts(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """(field, what it holds) of every text, key or value, within a JSON value that should stay at home."""
    if isinstance(value, dict):
        for name, entry in value.items():
            field = f"{where}.{name}".removeprefix(".")
            yield from private_parts(name, field)
            yield from private_parts(entry, field)
    elif isinstance(value, list | tuple):
        for place, entry in enumerate(value):
            yield from private_parts(entry, f"{where}[{place}]")
    elif isinstance(value, str):
        for what, pattern in _PRIVATE:
            # A public address has slashes too, which are no path of a machine.
            if pattern.search(_URL.sub("", value) if what.startswith("a path") else value):
                yield where, what
