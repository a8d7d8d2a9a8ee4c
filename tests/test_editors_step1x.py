"""Step1X-Edit by diffsynth: its own pipeline and layers at the least size they can have, with random weights.

Where the real model's widths are fixed in diffsynth, they are kept; there is one block of each kind instead of 57.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image
from scenes_for_edits import BOX, scene

from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError

pytest.importorskip("diffsynth", reason="needs mug-eval[step1x]")

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from mug_eval.counterfactual.editors import EditFailed, run_edit
from mug_eval.counterfactual.editors.step1x import Step1XEditor, Step1XSettings

# diffsynth looks for Qwen2.5's own token numbers, so the small tokenizer has as many.
SPECIAL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    *(f"<|{part}_{end}|>" for part in ("object_ref", "box", "quad", "vision") for end in ("start", "end")),
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
FIRST_SPECIAL = 151_643
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}Picture 1: <|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def small_encoder() -> tuple[Any, Any]:
    """A Qwen2.5-VL of width 32 as diffsynth holds it, and its processor."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLModel, Qwen2_5_VLProcessor, Qwen2TokenizerFast
    from transformers.models.qwen2_vl import Qwen2VLImageProcessor
    from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: number for number, letter in enumerate(letters)}
    vocabulary |= {f"<filler {number}>": number for number in range(len(letters), FIRST_SPECIAL)}
    bare = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bare.decoder = decoders.ByteLevel()
    bare.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer = Qwen2TokenizerFast(
        tokenizer_object=bare, eos_token="<|im_end|>", pad_token="<|endoftext|>", unk_token="<|endoftext|>"
    )
    assert tokenizer.convert_tokens_to_ids("<|vision_end|>") == 151_653
    config = Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "vocab_size": FIRST_SPECIAL + len(SPECIAL),
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 3, 3]},
        },
        vision_config={
            "hidden_size": 32,
            "depth": 2,
            "num_heads": 4,
            "intermediate_size": 64,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
            "window_size": 56,
        },
        image_token_id=151_655,
        video_token_id=151_656,
        vision_start_token_id=151_652,
        vision_end_token_id=151_653,
    )

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Qwen2_5_VLModel(config).to(torch.bfloat16)
            self.config = config.text_config

    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(min_pixels=28 * 28 * 4, max_pixels=28 * 28 * 16),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=TEMPLATE,
    )
    return Encoder(), processor


def random_weights(module: Any) -> Any:
    """The module made real on the CPU, in bf16, with small random weights."""
    module = module.to(torch.bfloat16).to_empty(device="cpu")
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
        else:
            torch.nn.init.constant_(parameter, float(name.endswith("weight")))
    return module.eval()


@pytest.fixture(scope="module")
def pipeline() -> Any:
    from diffsynth.models.flux_dit import FluxDiT
    from diffsynth.models.flux_vae import FluxVAEDecoder, FluxVAEEncoder
    from diffsynth.models.step1x_connector import Qwen2Connector
    from diffsynth.models.step1x_text_encoder import Step1xEditEmbedder
    from diffsynth.pipelines.flux_image import FluxImagePipeline

    torch.manual_seed(0)
    pipe = FluxImagePipeline(device="cpu", torch_dtype=torch.bfloat16)
    with torch.device("meta"):
        dit = FluxDiT(disable_guidance_embedder=True, num_blocks=1)
        dit.single_blocks = dit.single_blocks[:1]
        connector = Qwen2Connector(in_channels=32, depth=1)
        encoder, decoder = FluxVAEEncoder(), FluxVAEDecoder()
    pipe.dit, pipe.step1x_connector = random_weights(dit), random_weights(connector)
    pipe.vae_encoder, pipe.vae_decoder = random_weights(encoder), random_weights(decoder)
    pipe.qwenvl = Step1xEditEmbedder(*small_encoder(), device="cpu")
    return pipe


def plan(words: str) -> EditPlan:
    return EditPlan("remove", "ball", BOX, instruction=words)


def test_an_edit_has_the_pictures_size_and_follows_its_seed(pipeline: Any) -> None:
    editor = Step1XEditor(Step1XSettings(steps=1, most_pixels=64 * 48, device="cpu"), lambda: pipeline)
    once = run_edit(editor, scene(), plan('Remove the ball that says "red".'), 1)
    assert once.size == (240, 180)
    again, other = (editor.edit(scene(), plan('Remove the ball that says "red".'), seed) for seed in (1, 2))
    assert again.tobytes() == once.tobytes()
    assert np.abs(np.asarray(other).astype(int) - np.asarray(once)).max() > 0
    with pytest.raises(EditFailed, match="instruction"):
        editor.edit(scene(), plan(" "), 1)


def test_files_that_are_not_the_models_say_so(tmp_path: Any) -> None:
    with pytest.raises(UserError, match=r"holds no step1x-edit-i1258\.safetensors"):
        Step1XEditor(Step1XSettings(model=str(tmp_path)))
    empty = type("Pipe", (), {"qwenvl": None})()
    with pytest.raises(UserError, match="did not recognise"):
        Step1XEditor(load=lambda: empty).edit(Image.new("RGB", (64, 64)), plan("x"), 1)
