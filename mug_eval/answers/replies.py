"""What of a reply was said aloud, and the JSON object in it."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import json_repair

_THOUGHT = re.compile(
    r"[<◁]\s{0,3}(?P<close>/?)\s{0,3}(?:think(?:ing)?|reasoning|thoughts?)(?:\s+[\w-]{1,30}=[^<>\n]{0,80})?\s{0,3}[>▷]",
    re.IGNORECASE,
)


def spoken(text: str) -> str:
    """The reply without its private thinking.

    ``<think>``, ``<thinking>``, ``<thought>`` and ``<reasoning>`` count. What follows an opening tag that is never closed is
    thought (the reply was cut off while thinking); what precedes a closing tag that was never opened is thought too (chat
    templates put the opening tag into the prompt). A closing tag closes everything that is open.
    """
    kept: list[str] = []
    start = 0
    thinking = False
    for tag in _THOUGHT.finditer(text):
        if not tag["close"]:
            if not thinking:
                kept.append(text[start : tag.start()])
            thinking = True
            continue
        if not thinking:
            kept.clear()
        thinking = False
        start = tag.end()
    if not thinking:
        kept.append(text[start:])
    return "".join(kept).strip()


class Found(NamedTuple):
    """A JSON object and where it stands."""

    value: dict[str, Any]
    start: int
    end: int


_DEEPEST = 40
_LONGEST_REPAIR = 20_000
_MOST_SPANS = 50


def parse_object(text: str) -> dict[str, Any] | None:
    """The last JSON object in a reply, None if there is none.

    Strict JSON is looked for first. Only if there is none, a span in braces, fenced or not, is repaired (single quotes, missing
    commas, comments). An object that the text ends in is none, and neither is what it holds or what came before it: nobody
    knows what it would have said. Objects nested deeper than 40 levels are not read, so that no reply can exhaust the stack.
    """
    found = last_object(spoken(text))
    return None if found is None else found.value


def last_object(reply: str) -> Found | None:
    """Like :func:`parse_object` for a spoken reply, with the place of the object."""
    spans = _spans(reply)[-_MOST_SPANS:]
    empty: Found | None = None
    for read in (_strict, _repaired):
        for start, end in reversed(spans):
            value = read(reply[start:end])
            if value:
                return Found(value, start, end)
            if value is not None and empty is None:
                empty = Found(value, start, end)
    return empty


def _strict(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _repaired(text: str) -> dict[str, Any] | None:
    if len(text) > _LONGEST_REPAIR or text.count("[") > _DEEPEST:
        return None
    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError, LookupError, TypeError):  # what its hand-written parser has been seen to raise on rubbish
        return None
    return value if isinstance(value, dict) and value else None


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_JSON_TOKEN = re.compile(r'[{}]|"(?:[^"\\\n]|\\.)*"')
_OBJECT_START = re.compile(r"\{\s{0,20}[\"']")


def _spans(reply: str) -> list[tuple[int, int]]:
    """The outermost spans in braces, in order, without those nested too deep.

    There are none if a brace that is never closed opens an object (the reply was cut off); any other such brace is a character
    of the prose.
    """
    closed: list[tuple[int, int, int]] = []  # start, end, depth
    opened: list[tuple[int, int]] = []  # start, depth below
    at = reply.find("{")
    while at >= 0:
        token = _JSON_TOKEN.search(reply, at)
        if token is None:
            break
        at = token.end()
        if token[0] == "{":
            opened.append((token.start(), 0))
        elif token[0] == "}" and opened:
            start, depth = opened.pop()
            while closed and closed[-1][0] > start:
                closed.pop()
            closed.append((start, token.end(), depth + 1))
            if opened:
                above, deepest = opened[-1]
                opened[-1] = (above, max(deepest, depth + 1))
        if not opened:
            at = reply.find("{", at)
    if any(_OBJECT_START.match(reply, start) for start, _ in opened):
        return []
    return [(start, end) for start, end, depth in closed if depth <= _DEEPEST]
