"""QuAC's measure (Choi et al. 2018, section 5): overlap of words with references, and with how far references agree.

- Words are lower-cased, without punctuation and articles. F1 is of the words two texts share, counted as often as they occur.
- References: if at least half say that the section has no answer, that is the only one; else those that say so are left out.
- With several references each is left out in turn, the best of the others counts, and the mean is taken: people, who are themselves
  among the references, can then be measured alike.
- Rows on which people reach less than 0.4 are not counted.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

NO_ANSWER = "CANNOTANSWER"
"""The set's word for: the section does not say."""

LEAST_AGREEMENT = 0.4
"""Of people with each other, for a row to count."""

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def words(text: str) -> list[str]:
    """The words that count."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def overlap(text: str, reference: str) -> float:
    """F1 of one text with one reference, 0 to 1. That there is no answer is said in one word or not at all."""
    if reference == NO_ANSWER:
        return float(text.strip() == NO_ANSWER)
    mine, theirs = words(text), words(reference)
    shared = (Counter(mine) & Counter(theirs)).total()
    return 2 * shared / (len(mine) + len(theirs)) if shared else 0.0


def references_of(answers: Sequence[str]) -> tuple[str, ...]:
    """The references that count, of all answers that people gave (at least one)."""
    spans = tuple(answer for answer in answers if answer != NO_ANSWER)
    return spans if len(spans) > len(answers) - len(spans) else (NO_ANSWER,)


def f1(text: str, references: Sequence[str]) -> float:
    """How well a text answers, 0 to 1.

    Args:
        text: the answer.
        references: from :func:`references_of`.
    """
    scores = [overlap(text, reference) for reference in references]
    if len(scores) == 1:
        return scores[0]
    return sum(max(scores[:left] + scores[left + 1 :]) for left in range(len(scores))) / len(scores)


def agreement(references: Sequence[str]) -> float:
    """How well people answer: each reference against the best of the others; 1 where there is no other."""
    if len(references) == 1:
        return 1.0
    best = [max(overlap(one, other) for at, other in enumerate(references) if at != place) for place, one in enumerate(references)]
    return sum(best) / len(best)
