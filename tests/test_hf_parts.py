"""The parts of the hf: backbone that need no model: what is cached, what is drawn, and what a user's mistake is answered with."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_vlm import qwen_tokenizer, save_internvl, save_qwen, save_qwen3, save_smolvlm
from transformers import AutoConfig, AutoModelForImageTextToText, LlamaConfig, LlamaForCausalLM
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from mug_eval.backbones import hf_loading
from mug_eval.backbones.catalogue import load_catalogue, open_backbone, parse_backbone
from mug_eval.backbones.kv_segments import Segment, nbytes
from mug_eval.backbones.prefix_tree import PrefixTree
from mug_eval.backbones.token_draw import draw_for, next_tokens
from mug_eval.backbones.transformers_vlm import TransformersVLM
from mug_eval.chat import ImageRef, Message, RefusedError, Sampling
from mug_eval.errors import UserError


class NoDefaults:
    do_sample = temperature = top_k = top_p = repetition_penalty = None


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_qwen(tmp_path_factory.mktemp("qwen"))


def segment_of(keys: np.ndarray, start: int) -> Segment:
    """A segment whose numbers are a function of the whole prefix, as a transformer's are."""
    sums = np.cumsum(keys)[start:].astype(np.float32)
    return tuple(torch.from_numpy(sums + layer).expand(2, 1, -1)[..., None].clone() for layer in range(2))


@pytest.mark.parametrize("budget", [1 << 20, 3_000])
def test_a_match_gives_what_was_computed_for_exactly_these_tokens(budget: int) -> None:
    rng = random.Random(1)
    tree = PrefixTree(budget)
    longest = 0
    for _ in range(400):
        keys = np.array([rng.choice((1, 1, 1, 2)) for _ in range(rng.randint(1, 40))], np.int64)
        start, segments = tree.match(keys)
        expected = segment_of(keys, 0)
        for layer in range(2):
            if segments:
                found = torch.cat([segment[layer] for segment in segments], dim=2)
                assert torch.equal(found, expected[layer][:, :, :start])
        longest = max(longest, start)
        tree.insert(keys, start, segment_of(keys, start))
        assert tree.nbytes <= budget
        assert tree.nbytes == sum(nbytes(node.segment) for node in tree._nodes())
    assert longest > 10
    assert (tree.evicted > 0) == (budget == 3_000)


def test_what_was_used_last_is_kept_longest() -> None:
    keys = [np.array([i] * 10, np.int64) for i in range(1, 4)]
    tree = PrefixTree(int(2.5 * nbytes(segment_of(keys[0], 0))))
    tree.insert(keys[0], 0, segment_of(keys[0], 0))
    tree.insert(keys[1], 0, segment_of(keys[1], 0))
    tree.match(keys[0])
    tree.insert(keys[2], 0, segment_of(keys[2], 0))
    assert [tree.match(one)[0] for one in keys] == [10, 0, 10]


def test_a_segment_whose_beginning_was_evicted_is_not_kept() -> None:
    tree = PrefixTree(1 << 20)
    keys = np.arange(1, 21)
    tree.insert(keys, 10, segment_of(keys, 10))
    assert tree.match(keys)[0] == 0


@pytest.mark.parametrize(
    ("sampling", "warpers"),
    [
        (Sampling(temperature=0.7), [TemperatureLogitsWarper(0.7)]),
        (Sampling(temperature=1.3, top_k=5), [TemperatureLogitsWarper(1.3), TopKLogitsWarper(5)]),
        (Sampling(temperature=1.0, top_p=0.6), [TopPLogitsWarper(0.6)]),
        (Sampling(temperature=0.5, top_k=8, top_p=0.9), [TemperatureLogitsWarper(0.5), TopKLogitsWarper(8), TopPLogitsWarper(0.9)]),
    ],
)
def test_tokens_are_drawn_from_the_distribution_of_transformers(sampling: Sampling, warpers: list) -> None:
    logits = torch.randn(1, 30, generator=torch.Generator().manual_seed(3)) * 2
    expected = logits
    for warper in warpers:
        expected = warper(None, expected)
    probabilities = expected.softmax(-1)[0]
    draws = [draw_for(replace(sampling, seed=seed), NoDefaults()) for seed in range(100)]
    counts = torch.zeros(30)
    for _ in range(40):
        for token in next_tokens(logits.expand(100, -1), draws):
            counts[token] += 1
    assert not counts[probabilities == 0].any()
    assert (counts / 4000 - probabilities).abs().max() < 0.03


def test_greedy_and_drawn_rows_share_a_batch_without_touching_each_other() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1))
    drawn = Sampling(temperature=1.0, seed=5)
    greedy, first, second = (
        draw_for(Sampling(temperature=0), NoDefaults()),
        draw_for(drawn, NoDefaults()),
        draw_for(drawn, NoDefaults()),
    )
    by_itself = [next_tokens(logits[1:2], [first])[0] for _ in range(10)]
    other = draw_for(Sampling(temperature=2.0, top_k=3, seed=9), NoDefaults())
    mixed = [next_tokens(logits, [greedy, second, other]) for _ in range(10)]
    assert [row[1] for row in mixed] == by_itself
    assert len(set(by_itself)) > 1
    assert {row[0] for row in mixed} == {int(logits[0].argmax())}


def test_what_a_call_leaves_open_is_the_model_s_own_setting() -> None:
    class Ships(NoDefaults):
        do_sample, temperature, top_k, top_p = True, 0.6, 20, 0.95

    own = draw_for(Sampling(), Ships())
    assert (own.temperature, own.top_k, own.top_p) == (0.6, 20, 0.95)
    assert draw_for(Sampling(temperature=0), Ships()).temperature == 0
    assert draw_for(Sampling(), NoDefaults()).temperature == 0


def test_a_folder_is_known_by_its_content_wherever_it_lies(qwen: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(qwen, tmp_path / "elsewhere" / qwen.name))
    trained = save_qwen(tmp_path / "trained" / qwen.name, seed=1)
    known = [TransformersVLM(str(folder)).fingerprint for folder in (qwen, copy, trained)]
    assert known[0] == known[1] != known[2]
    plans = [parse_backbone(f"hf:{folder}").identity for folder in (qwen, copy, trained)]
    assert plans[0] == plans[1] != plans[2]
    assert TransformersVLM(str(qwen), dtype="bf16").fingerprint != known[0]


def test_qwen_and_internvl_are_played_in_this_process_unless_a_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUG_EVAL_BASE_URL", raising=False)
    assert (parse_backbone("qwen").kind, parse_backbone("qwen").model) == ("hf", "Qwen/Qwen2.5-VL-7B-Instruct")
    assert (parse_backbone("internvl").kind, parse_backbone("internvl").model) == ("hf", "OpenGVLab/InternVL3-14B-hf")
    assert parse_backbone("hf:OpenGVLab/InternVL3-14B-hf").paper == load_catalogue()["internvl"].paper


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("./nowhere", "no such folder"),
        ("Nobody/No-Model-Of-This-Name", "hf download Nobody/No-Model-Of-This-Name --local-dir DIR"),
        ("just-a-word", "OWNER/NAME"),
    ],
)
def test_a_model_that_cannot_be_had_says_what_to_do(monkeypatch: pytest.MonkeyPatch, name: str, words: str) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=words):
        open_backbone(f"hf:{name}", sampling=Sampling())


def test_a_folder_without_a_model_is_said_so(tmp_path: Path, qwen: Path) -> None:
    with pytest.raises(UserError, match=r"no config\.json"):
        TransformersVLM(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no such thing"}))
    with pytest.raises(UserError, match="no model that transformers can open"):
        TransformersVLM(str(tmp_path))
    bare = Path(shutil.copytree(qwen, tmp_path / "bare"))
    (bare / "model.safetensors").unlink()
    with pytest.raises(UserError, match="holds no weights"):
        TransformersVLM(str(bare))


def test_too_little_memory_is_said_before_anything_is_loaded(qwen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_loading, "free_memory", lambda device: 1000)
    with pytest.raises(UserError, match=r"wants 0\.0 GiB for its weights alone, and there are 0\.0 GiB free on cpu"):
        TransformersVLM(str(qwen))


@pytest.mark.parametrize(
    ("device", "words"), [("cuda:97", "no such GPU"), ("toaster", "name one of auto, cpu"), ("spread", "for GPUs")]
)
def test_a_device_that_is_not_there_is_the_user_s_mistake(qwen: Path, device: str, words: str) -> None:
    if device == "spread" and torch.cuda.is_available():
        pytest.skip("there are GPUs here")
    with pytest.raises(UserError, match=words):
        TransformersVLM(str(qwen), device=device)


async def test_a_language_model_plays_questions_without_pictures(tmp_path: Path) -> None:
    tokenizer = qwen_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            eos_token_id=2,
        )
    ).save_pretrained(tmp_path)
    model = TransformersVLM(str(tmp_path))
    reply = await model.chat([Message("user", ("Is it so?",))], Sampling(temperature=0, max_tokens=5))
    assert reply.usage.completion_tokens == 5
    assert model.notes == []
    with pytest.raises(RefusedError, match="takes no pictures: it can play text-only questions"):
        await model.chat([Message("user", (ImageRef("0" * 64, "image/png", 1, 1, b""), "Why?"))], Sampling())
    await model.close()


async def test_weights_that_are_torn_stop_the_run_with_a_line(qwen: Path, tmp_path: Path) -> None:
    torn = Path(shutil.copytree(qwen, tmp_path / "torn"))
    (torn / "model.safetensors").write_bytes((torn / "model.safetensors").read_bytes()[:1000])
    model = TransformersVLM(str(torn))
    for _ in range(2):
        with pytest.raises(Exception, match="no model that transformers can open") as caught:
            await model.chat([Message("user", ("Why?",))], Sampling())
        assert type(caught.value).__name__ == "MisconfiguredError"
    await model.close()


@pytest.mark.parametrize("save", [save_qwen, save_internvl, save_qwen3, save_smolvlm])
def test_flash_attention_serves_the_vision_tower_on_a_gpu_and_nothing_else(save: Callable[[Path], Path], tmp_path: Path) -> None:
    folder = save(tmp_path / "model")
    config = AutoConfig.from_pretrained(folder)
    for device, dtype, installed in (
        ("cpu", torch.bfloat16, True),
        ("cuda", torch.float32, True),
        ("cuda", torch.bfloat16, False),
    ):
        assert hf_loading.attention_of(config, device, dtype, installed) is None
    for device in ("cuda", "cuda:1", "spread"):
        parts = hf_loading.attention_of(config, device, torch.bfloat16, True)
        assert parts is not None
        assert {part for part, kind in parts.items() if kind == "flash_attention_2"} == {"vision_config"}
        assert parts["text_config"] == "sdpa"
    # transformers takes the parts by these names, and each reaches its part.
    eager = {part: "eager" if part == "vision_config" else kind for part, kind in parts.items()}
    model = AutoModelForImageTextToText.from_pretrained(folder, attn_implementation=eager)
    assert model.config.vision_config._attn_implementation == "eager"
    assert model.config.text_config._attn_implementation == "sdpa"
