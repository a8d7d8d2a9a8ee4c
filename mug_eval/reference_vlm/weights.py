"""The trained model's folder: written from a checkpoint, loaded as any Qwen2.5-VL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor

from mug_eval.errors import UserError
from mug_eval.reference_vlm import checkpoint
from mug_eval.reference_vlm.checkpoint import Standing
from mug_eval.reference_vlm.model import full_processor, new_model

SHIPPED = Path(__file__).with_name("weights")
"""The folder in the package."""


def export(trained: Path, tokenizer: Path, out: Path, dtype: torch.dtype = torch.float32) -> Standing:
    """Turn a checkpoint into a folder that ``from_pretrained`` loads.

    Args:
        trained: a checkpoint of the training.
        tokenizer: the tokenizer's folder beside it.
        out: the folder to write.
        dtype: of the weights; float16 halves the file.

    Returns:
        How far the training was.
    """
    vocabulary = AutoTokenizer.from_pretrained(tokenizer)
    model = new_model(len(vocabulary), 0)
    standing = checkpoint.load(trained, {"model": model})
    model.to(dtype).save_pretrained(out, safe_serialization=True)
    full_processor(vocabulary).save_pretrained(out)
    return standing


def load(folder: Path = SHIPPED) -> tuple[Any, Any]:
    """The model in float32, ready to generate, and its processor.

    Raises:
        UserError: there are no weights in the folder.
    """
    if not (folder / "model.safetensors").is_file():
        raise UserError(f"no weights in {folder}: python -m mug_eval.reference_vlm.train --out FOLDER makes them")
    model = Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    return model, Qwen2_5_VLProcessor.from_pretrained(folder)
