"""Small random-weight vision-language models, made with the real classes and processors and saved as a user would have them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForImageTextToText,
    InternVLConfig,
    InternVLForConditionalGeneration,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2TokenizerFast,
)

QWEN_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
INTERNVL_TEMPLATE = QWEN_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", "<IMG_CONTEXT>\n")

_SENTENCES = [
    "You answer questions about pictures. Rely on what can be seen and on careful reasoning.",
    "Is there a dog in the picture? Answer: Yes or Answer: No, with one line that reads the answer.",
    "Agent 1, Agent 2 and Agent 3 talk in rounds, and then they vote; whoever gets the most votes leaves.",
    "How many red circles are left of the blue square? > The picture shows two, I think.",
]


def byte_tokenizer(special: list[str], corpus: Sequence[str] = (), vocabulary: int = 420) -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([*_SENTENCES, *corpus], trainer)
    return tokenizer


def qwen_tokenizer(corpus: Sequence[str] = (), vocabulary: int = 420) -> Any:
    special = [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
    ]
    return Qwen2TokenizerFast(
        tokenizer_object=byte_tokenizer(special, corpus, vocabulary),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<|endoftext|>",
        additional_special_tokens=special[1:2] + special[3:],
    )


def save_qwen(
    folder: Path,
    *,
    hidden: int = 32,
    layers: int = 2,
    heads: int = 4,
    kv_heads: int = 2,
    intermediate: int = 64,
    vision: int = 32,
    depth: int = 2,
    max_pixels: int = 28 * 28 * 64,
    context: int = 4096,
    corpus: Sequence[str] = (),
    vocabulary: int = 420,
    seed: int = 0,
) -> Path:
    """A Qwen2.5-VL of that size; defaults give some 100 thousand parameters. The tokenizer is trained on the corpus too."""
    from transformers import Qwen2_5_VLProcessor
    from transformers.models.qwen2_vl import Qwen2VLImageProcessor
    from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

    tokenizer = qwen_tokenizer(corpus, vocabulary)
    ids = tokenizer.convert_tokens_to_ids
    half = hidden // heads // 2
    config = Qwen2_5_VLConfig(
        text_config={
            "hidden_size": hidden,
            "intermediate_size": intermediate,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": context,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [half - 2 * (half * 3 // 8), half * 3 // 8, half * 3 // 8],
            },
            "bos_token_id": None,
            "eos_token_id": ids("<|im_end|>"),
            "pad_token_id": ids("<|endoftext|>"),
        },
        vision_config={
            "hidden_size": vision,
            "depth": depth,
            "num_heads": 4,
            "intermediate_size": 2 * vision,
            "out_hidden_size": hidden,
            "fullatt_block_indexes": [depth - 1],
            "window_size": 56,
        },
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        tie_word_embeddings=False,
    )
    torch.manual_seed(seed)
    model = Qwen2_5_VLForConditionalGeneration(config)
    processor = Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(min_pixels=28 * 28 * 4, max_pixels=max_pixels),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=QWEN_TEMPLATE,
    )
    return _save(model, processor, folder, ids("<|im_end|>"), ids("<|endoftext|>"))


def save_internvl(folder: Path, *, hidden: int = 32, layers: int = 2, seed: int = 0) -> Path:
    """An InternVL3 (native class) with tiles of 56 x 56 pixels, 4 tokens each."""
    from transformers import InternVLProcessor
    from transformers.models.got_ocr2 import GotOcr2ImageProcessor
    from transformers.models.internvl.video_processing_internvl import InternVLVideoProcessor

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<img>", "</img>", "<IMG_CONTEXT>", "<video>"]
    tokenizer = Qwen2TokenizerFast(
        tokenizer_object=byte_tokenizer(special),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>", *special[3:]],
        extra_special_tokens={
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
    )
    ids = tokenizer.convert_tokens_to_ids
    config = InternVLConfig(
        vision_config={
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "image_size": [56, 56],
            "patch_size": [14, 14],
        },
        text_config={
            "model_type": "qwen2",
            "hidden_size": hidden,
            "intermediate_size": 64,
            "num_hidden_layers": layers,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 4096,
            "eos_token_id": ids("<|im_end|>"),
            "pad_token_id": ids("<|endoftext|>"),
        },
        image_token_id=ids("<IMG_CONTEXT>"),
        image_seq_length=4,
    )
    torch.manual_seed(seed)
    model = InternVLForConditionalGeneration(config)
    processor = InternVLProcessor(
        image_processor=GotOcr2ImageProcessor(size={"height": 56, "width": 56}, crop_to_patches=True, min_patches=1, max_patches=4),
        tokenizer=tokenizer,
        video_processor=InternVLVideoProcessor(size={"height": 56, "width": 56}),
        image_seq_length=4,
        chat_template=INTERNVL_TEMPLATE,
    )
    return _save(model, processor, folder, ids("<|im_end|>"), ids("<|endoftext|>"))


def save_qwen3(folder: Path, *, seed: int = 0) -> Path:
    """A Qwen3-VL: pictures also enter the second layer of the language model (deepstack)."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor
    from transformers.models.qwen2_vl import Qwen2VLImageProcessor
    from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

    tokenizer = qwen_tokenizer()
    ids = tokenizer.convert_tokens_to_ids
    config = Qwen3VLConfig(
        text_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 1, 1]},
            "eos_token_id": ids("<|im_end|>"),
            "pad_token_id": ids("<|endoftext|>"),
        },
        vision_config={
            "hidden_size": 32,
            "depth": 2,
            "num_heads": 4,
            "intermediate_size": 64,
            "out_hidden_size": 32,
            "patch_size": 14,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0, 1],
        },
        image_token_id=ids("<|image_pad|>"),
        video_token_id=ids("<|video_pad|>"),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
    )
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config)
    processor = Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(min_pixels=28 * 28 * 4, max_pixels=28 * 28 * 64),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(),
        chat_template=QWEN_TEMPLATE,
    )
    return _save(model, processor, folder, ids("<|im_end|>"), ids("<|endoftext|>"))


def save_smolvlm(folder: Path, *, seed: int = 0) -> Path:
    """A SmolVLM2 with one tile of 64 x 64 pixels a picture."""
    from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration, SmolVLMProcessor
    from transformers.models.smolvlm import SmolVLMImageProcessor
    from transformers.models.smolvlm.video_processing_smolvlm import SmolVLMVideoProcessor

    special = [
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_end|>",
        "<image>",
        "<fake_token_around_image>",
        "<global-img>",
        "<end_of_utterance>",
    ]
    tokenizer = Qwen2TokenizerFast(
        tokenizer_object=byte_tokenizer(special),
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>", *special[3:]],
        extra_special_tokens={
            "image_token": "<image>",
            "fake_image_token": "<fake_token_around_image>",
            "global_image_token": "<global-img>",
            "end_of_utterance_token": "<end_of_utterance>",
        },
    )
    ids = tokenizer.convert_tokens_to_ids
    config = SmolVLMConfig(
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": 64,
            "patch_size": 16,
        },
        text_config={
            "model_type": "llama",
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 4096,
            "pad_token_id": ids("<|endoftext|>"),
        },
        image_token_id=ids("<image>"),
        scale_factor=2,
        pad_token_id=ids("<|endoftext|>"),
    )
    torch.manual_seed(seed)
    model = SmolVLMForConditionalGeneration(config)
    processor = SmolVLMProcessor(
        image_processor=SmolVLMImageProcessor(
            size={"longest_edge": 64}, max_image_size={"longest_edge": 64}, do_image_splitting=False
        ),
        tokenizer=tokenizer,
        video_processor=SmolVLMVideoProcessor(),
        image_seq_len=4,
        chat_template=QWEN_TEMPLATE.replace("<|vision_start|><|image_pad|><|vision_end|>", "<image>"),
    )
    return _save(model, processor, folder, ids("<|im_end|>"), ids("<|endoftext|>"))


def _save(model: Any, processor: Any, folder: Path, eos: int, pad: int) -> Path:
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:  # at the usual 0.02 a random model says one token for ever, and many a fault would not show
                sharp = 3.0 if "q_proj" in name or "k_proj" in name else 1.5
                weight.normal_(0.0, 1.0 if "embed" in name else sharp / weight[0].numel() ** 0.5)
    model.generation_config.eos_token_id = eos
    model.generation_config.pad_token_id = pad
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def load_plain(folder: Path) -> Any:
    return AutoModelForImageTextToText.from_pretrained(folder).eval()
