"""Any picture-editing pipeline of diffusers, by its class and call arguments."""

from __future__ import annotations

import hashlib
import inspect
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from PIL import Image

from mug_eval.backbones.model_folder import folder_hash
from mug_eval.counterfactual.editors.canvas import Canvas
from mug_eval.counterfactual.editors.editor import Edit, EditFailed, instruction
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError
from mug_eval.names import nearest

Offload = Literal["none", "model", "sequential"]
_OWN = ("image", "prompt", "generator", "output_type", "return_dict", "num_images_per_prompt")


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """A pipeline and how it is called.

    Attributes:
        model: name on the Hugging Face hub, or a folder.
        pipeline: its class in diffusers; "" for the one that the model itself names.
        revision: branch, tag or commit on the hub; a commit makes the fingerprint exact.
        call: arguments of every call (``num_inference_steps``, ``guidance_scale``, ...).
        most_pixels: larger pictures are edited at this size and brought back.
        multiple: what the sides of a picture must be multiples of.
        sized: whether the call is given ``height`` and ``width`` (of those pipelines that do not take them from the picture).
        batch: pictures of one size in one call; 1 for pipelines that take a list of pictures to be one picture's references.
        device: ``auto`` is the first GPU if there is one.
        dtype: ``bf16``, ``fp16``, ``fp32``; ``auto`` is bf16 on a GPU and fp32 on a CPU.
        offload: ``model`` keeps one part of the pipeline at a time on the GPU, ``sequential`` one layer (slow).
    """

    model: str
    pipeline: str = ""
    revision: str = ""
    call: Mapping[str, Any] = field(default_factory=dict)
    most_pixels: int = 1_048_576
    multiple: int = 16
    sized: bool = True
    batch: int = 1
    device: str = "auto"
    dtype: str = "auto"
    offload: Offload = "none"


class DiffusersEditor:
    """A pipeline as an editor; its weights are loaded at the first edit, and it is called by one thread at a time.

    Every picture has a generator of its own, so that it is the same in whatever batch it is made.

    Args:
        name: as the user names it.
        settings: the pipeline.

    Raises:
        UserError: diffusers is missing, no such class, no model in the folder, a setting that cannot be.
    """

    inventive: Final = True

    def __init__(self, name: str, settings: PipelineSettings) -> None:
        self.name: Final = name
        self.batch: Final = max(1, settings.batch)
        self._settings = settings
        self._class = _pipeline_class(name, settings)
        self._content = _content(name, settings)
        self._pipe: Any = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Class, model, revision or hash of the folder, number format, diffusers' version and the call's arguments."""
        import diffusers

        s = self._settings
        call = json.dumps(dict(s.call), sort_keys=True, default=str)
        place = f"{s.most_pixels}/{s.multiple}{' sized' * s.sized}"
        return f"diffusers:{self._class.__name__} {self._content} {s.dtype} {diffusers.__version__} {place} {call}"

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        """See ``Editor.edit``.

        Raises:
            EditFailed: the plan has no instruction, or the pipeline failed at this picture or withheld it.
            UserError: the model cannot be loaded, the call does not take its arguments, or there is too little memory.
        """
        result = self.edit_many([Edit(image, plan, seed)])[0]
        if isinstance(result, EditFailed):
            raise result
        return result

    def edit_many(self, edits: Sequence[Edit]) -> Sequence[Image.Image | EditFailed]:
        """See ``BatchEditor.edit_many``: pictures that are worked at in one size share a call."""
        results: dict[int, Image.Image | EditFailed] = {}
        ready: dict[tuple[int, int], list[tuple[int, Edit, str, Canvas]]] = {}
        for number, edit in enumerate(edits):
            canvas = Canvas.of_area(edit.image.size, self._settings.most_pixels, self._settings.multiple)
            try:
                ready.setdefault(canvas.size, []).append((number, edit, instruction(edit.plan), canvas))
            except EditFailed as failure:
                results[number] = failure
        with self._lock:
            for size, work in ready.items():
                for start in range(0, len(work), self.batch):
                    part = work[start : start + self.batch]
                    made = self._call(size, [(canvas.laid(edit.image), words, edit.seed) for _, edit, words, canvas in part])
                    for (number, _, _, canvas), picture in zip(part, made, strict=True):
                        results[number] = _cut(canvas, picture)
        return [results[number] for number in range(len(edits))]

    def close(self) -> None:
        """Let go of the weights."""
        with self._lock:
            self._pipe = None

    def _call(self, size: tuple[int, int], work: Sequence[tuple[Image.Image, str, int]]) -> Iterator[Image.Image | EditFailed]:
        import torch

        pipe = self._pipe = self._pipe or self._load()
        images, words, seeds = zip(*work, strict=True)
        generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        arguments = {**self._settings.call, "output_type": "pil"}
        if self._settings.sized and {"height", "width"} <= set(inspect.signature(pipe.__call__).parameters):
            arguments = {"width": size[0], "height": size[1]} | arguments
        one = len(work) == 1
        try:
            with torch.inference_mode():
                output = pipe(
                    image=images[0] if one else list(images),
                    prompt=words[0] if one else list(words),
                    generator=generators[0] if one else generators,
                    **arguments,
                )
        except torch.OutOfMemoryError as error:
            raise UserError(
                f"{self.name}: too little GPU memory for {len(work)} pictures of {size[0]}x{size[1]}; "
                "lower batch or most_pixels, or set offload: model"
            ) from error
        except (RuntimeError, ValueError, IndexError) as error:
            return iter([EditFailed(f"{type(self._pipe).__name__} failed: {' '.join(str(error).split())[:200]}")] * len(work))
        pictures = list(output.images)
        withheld = getattr(output, "nsfw_content_detected", None) or [False] * len(pictures)
        if len(pictures) != len(work):
            return iter([EditFailed(f"{type(self._pipe).__name__} gave {len(pictures)} pictures for {len(work)}")] * len(work))
        reason = EditFailed("the pipeline's safety checker withheld the picture")
        return iter([reason if no else picture for picture, no in zip(pictures, withheld, strict=True)])

    def _load(self) -> Any:
        """The pipeline with its weights.

        Raises:
            UserError: the files cannot be had or read, or the call does not take its arguments.
        """
        import torch

        s = self._settings
        device = s.device if s.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
        formats = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
        dtype = formats[s.dtype] if s.dtype != "auto" else torch.float32 if device == "cpu" else torch.bfloat16
        folder = Path(s.model).expanduser()
        source = str(folder) if folder.is_dir() else s.model
        try:
            pipe = self._class.from_pretrained(source, torch_dtype=dtype, **({"revision": s.revision} if s.revision else {}))
        except (OSError, ValueError, KeyError, ImportError, TypeError) as error:
            words = " ".join(str(error).split())[:300]
            raise UserError(f"{self.name}: {s.model} cannot be loaded as {self._class.__name__}: {words}") from error
        taken = inspect.signature(pipe.__call__).parameters
        if "image" not in taken or "prompt" not in taken:
            raise UserError(f"{self.name}: {type(pipe).__name__} does not edit pictures (it takes no image with a prompt)")
        wrong = [argument for argument in s.call if argument not in taken or argument in _OWN]
        if wrong:
            close = nearest(wrong[0], [argument for argument in taken if argument not in _OWN])
            hint = f"; did you mean {' or '.join(close)}?" if close else ""
            raise UserError(f"{self.name}: {type(pipe).__name__} cannot be given {wrong[0]!r} in call{hint}")
        pipe.set_progress_bar_config(disable=True)
        if s.offload == "none":
            return pipe.to(device)
        if device == "cpu":
            raise UserError(f"{self.name}: offload {s.offload} needs a GPU")
        offload = pipe.enable_model_cpu_offload if s.offload == "model" else pipe.enable_sequential_cpu_offload
        offload(device=device)
        return pipe


def _pipeline_class(name: str, settings: PipelineSettings) -> Any:
    try:
        import diffusers
    except ImportError as error:
        raise UserError(f"{name} needs diffusers: pip install 'mug-eval[diffusion]' ({error})") from error
    if settings.dtype not in ("auto", "bf16", "fp16", "fp32"):
        raise UserError(f"{name}: dtype must be auto, bf16, fp16 or fp32, not {settings.dtype!r}")
    if settings.offload not in ("none", "model", "sequential"):
        raise UserError(f"{name}: offload must be none, model or sequential, not {settings.offload!r}")
    if not settings.pipeline:
        return diffusers.DiffusionPipeline
    known = [each for each in dir(diffusers) if each.endswith("Pipeline")]
    if settings.pipeline not in known:
        close = nearest(settings.pipeline, known)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise UserError(f"{name}: diffusers {diffusers.__version__} has no pipeline {settings.pipeline!r}{hint}")
    return getattr(diffusers, settings.pipeline)


def _content(name: str, settings: PipelineSettings) -> str:
    """What tells the model from others: a hash of its folder's files, or its name and revision on the hub."""
    folder = Path(settings.model).expanduser()
    if not folder.is_dir():
        if settings.model.startswith((".", "/", "~")) or settings.model.count("/") != 1:
            raise UserError(f"{name}: no such folder {settings.model}, and a model of the hub is OWNER/NAME")
        return f"{settings.model}@{settings.revision or 'main'}"
    if not (folder / "model_index.json").is_file():
        raise UserError(f"{name}: {folder} holds no pipeline (no model_index.json in it)")
    digest = hashlib.sha256(folder_hash(folder).encode())
    for part in sorted(path for path in folder.iterdir() if path.is_dir()):
        digest.update(f"{part.name}:{folder_hash(part)}".encode())
    return f"{folder.name}:{digest.hexdigest()[:16]}"


def _cut(canvas: Canvas, picture: Image.Image | EditFailed) -> Image.Image | EditFailed:
    if isinstance(picture, EditFailed):
        return picture
    try:
        return canvas.cut(picture)
    except EditFailed as failure:
        return failure
