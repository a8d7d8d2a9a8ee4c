"""Runs calls through the model's own ``generate``: one at a time, or a batch of whole prompts. Nothing is shared between calls.

For models whose cache cannot be shared, and the yardstick of ``bench/local_model.py``: one at a time is how VLMEvalKit and the released
code of MUG play.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import LogitsProcessor, LogitsProcessorList

from mug_eval.backbones.hf_prompt import decoded
from mug_eval.backbones.hf_row import Counts, Row
from mug_eval.backbones.token_draw import Draw, next_tokens


class PlainRunner:
    """A ``hf_row.Runner`` that ends every row in ``start``.

    Args:
        model: a transformers model in evaluation mode.
        processor: of ``AutoProcessor``, or a tokenizer.
        ends: token ids that end a reply.
        pad: token id for the left of short prompts.
        together: most calls of one ``generate``.
    """

    def __init__(self, model: Any, processor: Any, ends: frozenset[int], pad: int, *, together: int) -> None:
        self._model = model
        self._processor = processor
        self._ends = ends
        self._pad = pad
        self._together = together
        self.counts = Counts()

    @property
    def active(self) -> list[Row]:
        """None: every row has ended when ``start`` returns."""
        return []

    def start(self, rows: list[Row]) -> None:
        """Generate the whole replies."""
        for i in range(0, len(rows), self._together):
            self._generate(rows[i : i + self._together])

    def step(self) -> None:
        """Nothing to do."""

    def drop(self) -> list[Row]:
        """Nothing is held."""
        return []

    def _generate(self, rows: Sequence[Row]) -> None:
        texts = [row.prompt.text for row in rows]
        pictures = [[decoded(image) for image in row.prompt.images] for row in rows]
        options = {"padding": True, "padding_side": "left", "return_tensors": "pt", "add_special_tokens": False}
        if any(pictures):
            inputs = self._processor(text=texts, images=pictures, **options)
        else:
            inputs = getattr(self._processor, "tokenizer", self._processor)(texts, **options)
        inputs = inputs.to(self._model.device)
        length = inputs["input_ids"].shape[1]
        replies = self._model.generate(
            **inputs,
            max_new_tokens=max(row.most for row in rows),
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            repetition_penalty=1.0,
            eos_token_id=sorted(self._ends),
            pad_token_id=self._pad,
            logits_processor=LogitsProcessorList([_Drawn([row.draw for row in rows])]),
        )
        for row, reply in zip(rows, replies[:, length:].tolist(), strict=True):
            for token in reply:
                row.take(token, self._ends)
                if row.finish:
                    break
            self.counts.prompt_tokens += row.prompt.length
            self.counts.computed_tokens += row.prompt.length
            self.counts.pictures += len(row.prompt.images)
            self.counts.encoded_pictures += len(row.prompt.images)
        self.counts.prefill_batches += 1
        self.counts.steps += replies.shape[1] - length - 1
        self.counts.step_rows += len(rows) * (replies.shape[1] - length - 1)


class _Drawn(LogitsProcessor):  # type: ignore[misc]  # transformers is not typed
    """Lets each row's own draw choose: every other token is made impossible."""

    def __init__(self, draws: Sequence[Draw]) -> None:
        self._draws = draws

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        seen = None
        if any(draw.repetition_penalty != 1.0 for draw in self._draws):
            seen = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device).scatter(1, input_ids, True)
        chosen = torch.tensor(next_tokens(scores, self._draws, seen), device=scores.device)[:, None]
        return torch.full_like(scores, -torch.inf).scatter(1, chosen, 0.0)
