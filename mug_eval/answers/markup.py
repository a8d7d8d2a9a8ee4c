"""A reply as plain text, for reading an answer out of it."""

from __future__ import annotations

import re

OPENED, CLOSED = "\ue000", "\ue001"
"""Private-use characters that stand, in plain text, around what a reply encloses as its answer (a box, an answer tag)."""

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
    **dict.fromkeys((0xA0, 0x3000, *range(0x2000, 0x200B), 0x202F, 0x205F), " "),
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
_BRACE = re.compile(r"(?P<box>\\(?:boxed|fbox)\s?)?\{|\}")
_LONGEST_BOX = 2_000
_GLM_BOX = re.compile(r"<\|begin_of_box\|>(.{0,400}?)<\|end_of_box\|>", re.DOTALL)
_ANSWER_NAME = r"(?:final[_ -]?)?(?:answer|ans|choice|verdict)"
_ANSWER_TAG = re.compile(
    rf"<\s?{_ANSWER_NAME}\s?>([^<]{{0,2000}})(?:<\s?/\s?{_ANSWER_NAME}\s?>)?",
    re.IGNORECASE,
)
_TAG = re.compile(r"</?[A-Za-z][\w-]{0,30}\s?/?>|<\|[\w-]{1,40}\|>")
# "- 5" may be minus five: it is no bullet.
_LINE_START = re.compile(r"^[ \t]{0,8}(?:#{1,6}|>|[-+](?![ \t]+[\d.√\\$])|[*•])[ \t]+", re.MULTILINE)
_STRONG = re.compile(r"\*{2,3}(?=[^\s*])([^*\n]{1,1000})(?<=\S)\*{2,3}")
_EMPHASIS = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*\n]{1,1000})(?<=\S)\*(?![\w*])")
# Stars that are left are no markup where they stand between factors.
_STARS = re.compile(r"(?P<times>(?<=[\d)]) ?\*{1,2} ?(?=[\w(])|(?<=\w) ?\*{1,2} ?(?=[\d(]))|\*+")
_UNDERSCORES = re.compile(r"(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_CODE_NAME = re.compile(r"(?<!\w)__[a-z]\w{1,60}__(?!\w)|(?:(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w))")


def plain(reply: str, code_names: bool = False) -> str:
    """A spoken reply with its markup taken away, for reading an answer out of it.

    Full-width letters, quotes and line ends are brought to their ASCII forms; invisible and control characters, markdown,
    LaTeX styles and tags go; what is boxed or in an answer tag stands between ``OPENED`` and ``CLOSED``.

    Args:
        reply: what was said aloud.
        code_names: whether ``__init__`` is a name, not ``init`` in bold.
    """
    text = reply.replace("\r\n", "\n").translate(_CHARACTERS)
    for _ in range(3):
        text = _LATEX_STYLE.sub(r"\1", text)
    text = _LATEX_FRACTION.sub(r"\1/\2", text)
    text = _GLM_BOX.sub(lambda box: f"{OPENED}{box[1]}{CLOSED}", _unboxed(text))
    text = _LATEX_SPACE.sub(" ", text).replace("\\%", "%").replace("\\$", "$")
    text = _ANSWER_TAG.sub(lambda tag: f"{OPENED}{tag[1].strip()}{CLOSED}", text)
    text = _TAG.sub(" ", text)
    text = _LINE_START.sub("", text)
    text = _EMPHASIS.sub(r"\1", _STRONG.sub(r"\1", text))
    text = _STARS.sub(lambda stars: stars["times"] or "", text).replace("`", "")
    text = _CODE_NAME.sub(lambda name: name[0] if len(name[0]) > 3 else "", text) if code_names else _UNDERSCORES.sub("", text)
    text = re.sub(r"[ \t]+", " ", text)
    text = re.sub(r" ?\n[ \n]*", "\n", text)
    return text.strip()


def _unboxed(text: str) -> str:
    """What LaTeX boxes hold, however deep its braces, between ``OPENED`` and ``CLOSED``; a box in a box counts once."""
    opened: list[int | None] = []  # for each open brace: where its box begins
    boxes: list[tuple[int, int, int]] = []  # where the box begins, where its brace is, where it ends
    inner_starts: list[int] = []
    for brace in _BRACE.finditer(text):
        if brace[0] != "}":
            opened.append(brace.start() if brace["box"] else None)
            inner_starts.append(brace.end())
        elif opened:
            start, inner = opened.pop(), inner_starts.pop()
            if start is not None and brace.start() - inner <= _LONGEST_BOX:
                while boxes and boxes[-1][0] > start:
                    boxes.pop()
                boxes.append((start, inner, brace.end()))
    parts: list[str] = []
    at = 0
    for start, inner, end in boxes:
        content = re.sub(r"\\(?:boxed|fbox)\s?\{([^{}]*)\}", r"\1", text[inner : end - 1])
        parts.append(f"{text[at:start]}{OPENED}{content}{CLOSED}")
        at = end
    return "".join(parts) + text[at:]
