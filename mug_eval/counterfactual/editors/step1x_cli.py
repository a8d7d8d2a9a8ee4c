"""Step1X-Edit by its authors' own command line (``inference.py`` of their repository), in an environment of the user's.

Each call starts the command, which loads its weights anew, so many pictures are handed to it at once: those of one seed in one JSON
file, as it wants them. It writes them into a folder whose name it makes longer by its options.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import Image

from mug_eval.counterfactual.editors.editor import Edit, EditFailed, as_picture, instruction
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError
from mug_eval.images import ImageError

_SAID = 4096
_PLAIN_WORDS = "Make the picture a little brighter."
_Work = dict[int, tuple[Image.Image, str]]
_Made = dict[int, Image.Image | EditFailed]


@dataclass(frozen=True, slots=True)
class Step1XCommand:
    """How the command is called.

    Attributes:
        folder: the authors' repository, with ``inference.py`` in it; the command runs there.
        weights: the folder with their weights (``--model_path``).
        python: the interpreter of their environment.
        size_level: the side of the square whose area pictures are edited at.
        steps: diffusion steps.
        guidance: strength of classifier-free guidance.
        offload: keep only what is at work on the GPU.
        quantized: FP8 weights.
        lora: a file of LoRA weights, or "".
        batch: pictures for one start of the command.
        start_timeout: seconds for loading the weights.
        timeout: seconds more for each picture.
        script: the command, in ``folder``.
    """

    folder: str
    weights: str
    python: str = "python"
    size_level: int = 512
    steps: int = 28
    guidance: float = 6.0
    offload: bool = False
    quantized: bool = False
    lora: str = ""
    batch: int = 16
    start_timeout: float = 900.0
    timeout: float = 180.0
    script: str = "inference.py"


class Step1XCLI:
    """The command as an editor.

    Args:
        command: how it is called.

    Raises:
        UserError: no such repository or weights.
    """

    name: Final = "step1x-cli"
    inventive: Final = True

    def __init__(self, command: Step1XCommand) -> None:
        self._folder, self._weights = (Path(each).expanduser().absolute() for each in (command.folder, command.weights))
        if not (self._folder / command.script).is_file():
            raise UserError(f"step1x-cli: no {command.script} in {self._folder}; give the folder of Step1X-Edit's repository")
        if not self._weights.is_dir():
            raise UserError(f"step1x-cli: there is no folder of weights {self._weights}")
        self._command = command
        self._worked = False

    @property
    def batch(self) -> int:
        """Pictures for one start of the command."""
        return self._command.batch

    @property
    def fingerprint(self) -> str:
        """The weights' folder by name, and the options that change pictures."""
        c = self._command
        lora = f" lora {Path(c.lora).name}" if c.lora else ""
        low = f"{' quantized' * c.quantized}{' offload' * c.offload}"
        return f"step1x-cli:{self._weights.name} size {c.size_level} steps {c.steps} guidance {c.guidance:g}{low}{lora}"

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        """See ``Editor.edit``; :meth:`edit_many` loads the weights less often.

        Raises:
            EditFailed: the command made no picture of this one.
            UserError: it does not start, or has not made any picture yet.
        """
        result = self.edit_many([Edit(image, plan, seed)])[0]
        if isinstance(result, EditFailed):
            raise result
        return result

    def edit_many(self, edits: Sequence[Edit]) -> Sequence[Image.Image | EditFailed]:
        """See ``BatchEditor.edit_many``: the command is started once for each seed among the edits."""
        results: dict[int, Image.Image | EditFailed] = {}
        by_seed: dict[int, dict[int, tuple[Image.Image, str]]] = {}
        for number, edit in enumerate(edits):
            try:
                by_seed.setdefault(edit.seed, {})[number] = (edit.image, instruction(edit.plan))
            except EditFailed as failure:
                results[number] = failure
        for seed, work in by_seed.items():
            results |= self._start(seed, work)
        return [results[number] for number in range(len(edits))]

    def close(self) -> None:
        """Nothing is held: the command ends after each call."""

    def _start(self, seed: int, work: _Work) -> _Made:
        results, how = self._made_by(seed, work)
        if not self._worked and not _any_picture(results) and not _any_picture(self._made_by(0, {0: (_plain(), _PLAIN_WORDS)})[0]):
            raise UserError(f"step1x-cli made no picture, nor one of a plain gradient; {how}")
        self._worked = True
        return results

    def _made_by(self, seed: int, work: _Work) -> tuple[_Made, str]:
        """What one start of the command makes, and how it ended."""
        with tempfile.TemporaryDirectory(prefix="step1x-") as temporary:
            place = Path(temporary)
            (place / "in").mkdir()
            for number, (image, _) in work.items():
                image.convert("RGB").save(place / "in" / f"{number}.png")
            prompts = {f"{number}.png": words for number, (_, words) in work.items()}
            (place / "prompts.json").write_text(json.dumps(prompts, ensure_ascii=False), encoding="utf-8")
            ended, said = self._run(place, seed, len(work))
            how = f"{ended}; it said: {said or 'nothing'}"
            return {number: _made(place, f"{number}.png", how) for number in work}, how

    def _run(self, place: Path, seed: int, count: int) -> tuple[str, str]:
        """Run the command to its end; how it ended, and its last words.

        With one picture it ends in an error after it has written it (its closing line divides by the number of further pictures), so
        that only the pictures tell whether it worked.
        """
        c = self._command
        options = {
            "--model_path": self._weights,
            "--input_dir": place / "in",
            "--output_dir": place / "out",
            "--json_path": place / "prompts.json",
            "--seed": seed,
            "--num_steps": c.steps,
            "--cfg_guidance": c.guidance,
            "--size_level": c.size_level,
        } | ({"--lora": Path(c.lora).expanduser().absolute()} if c.lora else {})
        arguments = [c.python, c.script, *(str(part) for option in options.items() for part in option)]
        arguments += ["--offload"] * c.offload + ["--quantized"] * c.quantized
        with (place / "said").open("w+b") as said:
            try:
                process = subprocess.Popen(
                    arguments,
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise UserError(f"step1x-cli: {c.python} cannot be started: {error.strerror or error}") from error
            limit = c.start_timeout + count * c.timeout
            try:
                code = process.wait(limit)
                ended = f"exit code {code}"
            except subprocess.TimeoutExpired:
                ended = f"no end after {limit:g} s"
            finally:
                _end(process)
            said.seek(max(0, os.fstat(said.fileno()).st_size - _SAID))
            lines = said.read().decode(errors="replace").replace("\r", "\n").split("\n")
        return ended, next((" ".join(line.split())[:300] for line in reversed(lines) if line.strip()), "")


def _made(place: Path, name: str, ended: str) -> Image.Image | EditFailed:
    """The picture that the command wrote, from the folder ``out`` with whatever it added to that name."""
    for folder in sorted(place.glob("out*")):
        if (folder / name).is_file():
            try:
                return as_picture((folder / name).read_bytes())
            except (OSError, ImageError) as error:
                return EditFailed(f"step1x-cli wrote a picture that cannot be read: {error}")
    return EditFailed(f"step1x-cli made no picture of it ({ended})")


def _any_picture(results: _Made) -> bool:
    return any(isinstance(result, Image.Image) for result in results.values())


def _plain() -> Image.Image:
    """What any editor can edit: a command that makes nothing of it is set up wrongly, one that does was at odds with the picture before."""
    return Image.linear_gradient("L").convert("RGB")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and what it started, by their group, if it has not ended."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
