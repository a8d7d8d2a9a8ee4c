"""Which option a reply to a multiple-choice question means."""

from __future__ import annotations

import re

from mug_eval.answers.formulas import spelled
from mug_eval.answers.second_thoughts import TAKES_BACK, conditional, last_unsaid, unsaid
from mug_eval.answers.statements import Statement, by_weight, statements
from mug_eval.answers.weighing import AFTER_A_OR_I, DENIED_AFTER, Options, normal, options_of, weigh
from mug_eval.answers.yes_no import leading, parse_yes_no
from mug_eval.question import Answer, AnswerFormat, Unparsed

_JUNK = re.compile(r"(?:[\s\"'(\[{<>:,;*|~=\\]|[-–—.](?!\s?[\d.√]))*")  # not the sign or the point of a number
_LEAD_IN = re.compile(
    r"(?:(?:either|both|possibly|probably|likely|most likely|maybe|perhaps|clearly|definitely|indeed|simply|still|therefore|thus|"
    r"that|option|choice|letter|answer|candidate|it is|it's|is|would be|must be|the|none other than)(?!\w)[\s:]*)+",
    re.IGNORECASE,
)
_FIRST_LETTER = re.compile(r"[(\[{<\"']?(?P<letter>[A-Za-z])[)\]}>\"']?(?![\w'])")
_NEXT_LETTER = re.compile(
    r"\s?(?:[,/|&+]|and/or|or|and)\s?(?:or\s|and\s)?(?:both\s|option\s|maybe\s|possibly\s|perhaps\s)?[(\[]?(?P<letter>[A-Z])"
    r"(?!(?<=[AI])\s(?!(?:and|or|are|both)\b)[a-z])[)\]]?(?![\w'])"
    r"(?!\s(?:is|are|was|does|has|shows|can|cannot|would|seems)\b)"
)
_NOT = re.compile(r"(?:definitely |clearly |certainly |probably |likely |surely )?(?:not|neither|never|none|no)\b", re.IGNORECASE)
_LISTED = re.compile(r"(?:^|\s)[(\[]?(?P<letter>[A-Z])[).:\]]")
# "A) Incorrect", "**B** ✓": a verdict on each option, at the start of a line or by a mark.
_JUDGED = re.compile(
    r"(?:^(?:option\s)?[(\[]?(?P<letter>[A-Z])[)\]]?[).:]?\s?[-–—:]?\s?"
    r"(?:(?P<right>correct)|incorrect|wrong|not correct)(?=\W{0,3}$|[.,;:(]| -)|"
    r"(?<![\w'-])[(\[]?(?P<marked>[A-Z])[)\].:]{0,2}\s?(?:(?P<tick>[✓✔✅☑])|[✗✘❌✖]))",
    re.MULTILINE | re.IGNORECASE,
)
_LONE_LINE = re.compile(r"^\W{0,8}(?:(?:option|choice|answer)\s)?\W{0,4}([A-Za-z])\W{0,8}$", re.MULTILINE | re.IGNORECASE)
_NUMBERED_LINE = re.compile(r"^\W{0,4}(?:option\s|choice\s)?[(\[]?(?P<letter>[A-Z])(?:[)\]]\s?[.:,]?|[.:])\s?(?=\S)", re.MULTILINE)
_MOST_OPTION_TEXT = 500
_SHORT_REPLY = 60
"""Words up to which an option that is merely named anywhere counts; of a longer reply only the last sentence does."""


def parse_choice(text: str, answer_format: AnswerFormat) -> Answer | Unparsed:
    """The option that a plain text means.

    Explicit statements come first and the last of them decides, if it names one option and nothing later speaks for another.
    Without one, clauses are weighed: options chosen or called right, options named, options denied.
    """
    options = options_of(answer_format)
    text = spelled(text)
    concluded: Answer | Unparsed | None = None
    end = 0
    ordered = _ordered(text, options)
    for statement in by_weight(ordered):
        concluded = _read(statement, options)
        if isinstance(concluded, Unparsed) and statement.final:
            later = [_read(one, options) for one in ordered if one.start > statement.start]
            concluded = None if any(isinstance(one, Answer) for one in later) else concluded
        if concluded is not None:
            end = statement.end
            if not statement.enclosed:  # what follows the sentence may take it back
                end += len(_first_sentence(statement.value)) - len(statement.value)
            break
    if concluded is None:
        judged = _judged(text, options)
        if judged is not None:
            return judged
        unsaid_at = last_unsaid(text)
        if unsaid_at is not None and not weigh(text[unsaid_at:], options).meant:
            return Unparsed("takes its answer back")
        return _worded(text, options) if options.words else _weighed(text, options)
    said = end if statement.enclosed else max(statement.start, statement.end - len(statement.value))
    if isinstance(concluded, Answer) and unsaid(text, said, end):
        return Unparsed("takes its answer back")
    if isinstance(concluded, Answer) and not statement.enclosed and _lists_on(text[statement.end :], concluded.value, options):
        return Unparsed("lists several options as the answer")
    second = TAKES_BACK.search(text, said)
    spoken_for = set(weigh(text[end:], options).chosen) if second is None else weigh(text[second.start() :], options).meant
    if isinstance(concluded, Answer) and spoken_for - {concluded.value}:
        return Unparsed(f"answers {concluded.value}, then speaks for {' and '.join(sorted(spoken_for - {concluded.value}))}")
    if isinstance(concluded, Unparsed) and len(spoken_for) == 1:
        return Answer(spoken_for.pop())
    return concluded


def _judged(text: str, options: Options) -> Answer | Unparsed | None:
    """The one option called correct where each is given a verdict; None if there are no such verdicts, or options say so."""
    if {"correct", "incorrect", "wrong"} & set(options.by_text):
        return None
    verdicts = [match for match in _JUDGED.finditer(text) if (match["letter"] or match["marked"]).upper() in options.letters]
    if len({match["letter"] or match["marked"] for match in verdicts}) < 2:
        return None
    right = {(match["letter"] or match["marked"]).upper() for match in verdicts if match["right"] or match["tick"]}
    return Answer(right.pop()) if len(right) == 1 else Unparsed("gives every option a verdict, and calls none or several correct")


def _worded(text: str, options: Options) -> Answer | Unparsed:
    """The option where two of the options are the words Yes and No."""
    weighed, said = _weighed(text, options), parse_yes_no(text)
    if isinstance(said, Unparsed):
        return weighed
    letter = options.words[said.value]
    if isinstance(weighed, Answer) and weighed.value != letter:
        return Unparsed(f"says {said.value}, and speaks for {weighed.value}")
    return Answer(letter)


def _weighed(text: str, options: Options) -> Answer | Unparsed:
    """The one option that a text without an explicit statement can mean."""
    whole = normal(text)
    if len(whole) == 1 and whole in options.by_text and whole.upper() not in options.letters:
        return Answer(options.by_text[whole])
    weights = weigh(text, options)
    if not weights.chosen and len(text.split()) > _SHORT_REPLY:
        last = re.split(r"(?<=[.!?])\s|\n", text.strip())[-1]
        weights.named = weigh(last, options).named
    meant = weights.meant
    if len(meant) == 1:
        return Answer(meant.pop())
    if meant:
        return Unparsed(f"speaks for several options: {', '.join(sorted(meant))}")
    left = set(options.letters) - set(weights.ruled_out)
    if len(left) == 1 and len(set(weights.ruled_out)) > 1 and not left & set(weights.unclear + weights.denied):
        return Answer(left.pop())
    return Unparsed("names no option as the answer")


def _ordered(text: str, options: Options) -> list[Statement]:
    """Explicit statements, and lines that are an option and nothing else."""
    found = statements(text)
    lone = [
        Statement(match.start(), match.end(), match[1].upper(), enclosed=True, final=True) for match in _LONE_LINE.finditer(text)
    ]
    lone = [one for one in lone if one.value in options.letters]
    numbered = [
        Statement(
            match.start(), _line_end(text, match.end()), text[match.start("letter") : _line_end(text, match.end())], enclosed=False
        )
        for match in _NUMBERED_LINE.finditer(text)
        if match["letter"] in options.letters
    ]
    starts = {one.start for one in lone}
    numbered = [one for one in numbered if one.start not in starts]
    letters = {one.value[0] for one in (*lone, *numbered)}
    if len(letters) == 1:
        found.extend(lone)
        found.extend(one for one in numbered if one.start == 0 or one.end >= len(text))
    elif lone and lone[-1].end >= len(text.rstrip()) and len({one.value for one in lone}) == 1:
        found.append(lone[-1])  # options or grounds were listed, and the last line is a letter alone
    return sorted(found, key=lambda one: (one.start, one.end))


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _read(statement: Statement, options: Options) -> Answer | Unparsed | None:
    """What a statement concludes; None if it is no conclusion (a denial, or a sentence that goes on otherwise)."""
    value = _trimmed(statement.value)
    if conditional(value):
        return None
    bare = value.strip(" .,;:!?)]}>\"'*")
    whole = normal(bare)
    if whole in options.by_text and not (len(bare) == 1 and bare.upper() in options.letters):
        return Answer(options.by_text[whole])
    value = _trimmed(value[_end(_LEAD_IN.match(value)) :])
    said = leading(value) if options.words else None
    if said is not None:
        return Answer(options.words[said.value]) if isinstance(said, Answer) else said
    if _NOT.match(value) and normal(value) not in options.by_text:
        meant = weigh(value, options).meant
        return Answer(meant.pop()) if len(meant) == 1 else None
    first = _FIRST_LETTER.match(value)
    if first is not None and _is_letter(value, first, statement, options):
        return _read_letter(value, first, options)
    weights = weigh(_first_sentence(value), options)
    meant = weights.meant
    if len(meant) == 1:
        return Answer(meant.pop())
    if meant:
        return Unparsed(f"names several options as the answer: {_shown(value)}")
    if weights.denied or not (statement.labelled or statement.enclosed):
        return None
    return Unparsed(f"names no option as the answer: {_shown(value)}") if value else None


def _is_letter(value: str, first: re.Match[str], statement: Statement, options: Options) -> bool:
    """Whether a lone letter at the start names an option (or would, if there were one), and is no article or pronoun."""
    letter, rest = first["letter"], value[first.end() :]
    closed = first.end() - first.start() > 1 or not rest.strip() or rest[0] in ").:,;!\n/|]}"
    if closed:
        return letter.upper() in options.letters or letter.isupper() or statement.enclosed
    if letter.islower() or letter not in options.letters:
        return False
    if letter not in "AI" or AFTER_A_OR_I.match(rest):
        return True
    return _has_own_text(rest, letter, options)


def _has_own_text(words: str, letter: str, options: Options) -> bool:
    """Whether the words begin with the text of the option that has this letter."""
    start = normal(words[:_MOST_OPTION_TEXT])
    return any(other == letter and start.startswith(text) for text, other in options.by_text.items())


def _read_letter(value: str, first: re.Match[str], options: Options) -> Answer | Unparsed | None:
    """The option whose letter begins the value, unless other letters follow it or it is denied at once."""
    letter, rest = first["letter"].upper(), value[first.end() :]
    if letter not in options.letters:
        return Unparsed(f"names {letter}, which is not an option")
    if rest.startswith("?") and rest.strip("? \n"):
        return Unparsed(f"asks whether {letter} is the answer: {_shown(value)}")
    others = set()
    at = first.end()
    while (more := _NEXT_LETTER.match(value, at)) is not None:
        others.add(more["letter"])
        at = more.end()
    if others - {letter}:
        return Unparsed(f"names several options as the answer: {_shown(value)}")
    if any(
        match["letter"] != letter and _has_own_text(rest[match.end() :], match["letter"], options)
        for match in _LISTED.finditer(rest)
    ):
        return Unparsed(f"lists several options as the answer: {_shown(value)}")
    if DENIED_AFTER.match(_first_sentence(rest)):
        return None
    return Answer(letter)


def _lists_on(rest: str, letter: str, options: Options) -> bool:
    """Whether the very next line is the next option, letter and text and nothing else: the options are listed, none is chosen."""
    line = _NUMBERED_LINE.match(rest.removeprefix("\n"))
    if line is None or not rest.startswith("\n") or ord(line["letter"]) != ord(letter) + 1:
        return False
    words = rest[1:][line.end() :].partition("\n")[0]
    return options.by_text.get(normal(words[:_MOST_OPTION_TEXT])) == line["letter"]


def _trimmed(value: str) -> str:
    return value[_end(_JUNK.match(value)) :]


def _end(match: re.Match[str] | None) -> int:
    return 0 if match is None else match.end()


def _first_sentence(text: str) -> str:
    end = re.search(r"[.!?](?=\s|$)|\n", text)
    return text if end is None else text[: end.start()]


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "...")
