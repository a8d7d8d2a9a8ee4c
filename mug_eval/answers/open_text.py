"""The text of an open answer."""

from __future__ import annotations

import re
from fractions import Fraction

from mug_eval.answers.markup import CLOSED, OPENED
from mug_eval.answers.second_thoughts import TAKES_BACK, conditional, unsaid
from mug_eval.answers.statements import by_weight, statements
from mug_eval.question import Answer, Unparsed

_MOST_WORDS = 12
_DECLINED = re.compile(
    r"(?:(?:sorry|unfortunately),? )?(?:but )?(?:I'm (?:unable|not (?:sure|able)|sorry)|"
    r"I (?:cannot|can't|can not|could not|couldn't|do not|don't|am unable|am not able|am not sure|have no))\b",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"(?:(?:it|this|that|the answer|the (?:number|value)) )?(?:(?:is|was|are) )?"
    r"(?:unknown|n/?a|n\.a|not (?:visible|given|available|"
    r"applicable|shown|stated|specified|provided|mentioned|known|clear|sure|determinable|"
    r"possible|enough|answerable)|unclear|unanswerable|uncertain|undetermined|indeterminate|insufficient (?:information|data|context)|"
    r"(?:cannot|can't|can not|could not) (?:be )?(?:determined?|answer(?:ed)?|tell|sa(?:y|id)|seen?|known?|identif(?:y|ied))|"
    r"impossible to|unable to|no (?:answer|idea|information|clue)|none (?:given|provided))(?!\w)",
    re.IGNORECASE,
)
# What begins a sentence about an answer, or an approach to one, and is none.
_ABOUT = re.compile(
    r"(?:based|derived|drawn|supported|found|given|obtained|explained|shown|visible|obvious|clear|exact|correct|right|wrong|not|as follows|"
    r"from|because|that|let(?: me|'s| us)|we (?:need|have|must)|to (?:find|determine|answer|solve)|first)\b",
    re.IGNORECASE,
)
_LIST_NUMBER = re.compile(r"^\d{1,2}[.)]\s(?=[A-Za-z])")
_GROUNDS = re.compile(r"(?<=\S)(?:,\s(?:because|since|as)|\sbecause)\s")
_SENTENCE_END = re.compile(r"(?<=[\w)\]%\"'])[.!?](?=\s[A-Z])")
_ABBREVIATION = re.compile(r"(?:^|\W)(?:[A-Za-z]|Mr|Mrs|Ms|Dr|St|Mt|No|vs|etc|Prof|Jr|Sr|approx|ca)$")


def parse_open(text: str) -> Answer | Unparsed:
    """The text after the last marker, or a reply of one short line. An evasion ("unknown", "cannot be determined") is no answer."""
    stated = statements(text)
    for statement in by_weight(stated):
        if conditional(statement.value) and not statement.final:
            continue
        value = _value(statement.value if statement.enclosed else _one_sentence(statement.value))
        if value and (statement.enclosed or not _ABOUT.match(value)):
            second = TAKES_BACK.search(text, statement.end)
            if unsaid(text, statement.end) or (second is not None and _otherwise(value, text[second.start() :])):
                return Unparsed(f"answers {value[:60]!r}, then takes it back")
            return _answer(value)
    if stated:
        return Unparsed("names its answer, and gives none")
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) != 1 or len(lines[0].split()) > _MOST_WORDS:
        return Unparsed("marks no answer, and is longer than a short line")
    value = _value(lines[0])
    return _answer(value) if value else Unparsed("the reply is empty")


def _answer(value: str) -> Answer | Unparsed:
    if _DECLINED.match(value) or _UNKNOWN.match(value):
        return Unparsed(f"declines to answer: {value[:60]!r}")
    return Answer(value)


def _otherwise(value: str, later: str) -> bool:
    """Whether a second thought gives another answer."""
    for one in statements(later):
        other = _value(_one_sentence(one.value))
        if other and not _ABOUT.match(other) and open_key(other) != open_key(value):
            return True
    return (
        re.match(
            r"(?:no,? )?(?:wait|actually|correction|on second thoughts?)[\s,:]{1,3}(?:it is|it's|that is|no)\b",
            later,
            re.IGNORECASE,
        )
        is not None
    )


def _value(value: str) -> str:
    """A value without its place in a list and without the grounds for it."""
    value = _LIST_NUMBER.sub("", _clean(value))
    grounds = _GROUNDS.search(value)
    return value if grounds is None else _clean(value[: grounds.start()])


def _one_sentence(value: str) -> str:
    for end in _SENTENCE_END.finditer(value):
        if not _ABBREVIATION.search(value[max(0, end.start() - 8) : end.start()]):
            return value[: end.start()]
    return value


def _clean(value: str) -> str:
    value = value.replace(OPENED, "").replace(CLOSED, "").strip()
    while True:
        before = value
        value = value.rstrip(" .;,!").strip()
        for opening, closing in (('"', '"'), ("'", "'"), ("$", "$"), ("(", ")"), ("[", "]")):
            inner = value[1:-1]
            if len(value) > 1 and value[0] == opening and value[-1] == closing and opening not in inner and closing not in inner:
                value = inner.strip()
        value = value.lstrip(":=").strip()
        if value == before:
            return value


_NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
    *("fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_NUMBER = re.compile(
    r"(?P<sign>[-+]?)\$?(?P<whole>\d{1,3}(?:,\d{3})+|\d{1,40})?(?P<part>\.\d{1,40})?(?:/(?P<under>\d{1,40}))?\s?(?P<unit>%?)"
)


def open_key(value: str) -> str:
    """What two open answers that say the same have in common: their number, or their words without case, articles and dots.

    Numbers are equal by value: ``1,000`` and ``1000.0``, ``1/2`` and ``0.5``, ``two`` and ``2``. A percentage is not its fraction.
    """
    words = re.sub(r"\s+", " ", value.casefold()).lstrip(" ,;:!?\"'$").rstrip(" .,;:!?\"'$")
    words = re.sub(r"^(?:the|an?)\s(?=\S)", "", words)
    if words in _NUMBER_WORDS:
        return f"#{_NUMBER_WORDS.index(words)}"
    number = _NUMBER.fullmatch(words.replace("\u2212", "-"))
    if number is not None and (number["whole"] or number["part"]):
        amount = Fraction(f"{(number['whole'] or '0').replace(',', '')}{number['part'] or ''}")
        if number["under"]:
            if int(number["under"]) == 0:
                return words
            amount /= int(number["under"])
        return f"#{-amount if number['sign'] == '-' else amount}{number['unit']}"
    return " ".join(word for word in re.sub(r"[^\w\s%+/.-]", " ", words).split())
