"""Whether a reply says yes or no."""

from __future__ import annotations

import re

from mug_eval.answers.second_thoughts import TAKES_BACK, conditional, supposed, unsaid
from mug_eval.answers.statements import Statement, by_weight, not_mine, statements
from mug_eval.question import Answer, Unparsed

_MEANS = {
    **dict.fromkeys(("yes", "yeah", "yep", "yup", "true", "是", "是的", "对"), "Yes"),
    **dict.fromkeys(("no", "nope", "nah", "false", "否", "不", "不是", "不对"), "No"),
}
# "no" also begins "no dog", "no idea": in running text it is an answer only where no word, or one that begins no noun, follows it.
_NO_NOUN = (
    r"(?:because|since|as|there|the|an?|it|it's|its|i|i'm|this|that|these|those|he|she|they|we|you|in|on|at|from|with|by|of|to|based|for|"
    r"given|according|and|or|but|so|if|is|are|was|were|not|obviously|clearly|definitely|certainly|absolutely|surely|probably|likely|"
    r"evidently|apparently|actually|indeed|however|though|here|again|thanks?|sir)"
)
_ENDS = rf"(?=\s?(?:$|[^\w\s'-])|\s?-(?:\s|-)|'(?!\w)|\n|\s{_NO_NOUN}(?!\w))"
_SAID = rf"(?:(?:yes|yeah|yep|yup)(?![\w-])|(?:true|no|nope|nah|false)(?!\w){_ENDS})"
# After a label "no" is an answer, but not in "no idea", "no longer".
_NO_ANSWER = (
    r"(?:idea|doubt|one|way|information|info|clue|evidence|answer|question|more|less|longer|need|matter|difference|clear|telling)"
)
_LABELLED = re.compile(
    rf"(?:(?:yes|yeah|yep|yup|true|nope|nah|false)(?![\w-])|no(?![\w-])(?!\s{_NO_ANSWER}\b))|是的|不是|不对|[是否对不]",
    re.IGNORECASE,
)
_FIRST = re.compile(rf"{_SAID}|是的|不是|不对|[是否对不]", re.IGNORECASE)
_OTHER = re.compile(
    rf"(?:\s|[\s,]{{0,2}}(?:/|\||\bor\b|\band\b|\bbut\b|&)\s?(?:also\s|partly\s)?)(?P<word>{_SAID})",
    re.IGNORECASE,
)
_JUNK = " \t\"'([{<>$:.,;*-–—|~=\\"
_LEAD_IN = re.compile(
    r"(?:(?:definitely|clearly|certainly|probably|most likely|likely|simply|indeed|still|therefore|thus|that|an?|is|it is|it's|"
    r"would be|oh|well|so|hmm|okay|ok|wait|actually|on second thoughts?|correction|no doubt|without (?:a )?doubt|"
    r"clear|definite|definitive|resounding|firm|simple|strong|straightforward)(?!\w)[\s,:]*)+",
    re.IGNORECASE,
)
_ACCORDING = re.compile(
    r"(?:based on|according to|looking at|judging (?:from|by)|from|in|given|as seen in)\b[^.,\n]{0,80},\s(?=yes|no)", re.IGNORECASE
)
_SENTENCE_START = re.compile(r"(?:^|(?<=[.!?\n])\s?)(?=\S)")
_SUBJECT = r"(?:statement|claim|description|caption|assertion|that|this|it)"
_CONCLUDING = re.compile(
    r"\b(?:wait|actually|on second thoughts?|correction|scratch that|i mean|or rather|so|therefore|thus|hence|"
    r"consequently|in conclusion|overall|i'd (?:say|answer|vote)|i'll (?:say|answer|go with)|"
    r"i (?:would |will |must )?(?:say|answer|vote|conclude|choose|go with)(?: that)?(?: is| with)?|"
    r"i (?:think|believe)(?: that)?(?: it is| it's)?(?: the answer is)?|"
    rf"{_SUBJECT} (?:is|would be)(?: (?!not\b)\w{{1,12}})??)"
    rf"[\s,:]{{0,2}}(?:a )?[\"'(]?(?P<word>{_SAID})",
    re.IGNORECASE,
)
_NOT_TRUE = re.compile(rf"\b{_SUBJECT} (?:is not|isn't) (?:\w{{1,12}} )?true\b", re.IGNORECASE)
# "It looks like a dog, but no."
_LAST_WORD = re.compile(rf"(?<=\w),? but (?P<word>{_SAID})[.!\s]*$", re.IGNORECASE)


def parse_yes_no(text: str) -> Answer | Unparsed:
    """Yes or No as a plain text says it.

    In this order: the last explicit statement; a last line that is the word alone; words that begin a sentence or conclude, if
    they agree. What is said later must not say otherwise or take it back. The question is not known here ("Is there no dog?"),
    so no sentence about the image is taken for an answer.
    """
    text = re.sub(r"^(?:A|Ans)\s?:\s?", "", text.replace("$", ""))
    stated = statements(text)
    for statement in by_weight(stated):
        reading = _stated(statement)
        if reading is not None:
            return _kept(reading, text, statement)
        decides = not any(one.start > statement.start and _stated(one) is not None for one in stated)
        if decides and (statement.labelled or statement.enclosed) and statement.value.strip(_JUNK):
            return Unparsed(f"says neither yes nor no as the answer: {statement.value[:60]!r}")
    last = _lone_last(text)
    if last is not None and len(_lone(text)) == 1:
        return last
    said, end = _agreed(text)
    return Unparsed("takes its answer back") if isinstance(said, Answer) and unsaid(text, end) else said


def _stated(statement: Statement) -> Answer | Unparsed | None:
    """What an explicit statement says; None if it says neither, or that under a condition."""
    reading = leading(statement.value, stated=True)
    if reading is not None:
        return None if conditional(statement.value) else reading
    concluded, _ = _agreed(statement.value) if statement.labelled or statement.enclosed else (None, 0)
    return concluded if isinstance(concluded, Answer) else None


def _kept(said: Answer | Unparsed, text: str, statement: Statement) -> Answer | Unparsed:
    """What a statement says, unless what follows it says otherwise or takes it back."""
    if isinstance(said, Unparsed):
        return said
    begin = statement.end if statement.enclosed else max(statement.start, statement.end - len(statement.value) - 2)
    first = _LABELLED.search(text, begin, statement.end)
    after = first.end() if first is not None and not statement.enclosed else statement.end
    if unsaid(text, after):
        return Unparsed("takes its answer back")
    later = [_stated(one) for one in statements(text[statement.end :])]
    later.append(_lone_last(text[statement.end :]))
    second = TAKES_BACK.search(text, after)
    if second is not None:
        later.append(_agreed(text[second.start() :])[0])
        later = [one for one in later if not isinstance(one, Unparsed) or "both" in one.reason]
    if any(one is not None and one != said for one in later if second is not None or isinstance(one, Answer)):
        return Unparsed(f"answers {said.value}, then says otherwise")
    return said


def _lone(text: str) -> set[str]:
    """What lines that are the word alone say."""
    return {_MEANS[line] for line in (line.strip(_JUNK).lower() for line in text.split("\n")) if line in _MEANS}


def _lone_last(text: str) -> Answer | None:
    """What the last line says if it is the word alone."""
    last = text.rstrip(_JUNK + "\n").rpartition("\n")[2].strip(_JUNK).lower()
    return Answer(_MEANS[last]) if last in _MEANS else None


def _agreed(text: str) -> tuple[Answer | Unparsed, int]:
    """What a text without an explicit statement says, if it says one thing only, and where it has said it."""
    values: set[str] = set()
    end = 0
    for start in _SENTENCE_START.finditer(text):
        sentence = text[start.end() : start.end() + 160]
        reading = leading(sentence)
        if isinstance(reading, Unparsed):
            return reading, end
        if reading is not None and not conditional(sentence):
            values.add(reading.value)
            # "No, that is not correct" goes on; of "Yes. It is wrong." the second sentence takes the first one back.
            end = start.end() + (len(reading.value) if reading.value == "Yes" else len(sentence.partition(". ")[0]) + 160)
    for match in (*_CONCLUDING.finditer(text), *_LAST_WORD.finditer(text)):
        if not supposed(text, match.start("word")) and not not_mine(text, match.start("word")):
            values.add(_MEANS[match["word"].lower()])
            end = max(end, match.end())
    if _NOT_TRUE.search(text):
        values.add("No")
    if len(values) == 1:
        return Answer(values.pop()), min(end, len(text))
    return Unparsed("says both yes and no" if values else "says neither yes nor no"), end


def leading(value: str, stated: bool = False) -> Answer | Unparsed | None:
    """What a text says with its first word; None if that is neither yes nor no.

    Args:
        value: the text.
        stated: whether a statement introduced it, so that "no dog" says no.
    """
    value = value.lstrip(_JUNK)
    for introduction in (_ACCORDING, _LEAD_IN):
        lead = introduction.match(value)
        if lead is not None:
            value = value[lead.end() :].lstrip(_JUNK)
    first = (_LABELLED if stated else _FIRST).match(value)
    if first is None:
        return None
    said = _MEANS[first[0].lower()]
    other = _OTHER.match(value, first.end())
    if other is not None and _MEANS[other["word"].lower()] != said:
        return Unparsed(f"says both yes and no: {value[:60]!r}")
    return Answer(said)
