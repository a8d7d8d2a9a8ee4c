"""What a planner is asked before a picture is edited: the question's type, what the picture holds, the edit (METHODS 1a, steps 1-3).

Each is one call about the question and its pictures, answered in JSON. The layout is that of every call: system, pictures and
question, then the task, so that all three share their prefix with the games about the same picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mug_eval.chat import Json, Message, Part
from mug_eval.methods.conversation import turn

QUESTION_TYPES = ("object", "quantity", "attribute", "spatial", "other")
"""The paper's types (its table of question types)."""
EDIT_KINDS = ("remove", "add", "replace", "recolour", "resize", "move", "retext", "mirror")
BoxUnits = Literal["pixels", "thousandths"]
"""How a backbone states boxes: in pixels of the picture as its processor resized it (Qwen2.5-VL), or 0..1000 (InternVL)."""
MOST_OBJECTS = 12
"""Objects that a scene graph lists at most."""

QUESTION_TYPE = (
    "Do not answer the question above; say what it is about. Choose object (is something there, who or what is it), quantity (how many), "
    "attribute (the colour, size, shape, material or state of something), spatial (where something is) or other (printed text, or "
    "anything else). If there are several pictures, say which of them the question turns on, counted from 1.\n"
    'Reply with JSON only, such as {"type": "object", "image": 1}.'
)
SCENE_GRAPH = (
    "Do not answer the question above; list what the picture shows{which}, what the question is about first, at most "
    f"{MOST_OBJECTS} things. Give each a name, what can be seen of it (colour, size, material, printed text) and its box as left, top, "
    "right, bottom {units}; then how they stand to each other, where that matters.\n"
    'Reply with JSON only, such as {{"objects": [{{"name": "cup", "attributes": ["red", "small"], "box": [40, 60, 90, 120]}}], '
    '"relations": [{{"subject": 0, "relation": "left of", "object": 1}}]}}.'
)
UNITS: dict[BoxUnits, str] = {"pixels": "in pixels", "thousandths": "in thousandths of the picture's width and height"}
PLAN = (
    "A copy of this picture{which} is to be made that differs from it in one fact, such that the answer to the question "
    "above is no longer the same. It holds:\n"
    "{things}\n"
    "\n"
    "The question's type: {type}. Choose one thing and the smallest edit of it that changes the answer: remove, add (one "
    "more), replace (by another thing), recolour, resize, move, retext (its printed text) or mirror (change places with "
    "another). Name the thing by its number (for a thing to be added that has no like here: null), what it becomes, its "
    "new box {units} where it is added or moved (else null), the instruction for whoever edits the picture, and the answer "
    "after the edit (null if that cannot be said).\n"
    'Reply with JSON only, such as {{"target": 0, "edit": "recolour", "to": "blue", "box": null, '
    '"instruction": "Make the red cup blue.", "answer": "blue"}}.'
)


def question_type_schema() -> Json:
    """The JSON schema of the first call's reply."""
    return {
        "type": "object",
        "properties": {"type": {"enum": list(QUESTION_TYPES)}, "image": {"type": "integer", "minimum": 1}},
        "required": ["type", "image"],
        "additionalProperties": False,
    }


def scene_graph_schema() -> Json:
    """The JSON schema of the second call's reply."""
    thing = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "attributes": {"type": "array", "items": {"type": "string"}},
            "box": {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
        },
        "required": ["name", "attributes", "box"],
        "additionalProperties": False,
    }
    relation = {
        "type": "object",
        "properties": {"subject": {"type": "integer"}, "relation": {"type": "string"}, "object": {"type": "integer"}},
        "required": ["subject", "relation", "object"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {
            "objects": {"type": "array", "items": thing, "maxItems": MOST_OBJECTS},
            "relations": {"type": "array", "items": relation},
        },
        "required": ["objects", "relations"],
        "additionalProperties": False,
    }


def plan_schema(things: int, inventive: bool = True) -> Json:
    """The JSON schema of the third call's reply.

    A server that holds a model to it spares the calls in which one names a thing that is not listed.

    Args:
        things: how many are listed.
        inventive: whether the editor can put a thing there that has no like in the picture (``Editor.inventive``).
    """
    numbers = list(range(things))
    anything = inventive or not numbers
    return {
        "type": "object",
        "properties": {
            "target": {
                "type": ["integer", "null"] if anything else "integer",
                "enum": [*numbers, None] if anything else numbers,
            },
            "edit": {"enum": list(EDIT_KINDS)},
            "to": {"type": "string"},
            "box": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4}]},
            "instruction": {"type": "string"},
            "answer": {"type": ["string", "null"]},
        },
        "required": ["target", "edit", "to", "box", "instruction", "answer"],
        "additionalProperties": False,
    }


def which_picture(position: int, count: int) -> str:
    """`` number 2`` where there are several pictures, else nothing.

    Args:
        position: of the picture, from 0.
        count: of pictures.
    """
    return f" number {position + 1}" if count > 1 else ""


def question_type_messages(prompt: Sequence[Part]) -> tuple[Message, ...]:
    """Ask for the question's type."""
    return turn(prompt, QUESTION_TYPE)


def scene_graph_messages(prompt: Sequence[Part], units: BoxUnits, which: str = "") -> tuple[Message, ...]:
    """Ask for what the picture holds.

    Args:
        prompt: pictures and question.
        units: of the boxes.
        which: from :func:`which_picture`.
    """
    return turn(prompt, SCENE_GRAPH.format(units=UNITS[units], which=which))


def plan_messages(
    prompt: Sequence[Part], kind: str, things: Sequence[str], units: BoxUnits, which: str = ""
) -> tuple[Message, ...]:
    """Ask for the edit.

    Args:
        prompt: pictures and question.
        kind: the question's type.
        things: one line for each object of the scene graph, without its number.
        units: of the boxes.
        which: from :func:`which_picture`.
    """
    listed = "\n".join(f"{number}: {thing}" for number, thing in enumerate(things)) or "(nothing that could be named)"
    return turn(prompt, PLAN.format(which=which, things=listed, type=kind, units=UNITS[units]))


def thing_line(name: str, attributes: Sequence[str], box: Sequence[float]) -> str:
    """One object of a scene graph as a line of the plan's prompt, ``star (small, red) at [28, 56, 56, 84]``."""
    seen = f" ({', '.join(attributes)})" if attributes else ""
    return f"{name}{seen} at [{', '.join(f'{edge:g}' for edge in box)}]"
