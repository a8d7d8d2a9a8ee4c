"""Train the reference model from nothing: ``python -m mug_eval.reference_vlm.train --out FOLDER``.

Nine stages, each a seeded stream of scenes: ``tower`` (the vision tower names cells), ``see`` (describe, answer), ``play`` (the calls of
the methods' games), ``settle`` (the same while the rate falls), ``read`` (mostly answers after descriptions), ``choose`` (finding a value
among the options and naming its letter, which is learnt late), ``drill`` (many things looked up in one list, lists that often differ
compared), ``last`` (everything once more while the rate falls to nothing) and ``count`` (the same for what was weakest). Kill it
at any time; the same command goes on from the last checkpoint. One thread: two threads on a busy machine were slower than one. Two
processes that average their gradients are faster: ``torchrun --nproc-per-node 2 -m mug_eval.reference_vlm.train --out FOLDER``. Products
are computed in bfloat16.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn import functional

from mug_eval.reference_vlm import checkpoint
from mug_eval.reference_vlm.attention import NAME as PRODUCTS
from mug_eval.reference_vlm.attention import additive
from mug_eval.reference_vlm.checkpoint import Standing
from mug_eval.reference_vlm.dialogs import (
    concluded_questions,
    described_questions,
    drilled_questions,
    game_calls,
    planned_questions,
    short_questions,
    two_pictures,
)
from mug_eval.reference_vlm.model import IMAGE_PAD, new_model
from mug_eval.reference_vlm.oracle import Call
from mug_eval.reference_vlm.packing import Row, chat_text, collate, pack
from mug_eval.reference_vlm.scenes import draw_scene, scene_seed
from mug_eval.reference_vlm.tokenizer import fixed_sentences, train_tokenizer
from mug_eval.reference_vlm.tower import Report, pictures_of, tower_step
from mug_eval.reference_vlm.training_heads import AgentHead, FitsHead, OrderHead
from mug_eval.reference_vlm.vision import CellHeads, cell_labels, encode
from mug_eval.reference_vlm.weights import export
from mug_eval.seeds import derive_seed, generator

StepOf = Callable[[int], tuple[torch.Tensor, int, Report]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the training.

    Attributes:
        name: of the checkpoint, too.
        steps: how many.
        batch: pictures (tower) or rows a step.
        rate: the learning rate.
        falls: share of the steps at the end in which the rate falls linearly to a fiftieth.
        games: share of the rows that are calls of games or of a planner.
        plans: share of those that are a planner's.
        short: of the other rows: questions answered directly.
        described: of the other rows: questions answered after a description.
        concluded: of the other rows: questions of which the last step alone is learnt.
        drilled: share of all rows that are much of one thing: looking up in a list, or comparing lists that often differ.
    """

    name: str
    steps: int
    batch: int
    rate: float
    falls: float
    games: float = 0.0
    plans: float = 0.15
    short: int = 2
    described: int = 2
    concluded: int = 0
    drilled: float = 0.0


STAGES = (
    Stage("tower", 600, 16, 2e-3, 0.3),
    Stage("see", 2500, 16, 1.5e-3, 0.0),
    Stage("play", 1200, 16, 1.2e-3, 0.0, 0.5),
    Stage("settle", 2200, 16, 1.2e-3, 0.75, 0.5),
    Stage("read", 1100, 16, 1e-3, 0.0, 0.3, short=1, described=4),
    Stage("choose", 3000, 16, 1e-3, 1.0, 0.2, short=1, described=2, concluded=6),
    Stage("drill", 3000, 16, 1e-3, 0.0, 0.6, plans=0.3, short=1, described=3, concluded=1, drilled=0.5),
    Stage("last", 5000, 16, 8e-4, 1.0, 0.6, plans=0.3, short=1, described=4, concluded=1, drilled=0.2),
    Stage("count", 800, 16, 5e-4, 1.0, 0.5, plans=0.3, short=1, described=5, drilled=0.5),
)
_LONGEST = 700
"""Tokens of a row beyond which calls are left out: attention costs the square, and a game of five agents would hold up a whole batch."""
_POOL = 8
"""Batches drawn at once and sorted by length, so that little is padding."""


def row_of(seed: int, number: int, stage: Stage, tokenizer: Any) -> Row:
    """Row ``number`` of the stream, of a few short questions with a description, of two pictures, or of a game's calls."""
    rng = generator("row", seed, number)
    scene = draw_scene(scene_seed("train", seed, number))
    calls: list[Call] = []
    if rng.random() < stage.drilled:
        calls = drilled_questions(scene, rng, 12) if rng.random() < 0.6 else game_calls(scene, rng, 3, mistakes=0.5)
    elif rng.random() < stage.games:
        if rng.random() >= stage.plans:
            calls = game_calls(scene, rng, 3)
        else:  # what to edit is learnt last by far
            calls = [call for call in planned_questions(scene, rng, 2) if call.task == "plan" or rng.random() < 0.5]
    elif rng.random() < 0.06:
        calls = two_pictures(rng)
    while not calls:
        calls = short_questions(scene, rng, stage.short) + described_questions(scene, rng, stage.described)
        calls += concluded_questions(scene, rng, stage.concluded)
    row = pack(calls, tokenizer)
    while len(row) > _LONGEST and len(calls) > 1:
        calls = calls[:-1]
        row = pack(calls, tokenizer)
    return row


def language_step(
    model: Any,
    heads: tuple[CellHeads, FitsHead, OrderHead, AgentHead],
    tokenizer: Any,
    seed: int,
    stage: Stage,
    first: int,
    rank: int = 0,
    world: int = 1,
) -> StepOf:
    """The loss of one step of the stages after the tower's.

    Args:
        model: the network.
        heads: what keeps the tower naming cells, what judges entries of others' lists, what names places, and what names agents.
        tokenizer: of the network.
        seed: of the stream.
        stage: batch size and share of games.
        first: number of the stage's first row in the stream.
        rank: of this process; it draws and learns every ``world``-th row.
        world: number of processes.
    """
    import numpy as np

    cells, fits, order, agent = heads
    text = model.model.language_model
    text.set_attn_implementation(PRODUCTS)
    seen: dict[str, torch.Tensor] = {}
    for name, layer in (("second", text.layers[1]), ("last but one", text.layers[-2])):
        layer.register_forward_hook(partial(_overhear, seen, name))
    pools: dict[int, list[list[Row]]] = {}

    def rows(step: int) -> list[Row]:
        pool, place = divmod(step, _POOL)
        if pool not in pools:
            pools.clear()
            numbers = range(first + pool * _POOL * stage.batch + rank, first + (pool + 1) * _POOL * stage.batch, world)
            drawn = sorted((row_of(seed, number, stage, tokenizer) for number in numbers), key=len)
            share = max(1, stage.batch // world)
            batches = [drawn[i : i + share] for i in range(0, len(drawn), share)]
            # The same order in every process, so that rows of like length are learnt at the same time.
            random.Random(derive_seed("order", seed, pool)).shuffle(batches)
            pools[pool] = batches
        return pools[pool][place]

    def step(number: int) -> tuple[torch.Tensor, int, Report]:
        batch = collate(rows(number))
        tokens = encode(model.model.visual, pictures_of(batch.scenes, np.random.default_rng((seed, first, number, rank))))
        labels = cell_labels(batch.scenes)
        embedded = text.embed_tokens(batch.ids)
        embedded = embedded.masked_scatter((batch.ids == IMAGE_PAD)[..., None], tokens.flatten(0, 1).to(embedded.dtype))
        out = text(
            inputs_embeds=embedded,
            attention_mask={"full_attention": additive(batch.mask)},
            position_ids=batch.positions,
            use_cache=False,
        )
        learnt = batch.weights > 0
        logits = model.lm_head(out.last_hidden_state[learnt]).float()
        each = functional.cross_entropy(logits, batch.targets[learnt], reduction="none")
        weights = batch.weights[learnt]
        right = (logits.argmax(-1) == batch.targets[learnt]).float()
        fit_loss, fit_right = fits.loss(seen["last but one"], batch.fits)
        in_pictures = seen["second"][batch.ids == IMAGE_PAD].view(*tokens.shape)
        order_loss, order_right = order.loss(in_pictures, batch.scenes)
        agent_loss, agent_right = agent.loss(seen["second"], batch.agents)
        loss = (each * weights).sum() / weights.sum() + cells.loss(tokens, labels)
        loss = loss + 0.6 * fit_loss + 0.5 * order_loss + 0.3 * agent_loss
        heavy = weights >= 3
        report = {
            "token": each.mean().item(),
            "right": right.mean().item(),
            "decisive": right[heavy].mean().item() if heavy.any() else math.nan,
            "fits": fit_right,
            "order": order_right,
            "agent": agent_right,
            "shape": cells.right(tokens, labels)["shape"],
        }
        return loss, len(batch.scenes), report

    return step


def _overhear(seen: dict[str, torch.Tensor], name: str, _module: Any, _given: Any, out: Any) -> None:
    """Keep a layer's output."""
    seen[name] = out[0] if isinstance(out, tuple) else out


def rate_at(stage: Stage, step: int) -> float:
    """The learning rate: up in 40 steps, level, down in the last ``falls`` of the steps."""
    left = (stage.steps - step) / max(1.0, stage.falls * stage.steps)
    return stage.rate * min(1.0, (step + 1) / 40, max(0.02, left) if stage.falls else 1.0)


def sample_texts(seed: int, count: int) -> list[str]:
    """Dialogs for the tokenizer, without what has tokens of its own."""
    sentences = sorted(fixed_sentences(), key=len, reverse=True)
    texts = []
    for number in range(count):
        rng = generator("tokenizer", seed, number)
        scene = draw_scene(scene_seed("train", seed, number))
        calls = short_questions(scene, rng, 3) + described_questions(scene, rng, 1) + planned_questions(scene, rng, 1)
        calls += game_calls(scene, rng, 3) + two_pictures(rng)
        for call in calls:
            text = (chat_text(call) + call.reply).replace("<|image_pad|>", "")
            for sentence in sentences:
                text = text.replace(sentence, "\n")
            texts.append(text)
    return texts


def train(out: Path, seed: int, stages: Sequence[Stage], every: int = 100, say: Callable[[str], None] = print) -> Path:
    """Train through the stages, or go on where ``out`` was left.

    Args:
        out: folder for the tokenizer and the checkpoints, one a stage.
        seed: of weights, scenes and dialogs.
        stages: in this order.
        every: steps between checkpoints.
        say: takes a progress line.

    Returns:
        The last checkpoint.

    Raises:
        UserError: a checkpoint in ``out`` is of another architecture or vocabulary.
    """
    from transformers import AutoTokenizer

    torch.set_num_threads(1)
    rank, world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    if rank == 0 and not (out / "tokenizer" / "tokenizer.json").exists():
        train_tokenizer(sample_texts(seed, 800)).save_pretrained(out / "tokenizer")
    _together()
    tokenizer = AutoTokenizer.from_pretrained(out / "tokenizer")
    model = new_model(len(tokenizer), seed)
    torch.manual_seed(seed + 1)
    width = model.config.text_config.hidden_size
    cells, fits, order, agent = CellHeads(width), FitsHead(width), OrderHead(width), AgentHead(width)
    modules: dict[str, torch.nn.Module] = {"model": model, "cells": cells, "fits": fits, "order": order, "agent": agent}
    standing = Standing(seed)
    path = out / "none"
    for stage in stages:
        path = out / f"{stage.name}.safetensors"
        tower = list(model.model.visual.parameters())
        others = [p for module in (model.model.language_model, cells, fits, order, agent) for p in module.parameters()]
        learning = [*tower, *others]
        # The tower has learnt to see already; at the full rate it would forget that while the language model is still at sea.
        groups = [{"params": tower, "share": 1.0 if stage.name == "tower" else 0.3}, {"params": others, "share": 1.0}]
        optimiser = torch.optim.AdamW(groups, lr=stage.rate, betas=(0.9, 0.98), weight_decay=0.02, fused=True)
        standing = replace(standing, stage=stage.name, step=0)
        if path.exists():
            standing = checkpoint.load(path, modules, optimiser)
        if standing.step >= stage.steps:
            continue
        if stage.name == "tower":
            step_of = tower_step(model, cells, seed, stage.batch, rank, world)
        else:
            first = 10_000_000 * (1 + [s.name for s in STAGES].index(stage.name))
            step_of = language_step(model, (cells, fits, order, agent), tokenizer, seed, stage, first, rank, world)
        keep = partial(_keep, path, modules, optimiser)
        with torch.enable_grad():  # whoever imported VLMEvalKit in this process has switched gradients off
            _run(stage, standing, step_of, learning, optimiser, keep, every, say)
        standing = checkpoint.load(path, modules, optimiser)
    return path


def _keep(path: Path, modules: dict[str, torch.nn.Module], optimiser: torch.optim.Optimizer, standing: Standing) -> None:
    """Checkpoint by the first process; the others wait, so that none goes on from a file that is not there yet."""
    if not dist.is_initialized() or dist.get_rank() == 0:
        checkpoint.save(path, standing, modules, optimiser)
    _together()


def _together() -> None:
    if dist.is_initialized():
        dist.barrier()


def _run(
    stage: Stage,
    standing: Standing,
    step_of: StepOf,
    learning: list[torch.nn.Parameter],
    optimiser: torch.optim.Optimizer,
    keep: Callable[[Standing], None],
    every: int,
    say: Callable[[str], None],
) -> None:
    means: dict[str, float] = {}
    world = dist.get_world_size() if dist.is_initialized() else 1
    spent = time.process_time()
    for step in range(standing.step, stage.steps):
        for group in optimiser.param_groups:
            group["lr"] = rate_at(stage, step) * group["share"]
        with torch.autocast("cpu", torch.bfloat16):
            loss, scenes, report = step_of(step)
        optimiser.zero_grad()
        loss.backward()
        _average(learning)
        torch.nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
        for key, value in {"loss": loss.item(), **report}.items():
            if not math.isnan(value):
                means[key] = 0.95 * means.get(key, value) + 0.05 * value
        now = time.process_time()
        standing = replace(
            standing,
            step=step + 1,
            scenes=standing.scenes + scenes * world,
            cpu_seconds=standing.cpu_seconds + (now - spent) * world,
        )
        spent = now
        if (step + 1) % 20 == 0:
            numbers = " ".join(f"{key} {value:.3f}" for key, value in means.items())
            say(f"{stage.name} {step + 1}/{stage.steps} scenes {standing.scenes} cpu {standing.cpu_seconds:.0f}s {numbers}")
        if (step + 1) % every == 0 or step + 1 == stage.steps:
            keep(standing)


def _average(learning: list[torch.nn.Parameter]) -> None:
    """Every process gets the mean of all processes' gradients."""
    if not dist.is_initialized():
        return
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in learning]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for parameter, mean in zip(learning, flat.split([gradient.numel() for gradient in gradients]), strict=True):
        if parameter.grad is not None or mean.any():  # what no process used stays without, so that it does not decay either
            parameter.grad = mean.view_as(parameter)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m mug_eval.reference_vlm.train", description="Train the reference model.")
    parser.add_argument("--out", type=Path, required=True, help="folder for the tokenizer and the checkpoints")
    parser.add_argument("--seed", type=int, default=0, help="of weights, scenes and dialogs (default 0)")
    parser.add_argument(
        "--steps",
        metavar="STAGE=N",
        nargs="*",
        default=[],
        help=f"other numbers of steps than {', '.join(f'{s.name}={s.steps}' for s in STAGES)}; 0 leaves a stage out",
    )
    given = parser.parse_args(argv)
    steps = dict(entry.split("=", 1) for entry in given.steps)
    if unknown := set(steps) - {stage.name for stage in STAGES}:
        parser.error(f"there is no stage {', '.join(sorted(unknown))}")
    stages = [replace(stage, steps=int(steps.get(stage.name, stage.steps))) for stage in STAGES]
    if "WORLD_SIZE" in os.environ:  # started by torchrun
        dist.init_process_group("gloo")
    first = not dist.is_initialized() or dist.get_rank() == 0
    last = train(
        given.out,
        given.seed,
        [stage for stage in stages if stage.steps],
        say=lambda line: print(line, flush=True) if first else None,
    )
    if first:
        export(last, given.out / "tokenizer", given.out / "model")
        print(f"written: {given.out / 'model'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
