"""The network: the real ``Qwen2_5_VLForConditionalGeneration`` at some two million parameters, and its picture processor."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2_5_VLProcessor
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

from mug_eval.reference_vlm.drawing import SIDE

PATCH = 14
MERGE = 2
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
"""Qwen's own normalisation."""
SYMBOLS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
"""Qwen's special tokens, numbered from 0 in this order."""
END_OF_TEXT, IM_START, IM_END, VISION_START, VISION_END, IMAGE_PAD, VIDEO_PAD = range(len(SYMBOLS))


def new_model(vocabulary: int, seed: int) -> Qwen2_5_VLForConditionalGeneration:
    """A model with drawn weights.

    Args:
        vocabulary: number of tokens.
        seed: of the weights.
    """
    config = Qwen2_5_VLConfig(
        vision_config={
            "depth": 3,
            "hidden_size": 96,
            "intermediate_size": 192,
            "num_heads": 3,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "out_hidden_size": 160,
            # Every block sees the whole picture, and the window is as large, so that no permutation takes place.
            "fullatt_block_indexes": [0, 1, 2],
            "window_size": SIDE,
            "initializer_range": 0.08,
        },
        text_config={
            "vocab_size": vocabulary,
            "hidden_size": 160,
            "intermediate_size": 448,
            "num_hidden_layers": 5,
            "num_attention_heads": 5,
            "num_key_value_heads": 5,
            "max_position_embeddings": 4096,
            "initializer_range": 0.08,
            # Of two shares that were tried, the one with which lists of pictures are learnt sooner.
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [0, 1, 15]},
            "bos_token_id": END_OF_TEXT,
            "eos_token_id": IM_END,
            "pad_token_id": END_OF_TEXT,
        },
        tie_word_embeddings=True,
        image_token_id=IMAGE_PAD,
        video_token_id=VIDEO_PAD,
        vision_start_token_id=VISION_START,
        vision_end_token_id=VISION_END,
        # About 1/sqrt(width): the default 0.02 learns far more slowly at this size.
        initializer_range=0.08,
    )
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration._from_config(config, attn_implementation="sdpa", dtype=torch.float32)
    generation = model.generation_config
    generation.eos_token_id, generation.pad_token_id, generation.bos_token_id = IM_END, END_OF_TEXT, END_OF_TEXT
    return model


def picture_processor() -> Any:
    """Qwen's picture processor, held to 168 x 168: larger and smaller pictures are brought to that many pixels."""
    return Qwen2VLImageProcessor(
        patch_size=PATCH,
        merge_size=MERGE,
        temporal_patch_size=2,
        size={"shortest_edge": SIDE * SIDE, "longest_edge": SIDE * SIDE},
        image_mean=list(MEAN),
        image_std=list(STD),
    )


def full_processor(tokenizer: Any) -> Qwen2_5_VLProcessor:
    """Tokenizer and picture processor as one, as a 7B model's folder has it."""
    videos = Qwen2VLVideoProcessor(patch_size=PATCH, merge_size=MERGE, temporal_patch_size=2)
    return Qwen2_5_VLProcessor(picture_processor(), tokenizer, videos, chat_template=tokenizer.chat_template)
