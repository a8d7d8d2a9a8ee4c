"""Strangers' words and our own records, made fit for a page that others will see."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from mug_eval.keys import KEY
from mug_eval.show import printable

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_PATH = re.compile(r"(?<![\w.<&])(?:~|\.{1,2})?(?:[\\/][^\s\\/:;,'\"()=]+)+[\\/]?|\b[A-Za-z]:\\[^\s;,'\"]+")
_RELATIVE = re.compile(r"(?<![\w./])[\w.+-]+(?:/[\w.+@-]+){2,}")
_PLACEHOLDER = re.compile(r"<work-dir>(?:/(?:<[a-z-]+>|[\w.-]++(?!/)))*")
"""How our own messages say where something belongs: no place on any machine."""


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
    text = KEY.sub("(key)", _ADDRESS.sub("(address)", text))
    kept, begin = [], 0
    for placeholder in _PLACEHOLDER.finditer(text):
        kept += [_without_paths(text[begin : placeholder.start()]), placeholder[0]]
        begin = placeholder.end()
    return printable("".join([*kept, _without_paths(text[begin:])]))


def _without_paths(text: str) -> str:
    text = _PATH.sub(lambda found: _last(found[0]), text)
    return _RELATIVE.sub(lambda found: _last(found[0]), text)


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
        word = KEY.sub("(key)", word)  # whole: a setting that is called a key is one, whatever its value looks like
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
