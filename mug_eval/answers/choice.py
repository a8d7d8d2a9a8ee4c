"""Which option a reply to a multiple-choice question means."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from mug_eval.answers.replies import plain
from mug_eval.answers.statements import Statement, not_mine, statements
from mug_eval.answers.yes_no import parse_yes_no
from mug_eval.question import Answer, AnswerFormat, Unparsed

_LETTER, _TEXT = 0xE100, 0xE200  # an option named by letter, or by text, is one private-use character while clauses are weighed
_NAMED = "[\ue100-\ue2ff]"

_JUNK = re.compile(r"(?:[\s\"'(\[{<>:,;*|~=\\]|[-–—.](?![\d.]))*")  # not the sign or the point of a number
_LEAD_IN = re.compile(
    r"(?:(?:either|both|possibly|probably|likely|most likely|maybe|perhaps|clearly|definitely|indeed|simply|still|therefore|thus|that|"
    r"option|choice|letter|answer|candidate|it is|it's|is|would be|must be|the|none other than)(?!\w)[\s:]*)+",
    re.IGNORECASE,
)
_FIRST_LETTER = re.compile(r"[(\[{<\"']?(?P<letter>[A-Za-z])[)\]}>\"']?(?![\w'])")
_NEXT_LETTER = re.compile(
    r"\s?(?:[,/|&+]|and/or|or|and)\s?(?:or\s|and\s)?(?:both\s|option\s|maybe\s|possibly\s|perhaps\s)?[(\[]?(?P<letter>[A-Z])"
    r"(?!(?<=[AI])\s(?!(?:and|or|are|both)\b)[a-z])[)\]]?(?![\w'])"
    r"(?!\s(?:is|are|was|does|has|shows|can|cannot|would|seems)\b)"
)
_NOT = re.compile(r"(?:definitely |clearly |certainly |probably |likely |surely )?(?:not|neither|never|none|no)\b", re.IGNORECASE)
_AFTER_WORD_LETTER = re.compile(
    r"\s?(?:$|[^\w\s\ue100-\ue2ff]|(?:because|since|as|is|was|and|or|given|due|for|with|based|from|by|in|according)\b)"
)

_DENIED_AFTER = re.compile(
    r"^[^\n]{0,60}?(?:\b(?:is|are|was|were|be|seems?|looks?|appears?)\s(?:[\w'-]+\s){0,2}?(?:wrong|incorrect|false|inaccurate|eliminated|excluded|ruled out|"
    r"impossible|unlikely|invalid|out|not (?:[\w'-]+\s){0,2}?(?:correct|right|answer|true|accurate|best|it|one|option|choice|possible|valid))\b|"
    r"\b(?:isn't|aren't|wasn't|can't be|cannot be)\s(?:[\w'-]+\s){0,2}?(?:correct|right|answer|true|accurate|best|it|one|option|choice|possible|valid)\b|"
    r"^\s?(?:isn't|is not|aren't|are not|cannot be|can't be|is wrong|is out)\b\W*$)",
    re.IGNORECASE,
)
_ASSERTED_AFTER = re.compile(
    r"^\W{0,3}(?:\b(?:is|are|must be|would be|should be|seems|seems to be|appears to be|looks|remains|has to be)\s(?:[\w'-]+\s){0,3}?"
    r"(?:correct|right|best|accurate|appropriate|plausible|likely|suitable|true|answer|one|left|it|match|fit|option|choice)\b|remains?\b|stays\b|it is\b|it must be\b|fits best\b|wins\b)",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:not|never|neither|nor|no|cannot|without|except|unlike|lacks?)\b|n't\b", re.IGNORECASE)
_DENIED_BEFORE = re.compile(
    r"\b(?:not|never|neither|nor|cannot be|no|except|unlike|instead of|rather than|without|other than|over|eliminat\w+|exclud\w+|"
    r"(?:rul\w+|cross\w*) out|reject\w*|discard\w*|dismiss\w*|(?:wrong|incorrect|false)\s(?:[\w'-]+\s){0,2}?(?:is|are|:))\b|n't\b",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"\b(?:if|unless|only when)\b", re.IGNORECASE)
_WEIGHS = re.compile(r"\b(?:between|either)\b", re.IGNORECASE)
_CONTRAST = re.compile(r"\b(?:unlike|instead of|rather than|contrary to|in contrast to)\b", re.IGNORECASE)
_CHOSEN_BEFORE = re.compile(
    r"\b(?:choose|chose|pick|picked|select|selected|selecting|choosing|vote for|votes? (?:is|goes) (?:for|to)|voting for|go with|going with|"
    r"opt for|settle on|stick with|stand by|stay with|(?:would|will|'d|'ll) say|lean(?:ing)? towards?|support|guess|answer(?:ed)?(?: with)?|conclude(?: that)?(?: it is| it's)?|switch to|change (?:my answer )?to|"
    r"changed (?:my answer )?to|leaving|leaves|left with|(?:it|this|that|which) (?:must|has to|should) be|only)\s(?:us\s)?(?:with\s)?(?:only\s)?"
    r"(?:the\s|an?\s)?(?:option\s|choice\s|answer\s|letter\s)?[(\[\"']?$",
    re.IGNORECASE,
)
_CONCLUDES = re.compile(
    r"\b(?:so|therefore|thus|hence|consequently|accordingly|conclusion|overall|finally|ultimately|in short|then|actually|wait|instead|correction|but)\b[\s,:]*$",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    rf"(?P<mark>[.;:!?]+(?=\s|$|{_NAMED})|\n|,(?!\s?(?:and\s|or\s|nor\s)?(?:option\s|the\s|an?\s)?[(\[]?{_NAMED})|"
    r"(?:^|(?<=\s))(?:but|so(?!\s(?:is|are|do|does|was|were|that|far|much|many)\b)|therefore|thus|hence|because|since|although|though|while|whereas|however|which|then|instead(?!\sof))(?=[\s,]))",
    re.IGNORECASE,
)
# "A, B or C" is one list, "between A and B, C" is a list and one more.
_LISTED = rf"(?:both\s|option\s|the\s|an?\s)?[(\[\"']?{_NAMED}[)\]\"']?"
_GROUP = re.compile(
    rf"{_NAMED}[)\]\"']?(?:\s?,\s?{_LISTED})*(?:\s?(?:,\s?)?(?:/|&|\bor\b|\band\b|\bnor\b)\s?{_LISTED})*", re.IGNORECASE
)
_BARE = re.compile(r"(?<![\w'.-])(?P<open>[(\[]?)(?P<letter>[A-Z])(?P<close>[)\]]?)(?![\w'-])")
_CUED = re.compile(r"\b(?:options?|choices?|answers?|letters?)\s[(\[\"']?$", re.IGNORECASE)
# A lone capital is an option only where an option can stand: "it is B", "so B", but not "vitamin C" or "tree B".
_BEFORE_BARE = re.compile(
    r"(?:^|[.;:!?,(\[\n/&>\"'=-]\s?|(?<!\w)(?:is|it's|that's|was|be|say|choose|chose|pick|picked|select|selected|with|so|therefore|thus|hence|then|but|think|believe|"
    r"probably|definitely|likely|maybe|perhaps|only|clearly|certainly|to|for|on|by|not|or|and|nor|neither|either|both|just|leaves|leaving|than|of|out|between|"
    r"eliminate|reject|exclude|dismiss|discard|guess|actually|also|because|since|while|although|though|that|wait|yes|instead|as|answer|conclude|support|unlike|except)\s)$",
    re.IGNORECASE,
)
_LONE_LINE = re.compile(r"^\W{0,8}(?:(?:option|choice|answer)\s)?\W{0,4}([A-Za-z])\W{0,8}$", re.MULTILINE | re.IGNORECASE)
_NUMBERED_LINE = re.compile(r"^\W{0,4}(?:option\s|choice\s)?[(\[]?(?P<letter>[A-Z])(?:[)\]]\s?[.:,]?|[.:])\s?(?=\S)", re.MULTILINE)
_LOOSE_WORDS = 60


def parse_choice(text: str, answer_format: AnswerFormat) -> Answer | Unparsed:
    """The option that a plain text means.

    Explicit statements come first and the last of them decides, if it names one option and nothing later speaks for another.
    Without one, clauses are weighed: options chosen or called right, options named, options denied.
    """
    options = _options(answer_format)
    text = text.replace("$", "")
    concluded: Answer | Unparsed | None = None
    end = 0
    for statement in reversed(_ordered(text, options)):
        concluded = _read(statement, options)
        if concluded is not None:
            end = statement.end
            if not statement.enclosed:  # what follows the sentence may take it back
                end += len(_first_sentence(statement.value)) - len(statement.value)
            break
    if concluded is None:
        return _weighed(text, options) if set(options.by_text) != {"yes", "no"} else _worded(text, options)
    later = _weigh(text[end:], options).chosen
    if isinstance(concluded, Answer) and later and set(later) != {concluded.value}:
        return Unparsed(f"answers {concluded.value}, then speaks for {' and '.join(dict.fromkeys(later))}")
    if isinstance(concluded, Unparsed) and len(set(later)) == 1:
        return Answer(later[0])
    return concluded


@dataclass(frozen=True, slots=True)
class _Options:
    """The options, ready to be looked for.

    Attributes:
        letters: the canonical letters in order.
        by_text: normalised option text -> letter, without texts that two options share.
        texts: finds an option's text as a whole, longest first; None if no text can be looked for.
    """

    letters: tuple[str, ...]
    by_text: dict[str, str]
    texts: re.Pattern[str] | None


@lru_cache(maxsize=512)
def _options(answer_format: AnswerFormat) -> _Options:
    texts: dict[str, str | None] = {}
    for letter, text in answer_format.options:
        key = _normal(plain(text).replace("$", ""))
        if key:
            texts[key] = None if key in texts else letter
    by_text = {key: letter for key, letter in texts.items() if letter is not None}
    longest_first = sorted((key for key in texts if len(key) > 1 or key.isdigit()), key=lambda key: (-len(key), key))
    pattern = None
    if longest_first:
        body = "|".join(re.escape(key).replace(r"\ ", r"\s") for key in longest_first)
        pattern = re.compile(rf"(?<![\w.'-])(?<!\d,)(?:{body})(?![\w'-])(?!\.\d)(?!,\d)", re.IGNORECASE)
    return _Options(answer_format.candidates, by_text, pattern)


def _normal(text: str) -> str:
    return re.sub(r"^(?:the|an?)\s", "", re.sub(r"\s+", " ", text).strip(" .\"'").lower())


def _ordered(text: str, options: _Options) -> list[Statement]:
    """Explicit statements, and lines that are an option and nothing else."""
    found = statements(text)
    lone = [Statement(match.start(), match.end(), match[1].upper(), enclosed=True) for match in _LONE_LINE.finditer(text)]
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


def _read(statement: Statement, options: _Options) -> Answer | Unparsed | None:
    """What a statement concludes; None if it is no conclusion (a denial, or a sentence that goes on otherwise)."""
    value = _trimmed(statement.value)
    bare = value.strip(" .,;:!?)]}>\"'*")
    whole = _normal(bare)
    if whole in options.by_text and not (len(bare) == 1 and bare.upper() in options.letters):
        return Answer(options.by_text[whole])
    value = _trimmed(value[_end(_LEAD_IN.match(value)) :])
    if _NOT.match(value) and _normal(value) not in options.by_text:
        chosen = _weigh(value, options)
        named = set(chosen.chosen or chosen.named) - set(chosen.denied)
        return Answer(named.pop()) if len(named) == 1 else None
    first = _FIRST_LETTER.match(value)
    if first is not None and _is_letter(value, first, statement, options):
        return _read_letter(value, first, options)
    weighed = _weigh(_first_sentence(value), options)
    named = set(weighed.chosen or weighed.named) - set(weighed.denied)
    if len(named) == 1:
        return Answer(named.pop())
    if named:
        return Unparsed(f"names several options as the answer: {_shown(value)}")
    if weighed.denied or not (statement.labelled or statement.enclosed):
        return None
    return Unparsed(f"names no option as the answer: {_shown(value)}") if value else None


def _is_letter(value: str, first: re.Match[str], statement: Statement, options: _Options) -> bool:
    """Whether a lone letter at the start names an option (or would, if there were one), and is no article or pronoun."""
    letter, rest = first["letter"], value[first.end() :]
    closed = first.end() - first.start() > 1 or not rest.strip() or rest[0] in ").:,;!\n/|]}"
    if closed:
        return letter.upper() in options.letters or letter.isupper() or statement.enclosed
    if letter.islower() or letter not in options.letters:
        return False
    if letter not in "AI" or _AFTER_WORD_LETTER.match(rest):
        return True
    own = next((text for text, other in options.by_text.items() if other == letter), None)
    return own is not None and _normal(rest).startswith(own)


def _read_letter(value: str, first: re.Match[str], options: _Options) -> Answer | Unparsed | None:
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
    listed = {match["letter"] for match in re.finditer(r"(?:^|\s)[(\[]?(?P<letter>[A-Z])\)", rest)} & set(options.letters)
    if len(listed - {letter}) > 1:
        return Unparsed(f"lists several options as the answer: {_shown(value)}")
    if _DENIED_AFTER.match(_first_sentence(rest)):
        return None
    return Answer(letter)


def _trimmed(value: str) -> str:
    return value[_end(_JUNK.match(value)) :]


def _end(match: re.Match[str] | None) -> int:
    return 0 if match is None else match.end()


def _first_sentence(text: str) -> str:
    end = re.search(r"[.!?](?=\s|$)|\n", text)
    return text if end is None else text[: end.start()]


def _shown(value: str) -> str:
    return repr(value if len(value) <= 60 else value[:60] + "...")


@dataclass(slots=True)
class _Weights:
    """Letters in the order of their mention: chosen or called right, merely named, denied, and what remains unclear."""

    chosen: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


def _worded(text: str, options: _Options) -> Answer | Unparsed:
    """The option where the options are the words Yes and No."""
    weighed, said = _weighed(text, options), parse_yes_no(text)
    if isinstance(said, Unparsed):
        return weighed
    letter = options.by_text[said.value.lower()]
    if isinstance(weighed, Answer) and weighed.value != letter:
        return Unparsed(f"says {said.value}, and speaks for {weighed.value}")
    return Answer(letter)


def _weighed(text: str, options: _Options) -> Answer | Unparsed:
    """The one option that a text without an explicit statement can mean."""
    weights = _weigh(text, options)
    chosen = set(weights.chosen) - set(weights.denied)
    if len(chosen) == 1:
        return Answer(chosen.pop())
    if chosen:
        return Unparsed(f"speaks for several options: {', '.join(sorted(chosen))}")
    if len(text.split()) > _LOOSE_WORDS:
        last = re.split(r"(?<=[.!?])\s|\n", text.strip())[-1]
        weights.named = _weigh(last, options).named
    named = set(weights.named) - set(weights.denied)
    if len(named) == 1:
        return Answer(named.pop())
    if named:
        return Unparsed(f"names several options: {', '.join(sorted(named))}")
    left = set(options.letters) - set(weights.denied)
    if len(left) == 1 and len(set(weights.denied)) > 1 and not left & set(weights.unclear):
        return Answer(left.pop())
    return Unparsed("names no option as the answer")


def _weigh(text: str, options: _Options) -> _Weights:
    weights = _Weights()
    marked = _mark(text, options)
    for clause, mark, lead in _clauses(marked):
        end = 0
        groups = list(_GROUP.finditer(clause))
        for number, group in enumerate(groups):
            following = groups[number + 1].start() if number + 1 < len(groups) else len(clause)
            before = clause[end : group.start()]
            if "," in before:
                before = before.rsplit(",", 1)[1]
            after = clause[group.end() : following].lstrip(")]\"'")
            end = group.end()
            letters = [_letter(character, options) for character in group[0] if _LETTER <= ord(character) <= 0xE2FF]
            listed = len(set(letters)) > 1 and not re.search(r"\b(?:or|and|nor)\b|[/&]", group[0])
            target = _stance(before, after, bool(mark == "?"), not_mine(clause, group.start()), lead, weights)
            if target is weights.denied and listed:
                if _CONTRAST.search(before) and not _DENIED_AFTER.match(after):  # "unlike A, B fits best"
                    weights.denied.append(letters[0])
                    letters = letters[1:]
                    target = _stance("", after, mark == "?", False, lead, weights)
                else:
                    target = weights.unclear
            if target is weights.chosen and len(set(letters)) > 1:
                target = weights.named
            target.extend(letters)
    return weights


def _stance(before: str, after: str, asked: bool, reported: bool, lead: bool, weights: _Weights) -> list[str]:
    if _DENIED_BEFORE.search(before) or _DENIED_AFTER.match(after):
        return weights.denied
    if asked or reported or _CONDITION.search(after) or _WEIGHS.search(before):
        return weights.unclear
    if _ASSERTED_AFTER.match(after) or _CHOSEN_BEFORE.search(before):
        return weights.chosen
    if _NEGATION.search(after):
        return weights.unclear
    return weights.chosen if lead else weights.named


def _clauses(marked: str) -> Iterator[tuple[str, str, bool]]:
    """(clause, the punctuation that ends it, whether a word of conclusion introduces it)."""
    start = 0
    lead = False
    for match in _CLAUSE.finditer(marked):
        clause = marked[start : match.start()]
        yield clause, match["mark"][0], lead
        lead = bool(_CONCLUDES.search(match["mark"])) or (lead and not clause.strip())
        start = match.end()
    yield marked[start:], "", lead


def _letter(character: str, options: _Options) -> str:
    return options.letters[(ord(character) - _LETTER) % 0x100]


def _mark(text: str, options: _Options) -> str:
    """The text with each option that it names as one private-use character."""
    if options.texts is not None:
        text = options.texts.sub(lambda match: _mark_text(match[0], options), text)
    return _BARE.sub(_letter_marker(text, options), text)


def _mark_text(words: str, options: _Options) -> str:
    letter = options.by_text.get(_normal(words))
    return words if letter is None else chr(_TEXT + options.letters.index(letter))


def _letter_marker(text: str, options: _Options) -> Callable[[re.Match[str]], str]:
    def mark(match: re.Match[str]) -> str:
        letter = match["letter"]
        if letter not in options.letters:
            return match[0]
        before, after = text[max(0, match.start() - 24) : match.start()], text[match.end() : match.end() + 24]
        wrapped = bool(match["open"]) and bool(match["close"]) or bool(match["close"])
        if not wrapped and not _CUED.search(before):
            before = before if match.start() > 24 else "\n" + before
            if not _BEFORE_BARE.search(before) and not _CHOSEN_BEFORE.search(before):
                return match[0]
            if letter in "AI" and not _AFTER_WORD_LETTER.match(after):
                return match[0]
        return f"{match['open']}{chr(_LETTER + options.letters.index(letter))}{match['close']}"

    return mark
