"""How every method talks: the constant system prompt, the layout of a turn, and asking for an answer.

The layout puts what agents share first, so that a server or a cache computes it once (BACKENDS): system, picture(s) and question,
rules, public transcript, and last what is for one agent alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mug_eval.answers import parse_answer, spoken
from mug_eval.chat import ImageRef, Json, Message, Part, Sampling
from mug_eval.methods.method import Table
from mug_eval.question import Answer, AnswerFormat, Unparsed
from mug_eval.transcript import Transcript, pieces_of

SYSTEM = "You answer questions about pictures. Rely on what can be seen and on careful reasoning, and do not invent details."

SYSTEM_OF_TEXT = "You answer questions. Rely on what you are given and on careful reasoning, and do not invent details."
"""The same for a question without a picture."""

_OF_TEXT = (
    ("which details of the picture", "which facts"),
    ("every agent saw the picture", "every agent read it"),
    ("against the picture", "against the question"),
    ("with what you see", "with the question"),
)
"""Methods' words about a picture, and what they say of a question that has none. MUG's are about pictures alone and stay."""

Parsed = TypeVar("Parsed")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply with the answer read from it.

    Attributes:
        text: the words without private thinking, fit to be shown to others; both replies where it was asked again.
        answer: what was read.
        raw: the reply from which it was read, whole.
        asked_again: whether a format reminder was needed.
    """

    text: str
    answer: Answer | Unparsed
    raw: str
    asked_again: bool = False

    @property
    def value(self) -> str | None:
        """The answer for the trace; None if there is none."""
        return self.answer.value if isinstance(self.answer, Answer) else None


def turn(prompt: Sequence[Part], *sections: str) -> tuple[Message, ...]:
    """The conversation for one call: system prompt, then the question's own prompt and the sections after it in one user turn.

    Args:
        prompt: pictures and question, as the benchmark lays them out.
        sections: rules, transcript, private task, in this order; empty ones are left out. Of one that is a ``Transcript`` the table
            leaves out the oldest rounds where all of it is over the model's context. Where the prompt has no picture, our own words do not
            speak of one.
    """
    seen = any(isinstance(part, ImageRef) for part in prompt)
    shown = pieces_of(section if seen or isinstance(section, Transcript) else _of_text(section) for section in sections if section)
    tail = (Transcript([(None, ""), *shown]),) if shown else ()  # nothing, and then a blank line
    return Message("system", (SYSTEM if seen else SYSTEM_OF_TEXT,)), Message("user", (*prompt, *tail))


def _of_text(section: str) -> str:
    """A section in words for a question without a picture; what somebody said in it, a marked line, stays as it was said."""
    lines = section.split("\n")
    for place, line in enumerate(lines):
        if not line.startswith(">"):
            for words, others in _OF_TEXT:
                line = line.replace(words, others)
            lines[place] = line
    return "\n".join(lines)


def answer_line(answer_format: AnswerFormat) -> str:
    """The sentence that asks for the final line, the same in every method."""
    if answer_format.kind == "yes_no":
        return 'Finish with one line that reads "Answer: Yes" or "Answer: No".'
    if answer_format.kind == "choice":
        *others, last = answer_format.candidates
        letters = f"{', '.join(others)} or {last}" if others else last
        return f'Finish with one line that reads "Answer: " and then the letter of one option ({letters}).'
    return 'Finish with one line that reads "Answer: " and then the answer alone: a word, a number or a short phrase.'


def reminded(messages: Sequence[Message], reply: str, reminder: str) -> tuple[Message, ...]:
    """The conversation continued by a reminder. A blank reply is not quoted: servers refuse an empty turn."""
    said = spoken(reply)
    if said.strip():
        return (*messages, Message("assistant", (said,)), Message("user", (reminder,)))
    *earlier, last = messages
    return (*earlier, Message(last.role, (*last.parts, "\n\n" + reminder)))


async def ask_until_read(
    table: Table,
    seat: str,
    messages: Sequence[Message],
    read: Callable[[str], Parsed | Unparsed],
    reminder: str,
    *,
    sampling: Sampling | None = None,
    schema: Json | None = None,
) -> tuple[Parsed | Unparsed, tuple[str, ...]]:
    """Ask, and once more with a format reminder if nothing could be read (validity rule 4).

    Returns:
        What was read, and the one or two replies in order.
    """
    reply = await table.ask(seat, messages, sampling=sampling, schema=schema)
    result = read(reply.text)
    if not isinstance(result, Unparsed):
        return result, (reply.text,)
    again = await table.ask(seat, reminded(messages, reply.text, reminder), sampling=sampling, schema=schema)
    return read(again.text), (reply.text, again.text)


async def ask_answer(
    table: Table, seat: str, messages: Sequence[Message], answer_format: AnswerFormat, sampling: Sampling | None = None
) -> Heard:
    """Ask for an answer in the benchmark's format."""

    def read(text: str) -> Answer | Unparsed:
        return parse_answer(text, answer_format)

    reminder = f"No answer could be read from that. {answer_line(answer_format)}"
    answer, replies = await ask_until_read(table, seat, messages, read, reminder, sampling=sampling)
    text = "\n".join(filter(None, (spoken(reply).strip() for reply in replies)))
    return Heard(text, answer, replies[-1], len(replies) > 1)


async def together(calls: Sequence[Awaitable[Result]]) -> list[Result]:
    """All calls of one phase at once; results in order.

    If some fail, the others are still awaited, so that what they cost is on the record, and the first failure in order is raised, so
    that the outcome does not depend on which came first.
    """
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


def record_heard(table: Table, kind: str, seat: str, heard: Heard, **before: Any) -> None:
    """Put what was heard into the trace, the same fields wherever an answer was asked for.

    Args:
        table: where it was said.
        kind: of the event (``answer``, ``statement``).
        seat: who said it.
        heard: what.
        before: fields that say where in the game it was said (``round``, ``phase``).
    """
    table.record(kind, **before, seat=seat, text=heard.text, answer=heard.value, asked_again=heard.asked_again)


def quoted(text: str) -> str:
    """Somebody's words inside a transcript, every line marked: nobody can forge another's statement, or a vote, by imitating its form."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines()) or "> (nothing)"


def statements(spoken_by: Sequence[tuple[str, str]]) -> str:
    """What was said, speaker by speaker: part of a public transcript."""
    return "\n\n".join(f"{seat}:\n{quoted(text)}" for seat, text in spoken_by)
