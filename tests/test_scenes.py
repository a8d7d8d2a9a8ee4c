"""Drawn scenes: by seed, their questions true, their edits minimal, train and test apart."""

from __future__ import annotations

import random

import numpy as np
import pytest

from mug_eval.reference_vlm.drawing import CELL, SIDE, draw
from mug_eval.reference_vlm.questions import (
    KINDS,
    Query,
    absent,
    ask_choice,
    ask_open,
    ask_yes_no,
    draw_query,
    edit_for,
    reason,
    value_of,
)
from mug_eval.reference_vlm.scenes import MOST_OBJECTS, SIGN, Scene, Thing, any_edit, draw_scene, scene_seed

SCENES = [draw_scene(scene_seed("test", 0, number)) for number in range(150)]
FIXED = Scene(
    (
        Thing(1, 2, "star", "red", "small"),
        Thing(3, 1, "star", "blue", "large"),
        Thing(3, 5, "ring", "red", "large"),
        Thing(6, 6, SIGN, word="owl"),
    ),
    7,
)


def test_the_same_seed_gives_the_same_scene_and_pixels() -> None:
    assert draw_scene(11) == draw_scene(11)
    assert np.array_equal(draw(draw_scene(11)), draw(draw_scene(11)))


def test_scenes_hold_none_to_eight_things_each_in_a_cell_of_its_own() -> None:
    for scene in SCENES:
        cells = [thing.cell for thing in scene.things]
        assert len(set(cells)) == len(cells) <= MOST_OBJECTS
        assert cells == sorted(cells)
        assert all(1 <= row <= 6 and 1 <= column <= 6 for row, column in cells)
    assert {len(scene.things) for scene in SCENES} == set(range(9))


def test_train_and_test_scenes_come_from_disjoint_seeds() -> None:
    train = {scene_seed("train", seed, number) for seed in range(20) for number in range(500)}
    test = {scene_seed("test", seed, number) for seed in range(20) for number in range(500)}
    assert max(train) < 2**30 <= min(test) and max(test) < 2**31


def test_no_test_scene_is_a_train_scene() -> None:
    train = {draw_scene(scene_seed("train", 0, number)) for number in range(2000)}
    assert not train & set(SCENES)


def test_a_picture_is_168_pixels_a_side_and_shows_its_things_where_the_graph_says() -> None:
    picture = draw(FIXED)
    assert picture.shape == (SIDE, SIDE, 3) and picture.dtype == np.uint8
    red, green, blue = picture[2 * CELL + 14 - 10 : 2 * CELL + 14 + 10, 4 * CELL : 5 * CELL].reshape(-1, 3).T.astype(int)
    assert (red - np.maximum(green, blue)).max() > 100
    plate = picture[5 * CELL : 6 * CELL, 5 * CELL : 6 * CELL]
    assert (plate.min(-1) > 200).mean() > 0.3 and (plate.max(-1) < 60).any()


def test_an_edit_changes_nothing_outside_the_cells_that_it_touches() -> None:
    rng = random.Random(0)
    for scene in SCENES[:60]:
        edit = any_edit(scene, rng)
        touched = {thing.cell for thing in set(scene.things) ^ set(edit.scene.things)}
        assert len(touched) in (1, 2)
        changed = (draw(scene) != draw(edit.scene)).any(-1)
        cells = {(int(y) // CELL + 1, int(x) // CELL + 1) for y, x in np.argwhere(changed)}
        assert cells == touched


@pytest.mark.parametrize(
    ("query", "value", "why"),
    [
        (Query("exists", (("red", "star"),)), "yes", "The red star: r1c2, so yes."),
        (Query("exists", (("blue", "ring"),)), "no", "The blue ring: none, so no."),
        (Query("count", (("", "star"),)), "2", "Count of star: r1c2 1 r3c1 2 r3c5 2 r6c6 2, so 2."),
        (Query("count", (("green", ""),)), "0", "Count of green object: r1c2 0 r3c1 0 r3c5 0 r6c6 0, so 0."),
        (Query("colour", (("", "ring"),)), "red", "The ring is red."),
        (Query("shape", (("blue", ""),)), "star", "The blue object is star."),
        (Query("size", (("red", "star"),)), "small", "The red star is small."),
        (Query("says", (("", SIGN),)), "owl", "The sign says owl."),
        (
            Query("side", (("red", "star"), ("blue", "star")), "above"),
            "yes",
            "The places: red star r1c2, blue star r3c1. Down 1 and 3: above, so yes.",
        ),
        (
            Query("side", (("red", "star"), ("blue", "star")), "left"),
            "no",
            "The places: red star r1c2, blue star r3c1. Across 2 and 1: right, so no.",
        ),
        (
            Query("further", (("red", "star"), ("red", "ring")), "right"),
            "the red ring",
            "The places: red star r1c2, red ring r3c5. Across 2 and 5: left, so the red ring.",
        ),
    ],
)
def test_the_true_answer_and_its_reason(query: Query, value: str, why: str) -> None:
    assert value_of(query, FIXED) == value
    assert reason(query, FIXED) == why


@pytest.mark.parametrize(
    "query",
    [
        Query("colour", (("", "star"),)),  # two stars
        Query("shape", (("green", ""),)),  # no such thing
        Query("side", (("blue", "star"), ("red", "ring")), "above"),  # level
    ],
)
def test_a_question_that_the_scene_leaves_open_has_no_answer(query: Query) -> None:
    assert value_of(query, FIXED) is None


def test_every_question_has_one_true_answer_in_every_form() -> None:
    rng = random.Random(1)
    seen = set()
    for scene in SCENES:
        for kind in KINDS:
            query = draw_query(kind, scene, rng)
            if query is None:
                continue
            seen.add(query.aspect)
            truth = value_of(query, scene)
            assert ask_yes_no(query, scene, rng).gold(scene) in ("Yes", "No")
            choice = ask_choice(query, scene, rng)
            assert len(set(choice.options)) == len(choice.options) >= 2
            assert choice.options["ABCD".index(choice.gold(scene) or "?")] == truth
            if query.aspect not in ("exists", "side"):
                assert ask_open(query).gold(scene) == truth
    assert seen == {"exists", "count", "colour", "shape", "size", "side", "further", "says"}


def test_yes_and_no_are_about_as_frequent() -> None:
    rng = random.Random(2)
    golds = []
    for scene in SCENES:
        for kind in KINDS:
            query = draw_query(kind, scene, rng)
            if query is not None:
                golds.append(ask_yes_no(query, scene, rng).gold(scene))
    assert 0.4 < golds.count("Yes") / len(golds) < 0.6


def test_the_edit_for_a_question_changes_its_answer_and_one_thing() -> None:
    rng = random.Random(3)
    found = 0
    for scene in SCENES:
        for kind in KINDS:
            query = draw_query(kind, scene, rng)
            edit = None if query is None else edit_for(query, scene, rng)
            if query is None or edit is None:
                continue
            found += 1
            assert value_of(query, edit.scene) not in (None, value_of(query, scene))
            gone, new = set(scene.things) - set(edit.scene.things), set(edit.scene.things) - set(scene.things)
            assert len(gone) <= 1 and len(new) <= 1 and gone | new
            options = ask_choice(query, scene, rng, edit.scene).options
            assert value_of(query, edit.scene) in options
    assert found > 500


def test_absent_things_are_absent_and_adversarial_ones_are_near() -> None:
    rng = random.Random(4)
    for scene in SCENES[:80]:
        for how in ("random", "popular", "adversarial"):
            assert not scene.named(*absent(scene, how, rng))
        colour, shape = absent(FIXED, "adversarial", rng)
        assert FIXED.named(colour) and FIXED.named("", shape)


def test_questions_are_english() -> None:
    asked = []
    for number in range(600):
        rng = random.Random(number)
        scene = draw_scene(scene_seed("train", 9, number))
        query = draw_query(KINDS[number % len(KINDS)], scene, rng)
        if query is not None:
            asked += [ask_yes_no(query, scene, rng).text, ask_choice(query, scene, rng).text]
    assert any("an orange" in text for text in asked) and any("crosses" in text for text in asked)
    assert not [text for text in asked if " a o" in text or "crosss" in text or " an " in text.replace(" an orange", "")]
