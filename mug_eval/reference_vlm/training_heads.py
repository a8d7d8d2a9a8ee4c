"""What the language model is asked about its inside while it trains, so that it comes sooner to what its replies need.

These heads are thrown away afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn import functional

from mug_eval.reference_vlm.scenes import GRID, Scene


class FitsHead(torch.nn.Module):  # type: ignore[misc]
    """Says of an entry in somebody's list whether the own picture has it, from the last hidden state but one; for training only."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = torch.nn.Linear(width, 1)

    def loss(self, hidden: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Mean cross-entropy over both classes alike, and the mean share that is right.

        Args:
            hidden: (B, L, width).
            labels: (B, L), 0, 1, or -1 where there is none.
        """
        known = labels >= 0
        if not known.any():
            return torch.zeros(()), math.nan
        truth = labels[known].float()
        scores = self.score(hidden[known]).float().squeeze(-1)
        weight = torch.where(truth > 0, 0.5 / truth.sum().clamp(min=1), 0.5 / (1 - truth).sum().clamp(min=1))
        loss = functional.binary_cross_entropy_with_logits(scores, truth, weight, reduction="sum")
        right = (((scores > 0) == (truth > 0)).float() * weight).sum() / weight.sum()
        return loss, right.item()


class OrderHead(torch.nn.Module):  # type: ignore[misc]
    """Names, from an occupied cell's token after the second layer, its place and the place of the thing before it in reading order.

    A list goes from thing to thing. That a later layer finds the next one as "the one whose predecessor was just named" was what took
    longest to learn without help.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.name = torch.nn.Linear(width, 4 * (GRID + 1))

    def loss(self, hidden: torch.Tensor, scenes: Sequence[Scene]) -> tuple[torch.Tensor, float]:
        """Mean cross-entropy over row and column of the thing and of the one before, and the share that is right.

        Args:
            hidden: (pictures, 36, width).
            scenes: one a picture.
        """
        where: list[tuple[int, int]] = []
        labels: list[tuple[int, int, int, int]] = []
        for i, scene in enumerate(scenes):
            before = (0, 0)
            for thing in scene.things:
                where.append((i, (thing.row - 1) * GRID + thing.column - 1))
                labels.append((*thing.cell, *before))
                before = thing.cell
        if not where:
            return torch.zeros(()), math.nan
        pictures, cells = torch.tensor(where).unbind(1)
        truth = torch.tensor(labels).flatten()
        scores = self.name(hidden[pictures, cells]).float().view(-1, GRID + 1)
        return functional.cross_entropy(scores, truth), (scores.argmax(-1) == truth).float().mean().item()


class AgentHead(torch.nn.Module):  # type: ignore[misc]
    """Names, from a token after the second layer, the agent who says it or about whom it is said.

    Lists of different agents hold nearly the same words. To look into the right one, its words must be known as that agent's.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.name = torch.nn.Linear(width, 7)

    def loss(self, hidden: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Mean cross-entropy, and the share that is right.

        Args:
            hidden: (B, L, width).
            labels: (B, L), 1..6, or -1 where there is none.
        """
        known = labels >= 0
        if not known.any():
            return torch.zeros(()), math.nan
        scores = self.name(hidden[known]).float()
        return functional.cross_entropy(scores, labels[known]), (scores.argmax(-1) == labels[known]).float().mean().item()
