"""Replies -> answers: strict, then loose, then Unparsed. There is no default answer (validity rule 4)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from mug_eval.answers.choice import parse_choice
from mug_eval.answers.markup import plain
from mug_eval.answers.open_text import open_key, parse_open
from mug_eval.answers.replies import parse_object, spoken
from mug_eval.answers.yes_no import parse_yes_no
from mug_eval.question import Answer, AnswerFormat, Unparsed

__all__ = ["parse_answer", "parse_object", "plurality", "same", "spoken"]


def parse_answer(text: str, answer_format: AnswerFormat) -> Answer | Unparsed:
    """The answer that a reply gives.

    Private thinking is not read. An explicit statement (``Answer: B``, a box, an answer tag, JSON, "the answer is B", a letter
    alone) comes before any other reading. What can be read in two ways is ``Unparsed``.

    Args:
        text: the reply as it came.
        answer_format: what counts as an answer.

    Returns:
        The canonical answer (an option's letter, ``Yes``/``No``, the text of an open answer), or why there is none.
    """
    said = plain(spoken(text), code_names=answer_format.kind == "open")
    if not said:
        return Unparsed("the reply is empty" if not text.strip() else "the reply holds nothing but thinking or markup")
    if answer_format.kind == "yes_no":
        return parse_yes_no(said)
    if answer_format.kind == "choice":
        return parse_choice(said, answer_format)
    return parse_open(said)


def same(a: Answer, b: Answer, answer_format: AnswerFormat) -> bool:
    """Whether two answers say the same: equal letters or words, for open answers equal numbers or equal normalised text."""
    return _key(a, answer_format) == _key(b, answer_format)


def plurality(
    answers: Sequence[Answer | Unparsed], answer_format: AnswerFormat, rng: random.Random
) -> tuple[Answer | Unparsed, dict[str, int]]:
    """The answer given most often.

    ``Unparsed`` abstains. A tie is settled by ``rng`` among the tied, taken in the order of the options (open answers: in the
    order of their normalised text), so that the order of the replies does not matter. Open answers that say the same are one,
    in its most frequent spelling.

    Returns:
        The winner and the votes for each answer; ``Unparsed`` and no votes if nobody's answer could be read.
    """
    spellings: dict[str, Counter[str]] = {}
    for answer in answers:
        if isinstance(answer, Answer):
            spellings.setdefault(_key(answer, answer_format), Counter())[answer.value] += 1
    if not spellings:
        return Unparsed(f"none of {len(answers)} answers could be read"), {}
    order = {candidate: place for place, candidate in enumerate(answer_format.candidates)}
    keys = sorted(spellings, key=lambda key: (order.get(key, len(order)), key))
    values = {key: min(spellings[key], key=lambda value: (-spellings[key][value], value)) for key in keys}
    votes = {values[key]: spellings[key].total() for key in keys}
    most = max(votes.values())
    tied = [value for value, count in votes.items() if count == most]
    return Answer(tied[0] if len(tied) == 1 else rng.choice(tied)), votes


def _key(answer: Answer, answer_format: AnswerFormat) -> str:
    return open_key(answer.value) if answer_format.kind == "open" else answer.value
