"""MUG's vote: every agent rates every other on four factors, and the ratings are its vote (arXiv 2511.11182, section 3.2)."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mug_eval.answers import parse_object, spoken
from mug_eval.chat import Json
from mug_eval.question import Unparsed

FACTORS = ("inconsistency", "deviation", "inaccuracy", "suspicion")
"""phi_1 .. phi_4: against what the voter's picture shows, from the consensus, in specific visual details, in behaviour."""

Ratings = dict[str, dict[str, float]]
"""seat -> factor -> 0..10"""


def ratings_schema(others: Sequence[str]) -> Json:
    """The JSON schema of one ballot: for each of the others the four factors, all required."""
    factors = {factor: {"type": "integer", "minimum": 0, "maximum": 10} for factor in FACTORS}
    rating = {"type": "object", "properties": factors, "required": list(FACTORS), "additionalProperties": False}
    return {
        "type": "object",
        "properties": dict.fromkeys(others, rating),
        "required": list(others),
        "additionalProperties": False,
    }


def ballot_example(others: Sequence[str]) -> str:
    """The form of a ballot, in words for the prompt."""
    fields = ", ".join(f'"{factor}": n' for factor in FACTORS)
    return "{" + ", ".join(f'"{seat}": {{{fields}}}' for seat in others) + "}"


def read_ratings(text: str, others: Sequence[str]) -> Ratings | Unparsed:
    """Read a ballot; keys may be ``Agent 2``, ``agent_2`` or ``2``, numbers may be text.

    A ballot that misses one of the others or a factor, or that leaves 0..10, is no ballot: to fill a gap would be to cast a vote in
    the agent's name.
    """
    found = parse_object(spoken(text))
    if found is None:
        return Unparsed("no JSON object in the ballot")
    by_number: dict[int, Any] = {}
    for number, value in _ballot_entries(found):
        if number in by_number:
            return Unparsed(f"the ballot rates Agent {number} twice")
        by_number[number] = value
    ratings: Ratings = {}
    for seat in others:
        own = _number(seat)
        given = None if own is None else by_number.get(own)
        if not isinstance(given, Mapping):
            return Unparsed(f"the ballot does not rate {seat}")
        lowered = {str(key).strip().lower(): value for key, value in given.items()}
        ratings[seat] = {}
        for factor in FACTORS:
            value = _score(lowered.get(factor))
            if value is None:
                return Unparsed(f"the ballot gives {seat} no {factor} from 0 to 10")
            ratings[seat][factor] = value
    return ratings


def suspicion(rating: Mapping[str, float], weights: Sequence[float]) -> float:
    """sum_k w_k phi_k / sum_k w_k: how suspect a voter finds one agent, 0..10."""
    return sum(w * rating[factor] for w, factor in zip(weights, FACTORS, strict=True)) / sum(weights)


def vote_of(ratings: Ratings, weights: Sequence[float], rng: random.Random) -> str:
    """V_i = argmax_j sum_k w_k phi_k; a tie inside one voter goes to the lowest in a seeded order."""
    order = sorted(ratings)
    rng.shuffle(order)
    return max(order, key=lambda seat: suspicion(ratings[seat], weights))


def _ballot_entries(found: Mapping[str, Any]) -> list[tuple[int, Any]]:
    """(agent's number, its rating): keyed by agent, wrapped in ``ratings`` or ``votes``, or a list of objects that name their agent."""
    for wrapper in ("ratings", "votes"):
        inner = found.get(wrapper)
        if isinstance(inner, Mapping):
            found = inner
        elif isinstance(inner, list):
            named = [entry for entry in inner if isinstance(entry, Mapping)]
            entries = [(_number(entry.get("agent", entry.get("seat", entry.get("name")))), entry) for entry in named]
            return [(number, entry) for number, entry in entries if number is not None]
    keyed = [(_number(key), value) for key, value in found.items()]
    return [(number, value) for number, value in keyed if number is not None]


def _number(key: object) -> int | None:
    """``Agent 2``, ``agent_2``, ``2``; nothing else that happens to hold a digit."""
    match = re.fullmatch(r"\s*(?:agent)?[\s_#-]*(\d{1,4})\s*", str(key), re.IGNORECASE)
    return int(match[1]) if match else None


def _score(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,2}(?:\.\d+)?)\s*(?:/\s*10)?\s*", value)
        value = float(match[1]) if match else None
    return float(value) if isinstance(value, int | float) and 0 <= value <= 10 else None
