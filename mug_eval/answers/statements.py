"""Where a reply says that now comes its answer: labels, boxes, tags, JSON keys, "the answer is"."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from mug_eval.answers.markup import CLOSED, OPENED
from mug_eval.answers.replies import last_object
from mug_eval.answers.second_thoughts import supposed


@dataclass(frozen=True, slots=True)
class Statement:
    """An explicit statement of an answer.

    Attributes:
        start: where its marker begins in the plain text.
        end: where its value ends.
        value: what is given as the answer, to the end of the line, or what is enclosed.
        enclosed: whether the value is all there is (a box, a tag, a JSON value), not the beginning of a sentence.
        labelled: whether a label introduced it (``Answer:``), so that a value must be there.
        final: whether it has the form that is asked for, so that no mere sentence overrides it: enclosed, or a label that
            begins a line.
    """

    start: int
    end: int
    value: str
    enclosed: bool
    labelled: bool = True
    final: bool = False


# A reply of nothing but markers must not take time in the square of its length.
_MOST_STATEMENTS = 60
_LONGEST_VALUE = 2_000

ANSWER_KEYS = ("final_answer", "finalanswer", "answer", "choice", "option", "selected_option", "prediction", "verdict")

_QUALITY = (
    r"(?:final|correct|best|right|proper|short|overall|chosen|selected|most|likely|accurate|appropriate|ultimate|concise|direct)"
)
_HEAD = rf"(?:(?:{_QUALITY}\s){{0,3}}(?:answers?|ans|choice|option|verdict|conclusion|selection|prediction)|答案)"
_LABEL = re.compile(
    rf"(?<![\w'-]){_HEAD}(?:\s(?:letter|choice|option|is))?(?:\s?[(\[][^()\[\]\n]{{0,40}}[)\]])?[\"']?\s?(?:[:=]|->|=>|→|\s[-–—]\s)\s?",
    re.IGNORECASE,
)
_HEADING = re.compile(rf"^(?:(?:my|the)\s)?{_HEAD}(?:\n|\s(?=[(\[]?(?:\w|yes|no)[)\]]?\W{{0,3}}$))", re.IGNORECASE | re.MULTILINE)
# These words label an answer only where nothing else does, and only at the start of a line.
_OTHER_LABEL = re.compile(
    r"^(?:(?:my|the|final)\s){0,2}(?:response|decision|final|result|judge?ment|ruling|vote|guess)\s?(?:[:=]|->|=>|\s[-–—]\s)\s?",
    re.IGNORECASE | re.MULTILINE,
)
_LINE_LEAD = re.compile(r"\W{0,6}(?:(?:so|therefore|thus|hence|my|the|your)[,:]?\s){0,3}", re.IGNORECASE)
_SENTENCE = re.compile(
    r"(?<![\w'-])(?P<head>answer|(?:correct|best|right|final|only|my|chosen|appropriate|accurate|likely)\s(?:option|choice|one|pick|vote|verdict)|"
    r"my\s(?:best\s)?guess|(?:my|the|final)\s(?:verdict|judge?ment|decision|response|conclusion))"
    r"(?P<middle>(?:\s(?!is\b|was\b|would\b|must\b|should\b|isn't\b)[\w'\"-]{1,30}){0,10}?)"
    r"\s(?:(?:is|remains|stays|would be|must be|should be|will be|has to be|goes to)(?![\w']))\s?:?\s?",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    r"\b(?:(?:chang|switch|revis|updat|correct)(?:e|es|ed|ing)?\s(?:my|the)\s(?:final\s)?(?:answer|vote|choice)\sto|"
    r"mak(?:es|ing)\s(?:the|my)\s(?:correct\s|final\s)?answer)\s",
    re.IGNORECASE,
)
_CHINESE = re.compile(r"(?:答案(?:应该)?(?:是|为|选)|(?:应|故)?选择?)\s?:?\s?(?=[A-Z(\"是否不])")
_ENCLOSED = re.compile(f"{OPENED}([^{OPENED}{CLOSED}]*){CLOSED}")
_QUOTED = re.compile(r"\"((?:[^\"\\\n]|\\.){0,500})\"|'([^'\n]{0,500})'")

# Words before a marker, in its clause, that make the statement somebody else's, an earlier one, a mere possibility, or a denial.
_NOT_MINE = re.compile(
    r"\b(?:if|whether|suppose|supposing|assum\w+|unless|might|could|may|some|someone|others?|agents?|he|she|they|who|claim\w*|says|argu\w+|"
    r"suggest\w*|initial(?:ly)?|previous(?:ly)?|original(?:ly)?|earlier|wrong|incorrect|false|untrue|another|alternative|not|never|cannot|doubt\w*|their|his|her|"
    r"example|instead of|rather than|unlike|first)\b|n't\b|(?<!\bit)(?<!that)(?<!here)'s\s?$",
    re.IGNORECASE,
)
_AGREES = re.compile(r"\b(?:I|we)\b(?:(?!\bnot\b|n't).){0,40}\b(?:agree|concur|support)", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[.;:!?\n,]|\b(?:but|so|however|therefore|thus|hence|now)\b", re.IGNORECASE)


def not_mine(text: str, at: int) -> bool:
    """Whether the clause before this place makes a statement that is not the speaker's conclusion."""
    clause = _CLAUSE_END.split(text[max(0, at - 120) : at])[-1]
    return bool(_NOT_MINE.search(clause)) and not _AGREES.search(clause)


def statements(text: str) -> list[Statement]:
    """The explicit statements in a plain text (the last 60), in order.

    A JSON object with an answer key is one statement: what its other fields say is not looked at.
    """
    found: list[Statement] = []
    hidden = (0, 0)
    said = last_object(text)
    if said is not None:
        value = _answer_field(said.value)
        if value is not None:
            hidden = (said.start, said.end)
            found.append(Statement(said.end, said.end, value, enclosed=True, final=True))
    for match in _ENCLOSED.finditer(text):
        found.append(Statement(match.start(), match.end(), match[1].strip(), enclosed=True, final=True))
    for pattern in (_LABEL, _HEADING, _CHINESE):
        for match in pattern.finditer(text):
            if not not_mine(text, match.start()):
                found.append(_open_statement(text, match.start(), match.end(), labelled=pattern is not _CHINESE))
    if not any(one.labelled for one in found):
        found.extend(
            replace(_open_statement(text, *match.span(), labelled=False), final=True) for match in _OTHER_LABEL.finditer(text)
        )
    for match in _SENTENCE.finditer(text):
        if not _NOT_MINE.search(match["middle"]) and _is_mine(text, match.start()):
            found.append(_open_statement(text, match.start(), match.end(), labelled=False))
    for match in _CHANGED.finditer(text):
        if _is_mine(text, match.start()):
            found.append(_open_statement(text, match.start(), match.end(), labelled=False))
    found = [one for one in found if one.end <= hidden[0] or one.start >= hidden[1]]
    return sorted(found, key=lambda one: (one.start, one.end))[-_MOST_STATEMENTS:]


def by_weight(found: list[Statement]) -> list[Statement]:
    """Statements in the order in which they decide: the last that has the form asked for, then all from the last to the first."""
    final = [one for one in found if one.final][-1:]
    return [*final, *(one for one in reversed(found) if one not in final)]


def _is_mine(text: str, at: int) -> bool:
    return not not_mine(text, at) and not supposed(text, at)


def _begins_line(text: str, at: int) -> bool:
    line = text[max(text.rfind("\n", 0, at) + 1, at - 60) : at]
    return _LINE_LEAD.fullmatch(line) is not None


def _open_statement(text: str, start: int, at: int, labelled: bool) -> Statement:
    """A statement whose value goes to the end of its line, or stands on the next line."""
    final = labelled and _begins_line(text, start)
    line_end = text.find("\n", at)
    line_end = len(text) if line_end < 0 else line_end
    if not text[at:line_end].strip(" .:*-"):
        at = min(line_end + 1, len(text))
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        value = quoted[1] if quoted[1] is not None else quoted[2]
        return Statement(start, quoted.end(), value.strip(), enclosed=False, labelled=labelled, final=final)
    boxed = _ENCLOSED.match(text, at)
    if boxed is not None:
        return Statement(start, boxed.end(), boxed[1].strip(), enclosed=True, labelled=labelled, final=True)
    line_end = min(line_end, at + _LONGEST_VALUE)
    return Statement(start, line_end, text[at:line_end].strip(), enclosed=False, labelled=labelled, final=final)


def _answer_field(fields: dict[str, Any]) -> str | None:
    named = {str(key).strip().lower().replace(" ", "_"): value for key, value in fields.items()}
    for key in ANSWER_KEYS:
        value = named.get(key)
        if isinstance(value, bool):
            return "Yes" if value else "No"
        if isinstance(value, str | int | float):
            return str(value).strip()
        if isinstance(value, list) and value:
            return " and ".join(str(one) for one in value)
    return None
