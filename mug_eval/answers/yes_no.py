"""Whether a reply says yes or no."""

from __future__ import annotations

import re

from mug_eval.answers.statements import statements
from mug_eval.question import Answer, Unparsed

_WORDS = {
    **dict.fromkeys(("yes", "yeah", "yep", "yup", "true", "是", "是的", "对"), "Yes"),
    **dict.fromkeys(("no", "nope", "nah", "false", "否", "不", "不是", "不对"), "No"),
}
_WORD = r"(?:yes|yeah|yep|yup|true|no|nope|nah|false|是的|是|对|否|不是|不对|不)"
# "no" also begins "no dog", "no idea", "no doubt": it is an answer only where the phrase ends or a clause begins after it.
_ENDS = (
    r"(?=\s?(?:$|[.,;:!?)\]}\"'\n/|—–]|-\s|\s-|\ue001)|"
    r"\s(?:because|since|as|there|the|it|it's|its|i|this|that|these|those|he|she|they|we|you|in|based|for|given|and|or|but|to|is|not)(?!\w))"
)
_AT_START = re.compile(rf"(?P<word>{_WORD})(?!\w){_ENDS}|(?P<chinese>是的|不是|不对|[是否对不])", re.IGNORECASE)
_OTHER = re.compile(rf"[\s,]{{0,2}}(?:/|\||\bor\b|\band\b|&)\s?(?:also\s|partly\s)?(?P<word>{_WORD})(?!\w)", re.IGNORECASE)
_JUNK = " \t\"'([{<>$:.,;*-–—|~=\\"
_LEAD_IN = re.compile(
    r"(?:(?:definitely|clearly|certainly|probably|most likely|likely|simply|indeed|still|therefore|thus|that|a|an|is|it is|it's|would be|oh|well|so|hmm|okay|ok|"
    r"a clear|a definite|a resounding)(?!\w)[\s,:]*)+",
    re.IGNORECASE,
)
_SENTENCE_START = re.compile(r"(?:^|(?<=[.!?\n])\s?)(?=\S)")
_CONCLUDING = re.compile(
    rf"\b(?:so|therefore|thus|hence|consequently|in conclusion|overall|i (?:would |will |'d |must )?(?:say|answer|vote|conclude|choose)(?: that)?(?: is| with)?|"
    rf"i'd (?:say|answer|vote)|i'll (?:say|answer|go with)|i (?:would )?go with|i (?:think|believe)(?: that)?(?: it is| it's)?(?: the answer is)?|"
    rf"(?:statement|claim|description|caption|assertion|that|this|it) (?:is|would be)(?: (?!not\b)\w{{1,12}})??)[\s,:]{{0,2}}(?:a )?[\"'(]?(?P<word>{_WORD})(?!\w){_ENDS}",
    re.IGNORECASE,
)
_NOT_TRUE = re.compile(
    r"\b(?:statement|claim|description|caption|assertion|that|this|it) (?:is not|isn't|is n't) (?:\w{1,12} )?true\b", re.IGNORECASE
)
_QUALITY_NOUNS = r"way|information|evidence|indication|answer|question|doubt|reason|need|sign|clue|telling|proof|context|detail|certainty|clear|visible\s(?:sign|evidence)"
_NO_SUCH_THING = re.compile(
    rf"(?:I (?:can |could )?see no|there (?:is|are|was|were) (?:no|not an?|not any)|there (?:isn't|aren't|wasn't|weren't) (?:an?|any))\s(?!(?:{_QUALITY_NOUNS})\b)"
    r"(?:[\w'-]+\s){1,6}(?:(?:visible|present|shown|seen|depicted|to be seen)\s)?(?:in|on|within)\s(?:the|this)\s(?:given\s|provided\s)?"
    r"(?:image|picture|photo|photograph|scene|figure)\W{0,3}",
    re.IGNORECASE,
)


def parse_yes_no(text: str) -> Answer | Unparsed:
    """Yes or No as a plain text says it.

    In this order: the last explicit statement; words that begin a sentence, if they agree; words of conclusion, if they agree;
    a reply that is one sentence saying that the image shows no such thing. The question is not known here, so no other sentence
    about the image is taken for an answer.
    """
    text = text.replace("$", "")
    for statement in reversed(statements(text)):
        reading = _leading(statement.value)
        if reading is not None:
            return reading
        if (statement.labelled or statement.enclosed) and statement.value.strip(_JUNK):
            return Unparsed(f"says neither yes nor no as the answer: {statement.value[:60]!r}")
    lines = [line for line in text.split("\n") if line.strip(_JUNK)]
    if lines and len(lines) > 1:
        last = _AT_START.match(lines[-1].strip(_JUNK))
        if last is not None and last.end() == len(lines[-1].strip(_JUNK)):
            return Answer(_WORDS[last[0].lower()])
    said = [
        reading
        for start in _SENTENCE_START.finditer(text)
        if (reading := _leading(text[start.end() : start.end() + 80])) is not None
    ]
    said += [Answer(_WORDS[match["word"].lower()]) for match in _CONCLUDING.finditer(text)]
    said += [Answer("No") for _ in _NOT_TRUE.finditer(text)]
    unclear = next((reading for reading in said if isinstance(reading, Unparsed)), None)
    if unclear is not None:
        return unclear
    values = {reading.value for reading in said if isinstance(reading, Answer)}
    if len(values) == 1:
        return Answer(values.pop())
    if values:
        return Unparsed("says both yes and no")
    if _NO_SUCH_THING.fullmatch(text.strip()):
        return Answer("No")
    return Unparsed("says neither yes nor no")


def _leading(value: str) -> Answer | Unparsed | None:
    """What a text says with its first word; None if that is neither yes nor no."""
    value = value.lstrip(_JUNK)
    lead = _LEAD_IN.match(value)
    if lead is not None:
        value = value[lead.end() :].lstrip(_JUNK)
    first = _AT_START.match(value)
    if first is None:
        return None
    said = _WORDS[first[0].lower()]
    other = _OTHER.match(value, first.end())
    if other is not None and _WORDS[other["word"].lower()] != said:
        return Unparsed(f"says both yes and no: {value[:60]!r}")
    return Answer(said)
