"""What a command says beside its output."""

from __future__ import annotations

import sys

from mug_eval.show import printable


def note(text: str) -> None:
    """One line on stderr, whatever the text holds."""
    print(printable(" ".join(text.split())), file=sys.stderr, flush=True)
