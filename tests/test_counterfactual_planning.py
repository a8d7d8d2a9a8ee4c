"""What is believed of a planner: boxes, numbers and kinds as far as they can be, and types by words where nothing can be read."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scripted import CHOICE, OPEN, ScriptedTable

from mug_eval.chat import ImageRef
from mug_eval.counterfactual.boxes import FRAMES, frame_named, frame_of, resized
from mug_eval.counterfactual.editors.opencv import OpenCVEditor
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.counterfactual.planner import Chosen, NoPlan, Plans, QuestionType, Survey, follows, read_plan, survey
from mug_eval.counterfactual.planning_prompts import plan_schema
from mug_eval.counterfactual.question_types import question_words, type_by_words
from mug_eval.counterfactual.scene_graph import SceneGraph, Thing, read_graph
from mug_eval.counterfactual.store import png
from mug_eval.counterfactual.unrelated import unrelated_plans
from mug_eval.counterfactual.whereabouts import where
from mug_eval.errors import UserError
from mug_eval.images import load_image
from mug_eval.question import AnswerFormat, Question
from mug_eval.reference_vlm.questions import KINDS, ask_choice, ask_yes_no, draw_query
from mug_eval.reference_vlm.scenes import draw_scene

PIXELS = FRAMES["pixels"]
THINGS = (
    Thing("cup", ("red",), (10, 20, 50, 80)),
    Thing("cup", ("blue",), (100, 20, 140, 80)),
    Thing("dog", ("brown", "large"), (200, 50, 300, 190)),
)


def shown(width: int = 400, height: int = 200) -> ImageRef:
    return load_image(png(Image.new("RGB", (width, height), "grey")))


def known(kind: str = "object", things: tuple[Thing, ...] = THINGS) -> Survey:
    return Survey(QuestionType(kind, kind, kind), 0, shown(), SceneGraph(things))


def asked(text: str, answer_format: AnswerFormat = AnswerFormat("yes_no"), pictures: int = 1) -> Question:  # noqa: B008
    parts = tuple(shown(400, 200 + number) for number in range(pictures))
    return Question("TEST", "7", (*parts, text), answer_format)


def plan(**changes: Any) -> str:
    return json.dumps({"target": 0, "edit": "remove", "to": "", "box": None, "instruction": "Do it.", "answer": None} | changes)


# boxes


def test_pictures_are_seen_at_the_size_that_the_processors_give_them() -> None:
    smart_resize = pytest.importorskip("transformers.models.qwen2_vl.image_processing_qwen2_vl").smart_resize
    draw = random.Random(0)
    for name in ("qwen2.5", "reference"):
        frame = FRAMES[name]
        for _ in range(300):
            width, height = draw.randrange(30, 6000), draw.randrange(30, 6000)
            if max(width, height) / min(width, height) < 100:
                limits = {"min_pixels": frame.least_pixels, "max_pixels": frame.most_pixels}
                theirs = smart_resize(height, width, factor=28, **limits)
                assert resized((width, height), 28, frame.least_pixels, frame.most_pixels) == (theirs[1], theirs[0])


@pytest.mark.parametrize("name", list(FRAMES))
def test_a_box_said_and_read_is_the_box(name: str) -> None:
    frame = frame_named(name)
    for size in ((168, 168), (640, 427), (1920, 1080)):
        box = (size[0] // 8, size[1] // 4, size[0] // 2, size[1] - 1)
        read = frame.in_picture(frame.as_said(box, size), size)
        step = max(size[0] / frame.seen(size)[0], size[1] / frame.seen(size)[1], 1)
        assert np.abs(np.subtract(read, box)).max() <= step


def test_a_box_in_resized_pixels_is_where_it_was_meant() -> None:
    """427 rows are seen as 420, 640 columns as 644: the middle stays the middle."""
    assert FRAMES["qwen2.5"].seen((640, 427)) == (644, 420)
    assert FRAMES["qwen2.5"].in_picture((0, 210, 322, 420), (640, 427)) == (0, 214, 320, 427)


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ((50, 10, 40, 90), "empty"),
        ((10, 10, 12, 90), "too small"),
        ((10, 10, 420, 90), "out of the picture"),
        ((-50, 10, 40, 90), "out of the picture"),
        ((10, 10, 40), "four numbers"),
        ((10, 10, float("nan"), 20), "four numbers"),
    ],
)
def test_a_box_that_cannot_be_is_refused_with_the_reason(box: tuple[float, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        PIXELS.in_picture(box, (400, 200))


def test_a_box_that_rounding_made_too_large_is_cut() -> None:
    assert PIXELS.in_picture((-2, 100, 404, 203), (400, 200)) == (0, 100, 400, 200)


def test_the_convention_follows_the_model() -> None:
    names = {"qwen": "qwen2.5", "Qwen/Qwen2.5-VL-72B-Instruct": "qwen2.5", "reference": "reference"}
    others = ("qwen3", "internvl", "gpt-4o", "Qwen/Qwen3-VL-8B-Instruct", "my-reference")
    assert {name: frame_of(name).name for name in names} == names
    assert {frame_of(name).name for name in others} == {"thousandths"}
    with pytest.raises(UserError, match="thousandths"):
        frame_named("thousands")


# question types


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Is there a tv in the image?", "object"),
        ("Which of these is present in the image?", "object"),
        ("What animal is on the sofa?", "object"),
        ("How many dogs are there?", "quantity"),
        ("Are there three cups on the table?", "quantity"),
        ("Is the number of cars more than two?", "quantity"),
        ("What color is the umbrella?", "attribute"),
        ("Is the umbrella red?", "attribute"),
        ("Which is larger in the image, the dog or the cat?", "attribute"),
        ("Is the cat to the left of the dog?", "spatial"),
        ("Which object is in the bottom corner?", "spatial"),
        ("Where is the lamp?", "spatial"),
        ("What is written on the sign?", "other"),
        ("What does the sign say?", "other"),
        ("Why so?", "other"),
    ],
)
def test_a_type_by_words(text: str, kind: str) -> None:
    assert type_by_words(text) == kind


def test_types_by_words_are_those_of_the_drawn_questions_nine_times_in_ten() -> None:
    types = {"existence": "object", "quantity": "quantity", "attribute": "attribute", "spatial": "spatial", "text": "other"}
    right, number = [], 0
    while len(right) < 300:
        rng, scene = random.Random(number), draw_scene(number)
        query = draw_query(KINDS[number % 5], scene, rng)
        number += 1
        if query is not None:
            text = (ask_yes_no if number % 2 else ask_choice)(query, scene, rng).text
            right.append(type_by_words(text) == types[query.kind])
    assert sum(right) / len(right) > 0.9


def test_options_and_how_to_answer_are_not_the_question() -> None:
    words = "Hint: think.\nQuestion: How many dogs?\nOptions:\nA. left\nB. red\nPlease select the correct answer from the options above. \n"
    assert question_words(asked(words, CHOICE)) == "How many dogs?"
    assert question_words(asked("Is there a tv in the image? Please answer yes or no.")) == "Is there a tv in the image?"


# scene graphs


def test_things_that_cannot_be_are_left_out_and_relations_keep_their_ends() -> None:
    good = {"name": "cup", "attributes": ["red", 3], "box": [10, 20, 50, 80]}
    bad = [
        {"name": "cat", "attributes": [], "box": [10, 20, 5, 80]},
        {"name": " ", "box": [1, 2, 30, 40]},
        "dog",
        {"name": "x", "box": "?"},
    ]
    far = {"name": "dog", "attributes": "brown", "box": [200, 50, 300.4, 190]}
    relations = [
        {"subject": 5, "relation": "right of", "object": 0},
        {"subject": 1, "relation": "on", "object": 0},
        {"subject": None, "relation": "on", "object": 0},
    ]
    read = read_graph(json.dumps({"objects": [good, *bad, far], "relations": relations}), PIXELS, (400, 200))
    assert read.graph is not None and len(read.wrong) == 4
    assert read.graph.things == (Thing("cup", ("red", "3"), (10, 20, 50, 80)), Thing("dog", ("brown",), (200, 50, 300, 190)))
    assert read.graph.relations == ((1, "right of", 0),)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ('{"name": "cup", "box": [0, 0, 1' + "0" * 400 + ", 9]}", "more than 300 digits"),
        ('{"name": "cup", "box": [NaN, 0, 50, 50]}', "four numbers"),
        ('{"name": "cup", "box": [0, 0, 1e999, 50]}', "not four numbers"),
        ('{"name": "' + "cup " * 99 + '", "box": [0, 0, 50, 50]}', "its name is 396 characters long"),
    ],
    ids=["endless", "NaN", "infinite", "long name"],
)
def test_a_thing_that_no_picture_can_hold_is_left_out_and_the_others_stay(entry: str, words: str) -> None:
    read = read_graph(f'{{"objects": [{entry}, {{"name": "plate", "box": [10, 10, 60, 60]}}]}}', PIXELS, (400, 200))
    assert read.graph is not None and [thing.name for thing in read.graph.things] == ["plate"]
    assert len(read.wrong) == 1 and words in read.wrong[0]


@pytest.mark.parametrize("reply", ["nothing", "[]", '{"objects": 3}', '{"things": []}', '{"objects": [{"name": "cup"'])
def test_what_is_no_scene_graph_is_none(reply: str) -> None:
    assert read_graph(reply, PIXELS, (400, 200)).graph is None


async def test_the_better_of_two_scene_graphs_is_kept() -> None:
    one, none = (
        {"name": "cup", "attributes": [], "box": [10, 20, 50, 80]},
        {"name": "dog", "attributes": [], "box": [10, 20, 5, 80]},
    )
    replies = {"type": '{"type": "object", "image": 1}', "graph": json.dumps({"objects": [one, none], "relations": []})}
    table = ScriptedTable(lambda seat, number, messages: replies[seat] if number == 0 else "no")
    found = await survey(asked("Is there a cup?"), table, PIXELS)
    assert [thing.name for thing in found.graph.things] == ["cup"] and table.seats == ["type", "graph", "graph"]


async def test_of_several_pictures_the_one_that_is_meant_is_asked_about() -> None:
    one = json.dumps({"objects": [{"name": "cup", "attributes": [], "box": [0, 0, 1000, 1000]}], "relations": []})
    table = ScriptedTable(lambda seat, number, messages: '{"type": "object", "image": 2}' if seat == "type" else one)
    question = asked("Is there a cup in <image 2>?", pictures=2)
    found = await survey(question, table, FRAMES["thousandths"])
    assert found.picture == 1 and found.shown == question.images[1] and found.graph.things[0].box == (0, 0, 400, 201)
    assert "number 2" in table.calls[1].text


async def test_a_question_without_a_picture_is_not_asked_about() -> None:
    table = ScriptedTable(lambda seat, number, messages: "")
    with pytest.raises(NoPlan) as caught:
        await survey(Question("TEST", "7", ("Is snow white?",), AnswerFormat("yes_no")), table, PIXELS)
    assert caught.value.cause == "no_picture" and table.calls == []


# plans


def test_a_plan_is_read_in_the_editors_terms() -> None:
    assert read_plan(plan(), known(), PIXELS).plan == EditPlan("remove", "red cup", (10, 20, 50, 80), instruction="Do it.")
    mirror = read_plan(plan(edit="mirror", to="2"), known(), PIXELS).plan
    assert (mirror.to, mirror.to_box) == ("", (200, 50, 300, 190))
    assert read_plan(plan(edit="mirror", to="the dog"), known(), PIXELS).plan.to_box == (200, 50, 300, 190)
    assert read_plan(plan(edit="replace", to="a dog"), known(), PIXELS).plan.to_box == (200, 50, 300, 190)
    assert read_plan(plan(edit="replace", to="a bird"), known(), PIXELS).plan.to_box is None
    moved = read_plan(plan(edit="move", box=[300, 20, 340, 80]), known(), PIXELS).plan
    assert moved.to_box == (300, 20, 340, 80)
    added = read_plan(plan(target=None, edit="add", to="bird", box=[300, 20, 340, 80]), known(), PIXELS)
    assert added.thing is None and added.plan.box == added.plan.to_box == (300, 20, 340, 80) and added.plan.target == "bird"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": 3}, "0 to 2"),
        ({"target": True}, "0 to 2"),
        ({"target": "0"}, "0 to 2"),
        ({"edit": "paint"}, "one of"),
        ({"instruction": " "}, "instruction"),
        ({"instruction": "so " * 200}, '"instruction" is longer than 500'),
        ({"to": "x" * 501}, '"to" is longer'),
        ({"answer": "x" * 501}, '"answer" is longer'),
        ({"edit": "mirror", "to": "0"}, "another thing"),
        ({"edit": "mirror", "to": ""}, "changes places"),
        ({"edit": "retext", "to": ""}, '"to" must say'),
        ({"edit": "replace", "to": "null"}, '"to" must say'),
        ({"edit": "recolour", "to": "Red"}, "already"),
        ({"edit": "replace", "to": "a red cup"}, "already"),
        ({"target": 2, "edit": "resize", "to": "large"}, "already"),
        ({"target": None, "edit": "add", "to": "bird"}, '"box" must say'),
        ({"edit": "move", "box": [1, 2, 3]}, "four numbers"),
        ({"edit": "move", "box": [500, 20, 540, 80]}, "out of the picture"),
    ],
)
def test_a_plan_that_cannot_be_done_is_refused_in_words_for_the_planner(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_plan(plan(**changes), known(), PIXELS)


async def test_the_plan_is_asked_with_the_things_in_the_planners_own_units() -> None:
    table = ScriptedTable(lambda seat, number, messages: plan())
    question = asked("Is there a cup?")
    await Plans(question, table, FRAMES["thousandths"], known()).next()
    assert (
        "0: cup (red) at [25, 100, 125, 400]\n1: cup (blue) at [250, 100, 350, 400]\n2: dog (brown, large)" in table.calls[0].text
    )
    assert table.calls[0].schema is not None and "type: object" in table.calls[0].text


def test_a_planner_is_held_to_the_things_that_are_listed_and_to_what_the_editor_can_do() -> None:
    def targets(things: int, inventive: bool) -> Any:
        return plan_schema(things, inventive)["properties"]["target"]

    assert targets(2, True) == {"type": ["integer", "null"], "enum": [0, 1, None]}
    assert targets(2, False) == {"type": "integer", "enum": [0, 1]}, "without a model nothing can be added that has no like there"
    assert targets(0, False)["enum"] == [None], "a schema that nothing fits would be an error of ours"


@pytest.mark.parametrize("inventive", [True, False])
async def test_both_tries_at_a_plan_are_held_to_it(inventive: bool) -> None:
    table = ScriptedTable(lambda seat, number, messages: "no" if number == 0 else plan())
    await Plans(asked("Is there a cup?"), table, PIXELS, known(), inventive).next()
    assert [call.schema for call in table.calls] == [plan_schema(3, inventive)] * 2


def test_what_the_answer_becomes_is_said_only_where_it_follows() -> None:
    def after(text: str, kind: str, answer_format: AnswerFormat, **changes: Any) -> str | None:
        chosen = read_plan(plan(**changes), known(kind), PIXELS)
        return follows(asked(text, answer_format), kind, chosen, known(kind).graph)

    yes_no = AnswerFormat("yes_no")
    assert after("Is there a dog?", "object", yes_no, target=2) == "No"
    assert after("Is there a cup?", "object", yes_no) is None, "the other cup is still there"
    assert after("How many cups?", "quantity", OPEN) == "1"
    assert after("How many cups?", "quantity", OPEN, edit="add") == "3"
    assert after("Are there two cups?", "quantity", yes_no) is None
    assert after("What colour?", "attribute", OPEN, edit="recolour", to="blue") is None


# edits of something other


def test_an_unrelated_edit_touches_nothing_that_is_named() -> None:
    question = asked("Is the dog next to a red thing?")
    plans = unrelated_plans(question, known(), random.Random(0))
    found: list[Chosen] = []
    with pytest.raises(NoPlan) as caught:
        while True:
            found.append(next(plans))
    assert caught.value.cause == "no_plan"
    assert {chosen.thing for chosen in found} == {1} and sorted(chosen.plan.kind for chosen in found) == ["recolour", "remove"]
    assert all(chosen.plan.to != "blue" for chosen in found), "a blue cup is not made blue"
    again = unrelated_plans(question, known(), random.Random(0))
    assert [next(again), next(again)] == found


@pytest.mark.parametrize(
    "text", ["Are there cups?", "Is there a cup?", "Is the CUP full?", "Where are the red ones and the blue ones?"]
)
def test_what_is_named_in_whatever_form_is_named(text: str) -> None:
    question, number = asked(text), 2
    plans = unrelated_plans(question, known(), random.Random(0))
    assert {next(plans).thing, next(plans).thing} == {number}
    with pytest.raises(NoPlan):
        next(plans)


def test_an_unrelated_edit_does_not_change_a_count_of_things() -> None:
    plans = unrelated_plans(asked("How many objects?", OPEN), known("quantity"), random.Random(1))
    kinds = []
    with pytest.raises(NoPlan):
        while True:
            kinds.append(next(plans).plan.kind)
    assert kinds == ["recolour"] * 3


# where


def test_an_editor_that_says_where_it_works_is_believed_and_others_are_given_the_plans_boxes() -> None:
    class Reader:
        name, fingerprint, batch = "reader", "reader", 1

        def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
            return image

        def close(self) -> None: ...

    picture, box, other = Image.new("RGB", (400, 200), "grey"), (100, 80, 140, 120), (200, 80, 240, 120)
    mirror = EditPlan("mirror", "cup", box, "", other)
    assert where(OpenCVEditor(), picture, mirror, 0) == (box, other)
    ((left, top, right, bottom),) = where(Reader(), picture, mirror, 0)
    assert left <= 100 and right >= 240 and top <= 80 and bottom >= 120
    assert where(Reader(), picture, EditPlan("remove", "cup", box), 0) == (box,)
    assert where(Reader(), picture, EditPlan("move", "cup", box), 0) == (box, (0, 0, 400, 200))
