"""How servers say that a prompt is over the model's context, and what they tell of its length."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# ``code`` at OpenAI and whoever follows it closely, ``type`` at llama.cpp (which sent it with 500 at first).
_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})

# Where there is no code of its own, the words of the error, with the limit where they name it.
_WORDS = [
    re.compile(words, re.IGNORECASE)
    for words in (
        r"maximum context length (?:is|of) (?P<limit>\d+)",  # OpenAI, vLLM
        r"longer than the maximum model length of (?P<limit>\d+)",  # vLLM, once it has counted the pictures
        r"too long to fit into the model \(context length (?P<limit>\d+)",  # vLLM, likewise
        r"longer than the model'?s context length \((?P<limit>\d+)",  # SGLang
        r"input length \(\d+ tokens\) exceeds the maximum allowed length \((?P<limit>\d+)",  # SGLang, from the memory it has
        r"exceeds the available context size(?: \((?P<limit>\d+))?",  # llama.cpp
        r"`inputs` must have less than (?P<limit>\d+) tokens",  # text-generation-inference
        r"`inputs` tokens \+ `max_new_tokens` must be <= (?P<limit>\d+)",  # the same
    )
]
_TOKENS = [
    re.compile(words, re.IGNORECASE)
    for words in (
        r"(?:requested(?: about)?|resulted in|your request has|your prompt contains(?: at least)?) (\d+) (?:input )?tokens",
        r"\((?:total )?length (\d+)\)",
        r"(?:input|request|input length) \((\d+) tokens\)",
        r"given: (\d+)",
    )
]


@dataclass(frozen=True, slots=True)
class Overlong:
    """A prompt over the context, as far as the server tells.

    Attributes:
        tokens: of the prompt (some servers count the reply's into it), or None.
        limit: most tokens that the model takes, or None.
    """

    tokens: int | None
    limit: int | None


def read_overlong(fields: Mapping[str, Any], message: str, refused: bool) -> Overlong | None:
    """What an error says about the prompt's length; None if it is about something else.

    Args:
        fields: the error object.
        message: its words.
        refused: whether the request was refused as it stands (4xx): only then do words alone count.
    """
    coded = any(isinstance(fields.get(name), str) and fields[name] in _CODES for name in ("code", "type"))
    found = next((match for match in (words.search(message) for words in _WORDS) if match), None)
    if not coded and not (refused and found):
        return None
    counted = next((match for match in (words.search(message) for words in _TOKENS) if match), None)
    return Overlong(
        _number(fields.get("n_prompt_tokens"), counted and counted[1]), _number(fields.get("n_ctx"), found and found["limit"])
    )


def _number(field: object, words: str | None) -> int | None:
    """A count, from its own field where there is one, or else from the words."""
    if isinstance(field, int) and not isinstance(field, bool):
        return field
    return int(words) if words and len(words) < 12 else None
