"""Words that make a sentence no conclusion: conditions before it, and second thoughts after it."""

from __future__ import annotations

import re

TAKES_BACK = re.compile(
    r"\b(?:wait|actually|correction|on second thoughts?|on reflection|"
    r"scratch that|i mean|or rather|no,? wait|let me (?:correct|reconsider))\b|"
    r",\s?no,",
    re.IGNORECASE,
)
"""What may begin a retraction: what is said after it counts against what was said before."""

_UNSAID_AT_ONCE = re.compile(
    r"[\W_]*(?:but |however, )?(?:it|this|that|which) (?:is|was|would be) "
    r"(?:\w+ly )?(?:wrong|incorrect|false|mistaken|a mistake|not (?:correct|right|true))\s?(?:$|[.,;!\n])",
    re.IGNORECASE,
)
_UNSAID = re.compile(
    r"\b(?:i (?:am|was|stand) (?:wrong|mistaken|corrected)(?! (?:before|earlier|previously|at first|initially|in|to|about|when))|"
    r"(?:my|this|that|the) (?:(?:above|first|last|previous|draft) )?answer (?:is|was) (?:wrong|incorrect|a mistake|not (?:correct|right))|"
    r"scratch that|i (?:take (?:it|that) back|withdraw|retract)|i(?:'ve| have)? changed? my mind)\b",
    re.IGNORECASE,
)
# "If we look closely" is no condition.
_SUPPOSES = re.compile(
    r"\b(?:if|unless|suppose|supposing|assuming|provided that|had (?:there|it|he|she|they|the|we|i)|were (?:there|it|the))\b"
    r"(?!\s(?:we|you|i|one)\s(?:\w+\s)?(?:look|zoom|count|consider|examine|compare|focus|see|observe|inspect)\b)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[;\n]|\b(?:but|so|however|therefore|thus|hence)\b", re.IGNORECASE)
_ONLY_IF = re.compile(
    r"(?:(?!\b(?:because|since|as|whereas|while|but|so|and)\b)[^,.;:!?\n]){0,80}?"
    r"\b(?:if|unless|only when|provided that)\b(?! (?:not|any)\b)",
    re.IGNORECASE,
)


def supposed(text: str, at: int) -> bool:
    """Whether the sentence before this place supposes something ("if it were red, ..."), so that what follows is no conclusion."""
    return bool(_SUPPOSES.search(_SENTENCE_END.split(text[max(0, at - 200) : at])[-1]))


def conditional(value: str) -> bool:
    """Whether a value holds under a condition only ("B if the view is from the left")."""
    return bool(_ONLY_IF.match(value))


def unsaid(text: str, said: int, end: int | None = None) -> bool:
    """Whether a statement is taken back without another in its place, by what follows its value (from ``said``) or it (``end``)."""
    return bool(_UNSAID_AT_ONCE.match(text, said if end is None else end) or _UNSAID.search(text, said))


def last_unsaid(text: str) -> int | None:
    """Where the last words end that take back what was said before; None if there are none."""
    ends = [match.end() for match in _UNSAID.finditer(text)]
    return ends[-1] if ends else None
