"""What an OpenAI-compatible server may send back, read without trust: a reply, or one typed error in one line."""

from __future__ import annotations

import datetime
import email.utils
import json
import math
import re
from typing import Any

from mug_eval.backbones.openai_context import read_overlong
from mug_eval.chat import BackboneError, MisconfiguredError, PromptTooLong, RefusedError, Reply, TransientError, Usage
from mug_eval.keys import KEY

_LONGEST_LINE = 300
_LONGEST_NAME = 100
_TRANSIENT = {408, 409, 425, 429}
_MISCONFIGURED = {401, 403, 404, 405}
# Codes with which servers say, under a status that means something else, that no request will work.
_MISCONFIGURED_CODES = {"insufficient_quota", "invalid_api_key", "model_not_found", "account_deactivated", "billing_not_active"}
# Some servers fall over (500) or say so (501) at a parameter that they do not know, where others answer 400.
_UNSUPPORTED = re.compile(
    r"(?i)unsupported|(?:not|n't) (?:yet )?(?:be )?(?:support|implement|permit|allow)|unrecogni[sz]ed|(?:unknown|unexpected|extra) "
    r"(?:keyword|parameter|argument|field|input)"
)
_SHORTEST_SECRET = 8
_SHORTEST_SECRET_IN_A_REPLY = 16


class Scrubber:
    """Takes a key out of text that comes from a server, which may echo what it was sent.

    Servers on one's own machine are given placeholders (``EMPTY``, ``x``), which are no secrets but are words: to take those out
    would rewrite what was said. So a key counts from 8 characters on in an error, and from 16 on in a reply, which is scored.

    Args:
        key: the secret, or None.
    """

    def __init__(self, key: str | None) -> None:
        self._key = key or ""

    def text(self, text: str) -> str:
        """An error's text without the key."""
        return self._without_key(text, _SHORTEST_SECRET)

    def reply(self, text: str) -> str:
        """A reply's text: as it came, but for a key that is too long to be there by chance."""
        return self._without_key(text, _SHORTEST_SECRET_IN_A_REPLY)

    def _without_key(self, text: str, shortest: int) -> str:
        return text.replace(self._key, "[key]") if len(self._key) >= shortest else text

    def line(self, text: str, longest: int = _LONGEST_LINE) -> str:
        """One short printable line without the key or what looks like one. The key goes first: cut in two it would not be found."""
        # Servers repeat keys with stars in them, which no pattern of whole keys finds.
        text = KEY.sub("[key]", re.sub(r"(?i)\bbearer\s+\S+|\bsk-[\w*.\-]{6,}", "[key]", self.text(text)))
        line = " ".join("".join(char if char.isprintable() else " " for char in text[: 4 * longest]).split())
        return line if len(line) <= longest else line[: longest - 1] + "…"


class ServerError(Exception):
    """An error body, with what tells which parameter a server refuses.

    Attributes:
        error: what it means for the call.
        parameter: the parameter that the server names, or "".
        message: the server's words.
        refuses: whether the request was refused as it stands, so that another one may be taken.
    """

    def __init__(self, error: BackboneError, parameter: str, message: str, refuses: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.parameter = parameter
        self.message = message
        self.refuses = refuses


def read_error(status: int, body: bytes, retry_after: str | None, where: str, scrub: Scrubber) -> ServerError:
    """Turn an answer that is no reply into the error it means.

    Args:
        status: HTTP status, or the code inside an error body that came with 200.
        body: as it came.
        retry_after: the header of that name.
        where: whom to name in the message.
        scrub: takes the key out.
    """
    fields = _error_fields(body)
    code = str(fields.get("code") or fields.get("type") or "")
    message = _error_message(fields) or body[: 4 * _LONGEST_LINE].decode(errors="replace")
    line = f"{where} answered {status}: {scrub.line(message) or 'nothing'}"
    overlong = read_overlong(fields, message, refused=400 <= status < 500 and status not in _TRANSIENT)
    error: BackboneError
    if status in _MISCONFIGURED or code in _MISCONFIGURED_CODES:
        error = MisconfiguredError(f"{line}; check the key, the model's name and the address")
    elif 300 <= status < 400:
        error = MisconfiguredError(f"{where} answered {status}, a redirect, which is not followed; give the final address")
    elif overlong is not None and status >= 400:
        error = PromptTooLong(line, overlong.tokens, overlong.limit)
    elif status in _TRANSIENT or status >= 500:
        error = TransientError(line, read_retry_after(retry_after))
    elif 400 <= status < 500:
        error = RefusedError(line)
    else:
        error = TransientError(f"{line} (not a status that a reply comes with)")
    refuses = (isinstance(error, RefusedError) and overlong is None) or (
        status in (500, 501) and bool(_UNSUPPORTED.search(message))
    )
    return ServerError(error, scrub.line(str(fields.get("param") or "")), scrub.text(message), refuses)


def read_reply(body: bytes, images: int, seconds: float, where: str, scrub: Scrubber) -> Reply:
    """Read the body of a 200.

    Args:
        body: as it came.
        images: pictures sent, for the usage.
        seconds: how long it took.
        where: whom to name in a message.
        scrub: takes the key out.

    Raises:
        ServerError: the body is an error after all, or is not a reply.
    """

    def malformed(what: str) -> ServerError:
        return ServerError(TransientError(f"{where} sent {what}"), "", what)

    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        start = scrub.line(body[:_LONGEST_LINE].decode(errors="replace"), 80)
        raise malformed(f"a body that is not JSON ({start or 'empty'})") from None
    if not isinstance(answer, dict):
        raise malformed("JSON that is not an object")
    if answer.get("error"):
        fields = _error_fields(body)
        status = fields.get("code")
        known = isinstance(status, int) and not isinstance(status, bool) and 300 <= status < 600
        raise read_error(status if known else 500, body, None, where, scrub)  # type: ignore[arg-type]
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise malformed("no choices")
    finish_reason = _name(choice.get("finish_reason"), scrub)
    text = _content(message)
    if text is None and finish_reason == "content_filter":
        error = RefusedError(f"{where} withheld its reply (content_filter)")
        raise ServerError(error, "", str(error))
    if text is None and finish_reason == "length":
        text = ""  # all its tokens went into hidden reasoning: a reply without words, and it would be one again
    if text is None:
        raise malformed("a reply without content")
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return Reply(
        scrub.reply(text),
        Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), images),
        finish_reason,
        _name(answer.get("model"), scrub),
        seconds,
    )


def read_retry_after(header: str | None) -> float | None:
    """Seconds to wait from a Retry-After header: a number of seconds or an HTTP date (RFC 9110, 10.2.3); None if it is neither."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            when = email.utils.parsedate_to_datetime(header)
        except (ValueError, TypeError, OverflowError):
            return None
        if when.tzinfo is None:
            when = when.replace(tzinfo=datetime.UTC)
        seconds = (when - datetime.datetime.now(datetime.UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _content(message: dict[str, Any]) -> str | None:
    """The words of a reply: a string, a list of text parts, or the words of a refusal (a reply too); None if there are none."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list) and content:
        texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content]
        if all(isinstance(text, str) for text in texts):
            return "".join(text for text in texts if isinstance(text, str))
        return None
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) and refusal else None


def _error_fields(body: bytes) -> dict[str, Any]:
    """The error object of a body, in any of the shapes that servers use; empty if there is none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(answer, dict):
        return {}
    error = answer.get("error")
    if isinstance(error, dict):
        return error
    return {"message": error} if isinstance(error, str) else answer


def _error_message(fields: dict[str, Any]) -> str:
    message = fields.get("message") or fields.get("detail")
    if isinstance(message, list):  # FastAPI: one entry a wrong field
        return "; ".join(
            f"{'.'.join(str(step) for step in entry.get('loc') or ())} {entry.get('msg', '')}"
            if isinstance(entry, dict)
            else str(entry)
            for entry in message[:5]
        )
    return message if isinstance(message, str) else ""


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _name(value: object, scrub: Scrubber) -> str:
    return scrub.line(value, _LONGEST_NAME) if isinstance(value, str) else ""
