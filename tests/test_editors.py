"""Whatever an editor gives back is looked at before it counts; editors are found by name."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scenes_for_edits import BOX, scene

from mug_eval.counterfactual.editor_catalogue import load_catalogue, parse_editor
from mug_eval.counterfactual.editors import (
    Edit,
    EditFailed,
    as_picture,
    open_editor,
    run_edit,
    run_edits,
)
from mug_eval.counterfactual.editors.canvas import Canvas
from mug_eval.counterfactual.editors.folder_editor import FolderEditor, picture_hash
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError

PLAN = EditPlan("remove", "the red ball", BOX, instruction="Remove the red ball.")


class Gives:
    """An editor that gives back what it is told to."""

    name = fingerprint = "gives"
    batch = 1
    inventive = True

    def __init__(self, result: object) -> None:
        self.result = result

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result  # type: ignore[return-value]

    def close(self) -> None: ...


class GivesMany(Gives):
    batch = 2

    def edit_many(self, edits: Sequence[Edit]) -> list[Image.Image | EditFailed]:
        return [self.result] * (len(edits) - 1)  # type: ignore[list-item]


def changed(picture: Image.Image) -> Image.Image:
    pixels = np.asarray(picture).copy()
    pixels[70:120, 60:100] = (30, 160, 60)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (None, "no picture but nothing"),
        (b"png", "no picture but bytes"),
        (scene().resize((120, 90)), "120x90 pixels for 240x180"),
        (Image.new("RGB", (240, 180)), "black frame"),
        (Image.new("RGB", (240, 180), (200, 0, 90)), "blank frame"),
        (scene(), "picture as it was"),
        (Image.fromarray(np.asarray(scene()) // 2 * 2), "picture as it was"),
        (EditFailed("no such thing"), "no such thing"),
    ],
)
def test_what_is_no_edit_ends_in_a_reason(result: object, reason: str) -> None:
    with pytest.raises(EditFailed, match=reason):
        run_edit(Gives(result), scene(), PLAN, 1)
    outcome = run_edits(Gives(result), [Edit(scene(), PLAN, 1)])
    assert isinstance(outcome[0], EditFailed) and reason in outcome[0].reason


def test_an_edit_comes_through_as_it_was_made() -> None:
    after = run_edit(Gives(changed(scene())), scene(), PLAN, 1)
    assert after.mode == "RGB" and after.tobytes() == changed(scene()).tobytes()
    with_alpha = changed(scene()).convert("RGBA")
    assert run_edit(Gives(with_alpha), scene(), PLAN, 1).mode == "RGB"


def test_a_black_picture_may_stay_black_where_it_was() -> None:
    night = Image.new("RGB", (60, 60))
    lit = night.copy()
    lit.paste((90, 90, 90), (10, 10, 20, 20))
    assert run_edit(Gives(lit), night, EditPlan("add", "lamp", (10, 10, 20, 20)), 0).tobytes() == lit.tobytes()


def test_a_batch_that_loses_a_picture_gives_none_of_them_away() -> None:
    edits = [Edit(scene(), PLAN, seed) for seed in range(3)]
    outcome = run_edits(GivesMany(changed(scene())), edits)
    assert len(outcome) == 3 and all(isinstance(result, EditFailed) for result in outcome)


def test_a_users_mistake_is_not_swallowed() -> None:
    with pytest.raises(UserError):
        run_edits(Gives(UserError("no server")), [Edit(scene(), PLAN, 1)])


@pytest.mark.parametrize("mode", ["L", "RGBA", "CMYK", "P", "I;16", "LA"])
def test_pictures_of_every_mode_become_rgb(mode: str) -> None:
    buffer = io.BytesIO()
    source = scene().convert("L") if mode == "I;16" else scene()
    picture = Image.fromarray(np.asarray(source).astype(np.uint16) * 257) if mode == "I;16" else source.convert(mode)
    picture.save(buffer, "TIFF" if mode == "CMYK" else "PNG")
    rgb = as_picture(buffer.getvalue())
    assert rgb.mode == "RGB" and rgb.size == (240, 180)
    assert np.asarray(rgb).mean() == pytest.approx(np.asarray(scene().convert("RGB")).mean(), abs=25)


def test_a_plan_without_an_inside_is_refused() -> None:
    with pytest.raises(ValueError, match="left < right"):
        EditPlan("remove", "ball", (10, 10, 10, 40))
    with pytest.raises(ValueError, match="left < right"):
        EditPlan("move", "ball", BOX, to_box=(50, 50, 20, 90))
    with pytest.raises(ValueError, match="unknown kind"):
        EditPlan("paint", "ball", BOX)  # type: ignore[arg-type]


def test_every_preset_says_what_it_is() -> None:
    catalogue = load_catalogue()
    assert {"opencv", "qwen-image-edit", "flux-kontext", "instruct-pix2pix", "step1x"} <= set(catalogue)
    assert all(entry.summary for entry in catalogue.values())
    assert parse_editor("diffusers:FluxKontextPipeline").settings == catalogue["flux-kontext"].settings


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("qwen-image-edti", "did you mean qwen-image-edit"),
        ("nothing", "name one of opencv"),
        ("difusers:x/y", "did you mean diffusers"),
        ("folder:", "write folder:WHAT"),
        ("step1x-cli:somewhere", "step1x-cli:FILE.yaml"),
        ("step1x-cli", "does not say which; write step1x-cli:FILE.yaml"),
        ("http:gpt-image-1", "where is it served"),
        ("diffusers:no/such/place", "OWNER/NAME"),
        ("folder:/no/such/place", "cannot be read"),
    ],
)
def test_a_name_that_is_none_says_what_to_do(name: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUG_EVAL_EDITOR_URL", raising=False)
    with pytest.raises(UserError, match=says) as caught:
        open_editor(name)
    assert "\n" not in str(caught.value)


def test_a_settings_file_with_a_misspelled_field_says_so(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("model: owner/name\nmost_pixel: 4096\n")
    with pytest.raises(UserError, match="most_pixels"):
        open_editor(f"diffusers:{file}")


@pytest.mark.parametrize(
    ("name", "missing", "command"),
    [
        ("qwen-image-edit", "diffusers", r"pip install 'mug-eval\[diffusion\]'"),
        ("step1x", "diffsynth", r"pip install 'mug-eval\[step1x\]'"),
        ("opencv", "cv2", "pip install opencv-python-headless"),
    ],
)
def test_a_missing_extra_is_one_line_with_the_command(name: str, missing: str, command: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from mug_eval.counterfactual.editors import open_editor\nfrom mug_eval.errors import UserError\n"
        f"try:\n    open_editor({name!r})\nexcept UserError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert len(said.splitlines()) == 1
    assert re.search(command, said)


def test_naming_an_editor_loads_no_heavy_package() -> None:
    code = (
        "import sys\n"
        "from mug_eval.counterfactual.editor_catalogue import parse_editor\n"
        "from mug_eval.counterfactual.editors import open_editor\n"
        "parse_editor('qwen-image-edit'), parse_editor('step1x'), open_editor('opencv')\n"
        "print([name for name in ('torch', 'diffusers', 'transformers', 'vlmeval', 'aiohttp') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_editors_name_in_a_store_tells_nothing_of_the_machine(tmp_path: Path) -> None:
    key = picture_hash(scene())
    (tmp_path / "hand").mkdir()
    changed(scene()).save(tmp_path / "hand" / f"{key}.png")
    assert open_editor(f"folder:{tmp_path / 'hand'}").name == "folder:hand"
    (tmp_path / "mine.yaml").write_text("model: gpt-image-1\nbase_url: http://127.0.0.1:9/v1\n")
    assert open_editor(f"http:{tmp_path / 'mine.yaml'}").name == "http:gpt-image-1"


def test_a_picture_made_by_hand_is_found_by_the_pixels_of_its_original(tmp_path: Path) -> None:
    key = picture_hash(scene())
    changed(scene()).save(tmp_path / f"{key}.png")
    editor = FolderEditor(tmp_path)
    assert run_edit(editor, scene(), PLAN, 3).tobytes() == changed(scene()).tobytes()
    other = scene(colour=(40, 40, 200))
    with pytest.raises(EditFailed, match=picture_hash(other)):
        editor.edit(other, PLAN, 3)
    for_removal = changed(changed(scene()))
    for_removal.putpixel((5, 5), (0, 0, 0))
    before = editor.fingerprint
    for_removal.save(tmp_path / f"{key}-remove.png")
    editor = FolderEditor(tmp_path)
    assert editor.edit(scene(), PLAN, 3).tobytes() == for_removal.tobytes()
    assert editor.fingerprint != before


def test_an_original_beside_its_edit_needs_no_hash(tmp_path: Path) -> None:
    scene().save(tmp_path / "ball.original.png")
    changed(scene()).save(tmp_path / "ball.png")
    assert FolderEditor(tmp_path).edit(scene(), PLAN, 0).tobytes() == changed(scene()).tobytes()
    (tmp_path / "ball.png").unlink()
    with pytest.raises(UserError, match="no edited picture ball"):
        FolderEditor(tmp_path)


def test_a_torn_file_made_by_hand_fails_that_picture_only(tmp_path: Path) -> None:
    (tmp_path / f"{picture_hash(scene())}.png").write_bytes(base64.b64decode("iVBORw0KGgo="))
    with pytest.raises(EditFailed, match="cannot be read"):
        FolderEditor(tmp_path).edit(scene(), PLAN, 0)


@pytest.mark.parametrize("size", [(240, 180), (400, 90), (90, 400), (37, 41), (3000, 2000)])
def test_what_is_laid_on_a_canvas_is_cut_out_of_it_again(size: tuple[int, int]) -> None:
    picture = scene().resize(size)
    canvas = Canvas.for_sizes(size, [(512, 512), (768, 512), (512, 768)])
    laid = canvas.laid(picture)
    assert laid.size == canvas.size
    back = canvas.cut(laid.resize((laid.width * 2, laid.height * 2)))
    assert back.size == size
    assert np.abs(np.asarray(back).astype(int) - np.asarray(picture)).mean() < 4
    with pytest.raises(EditFailed, match="gave back"):
        canvas.cut(laid.resize((canvas.size[0], canvas.size[1] // 2)))


def test_a_canvas_of_an_area_keeps_to_it_and_to_the_multiple() -> None:
    canvas = Canvas.of_area((4000, 3000), 1_048_576, 32)
    assert canvas.size[0] % 32 == canvas.size[1] % 32 == 0
    assert 0.9 * 1_048_576 < canvas.size[0] * canvas.size[1] <= 1_048_576
    assert Canvas.of_area((20, 300), 1_048_576, 16).size == (16, 288)


def test_the_hash_of_a_picture_is_of_size_and_pixels() -> None:
    picture = Image.new("RGB", (2, 1), (1, 2, 3))
    assert picture_hash(picture) == hashlib.sha256(b"2x1:" + bytes([1, 2, 3, 1, 2, 3])).hexdigest()
