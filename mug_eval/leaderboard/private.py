"""What must not be published: a machine's paths, its network, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mug_eval.keys import KEY

_URL = re.compile(r"https?://[^\s'\"]+")
_PRIVATE = (
    (
        "a path of a machine",
        re.compile(
            r"(?<![\w.])(?:~|\.\.?)?/[\w.@-]+/[\w.@/-]+|(?<!\w)~/|(?<![^\s='\":(])/[A-Za-z_][\w.-]*|\$\{?[A-Za-z_]\w*\}?/"
            r"|\b[A-Za-z]:\\|\\\\\w|file://"
        ),
    ),
    ("a key", KEY),
    (
        "an address of a private network",
        re.compile(
            r"\[(?:::1?|f[cde][0-9a-f]{2}:[0-9a-f:]*)\]|\b(?:[\w-]+\.)+(?:internal|local|lan)\b(?!\.)"
            r"|\b(?:localhost|0\.0\.0\.0|169\.254(?:\.\d{1,3}){2}|127(?:\.\d{1,3}){3}|10(?:\.\d{1,3}){3}|192\.168(?:\.\d{1,3}){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d{1,3}){2})\b"
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
