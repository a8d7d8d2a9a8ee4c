"""From a question to an edit of its picture: type, scene graph, plan (METHODS 1a, steps 1-3), each one call and at most one more.

What a planner says is believed only as far as it can be: boxes must lie in the picture, numbers must name things, kinds must exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mug_eval.answers import parse_object
from mug_eval.chat import ImageRef, Json, Message
from mug_eval.counterfactual.boxes import Frame, Size
from mug_eval.counterfactual.examples import REPEATED, fewer, is_example_edit, without_example
from mug_eval.counterfactual.plan import Box, EditPlan
from mug_eval.counterfactual.planning_prompts import (
    EDIT_KINDS,
    QUESTION_TYPES,
    plan_messages,
    plan_schema,
    question_type_messages,
    question_type_schema,
    scene_graph_messages,
    scene_graph_schema,
    which_picture,
)
from mug_eval.counterfactual.question_types import question_words, type_by_words
from mug_eval.counterfactual.scene_graph import SceneGraph, Thing, numbers_of, read_graph
from mug_eval.methods.conversation import reminded
from mug_eval.methods.method import Table
from mug_eval.question import Question

Read = TypeVar("Read")

MEND = "That reply cannot be used: {wrong}. Reply again with the whole JSON and nothing else, put right."
ANOTHER = (
    "That edit was tried, and the picture cannot be used: {why}. Choose another edit, of another thing or of another kind.\n"
    "Reply with JSON only, as before."
)
_LONGEST = 500
"""Characters of what a plan says in words: it goes to editors, and into the store's lines."""
_NUMBER = re.compile(r"#?(\d{1,3})")


@dataclass(frozen=True, slots=True)
class QuestionType:
    """What a question is about.

    Attributes:
        kind: one of ``QUESTION_TYPES``.
        said: by the planner; None if nothing could be read.
        by_words: by :func:`~mug_eval.counterfactual.question_types.type_by_words`.
    """

    kind: str
    said: str | None
    by_words: str

    @property
    def decided_by(self) -> str:
        """``planner``, or ``words`` where the planner's reply could not be read."""
        return "words" if self.said is None else "planner"

    @property
    def record(self) -> dict[str, str | None]:
        """As JSON values."""
        return {"kind": self.kind, "said": self.said, "by_words": self.by_words, "decided_by": self.decided_by}


class NoPlan(Exception):
    """This question gets no edit.

    Attributes:
        cause: one word, for the store's states: ``no_picture``, ``no_graph``, ``no_plan``.
        reason: one line.
        type: of the question, where that was known by then.
    """

    def __init__(self, cause: str, reason: str, type: QuestionType | None = None) -> None:
        super().__init__(reason)
        self.cause = cause
        self.reason = reason
        self.type = type


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known before an edit is chosen.

    Attributes:
        type: of the question.
        picture: which of the shown pictures it turns on, from 0.
        shown: that picture.
        graph: what it holds.
    """

    type: QuestionType
    picture: int
    shown: ImageRef
    graph: SceneGraph

    @property
    def size(self) -> Size:
        """Of the picture."""
        return self.shown.width, self.shown.height


@dataclass(frozen=True, slots=True)
class Chosen:
    """An edit that was chosen.

    Attributes:
        plan: for the editor.
        thing: number of the target in the scene graph; None for a thing that has no like there.
        answer: what the planner says the answer becomes; it goes to the record and to nobody who plays.
    """

    plan: EditPlan
    thing: int | None
    answer: str | None = None


async def survey(question: Question, table: Table, frame: Frame) -> Survey:
    """Ask what the question is about and what the picture holds.

    Args:
        question: with its pictures at their own size.
        table: asks the planner.
        frame: in which it states boxes.

    Raises:
        NoPlan: no picture, or no scene graph that could be read.
        BackboneError, RunStopped: as ``Table.ask``.
    """
    pictures = question.images
    if not pictures:
        raise NoPlan("no_picture", "the question shows no picture")
    by_words = type_by_words(question_words(question))
    said = await _asked(
        table, "type", question_type_messages(question.prompt), question_type_schema(), lambda text: _read_type(text, len(pictures))
    )
    kind = QuestionType(by_words if said is None else said[0], None if said is None else said[0], by_words)
    picture = 0 if said is None else said[1]
    shown = pictures[picture]
    try:
        graph = await _graph(question, table, frame, picture)
    except NoPlan as error:
        raise NoPlan(error.cause, error.reason, kind) from error
    return Survey(kind, picture, shown, graph)


async def _graph(question: Question, table: Table, frame: Frame, picture: int) -> SceneGraph:
    """The scene graph; where some of it could not be used, asked for once more, and what can be used of the better reply."""
    shown = question.images[picture]
    size = shown.width, shown.height
    messages = scene_graph_messages(question.prompt, frame.units, which_picture(picture, len(question.images)))
    reply = await table.ask("graph", messages, schema=scene_graph_schema())
    read = read_graph(reply.text, frame, size)
    if read.wrong:
        if read.wrong == (REPEATED,):
            again = await table.ask("graph", without_example(messages), schema=fewer(scene_graph_schema()))
        else:
            mend = reminded(messages, reply.text, MEND.format(wrong="; ".join(read.wrong)))
            again = await table.ask("graph", mend, schema=scene_graph_schema())
        second = read_graph(again.text, frame, size)
        if second.graph is not None and (read.graph is None or len(second.graph.things) >= len(read.graph.things)):
            read = second
    if read.graph is None:
        raise NoPlan("no_graph", f"no scene graph could be read: {'; '.join(read.wrong)}")
    return read.graph


class Plans:
    """The plans for one question, each other than those before; the conversation goes on, so that the planner knows what failed.

    Args:
        question: as for :func:`survey`.
        table: likewise.
        frame: likewise.
        known: from :func:`survey`.
        inventive: as for :func:`~mug_eval.counterfactual.planning_prompts.plan_schema`.
    """

    def __init__(self, question: Question, table: Table, frame: Frame, known: Survey, inventive: bool = True) -> None:
        self._table, self._frame, self._known = table, frame, known
        self._schema = plan_schema(len(known.graph.things), inventive)
        lines = [thing.line(frame, known.size) for thing in known.graph.things]
        which = which_picture(known.picture, len(question.images))
        self._messages: Sequence[Message] = plan_messages(question.prompt, known.type.kind, lines, frame.units, which)
        self._said = ""

    async def next(self, why: str = "") -> Chosen:
        """The first plan, or another one.

        Args:
            why: what was wrong with the picture of the plan before.

        Raises:
            NoPlan: nothing that can be done was said, twice.
            BackboneError, RunStopped: as ``Table.ask``.
        """
        if self._said:
            self._messages = reminded(self._messages, self._said, ANOTHER.format(why=why))
        reply = await self._table.ask("plan", self._messages, schema=self._schema)
        try:
            chosen = read_plan(reply.text, self._known, self._frame)
        except ValueError as error:
            if str(error) == REPEATED:
                self._messages = without_example(self._messages)
            else:
                self._messages = reminded(self._messages, reply.text, MEND.format(wrong=error))
            reply = await self._table.ask("plan", self._messages, schema=self._schema)
            try:
                chosen = read_plan(reply.text, self._known, self._frame)
            except ValueError as second:
                raise NoPlan("no_plan", f"no plan that could be carried out: {second}") from second
        self._said = reply.text
        return chosen


def read_plan(text: str, known: Survey, frame: Frame) -> Chosen:
    """Read a planner's reply as an edit.

    Raises:
        ValueError: it is none that can be done; says in words for the planner what is wrong.
    """
    found = parse_object(text)
    if found is None:
        raise ValueError("no JSON object could be read")
    kind = found.get("edit")
    if kind not in EDIT_KINDS:
        raise ValueError(f'"edit" must be one of {", ".join(EDIT_KINDS)}')
    things = known.graph.things
    target = _target(found.get("target"), kind, things)
    for name in ("to", "instruction", "answer"):
        if len(_words(found.get(name))) > _LONGEST:
            raise ValueError(f'"{name}" is longer than {_LONGEST} characters')
    to = _words(found.get("to"))
    to = "" if to.lower() == "null" else to  # small models write null in quotes
    instruction = _words(found.get("instruction"))
    if not instruction:
        raise ValueError('"instruction" is empty')
    if is_example_edit(instruction, to if target is None else things[target].name):
        raise ValueError(REPEATED)
    if not to and kind in ("replace", "recolour", "retext", "resize"):
        raise ValueError(f'"to" must say what it becomes by {kind}')
    stated = None if found.get("box") is None else frame.in_picture(numbers_of(found["box"]), known.size)
    answer = _words(found.get("answer")) or None
    if target is None:
        if stated is None:
            raise ValueError('"box" must say where a thing is added that has no like there')
        name = to or "the new thing"
        return Chosen(EditPlan("add", name, stated, to, stated, instruction), None, answer)
    thing = things[target]
    if kind in ("replace", "recolour", "resize", "retext") and _told_of(thing) >= _named_by(to) != set():
        raise ValueError(f'"to" must say something else than what thing {target} is already ({to})')
    to, to_box = _becomes(kind, to, stated, target, things)
    return Chosen(EditPlan(kind, _named(thing), thing.box, to, to_box, instruction), target, answer)


def _target(value: Any, kind: str, things: Sequence[Thing]) -> int | None:
    if value is None:
        if kind != "add":
            raise ValueError(f'"target" is null, but {kind} is done to one of the things listed')
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(things):
        last = f"0 to {len(things) - 1}" if things else "null, since nothing is listed"
        raise ValueError(f'"target" must be the number of a thing ({last})')
    return value


def _becomes(kind: str, to: str, stated: Box | None, target: int, things: Sequence[Thing]) -> tuple[str, Box | None]:
    """``to`` and ``to_box`` as editors take them (see :class:`EditPlan`)."""
    if kind == "mirror":
        number = _NUMBER.fullmatch(to)
        other = int(number[1]) if number and int(number[1]) < len(things) else _like(to, target, things)
        if other == target:
            raise ValueError('"to" must be the number of another thing than the target, with which it changes places')
        box = things[other].box if other is not None else stated
        if box is None:
            raise ValueError('"to" must be the number of the thing with which the target changes places')
        return "", box
    if kind == "replace":
        like = _like(to, target, things)
        return to, None if like is None else things[like].box
    if kind in ("add", "move", "resize"):
        return to, stated
    return to, None


def _like(words: str, target: int, things: Sequence[Thing]) -> int | None:
    """The number of another thing that the words name."""
    wanted = _named_by(words) - {"another"}
    if not wanted:
        return None
    for number, thing in enumerate(things):
        if number != target and wanted <= _told_of(thing):
            return number
    return None


def _named_by(words: str) -> set[str]:
    return set(re.findall(r"\w+", words.lower())) - {"a", "an", "the"}


def _told_of(thing: Thing) -> set[str]:
    return _named_by(" ".join((thing.name, *thing.attributes)))


def _named(thing: Thing) -> str:
    """``red cup``, with what can be seen of it: editors for printed text and messages use it."""
    return " ".join((*(word for word in thing.attributes if len(word) <= 40), thing.name))


def _words(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def _read_type(text: str, pictures: int) -> tuple[str, int]:
    found = parse_object(text)
    if found is None:
        raise ValueError("no JSON object could be read")
    kind = found.get("type")
    if kind not in QUESTION_TYPES:
        raise ValueError(f'"type" must be one of {", ".join(QUESTION_TYPES)}')
    number = found.get("image", 1) if pictures > 1 else 1
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= pictures:
        raise ValueError(f'"image" must be the number of a picture, 1 to {pictures}')
    return kind, number - 1


async def _asked(table: Table, seat: str, messages: Sequence[Message], schema: Json, read: Callable[[str], Read]) -> Read | None:
    """Ask, and once more with what was wrong; None if that cannot be read either."""
    reply = await table.ask(seat, messages, schema=schema)
    try:
        return read(reply.text)
    except ValueError as error:
        again = await table.ask(seat, reminded(messages, reply.text, MEND.format(wrong=error)), schema=schema)
    try:
        return read(again.text)
    except ValueError:
        return None


def follows(question: Question, kind: str, chosen: Chosen, graph: SceneGraph) -> str | None:
    """The answer after the edit where it follows from the edit alone: a removed object is not there, one less of three are two.

    Args:
        question: what is asked.
        kind: the question's type.
        chosen: the edit.
        graph: the picture before it.

    Returns:
        ``Yes``, ``No``, a number, or None where nothing follows.
    """
    plan = chosen.plan
    if chosen.thing is None or plan.kind not in ("remove", "add"):
        return "Yes" if kind == "object" and question.answer_format.kind == "yes_no" and plan.kind == "add" else None
    name = graph.things[chosen.thing].name
    alike = sum(thing.name == name for thing in graph.things)
    if kind == "object" and question.answer_format.kind == "yes_no":
        return "Yes" if plan.kind == "add" else "No" if alike == 1 else None
    if kind == "quantity" and question.answer_format.kind != "yes_no":
        return str(alike + (1 if plan.kind == "add" else -1))
    return None


def plan_json(chosen: Chosen) -> Mapping[str, Any]:
    """A plan for the record, as JSON values."""
    plan = chosen.plan
    return {
        "edit": plan.kind,
        "target": plan.target,
        "thing": chosen.thing,
        "box": list(plan.box),
        "to": plan.to,
        "to_box": None if plan.to_box is None else list(plan.to_box),
        "instruction": plan.instruction,
    }
