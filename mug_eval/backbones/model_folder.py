"""What tells a folder with a model from any other. Light to import: a plan asks for it before anything is opened."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from mug_eval.errors import UserError

_WHOLE = 64 << 20
"""Files up to this size are hashed whole, larger ones by their size and samples, so that a model of 15 GB takes a moment."""
_SAMPLES = 256
_SAMPLE = 64 << 10
_KINDS = (".json", ".jinja", ".safetensors", ".bin", ".model", ".txt")


@cache
def folder_hash(folder: Path) -> str:
    """What tells a model folder from any other: a hash of its files' names and content, of large weight files of samples only.

    Raises:
        UserError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if path.suffix not in _KINDS or not path.is_file():
            continue
        try:
            size = path.stat().st_size
            digest.update(f"{path.name}:{size}:".encode())
            with path.open("rb") as file:
                if size <= _WHOLE:
                    digest.update(file.read())
                else:
                    for i in range(_SAMPLES):
                        file.seek((size - _SAMPLE) * i // (_SAMPLES - 1))
                        digest.update(file.read(_SAMPLE))
        except OSError as error:
            raise UserError(f"hf:{folder}: {path.name} cannot be read: {error.strerror}") from error
    return digest.hexdigest()[:16]
