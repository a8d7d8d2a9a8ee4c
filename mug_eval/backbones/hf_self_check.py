"""Whether a model's cache can be shared between calls: decided once, when it is opened, by trying it against the plain way."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from mug_eval.backbones.hf_prompt import PromptBuilder, decoded
from mug_eval.backbones.shared_runner import SharedRunner
from mug_eval.chat import ImageRef, Message
from mug_eval.images import load_image

TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 1e-1}
"""Most that logits may differ, relative to their length as vectors. A wrong position or mask moves them by far more in fp32; in bf16
batches of different size differ by some percent anyway."""


def self_check(runner: SharedRunner, builder: PromptBuilder, model: Any, processor: Any, sees: bool) -> str | None:
    """Compare a batch over cached prefixes with the plain way, on made-up pictures.

    Two rounds, so that the second finds its prefixes cached. Leaves nothing in the runner's caches.

    Returns:
        None if the two agree, else why the cache cannot be shared, in a line.
    """
    conversations = _conversations(sees)
    try:
        prompts = [builder.build(messages) for messages in conversations]
        for prompt in prompts:
            pictures = [decoded(image) for image in prompt.images]
            plain = _inputs(processor, prompt.text, pictures).to(model.device)
            if plain["input_ids"][0].tolist() != prompt.tokens.tolist():
                return "its processor makes other tokens of a conversation than of its parts"
        worst = 0.0
        for _ in range(2):
            found = runner.logits(prompts)
            for prompt, logits in zip(prompts, found, strict=True):
                plain = _inputs(processor, prompt.text, [decoded(image) for image in prompt.images]).to(model.device)
                expected = model(**plain, logits_to_keep=1).logits[0, -1].float()
                difference = (logits.float() - expected).norm() / expected.norm()
                worst = max(worst, float(difference))
                if not difference <= TOLERANCE.get(model.dtype, 1e-1):  # also when it is not a number
                    return f"with a shared cache its logits are off by {worst:.2g} of their length"
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    finally:
        runner.drop()
        runner.counts.__init__()  # type: ignore[misc]
    return None


def _inputs(processor: Any, text: str, pictures: Sequence[Image.Image]) -> Any:
    options = {"return_tensors": "pt", "add_special_tokens": False}
    if pictures:
        return processor(text=[text], images=[list(pictures)], **options)
    return getattr(processor, "tokenizer", processor)([text], **options)


def _conversations(sees: bool) -> list[list[Message]]:
    """Calls that fork at several places, of different length, about one picture, another, both, and none."""
    one, other = _noise(1, 128, 96), _noise(2, 96, 140)
    rules = (
        "Three agents look at a picture and talk about it in rounds. After each round they may vote about who is the odd one out. "
        * 2
    )
    system = Message("system", ("You answer questions about pictures.",))
    shown: list[tuple[ImageRef, ...]] = [(one,), (one,), (other,), (one, other), ()] if sees else [(), ()]
    tasks = [
        "You are Agent 1.",
        "You are Agent 2, who answers at length and with care.",
        "Say what you see.",
        "Compare them.",
        "Hello.",
    ]
    return [
        [system, Message("user", (*pictures, f"What is there?\n\n{rules}\n\n{task}"))]
        for pictures, task in zip(shown, tasks, strict=False)
    ]


def _noise(seed: int, width: int, height: int) -> ImageRef:
    pixels = random.Random(seed).randbytes(width * height * 3)
    buffer = io.BytesIO()
    Image.frombytes("RGB", (width, height), pixels).save(buffer, "PNG")
    return load_image(buffer.getvalue())
