"""The reference model is the real class and processor, and what is trained is what will be run."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from mug_eval.methods.mug_ratings import read_ratings
from mug_eval.question import Unparsed
from mug_eval.reference_vlm.dialogs import described_questions, drilled_questions, game_calls, short_questions, two_pictures
from mug_eval.reference_vlm.drawing import draw
from mug_eval.reference_vlm.evaluate import with_pictures
from mug_eval.reference_vlm.model import full_processor, new_model
from mug_eval.reference_vlm.oracle import Call, ideal_reply, lists_said, task_of
from mug_eval.reference_vlm.packing import collate, grid_positions, pack
from mug_eval.reference_vlm.scenes import Scene, Thing, draw_scene, scene_seed
from mug_eval.reference_vlm.speaking import as_chat
from mug_eval.reference_vlm.tokenizer import fixed_sentences, missing_sentences, train_tokenizer
from mug_eval.reference_vlm.train import Stage, sample_texts, train
from mug_eval.reference_vlm.vision import encode, patches

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return train_tokenizer(sample_texts(0, 30))


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return new_model(len(tokenizer), 0).eval()


def calls_of_every_sort(count: int = 12) -> list[Call]:
    rng = random.Random(0)
    calls: list[Call] = []
    for number in range(count):
        scene = draw_scene(scene_seed("train", 5, number))
        calls += short_questions(scene, rng, 1) + described_questions(scene, rng, 1) + game_calls(scene, rng, 9) + two_pictures(rng)
    return calls


def processed(processor: Any, call: Call) -> Any:
    chat, pictures = as_chat(with_pictures(call))
    text = processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    return processor(text=[text], images=pictures, return_tensors="pt")


def test_it_has_about_two_million_parameters(model: Any) -> None:
    assert 2e6 <= sum(parameter.numel() for parameter in model.parameters()) <= 6e6


def test_every_fixed_sentence_of_the_methods_is_one_token_and_survives(tokenizer: Any) -> None:
    assert missing_sentences(tokenizer) == []
    for sentence in fixed_sentences():
        assert tokenizer.decode(tokenizer(sentence).input_ids) == sentence


def test_any_text_goes_in_and_comes_out(tokenizer: Any) -> None:
    text = 'Zwölf Boxkämpfer 🦉 r2c3, r4c5 {"Agent 1": 7}\n\n> ok'
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_what_is_trained_is_what_the_real_processor_makes_of_the_methods_own_prompts(tokenizer: Any, model: Any) -> None:
    processor = full_processor(tokenizer)
    seen = set()
    for call in calls_of_every_sort():
        if call.task in seen and len(call.scenes) == 1:
            continue
        seen.add(call.task)
        given = processed(processor, call)
        row = pack([call], tokenizer)
        prompt = given["input_ids"].shape[1]
        assert row.ids[:prompt] == given["input_ids"][0].tolist()
        real, _ = model.model.get_rope_index(given["input_ids"], given["mm_token_type_ids"], given["image_grid_thw"])
        assert torch.equal(grid_positions(row.ids)[:, :prompt], real[:, 0])
        assert tokenizer.decode(row.ids[prompt:]) == f"{call.reply}<|im_end|>"
    assert {"answer", "describe", "again", "vote", "final"} <= seen


def test_the_batched_tower_agrees_with_the_class(model: Any, tokenizer: Any) -> None:
    scenes = [draw_scene(scene_seed("train", 0, number)) for number in range(3)]
    pictures = np.stack([draw(scene) for scene in scenes])
    given = full_processor(tokenizer).image_processor(images=[Image.fromarray(p) for p in pictures], return_tensors="pt")
    with torch.inference_mode():
        real = model.model.visual(given["pixel_values"], grid_thw=given["image_grid_thw"]).pooler_output
        ours = encode(model.model.visual, patches(pictures)).flatten(0, 1)
    assert torch.allclose(ours, torch.cat(list(real)) if isinstance(real, list | tuple) else real, atol=1e-4)


def test_packed_calls_predict_as_each_call_alone_does_in_the_real_forward_pass(tokenizer: Any, model: Any) -> None:
    processor = full_processor(tokenizer)
    scene = draw_scene(scene_seed("train", 0, 3))
    calls = [*described_questions(scene, random.Random(0), 2), *short_questions(scene, random.Random(1), 2)]
    row = pack(calls, tokenizer)
    batch = collate([row, pack(calls[:1], tokenizer)])
    text = model.model.language_model
    with torch.inference_mode():
        tokens = encode(model.model.visual, patches(np.stack([draw(s) for s in batch.scenes])))
        embedded = text.embed_tokens(batch.ids)
        embedded = embedded.masked_scatter((batch.ids == model.config.image_token_id)[..., None], tokens.flatten(0, 1))
        out = text(inputs_embeds=embedded, attention_mask={"full_attention": batch.mask}, position_ids=batch.positions)
        packed = model.lm_head(out.last_hidden_state[0])
        for number, call in enumerate(calls, 1):
            given = processed(processor, call)
            real = model(**given).logits[0, -1]
            first = next(i for i, (part, weight) in enumerate(zip(row.part, row.weights, strict=True)) if part == number and weight)
            assert torch.allclose(packed[first - 1], real, atol=1e-3)


def test_a_token_sees_its_own_call_and_what_all_share_and_nothing_that_follows(tokenizer: Any) -> None:
    calls = short_questions(draw_scene(scene_seed("train", 0, 3)), random.Random(0), 3)
    row = pack(calls, tokenizer)
    mask = collate([row]).mask[0, 0]
    for i, j in np.ndindex(len(row), len(row)):
        assert bool(mask[i, j]) == (j <= i and row.part[j] in (0, row.part[i]))


def test_the_oracle_votes_for_whoever_lists_another_picture_and_its_ballot_can_be_read() -> None:
    here = Scene((Thing(1, 1, "star", "red", "small"), Thing(2, 2, "ring", "blue", "large")), 0)
    there = Scene((Thing(1, 1, "star", "red", "small"), Thing(2, 2, "ring", "green", "large")), 0)
    said = "\n\n".join(f"Agent {n}:\n> {scene.listed()}\n> Answer: Yes" for n, scene in ((1, here), (2, there), (3, here)))
    assert lists_said(said) == {"Agent 1": here.listed(), "Agent 2": there.listed(), "Agent 3": here.listed()}
    asked: Any = short_questions(here, random.Random(0), 4)  # any question: the ballot does not depend on it
    assert asked
    from mug_eval.reference_vlm.questions import Query, ask_open

    ballot = ideal_reply("vote", "Agent 1", said, ask_open(Query("count", (("red", ""),))), (here,), random.Random(0))
    ratings = read_ratings(ballot, ["Agent 2", "Agent 3"])
    assert not isinstance(ratings, Unparsed)
    assert sum(ratings["Agent 2"].values()) > 20 > 8 > sum(ratings["Agent 3"].values())


def test_tasks_are_told_apart_in_the_methods_own_prompts() -> None:
    tasks = {call.task for call in calls_of_every_sort(60)}
    assert tasks == {"answer", "describe", "again", "vote", "final", "judge", "argue", "criticise", "rebut", "feedback", "alone"}
    assert task_of("What colour is the star?") == "answer"


def test_an_interrupted_training_ends_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    stages = [Stage("tower", 2, 2, 1e-3, 0.0), Stage("see", 4, 2, 1e-3, 0.5), Stage("play", 2, 2, 1e-3, 0.0, 1.0)]
    lines: list[str] = []
    with torch.no_grad():  # as in a process where VLMEvalKit has switched gradients off
        whole = train(tmp_path / "whole", 0, stages, every=1, say=lines.append)

    class Killed(Exception):
        pass

    from mug_eval.reference_vlm import checkpoint

    kept = checkpoint.save
    count = 0

    def dying(*given: Any) -> None:
        nonlocal count
        kept(*given)
        count += 1
        if count in (1, 4, 7):
            raise Killed

    checkpoint.save = dying
    try:
        for _ in range(4):
            try:
                parts = train(tmp_path / "parts", 0, stages, every=1, say=lines.append)
            except Killed:
                continue
    finally:
        checkpoint.save = kept
    assert count > 7
    from safetensors.torch import load_file

    a, b = load_file(whole), load_file(parts)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_words_are_labelled_with_the_agent_who_says_them_or_who_is_rated(tokenizer: Any) -> None:
    seen = set()
    for call in calls_of_every_sort():
        row = pack([call], tokenizer)
        for number in {*row.agents} - {-1}:
            words = tokenizer.decode([token for token, agent in zip(row.ids, row.agents, strict=True) if agent == number])
            for speaker, said in lists_said(call.messages[-1].text).items():
                assert (said in words) == (speaker == f"Agent {number}") or [*lists_said(call.messages[-1].text).values()].count(
                    said
                ) > 1
            if call.task == "vote" and f'"Agent {number}"' in call.reply:
                rated = call.reply.partition(f'"Agent {number}": {{')[2].partition("}")[0]
                assert rated in words
                seen.add("vote")
            if call.task == "again" and f"Agent {number}: " in call.reply:
                steps = call.reply.partition(f"Agent {number}: ")[2].partition(", so")[0]
                assert steps in words
                seen.add("again")
    assert seen == {"vote", "again"}


def test_a_drill_tells_the_truth_about_its_picture(tokenizer: Any) -> None:
    asked = 0
    for number in range(40):
        scene = draw_scene(scene_seed("train", 6, number))
        (call,) = drilled_questions(scene, random.Random(number), 12)
        listed, *reasons = call.reply.split("\n")
        assert listed == scene.listed()
        assert len(set(reasons)) == len(reasons)
        for words in reasons:
            if found := re.fullmatch(r"The (\w+) (\w+): (?:(r\dc\d), so yes|none, so no)\.", words):
                colour, shape, place = found.groups()
                assert (place in [t.place for t in scene.named(colour, shape)]) if place else not scene.named(colour, shape)
                asked += 1
            if found := re.fullmatch(r"Count of (\w+)(?: object)?: .*, so (\d)\.", words):
                about, number_of = found.groups()
                assert int(number_of) == sum(about in (thing.colour, thing.shape) for thing in scene.things)
                asked += 1
    assert asked > 60
