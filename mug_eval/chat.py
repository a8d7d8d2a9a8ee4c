"""What is said to a backbone and what comes back: the whole contract between protocols and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant"]
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ImageRef:
    """One encoded picture, known by the hash of its bytes.

    It carries no file name: a path could tell an agent which picture is the altered one (validity rule 1).

    Attributes:
        sha256: hex digest of ``data``, the bytes that a backbone is sent.
        media_type: ``image/jpeg``, ``image/png``, ...
        width: pixels.
        height: pixels.
        data: the encoded bytes.
    """

    sha256: str
    media_type: str
    width: int
    height: int
    data: bytes = field(repr=False, compare=False)


Part = str | ImageRef
"""A piece of a message: text or a picture."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation; text and pictures in the order in which they are shown."""

    role: Role
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        """All the text of the turn, without its pictures."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def images(self) -> tuple[ImageRef, ...]:
        """The pictures of the turn, in order."""
        return tuple(part for part in self.parts if isinstance(part, ImageRef))


@dataclass(frozen=True, slots=True)
class Sampling:
    """Decoding settings of one call. ``None`` leaves a setting to the backbone's own default.

    Attributes:
        temperature: softmax temperature, 0 for greedy.
        top_p: nucleus mass in (0, 1].
        top_k: number of candidates kept.
        max_tokens: most tokens of the reply.
        seed: seed of the draw, for backbones that take one.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int = 2048
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost. ``None``: the backbone did not say (never estimated)."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    images: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """A backbone's answer to one call.

    Attributes:
        text: the words, as they came.
        usage: tokens and pictures.
        finish_reason: ``stop``, ``length``, ``content_filter``, ... as the server says, or "".
        model: the model's name as the server says, or "".
        seconds: from sending the request to having the whole reply; retries and waiting for a free slot not counted.
    """

    text: str
    usage: Usage = Usage()
    finish_reason: str = ""
    model: str = ""
    seconds: float = 0.0


class ChatModel(Protocol):
    """A backbone: one request, one reply, no retries (the dispatcher's work).

    ``fingerprint`` names the model and every setting that changes its replies; it is part of a recorded call's identity, so it
    must hold no secret and nothing that differs between two runs of the same command.
    """

    @property
    def fingerprint(self) -> str:
        """Stable text that identifies the model and its fixed settings."""
        ...

    async def chat(self, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> Reply:
        """Ask once.

        Args:
            messages: the conversation; the last turn is the user's.
            sampling: decoding settings.
            schema: a JSON schema that the reply should follow; a backbone that cannot be held to one ignores it.

        Raises:
            TransientError: the same request may work later (408, 409, 429, 5xx, time-out, a malformed body).
            RefusedError: this request will never work (400, 413, 422), others may.
            PromptTooLong: the same, since it is over the model's context.
            MisconfiguredError: no request will work (wrong key, unknown model, no such path).
        """
        ...

    async def close(self) -> None:
        """Let go of connections and memory."""
        ...


class BackboneError(Exception):
    """A call got no reply."""


class TransientError(BackboneError):
    """The same request may work later.

    Attributes:
        retry_after: seconds that the server asks to wait, or None.
        unreachable: no connection could be made (refused, no such host), so that nothing was asked and the fault is not this
            request's. A connection that was made and then broke is not this: the request counts, against its tries and the budget.
    """

    def __init__(self, message: str, retry_after: float | None = None, unreachable: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.unreachable = unreachable


class RefusedError(BackboneError):
    """This request will never work: the question is owed and the rest goes on."""


class PromptTooLong(RefusedError):
    """The prompt is over the model's context. A shorter one may work: the table leaves out old rounds of the talk.

    Attributes:
        tokens: of the prompt (some servers count the reply's into it), or None if nobody says.
        limit: most tokens that the model takes, or None.
    """

    def __init__(self, message: str, tokens: int | None = None, limit: int | None = None) -> None:
        super().__init__(message)
        self.tokens = tokens
        self.limit = limit


class MisconfiguredError(BackboneError):
    """No request to this backbone will work: the user has to mend something."""
