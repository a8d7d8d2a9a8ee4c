"""A game as text: everything that happened is there, in order, and nothing that a model wrote can drive the terminal."""

from __future__ import annotations

from typing import Any

import pytest

from mug_eval.show import game_text, misshapen, printable


def call(name: str, key: str = "k", text: str = "words") -> dict[str, Any]:
    return {
        "call": name,
        "key": key,
        "text": text,
        "finish_reason": "stop",
        "prompt_tokens": 310,
        "completion_tokens": None,
        "images": 1,
        "seconds": 1.25,
    }


def rating(*scores: float) -> dict[str, float]:
    return dict(zip(("inconsistency", "deviation", "inaccuracy", "suspicion"), scores, strict=True))


def game(**changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "index": "17",
        "prediction": "No",
        "answer": {"value": "No"},
        "raw": "Answer: No",
        "ended": "undercover_survived",
        "facts": {"undercover_found": False, "found_round": None},
        "events": [
            {"event": "seats", "order": ["Agent 1", "Agent 2", "Agent 3"], "undercover": "Agent 3"},
            {"event": "statement", "round": 1, "phase": "observe", "seat": "Agent 1", "text": "I see a dog.", "answer": "Yes"},
            {"event": "statement", "round": 1, "phase": "observe", "seat": "Agent 3", "text": "A lawn.", "answer": None},
            {
                "event": "vote",
                "round": 2,
                "seat": "Agent 1",
                "vote": "Agent 2",
                "ratings": {"Agent 2": rating(7, 3.5, 2, 4), "Agent 3": rating(1, 1, 1, 1)},
                "reason": "",
            },
            {"event": "vote", "round": 2, "seat": "Agent 3", "vote": None, "ratings": None, "reason": "no JSON object"},
            {"event": "elimination", "round": 2, "votes": {"Agent 2": 1}, "eliminated": "Agent 2", "tied": []},
            {"event": "answer", "seat": "writer", "text": "There is no dog.", "answer": "No", "asked_again": True},
        ],
        "calls": [call("Agent 1#0", "a"), call("Agent 1#1", "b")],
        "usage": {"calls": 2, "prompt_tokens": 620},
    }
    return record | changes


def in_order(text: str, *pieces: str) -> bool:
    place = 0
    for piece in pieces:
        place = text.find(piece, place)
        if place < 0:
            raise AssertionError(f"{piece!r} is not there (in this order) in:\n{text}")
        place += len(piece)
    return True


def test_a_game_reads_from_the_seats_to_the_answer() -> None:
    text = game_text(game(), title="mug-qwen on POPE")
    assert in_order(
        text,
        "mug-qwen on POPE, question 17",
        "ended: undercover_survived",
        "answer: No",
        "Agent 1, Agent 2, Agent 3 (the undercover)",
        "Round 1, observation",
        "Agent 1 [answer Yes]",
        "I see a dog.",
        "Agent 3 [no answer read]",
        "A lawn.",
        "Round 2, vote",
        "Agent 3 abstains: no JSON object",
        "Votes: Agent 2 1. Agent 2 is voted out: it was not the undercover.",
        "writer [answer No; asked again]",
        "There is no dog.",
        "Agent 1#0",
        "calls=2",
        "undercover_found=no, found_round=none",
    )


def test_ratings_stand_in_a_table_with_the_vote_marked() -> None:
    lines = game_text(game()).splitlines()
    head = next(line for line in lines if "voter" in line)
    assert head.split() == ["voter", "rates", "inconsistency", "deviation", "inaccuracy", "suspicion", "vote"]
    first, second = lines[lines.index(head) + 1 : lines.index(head) + 3]
    assert first.split() == ["Agent", "1", "Agent", "2", "7", "3.5", "2", "4", "<-"]
    assert second.split() == ["Agent", "3", "1", "1", "1", "1"]
    # Numbers end where the names of their columns end.
    assert first.index("3.5") + 3 == head.index("deviation") + len("deviation")


def test_it_says_who_was_the_undercover_only_where_there_was_one() -> None:
    events = [
        {"event": "seats", "order": ["Agent 1", "Agent 2"], "undercover": None},
        {"event": "elimination", "round": 1, "votes": {}, "eliminated": None},
        {
            "event": "elimination",
            "round": 2,
            "votes": {"Agent 1": 1, "Agent 2": 1},
            "eliminated": "Agent 1",
            "tied": ["Agent 1", "Agent 2"],
        },
    ]
    text = game_text(game(events=events))
    assert "nobody is the undercover" in text
    assert "Votes: none. Nobody is voted out." in text
    assert "Agent 1 is voted out. (drawn among the tied: Agent 1, Agent 2)" in text
    assert "it was" not in text


def test_the_undercover_voted_out_is_said() -> None:
    events = [
        {"event": "seats", "order": ["Agent 1", "Agent 2"], "undercover": "Agent 2"},
        {"event": "elimination", "round": 1, "votes": {"Agent 2": 1}, "eliminated": "Agent 2"},
    ]
    assert "Agent 2 is voted out: it was the undercover." in game_text(game(events=events))


def test_an_event_it_does_not_know_is_shown_with_all_its_fields() -> None:
    events = [{"event": "sortition", "lots": [3, 1], "odds": {"Yes": 0.5}, "open": True, "seed": None}]
    assert "sortition: lots=[3, 1], odds={Yes: 0.5}, open=yes, seed=none" in game_text(game(events=events))


def test_stances_of_a_debate_are_told_apart() -> None:
    events = [
        {"event": "argument", "stance": "B", "round": 0, "text": "It is B."},
        {"event": "critique", "stance": "B", "round": 1, "text": "It is not."},
        {"event": "rebuttal", "stance": "B", "round": 1, "text": "It is."},
        {"event": "judgement", "text": "So be it.", "answer": "B", "order": ["B", "A"]},
    ]
    assert in_order(
        game_text(game(events=events)),
        "Arguments",
        "for B",
        "Critiques, round 1",
        "against B",
        "Rebuttals, round 1",
        "for B",
        "Judgement",
        "[answer B]  order=[B, A]",
        "So be it.",
    )


def test_it_says_who_was_not_shown_all_of_the_talk() -> None:
    events = [
        {"event": "transcript_dropped", "seat": "Agent 2", "call": "Agent 2#3", "rounds": 1},
        {"event": "transcript_dropped", "seat": "judge", "call": "judge#1", "rounds": 2},
        {"event": "judgement", "text": "Well.", "answer": "Yes"},
    ]
    text = game_text(game(events=events), width=200)
    assert in_order(
        text,
        "Note",
        "Agent 2#3 was not shown the oldest round of the talk: the prompt was over the model's context",
        "judge#1 was not shown the 2 oldest rounds of the talk",
        "Judgement",
    )


def test_a_game_without_an_answer_says_why() -> None:
    assert "answer: none (two options named)" in game_text(game(answer={"unparsed": "two options named"}))


MESSAGES = [
    {"role": "system", "parts": ["You answer."]},
    {
        "role": "user",
        "parts": [
            {"image": "ab" * 32, "media_type": "image/jpeg", "width": 448, "height": 336},
            "Is there a dog?",
            "\n\nRules of the game.",
        ],
    },
]


def test_the_question_is_taken_from_the_first_call_without_what_the_method_added() -> None:
    text = game_text(game(), read={"a": MESSAGES}.get)
    assert in_order(text, "Question\n", "[picture 448x336, sha256 abababababab]", "Is there a dog?", "Seats")
    assert "Rules of the game." not in text
    assert "Is there a dog?" not in game_text(game(), read={"b": MESSAGES}.get)


def test_prompts_shows_every_message_of_every_call_as_it_was_sent() -> None:
    text = game_text(game(), read={"a": MESSAGES}.get, prompts=True)
    assert in_order(
        text, "Call Agent 1#0", "You answer.", "Is there a dog?", "Rules of the game.", "reply:", "words", "Call Agent 1#1"
    )
    assert "(not in the journal)" in text


def test_a_models_words_cannot_drive_the_terminal() -> None:
    evil = "\x1b]0;title\x07\x1b[2J red\r over \x9b31m \u202eoverride\u202c \u2066x\u2069 \x00\x7f \udc80 \U000e0041 \u2028"
    record = game(
        prediction=evil,
        ended=evil,
        index=evil,
        answer={"value": evil},
        facts={evil: evil},
        usage={evil: 1},
        events=[
            {"event": "answer", "seat": evil, "text": evil, "answer": evil},
            {"event": evil, "field": evil, evil: [evil]},
            {"event": "vote", "round": evil, "seat": evil, "vote": evil, "ratings": {evil: {evil: 1}}, "reason": evil},
        ],
        calls=[call(evil, evil, evil)],
    )
    messages = [{"role": evil, "parts": [evil, {"image": evil, "width": evil, "height": evil}]}]
    text = game_text(record, title=evil, read=lambda key: messages, prompts=True)
    assert not set(text) & set("\x1b\x07\x9b\r\x00\x7f\u202e\u202c\u2066\u2069\u2028\udc80\U000e0041")
    assert "\\x1b[2J red" in text
    text.encode()  # no lone surrogate is left, so that it can be printed


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"calls": "none"}, "calls"),
        ({"calls": ["Agent 1#0"]}, "calls"),
        ({"usage": [1]}, "usage"),
        ({"usage": "much"}, "usage"),
        ({"facts": [True]}, "facts"),
        ({"events": {"event": "seats"}}, "events"),
        ({"events": [None]}, "events"),
        ({"events": [{"event": "seats", "order": 3}]}, "an event's order"),
        ({"events": [{"event": "vote", "ratings": ["Agent 1"]}]}, "an event's ratings"),
        ({"events": [{"event": "vote", "ratings": {"Agent 1": 5}}]}, "an event's ratings"),
        ({"events": [{"event": "elimination", "votes": ["Agent 1"]}]}, "an event's votes"),
        ({"events": [{"event": "elimination", "tied": 2, "eliminated": "Agent 1"}]}, "an event's tied"),
    ],
)
def test_a_record_of_another_shape_is_told_from_a_game(changes: dict[str, Any], said: str) -> None:
    assert misshapen(game(**changes)) == said


@pytest.mark.parametrize("changes", [{}, {"calls": [], "usage": {}, "facts": {}, "events": []}, {"calls": None, "usage": None}])
def test_what_has_the_shape_of_a_game_is_printed(changes: dict[str, Any]) -> None:
    assert misshapen(game(**changes)) == ""
    assert "question 17" in game_text(game(**changes))


def test_ordinary_text_stays_as_it_is() -> None:
    text = "naïve 犬 👩‍🚀 \t$B$ — “quoted”\nnext"
    assert printable(text) == text
    assert printable("a\r\nb") == "a\nb"


def test_long_words_are_wrapped_and_indents_kept() -> None:
    words = "word " * 60 + "\n    indented\n\nlast " + "x" * 300
    text = game_text(game(events=[{"event": "answer", "seat": "solver", "text": words, "answer": None}]), width=60)
    assert max(len(line) for line in text.splitlines() if "tokens" not in line and "#" not in line) <= 60
    assert "          indented\n\n      last" in text
    assert text.count("x") >= 300
