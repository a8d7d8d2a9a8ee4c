"""Step1X-Edit, the MUG paper's editor, in this process: by diffsynth, which has the official v1.0 weights' architecture."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from PIL import Image

from mug_eval.backbones.model_folder import folder_hash
from mug_eval.counterfactual.editors.canvas import Canvas
from mug_eval.counterfactual.editors.editor import EditFailed, instruction
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError

_WEIGHTS = "step1x-edit-i1258.safetensors"
_AUTOENCODER = "vae.safetensors"


@dataclass(frozen=True, slots=True)
class Step1XSettings:
    """How Step1X-Edit is run; the defaults are its authors'.

    Attributes:
        model: the model's name on the hub that diffsynth asks, or a folder with ``step1x-edit-i1258.safetensors`` and
            ``vae.safetensors``.
        encoder: name or folder of Qwen2.5-VL-7B-Instruct, which reads picture and instruction.
        steps: diffusion steps.
        guidance: strength of classifier-free guidance.
        most_pixels: larger pictures are edited at this size and brought back.
        device: ``auto`` is the first GPU if there is one.
        fp8: keep the weights in 8 bits (31 to 34 GB instead of 42 to 50).
    """

    model: str = "stepfun-ai/Step1X-Edit"
    encoder: str = "Qwen/Qwen2.5-VL-7B-Instruct"
    steps: int = 28
    guidance: float = 6.0
    most_pixels: int = 1_048_576
    device: str = "auto"
    fp8: bool = False


class Step1XEditor:
    """Step1X-Edit as an editor; its weights are loaded at the first edit, and it is called by one thread at a time.

    Args:
        settings: how it is run.
        load: makes the ``FluxImagePipeline``, if not from the settings' files.

    Raises:
        UserError: diffsynth is missing, or the folders do not hold what they should.
    """

    name: Final = "step1x"
    batch: Final = 1
    inventive: Final = True

    def __init__(self, settings: Step1XSettings | None = None, load: Callable[[], Any] | None = None) -> None:
        self._settings = s = settings or Step1XSettings()
        self._loaded = load or self._from_files
        try:
            self._flux: Any = importlib.import_module("diffsynth.pipelines.flux_image")
        except ImportError as error:
            raise UserError(f"step1x needs diffsynth: pip install 'mug-eval[step1x]' ({error})") from error
        model, encoder = Path(s.model).expanduser(), Path(s.encoder).expanduser()
        for file in (_WEIGHTS, _AUTOENCODER):
            if model.is_dir() and not (model / file).is_file():
                raise UserError(f"step1x: {model} holds no {file}")
        contents = [f"{folder.name}:{folder_hash(folder)}" if folder.is_dir() else str(folder) for folder in (model, encoder)]
        self._content = " ".join(contents)
        self._pipe: Any = None
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """The weights, and every setting that changes pictures."""
        s = self._settings
        return f"step1x:{self._content} steps {s.steps} guidance {s.guidance:g} pixels {s.most_pixels}{' fp8' * s.fp8}"

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        """See ``Editor.edit``.

        Raises:
            EditFailed: the plan has no instruction, or the model failed at this picture.
            UserError: the weights cannot be loaded, or there is too little memory.
        """
        import torch

        words = instruction(plan)
        canvas = Canvas.of_area(image.size, self._settings.most_pixels, 16)
        with self._lock:
            self._pipe = self._pipe or _with_working_processor(self._loaded())
            try:
                made = self._pipe(
                    prompt=words,
                    negative_prompt="",
                    step1x_reference_image=canvas.laid(image),
                    width=canvas.size[0],
                    height=canvas.size[1],
                    cfg_scale=self._settings.guidance,
                    num_inference_steps=self._settings.steps,
                    seed=seed,
                    rand_device="cpu",  # so that a seed means the same on every machine
                    progress_bar_cmd=list,
                )
            except torch.OutOfMemoryError as error:
                raise UserError("step1x: too little GPU memory; lower most_pixels or set fp8: true") from error
            except (RuntimeError, ValueError, IndexError) as error:
                raise EditFailed(f"step1x failed: {' '.join(str(error).split())[:200]}") from error
        return canvas.cut(made)

    def close(self) -> None:
        """Let go of the weights."""
        with self._lock:
            self._pipe = None

    def _from_files(self) -> Any:
        import torch

        s = self._settings
        device = s.device if s.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
        kept = (
            {"offload_dtype": torch.float8_e4m3fn, "offload_device": device, "onload_dtype": torch.float8_e4m3fn} if s.fp8 else {}
        )
        kept |= {"onload_device": device, "preparing_dtype": torch.float8_e4m3fn, "preparing_device": device} if s.fp8 else {}
        kept |= {"computation_dtype": torch.bfloat16, "computation_device": device} if s.fp8 else {}

        def files(source: str, pattern: str) -> Any:
            folder = Path(source).expanduser()
            if not folder.is_dir():
                return self._flux.ModelConfig(model_id=source, origin_file_pattern=pattern, **kept)
            found = sorted(str(path) for path in folder.glob(pattern))
            if not found:
                raise UserError(f"step1x: {folder} holds no {pattern}")
            return self._flux.ModelConfig(path=found if len(found) > 1 else found[0], **kept)

        encoder = Path(s.encoder).expanduser()
        at = {"path": str(encoder)} if encoder.is_dir() else {"model_id": s.encoder, "origin_file_pattern": ""}
        try:
            return self._flux.FluxImagePipeline.from_pretrained(
                torch_dtype=torch.bfloat16,
                device=device,
                model_configs=[files(s.encoder, "model*.safetensors"), files(s.model, _WEIGHTS), files(s.model, _AUTOENCODER)],
                tokenizer_1_config=None,  # of FLUX's own text encoders, which Step1X does without
                tokenizer_2_config=None,
                step1x_processor_config=self._flux.ModelConfig(**at),
            )
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            raise UserError(f"step1x: the weights cannot be loaded: {' '.join(str(error).split())[:300]}") from error


def _with_working_processor(pipe: Any) -> Any:
    """Let diffsynth's encoder call processors of transformers 5, which take no text without pictures by the keywords it uses.

    Raises:
        UserError: the pipeline has no encoder: the files are not those of Qwen2.5-VL.
    """
    embedder = getattr(pipe, "qwenvl", None)
    if embedder is None or getattr(pipe, "step1x_connector", None) is None or getattr(pipe, "dit", None) is None:
        raise UserError("step1x: diffsynth did not recognise the weights of Step1X-Edit and Qwen2.5-VL-7B-Instruct")
    embedder.processor = _Processor(embedder.processor)
    return pipe


class _Processor:
    """A processor whose call for text alone goes to its tokenizer."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, text: Any = None, images: Any = None, videos: Any = None, **options: Any) -> Any:
        if images is None:
            return self._processor.tokenizer(text if isinstance(text, list) else [text], **options)
        return self._processor(text=text, images=images, **options)
