"""One whole game as text that can be read from top to bottom: who saw what, said what, voted for whom, and how it ended."""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

Record = Mapping[str, Any]
"""One line of ``games.jsonl``."""

Messages = Sequence[Mapping[str, Any]]
"""The messages of one call as the journal holds them: ``{"role": ..., "parts": [text | {"image": sha256, ...}]}``."""

ReadMessages = Callable[[str], "Messages | None"]
"""Journal key -> the messages as they were sent, or None where the journal does not have them."""

_KEPT_FORMAT = "\u200c\u200d"  # joiners: without them some scripts and emoji read wrongly, and they move nothing


def printable(text: str) -> str:
    r"""The text with everything that could drive a terminal made visible as an escape (``\x1b``).

    Model output is a stranger's text: escape sequences could rewrite the screen, bidirectional overrides could make a game read
    other than it went. Newlines and tabs stay.
    """
    return "".join(
        char if char in "\n\t" or not _drives_a_terminal(char) else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text.replace("\r\n", "\n")
    )


def _drives_a_terminal(char: str) -> bool:
    """Control, format (bidirectional marks, tags), surrogate, line and paragraph separators."""
    return unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char not in _KEPT_FORMAT


def misshapen(record: Record) -> str:
    """What of a record has not the shape in which games are written, "" if all has: a file may have been changed by hand."""
    if not _is_list_of_objects(record.get("calls")):
        return "calls"
    for name in ("usage", "facts"):
        if not isinstance(record.get(name) or {}, Mapping):
            return name
    if not _is_list_of_objects(record.get("events")):
        return "events"
    for event in record.get("events") or ():
        for name, shape in (("ratings", Mapping), ("votes", Mapping), ("order", list), ("tied", list)):
            if event.get(name) is not None and not isinstance(event[name], shape):
                return f"an event's {name}"
        ratings = event.get("ratings") or {}
        if not all(isinstance(rating, Mapping) for rating in ratings.values()):
            return "an event's ratings"
    return ""


def _is_list_of_objects(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, Mapping) for item in value))


def game_text(record: Record, *, title: str = "", read: ReadMessages | None = None, prompts: bool = False, width: int = 100) -> str:
    """The game as text.

    Args:
        record: the question's line of ``games.jsonl``.
        title: model and benchmark, for the heading.
        read: looks a call up in the journal; None where there is no journal.
        prompts: whether every message is printed as it was sent.
        width: columns to wrap at; 40 at least.
    """
    page = _Page(max(width, 40))
    page.line(f"{title + ', ' if title else ''}question {record.get('index')}")
    page.line(f"ended: {record.get('ended', '')}   answer: {_answer(record)}   scored as: {record.get('prediction', '')}")
    _question(page, record, read)
    _events(page, record)
    _cost(page, record)
    if prompts:
        _prompts(page, record, read)
    return page.text()


class _Page:
    """Lines so far; whatever is added is made printable and wrapped."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.lines: list[str] = []

    def line(self, text: str, indent: int = 0) -> None:
        for line in printable(str(text)).split("\n"):
            wrapped = textwrap.wrap(
                line,
                self.width - indent,
                replace_whitespace=False,
                drop_whitespace=True,
                break_long_words=True,
                break_on_hyphens=False,
            )
            self.lines += [" " * indent + piece for piece in wrapped or [""]]

    def heading(self, text: str) -> None:
        self.lines += ["", printable(text), "-" * min(len(printable(text)), self.width)]

    def table(self, rows: Sequence[Sequence[str]], indent: int = 2) -> None:
        """Aligned columns; numbers to the right."""
        cells = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        for row in cells:
            padded = [cell.rjust(size) if cell[:1].isdigit() else cell.ljust(size) for cell, size in zip(row, widths, strict=True)]
            self.lines.append((" " * indent + "  ".join(padded)).rstrip())

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines) + "\n"


def _answer(record: Record) -> str:
    answer = record.get("answer")
    if isinstance(answer, Mapping):
        if "value" in answer:
            return str(answer["value"])
        return f"none ({answer.get('unparsed', '')})"
    return "none"


def _part(part: Any) -> str:
    """A piece of a message; a picture by its size and hash."""
    if isinstance(part, Mapping):
        return f"[picture {part.get('width', '?')}x{part.get('height', '?')}, sha256 {str(part.get('image', ''))[:12]}]"
    return str(part)


def _question(page: _Page, record: Record, read: ReadMessages | None) -> None:
    """The question as the first call put it: the user's turn without what the method added (one last piece after a blank line)."""
    calls = record.get("calls") or []
    messages = read(str(calls[0].get("key"))) if read and calls else None
    page.heading("Question")
    turn = next((message for message in messages or () if message.get("role") == "user"), None)
    if turn is None:
        page.line("(its text is not available: it is in journal.sqlite of the work folder, which is not here or cannot be read)", 2)
        return
    parts = list(turn.get("parts") or ())
    if len(parts) > 1 and isinstance(parts[-1], str) and parts[-1].startswith("\n\n"):
        parts.pop()
    for part in parts:
        page.line(_part(part), 2)


def heading(event: Record) -> str:
    """Events with the same heading stand together."""
    kind = str(event.get("event"))
    if kind == "statement" and event.get("phase") == "summary":
        return f"Summary, round {event.get('round')}"
    if kind in ("statement", "vote", "elimination"):
        name = {"observe": "observation", "reason": "statements"}.get(str(event.get("phase")), "statements")
        return f"Round {event.get('round')}, {name}" if kind == "statement" else f"Round {event.get('round')}, vote"
    if kind in ("argument", "critique", "rebuttal"):
        names = {"argument": "Arguments", "critique": "Critiques", "rebuttal": "Rebuttals"}
        return names[kind] + (f", round {event['round']}" if event.get("round") else "")
    return {
        "seats": "Seats",
        "answer": "Answers",
        "first answer": "First answers",
        "judgement": "Judgement",
        "feedback": "Feedback",
        "count": "Count",
        "stances": "Stances",
        "fallback": "Note",
        "stop": "Note",
        "transcript_dropped": "Note",
    }.get(kind, kind.capitalize())


def _events(page: _Page, record: Record) -> None:
    events = [event for event in record.get("events") or [] if isinstance(event, Mapping)]
    undercover = next((event.get("undercover") for event in events if event.get("event") == "seats"), None)
    for title, group in groupby(events, key=heading):
        page.heading(title)
        together = list(group)
        votes = [event for event in together if event.get("event") == "vote"]
        if votes:
            _votes(page, votes)
        for event in together:
            if event.get("event") != "vote":
                _event(page, event, undercover)


def _event(page: _Page, event: Record, undercover: Any) -> None:
    kind = event.get("event")
    if kind == "seats":
        order = [f"{seat} (the undercover)" if seat == undercover else str(seat) for seat in event.get("order") or []]
        page.line(", ".join(order) + ("" if undercover else "; nobody is the undercover"), 2)
        edit = event.get("edit")
        if event.get("holds"):
            made = ", ".join(f"{name}: {value}" for name, value in edit.items()) if isinstance(edit, Mapping) else ""
            page.line(f"the undercover holds {event['holds']}" + (f" ({made})" if made else ""), 2)
    elif kind == "elimination":
        _elimination(page, event, undercover)
    elif kind in ("fallback", "stop"):
        page.line(str(event.get("reason", "")), 2)
    elif kind == "transcript_dropped":
        rounds = "the oldest round" if event.get("rounds") == 1 else f"the {event.get('rounds')} oldest rounds"
        page.line(f"{event.get('call')} was not shown {rounds} of the talk: the prompt was over the model's context", 2)
    elif kind in ("argument", "critique", "rebuttal"):
        _said(page, f"for {event.get('stance')}" if kind != "critique" else f"against {event.get('stance')}", event)
    elif "text" in event:
        _said(page, str(event.get("seat") or kind), event)
    else:
        page.line(f"{kind}: {fields_line(event, ('event',))}", 2)


def _said(page: _Page, who: str, event: Record) -> None:
    """Who spoke, what was read from it, and the words."""
    known = ("event", "round", "phase", "seat", "stance", "text", "answer", "asked_again")
    notes = []
    if "answer" in event:
        notes.append("no answer read" if event["answer"] is None else f"answer {event['answer']}")
    if event.get("asked_again"):
        notes.append("asked again")
    more = fields_line(event, known)
    page.line(who + (f" [{'; '.join(notes)}]" if notes else "") + (f"  {more}" if more else ""), 2)
    page.line(str(event.get("text") or "(said nothing)"), 6)


def fields_line(event: Record, without: Iterable[str]) -> str:
    """An event's other fields as ``name=value``."""
    return ", ".join(f"{name}={_value(value)}" for name, value in event.items() if name not in tuple(without))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    if isinstance(value, float):
        return f"{value:g}"
    return (
        {None: "none", True: "yes", False: "no"}.get(value, str(value)) if value is None or isinstance(value, bool) else str(value)
    )


def _votes(page: _Page, votes: Sequence[Record]) -> None:
    """A row for every (voter, rated agent) pair, then what came of each ballot."""
    rated = [vote for vote in votes if vote.get("ratings")]
    factors = list(dict.fromkeys(factor for vote in rated for rating in vote["ratings"].values() for factor in rating))
    rows = [["voter", "rates", *(factor.replace("_", " ") for factor in factors), "vote"]]
    for vote in rated:
        for place, (seat, rating) in enumerate(vote["ratings"].items()):
            scores = [_value(rating[factor]) if factor in rating else "-" for factor in factors]
            rows.append([str(vote.get("seat")) if place == 0 else "", str(seat), *scores, "<-" if seat == vote.get("vote") else ""])
    if len(rows) > 1:
        page.table(rows)
    for vote in votes:
        if not vote.get("ratings") or vote.get("vote") is None:
            choice = f"votes for {vote['vote']}" if vote.get("vote") is not None else "abstains"
            reason = f": {vote['reason']}" if vote.get("reason") else ""
            page.line(f"{vote.get('seat')} {choice}{reason}", 2)


def _elimination(page: _Page, event: Record, undercover: Any) -> None:
    counted = ", ".join(f"{seat} {count}" for seat, count in (event.get("votes") or {}).items()) or "none"
    out = event.get("eliminated")
    if out is None:
        came = "Nobody is voted out."
    elif undercover is None:
        came = f"{out} is voted out."
    else:
        came = f"{out} is voted out: it {'was' if out == undercover else 'was not'} the undercover."
    tie = f" (drawn among the tied: {', '.join(map(str, event['tied']))})" if event.get("tied") else ""
    page.line(f"Votes: {counted}. {came}{tie}", 2)


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def _cost(page: _Page, record: Record) -> None:
    calls = record.get("calls") or []
    page.heading("Cost")
    columns = ("prompt_tokens", "completion_tokens", "images", "seconds", "finish_reason")
    rows = [["call", "prompt tokens", "completion tokens", "images", "seconds", "finished by"]]
    rows += [[str(call.get("call")), *(_number(call.get(column)) for column in columns)] for call in calls]
    if calls:
        page.table(rows)
    page.line(fields_line(record.get("usage") or {}, ()), 2)
    if record.get("facts"):
        page.line("facts: " + fields_line(record["facts"], ()), 2)


def _prompts(page: _Page, record: Record, read: ReadMessages | None) -> None:
    """Every message as it was sent, call by call, with the reply as it came."""
    for call in record.get("calls") or []:
        page.heading(f"Call {call.get('call')}")
        messages = read(str(call.get("key"))) if read else None
        if messages is None:
            page.line("(not in the journal)", 2)
        for message in messages or ():
            page.line(f"{message.get('role')}:", 2)
            for part in message.get("parts") or ():
                page.line(_part(part), 4)
        page.line("reply:", 2)
        page.line(str(call.get("text", "")), 4)
