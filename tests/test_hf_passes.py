"""Packed passes and steps of decoding give every token what plain attention over its own call's tokens gives it."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest
import torch
from test_transformers_vlm import CONVERSATIONS, GREEDY, ONE, alone, picture, says, words
from tiny_vlm import load_plain, save_qwen
from transformers import AutoProcessor

from mug_eval.backbones import cpu_products, packed_prompts, pass_attention
from mug_eval.backbones.decoding import Cohort, Step
from mug_eval.backbones.hf_prompt import Prompt, PromptBuilder, decoded
from mug_eval.backbones.hf_row import Row
from mug_eval.backbones.kv_segments import Segment, part, span, tokens
from mug_eval.backbones.packed_prompts import PackedPrompts, Piece
from mug_eval.backbones.shared_runner import SharedRunner
from mug_eval.backbones.token_draw import draw_for
from mug_eval.backbones.transformers_vlm import TransformersVLM
from mug_eval.chat import Sampling

LAYERS, KEY_HEADS, HEADS, SIZE = 2, 2, 4, 8


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_qwen(tmp_path_factory.mktemp("qwen"))


def row(keys: list[int]) -> Row:
    numbers = np.array(keys, np.int64)
    prompt = Prompt("", numbers, numbers, torch.arange(len(keys)), (), ())
    return Row(prompt, GREEDY, 99, Future(), draw_for(GREEDY, None))


def made(keys: list[int], salt: int = 0) -> Segment:
    """Keys and values that depend on each token and its place, as drawn numbers."""
    layers = []
    for layer in range(LAYERS):
        columns = [
            torch.randn(2, KEY_HEADS, 1, SIZE, generator=torch.Generator().manual_seed(1000 * key + 10 * at + layer + salt))
            for at, key in enumerate(keys)
        ]
        layers.append(torch.cat(columns, dim=2))
    return tuple(layers)


def plain(query: torch.Tensor, keys_values: torch.Tensor) -> torch.Tensor:
    """(heads, size) for one query over (2, key heads, n, size), one head after another."""
    found = []
    for head in range(HEADS):
        keys, values = keys_values[:, head // (HEADS // KEY_HEADS)]
        found.append((keys @ query[head] * SIZE**-0.5).softmax(-1) @ values)
    return torch.stack(found)


SHARED = list(range(1, 41))
CALLS = [
    [*SHARED, 51, 52],
    [*SHARED, 53, 54, 55, 56, 57],
    [*SHARED, 58],
    [*range(60, 90)],
    [*range(90, 95)],
    [1, 2, 3, *range(100, 150)],
]


def step(cohorts: list[Cohort], held: dict[int, list[torch.Tensor]], seed: int) -> None:
    """One step with drawn queries, keys and values; what each call gets must be what plain attention gives it."""
    rows = [row for cohort in cohorts for row in cohort.rows]
    draw = torch.Generator().manual_seed(seed)
    one = Step(cohorts)
    for layer in range(LAYERS):
        query = torch.randn(HEADS, len(rows), SIZE, generator=draw)
        key, value = torch.randn(2, KEY_HEADS, len(rows), SIZE, generator=draw)
        found = one.attend(layer, query, key, value, SIZE**-0.5)
        for i, row in enumerate(rows):
            mine = held[id(row)]
            mine[layer] = torch.cat([mine[layer], torch.stack((key[:, i], value[:, i]))[:, :, None]], dim=2)
            assert torch.allclose(found[i], plain(query[:, i], mine[layer]), atol=1e-5)
    for cohort in cohorts:
        cohort.advance()


def test_every_call_of_a_step_sees_its_own_tokens_and_nothing_else() -> None:
    rows = [row(keys) for keys in CALLS]
    held = {id(one): list(made(keys)) for one, keys in zip(rows, CALLS, strict=True)}
    members = [(one, [part(made(keys), 0, 3), part(made(keys), 3, len(keys))]) for one, keys in zip(rows, CALLS, strict=True)]
    cohorts = Cohort.several(members)
    assert sorted(len(cohort.rows) for cohort in cohorts) == [3, 3], "three share most of their prompt, the others next to nothing"
    for number in range(70):  # past the end of the buffers
        step(cohorts, held, number)
    rows[0].finish = rows[3].finish = rows[4].finish = "stop"
    cohorts = [cohort for cohort in (one.without_finished() for one in cohorts) if cohort is not None]
    assert {id(one) for cohort in cohorts for one in cohort.rows} == {id(rows[i]) for i in (1, 2, 5)}
    step(cohorts, held, 100)
    joined = Cohort.several([member for cohort in cohorts for member in cohort.members()])
    step(joined, held, 101)
    for one in rows:
        one.finish = "stop"
    assert [cohort.without_finished() for cohort in joined] == [None] * len(joined)


def test_what_calls_share_is_held_once() -> None:
    together = Cohort.several([(row(keys), [made(keys)]) for keys in CALLS[:3]])
    apart = [cohort for keys in CALLS[:3] for cohort in Cohort.several([(row(keys), [made(keys)])])]
    assert sum(cohort.columns for cohort in together) < sum(cohort.columns for cohort in apart) - 2 * 30


@pytest.mark.parametrize("by_onednn", [True, False])
@pytest.mark.parametrize("chunk", [4, 32, 256])
def test_every_token_of_a_packed_pass_sees_its_prefix_and_what_is_before_it(
    by_onednn: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if by_onednn and not cpu_products.available(torch.float32, torch.device("cpu")):
        pytest.skip("no oneDNN here")
    monkeypatch.setattr(cpu_products, "available", lambda kind, device: by_onednn)
    monkeypatch.setitem(packed_prompts._CHUNK, "cpu", chunk)
    cuts = [40, 40, 0, 20, 0, 0]
    calls = [CALLS[0], CALLS[1], CALLS[3], [*SHARED[:20], *range(200, 209)], CALLS[4], list(range(300, 364))]
    prompts = [row(keys).prompt for keys in calls]
    before = [[part(made(keys), 0, cut)] if cut else [] for keys, cut in zip(calls, cuts, strict=True)]
    pieces = [Piece(p, cut, p.length, path) for p, cut, path in zip(prompts, cuts, before, strict=True)]
    new = [part(made(keys), cut, len(keys)) for keys, cut in zip(calls, cuts, strict=True)]
    one = PackedPrompts(pieces, LAYERS, torch.float32, torch.device("cpu"), read=True)
    total = sum(piece.length for piece in pieces)
    # strided, as transformers gives them
    query = torch.randn(total, HEADS, SIZE, generator=torch.Generator().manual_seed(1)).transpose(0, 1)
    for layer in range(LAYERS):
        key, value = torch.cat([segment[layer] for segment in new], dim=2)
        found = one.attend(layer, query, key, value, SIZE**-0.5)
        at = 0
        for piece, keys in zip(pieces, calls, strict=True):
            for i in range(piece.length):
                if layer < LAYERS - 1 or i == piece.length - 1:  # of the last layer, only each prompt's last token is read
                    expected = plain(query[:, at + i], made(keys)[layer][:, :, : piece.start + i + 1])
                    assert torch.allclose(found[at + i], expected, atol=1e-5)
            at += piece.length
    for segment, expected in zip(one.segments(), new, strict=True):
        assert all(torch.equal(mine, theirs) for mine, theirs in zip(segment, expected, strict=True))


def test_a_span_goes_across_segments() -> None:
    whole = made(SHARED)
    path = [part(whole, 0, 3), part(whole, 3, 20), part(whole, 20, 40)]
    for start, end in ((0, 40), (0, 3), (2, 21), (3, 20), (39, 40)):
        found = span(path, start, end)
        assert torch.equal(torch.cat([segment[1] for segment in found], dim=2), whole[1][:, :, start:end])
        assert all(tokens(segment) for segment in found)
    assert span(path, 5, 5) == []


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("rows", [1, 40, 300])
def test_products_by_onednn_are_the_module_s_own(rows: int, packed: bool) -> None:
    if not cpu_products.available(torch.float32, torch.device("cpu")):
        pytest.skip("no oneDNN here")
    with torch.inference_mode():
        module = torch.nn.Linear(24, 17)
        hidden = torch.randn(1, rows, 24)
        assert torch.allclose(cpu_products.linear(module, packed=packed)(hidden), module(hidden), atol=1e-5)


def test_a_model_is_given_back_as_it_was(qwen: Path) -> None:
    model, processor = load_plain(qwen), AutoProcessor.from_pretrained(qwen)
    inputs = processor.tokenizer(["Is there a dog in the picture?"], return_tensors="pt")
    with torch.inference_mode():
        before = model(**inputs).logits
        runner = SharedRunner(model, frozenset([2]), prefix_bytes=1 << 20, feature_bytes=1 << 20)
        assert torch.allclose(model(**inputs).logits, before, atol=1e-4), "outside of a pass it computes as ever"
        runner.leave()
        assert torch.equal(model(**inputs).logits, before)
    assert not any("forward" in module.__dict__ for module in model.modules())
    assert model.config.get_text_config()._attn_implementation == "sdpa"


def test_attention_that_is_bent_in_a_pass_is_an_error_and_not_another_result() -> None:
    class Windowed:
        layer_idx = 0

    one = PackedPrompts([Piece(row([1, 2]).prompt, 0, 2, [])], 1, torch.float32, torch.device("cpu"), read=True)
    query = torch.zeros(1, HEADS, 2, SIZE)
    with pass_attention.running(one), pytest.raises(ValueError, match="sliding_window=16"):
        pass_attention._attend(Windowed(), query, query, query, None, sliding_window=16)


async def test_waves_of_calls_that_join_leave_and_are_regrouped_change_no_reply(qwen: Path) -> None:
    model = TransformersVLM(str(qwen))
    shown = [picture(seed) for seed in range(10, 13)]
    games = [
        [says(image, "What is it?", " They talk in rounds." * 6, f" You are Agent {seat}.") for seat in range(3)] for image in shown
    ]
    calls = [call for game in games for call in game]
    lengths = [3, 40, 11, 25, 2, 33, 18, 40, 7]
    expected = words(qwen, [reply[:most] for reply, most in zip(alone(qwen, calls, 40), lengths, strict=True)])
    await model.chat(says("Warm."), Sampling(temperature=0, max_tokens=1))

    async def one(i: int) -> str:
        seen = model.counts.steps
        while model.counts.steps < seen + i and i % 3:
            await asyncio.sleep(0.001)
            if not model._scheduler.runner or not model._scheduler.runner.active:
                break
        return (await model.chat(calls[i], Sampling(temperature=0, max_tokens=lengths[i]))).text

    assert list(await asyncio.gather(*(one(i) for i in range(len(calls))))) == expected
    await model.close()


def test_positions_after_a_picture_count_on_as_the_model_says(qwen: Path) -> None:
    model, processor = load_plain(qwen), AutoProcessor.from_pretrained(qwen)
    builder = PromptBuilder(processor, model.model, "tiny", None)
    for conversation in (*CONVERSATIONS, says(ONE, "Is there a cat?"), says(ONE, ONE, "Is there a cat?")):
        prompt = builder.build(conversation)
        if not prompt.pictures:
            continue
        inputs = processor(text=[prompt.text], images=[[decoded(image) for image in prompt.images]], return_tensors="pt")
        positions, _ = model.model.get_rope_index(
            inputs["input_ids"], mm_token_type_ids=inputs["mm_token_type_ids"], image_grid_thw=inputs["image_grid_thw"]
        )
        assert torch.equal(prompt.positions, positions[:, 0])
