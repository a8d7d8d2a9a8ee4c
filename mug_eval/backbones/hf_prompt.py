"""A conversation -> tokens, positions and pictures for a Hugging Face model, every picture processed once.

A picture becomes the tokens that the processor makes of it alone, and these are put where the chat template has its placeholder. That
this is what the processor would have made of the whole conversation is checked when a model is opened (``hf_self_check``).
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from mug_eval.chat import ImageRef, Message, PromptTooLong, RefusedError

Tokens = npt.NDArray[np.int64]
Key = TypeVar("Key")
Value = TypeVar("Value")

_NOT_FOR_THE_TOWER = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
_MOST_KEPT = 256
_SPREAD = 0x9E3779B97F4A7C15  # odd, so that the offsets within a picture all differ


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture as the processor made it.

    Attributes:
        sha256: of its bytes.
        tokens: (n,) the tokens that stand for it in a prompt, placeholders and what surrounds them.
        types: (n,) ``mm_token_type_ids`` of these.
        inputs: what ``get_image_features`` takes (pixel values, grid), without the tokens.
    """

    sha256: str
    tokens: Tokens
    types: Tokens
    inputs: dict[str, Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the pixel values and what comes with them."""
        return sum(value.nbytes for value in self.inputs.values() if isinstance(value, torch.Tensor))


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """A conversation ready for the model.

    Attributes:
        text: the chat template's text, one placeholder a picture.
        tokens: (length,) with every picture expanded.
        keys: (length,) like ``tokens``, but a picture's tokens also tell which picture: equal keys up to some place mean the same
            input up to there.
        positions: (length,) or (3, length) rotary positions.
        pictures: (start, end, picture) of each picture, in order.
        images: the pictures as they were given.
    """

    text: str
    tokens: Tokens
    keys: Tokens
    positions: torch.Tensor
    pictures: tuple[tuple[int, int, Picture], ...]
    images: tuple[ImageRef, ...]

    @property
    def length(self) -> int:
        """Tokens."""
        return len(self.tokens)

    @property
    def next_position(self) -> int:
        """The position of the first token of the reply."""
        return int(self.positions.max()) + 1


class PromptBuilder:
    """Makes prompts for one model. Not for several threads at a time: fast tokenizers do not like it.

    Args:
        processor: of ``AutoProcessor``, or a tokenizer for a model that sees no pictures.
        inner: the model inside the language-model head (``model.model``); asked for positions where it has its own (M-RoPE).
        name: the model's name, for messages.
        context: most tokens of prompt and reply, or None if the model does not say.
        picture_bytes: most bytes of processed pictures that are kept.
    """

    def __init__(self, processor: Any, inner: Any, name: str, context: int | None, picture_bytes: int = 512 << 20) -> None:
        self._processor = processor
        self.tokenizer = getattr(processor, "tokenizer", processor)
        self._rope_index = getattr(inner, "get_rope_index", None)
        self._name = name
        self._context = context
        self._placeholder: str | None = getattr(processor, "image_token", None) if processor is not self.tokenizer else None
        added = self.tokenizer.added_tokens_decoder.values()
        # Words that a vocabulary merely has whole (the reference model's sentences) end no turn; what looks like markup might.
        self._special = sorted(
            {str(token.content) for token in added if token.special or str(token.content)[:1] in "<["}, key=len, reverse=True
        )
        self._pictures: OrderedDict[str, Picture] = OrderedDict()
        self._room = picture_bytes
        self._texts: OrderedDict[str, Tokens] = OrderedDict()
        self._heads: OrderedDict[bytes, torch.Tensor] = OrderedDict()
        self.defused = 0
        """Texts in which a special token was written out, and was broken up so that it stays text."""

    def render(self, messages: Sequence[Message]) -> tuple[str, tuple[ImageRef, ...]]:
        """The conversation by the model's chat template, and its pictures in order.

        Raises:
            RefusedError: a picture for a model that sees none, or a conversation that the template does not take.
        """
        images = tuple(image for message in messages for image in message.images)
        if images and self._placeholder is None:
            raise RefusedError(f"{self._name} takes no pictures: it can play text-only questions")
        turns: list[dict[str, Any]] = []
        for message in messages:
            parts = [
                {"type": "text", "text": self._defuse(part)} if isinstance(part, str) else {"type": "image"}
                for part in message.parts
            ]
            plain = "\n".join(part["text"] for part in parts if part["type"] == "text")
            turns.append({"role": message.role, "content": plain if self._placeholder is None else parts})
        try:
            text = self._processor.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        except Exception as error:  # whatever a template raises
            raise RefusedError(f"the chat template of {self._name} does not take this conversation: {error}") from error
        return str(text), images

    def build(self, messages: Sequence[Message]) -> Prompt:
        """Tokens, positions and pictures.

        Raises:
            RefusedError: a picture for a model that sees none or does not take one of its shape, or pictures that take more tokens than
                the context has.
            PromptTooLong: a prompt over the context.
        """
        text, images = self.render(messages)
        pieces = text.split(self._placeholder) if self._placeholder else [text]
        if len(pieces) != len(images) + 1:
            raise RefusedError(f"the chat template of {self._name} shows {len(pieces) - 1} of {len(images)} pictures")
        pictures = [self.picture(image) for image in images]
        tokens: list[Tokens] = []
        types: list[Tokens] = []
        keys: list[Tokens] = []
        spans: list[tuple[int, int, Picture]] = []
        length = 0
        for i, piece in enumerate(pieces):
            last = i == len(pictures)  # what comes before a picture is often the same, what comes after it hardly ever
            written = self._written(piece) if last else _kept(self._texts, piece, self._written, piece)
            tokens.append(written)
            keys.append(written)
            types.append(np.zeros_like(written))
            length += len(written)
            if i < len(pictures):
                picture = pictures[i]
                tokens.append(picture.tokens)
                keys.append(_picture_keys(picture))
                types.append(picture.types)
                spans.append((length, length + len(picture.tokens), picture))
                length += len(picture.tokens)
        self._fits(length, spans)
        ids = np.concatenate(tokens)
        positions = self._positions(ids, np.concatenate(types), spans)
        return Prompt(text, ids, np.concatenate(keys), positions, tuple(spans), images)

    def picture(self, image: ImageRef) -> Picture:
        """The processed picture, from the ones that are kept if it is there."""
        known = self._pictures.get(image.sha256)
        if known is not None:
            self._pictures.move_to_end(image.sha256)
            return known
        try:
            made = self._processor(text=[self._placeholder], images=[[decoded(image)]], return_tensors="pt")
        except ValueError as error:
            size = f"{image.width}x{image.height}"
            raise RefusedError(f"the processor of {self._name} does not take a picture of {size} pixels: {error}") from error
        tokens = made["input_ids"][0].numpy()
        types = made["mm_token_type_ids"][0].numpy().astype(np.int64) if "mm_token_type_ids" in made else np.zeros_like(tokens)
        inputs = {name: value for name, value in made.items() if name not in _NOT_FOR_THE_TOWER}
        picture = Picture(image.sha256, tokens, types, inputs)
        self._pictures[image.sha256] = picture
        held = sum(one.nbytes for one in self._pictures.values())
        while held > self._room and len(self._pictures) > 1:
            held -= self._pictures.popitem(last=False)[1].nbytes
        return picture

    def _defuse(self, text: str) -> str:
        """The text with every written-out special token broken up: a question must not be able to end its turn or to add a picture."""
        for token in self._special:
            if len(token) > 1 and token in text:
                text = text.replace(token, f"{token[0]} {token[1:]}")
                self.defused += 1
        return text

    def _fits(self, length: int, spans: Sequence[tuple[int, int, Picture]]) -> None:
        if self._context is None or length < self._context:
            return
        for start, end, _ in spans:
            if end - start >= self._context:
                raise RefusedError(
                    f"a picture takes {end - start} tokens and {self._name} has a context of {self._context}; "
                    "make it smaller with --set image.size=WIDTHxHEIGHT"
                )
        shown = sum(end - start for start, end, _ in spans)
        if shown >= self._context:
            raise RefusedError(
                f"the {len(spans)} pictures take {shown} tokens and {self._name} has a context of {self._context}; "
                "make them smaller with --set image.size=WIDTHxHEIGHT"
            )
        raise PromptTooLong(
            f"the prompt has {length} tokens and {self._name} has a context of {self._context}", length, self._context
        )

    def _written(self, text: str) -> Tokens:
        return np.asarray(self.tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)

    def _positions(self, tokens: Tokens, types: Tokens, spans: Sequence[tuple[int, int, Picture]]) -> torch.Tensor:
        """Rotary positions; the model's own rule where it has one and there are pictures. Each depends on what is before it alone.

        After the last picture positions count on by one, so that only what ends there has to be asked for, once for all alike.
        """
        if self._rope_index is None:
            return torch.arange(len(tokens))
        if not spans:
            return torch.arange(len(tokens)).expand(3, -1)
        end = spans[-1][1]
        grids = torch.cat([picture.inputs["image_grid_thw"] for _, _, picture in spans])
        key = tokens[:end].tobytes() + grids.numpy().tobytes()
        head = _kept(self._heads, key, self._head_positions, tokens[:end], types[:end], grids)
        rest = torch.arange(len(tokens) - end) + (head.max() + 1)
        return torch.cat((head, rest.expand(3, -1)), dim=1)

    def _head_positions(self, tokens: Tokens, types: Tokens, grids: torch.Tensor) -> torch.Tensor:
        assert self._rope_index is not None
        positions, _ = self._rope_index(
            torch.from_numpy(tokens)[None], mm_token_type_ids=torch.from_numpy(types)[None], image_grid_thw=grids
        )
        return positions[:, 0]


def _kept(kept: OrderedDict[Key, Value], key: Key, make: Callable[..., Value], *made_of: Any) -> Value:
    """What was made for that key, if it is among those used last."""
    found = kept.get(key)
    if found is None:
        found = kept[key] = make(*made_of)
        if len(kept) > _MOST_KEPT:
            kept.popitem(last=False)
    else:
        kept.move_to_end(key)
    return found


def decoded(image: ImageRef) -> Image.Image:
    """The picture's pixels in RGB."""
    return Image.open(io.BytesIO(image.data)).convert("RGB")


def _picture_keys(picture: Picture) -> Tokens:
    """A negative number for each token of a picture, made of which picture it is and where in it (tokens are never negative)."""
    start = int(picture.sha256[:16], 16)
    places = np.arange(1, len(picture.tokens) + 1, dtype=np.uint64) * np.uint64(_SPREAD) + np.uint64(start)
    return -1 - (places >> np.uint64(1)).astype(np.int64)
