"""Editors by name: the short ones of editors.yaml, and KIND:WHAT for anything else.

WHAT is a YAML file with the kind's settings, or in short: ``diffusers:`` a model of the hub, a folder or the class of a preset;
``step1x:`` the folder of its weights; ``http:`` the model's name; ``folder:`` the folder with pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mug_eval.configuration import load_config
from mug_eval.errors import UserError
from mug_eval.names import nearest, unknown

_SHORT: Mapping[str, str | None] = {
    "diffusers": "model",
    "step1x": "model",
    "step1x-cli": None,
    "http": "model",
    "folder": "folder",
}
"""Kind -> the setting that WHAT is where it is no file."""


@dataclass(frozen=True, slots=True)
class EditorEntry:
    """An editor as it was named.

    Attributes:
        name: as the user wrote it.
        kind: what plays it.
        settings: of that kind.
        summary: one line for listings.
    """

    name: str
    kind: str
    settings: Mapping[str, Any]
    summary: str = ""


@cache
def load_catalogue() -> Mapping[str, EditorEntry]:
    """Every short name and what it stands for, in the file's order."""
    values = load_config(Path(__file__).parent / "editors" / "editors.yaml")
    return {name: _entry(name, fields) for name, fields in values.items()}


def parse_editor(text: str) -> EditorEntry:
    """A short name, or ``KIND:WHAT``.

    Raises:
        UserError: neither; says the nearest names.
    """
    catalogue = load_catalogue()
    if text in catalogue:
        return catalogue[text]
    kind, colon, what = text.partition(":")
    if not colon and text in _SHORT:
        what = "FILE.yaml" if _SHORT[text] is None else "WHAT"
        raise UserError(f"{text!r} does not say which; write {text}:{what}")
    if not colon:
        close = nearest(text, catalogue)
        hint = f"did you mean {' or '.join(close)}? " if close else ""
        raise UserError(f"unknown editor {text!r}; {hint}name one of {', '.join(catalogue)}, or KIND:WHAT ({', '.join(_SHORT)})")
    if kind not in _SHORT:
        raise UserError(unknown("kind of editor", kind, _SHORT))
    if not what.strip():
        raise UserError(f"{text!r} does not say which; write {kind}:WHAT")
    if what.endswith((".yaml", ".yml")):
        return EditorEntry(text, kind, load_config(Path(what).expanduser()))
    preset = next((entry for entry in catalogue.values() if entry.kind == kind and entry.settings.get("pipeline") == what), None)
    if preset is not None:
        return replace(preset, name=text)
    field = _SHORT[kind]
    if field is None:
        raise UserError(f"{text!r}: {kind} needs a file with its settings; write {kind}:FILE.yaml")
    return EditorEntry(text, kind, {field: what})


def _entry(name: str, fields: Mapping[str, Any]) -> EditorEntry:
    settings = {key: value for key, value in fields.items() if key not in ("kind", "summary")}
    return EditorEntry(name, fields["kind"], settings, fields["summary"])
