"""Opening a Hugging Face model: what is light at once, so that a mistake is one clear line; the weights when the first call comes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mug_eval.backbones.model_folder import folder_hash
from mug_eval.chat import MisconfiguredError
from mug_eval.errors import UserError

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}

_PROCESSOR = ("processor_config.json", "preprocessor_config.json")
"""Files of which a model that takes pictures has one or both, by the version of transformers that wrote them."""


_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Opened:
    """A model without its weights.

    Attributes:
        name: hub name or folder, as given.
        config: its configuration.
        processor: of ``AutoProcessor``, or the tokenizer if it sees no pictures.
        generation: its ``generation_config``: decoding defaults and end tokens.
        sees: whether it takes pictures.
        content: what tells it from every other model: the hub's commit, or a hash of the folder's files.
        device: ``cpu``, ``cuda``, ``cuda:1``, ``mps``, or ``spread`` over all cards.
        dtype: of weights and computation.
    """

    name: str
    config: Any
    processor: Any
    generation: Any
    sees: bool
    content: str
    device: str
    dtype: torch.dtype

    @property
    def label(self) -> str:
        """The hub name, or the last part of a folder's: what is recorded of a question must not tell where a machine keeps its models."""
        folder = Path(self.name).expanduser()
        return folder.resolve().name if folder.is_dir() else self.name

    @property
    def context(self) -> int | None:
        """Most tokens of prompt and reply, if the configuration says."""
        most = getattr(self.config.get_text_config(), "max_position_embeddings", None)
        return int(most) if most else None


def open_model(name: str, device: str = "auto", dtype: str = "auto") -> Opened:
    """Read configuration, processor and tokenizer.

    Args:
        name: hub name, or a folder.
        device: ``auto`` is the first GPU if there is one, spread over all of them if one is too small.
        dtype: ``bf16``, ``fp16``, ``fp32``; ``auto`` is bf16 on a GPU and fp32 on a CPU.

    Raises:
        UserError: no such model, no model in the folder, no such device, or too little memory for the weights.
    """
    try:
        from transformers import AutoConfig, AutoProcessor, AutoTokenizer, GenerationConfig
        from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
    except ImportError as error:
        raise UserError(f"hf:{name} needs transformers 5.24 or newer: pip install 'mug-eval[local]' ({error})") from error
    folder = Path(name).expanduser()
    is_folder = folder.is_dir()
    if not is_folder and (name.startswith((".", "/", "~")) or name.count("/") != 1):
        raise UserError(f"hf:{name}: no such folder, and a model of the hub is OWNER/NAME")
    if is_folder and not (folder / "config.json").is_file():
        raise UserError(f"hf:{name}: the folder holds no model (no config.json in it)")
    source = str(folder) if is_folder else name
    try:
        config = AutoConfig.from_pretrained(source)
        sees = type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
        if sees and is_folder and not any((folder / file).is_file() for file in _PROCESSOR):
            raise UserError(
                f"hf:{name}: the folder says nothing of how pictures are prepared (no {_PROCESSOR[0]}, no {_PROCESSOR[1]} in it); put "
                "the model's own beside config.json"
            )
        processor = (AutoProcessor if sees else AutoTokenizer).from_pretrained(source)
    except (OSError, ValueError, KeyError) as error:
        raise _cannot_open(name, is_folder, error) from error
    if sees and getattr(processor, "image_token", None) is None:
        raise UserError(f"hf:{name}: its processor has no picture placeholder; let vlmevalkit:NAME or a server play it")
    if not _reads(getattr(processor, "tokenizer", processor)):
        raise UserError(
            f"hf:{name} has no vocabulary: its tokenizer's files (tokenizer.json) are not there; put them beside config.json"
        )
    if getattr(processor, "chat_template", None) is None:
        if getattr(getattr(processor, "tokenizer", None), "chat_template", None) is None:
            raise UserError(f"hf:{name} has no chat template: it is no instruction-tuned model")
        processor.chat_template = processor.tokenizer.chat_template
    try:
        generation = GenerationConfig.from_pretrained(source)
    except OSError:
        generation = GenerationConfig.from_model_config(config)
    content = folder_hash(folder) if is_folder else str(getattr(config, "_commit_hash", None) or "unknown revision")
    place = _device(name, device)
    kind = _dtype(name, dtype, place)
    wanted = _stored_weights(name, folder, kind, config) if is_folder else _weights_to_come(config, sees, kind)
    place = _room_for(name, wanted, place, spread=device == "auto")
    return Opened(name, config, processor, generation, sees, content, place, kind)


def load_weights(opened: Opened) -> Any:
    """The model with its weights, in evaluation mode.

    Raises:
        MisconfiguredError: the files cannot be had or read, do not hold all of the model, or there is too little memory.
    """
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    folder = Path(opened.name).expanduser()
    source = str(folder) if folder.is_dir() else opened.name
    options: dict[str, Any] = {"dtype": opened.dtype}
    if opened.device == "spread":
        options["device_map"] = "auto"
    elif opened.device != "cpu":
        options["device_map"] = opened.device
    if (attention := attention_of(opened.config, opened.device, opened.dtype)) is not None:
        options["attn_implementation"] = attention
    auto = AutoModelForImageTextToText if opened.sees else AutoModelForCausalLM
    try:
        with _bars_on_a_terminal_only():
            model, found = auto.from_pretrained(source, output_loading_info=True, **options)
    except (torch.OutOfMemoryError, MemoryError) as error:
        wanted = _weights_to_come(opened.config, opened.sees, opened.dtype)
        size = "more than there is" if wanted is None else f"{wanted / 2**30:.1f} GiB"
        raise MisconfiguredError(
            f"hf:{opened.name} wants {size} for its weights alone and does not fit into the memory of {opened.device} "
            f"({memory_line(opened.device)}): choose a smaller model, another --device, or let a server play it (--base-url)"
        ) from error
    except Exception as error:
        raise MisconfiguredError(str(_cannot_open(opened.name, folder.is_dir(), error))) from error
    absent = sorted(found["missing_keys"])
    if absent:
        # transformers goes on with random numbers in their place, which would be scored as if it were the model.
        raise MisconfiguredError(
            f"hf:{opened.name}: the weights lack {len(absent)} of the model's parameters ({absent[0]}, ...): the files are another "
            "model's or not all there; fetch them anew"
        )
    return model.eval()


@contextlib.contextmanager
def _bars_on_a_terminal_only() -> Iterator[None]:
    """A loading bar in a log is many lines of noise."""
    from transformers.utils import logging

    hide = logging.is_progress_bar_enabled() and not sys.stderr.isatty()
    if hide:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        if hide:
            logging.enable_progress_bar()


def attention_of(config: Any, device: str, dtype: torch.dtype, installed: bool | None = None) -> dict[str, str] | None:
    """Which attention each part is to use; None: what transformers takes by itself (``sdpa``).

    FlashAttention 2, where it is installed, serves the vision tower, whose pictures of unlike sizes it takes without a mask. The language
    model's is ours (:mod:`mug_eval.backbones.packed_prompts`), and that builds on ``sdpa``.

    Args:
        config: the model's.
        device: as opened.
        dtype: of the weights; FlashAttention knows the 16-bit ones only.
        installed: whether FlashAttention 2 is; None: look.
    """
    if installed is None:
        from transformers.utils import is_flash_attn_2_available

        installed = bool(is_flash_attn_2_available())
    on_gpu = device == "spread" or device.startswith("cuda")
    if not installed or not on_gpu or dtype not in (torch.bfloat16, torch.float16) or "vision_config" not in config.sub_configs:
        return None
    return {part: "flash_attention_2" if part == "vision_config" else "sdpa" for part in config.sub_configs}


def free_memory(device: str) -> int | None:
    """Bytes that are free where the model is (over all cards if it is spread), or None where nobody says."""
    if device == "spread":
        return sum(int(torch.cuda.mem_get_info(i)[0]) for i in range(torch.cuda.device_count()))
    if device.startswith("cuda"):
        return int(torch.cuda.mem_get_info(torch.device(device))[0])
    if device == "cpu":
        try:
            with Path("/proc/meminfo").open() as file:
                available = next(int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable"))
            left = _limit_of_this_process()
            return available if left is None else min(available, left)
        except (OSError, StopIteration):
            return None
    return None


def memory_line(device: str) -> str:
    """``3.2 GiB free on cuda:0``."""
    free = free_memory(device)
    return f"memory of {device} unknown" if free is None else f"{free / 2**30:.1f} GiB free on {device}"


def _limit_of_this_process() -> int | None:
    """Bytes left under the control group's limit, where there is one (version 2, as in containers)."""
    try:
        most = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        used = Path("/sys/fs/cgroup/memory.current").read_text().strip()
        return None if most == "max" else max(0, int(most) - int(used))
    except (OSError, ValueError):
        return None


def _reads(tokenizer: Any) -> bool:
    """Whether a tokenizer has a vocabulary; where its files are missing transformers makes one without."""
    tokens = tokenizer("Is there a dog?", add_special_tokens=False)["input_ids"]
    return len(set(tokens)) > 1


def _weights_to_come(config: Any, sees: bool, dtype: torch.dtype) -> int | None:
    """Bytes of the weights, counted on the model without its numbers; None if it cannot be built like that."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    auto = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    try:
        with torch.device("meta"):
            model = auto.from_config(config)
    except Exception:  # whatever a model's own code raises: loading it will say what is wrong
        return None
    return int(sum(parameter.numel() for parameter in model.parameters()) * dtype.itemsize)


def _stored_weights(name: str, folder: Path, dtype: torch.dtype, config: Any) -> int:
    """Bytes that the weights in a folder will take.

    Raises:
        UserError: there are none.
    """
    stored = sum(path.stat().st_size for pattern in ("*.safetensors", "*.bin") for path in folder.glob(pattern))
    if not stored:
        raise UserError(f"hf:{name}: the folder holds no weights (no .safetensors file in it)")
    was = getattr(config, "dtype", None)
    return int(stored * dtype.itemsize // (was.itemsize if isinstance(was, torch.dtype) else dtype.itemsize))


def _room_for(name: str, wanted: int | None, device: str, *, spread: bool) -> str:
    """The device, if the weights fit into its memory; all cards together if only they have room and the user left it to us.

    Raises:
        UserError: they fit nowhere.
    """
    free = free_memory(device)
    if free is None or wanted is None or wanted <= free:
        return device
    if spread and device.startswith("cuda") and torch.cuda.device_count() > 1 and wanted <= (free_memory("spread") or 0):
        return "spread"
    raise UserError(
        f"hf:{name} wants {wanted / 2**30:.1f} GiB for its weights alone, and there are {memory_line(device)}: choose a smaller model, "
        "another --device or --dtype bf16, or let a server play it (--base-url)"
    )


def _device(name: str, device: str) -> str:
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "spread":
        if not torch.cuda.is_available():
            raise UserError(f"hf:{name}: --device spread is for GPUs, and there is none here; leave it out for the CPU")
        return device
    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise UserError(f"--device {device}: name one of auto, cpu, cuda, cuda:1, spread, mps") from None
    if kind == "cuda" and (torch.device(device).index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {device}: there is no such GPU here ({torch.cuda.device_count()} of them)")
    return device


def _dtype(name: str, dtype: str, device: str) -> torch.dtype:
    if dtype == "auto":
        return torch.float32 if device == "cpu" else torch.bfloat16
    if dtype not in DTYPES:
        raise UserError(f"--dtype {dtype}: name one of auto, {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _cannot_open(name: str, is_folder: bool, error: Exception) -> UserError:
    words = " ".join(str(error).split())
    reason = words if len(words) <= _LONGEST_REASON else words[: _LONGEST_REASON - 1] + "…"
    if is_folder:
        return UserError(f"hf:{name}: the folder holds no model that transformers can open ({type(error).__name__}: {reason})")
    offline = (
        "offline mode is on"
        if os.environ.get("HF_HUB_OFFLINE") == "1"
        else "it is not in the local cache and the hub was not reached"
    )
    return UserError(
        f"hf:{name} cannot be opened: no such model, or {offline}. Where there is a network, `hf download {name} --local-dir DIR` "
        "fetches it; then name the folder: hf:DIR"
    )
