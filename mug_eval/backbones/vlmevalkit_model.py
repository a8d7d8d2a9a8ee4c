"""Any model of VLMEvalKit's registry, played through its own ``generate``."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from mug_eval.atomic import cannot_write
from mug_eval.benchmarks import vlmeval
from mug_eval.chat import ImageRef, Json, Message, MisconfiguredError, RefusedError, Reply, Sampling, TransientError, Usage
from mug_eval.errors import UserError
from mug_eval.json_bytes import json_bytes
from mug_eval.names import nearest

# Decoding keywords that a class takes through **kwargs, so that its signature does not name them (vlmeval 0.0.20).
# InternVLChat hands them to transformers, but its generate_v2 overwrites temperature and top_p.
_BEYOND_SIGNATURE: Final = {
    "InternVLChat": ("do_sample", "top_k", "max_new_tokens"),
    "OpenAIWrapper": ("top_p",),
}
_SUFFIX: Final = {"image/jpeg": ".jpg", "image/png": ".png", "image/webp": ".webp"}


class VLMEvalKitModel:
    """A ``chat.ChatModel`` over one name of ``vlmeval.config.supported_VLM``.

    The model is made at the first call, once. Decoding is fixed then, since ``generate`` takes none; what the class has no keyword for
    stays at its own default and is said in ``notes``. One call at a time for a model in this process, seeded through torch; as many as
    wanted for one that is an API, and there no seed can be passed. Such a class's own retries are switched off: the dispatcher's count.

    A conversation becomes one list of text and pictures, system text first. VLMEvalKit's role items are not used: its
    ``preprocess_message_with_role`` gathers the system texts of all calls into one.

    Args:
        name: the registered name.
        sampling: the run's decoding.
        concurrency: most calls at a time, for an API.
        timeout: seconds for a call, where the class takes one.

    Attributes:
        most_calls_in_flight: calls that can be out at a time; the dispatcher keeps to it.
        notes: what could not be set as asked, one line each; for the run's record.

    Raises:
        UserError: VLMEvalKit is not there, or has no such model; says the nearest names.
    """

    def __init__(self, name: str, sampling: Sampling, *, concurrency: int = 8, timeout: float = 600.0) -> None:
        registry: dict[str, Any] = vlmeval.load("vlmeval.config").supported_VLM
        if name not in registry:
            close = nearest(name, registry)
            hint = f"did you mean {' or '.join(close)}?" if close else "see vlmeval/config.py for its names"
            raise UserError(f"VLMEvalKit has no model {name!r}; {hint}")
        self._name = name
        self._make: Callable[..., Any] = registry[name]
        made = getattr(self._make, "func", self._make)
        self._is_api = bool(getattr(made, "is_api", False))
        self._sampling = replace(sampling, seed=None)
        self._keywords, self.notes = _decoding_keywords(name, made, sampling, self._is_api)
        if "timeout" in inspect.signature(made).parameters:
            self._keywords["timeout"] = timeout
        self.most_calls_in_flight = concurrency if self._is_api else 1
        self._threads = ThreadPoolExecutor(self.most_calls_in_flight, thread_name_prefix="vlmeval")
        self._making = threading.Lock()
        self._model: Any = None
        self._pictures: tempfile.TemporaryDirectory[str] | None = None

    @property
    def fingerprint(self) -> str:
        """The registered name, and the decoding that it was made with."""
        return f"vlmevalkit:{self._name} {json_bytes(asdict(self._sampling)).decode()}"

    async def chat(self, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> Reply:
        """Ask once; see ``chat.ChatModel.chat``. VLMEvalKit does not say what a call cost, and knows no schema."""
        if replace(sampling, seed=None) != self._sampling:
            self._note(f"{self._name} plays with the decoding that it was made with, also where a method asks for another")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._generate, messages, sampling.seed)

    async def close(self) -> None:
        """Let go of the model and of its picture files; a call that is still in its thread ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._model = None
        if self._pictures is not None:
            self._pictures.cleanup()
            self._pictures = None

    def _generate(self, messages: Sequence[Message], seed: int | None) -> Reply:
        """One call, in a thread."""
        model = self._made()
        items = self._items(messages)
        if not items:
            raise RefusedError(f"{self._name} was asked nothing")
        start = time.perf_counter()
        try:
            if self._is_api:
                answer = model.generate(items)
            else:
                torch = sys.modules.get("torch")
                if torch is not None and seed is not None:
                    torch.manual_seed(seed)
                with contextlib.redirect_stdout(io.StringIO()):  # some classes print at every call
                    answer = model.generate(items)
        except Exception as error:
            # In this process the same call would fail the same way; an API may be back in a moment.
            kind = TransientError if self._is_api else RefusedError
            raise kind(f"{self._name} failed: {type(error).__name__}: {_one_line(str(error))}") from error
        text = answer.get("prediction") if isinstance(answer, dict) else answer
        if not isinstance(text, str):
            raise TransientError(f"{self._name} returned {type(text).__name__} instead of text")
        failed = str(getattr(model, "fail_msg", vlmeval.FAILED)).strip()
        if failed in text or vlmeval.FAILED.rstrip(".") in text:
            raise TransientError(f"{self._name}: {_one_line(text)}")
        images = sum(len(message.images) for message in messages)
        return Reply(text, Usage(None, None, images), "", self._name, time.perf_counter() - start)

    def _made(self) -> Any:
        """The model, made by whichever call comes first."""
        with self._making:
            if self._model is None:
                try:
                    with vlmeval.quiet(show_stderr=True):  # a download's bar may show; VLMEvalKit's log would show the API key
                        model = self._make(**self._keywords)
                except Exception as error:
                    reason = f"{type(error).__name__}: {_one_line(str(error))}"
                    raise MisconfiguredError(
                        f"VLMEvalKit cannot make {self._name} here ({reason}); it needs what that model needs (its files, a GPU, a key), "
                        "or let a server play it: --base-url http://HOST:PORT/v1"
                    ) from error
                if self._is_api:
                    model.retry, model.wait = 1, 0
                self._model = model
            return self._model

    def _items(self, messages: Sequence[Message]) -> list[dict[str, str]]:
        """The conversation as VLMEvalKit's items; new ones at each call, since it changes them."""
        items: list[dict[str, str]] = []
        for message in sorted(messages, key=lambda message: message.role != "system"):
            if message.role == "assistant":
                if message.text.strip():
                    items.append(_text(f"Your earlier reply:\n{message.text}"))
                continue
            for part in message.parts:
                if isinstance(part, ImageRef):
                    items.append({"type": "image", "value": self._picture_file(part)})
                elif part.strip():
                    items.append(_text(part))
        return items

    def _picture_file(self, image: ImageRef) -> str:
        """The picture as a file named by its hash, written once."""
        with self._making:
            if self._pictures is None:
                self._pictures = tempfile.TemporaryDirectory(prefix="mug_eval_")
            path = Path(self._pictures.name) / (image.sha256 + _SUFFIX.get(image.media_type, ".jpg"))
            if not path.exists():
                partial = path.with_suffix(".part")
                try:
                    partial.write_bytes(image.data)
                    partial.replace(path)
                except OSError as error:
                    raise cannot_write(path, error) from error
        return str(path)

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _decoding_keywords(name: str, made: Any, sampling: Sampling, is_api: bool) -> tuple[dict[str, Any], list[str]]:
    """Constructor keywords for the run's decoding, and a note for each setting that the class does not take."""
    taken = set(inspect.signature(made).parameters)
    for ancestor in getattr(made, "__mro__", ()):
        taken.update(_BEYOND_SIGNATURE.get(ancestor.__name__, ()))
    keywords: dict[str, Any] = {"verbose": False} if "verbose" in taken else {}
    notes = [f"{name} takes no seed: its draws cannot be repeated"] if is_api and sampling.temperature != 0 else []
    draws = None if sampling.temperature is None or "do_sample" not in taken else sampling.temperature > 0
    if draws is not None:
        keywords["do_sample"] = draws
    for field in ("temperature", "top_p", "top_k"):
        value = getattr(sampling, field)
        if value is None or (field == "temperature" and draws is False):  # transformers refuses a temperature of 0
            continue
        if field in taken:
            keywords[field] = value
        else:
            notes.append(f"{name} has no keyword for {field}: it plays with its own default, not {value:g}")
    length = next((keyword for keyword in ("max_new_tokens", "max_tokens") if keyword in taken), None)
    if length is None:
        notes.append(f"{name} has no keyword for max_tokens: it plays with its own default, not {sampling.max_tokens}")
    else:
        keywords[length] = sampling.max_tokens
    return keywords, notes


def _text(value: str) -> dict[str, str]:
    """A text item. VLMEvalKit takes a text that is a path, an address or a data URI for a file, and reads or fetches it."""
    if value.startswith("data:") or os.path.exists(value) or re.fullmatch(r"\s*\w+://\S+\s*", value):  # noqa: PTH110 (a text of any length)
        value = f"\n{value}"
    return {"type": "text", "value": value}


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"
