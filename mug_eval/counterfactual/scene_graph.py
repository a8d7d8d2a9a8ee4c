"""What a picture holds, as a planner said it and as it was found to be possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mug_eval.answers import parse_object
from mug_eval.counterfactual.boxes import Frame, Size
from mug_eval.counterfactual.examples import REPEATED, is_example_object
from mug_eval.counterfactual.plan import Box
from mug_eval.counterfactual.planning_prompts import MOST_OBJECTS, thing_line

_MOST_COMPLAINTS = 4
_LONGEST_NAME = 200
"""Characters."""


@dataclass(frozen=True, slots=True)
class Thing:
    """One object.

    Attributes:
        name: ``cup``.
        attributes: what can be seen of it.
        box: where it is, in pixels of the picture.
    """

    name: str
    attributes: tuple[str, ...]
    box: Box

    def line(self, frame: Frame, size: Size) -> str:
        """The thing as the plan's prompt lists it, its box in the planner's own units."""
        return thing_line(self.name, self.attributes, frame.as_said(self.box, size))


@dataclass(frozen=True, slots=True)
class SceneGraph:
    """The objects of a picture and how they stand to each other.

    Attributes:
        things: those whose boxes can be.
        relations: (number of one thing, relation, number of another).
    """

    things: tuple[Thing, ...]
    relations: tuple[tuple[int, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ReadGraph:
    """A reply as a scene graph.

    Attributes:
        graph: of what could be used; None if the reply is no scene graph at all.
        wrong: what could not be used, in words for whoever is asked again.
    """

    graph: SceneGraph | None
    wrong: tuple[str, ...] = ()


def read_graph(text: str, frame: Frame, size: Size) -> ReadGraph:
    """Read a planner's reply.

    Things without a name, with a box that cannot be, or repeated from the prompt's example are left out, and relations that name them.

    Args:
        text: the reply.
        frame: in which its boxes are stated.
        size: of the picture.
    """
    found = parse_object(text)
    if found is None:
        return ReadGraph(None, ("no JSON object could be read",))
    listed = found.get("objects")
    if not isinstance(listed, list):
        return ReadGraph(None, ('the JSON has no list "objects"',))
    if listed and all(is_example_object(entry) for entry in listed):
        return ReadGraph(None, (REPEATED,))
    things: list[Thing] = []
    numbers: dict[int, int] = {}
    wrong: list[str] = []
    for number, entry in enumerate(listed[:MOST_OBJECTS]):
        try:
            if is_example_object(entry):
                raise ValueError("it is the example's, not this picture's")
            thing = _thing(entry, frame, size)
        except ValueError as error:
            wrong.append(f"object {number}: {error}")
            continue
        numbers[number] = len(things)
        things.append(thing)
    return ReadGraph(SceneGraph(tuple(things), _relations(found.get("relations"), numbers)), _short(wrong))


def _thing(entry: Any, frame: Frame, size: Size) -> Thing:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or not entry["name"].strip():
        raise ValueError("it has no name")
    if len(entry["name"]) > _LONGEST_NAME:
        raise ValueError(f"its name is {len(entry['name'])} characters long")
    attributes = entry.get("attributes") or []
    if not isinstance(attributes, list):
        attributes = [attributes]
    words = tuple(" ".join(str(word).split()) for word in attributes if isinstance(word, str | int | float) and str(word).strip())
    return Thing(" ".join(entry["name"].split()), words, frame.in_picture(numbers_of(entry.get("box")), size))


def numbers_of(value: Any) -> list[float]:
    """A box's numbers as JSON holds them.

    Raises:
        ValueError: it is no list of four numbers.
    """
    numbers = isinstance(value, list) and all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in value)
    if not numbers or len(value) != 4:
        raise ValueError("its box is not a list of four numbers")
    try:
        return [float(edge) for edge in value]
    except OverflowError as error:  # JSON's whole numbers have no end
        raise ValueError("its box holds a number of more than 300 digits") from error


def _relations(value: Any, numbers: Mapping[int, int]) -> tuple[tuple[int, str, int], ...]:
    relations = []
    for entry in value if isinstance(value, list) else []:
        if isinstance(entry, Mapping) and isinstance(entry.get("relation"), str):
            subject, other = entry.get("subject"), entry.get("object")
            if isinstance(subject, int) and isinstance(other, int) and subject in numbers and other in numbers:
                relations.append((numbers[subject], " ".join(entry["relation"].split()), numbers[other]))
    return tuple(relations)


def _short(wrong: list[str]) -> tuple[str, ...]:
    if len(wrong) <= _MOST_COMPLAINTS:
        return tuple(wrong)
    return (*wrong[:_MOST_COMPLAINTS], f"and {len(wrong) - _MOST_COMPLAINTS} more")
