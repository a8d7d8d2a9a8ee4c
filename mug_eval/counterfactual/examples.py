"""The examples in the planning prompts, and planners that repeat them: a cup that nobody saw must not be edited.

Small models give back the example of the prompt whatever the picture shows, and give it back again when told so. Asked without the
example, and held to the schema, the same model may well say what it sees; so that is how it is asked the second time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from mug_eval.chat import Json, Message
from mug_eval.counterfactual.planning_prompts import PLAN, SCENE_GRAPH

REPEATED: Final = "it repeats the example of the request"

_BEFORE: Final = ", such as "
_TAILS: Final = tuple(
    _BEFORE + prompt.rpartition(_BEFORE)[2]
    for prompt in (SCENE_GRAPH.format(which="", units=""), PLAN.format(which="", things="", type="", units=""))
)
_MOST_OBJECTS, _MOST_ATTRIBUTES, _MOST_RELATIONS = 6, 3, 4
"""Of a scene graph asked for without an example: a model that is held to the schema alone does not know when it is enough."""


def _example(tail: str) -> Any:
    return json.loads(tail.removeprefix(_BEFORE).rstrip("."))


_OBJECTS: Final = _example(_TAILS[0])["objects"]
_ABOUT_THE_CUP: Final = re.compile(
    re.sub(r"\b(?:red|blue)\b", r"\\w+", re.escape(_example(_TAILS[1])["instruction"]).replace("\\ ", " "))
)


def is_example_object(entry: Any) -> bool:
    """Whether an object of a scene graph is the prompt's, name, attributes and box."""
    return entry in _OBJECTS


def is_example_edit(instruction: str, target: str) -> bool:
    """Whether an instruction is the prompt's, its colours perhaps changed, and the edit is of something else.

    Args:
        instruction: the planner's.
        target: the name of the thing that it edits.
    """
    return bool(_ABOUT_THE_CUP.fullmatch(instruction)) and "cup" not in target.lower()


def without_example(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The conversation, in which no request ends in an example."""
    return tuple(
        replace(message, parts=tuple(_bare(part) if isinstance(part, str) else part for part in message.parts))
        for message in messages
    )


def _bare(words: str) -> str:
    for tail in _TAILS:
        if words.endswith(tail):
            return words.removesuffix(tail) + "."
    return words


def fewer(schema: Json) -> Json:
    """The scene graph's schema with an end to each list."""
    properties = schema["properties"]
    thing = properties["objects"]["items"]
    attributes = {**thing["properties"]["attributes"], "maxItems": _MOST_ATTRIBUTES}
    thing = {**thing, "properties": {**thing["properties"], "attributes": attributes}}
    return {
        **schema,
        "properties": {
            **properties,
            "objects": {**properties["objects"], "items": thing, "maxItems": _MOST_OBJECTS},
            "relations": {**properties["relations"], "maxItems": _MOST_RELATIONS},
        },
    }
