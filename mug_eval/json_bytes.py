"""JSON as bytes that any text survives: a reply with half a surrogate pair is written down, not lost."""

from __future__ import annotations

import json
from typing import Any

# Made once: json.dumps would make one at every call.
_READABLE = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_ASCII = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def json_bytes(value: Any) -> bytes:
    """Compact JSON in UTF-8, keys in the order given.

    Text stays readable (no escapes for letters beyond ASCII), unless it holds lone surrogates, which UTF-8 has no bytes for: then
    the whole value is written with ASCII escapes, from which ``json.loads`` gives the same text back.

    Raises:
        ValueError: the value holds NaN or an infinity, which JSON has no word for.
        TypeError: the value is not made of JSON types.
    """
    try:
        return _READABLE.encode(value).encode()
    except UnicodeEncodeError:
        return _ASCII.encode(value).encode()
