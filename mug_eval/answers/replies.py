"""A reply as text: without private thinking, without markup, and the JSON object in it."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import json_repair

OPENED, CLOSED = "\ue000", "\ue001"
"""Private-use characters that stand, in plain text, around what a reply encloses as its answer (a box, an answer tag)."""

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


_INVISIBLE = dict.fromkeys(
    [
        *range(0x00, 0x09),
        *range(0x0B, 0x0D),
        *range(0x0E, 0x20),
        *range(0x7F, 0xA0),
        0xAD,
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        0xFEFF,
        *range(0xE000, 0xF900),
    ]
)
_SAME_AS = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},  # full-width ASCII
    **{0x24B6 + at: ord("A") + at for at in range(26)},  # circled letters
    **{code: " " for code in (0xA0, 0x3000, *range(0x2000, 0x200B), 0x202F, 0x205F)},
    **dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bc\u00b4"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201f\u00ab\u00bb\u300c\u300d"), '"'),
    **dict.fromkeys(map(ord, "\u3010\u3014"), "["),
    **dict.fromkeys(map(ord, "\u3011\u3015"), "]"),
    ord("\u3002"): ".",
    ord("\u3001"): ",",
    ord("\r"): "\n",
    0x2212: "-",
    0x2028: "\n",
    0x2029: "\n",
}
_CHARACTERS = {**_SAME_AS, **_INVISIBLE}

_LATEX_STYLE = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mathsf|mathbb|bf|rm|emph|operatorname)\s?\{([^{}\n]{0,400})\}"
)
_LATEX_FRACTION = re.compile(r"\\d?frac\s?\{([^{}\n]{1,40})\}\s?\{([^{}\n]{1,40})\}")
_LATEX_SPACE = re.compile(r"\\[,;!: ()\[\]]|\\q?quad\b")
_BOX = re.compile(r"\\(?:boxed|fbox)\s?\{([^{}\n]{0,400})\}|<\|begin_of_box\|>(.{0,400}?)<\|end_of_box\|>", re.DOTALL)
_ANSWER_TAG = re.compile(
    r"<\s?(?:final[_ -]?)?(?:answer|ans|choice|verdict)\s?>([^<]{0,2000})(?:<\s?/\s?(?:final[_ -]?)?(?:answer|ans|choice|verdict)\s?>)?",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[A-Za-z][\w-]{0,30}\s?/?>|<\|[\w-]{1,40}\|>")
_LINE_START = re.compile(r"^[ \t]{0,8}(?:#{1,6}|>|[-*+•])[ \t]+", re.MULTILINE)
_UNDERSCORES = re.compile(r"(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")


def plain(reply: str) -> str:
    """A spoken reply with its markup taken away, for reading an answer out of it.

    Full-width letters, quotes and line ends are brought to their ASCII forms; invisible and control characters, markdown,
    LaTeX styles and tags go; what is boxed or in an answer tag stands between ``OPENED`` and ``CLOSED``.
    """
    text = reply.replace("\r\n", "\n").translate(_CHARACTERS)
    for _ in range(3):
        text = _LATEX_STYLE.sub(r"\1", text)
    text = _LATEX_FRACTION.sub(r"\1/\2", text)
    text = _BOX.sub(lambda box: f"{OPENED}{box[1] or box[2] or ''}{CLOSED}", text)
    text = _LATEX_SPACE.sub(" ", text).replace("\\%", "%").replace("\\$", "$")
    text = _ANSWER_TAG.sub(lambda tag: f"{OPENED}{tag[1].strip()}{CLOSED}", text)
    text = _TAG.sub(" ", text)
    text = _LINE_START.sub("", text)
    text = _UNDERSCORES.sub("", text.replace("**", "").replace("*", "").replace("`", ""))
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" ?\n[ \n]*", "\n", text)
    return text.strip()


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
    commas, a cut-off end). Objects nested deeper than 40 levels are not read, so that no reply can exhaust the stack.
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

    A brace that is never closed hides what follows only if it opens an object (the reply was cut off); otherwise it is a
    character of the prose.
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
    cut_off = next((start for start, _ in opened if _OBJECT_START.match(reply, start)), len(reply))
    spans = [(start, end) for start, end, depth in closed if depth <= _DEEPEST and start < cut_off]
    if cut_off < len(reply) and len(opened) <= _DEEPEST:
        spans.append((cut_off, len(reply)))
    return spans
