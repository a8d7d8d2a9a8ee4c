"""Small random-weight editing pipelines, made with diffusers' own classes and saved as a user would have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tiny_vlm import byte_tokenizer, save_qwen


def save_instruct_pix2pix(folder: Path) -> Path:
    from diffusers import (
        AutoencoderKL,
        EulerDiscreteScheduler,
        StableDiffusionInstructPix2PixPipeline,
        UNet2DConditionModel,
    )

    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        block_out_channels=(32, 64),
        layers_per_block=1,
        sample_size=32,
        in_channels=8,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=4,
    )
    vae = AutoencoderKL(
        block_out_channels=[16, 32],
        in_channels=3,
        out_channels=3,
        down_block_types=["DownEncoderBlock2D", "DownEncoderBlock2D"],
        up_block_types=["UpDecoderBlock2D", "UpDecoderBlock2D"],
        latent_channels=4,
        norm_num_groups=8,
    )
    tokenizer = _clip_tokenizer()
    pipe = StableDiffusionInstructPix2PixPipeline(
        unet=unet,
        vae=vae,
        scheduler=EulerDiscreteScheduler(),
        text_encoder=_clip(tokenizer),
        tokenizer=tokenizer,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.save_pretrained(folder)
    return folder


def save_flux_kontext(folder: Path) -> Path:
    from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxKontextPipeline, FluxTransformer2DModel
    from transformers import PreTrainedTokenizerFast, T5Config, T5EncoderModel

    torch.manual_seed(0)
    transformer = FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8],
    )
    vae = AutoencoderKL(
        sample_size=32,
        in_channels=3,
        out_channels=3,
        block_out_channels=(8,),
        layers_per_block=1,
        latent_channels=1,
        norm_num_groups=1,
        use_quant_conv=False,
        use_post_quant_conv=False,
        shift_factor=0.0609,
        scaling_factor=1.5035,
    )
    tokenizer = _clip_tokenizer()
    second = PreTrainedTokenizerFast(
        tokenizer_object=byte_tokenizer(["<pad>", "</s>", "<unk>"]), pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    t5 = T5EncoderModel(
        T5Config(vocab_size=len(second), d_model=32, d_kv=8, d_ff=37, num_layers=1, num_heads=4, pad_token_id=0, eos_token_id=1)
    )
    pipe = FluxKontextPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae,
        text_encoder=_clip(tokenizer),
        tokenizer=tokenizer,
        text_encoder_2=t5,
        tokenizer_2=second,
        transformer=transformer,
    )
    pipe.save_pretrained(folder)
    return folder


def save_qwen_image_edit(folder: Path, work: Path) -> Path:
    from diffusers import (
        AutoencoderKLQwenImage,
        FlowMatchEulerDiscreteScheduler,
        QwenImageEditPipeline,
        QwenImageTransformer2DModel,
    )
    from transformers import AutoProcessor, Qwen2_5_VLForConditionalGeneration, Qwen2VLProcessor

    vlm = save_qwen(work / "vlm", hidden=16, heads=2, kv_heads=2, intermediate=32)
    own = AutoProcessor.from_pretrained(vlm)
    processor = Qwen2VLProcessor(own.image_processor, own.tokenizer, own.video_processor, own.chat_template)
    torch.manual_seed(0)
    transformer = QwenImageTransformer2DModel(
        patch_size=2,
        in_channels=16,
        out_channels=4,
        num_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        guidance_embeds=False,
        axes_dims_rope=(8, 4, 4),
    )
    vae = AutoencoderKLQwenImage(
        base_dim=8,
        z_dim=4,
        dim_mult=[1, 2, 4],
        num_res_blocks=1,
        temperal_downsample=[False, True],
        latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    )
    pipe = QwenImageEditPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae,
        text_encoder=Qwen2_5_VLForConditionalGeneration.from_pretrained(vlm),
        tokenizer=processor.tokenizer,
        processor=processor,
        transformer=transformer,
    )
    pipe.save_pretrained(folder)
    return folder


def _clip_tokenizer() -> Any:
    from transformers import CLIPTokenizer

    letters = [chr(code) for code in range(33, 127)]
    vocabulary = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{letter}</w>" for letter in letters)]
    return CLIPTokenizer(vocab={token: number for number, token in enumerate(vocabulary)}, merges=[], model_max_length=77)


def _clip(tokenizer: Any) -> Any:
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=37,
            num_hidden_layers=1,
            num_attention_heads=4,
            max_position_embeddings=77,
            projection_dim=32,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
        )
    )
