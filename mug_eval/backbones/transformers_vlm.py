"""Any image-text-to-text model of Hugging Face transformers, in this process, with one scheduler in front of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

import torch

from mug_eval.backbones.hf_loading import Opened, free_memory, load_weights, memory_line, open_model
from mug_eval.backbones.hf_prompt import Prompt, PromptBuilder
from mug_eval.backbones.hf_row import Counts, Row, Runner
from mug_eval.backbones.hf_scheduler import Scheduler
from mug_eval.backbones.hf_self_check import self_check
from mug_eval.backbones.plain_runner import PlainRunner
from mug_eval.backbones.shared_runner import SharedRunner
from mug_eval.backbones.token_draw import draw_for
from mug_eval.chat import Json, Message, MisconfiguredError, Reply, Sampling, Usage
from mug_eval.errors import UserError
from mug_eval.json_bytes import json_bytes

Sharing = Literal["auto", "batch", "none"]

_MOST_ROWS_PLAIN = 32
_DEFAULTS = ("do_sample", "temperature", "top_k", "top_p", "repetition_penalty")
_NOT_FOLLOWED = {
    "no_repeat_ngram_size": 0,
    "min_p": None,
    "typical_p": 1.0,
    "num_beams": 1,
    "bad_words_ids": None,
    "min_new_tokens": None,
}
"""Decoding settings that a model may ship and that are not followed here, with the value that means nothing."""


class TransformersVLM:
    """A ``chat.ChatModel`` over ``AutoModelForImageTextToText``.

    Calls of all games are batched; what they share (pictures, questions, transcripts) is computed once and kept within a byte budget
    (``shared_runner``). Whether a model allows that is tried when its weights are loaded; if not, whole prompts are batched, and
    ``notes`` says so. Each call draws from its own seeded generator, so that its reply does not depend on who shares its batch, up to
    the rounding of floating point: in fp32 that changes no token in our tests, in bf16 it may (docs/performance.md).

    Configuration and tokenizer are read at once, the weights at the first call, in a thread.

    Args:
        name: hub name, or a folder.
        device: ``auto``, ``cpu``, ``cuda``, ``cuda:1``, ``mps``, or ``spread`` over all GPUs.
        dtype: ``auto`` (bf16 on a GPU, fp32 on a CPU), ``bf16``, ``fp16``, ``fp32``.
        sharing: ``auto``; ``batch``: batches of whole prompts; ``none``: one call at a time, as the yardstick.
        token_budget: most tokens of prompts and replies in a batch; measured if None.
        prefix_bytes: most bytes of cached prefixes; measured if None.

    Attributes:
        notes: what is not as asked, one line each; for the run's record.

    Raises:
        UserError: no such model or device, or too little memory for its weights.
    """

    def __init__(
        self,
        name: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        sharing: Sharing = "auto",
        token_budget: int | None = None,
        prefix_bytes: int | None = None,
    ) -> None:
        self._opened = open_model(name, device, dtype)
        self._sharing = sharing
        self._token_budget = token_budget
        self._prefix_bytes = prefix_bytes
        generation = self._opened.generation
        self._ends = _end_tokens(self._opened)
        self._loaded: PromptBuilder | MisconfiguredError | None = None
        self._preparing = ThreadPoolExecutor(1, "prompts", torch.set_num_threads, (torch.get_num_threads(),))
        self._scheduler = Scheduler(generation, lambda: memory_line(self._opened.device))
        self.notes: list[str] = []
        for setting, neutral in _NOT_FOLLOWED.items():
            value = getattr(generation, setting, None)
            if value is not None and value != neutral:
                self.notes.append(f"{self._opened.label} ships {setting}={value}, which is not followed")

    @property
    def fingerprint(self) -> str:
        """The model's content, and what changes its replies: number format and the decoding that it ships."""
        opened = self._opened
        defaults = {field: getattr(opened.generation, field, None) for field in _DEFAULTS}
        return f"hf:{opened.content} {str(opened.dtype).removeprefix('torch.')} {json_bytes(defaults).decode()}"

    @property
    def counts(self) -> Counts:
        """What the model has done so far."""
        return self._scheduler.runner.counts if self._scheduler.runner is not None else Counts()

    @property
    def budget(self) -> int:
        """Most tokens in a batch, as measured and as halved since; 0 before the first call."""
        return self._scheduler.budget

    async def chat(self, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> Reply:
        """Ask once; see ``chat.ChatModel.chat``. A schema cannot be held to here.

        Raises:
            RefusedError: pictures over the context, pictures for a model that sees none, or a call that does not fit into memory even
                alone.
            PromptTooLong: a prompt over the context; found before anything is computed.
            MisconfiguredError: the weights cannot be loaded.
        """
        loop = asyncio.get_running_loop()
        if self._loaded is None:  # no call's price: whoever comes first would pay for all
            await loop.run_in_executor(self._preparing, self._ready)
        start = time.perf_counter()
        self._scheduler.announce(1)
        try:
            prompt = await loop.run_in_executor(self._preparing, self._prepared, messages)
            row = self._row(prompt, sampling)
            self._scheduler.submit(row)
        finally:
            self._scheduler.announce(-1)
        await asyncio.wrap_future(row.future)
        tokenizer = getattr(self._opened.processor, "tokenizer", self._opened.processor)
        text = tokenizer.decode(row.tokens, skip_special_tokens=True)
        usage = Usage(prompt.length, len(row.tokens), len(prompt.images))
        return Reply(text, usage, row.finish, self._opened.label, time.perf_counter() - start)

    async def close(self) -> None:
        """Let go of the model; calls that wait are cancelled."""
        self._preparing.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._scheduler.close)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _prepared(self, messages: Sequence[Message]) -> Prompt:
        """The prompt, in the one thread that prepares them."""
        builder = self._ready()
        prompt = builder.build(messages)
        if builder.defused:
            self._note(f"{self._opened.label}: special tokens written out in a question or a reply were broken up by a space")
        return prompt

    def _ready(self) -> PromptBuilder:
        """What makes prompts; loads the model first if nobody has."""
        if self._loaded is None:
            try:
                self._loaded = self._load()
            except MisconfiguredError as error:
                self._loaded = error
        if isinstance(self._loaded, MisconfiguredError):
            raise self._loaded
        return self._loaded

    def _load(self) -> PromptBuilder:
        opened = self._opened
        model = load_weights(opened)
        builder = PromptBuilder(opened.processor, getattr(model, "model", None), opened.label, opened.context)
        tokenizer = builder.tokenizer
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(self._ends)
        memory = _measured(model, opened.device)
        runner: Runner | None = None
        if self._sharing == "auto":
            problem, shared = self._shared(model, builder, memory)
            if problem is None:
                runner = shared
            else:
                self._note(f"{opened.label}: whole prompts are batched, nothing is shared between calls: {problem}")
        if runner is None:
            together = 1 if self._sharing == "none" else _MOST_ROWS_PLAIN
            runner = PlainRunner(model, opened.processor, self._ends, pad, together=together)
        self._scheduler.serve(runner, self._token_budget or memory.batch_tokens)
        return builder

    def _shared(self, model: Any, builder: PromptBuilder, memory: _Memory) -> tuple[str | None, SharedRunner | None]:
        """Why calls cannot share, or the runner that lets them."""
        opened = self._opened
        try:
            shared = SharedRunner(
                model,
                self._ends,
                prefix_bytes=memory.prefix if self._prefix_bytes is None else self._prefix_bytes,
                feature_bytes=memory.features,
                pass_tokens=memory.pass_tokens,
            )
        except ValueError as error:
            return str(error), None
        with torch.inference_mode():
            problem = self_check(shared, builder, model, opened.processor, opened.sees)
        if problem is not None:
            shared.leave()
        return problem, shared

    def _row(self, prompt: Prompt, sampling: Sampling) -> Row:
        context = self._opened.context
        most = sampling.max_tokens if context is None else min(sampling.max_tokens, context - prompt.length)
        return Row(prompt, sampling, most, Future(), draw_for(sampling, self._opened.generation))

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


@dataclass(frozen=True, slots=True)
class _Memory:
    """How the memory that the weights leave is shared out.

    Attributes:
        prefix: bytes of cached prefixes.
        features: bytes of cached picture embeddings.
        batch_tokens: tokens of prompts and replies in a batch.
        pass_tokens: tokens of one pass over prompts.
    """

    prefix: int
    features: int
    batch_tokens: int
    pass_tokens: int


def _measured(model: Any, device: str) -> _Memory:
    """From the free memory, and the bytes that a token's keys and values take in this model.

    A GPU is ours: three tenths for prefixes, four for the batch (which is copied when calls join, hence half of that), the rest for
    what a pass computes. A CPU's memory is shared with others: an eighth and a tenth, and small passes, since larger ones are no faster.
    """
    text = model.config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    token = 2 * text.num_hidden_layers * heads * size * model.dtype.itemsize
    free = free_memory(device) or 4 << 30
    if device == "cpu":
        return _Memory(min(free // 8, 4 << 30), min(free // 32, 1 << 30), max(free // 20 // token, 1), 2048)
    return _Memory(free * 3 // 10, min(free // 20, 4 << 30), max(free // 5 // token, 1), 16_384)


def _end_tokens(opened: Opened) -> frozenset[int]:
    ends = opened.generation.eos_token_id
    if ends is None:
        ends = getattr(opened.processor, "tokenizer", opened.processor).eos_token_id
    if ends is None:
        raise UserError(f"hf:{opened.name} names no token that ends a reply (eos_token_id in generation_config.json)")
    return frozenset([ends] if isinstance(ends, int) else ends)
