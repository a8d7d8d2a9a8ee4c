"""What a journal holds, as tests of kills compare it with what a server was asked."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path


def recorded_seeds(journal: Path) -> set[int]:
    """The seeds of the calls in a journal, one of its own a call: what a server finds in the request's ``seed``."""
    with contextlib.closing(sqlite3.connect(journal)) as connection:
        seeds = [json.loads(sampling)["seed"] for (sampling,) in connection.execute("SELECT sampling FROM calls")]
    assert len(set(seeds)) == len(seeds)
    return set(seeds)
