"""Strangers' words and our own records, made fit for a page that others will see."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from mug_eval.show import printable

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_PATH = re.compile(r"(?<![\w.<&])(?:~|\.{1,2})?(?:[\\/][^\s\\/:;,'\"()=]+)+[\\/]?|\b[A-Za-z]:\\[^\s;,'\"]+")
_RELATIVE = re.compile(r"(?<![\w./])[\w.+-]+(?:/[\w.+@-]+){2,}")
_KEY = re.compile(r"\b(?:sk|pk|hf|ghp|gsk|xai|AIza)[-_]?[A-Za-z0-9_-]{16,}\b")


def shown(value: Any) -> Any:
    """JSON of any depth with every text printable.

    Control characters, bidirectional overrides and halves of surrogate pairs become visible escapes, as ``mug-eval show`` prints
    them. What is left is text that UTF-8 has bytes for.
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {printable(str(name)): shown(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [shown(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # Python writes and reads NaN; JSON, and so a browser, has no word for it
    return value


def without_places(text: str) -> str:
    """Our own words (a note, a command, a setting, a message) without where things lie on this machine.

    Of a path only its last part is left, of an address of a server nothing, and nothing of what looks like a key. Not for model
    output: there a slash means what it says.
    """
    text = _ADDRESS.sub("(address)", text)
    text = _KEY.sub("(key)", text)
    text = _PATH.sub(lambda found: _last(found[0]), text)
    return printable(_RELATIVE.sub(lambda found: _last(found[0]), text))


def _last(path: str) -> str:
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1] or "/"


def command_line(words: list[str]) -> str:
    """The recorded command as others could give it: the program's name, files by their last part, no server's address."""
    if not words:
        return ""
    kept, skip = [], False
    for word in words[1:]:
        if skip:
            skip = False
            continue
        if word == "--base-url":
            kept += ["--base-url", "URL"]
            skip = True
            continue
        name, equals, value = word.partition("=")
        kept.append(f"{name}={_place(value)}" if equals else _place(word))
    program = "python run_eval.py" if words[0].endswith("run_eval.py") else "mug-eval"
    return printable(" ".join([program, *kept]))


def _place(word: str) -> str:
    if "://" in word:
        return "URL"
    return _last(word) if re.search(r"[\\/]", word) else without_places(word)
