"""A store as a data set that others can load: a folder for ``datasets.load_dataset("imagefolder", data_dir=...)``, or the hub."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mug_eval.atomic import atomic_write, cannot_write
from mug_eval.counterfactual.store import BUILD, MANIFEST
from mug_eval.errors import UserError
from mug_eval.json_bytes import json_bytes


def publish(store: Path, out: Path, originals: Callable[[str, int], bytes] | None = None) -> int:
    """Write the accepted edits as an image folder: ``train/metadata.jsonl``, the pictures, and a card that says how they were made.

    Columns: ``image`` (I-), ``original`` (I+, if asked for), and the manifest's fields. No answers.

    Args:
        store: the store's folder. It is only read.
        out: a folder that is not there yet or empty; it appears when it is whole.
        originals: gives I+ as bytes by (question index, position of the picture), to be published beside I-. Mind their licence.

    Returns:
        How many edits were written.

    Raises:
        UserError: no store, nothing accepted in it, a picture that is missing or not what the manifest says, ``out`` is in use.
        RunStopped: the disk is full; ``out`` is not made.
    """
    build, lines = _read(store)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} is there already; publish into a folder that is not")
    partial = out.with_name(f".{out.name}.part")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        rows = []
        for line in lines:
            row = {key: value for key, value in line.items() if key not in ("file", "accepted", "reason")}
            row |= {
                "scores": json.dumps(line["scores"]),
                "boxes": json.dumps(line["boxes"]),
                "features": json.dumps(line["features"]),
            }
            name = Path(line["file"]).name
            _put(partial / "train" / "edited" / name, _checked(store, line))
            if originals is not None:
                data = originals(line["question_index"], line["position"])
                original = f"{line['image_sha256']}{_ending(data)}"
                _put(partial / "train" / "original" / original, data)
                row["original_file_name"] = f"original/{original}"
            rows.append({"file_name": f"edited/{name}", **row})
        atomic_write(partial / "train" / "metadata.jsonl", b"".join(json_bytes(row) + b"\n" for row in rows))
        atomic_write(partial / "README.md", _card(build, len(rows), originals is not None))
        if out.exists():
            out.rmdir()
        partial.rename(out)
    except OSError as error:
        raise cannot_write(out, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return len(rows)


def _read(store: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    try:
        build = json.loads((store / BUILD).read_bytes())
        data = (store / MANIFEST).read_bytes()
        lines = [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]  # a torn line is not yet decided
    except (OSError, ValueError) as error:
        raise UserError(f"{store} is no store of counterfactuals that can be read ({error})") from error
    if not lines:
        raise UserError(f"{store} holds no accepted edit; there is nothing to publish")
    return build, lines


def _checked(store: Path, line: dict[str, Any]) -> bytes:
    try:
        data: bytes = (store / line["file"]).read_bytes()
    except OSError as error:
        raise UserError(f"{line['file']} of {store} cannot be read ({error.strerror}); restore it or build again") from error
    if hashlib.sha256(data).hexdigest() != line["file_sha256"]:
        raise UserError(f"{line['file']} of {store} is not the picture that the manifest describes; restore it or build again")
    return data


def _put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)  # the whole folder takes its name at the end


def _ending(data: bytes) -> str:
    kinds = {b"\xff\xd8": ".jpg", b"\x89P": ".png", b"RI": ".webp", b"GI": ".gif", b"BM": ".bmp"}
    return kinds.get(data[:2], ".img")


def _card(build: dict[str, Any], count: int, with_originals: bool) -> str:
    made = "\n".join(f"    {line}" for line in json.dumps(build, indent=2, ensure_ascii=False).splitlines())
    beside = "with their originals" if with_originals else "without their originals (`image_sha256` names those)"
    return f"""---
configs:
- config_name: default
  data_files:
  - split: train
    path: train/**
---
# Counterfactual pictures

{count} pictures that differ from their originals in one fact, {beside}, made by mug_eval. `scores`, `boxes` and `features` are JSON texts.
Made with:

{made}
"""
