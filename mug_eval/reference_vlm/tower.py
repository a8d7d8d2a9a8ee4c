"""Stage 1: the vision tower alone learns to name what is in every cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from mug_eval.reference_vlm.drawing import draw
from mug_eval.reference_vlm.scenes import Scene, draw_scene, scene_seed
from mug_eval.reference_vlm.vision import CellHeads, blurred, cell_labels, encode, patches

Report = dict[str, float]


def pictures_of(scenes: list[Scene], rng: np.random.Generator) -> torch.Tensor:
    """The scenes' patches, (batch, 144, 588); a quarter of them as the ``paper`` preset shows them."""
    return patches(blurred(np.stack([draw(scene) for scene in scenes]), rng.random(len(scenes)) < 0.25))


def tower_step(
    model: Any, cells: CellHeads, seed: int, batch: int, rank: int = 0, world: int = 1
) -> Callable[[int], tuple[torch.Tensor, int, Report]]:
    """The loss of one step of stage 1, by the step's number; process ``rank`` of ``world`` takes its share of the batch."""

    def step(number: int) -> tuple[torch.Tensor, int, Report]:
        scenes = [draw_scene(scene_seed("train", seed, number * batch + i)) for i in range(rank, batch, world)]
        labels = cell_labels(scenes)
        tokens = encode(model.model.visual, pictures_of(scenes, np.random.default_rng((seed, number, rank))))
        return cells.loss(tokens, labels), len(scenes), cells.right(tokens, labels)

    return step
