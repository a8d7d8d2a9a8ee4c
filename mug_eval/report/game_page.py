"""The games of a run: a list that is always loaded, and the games themselves in chunks that are loaded when one is looked at."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mug_eval.errors import UserError
from mug_eval.report.families import Family, Shown
from mug_eval.report.pictures import PictureBook
from mug_eval.report.plain_text import shown
from mug_eval.report.templating import environment
from mug_eval.show import fields_line, heading, misshapen

CHUNK = 40
"""Games a file: some hundred kilobytes, read in one go when one of them is looked at."""

_EXCERPT = 140
_KNOWN = ("event", "round", "phase", "seat", "stance", "text", "answer", "asked_again", "ratings", "vote", "votes", "reason")
_CARDS = ("order", "undercover", "holds", "edit", "eliminated", "tied")
_LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def games_html(member: Shown, family: Family) -> str:
    """The page of a run's games; what is in them comes from the data files beside it."""
    template = environment().get_template("game.html")
    return template.render(member=member, run=member.run, family=family, title=f"{member.label} on {member.run.benchmark}: games")


def script(call: str, value: Any) -> str:
    """A data file: a call with one argument, JSON as text.

    It is text in a script, not an object: a key ``__proto__`` stays a key. No character in it can end a script, a line or a string:
    all beyond ASCII and ``<``, ``>``, ``&`` are escapes.
    """
    inner = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    outer = json.dumps(inner, ensure_ascii=True)
    for char in "<>&":
        outer = outer.replace(char, f"\\u{ord(char):04x}")
    return f"{call}({outer});\n"


def game_files(member: Shown, family: Family, book: PictureBook) -> Iterator[tuple[str, str]]:
    """The data files of a run's games: (name, content), the list last.

    Args:
        member: the run.
        family: what its answers may be held against.
        book: finds the pictures.

    Raises:
        UserError: a game has not the shape of a game.
        RunStopped: the disk is full.
    """
    run = member.run
    rows: list[list[Any]] = []
    chunk: list[dict[str, Any]] = []
    order: list[str] = []
    for record in run.games():
        wrong = misshapen(record)
        if wrong:
            raise UserError(
                f"the game {record['index']!r} has {wrong} that a game does not have; the file was changed from outside"
            )
        try:
            game = shown(_game(member, record, book))
        except RecursionError as error:
            raise UserError(f"the game {record['index']!r} is nested too deeply; the file was changed from outside") from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"the game {record['index']!r} has not the shape of a game ({type(error).__name__}: {error}); "
                "the file was changed from outside"
            ) from error
        order.append(record["index"])
        rows.append(_row(game, run.right[record["index"]]))
        chunk.append(game)
        if len(chunk) == CHUNK:
            yield f"{(len(rows) - 1) // CHUNK}.js", script("mugEval.chunk", {"at": (len(rows) - 1) // CHUNK, "games": chunk})
            chunk = []
    if chunk:
        yield f"{(len(rows) - 1) // CHUNK}.js", script("mugEval.chunk", {"at": (len(rows) - 1) // CHUNK, "games": chunk})
    others = [
        {"label": shown(other.label), "slug": other.slug, "right": "".join("01"[other.run.right[index]] for index in order)}
        for other in family.members
        if other is not member
    ]
    yield "list.js", script("mugEval.list", {"slug": member.slug, "chunk": CHUNK, "rows": rows, "others": others})


def _row(game: Mapping[str, Any], right: bool) -> list[Any]:
    """What the list, its filters and its search need: index, question, flags, type, edit, answer, words for the search."""
    flags = ("r" if right else "w") + ("u" if game["unparsed"] is not None else "")
    flags += {True: "f", False: "s", None: ""}[game["found"]]
    edit = game["edit"]
    about = " ".join(str(edit[name]) for name in ("edit", "target") if name in edit)
    return [game["index"], game["question"][:_EXCERPT], flags, game["category"], str(edit.get("edit", "")), _short(game), about]


def _short(game: Mapping[str, Any]) -> str:
    return "no answer" if game["answer"] is None else str(game["answer"])[:24]


def _game(member: Shown, record: Mapping[str, Any], book: PictureBook) -> dict[str, Any]:
    run, index = member.run, record["index"]
    row = run.rows[index]
    events = record.get("events") or []
    seats: Mapping[str, Any] = next((event for event in events if event.get("event") == "seats"), {})
    facts, usage = record.get("facts") or {}, record.get("usage") or {}
    edit = seats.get("edit") if isinstance(seats.get("edit"), dict) else {}
    pictures = book.pictures(run, index)
    if seats.get("holds") != "the altered picture":
        pictures = {**pictures, "altered": None, "boxes": []}
    answer = record["answer"]
    return {
        "index": index,
        "question": row.get("question") or "",
        "hint": row.get("hint") or "",
        "options": [[letter, row[letter]] for letter in _LETTERS if row.get(letter)],
        "category": row.get("category") or "",
        "gold": row.get("answer") or None,
        "answer": str(answer["value"]) if "value" in answer else None,
        "unparsed": str(answer.get("unparsed", "")) if "value" not in answer else None,
        "prediction": record.get("prediction"),
        "right": run.right[index],
        "ended": str(record.get("ended", "")).replace("_", " "),
        "found": bool(facts["undercover_found"]) if facts.get("undercover_played") and "undercover_found" in facts else None,
        "order": seats.get("order") or [],
        "seated": bool(seats),
        "undercover": seats.get("undercover"),
        "holds": seats.get("holds"),
        "edit": edit or {},
        **pictures,
        "events": [_event(event) for event in events if event.get("event") != "seats"],
        "calls": usage.get("calls"),
        "tokens": _tokens(usage),
        "seconds": usage.get("seconds"),
    }


def _tokens(usage: Mapping[str, Any]) -> int | None:
    """As ``statistics.cost.tokens`` has it for a run: prompt and completion, None where the backbone left some out."""
    if usage.get("calls_without_usage") or usage.get("prompt_tokens") is None or usage.get("completion_tokens") is None:
        return None
    return int(usage["prompt_tokens"]) + int(usage["completion_tokens"])


def _event(event: Mapping[str, Any]) -> dict[str, Any]:
    """An event under the heading that ``mug-eval show`` gives it; what a page has no form for is one line of text."""
    kind = str(event.get("event"))
    kept: dict[str, Any] = {"kind": kind, "heading": heading(event)}
    for name in ("seat", "text", "stance", "reason", "ratings", "vote", "votes", "eliminated", "tied"):
        if name in event:
            kept[name] = event[name]
    if "answer" in event:
        kept["answer"] = event["answer"]
    if event.get("asked_again"):
        kept["asked"] = True
    if kind == "transcript_dropped":
        kept["text"] = f"{event.get('call')} was not shown the oldest of the talk: the prompt was over the model's context"
    elif kind in ("fallback", "stop"):
        kept["text"] = str(event.get("reason", ""))
    elif kind not in ("vote", "elimination"):
        more = fields_line(event, (*_KNOWN, *_CARDS) if "text" in event else ("event", "seat"))
        if more:
            kept["more"] = more
    return kept
