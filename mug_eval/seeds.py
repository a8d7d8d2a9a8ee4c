"""Every draw of a run comes from here: a stable hash of what the draw is for (validity rule 5)."""

from __future__ import annotations

import hashlib
import random


def derive_seed(*parts: str | int) -> int:
    """A 31-bit seed from the parts that name a draw.

    SHA-256 over the length-prefixed parts, so that it does not depend on PYTHONHASHSEED, on the platform, or on how the parts
    happen to join. 31 bits, since servers commonly hold a seed in a signed 32-bit integer.

    Args:
        parts: run seed, benchmark, question index, method, purpose, ...
    """
    digest = hashlib.sha256()
    for part in parts:
        text = str(part).encode()
        digest.update(f"{len(text)}:".encode() + text)
    return int.from_bytes(digest.digest()[:4], "big") >> 1


def generator(*parts: str | int) -> random.Random:
    """A generator seeded by :func:`derive_seed`."""
    return random.Random(derive_seed(*parts))
