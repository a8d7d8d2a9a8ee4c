"""A planner that repeats the prompt's example has seen nothing: it is asked without one, and no edit is made of what nobody saw."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scene_planner import ScenePlanner, build, lines, rows, table_of
from servers import ChatServer

from mug_eval.counterfactual.examples import is_example_edit, is_example_object, without_example
from mug_eval.counterfactual.planning_prompts import plan_messages, scene_graph_messages

CUP = {"name": "cup", "attributes": ["red", "small"], "box": [40, 60, 90, 120]}
ECHOED_GRAPH = json.dumps({"objects": [CUP], "relations": [{"subject": 0, "relation": "left of", "object": 1}]})
ECHOED_PLAN = json.dumps(
    {"target": 0, "edit": "recolour", "to": "blue", "box": None, "instruction": "Make the red cup blue.", "answer": "blue"}
)


def _words(body: dict[str, Any]) -> str:
    return "\n".join(part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text")


def test_the_examples_are_the_prompts_own() -> None:
    assert is_example_object(CUP) and not is_example_object({**CUP, "box": [41, 60, 90, 120]})
    assert is_example_edit("Make the green cup green.", "dog") and not is_example_edit("Make the green dog green.", "dog")
    assert is_example_edit("Make the red cup blue.", "dog") and not is_example_edit("Make the red cup blue.", "red Cup")


def test_without_its_example_a_request_is_whole_and_the_question_untouched() -> None:
    question = 'Which reply is right, such as {"a": 1}.'
    for messages in (
        scene_graph_messages([question], "pixels"),
        plan_messages([question], "object", ["dog at [1, 2, 3, 4]"], "pixels"),
    ):
        bare = without_example(messages)
        assert question in bare[-1].text and "cup" in messages[-1].text and "cup" not in bare[-1].text
        assert bare[-1].text.endswith("Reply with JSON only.") and bare[:-1] == messages[:-1]


@pytest.mark.parametrize(("task", "echo"), [("graph", ECHOED_GRAPH), ("plan", ECHOED_PLAN)])
def test_a_planner_that_repeats_the_example_is_asked_without_it_and_then_believed(task: str, echo: str, tmp_path: Path) -> None:
    found = rows(1, ("quantity",))
    bodies: list[dict[str, Any]] = []

    def instead(row: Any, what: str, body: dict[str, Any]) -> str | None:
        if what == task:
            bodies.append(body)
        return echo if what == task and "cup" in _words(body) else None

    planner = ScenePlanner(found, instead=instead)
    with ChatServer(planner) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    assert len(bodies) == 2 and "cup" in _words(bodies[0]) and "cup" not in _words(bodies[1])
    (accepted,) = lines(tmp_path / "store" / "manifest.jsonl")
    assert "cup" not in accepted["target"]


@pytest.mark.parametrize(("task", "echo", "cause"), [("graph", ECHOED_GRAPH, "no_graph"), ("plan", ECHOED_PLAN, "no_plan")])
def test_a_planner_that_repeats_it_again_makes_no_picture(task: str, echo: str, cause: str, tmp_path: Path) -> None:
    found = rows(1, ("quantity",))
    planner = ScenePlanner(found, instead=lambda row, what, body: echo if what == task else None)
    with ChatServer(planner) as server:
        assert build(server, table_of(tmp_path / "t.tsv", found), tmp_path / "store") == 0
    (line,) = lines(tmp_path / "store" / "given_up.jsonl")
    assert line["cause"] == cause and "repeats the example" in line["reason"] and not lines(tmp_path / "store" / "manifest.jsonl")
