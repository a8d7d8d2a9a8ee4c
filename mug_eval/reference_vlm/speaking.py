"""The model's replies by real ``generate``, and a table at which it plays real games, many at a time."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from mug_eval.chat import ImageRef, Json, Message, Reply, Sampling
from mug_eval.seeds import generator


def as_chat(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    """Messages as a chat template takes them, and their pictures in order."""
    chat, pictures = [], []
    for message in messages:
        content: list[dict[str, str]] = []
        for part in message.parts:
            if isinstance(part, ImageRef):
                content.append({"type": "image"})
                pictures.append(Image.open(io.BytesIO(part.data)).convert("RGB"))
            else:
                content.append({"type": "text", "text": part})
        chat.append({"role": message.role, "content": content})
    return chat, pictures


def generate(model: Any, processor: Any, conversations: Sequence[Sequence[Message]], most: int = 160, batch: int = 32) -> list[str]:
    """Greedy replies.

    Args:
        model: from :func:`mug_eval.reference_vlm.weights.load`.
        processor: from the same.
        conversations: what to reply to.
        most: most tokens of a reply.
        batch: conversations at a time; those of like length go together.
    """
    order = sorted(range(len(conversations)), key=lambda i: len(conversations[i][-1].text))
    replies = [""] * len(conversations)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        texts, pictures = [], []
        for i in chosen:
            chat, shown = as_chat(conversations[i])
            texts.append(processor.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
            pictures += shown
        given = processor(text=texts, images=pictures or None, padding=True, return_tensors="pt")
        with torch.inference_mode():
            out = model.generate(**given, do_sample=False, max_new_tokens=most, use_cache=True)
        for i, words in zip(
            chosen, processor.batch_decode(out[:, given["input_ids"].shape[1] :], skip_special_tokens=True), strict=True
        ):
            replies[i] = words
    return replies


class Crowd:
    """Plays many games at once: when every game that is left waits for a reply, all calls are answered together."""

    def __init__(self, model: Any, processor: Any) -> None:
        self._model = model
        self._processor = processor
        self._waiting: list[tuple[Sequence[Message], asyncio.Future[str]]] = []

    async def play(self, games: Sequence[Any]) -> list[Any]:
        """Run coroutines that ask through :meth:`reply`; their results in order."""
        tasks = [asyncio.ensure_future(game) for game in games]
        while not all(task.done() for task in tasks):
            before = -1
            while before != len(self._waiting):  # let every game run until it waits
                before = len(self._waiting)
                for _ in range(5):
                    await asyncio.sleep(0)
            asked, self._waiting = self._waiting, []
            if asked:
                said = generate(self._model, self._processor, [messages for messages, _ in asked])
                for (_, future), words in zip(asked, said, strict=True):
                    future.set_result(words)
        return [task.result() for task in tasks]

    async def reply(self, messages: Sequence[Message]) -> str:
        """One reply, when its turn comes."""
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append((messages, future))
        return await future


class SpeakingTable:
    """A :class:`~mug_eval.methods.method.Table` at which the model answers greedily; the trace is kept in ``events``."""

    def __init__(self, crowd: Crowd, seed: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._crowd = crowd
        self._seed = seed

    @property
    def sampling(self) -> Sampling:
        """Greedy."""
        return Sampling(temperature=0)

    async def ask(
        self, seat: str, messages: Sequence[Message], *, sampling: Sampling | None = None, schema: Json | None = None
    ) -> Reply:
        """The model's reply."""
        return Reply(await self._crowd.reply(messages))

    def random(self, purpose: str) -> Any:
        """The game's draws."""
        return generator(self._seed, purpose)

    def record(self, kind: str, **fields: Any) -> None:
        """Keep the event."""
        self.events.append({"kind": kind, **fields})
