"""diffusers pipelines as editors: three classes, small random weights, saved and loaded by ``from_pretrained``."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scenes_for_edits import BOX, scene

from mug_eval.counterfactual.editors import Edit, EditFailed, open_editor, run_edit, run_edits
from mug_eval.counterfactual.editors.diffusers_editor import DiffusersEditor, PipelineSettings
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError

pytest.importorskip("diffusers", reason="needs mug-eval[diffusion]")

import tiny_editors

KINDS = {
    "pix2pix": PipelineSettings(
        "", "StableDiffusionInstructPix2PixPipeline", call={"num_inference_steps": 2}, batch=3, multiple=16, most_pixels=64 * 48
    ),
    "kontext": PipelineSettings(
        "",
        "FluxKontextPipeline",
        call={"num_inference_steps": 2, "max_area": 64 * 48, "_auto_resize": False},
        batch=3,
        most_pixels=64 * 48,
    ),
    "qwen": PipelineSettings(
        "", "QwenImageEditPipeline", call={"num_inference_steps": 2, "negative_prompt": " "}, sized=False, most_pixels=128 * 96
    ),
}
PICTURE = scene().resize((128, 96))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("pipelines")
    return {
        "pix2pix": tiny_editors.save_instruct_pix2pix(place / "pix2pix"),
        "kontext": tiny_editors.save_flux_kontext(place / "kontext"),
        "qwen": tiny_editors.save_qwen_image_edit(place / "qwen", place),
    }


@pytest.fixture
def opened(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], DiffusersEditor]:
    from diffusers.pipelines.qwenimage import pipeline_qwenimage_edit

    whole = pipeline_qwenimage_edit.calculate_dimensions  # a megapixel, whatever the model's size
    monkeypatch.setattr(pipeline_qwenimage_edit, "calculate_dimensions", lambda area, ratio: whole(128 * 96, ratio))
    return lambda kind: DiffusersEditor(kind, replace(KINDS[kind], model=str(folders[kind])))


def plan(words: str = "Remove the red ball.") -> EditPlan:
    return EditPlan("remove", "ball", BOX, instruction=words)


def apart(one: Image.Image | EditFailed, other: Image.Image | EditFailed) -> float:
    assert isinstance(one, Image.Image) and isinstance(other, Image.Image)
    return float(np.abs(np.asarray(one).astype(int) - np.asarray(other)).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_has_the_pictures_size_and_follows_seed_words_and_picture(
    kind: str, opened: Callable[[str], DiffusersEditor]
) -> None:
    editor = opened(kind)
    once = run_edit(editor, PICTURE, plan(), 1)
    assert once.size == PICTURE.size
    assert apart(once, run_edit(editor, PICTURE, plan(), 1)) == 0
    assert apart(once, run_edit(editor, PICTURE, plan(), 2)) > 0.5
    assert apart(once, run_edit(editor, PICTURE, plan("Paint all of it in green, as bright as can be"), 1)) > 0
    other = Image.fromarray(255 - np.asarray(PICTURE))
    assert apart(once, run_edit(editor, other, plan(), 1)) > 0
    assert run_edit(opened(kind), PICTURE, plan(), 1).tobytes() == once.tobytes(), "loaded again"


@pytest.mark.parametrize("kind", KINDS)
def test_many_at_once_are_what_each_is_alone(kind: str, opened: Callable[[str], DiffusersEditor]) -> None:
    editor = opened(kind)
    narrow = PICTURE.resize((96, 128))
    pictures = [PICTURE, narrow, Image.fromarray(255 - np.asarray(PICTURE)), PICTURE]
    edits = [Edit(picture, plan(f"Remove thing {number}."), number) for number, picture in enumerate(pictures)]
    edits.insert(2, Edit(PICTURE, plan(" "), 9))
    results = run_edits(editor, edits[:3]) + run_edits(editor, edits[3:])
    failed = results.pop(2)
    assert isinstance(failed, EditFailed) and "instruction" in failed.reason
    for result, edit in zip(results, edits[:2] + edits[3:], strict=True):
        assert apart(result, run_edit(editor, edit.image, edit.plan, edit.seed)) < 0.5


def test_a_batch_is_one_call(opened: Callable[[str], DiffusersEditor], monkeypatch: pytest.MonkeyPatch) -> None:
    editor = opened("pix2pix")
    run_edit(editor, PICTURE, plan(), 1)
    sizes: list[int] = []
    pipe = type(editor._pipe)
    whole = pipe.__call__

    def counting(self: object, *arguments: object, **options: object) -> object:
        sizes.append(len(options["prompt"]) if isinstance(options["prompt"], list) else 1)  # type: ignore[arg-type]
        return whole(self, *arguments, **options)

    counting.__signature__ = inspect.signature(whole)  # type: ignore[attr-defined]
    monkeypatch.setattr(pipe, "__call__", counting)
    run_edits(editor, [Edit(PICTURE, plan(), seed) for seed in range(4)])
    assert sizes == [3, 1]


def test_the_fingerprint_tells_weights_and_settings_apart(folders: dict[str, Path], tmp_path: Path) -> None:
    settings = replace(KINDS["pix2pix"], model=str(folders["pix2pix"]))
    prints = {DiffusersEditor("e", settings).fingerprint}
    prints.add(DiffusersEditor("e", replace(settings, call={"num_inference_steps": 3})).fingerprint)
    prints.add(DiffusersEditor("e", replace(settings, dtype="bf16")).fingerprint)
    other = tmp_path / "pix2pix"
    shutil.copytree(folders["pix2pix"], other)
    assert DiffusersEditor("e", replace(settings, model=str(other))).fingerprint in prints, "a copy is the same model"
    other = shutil.copytree(other, tmp_path / "changed" / "pix2pix")
    weights = next((other / "unet").glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + bytes([weights.read_bytes()[-1] ^ 1]))
    prints.add(DiffusersEditor("e", replace(settings, model=str(other))).fingerprint)
    assert len(prints) == 4
    assert not any(str(folders["pix2pix"].parent) in each for each in prints), "no path of this machine"


def test_a_file_of_ones_own_opens_a_pipeline_by_its_class(folders: dict[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"model: {folders['pix2pix']}\npipeline: StableDiffusionInstructPix2PixPipeline\nmultiple: 16\n"
        "call: {num_inference_steps: 1, guidance_scale: 5.0}\n"
    )
    assert run_edit(open_editor(f"diffusers:{file}"), PICTURE, plan(), 1).size == PICTURE.size
    assert run_edit(open_editor(f"diffusers:{folders['pix2pix']}"), PICTURE, plan(), 1).size == PICTURE.size


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pipeline": "FluxKontextPipelin"}, "did you mean FluxKontextPipeline"),
        ({"call": {"num_inference_step": 2}}, "did you mean num_inference_steps"),
        ({"call": {"prompt": "mine"}}, "cannot be given 'prompt'"),
        ({"dtype": "int4"}, "dtype must be"),
        ({"device": "cpu", "offload": "model"}, "needs a GPU"),
        ({"model": "/no/such/folder"}, "no such folder"),
    ],
)
def test_what_no_picture_can_mend_is_the_users_one_line(change: dict[str, object], says: str, folders: dict[str, Path]) -> None:
    settings = replace(KINDS["pix2pix"], model=str(folders["pix2pix"]))
    with pytest.raises(UserError, match=says) as caught:
        DiffusersEditor("mine", replace(settings, **change)).edit(PICTURE, plan(), 1)
    assert "\n" not in str(caught.value)


def test_a_folder_without_a_pipeline_and_weights_that_are_torn_say_so(folders: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model_index\.json"):
        DiffusersEditor("mine", PipelineSettings(str(tmp_path)))
    torn = tmp_path / "torn"
    shutil.copytree(folders["pix2pix"], torn)
    next((torn / "unet").glob("*.safetensors")).write_bytes(b"\0" * 10)
    with pytest.raises(UserError, match="cannot be loaded"):
        DiffusersEditor("mine", replace(KINDS["pix2pix"], model=str(torn))).edit(PICTURE, plan(), 1)
