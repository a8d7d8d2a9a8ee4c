"""``--data-file``: local files in the place of published ones, said alike in every command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mug_eval.errors import UserError


def data_files(words: Sequence[str], benchmarks: Sequence[str]) -> dict[str, Path]:
    """Read ``NAME=TSV``, or ``TSV`` alone where there is one benchmark.

    Args:
        words: what the user gave.
        benchmarks: those that a file can be given for.

    Raises:
        UserError: no such file, or it is not clear whose it is.
    """
    found: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if len(benchmarks) == 1 and name != benchmarks[0] and (not equals or Path(word).expanduser().is_file()):
            name, path = benchmarks[0], word
        elif not equals or not path:
            raise UserError(
                f"--data-file {word!r}: write NAME=TSV, e.g. --data-file {benchmarks[0]}=my_{benchmarks[0].lower()}.tsv"
            )
        if name not in benchmarks:
            raise UserError(f"--data-file {name}: {name!r} is not among the benchmarks here ({', '.join(benchmarks)})")
        if name in found:
            raise UserError(f"--data-file gives {name} twice; keep one")
        file = Path(path).expanduser()
        if not file.is_file():
            raise UserError(f"--data-file {word}: {'not a file' if file.exists() else 'no such file'}")
        found[name] = file
    return found
