"""Who is MUG's undercover when it is not drawn: the agent that is least sure of its first answer (the reviewers' suggestion)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mug_eval.answers import parse_answer, spoken
from mug_eval.methods import mug_prompts as words
from mug_eval.methods.conversation import answer_line, ask_until_read, together, turn
from mug_eval.methods.method import Table
from mug_eval.question import Answer, Question, Unparsed

_SCALE = re.compile(r"\(?\b(?:from\s+)?0\s*(?:-|–|to)\s*100\b\)?|(?:/|\bout of)\s*100\b|\bon a scale\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,-])(\d{1,3}(?:\.\d+)?)\s*(%|/\s*10\b|out of 10\b)?(?![\w/]|[.,]\d)", re.IGNORECASE)


def read_confidence(text: str) -> float | Unparsed:
    """The confidence that the last line which speaks of it states, 0 to 100.

    ``85``, ``85%``, ``85/100``, ``8.5/10`` and ``0.85`` are the same; the scale itself (``0-100``) is not a confidence. Several numbers,
    or one outside of the scale, are none: to take one of them would be to guess.
    """
    lines = [line for line in spoken(text).splitlines() if "confiden" in line.lower()]
    if not lines:
        return Unparsed("no line speaks of a confidence")
    stated = _SCALE.sub(" ", lines[-1][re.search("confiden", lines[-1], re.IGNORECASE).end() :])  # type: ignore[union-attr]
    found = _NUMBER.findall(stated)
    if len(found) != 1:
        return Unparsed("the confidence line holds no single number")
    digits, unit = found[0]
    value = float(digits)
    if unit and unit != "%":
        value *= 10
    elif not unit and "." in digits and value <= 1:
        value *= 100
    return value if value <= 100 else Unparsed("the confidence is above 100")


async def most_uncertain(question: Question, table: Table, names: Sequence[str]) -> str:
    """The agent that states the least confidence in a first answer given alone over I+; ties by a seeded draw.

    Agents that state none even when asked again are left out; if none does, the draw is over all seats and the trace says so.
    """
    line = answer_line(question.answer_format)
    asked = await together(
        [
            ask_until_read(
                table, seat, turn(question.prompt, f"You are {seat}. {words.ALONE} {line}"), read_confidence, words.ALONE
            )
            for seat in names
        ]
    )
    stated: dict[str, float] = {}
    for seat, (confidence, replies) in zip(names, asked, strict=True):
        if not isinstance(confidence, Unparsed):
            stated[seat] = confidence
        answer = parse_answer(replies[0], question.answer_format)
        table.record(
            "first answer",
            seat=seat,
            text=spoken(replies[0]).strip(),
            answer=answer.value if isinstance(answer, Answer) else None,
            confidence=stated.get(seat),
            asked_again=len(replies) > 1,
        )
    rng = table.random("undercover")
    if not stated:
        table.record("fallback", reason="no agent stated a confidence: the undercover was drawn at random")
        return rng.choice(list(names))
    return rng.choice([seat for seat in names if stated.get(seat) == min(stated.values())])
