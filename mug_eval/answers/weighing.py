"""What the clauses of a text say about the options: chosen, named, denied, or neither clearly."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from mug_eval.answers.formulas import spelled
from mug_eval.answers.markup import plain
from mug_eval.answers.second_thoughts import supposed
from mug_eval.answers.statements import not_mine
from mug_eval.question import AnswerFormat

# While clauses are weighed, an option named by letter, or by text, is one private-use character.
_LETTER, _TEXT, _LAST = 0xE100, 0xE200, 0xE2FF
_NAMED = "[\ue100-\ue2ff]"

# Words after a lone "A" or "I" that show it to be an option, since an article or pronoun is not followed by them.
AFTER_A_OR_I = re.compile(
    r"\s?(?:$|[^\w\s\ue100-\ue2ff]|(?:because|since|as|is|are|was|were|isn't|seems|and|or|nor|but|over|rather|instead|given|due|for|with|based|from|by|in|according)\b)"
)

_RIGHT = r"(?:correct|right|answer|true|accurate|best|it|one|option|choice|possible|valid)"
_WRONG = r"(?:wrong|incorrect|false|inaccurate|eliminated|excluded|ruled out|impossible|unlikely|invalid|out)"
# "is the most likely right", but not "is on the right".
_FEW_WORDS = r"(?:(?!(?:on|to|at|in|of|near|by)\s)[\w'-]+\s){0,3}?"
DENIED_AFTER = re.compile(
    rf"^[^\n]{{0,60}}?(?:\b(?:is|are|was|were|be|seems?|looks?|appears?)\s"
    rf"{_FEW_WORDS}(?:{_WRONG}|not {_FEW_WORDS}{_RIGHT})\b|"
    rf"\b(?:isn't|aren't|wasn't|can't be|cannot be)\s{_FEW_WORDS}{_RIGHT}\b|"
    r"^\s?(?:isn't|is not|aren't|are not|cannot be|can't be|is wrong|is out)\b\W*$)",
    re.IGNORECASE,
)
_DENIED_BEFORE = re.compile(
    r"\b(?:not|never|neither|nor|cannot be|no|except|anything but|disagree\w* with|oppose|unlike|instead of|rather than|without|other than|"
    r"eliminat\w+|exclud\w+|(?:rul\w+|cross\w*) out|reject\w*|discard\w*|dismiss\w*|"
    rf"(?:wrong|incorrect|false)\s{_FEW_WORDS}(?:is|are|:))\b|n't\b|^\s?over\s",
    re.IGNORECASE,
)
_CONTRAST = re.compile(r"\b(?:unlike|instead of|rather than|contrary to|in contrast to)\b", re.IGNORECASE)
_CONDITION = re.compile(r"\b(?:if|unless|only when)\b", re.IGNORECASE)
_UNDECIDED = re.compile(r"\b(?:between|either)\b|^\s?or\s?(?:maybe\s|perhaps\s)?$", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|never|neither|nor|no|cannot|without|except|unlike|lacks?)\b|n't\b", re.IGNORECASE)
_ASSERTED_AFTER = re.compile(
    r"^\W{0,3}(?:\b(?:is|are|must be|would be|should be|seems|seems to be|appears to be|looks|remains|has to be)\s"
    rf"{_FEW_WORDS}(?:correct|right(?! (?:of|next|side|behind|beside))|answer|true|accurate|best|valid|appropriate|"
    r"plausible|likely|suitable|match|fit|the one(?! of)|my (?:choice|pick))\b|"
    r"(?:is|seems|looks) better(?=\W|$|\sthan\b)|remains?\b|stays\b|it is\b|it must be\b|fits best\b|wins\b)",
    re.IGNORECASE,
)
_CHOSEN_BEFORE = re.compile(
    r"\b(?:choose|chose|choosing|pick|picked|select|selected|selecting|vote(?: for)?|votes? (?:is|goes) (?:for|to)|voting for|"
    r"go with|going with|opt for|settle on|stick with|stand by|stay with|(?:would|will|'d|'ll) say|lean(?:ing)? towards?|"
    r"support|guess|answer(?:ed)?(?: with)?|conclude(?: that)?(?: it is| it's)?|"
    r"switch to|change(?:d)? (?:my answer )?to|leaving|leaves|left with|"
    r"(?:it|this|that|which) (?:must|has to|should) be|only)\s(?:us\s)?(?:with\s)?(?:only\s)?"
    r"(?:the\s|an?\s)?(?:option\s|choice\s|answer\s|letter\s)?[(\[\"']?$",
    re.IGNORECASE,
)
_WRONG_AND = re.compile(r"\b(?:is|are)\s(?:wrong|incorrect|false)\sand\b", re.IGNORECASE)
_CONCLUDES = re.compile(r"(?:so|therefore|thus|hence)$", re.IGNORECASE)
# A comma within a list of options does not end a clause.
_CLAUSE_END = re.compile(
    rf"(?P<mark>[.;:!?]+(?=\s|$|{_NAMED})|\n|,(?!\s?(?:and\s|or\s|nor\s)?(?:option\s|the\s|an?\s)?[(\[]?{_NAMED})|"
    r"(?:^|(?<=\s))(?:so(?!\s(?:is|are|do|does|was|were|that|far|much|many)\b)|(?<!anything\s)but|therefore|thus|hence|because|since|although|though|"
    r"while|whereas|however|which|then|instead(?!\sof))(?=[\s,]))",
    re.IGNORECASE,
)
# "A, B or C" is one list, "between A and B, C" is a list and one more.
_LISTED = rf"(?:both\s|option\s|the\s|an?\s)?[(\[\"']?{_NAMED}[)\]\"']?"
_GROUP = re.compile(
    rf"{_NAMED}[)\]\"']?(?:\s?,\s?{_LISTED})*(?:\s?(?:,\s?)?(?:/|&|\bor\b|\band\b|\bnor\b)\s?{_LISTED})*", re.IGNORECASE
)
_JOINED = re.compile(r"\b(?:or|and|nor)\b|[/&]", re.IGNORECASE)

_LONE_CAPITAL = re.compile(r"(?<![\w'.-])(?P<open>[(\[]?)(?P<letter>[A-Z])(?P<close>[)\]]?)(?![\w'-])")
_CUED = re.compile(r"\b(?:options?|choices?|answers?|letters?)\s[(\[\"']?$", re.IGNORECASE)
# A lone capital is an option only where an option can stand: "it is B", "so B", but not "vitamin C" or "tree B".
_BEFORE_AN_OPTION = re.compile(
    r"(?:^|[.;:!?,(\[\n/&>\"'=-]\s?|(?<!\w)(?:is|it's|that's|was|be|say|choose|chose|pick|picked|select|selected|with|so|therefore|thus|"
    r"hence|then|but|think|believe|probably|definitely|likely|maybe|perhaps|only|clearly|certainly|to|for|on|by|not|or|and|nor|neither|"
    r"either|both|just|leaves|leaving|than|of|out|between|eliminate|reject|exclude|dismiss|discard|guess|actually|also|because|since|while|"
    r"although|though|that|wait|yes|instead|as|answer|conclude|support|unlike|except|over)\s)$",
    re.IGNORECASE,
)


_NO_FORMULA_BEFORE = (
    r"(?<![√/×·*+<>≤≥±÷^_\\{:-])(?<![√/×·*+<>≤≥±÷^-]\s)(?<!√\()"
    r"(?<!\d,\s)(?<!\dx\s)(?<!\d\sx\s)(?<!minus\s)(?<!negative\s)(?<!plus\s)(?<!times\s)"
)
_NO_FORMULA_AFTER = (
    r"(?!\s?[/×·*+^√±÷<>≤≥°_{\\α-ωΑ-Ω])(?!\s-\s?\d)(?!\s\d+/\d)(?!\s?,\s?-?\d)(?!:\d)(?!\sx\s?\d)"
    r"(?!\s(?:plus|minus|times|over|million|billion|thousand|hundred|dozen)\b)"
)
# "next to the tree" names the tree, and is another place.
_BESIDE_BEFORE = re.compile(
    r"\b(?:next to|near|behind|beside|besides|in front of|(?:left|right|side|front|back|top|bottom|"
    r"edge|corner|part|end|colou?r|end) of|above|below|"
    r"under|underneath|beneath|inside|outside|towards?|facing|opposite)\s(?:the\s|an?\s|its\s|this\s|that\s)?$",
    re.IGNORECASE,
)
_ONE_BEFORE = re.compile(
    r"(?:^|[.,:;!?(\n]\s?|\b(?:is|are|was|were|only|exactly|just|see|count|has|have|be|shows?|answer|there's|but|so|not|or|and|than)\s)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Options:
    """The options, ready to be looked for.

    Attributes:
        letters: the canonical letters in order.
        by_text: normalised option text -> letter, without texts that two options share.
        words: ``Yes``/``No`` -> letter, where the options say yes and no, or true and false; else empty.
        texts: finds an option's text as a whole, longest first; None if no text can be looked for.
    """

    letters: tuple[str, ...]
    by_text: dict[str, str]
    words: dict[str, str]
    texts: re.Pattern[str] | None


@lru_cache(maxsize=512)
def options_of(answer_format: AnswerFormat) -> Options:
    """The options of a format, made ready once."""
    texts: dict[str, str | None] = {}
    for letter, text in answer_format.options:
        key = normal(spelled(plain(text)))
        if key:
            texts[key] = None if key in texts else letter
    by_text = {key: letter for key, letter in texts.items() if letter is not None}
    words: dict[str, str] = {}
    for yes, no in (("true", "false"), ("yes", "no")):
        if yes in by_text and no in by_text:
            words = {"Yes": by_text[yes], "No": by_text[no]}
    # A single letter, and "no" in "no idea", are words of any sentence: they are options only where they stand alone.
    wanted = [key for key in texts if (len(key) > 1 or key.isdigit()) and by_text.get(key) not in words.values()]
    pattern = None
    if wanted:
        body = "|".join(_bounded(key) for key in sorted(wanted, key=lambda key: (-len(key), key)))
        pattern = re.compile(rf"(?<![\w.'√^-])(?<!\d,)(?:{body})(?![\w'^-])(?!\.\d)(?!,\d)", re.IGNORECASE)
    return Options(answer_format.candidates, by_text, words, pattern)


def _bounded(key: str) -> str:
    """What finds an option's text; a number or formula only where it is no part of a longer one."""
    body = re.escape(key).replace(r"\ ", r"\s")
    before = _NO_FORMULA_BEFORE if not re.match(r"[a-z]{2}", key) else ""
    after = _NO_FORMULA_AFTER if not re.search(r"[a-z]{2}$", key) else ""
    return f"{before}{body}{after}"


def normal(text: str) -> str:
    """An option's text for comparison: small letters, no article before it, no stop or quotes around it."""
    return re.sub(r"^(?:the|an?)\s", "", re.sub(r"\s+", " ", text).strip(" .\"'").lower())


@dataclass(slots=True)
class Weights:
    """Letters in the order of their mention.

    Attributes:
        chosen: what the text chooses or calls right.
        named: mentioned without more.
        denied: said not to be the answer.
        ruled_out: those of ``denied`` that were named by their letter, so that the answer and not the picture is spoken of.
        unclear: asked, reported, conditional, or with a negation that may be for or against.
        beside: named as the place beside which something is.
    """

    chosen: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    ruled_out: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)

    @property
    def meant(self) -> set[str]:
        """What can be the answer: the chosen, or else the named, without the denied."""
        meant = set(self.chosen or self.named + self.beside) - set(self.denied)
        return set() if not self.chosen and meant <= set(self.beside) else meant


def weigh(text: str, options: Options) -> Weights:
    """Weigh a plain text clause by clause."""
    weights = Weights()
    marked = _mark(text, options)
    for clause, mark, concluding, at in _clauses(marked):
        given = supposed(marked, at)
        groups = list(_GROUP.finditer(clause))
        ends = [*(group.start() for group in groups), len(clause)][1:]
        before_from = 0
        for group, end in zip(groups, ends, strict=True):
            before = clause[before_from : group.start()].rpartition(",")[2]
            after = clause[group.end() : end].lstrip(")]\"'")
            before_from = group.end()
            own = _WRONG_AND.sub("", clause[max(0, group.start() - 120) : group.start()])
            reported = not_mine(own, len(own)) or (not concluding and given)
            if end < len(clause):  # "B and not C": the negation is the next one's
                after = re.split(r"\s(?:and|or)\s", after, maxsplit=1)[0]
            concludes = (concluding or (mark.lower() in ("because", "since") and not (before + after).strip())) and len(groups) == 1
            _add(weights, group[0], _Place(before, after, mark[:1] == "?", reported, concludes), options)
    return weights


@dataclass(frozen=True, slots=True)
class _Place:
    """Where options are named in a clause: the words before and after, whether it asks, reports, or concludes."""

    before: str
    after: str
    asks: bool = False
    reports: bool = False
    concludes: bool = False


def _add(weights: Weights, group: str, place: _Place, options: Options) -> None:
    marks = [character for character in group if _LETTER <= ord(character) <= _LAST]
    letters = [options.letters[(ord(character) - _LETTER) % 0x100] for character in marks]
    several = len(set(letters)) > 1
    stance = _stance(place)
    if stance == "denied" and several and not _JOINED.search(group):
        # "unlike A, B fits best" denies A alone; of "it is not A, B" nobody knows.
        if _CONTRAST.search(place.before) and not DENIED_AFTER.match(place.after):
            weights.denied.append(letters[0])
            letters = letters[1:]
            stance = _stance(_Place("", place.after, place.asks, False, place.concludes))
        else:
            stance = "unclear"
    elif stance == "denied":
        weights.ruled_out.extend(letter for letter, character in zip(letters, marks, strict=True) if ord(character) < _TEXT)
    elif stance == "chosen" and several:
        stance = "named"
    getattr(weights, stance).extend(letters)


def _stance(place: _Place) -> str:
    if _DENIED_BEFORE.search(place.before) or DENIED_AFTER.match(place.after):
        return "denied"
    if place.asks or place.reports or _CONDITION.search(place.after) or _UNDECIDED.search(place.before):
        return "unclear"
    if _ASSERTED_AFTER.match(place.after) or _CHOSEN_BEFORE.search(place.before):
        return "chosen"
    if _NEGATION.search(place.after):
        return "unclear"
    if _BESIDE_BEFORE.search(place.before):
        return "beside"
    short = len(place.before.split()) <= 4 and len(place.after.split()) <= 2
    return "chosen" if place.concludes and short else "named"


def _clauses(marked: str) -> Iterator[tuple[str, str, bool, int]]:
    """(clause, the mark or word that ends it, whether a word of conclusion introduces it, where it begins)."""
    start = 0
    concludes = False
    for end in _CLAUSE_END.finditer(marked):
        clause = marked[start : end.start()]
        yield clause, end["mark"], concludes, start
        concludes = bool(_CONCLUDES.search(end["mark"])) or (concludes and not clause.strip())
        start = end.end()
    yield marked[start:], "", concludes, start


def _mark(text: str, options: Options) -> str:
    """The text with each option that it names as one private-use character."""

    def by_text(match: re.Match[str]) -> str:
        letter = options.by_text.get(normal(match[0]))
        before = text[max(0, match.start() - 30) : match.start()]
        if match[0].lower() == "one" and (not _ONE_BEFORE.search(before) or text.startswith(" of", match.end())):
            return match[0]  # "the first one"
        return match[0] if letter is None else chr(_TEXT + options.letters.index(letter))

    if options.texts is not None:
        text = options.texts.sub(by_text, text)
    return _LONE_CAPITAL.sub(_by_letter(text, options), text)


def _by_letter(text: str, options: Options) -> Callable[[re.Match[str]], str]:
    def mark(match: re.Match[str]) -> str:
        letter = match["letter"]
        if letter not in options.letters:
            return match[0]
        before, after = text[max(0, match.start() - 24) : match.start()], text[match.end() : match.end() + 24]
        if not match["close"] and not _CUED.search(before):
            before = before if match.start() > 24 else "\n" + before
            if not _BEFORE_AN_OPTION.search(before) and not _CHOSEN_BEFORE.search(before):
                return match[0]
            if letter in "AI" and not AFTER_A_OR_I.match(after):
                return match[0]
        return f"{match['open']}{chr(_LETTER + options.letters.index(letter))}{match['close']}"

    return mark
