"""Step1X-Edit's own command line, by a stand-in that takes the same arguments and ends as the real one does."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scenes_for_edits import BOX, scene

from mug_eval.counterfactual.editors import Edit, EditFailed, open_editor, run_edit, run_edits
from mug_eval.counterfactual.editors.step1x_cli import Step1XCLI, Step1XCommand
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError

# As the authors' inference.py: the folder's name made longer by the options, a picture for each entry of the JSON file in its
# order, and a mean over all but the first picture at the end, which fails where there was only one.
STAND_IN = """
import argparse, json, os, subprocess, sys, time
from PIL import Image, ImageOps
parser = argparse.ArgumentParser()
for name in ("model_path", "input_dir", "output_dir", "json_path"):
    parser.add_argument("--" + name, type=str, required=True)
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--num_steps", type=int, default=28)
parser.add_argument("--cfg_guidance", type=float, default=6.0)
parser.add_argument("--size_level", default=512, type=int)
parser.add_argument("--offload", action="store_true")
parser.add_argument("--quantized", action="store_true")
parser.add_argument("--lora", type=str, default=None)
args = parser.parse_args()
folder = args.output_dir.rstrip("/") + "-offload" * args.offload + "-quantized" * args.quantized + "-" + str(args.size_level)
os.makedirs(folder, exist_ok=True)
with open(os.path.join(args.model_path, "calls.jsonl"), "a") as calls:
    print(json.dumps(dict(vars(args), prompts=json.load(open(args.json_path)))), file=calls)
took = []
for name, prompt in json.load(open(args.json_path)).items():
    picture = Image.open(os.path.join(args.input_dir, name)).convert("RGB")
    if "die" in prompt:
        sys.exit("torch.OutOfMemoryError: CUDA out of memory")
    if "hang" in prompt:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        with open(os.path.join(args.model_path, "part"), "w") as file:
            file.write(str(child.pid))
        os.rename(file.name, os.path.join(args.model_path, "child"))
        time.sleep(600)
    if "skip" not in prompt:
        ImageOps.solarize(picture, args.seed).save(os.path.join(folder, name), lossless=True)
    took.append(1.0)
print("average time", sum(took[1:]) / len(took[1:]))
"""


@pytest.fixture
def command(tmp_path: Path) -> Step1XCommand:
    (tmp_path / "Step1X-Edit").mkdir()
    (tmp_path / "Step1X-Edit" / "inference.py").write_text(STAND_IN)
    (tmp_path / "weights").mkdir()
    return Step1XCommand(str(tmp_path / "Step1X-Edit"), str(tmp_path / "weights"), sys.executable)


def calls(command: Step1XCommand) -> list[dict[str, object]]:
    return [json.loads(line) for line in (Path(command.weights) / "calls.jsonl").read_text().splitlines()]


def plan(words: str) -> EditPlan:
    return EditPlan("remove", "ball", BOX, instruction=words)


def test_one_picture_counts_though_the_command_ends_in_an_error(command: Step1XCommand) -> None:
    after = run_edit(Step1XCLI(replace(command, size_level=1024, quantized=True, offload=True)), scene(), plan("Remove “it”."), 7)
    assert after.size == (240, 180) and np.asarray(after).max() > 7
    (call,) = calls(command)
    assert call["prompts"] == {"0.png": "Remove “it”."}
    assert (call["seed"], call["size_level"], call["quantized"], call["offload"], call["num_steps"]) == (7, 1024, True, True, 28)


def test_the_pictures_of_one_seed_share_a_start_and_come_back_in_order(command: Step1XCommand) -> None:
    pictures = [scene(), scene(colour=(20, 20, 220)), scene(colour=(20, 200, 20)), scene()]
    words = ["Remove it.", "skip this", " ", "Paint it."]
    edits = [Edit(picture, plan(text), seed) for picture, text, seed in zip(pictures, words, (5, 5, 5, 9), strict=True)]
    results = run_edits(Step1XCLI(command), edits)
    assert [isinstance(result, Image.Image) for result in results] == [True, False, False, True]
    assert "made no picture of it" in results[1].reason and "no instruction" in results[2].reason  # type: ignore[union-attr]
    assert [call["seed"] for call in calls(command)] == [5, 9]
    assert run_edit(Step1XCLI(command), pictures[0], plan("x"), 5).tobytes() == results[0].tobytes()  # type: ignore[union-attr]


def test_a_command_that_can_make_no_picture_at_all_is_the_users_to_mend(command: Step1XCommand) -> None:
    broken = Path(command.folder) / command.script
    broken.write_text("import sys; sys.exit('torch.OutOfMemoryError: CUDA out of memory')")
    with pytest.raises(UserError, match="CUDA out of memory"):
        Step1XCLI(command).edit(scene(), plan("ok"), 1)


def test_a_first_picture_that_the_command_fails_at_is_that_pictures_failure(command: Step1XCommand) -> None:
    editor = Step1XCLI(command)
    with pytest.raises(EditFailed, match="CUDA out of memory"):  # a plain picture went well: this one was too much
        editor.edit(scene(), plan("die"), 1)
    run_edit(editor, scene(), plan("ok"), 1)
    assert len(calls(command)) == 3, "the plain picture is asked for once"


def test_an_instruction_that_no_file_can_hold_is_mended(command: Step1XCommand) -> None:
    run_edit(Step1XCLI(command), scene(), plan("Remove \ud83d it\0."), 1)
    assert calls(command)[0]["prompts"] == {"0.png": "Remove ? it ."}


def test_a_command_that_hangs_is_ended_with_all_it_started(command: Step1XCommand) -> None:
    noted = Path(command.weights) / "child"
    for seconds in (2.0, 16.0, 128.0):
        editor = Step1XCLI(replace(command, start_timeout=seconds, timeout=0.5))
        with pytest.raises((EditFailed, UserError), match=rf"no end after {seconds + 0.5:g} s"):
            editor.edit(scene(), plan("hang"), 1)
        if noted.exists():  # else the machine is too slow for it to have started anything
            break
    child = int(noted.read_text())
    until = time.monotonic() + 60
    while runs(child):
        assert time.monotonic() < until, "a process was left behind"
        time.sleep(0.05)


def runs(process: int) -> bool:
    try:
        return "(zombie)" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_what_is_missing_is_said_before_anything_starts(command: Step1XCommand, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no inference\.py"):
        Step1XCLI(replace(command, folder=str(tmp_path)))
    with pytest.raises(UserError, match="no folder of weights"):
        Step1XCLI(replace(command, weights=str(tmp_path / "none")))
    with pytest.raises(UserError, match="cannot be started"):
        Step1XCLI(replace(command, python="/no/such/python")).edit(scene(), plan("x"), 1)


def test_a_file_names_the_command(command: Step1XCommand, tmp_path: Path) -> None:
    file = tmp_path / "step1x.yaml"
    file.write_text(f"folder: {command.folder}\nweights: {command.weights}\npython: {sys.executable}\nsteps: 4\n")
    editor = open_editor(f"step1x-cli:{file}")
    assert "steps 4" in editor.fingerprint and str(tmp_path) not in editor.fingerprint
    run_edit(editor, scene(), plan("x"), 3)
