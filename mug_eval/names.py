"""What to say when a name is not known: the nearest ones, then all of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], most: int = 3, alike: float = 0.4) -> list[str]:
    """Up to ``most`` known names that look like ``name``, best first; case does not count, ``alike`` is from 0 to 1."""
    by_fold = {candidate.casefold(): candidate for candidate in known}
    return [by_fold[fold] for fold in difflib.get_close_matches(name.casefold(), by_fold, n=most, cutoff=alike)]


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """One line for an unknown name, e.g. ``unknown method 'mgu'; did you mean mug? (there are: cfmad, mug)``."""
    names = list(known)
    close = nearest(name, names)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    everything = ", ".join(names) if names else "none"
    return f"unknown {what} {name!r}{hint} (there are: {everything})"
