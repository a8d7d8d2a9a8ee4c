"""The shipped model: it loads as any Qwen2.5-VL, knows the methods' words, and looks at the picture."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mug_eval.reference_vlm.evaluate import question_over, seeing
from mug_eval.reference_vlm.questions import Query, ask_open
from mug_eval.reference_vlm.scenes import Scene, Thing
from mug_eval.reference_vlm.speaking import generate
from mug_eval.reference_vlm.tokenizer import CHAT_TEMPLATE, missing_sentences
from mug_eval.reference_vlm.weights import SHIPPED, load

pytestmark = pytest.mark.skipif(not (SHIPPED / "model.safetensors").is_file(), reason="the package holds no weights")


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any]:
    torch.set_num_threads(1)
    return load()


def test_the_weights_take_at_most_twenty_megabytes() -> None:
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) <= 20e6


def test_it_knows_every_fixed_sentence_of_the_methods(loaded: tuple[Any, Any]) -> None:
    # A prompt was reworded: train the model again, or it is asked in words that it never saw.
    assert missing_sentences(loaded[1].tokenizer) == []
    assert loaded[1].chat_template == CHAT_TEMPLATE


def test_it_sees_more_than_chance_and_another_picture_gets_another_description(loaded: tuple[Any, Any]) -> None:
    from mug_eval.methods.chain_of_thought import chain_prompt

    asked = ask_open(Query("colour", (("", "star"),)))
    scenes = [Scene((Thing(2, 3, "star", colour, "large"),), 5) for colour in ("red", "blue", "yellow")]
    said = generate(*loaded, [chain_prompt(question_over(asked, scene, None)) for scene in scenes])
    assert len(set(said)) == 3
    report = seeing(*loaded, count=20, seed=77)
    assert report["entry_recall"] > 0.5
