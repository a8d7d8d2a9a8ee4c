"""The opencv editor changes what the plan says, and nothing outside of the target's neighbourhood."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from scenes_for_edits import BOX, RED, ground, reddish, scene, sign

from mug_eval.counterfactual.editors import EditFailed, run_edit
from mug_eval.counterfactual.editors.opencv import OpenCVEditor
from mug_eval.counterfactual.editors.opencv.colour import named_colour
from mug_eval.counterfactual.editors.opencv.fill import fill
from mug_eval.counterfactual.editors.opencv.leftovers import with_leftovers
from mug_eval.counterfactual.editors.opencv.masks import outline
from mug_eval.counterfactual.editors.opencv.region import neighbourhood
from mug_eval.counterfactual.plan import EditPlan

EDITOR = OpenCVEditor()
OTHER = (150, 72, 190, 122)
PLANS = [
    EditPlan("remove", "ball", BOX),
    EditPlan("add", "ball", BOX),
    EditPlan("add", "ball", BOX, to_box=OTHER),
    EditPlan("recolour", "ball", BOX, "blue"),
    EditPlan("replace", "ball", BOX, "green"),
    EditPlan("resize", "ball", BOX, "smaller"),
    EditPlan("resize", "ball", BOX, "1.6"),
    EditPlan("move", "ball", BOX),
    EditPlan("move", "ball", BOX, "right"),
    EditPlan("move", "ball", BOX, to_box=OTHER),
    EditPlan("mirror", "ball", BOX, to_box=(120, 60, 150, 130)),
]


def edited(plan: EditPlan, picture: Image.Image | None = None, seed: int = 1) -> Image.Image:
    return run_edit(EDITOR, picture or scene(), plan, seed)


def red_box(picture: Image.Image) -> tuple[int, int, int, int]:
    ys, xs = np.nonzero(reddish(picture))
    return int(xs.min()), int(ys.min()), int(xs.max()) + 1, int(ys.max()) + 1


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.kind} {plan.to}{plan.to_box or ''}")
def test_outside_of_the_neighbourhoods_every_pixel_is_as_it_was(plan: EditPlan) -> None:
    before, after = scene(rough=9), edited(plan, scene(rough=9))
    places = EDITOR.touched(before, plan, 1)
    assert places[0] == neighbourhood(BOX, before.size) == (52, 62, 108, 128), "8 pixels around a box of 40 x 50"
    apart = np.asarray(before) != np.asarray(after)
    assert apart.any()
    for left, top, right, bottom in places:
        apart[top:bottom, left:right] = False
    assert not apart.any()


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.kind} {plan.to}{plan.to_box or ''}")
def test_the_same_seed_gives_the_same_pixels_in_any_thread(plan: EditPlan) -> None:
    once = edited(plan).tobytes()
    found: list[bytes] = []
    edited(PLANS[0], scene(colour=(20, 60, 200)), seed=9)  # whatever was edited before
    threads = [threading.Thread(target=lambda: found.append(edited(plan).tobytes())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [once, once]


def test_another_seed_fills_and_places_differently() -> None:
    assert edited(PLANS[0], seed=1).tobytes() != edited(PLANS[0], seed=2).tobytes()
    wide = scene(width=640)
    assert len({EDITOR.touched(wide, PLANS[1], seed) for seed in range(8)}) > 1


@pytest.mark.parametrize("rough", [2.0, 14.0], ids=["smooth ground", "rough ground"])
def test_what_is_removed_is_gone_and_the_ground_goes_on(rough: float) -> None:
    after = np.asarray(edited(PLANS[0], scene(rough=rough))).astype(int)
    truth = ground(rough=rough).astype(int)
    assert not reddish(Image.fromarray(after.astype(np.uint8))).any()
    place = (slice(BOX[1], BOX[3]), slice(BOX[0], BOX[2]))
    assert abs(after[place].mean() - truth[place].mean()) < 4
    grain = [np.std(np.diff(picture[place].mean(axis=2), axis=1)) for picture in (after, truth)]
    assert 0.4 < grain[0] / grain[1] < 1.6, "neither a blur nor a noise"


def test_a_pattern_goes_on_through_a_hole() -> None:
    y, x = np.mgrid[:120, :160]
    pattern = np.where((x // 6 + y // 6) % 2, 220, 40).astype(np.uint8)[..., None].repeat(3, axis=2)
    hole = np.zeros(pattern.shape[:2], bool)
    hole[45:75, 60:96] = True
    holed = pattern.copy()
    holed[hole] = 255
    filled = fill(holed, hole, 3)
    assert (filled[~hole] == holed[~hole]).all()
    right = np.abs(filled[hole].astype(int) - pattern[hole]) < 60
    assert right.mean() > 0.9


def test_one_more_is_like_the_first_and_beside_it() -> None:
    before, after = scene(), edited(PLANS[1])
    count = reddish(before).sum()
    assert 1.3 * count < reddish(after).sum() < 2.3 * count
    own, new = EDITOR.touched(before, PLANS[1], 1)
    assert (reddish(after) & ~reddish(before)).sum() == (reddish(after) & ~reddish(before))[new[1] : new[3], new[0] : new[2]].sum()
    assert abs(own[3] - new[3]) <= 8, "on the same height"


def test_what_is_moved_is_there_and_no_longer_here() -> None:
    after = edited(PLANS[9])
    left, top, right, bottom = red_box(after)
    assert max(abs(left - OTHER[0]), abs(top - OTHER[1]), abs(right - OTHER[2]), abs(bottom - OTHER[3])) <= 4


def test_mirrored_the_two_stand_in_each_others_place() -> None:
    blue = np.array(scene(OTHER, (40, 60, 200), rough=9))
    both = np.array(scene(rough=9))
    both[60:132, 140:200] = blue[60:132, 140:200]
    after = edited(EditPlan("mirror", "red ball", BOX, to_box=OTHER), Image.fromarray(both))
    left, top, right, bottom = red_box(after)
    assert max(abs(left - OTHER[0]), abs(top - OTHER[1]), abs(right - OTHER[2]), abs(bottom - OTHER[3])) <= 4
    pixels = np.asarray(after).astype(int)
    ys, xs = np.nonzero((pixels[..., 2] - pixels[..., 0] > 60) & (pixels[..., 2] - pixels[..., 1] > 60))
    assert max(abs(xs.min() - BOX[0]), abs(ys.min() - BOX[1]), abs(xs.max() + 1 - BOX[2]), abs(ys.max() + 1 - BOX[3])) <= 4
    ring = np.ones(pixels.shape[:2], bool)
    for box in (BOX, OTHER):
        ring[box[1] - 3 : box[3] + 3, box[0] - 3 : box[2] + 3] = False
    assert np.abs(pixels - ground(rough=9).astype(int))[ring].max() < 90, "no rest of either beside it"


@pytest.mark.parametrize(("size", "factor"), [("smaller", 0.6), ("half as large", 0.5), ("150 %", 1.5), ("twice as big", 2.0)])
def test_another_size_stands_on_the_same_foot(size: str, factor: float) -> None:
    left, _, right, bottom = red_box(edited(EditPlan("resize", "ball", BOX, size)))
    assert right - left == pytest.approx(40 * factor, rel=0.12)
    assert bottom == pytest.approx(BOX[3], abs=3) and (left + right) / 2 == pytest.approx(80, abs=3)


@pytest.mark.parametrize("colour", ["blue", "dark green", "yellow", "black", "white", "light purple", "#1e90ff"])
def test_another_colour_keeps_light_and_shade(colour: str) -> None:
    import cv2

    after = edited(EditPlan("recolour", "ball", BOX, colour))
    wanted = named_colour(colour)
    assert wanted is not None
    lab = cv2.cvtColor(np.asarray(after).astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    heart = lab[85:105, 70:90].reshape(-1, 3)
    assert np.hypot(*(heart[:, 1:].mean(axis=0) - wanted[1:])) < 16
    assert abs(heart[:, 0].mean() - wanted[0]) < 22
    assert lab[78:84, 76:84, 0].mean() > lab[108:114, 76:84, 0].mean() + 3, "still lit from above"
    assert not reddish(after)[80:110, 70:90].any()


def test_only_the_main_colour_is_painted() -> None:
    picture = np.asarray(scene()).copy()
    picture[88:100, 72:88] = (235, 235, 240)  # a white label
    after = np.asarray(edited(EditPlan("recolour", "ball", BOX, "blue"), Image.fromarray(picture)))
    assert np.abs(after[90:98, 74:86].astype(int) - (235, 235, 240)).max() < 30


def test_new_words_stand_where_the_old_ones_stood() -> None:
    before, box = sign("STOP")
    after = edited(EditPlan("retext", 'the word "STOP"', box, "SLOW"), before)
    ink = np.asarray(after).astype(int)[..., 0] < 100
    old = np.asarray(before).astype(int)[..., 0] < 100
    ys, xs = np.nonzero(ink)
    old_ys, old_xs = np.nonzero(old)
    assert abs(ys.min() - old_ys.min()) <= 3 and abs(ys.max() - old_ys.max()) <= 3
    assert abs((xs.min() + xs.max()) - (old_xs.min() + old_xs.max())) <= 8
    assert (ink ^ old).sum() > 0.2 * old.sum(), "other letters"
    same = np.asarray(edited(EditPlan("retext", 'the word "STOP"', box, "STOPS"), before)).astype(int)[..., 0] < 100
    assert (same & old).sum() > 0, "the ink is as dark"


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (EditPlan("remove", "ball", (400, 400, 450, 450)), "outside of the picture"),
        (EditPlan("remove", "ball", (-90, 0, 30, 60)), "outside of the picture"),
        (EditPlan("remove", "ball", (60, 70, 66, 120)), "too small to edit: 6x50"),
        (EditPlan("remove", "everything", (2, 2, 238, 178)), "fills more than"),
        (EditPlan("move", "ball", BOX, to_box=(230, 170, 300, 260)), "outside"),
        (EditPlan("move", "ball", BOX, "sideways"), "no direction"),
        (EditPlan("move", "ball", (60, 20, 100, 70), "up and away"), "no room to move"),
        (EditPlan("resize", "ball", BOX, "somewhat"), "no size"),
        (EditPlan("resize", "ball", BOX, "1.05"), "no size"),
        (EditPlan("resize", "ball", (60, 2, 100, 52), "larger"), "no room for a larger"),
        (EditPlan("recolour", "ball", BOX, "striped"), "names no colour"),
        (EditPlan("recolour", "ball", BOX, "red"), "is red as it is"),
        (EditPlan("recolour", "ball", BOX, ""), "names no colour"),
        (EditPlan("replace", "ball", BOX, "a cat"), "without a model"),
        (EditPlan("add", "cat", OTHER, "a cat", OTHER), "holds no 'cat' to copy.*an editor that draws can"),
        (EditPlan("mirror", "ball", BOX), "with what is"),
        (EditPlan("mirror", "ball", BOX, to_box=(80, 70, 120, 120)), "overlap"),
        (EditPlan("mirror", "ball", BOX, to_box=(100, 2, 236, 178)), "fill more than"),
        (EditPlan("mirror", "ball", BOX, to_box=(202, 70, 240, 120)), "cut off by the picture's right edge"),
        (EditPlan("retext", "ball", (150, 20, 200, 40), "SLOW"), "no printed words"),
        (EditPlan("retext", "ball", BOX, " "), "no words are given"),
    ],
    ids=lambda value: value.kind if isinstance(value, EditPlan) else value,
)
def test_what_cannot_be_done_says_why(plan: EditPlan, reason: str) -> None:
    with pytest.raises(EditFailed, match=reason) as caught:
        edited(plan)
    assert "\n" not in caught.value.reason


def test_the_plate_that_words_stand_on_stays_and_the_new_ones_are_as_dark() -> None:
    picture = Image.fromarray(ground(rough=1.0) // 2)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(26)
    draw.rectangle((60, 60, 139, 99), fill=(235, 235, 235))
    draw.text((100, 80), "cat", fill=(15, 15, 15), font=font, anchor="mm")
    after = np.asarray(edited(EditPlan("retext", "cat sign", (52, 52, 148, 108), "owl"), picture)).astype(int)
    before = np.asarray(picture).astype(int)
    rim = np.zeros(before.shape[:2], bool)
    rim[60:100, 60:140] = True
    rim[66:94, 66:134] = False
    assert (after[rim] > 215).mean() > 0.97, "a white plate"
    outside = np.ones(before.shape[:2], bool)
    outside[60:100, 60:140] = False
    assert (after[outside] == before[outside]).all()
    ink, old = after[..., 0] < 60, before[..., 0] < 60
    ink[outside] = old[outside] = False
    assert 0.5 * old.sum() < ink.sum() < 2 * old.sum() and (ink ^ old).sum() > 0.3 * old.sum(), "other dark letters"


def test_words_that_do_not_fit_or_have_no_letters_are_refused() -> None:
    picture, box = sign("NO")
    with pytest.raises(EditFailed, match="does not fit"):
        edited(EditPlan("retext", '"NO"', box, "ABSOLUTELY FORBIDDEN"), picture)
    with pytest.raises(EditFailed, match="has no '止'"):
        edited(EditPlan("retext", '"NO"', box, "止"), picture)


def test_a_thing_cut_off_by_the_edge_does_not_stand_elsewhere() -> None:
    at_edge = (-20, 70, 20, 120)
    with pytest.raises(EditFailed, match="cut off by the picture's left edge"):
        edited(EditPlan("move", "ball", at_edge, to_box=OTHER), scene(at_edge))
    edited(EditPlan("remove", "ball", at_edge), scene(at_edge))


def test_a_greyscale_picture_takes_no_colour_but_other_edits() -> None:
    grey = scene(colour=(60, 60, 60)).convert("L").convert("RGB")
    with pytest.raises(EditFailed, match="greyscale"):
        edited(EditPlan("recolour", "ball", BOX, "blue"), grey)
    after = np.asarray(edited(PLANS[0], grey)).astype(int)
    assert after[75:115, 65:95].min() > 110
    assert np.ptp(after, axis=2).max() <= 2, "grey stays grey"


def test_a_thing_is_replaced_by_another_of_the_picture() -> None:
    picture = np.asarray(scene()).copy()
    blue = np.asarray(scene(OTHER, (40, 60, 200)))
    picture[60:130, 140:200] = blue[60:130, 140:200]
    after = edited(EditPlan("replace", "red ball", BOX, "blue ball", to_box=OTHER), Image.fromarray(picture))
    pixels = np.asarray(after).astype(int)
    assert not reddish(after).any()
    assert (pixels[85:105, 72:88, 2] > pixels[85:105, 72:88, 0] + 60).all()
    assert (np.asarray(after)[:, 140:] == picture[:, 140:]).all()


def test_a_huge_picture_is_worked_at_around_the_box_only(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = Image.new("RGB", (6000, 4000), (170, 170, 160))
    huge.paste(scene(), (3000, 2000))
    seen: list[tuple[int, ...]] = []

    def looking(picture: np.ndarray, box: tuple[int, int, int, int], seed: int, **options: bool) -> object:
        seen.append(picture.shape)
        return outline(picture, box, seed, **options)

    monkeypatch.setattr("mug_eval.counterfactual.editors.opencv.opencv_editor.outline", looking)
    box = (3060, 2070, 3100, 2120)
    after = edited(EditPlan("remove", "ball", box), huge)
    assert not reddish(after).any() and after.size == huge.size
    assert seen and all(max(shape[:2]) < 200 for shape in seen)


def test_a_huge_thing_is_removed_within_bounds() -> None:
    big = scene((600, 700, 1400, 1700), RED, width=2400, height=1800, rough=9)
    after = edited(EditPlan("remove", "ball", (600, 700, 1400, 1700)), big)
    assert reddish(after).mean() < 0.0005


def test_an_outline_follows_the_thing() -> None:
    found = outline(np.asarray(scene()), BOX, 0)
    truth = reddish(scene())
    assert found.clear
    assert (found.mask & truth).sum() / (found.mask | truth).sum() > 0.9
    assert not outline(ground(rough=6), BOX, 0).clear, "there is nothing in the box"


def test_on_smooth_ground_nothing_of_a_thing_is_left_over() -> None:
    picture = np.array(scene(rough=2.0))
    picture[52:58, 44:52] = picture[52:58, 118:126] = (40, 110, 60)  # a hand each side, far from the ball and unlike it
    after = np.asarray(edited(EditPlan("remove", "juggler", (40, 50, 130, 130)), Image.fromarray(picture))).astype(int)
    assert np.abs(after - ground(rough=2.0)).max() < 40


@pytest.mark.parametrize("rough", [2.0, 30.0], ids=["smooth ground", "rough ground"])
def test_what_stands_out_in_the_box_belongs_to_the_thing_unless_it_goes_on_beyond_or_all_the_ground_stands_out(
    rough: float,
) -> None:
    hole = reddish(scene())
    picture = np.array(scene(rough=rough))
    picture[52:58, 44:52] = (40, 110, 60)  # a hand
    picture[96:180, 120:128] = (30, 60, 30)  # a trunk
    found = with_leftovers(picture, (40, 50, 130, 130), hole)
    assert (found & hole == hole).all() and not found[100:, 116:].any()
    assert found[52:58, 44:52].all() == (rough < 3) and (rough < 3 or (found == hole).all())


def test_one_more_stands_on_free_ground_and_not_on_another_thing() -> None:
    row = np.asarray(scene((20, 70, 60, 120), width=240)).copy()
    for left in range(64, 240, 44):
        other = np.asarray(scene((left, 70, left + 40, 120), (60, 60, 140), width=240))
        row[66:124, left - 2 : left + 42] = other[66:124, left - 2 : left + 42]
    with pytest.raises(EditFailed, match="no free ground"):
        edited(EditPlan("add", "ball", (20, 70, 60, 120)), Image.fromarray(row))


def test_what_has_no_clear_outline_takes_no_block_of_its_ground_along_to_unlike_ground() -> None:
    halves = ground(rough=6)
    halves[:, 120:] = halves[:, 120:] // 3
    nothing = EditPlan("move", "mist", BOX, to_box=OTHER)
    with pytest.raises(EditFailed, match="a block of its ground would come along"):
        edited(nothing, Image.fromarray(halves))


def test_a_thing_that_does_not_reach_the_edge_is_not_cut_off_where_its_box_does() -> None:
    loose = (0, 60, 60, 122)
    after = edited(EditPlan("move", "ball", loose, to_box=(150, 60, 210, 122)), scene((14, 70, 54, 120)))
    left, _, _, bottom = red_box(after)
    assert left > 150 and bottom <= 125


def test_a_small_thing_in_a_wide_box_is_not_painted_together_with_its_ground() -> None:
    shades = np.random.default_rng(3).integers(45, 75, (13, 13, 1), np.uint8).repeat(14, 0).repeat(14, 1).repeat(3, 2)
    grain = np.random.default_rng(4).integers(0, 10, shades.shape, np.uint8)
    picture = Image.fromarray(shades + grain)
    ImageDraw.Draw(picture).regular_polygon((17, 17, 5), 5, fill=(240, 240, 240))
    plan = EditPlan("recolour", "small white star", (0, 0, 28, 28), "yellow")
    try:
        after = np.asarray(edited(plan, picture))
    except EditFailed as failure:
        assert "its ground" in failure.reason
    else:
        white = np.asarray(picture)[..., 2] > 200
        assert not (after != np.asarray(picture)).any(axis=2)[~white].any()
