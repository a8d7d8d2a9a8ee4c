"""Edits of what a question is not about, for ``--ablation random-edit``: is it the counterfactual that helps, or any difference?"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from mug_eval.counterfactual.plan import EditKind, EditPlan
from mug_eval.counterfactual.planner import Chosen, NoPlan, Survey
from mug_eval.counterfactual.question_types import question_words
from mug_eval.question import Question

_COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "brown", "pink")


def unrelated_plans(question: Question, known: Survey, rng: random.Random) -> Iterator[Chosen]:
    """Removals and recolours of things of which question and options name neither the name nor a property, in an order drawn by ``rng``.

    Args:
        question: what is asked.
        known: the scene graph.
        rng: draws the order and the colours.

    Raises:
        NoPlan: the question names everything that there is, or everything that there is was tried.
    """
    asked = " ".join([question_words(question), *(text for _, text in question.answer_format.options)])
    named = _forms(asked)
    free = [
        number
        for number, thing in enumerate(known.graph.things)
        if not named & _forms(f"{thing.name} {' '.join(thing.attributes)}")
    ]
    kinds: tuple[EditKind, ...] = ("recolour",) if known.type.kind == "quantity" else ("remove", "recolour")  # "how many objects"
    edits = [(number, kind) for number in free for kind in kinds]
    rng.shuffle(edits)
    for number, kind in edits:
        thing = known.graph.things[number]
        if kind == "remove":
            yield Chosen(EditPlan("remove", thing.name, thing.box, instruction=f"Remove the {thing.name}."), number)
        else:
            colour = rng.choice([colour for colour in _COLOURS if colour not in thing.attributes])
            words = f"Make the {thing.name} {colour}."
            yield Chosen(EditPlan("recolour", thing.name, thing.box, colour, instruction=words), number)
    if not edits:
        raise NoPlan("no_plan", "the question names everything that the picture was found to hold")
    raise NoPlan("no_plan", "no other thing is there that the question does not name")


def _forms(text: str) -> set[str]:
    """Each word, and what it is the plural of, if it is one: ``triangles`` is of ``triangle``, ``boxes`` of ``box``."""
    words = set(re.findall(r"[a-z]{3,}", text.lower()))
    singular = {word[:-1] for word in words if word.endswith("s")} | {word[:-2] for word in words if word.endswith("es")}
    return words | singular | {f"{word[:-3]}y" for word in words if word.endswith("ies")}
