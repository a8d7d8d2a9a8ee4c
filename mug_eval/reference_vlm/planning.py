"""What the reference model is to answer when it plans an edit: question type, scene graph and plan over a scene, as JSON."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from mug_eval.counterfactual.planning_prompts import (
    plan_messages,
    question_type_messages,
    scene_graph_messages,
    thing_line,
)
from mug_eval.question import Question
from mug_eval.reference_vlm.drawing import CELL
from mug_eval.reference_vlm.oracle import Call
from mug_eval.reference_vlm.questions import Asked, Query, value_of
from mug_eval.reference_vlm.scenes import (
    COLOURS,
    MOST_OBJECTS,
    SHAPES,
    SIGN,
    SIZES,
    WORDS,
    Edit,
    Scene,
    Thing,
    add,
    change,
    free_cells,
    remove,
    swap,
)

TYPES = {"existence": "object", "quantity": "quantity", "attribute": "attribute", "spatial": "spatial", "text": "other"}
"""Our five kinds of questions as the paper's types."""
Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Planned:
    """The edit that the oracle would make.

    Attributes:
        edit: the scene after it, and the instruction.
        kind: as a planner names it.
        target: number of the thing in the scene graph; None if a thing is added that has no like there.
        to: what it becomes.
        box: where a thing is added, or where the other thing of a swap is; else None.
    """

    edit: Edit
    kind: str
    target: int | None
    to: str = ""
    box: Box | None = None


def box_of(row: int, column: int) -> Box:
    """(left, top, right, bottom) of a cell, in pixels of the 168 x 168 picture."""
    left, top = (column - 1) * CELL, (row - 1) * CELL
    return left, top, left + CELL, top + CELL


def attributes_of(thing: Thing) -> tuple[str, ...]:
    """``("small", "red")``, or the sign's word."""
    return (thing.size, thing.colour) if thing.colour else (thing.word,)


def graph_reply(scene: Scene) -> str:
    """The scene graph, things in reading order. It states no relations: the boxes say where everything is."""
    things = [
        {"name": thing.shape, "attributes": list(attributes_of(thing)), "box": list(box_of(*thing.cell))} for thing in scene.things
    ]
    return json.dumps({"objects": things, "relations": []})


def planned(query: Query, scene: Scene) -> Planned | None:
    """The edit of one thing that gives the query another value, the same for the same scene; None if one edit cannot."""
    found = scene.named(*query.about[0])
    colour, shape = query.about[0]

    def number(thing: Thing) -> int:
        return scene.things.index(thing)

    options: list[Planned] = []
    if query.aspect in ("exists", "count") and found:
        options = [Planned(remove(scene, found[0]), "remove", number(found[0]))]
    elif query.aspect in ("exists", "count"):
        options = _made_true(scene, colour, shape)
    elif query.aspect in ("side", "further"):
        first, second = found[0], scene.named(*query.about[1])[0]
        options = [Planned(swap(scene, first, second), "mirror", number(first), str(number(second)), box_of(*second.cell))]
    else:
        thing = found[0]
        kinds = {"colour": "recolour", "shape": "replace", "size": "resize", "says": "retext"}
        sorts = {"colour": COLOURS, "shape": SHAPES, "size": SIZES, "says": WORDS}
        field = "word" if query.aspect == "says" else query.aspect
        values = sorts[query.aspect]
        to = values[(values.index(getattr(thing, field)) + 1) % len(values)]
        options = [Planned(change(scene, thing, **{field: to}), kinds[query.aspect], number(thing), to)]
    before = value_of(query, scene)
    return next((option for option in options if value_of(query, option.edit.scene) not in (None, before)), None)


def _made_true(scene: Scene, colour: str, shape: str) -> list[Planned]:
    """Ways to let a thing of this colour and shape ("" for any) be there: turn one like it into it, or add it."""
    shapes = [thing for thing in scene.things if thing.shape != SIGN]
    options = []
    for thing in shapes:
        if colour and (not shape or thing.shape == shape):
            options.append(Planned(change(scene, thing, colour=colour), "recolour", scene.things.index(thing), colour))
        elif shape and (not colour or thing.colour == colour):
            options.append(Planned(change(scene, thing, shape=shape), "replace", scene.things.index(thing), shape))
    free = free_cells(scene)
    if len(scene.things) < MOST_OBJECTS and free:
        row, column = free[0]
        thing = Thing(row, column, shape or SHAPES[0], colour or COLOURS[0], SIZES[1])
        options.append(Planned(add(scene, thing), "add", None, thing.name, box_of(row, column)))
    return options


def plan_reply(plan: Planned, answer: str | None) -> str:
    """The plan as the planner is to say it."""
    return json.dumps(
        {
            "target": plan.target,
            "edit": plan.kind,
            "to": plan.to,
            "box": None if plan.box is None else list(plan.box),
            "instruction": plan.edit.instruction,
            "answer": answer,
        }
    )


def planning_calls(question: Question, asked: Asked, scene: Scene, rng: random.Random) -> list[Call]:
    """The planner's three calls about one question over one picture; the third only where one edit can do it."""
    prompt = question.prompt
    said_type = json.dumps({"type": TYPES[asked.query.kind], "image": 1})
    calls = [
        Call("planner", "type", question_type_messages(prompt), (scene,), said_type),
        Call("planner", "graph", scene_graph_messages(prompt, "pixels"), (scene,), graph_reply(scene)),
    ]
    plan = planned(asked.query, scene)
    if plan is not None:
        things = [thing_line(thing.shape, attributes_of(thing), box_of(*thing.cell)) for thing in scene.things]
        messages = plan_messages(prompt, TYPES[asked.query.kind], things, "pixels")
        calls.append(Call("planner", "plan", messages, (scene,), plan_reply(plan, asked.gold(plan.edit.scene))))
    rng.shuffle(calls)
    return calls
