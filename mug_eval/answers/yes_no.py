"""Whether a reply says yes or no."""

from __future__ import annotations

import re

from mug_eval.answers.statements import statements
from mug_eval.question import Answer, Unparsed

_MEANS = {
    **dict.fromkeys(("yes", "yeah", "yep", "yup", "true", "是", "是的", "对"), "Yes"),
    **dict.fromkeys(("no", "nope", "nah", "false", "否", "不", "不是", "不对"), "No"),
}
# "no" also begins "no dog", "no idea", "no doubt": it is an answer only where the phrase ends or a clause begins after it.
_ENDS = (
    r"(?=\s?(?:$|[.,;:!?)\]}>\"'\n/|—–]|-\s|\s-|\ue001)|"
    r"\s(?:because|since|as|there|the|it|it's|its|i|this|that|these|those|he|she|they|we|you|in|based|for|given|and|or|but|to|is|not)(?!\w))"
)
_SAID = rf"(?:(?:yes|yeah|yep|yup)(?![\w-])|(?:true|no|nope|nah|false)(?!\w){_ENDS})"
_FIRST = re.compile(rf"{_SAID}|是的|不是|不对|[是否对不]", re.IGNORECASE)
_OTHER = re.compile(
    rf"(?:\s|[\s,]{{0,2}}(?:/|\||\bor\b|\band\b|\bbut\b|&)\s?(?:also\s|partly\s)?)(?P<word>{_SAID})",
    re.IGNORECASE,
)
_JUNK = " \t\"'([{<>$:.,;*-–—|~=\\"
_LEAD_IN = re.compile(
    r"(?:(?:definitely|clearly|certainly|probably|most likely|likely|simply|indeed|still|therefore|thus|that|an?|is|it is|it's|"
    r"would be|oh|well|so|hmm|okay|ok|a clear|a definite|a resounding)(?!\w)[\s,:]*)+",
    re.IGNORECASE,
)
_ACCORDING = re.compile(
    r"(?:based on|according to|looking at|judging (?:from|by)|from|in|given|as seen in)\b[^.,\n]{0,80},\s(?=yes|no)", re.IGNORECASE
)
_SENTENCE_START = re.compile(r"(?:^|(?<=[.!?\n])\s?)(?=\S)")
_SUBJECT = r"(?:statement|claim|description|caption|assertion|that|this|it)"
_CONCLUDING = re.compile(
    r"\b(?:so|therefore|thus|hence|consequently|in conclusion|overall|i'd (?:say|answer|vote)|i'll (?:say|answer|go with)|"
    r"i (?:would |will |must )?(?:say|answer|vote|conclude|choose|go with)(?: that)?(?: is| with)?|"
    r"i (?:think|believe)(?: that)?(?: it is| it's)?(?: the answer is)?|"
    rf"{_SUBJECT} (?:is|would be)(?: (?!not\b)\w{{1,12}})??)"
    rf"[\s,:]{{0,2}}(?:a )?[\"'(]?(?P<word>{_SAID})",
    re.IGNORECASE,
)
_NOT_TRUE = re.compile(rf"\b{_SUBJECT} (?:is not|isn't) (?:\w{{1,12}} )?true\b", re.IGNORECASE)
# "no way to tell", "no information": not knowing is no "no".
_NO_KNOWLEDGE = r"(?:way|information|evidence|indication|answer|question|doubt|reason|need|sign|clue|telling|proof|context|detail|certainty|visible|clear)"
_IN_THE_IMAGE = r"(?:in|on|within)\s(?:the|this)\s(?:given\s|provided\s)?(?:image|picture|photo|photograph|scene|figure)\W{0,3}"
_NO_SUCH_THING = re.compile(
    r"(?:(?:I (?:can |could )?see no|there (?:is|are|was|were) (?:no|not an?|not any)|there (?:isn't|aren't|wasn't|weren't) (?:an?|any))\s"
    rf"(?!{_NO_KNOWLEDGE}\b)(?:[\w'-]+\s){{1,6}}|"
    rf"no\s(?!{_NO_KNOWLEDGE}\b)(?:[\w'-]+\s){{1,4}}(?:is|are|can be)\s(?:visible|present|shown|seen|depicted)\s){_IN_THE_IMAGE}",
    re.IGNORECASE,
)


def parse_yes_no(text: str) -> Answer | Unparsed:
    """Yes or No as a plain text says it.

    In this order: the last explicit statement; a last line that is the word alone; words that begin a sentence or conclude, if
    they agree; a reply that is one sentence saying that the image shows no such thing. The question is not known here, so no
    other sentence about the image is taken for an answer.
    """
    text = re.sub(r"^(?:A|Ans)\s?:\s?", "", text.replace("$", ""))
    for statement in reversed(statements(text)):
        reading = _leading(statement.value)
        if reading is not None:
            return reading
        if (statement.labelled or statement.enclosed) and statement.value.strip(_JUNK):
            return Unparsed(f"says neither yes nor no as the answer: {statement.value[:60]!r}")
    lines = [line.strip(_JUNK).lower() for line in text.split("\n") if line.strip(_JUNK)]
    alone = {_MEANS[line] for line in lines if line in _MEANS}
    if len(alone) == 1 and lines[-1] in _MEANS:
        return Answer(alone.pop())
    return _agreed(text)


def _agreed(text: str) -> Answer | Unparsed:
    """What a text without an explicit statement says, if it says one thing only."""
    values: set[str] = set()
    for start in _SENTENCE_START.finditer(text):
        reading = _leading(text[start.end() : start.end() + 160])
        if isinstance(reading, Unparsed):
            return reading
        if reading is not None:
            values.add(reading.value)
    values.update(_MEANS[match["word"].lower()] for match in _CONCLUDING.finditer(text))
    if _NOT_TRUE.search(text):
        values.add("No")
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
    for introduction in (_ACCORDING, _LEAD_IN):
        lead = introduction.match(value)
        if lead is not None:
            value = value[lead.end() :].lstrip(_JUNK)
    first = _FIRST.match(value)
    if first is None:
        return None
    said = _MEANS[first[0].lower()]
    other = _OTHER.match(value, first.end())
    if other is not None and _MEANS[other["word"].lower()] != said:
        return Unparsed(f"says both yes and no: {value[:60]!r}")
    return Answer(said)
