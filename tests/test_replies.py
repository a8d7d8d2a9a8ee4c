"""What of a reply was said aloud, and the JSON object in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mug_eval.answers import parse_object, spoken


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("B", "B"),
        ("", ""),
        ("<think>why</think>B", "B"),
        ("Well. <think>why</think> B", "Well.  B"),
        ("<thinking>why</thinking>\n\nB", "B"),
        ("<reasoning>why</reasoning>B", "B"),
        ("<thought>why</thought>B", "B"),
        ("<THINK>why</Think>B", "B"),
        ("< think >why</ think >B", "B"),
        ('<think time="3">why</think>B', "B"),
        ("◁think▷why◁/think▷B", "B"),
        ("<think>cut off", ""),
        ("B<think>cut off", "B"),
        ("why</think>B", "B"),
        ("<think></think>B", "B"),
        ("<think>a</think>B<think>c</think>D", "BD"),
        ("<think>a<think>b</think>c</think>B", "B"),
        ("<think>a<thinking>b</think>B", "B"),
        ("a</think>b</think>B", "B"),
        ("I think B, thinking of <b>it</b>", "I think B, thinking of <b>it</b>"),
        ("<thinker>B</thinker>", "<thinker>B</thinker>"),
        ("x < think of it > y", "x < think of it > y"),
    ],
)
def test_private_thinking_is_not_spoken(text: str, said: str) -> None:
    assert spoken(text) == said


@settings(deadline=None)
@given(
    st.lists(st.sampled_from(["<think>", "</think>", "secret", "B", " ", "<thinking>", "</reasoning>"]), max_size=12).map("".join)
)
def test_nothing_within_think_tags_is_ever_spoken(middle: str) -> None:
    assert "TOLD" not in spoken(f"{middle}<think>TOLD</think>{middle}")
    assert "TOLD" not in spoken(f"TOLD</think>{middle}")
    assert spoken(f"{middle}</think>B").endswith("B")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"vote": "Agent 2"}', {"vote": "Agent 2"}),
        ('  {"a": 1, "b": [1, {"c": null}]}  ', {"a": 1, "b": [1, {"c": None}]}),
        ('```json\n{"vote": 2}\n```', {"vote": 2}),
        ('```\n{"vote": 2}\n```\nThat is my vote.', {"vote": 2}),
        ('My vote: {"vote": 2}. Thanks {all}!', {"vote": 2}),
        ('{"vote": 1} no, rather {"vote": 2}', {"vote": 2}),
        ('{"outer": {"vote": 2}}', {"outer": {"vote": 2}}),
        ('{"why": "a } brace and a { brace", "vote": 2}', {"why": "a } brace and a { brace", "vote": 2}),
        ('{"why": "she said \\"B\\"", "vote": 2}', {"why": 'she said "B"', "vote": 2}),
        ('[{"vote": 1}, {"vote": 2}]', {"vote": 2}),
        ('<think>{"vote": 1}</think>{"vote": 2}', {"vote": 2}),
        ('{"vote": 2}<think>{"vote": 1}', {"vote": 2}),
        ("{'vote': 'Agent 2'}", {"vote": "Agent 2"}),
        ("{'vote': 2, 'sure': True}", {"vote": 2, "sure": True}),
        ("{vote: 2}", {"vote": 2}),
        ('{"vote": 2,}', {"vote": 2}),
        ('{"vote": 2 "why": "x"}', {"vote": 2, "why": "x"}),
        ('{"vote": 2, // the second\n "why": "x"}', {"vote": 2, "why": "x"}),
        ('{"why": "one line\nanother", "vote": 2}', {"why": "one line\nanother", "vote": 2}),
        ('I write {curly, 5" wide, and {"vote": 2}', {"vote": 2}),
        ('A 5" screen. {"vote": 2}', {"vote": 2}),
        ('{"vote": 2} {}', {"vote": 2}),
        ("{}", {}),
    ],
)
def test_the_last_object_is_read(text: str, expected: dict[str, Any]) -> None:
    assert parse_object(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "no object", "[1, 2]", '"text"', "{", "}", "}{", "{agent}", "{{}}", "{ }{", '<think>{"vote": 2}', "1", "null", "{:}"],
)
def test_where_there_is_no_object_there_is_none(text: str) -> None:
    assert not parse_object(text)


def test_an_object_is_read_and_never_run() -> None:
    found = parse_object("{'vote': __import__('os').getcwd()}")
    assert found is None or "/" not in str(found.get("vote"))


@pytest.mark.parametrize(
    "text",
    [
        '{"vote": 2, "factors": {"a": 1',
        '{"vote": 2, "factors": {"a": 1}',
        '{"a": {"b": 1}, "vote": ',
        "{'vote': 2, 'why': 'cut",
        '```json\n{"vote": 1',
        '{"vote": 1} no, rather {"vote": 2',
    ],
)
def test_an_object_that_the_text_ends_in_is_none(text: str) -> None:
    assert parse_object(text) is None


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_does_not_become_one(number: str) -> None:
    found = parse_object(f'{{"score": {number}}}')
    assert found is None or not isinstance(found["score"], float)


HARD = {
    "opening braces": "{" * 1_000_000,
    "closing braces": "}" * 1_000_000,
    "opening brackets": "[" * 1_000_000,
    "brackets in an object": '{"a": ' + "[" * 1_000_000,
    "closed brackets in an object": '{"a": ' + "[" * 500_000 + "]" * 500_000 + "}",
    "closed braces": "{" * 500_000 + "}" * 500_000,
    "nested objects": '{"a":' * 150_000 + "1" + "}" * 150_000,
    "unclosed objects": '{"a":' * 200_000,
    "pairs": "{}" * 500_000,
    "broken pairs": "{a}" * 300_000,
    "quotes": '"' * 1_000_000,
    "quotes in an object": '{"' + '"' * 1_000_000 + "}",
    "backslashes": '{"a": "' + "\\" * 1_000_000,
    "digits": '{"a": ' + "1" * 1_000_000 + "}",
    "cut off strings": '{"a": "b" ' * 100_000,
    "commas": "{" + "," * 1_000_000 + "}",
    "short brackets": '{"a": ' + "[" * 19_000,
    "short mixed": '{"a": ' + '[{"a":' * 2_000,
    "short quotes": "{'a': " + "'" * 19_000,
    "short rubbish": '{"a" ' + ": , ] " * 3_000,
    "short strings": '{"a ' * 4_000,
    "short colons": "{'" + ":" * 19_000,
    "short comments": "{ " + "/*" * 9_000,
    "thinking": "<think>" * 150_000,
}


@pytest.mark.parametrize("text", HARD.values(), ids=HARD.keys())
def test_a_megabyte_of_anything_is_survived(text: str) -> None:
    # Where this exhausts the stack or goes on in the square of the length, the test crashes or does not come to its end.
    parse_object(text)


@pytest.mark.parametrize("name", ["opening braces", "closing braces", "pairs", "broken pairs", "opening brackets"])
def test_an_object_behind_rubbish_is_found(name: str) -> None:
    assert parse_object(HARD[name] + ' {"vote": 2}') == {"vote": 2}


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=80), st.text(alphabet="{}[]\":,\\ '\n1aTrue", max_size=60)))
def test_no_text_makes_it_fail(text: str) -> None:
    found = parse_object(text)
    assert found is None or isinstance(found, dict)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=10)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=5), VALUES, max_size=4))
def test_any_json_object_is_read_back_from_within_prose(value: dict[str, Any]) -> None:
    for ascii_only in (True, False):
        text = json.dumps(value, ensure_ascii=ascii_only)
        if "think" not in text:
            assert parse_object(f"I considered it.\n```json\n{text}\n```\nDone.") == value
