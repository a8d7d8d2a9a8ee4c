"""A question's type from its words alone: for backbones whose JSON cannot be read, and to hold those against that can."""

from __future__ import annotations

import re

from mug_eval.question import Question

_COUNTS = r"(?:one|two|three|four|five|six|seven|eight|nine|ten|\d+)"
_COLOURS = "red|orange|yellow|green|blue|purple|pink|brown|black|white|gr[ae]y|silver|golden?"
_RULES: tuple[tuple[str, str], ...] = (
    (
        "other",
        r"\b(?:texts?|words?|written|writing|reads?|says?|say|letters?|spell(?:ed|ing)?|captions?|titles?|labell?ed|logos?)\b",
    ),
    (
        "quantity",
        rf"\bhow (?:many|much)\b|\bnumber of\b|\bcounts?\b|\btotal\b|\bmore\b.*\bthan\b|\bfewer\b"
        rf"|\b(?:is|are) there (?:only |exactly |just )?{_COUNTS}\b|\b(?:exactly|only|at least) {_COUNTS}\b"
        r"|\bwhich (?:picture|image) (?:has|shows|holds) more\b",
    ),
    (
        "spatial",
        r"\b(?:left|right|leftmost|rightmost|above|below|under(?:neath)?|behind|beside|between|inside|outside|where|nearest|closest"
        r"|furthe[rs]t?|farthe[rs]t?|top|bottom|corner|middle|cent(?:er|re)|located|positions?|facing|direction)\b"
        r"|\bnext to\b|\bin front of\b|\bon (?:the )?(?:top|side|other side) of\b",
    ),
    (
        "attribute",
        r"\bcolou?r(?:s|ed)?\b|\bshapes?\b|\bsizes?\b|\bmaterials?\b|\bmade of\b|\bpatterns?\b|\btextures?\b|\bstates?\b"
        r"|\b(?:large|small|big|tall|short|wide|long|bright|dark|old|young)(?:r|er|est|st)?\b|\b(?:bigg(?:er|est))\b"
        rf"|^(?:is|are|was|were) (?:the|this|that|these|those)\b.*\b(?:{_COLOURS}|open|closed|empty|full|round|square)\b",
    ),
    (
        "object",
        r"^(?:is|are) there\b|\b(?:what|which|who|whose)\b|\bpresent\b|\bcontains?\b|\bcan you see\b|\bshows?\b|\bappears?\b|\bany\b"
        r"|\bdoes .* have\b",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _RULES)
_END_OF_QUESTION = re.compile(r"\n\s*(?:Options?:|\(?A[.):]\s)|\s*(?:Please|Answer|Note|Select)\b[^?]*$", re.IGNORECASE)
_LONGEST = 2000
_LABEL = re.compile(r"^\s*(?:Hint:[^\n]*\n)?\s*Question:\s*", re.IGNORECASE)


def question_words(question: Question) -> str:
    """What is asked, without options and without how to answer."""
    text = _LABEL.sub("", "\n".join(part for part in question.prompt if isinstance(part, str)).strip())
    end = _END_OF_QUESTION.search(text)
    return (text[: end.start()] if end else text).strip() or text


def type_by_words(words: str) -> str:
    """``object``, ``quantity``, ``attribute``, ``spatial`` or ``other``: the first whose keywords occur, from the telling to the common.

    Printed text is ``other``, as for the planner; so is what holds none of the keywords.
    """
    return next((kind for kind, pattern in _PATTERNS if pattern.search(words[:_LONGEST])), "other")
