"""Editors by name: the short ones of editors.yaml, and KIND:WHAT for anything else. Light to import; opening one is not.

WHAT is a YAML file with the kind's settings, or in short: ``diffusers:`` a model of the hub, a folder or the class of a preset;
``step1x:`` the folder of its weights; ``http:`` the model's name; ``folder:`` the folder with pictures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from mug_eval.configuration import load_config, resolve
from mug_eval.counterfactual.editors.editor import Editor
from mug_eval.errors import UserError
from mug_eval.names import nearest, unknown

BASE_URL_VARIABLE = "MUG_EVAL_EDITOR_URL"


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
    values = load_config(Path(__file__).with_name("editors.yaml"))
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


def open_editor(entry: EditorEntry | str, *, base_url: str | None = None, device: str = "auto", dtype: str = "auto") -> Editor:
    """An editor to work with; weights are loaded at its first edit.

    Args:
        entry: what the user named.
        base_url: of the server, for ``http``; else its settings' or MUG_EVAL_EDITOR_URL.
        device: of an editor in this process, where its settings name none.
        dtype: its number format, likewise.

    Raises:
        UserError: an unknown name, settings that cannot be, a missing extra, key or address.
    """
    entry = parse_editor(entry) if isinstance(entry, str) else entry
    settings = dict(entry.settings)
    if entry.kind in ("diffusers", "step1x"):
        settings = {"device": device, **settings}
    if entry.kind == "diffusers":
        settings = {"dtype": dtype, **settings}
    if entry.kind == "http":
        address = base_url or settings.get("base_url") or os.environ.get(BASE_URL_VARIABLE)
        if not address:
            raise UserError(
                f"{entry.name}: where is it served? give a base URL (http://127.0.0.1:8000/v1) or set {BASE_URL_VARIABLE}"
            )
        settings["base_url"] = address
    return _KINDS[entry.kind](entry.name, settings)


def _entry(name: str, fields: Mapping[str, Any]) -> EditorEntry:
    settings = {key: value for key, value in fields.items() if key not in ("kind", "summary")}
    return EditorEntry(name, fields["kind"], settings, fields["summary"])


def _free_form(name: str, settings: dict[str, Any], field: str) -> dict[str, Any]:
    """Take out the field whose names and values are the other side's affair."""
    value = settings.pop(field, None) or {}
    if not isinstance(value, Mapping):
        raise UserError(f"{name}: {field} must be a mapping")
    return dict(value)


def _open_opencv(name: str, settings: dict[str, Any]) -> Editor:
    try:
        from mug_eval.counterfactual.editors.opencv import OpenCVEditor
    except ImportError as error:
        raise UserError(f"{name} needs OpenCV: pip install opencv-python-headless ({error})") from error
    return OpenCVEditor()


def _open_diffusers(name: str, settings: dict[str, Any]) -> Editor:
    from mug_eval.counterfactual.editors.diffusers_editor import DiffusersEditor, PipelineSettings

    call = _free_form(name, settings, "call")
    return DiffusersEditor(name, replace(resolve(PipelineSettings, settings, where=name), call=call))


def _open_step1x(name: str, settings: dict[str, Any]) -> Editor:
    from mug_eval.counterfactual.editors.step1x import Step1XEditor, Step1XSettings

    return Step1XEditor(resolve(Step1XSettings, settings, where=name))


def _open_step1x_cli(name: str, settings: dict[str, Any]) -> Editor:
    from mug_eval.counterfactual.editors.step1x_cli import Step1XCLI, Step1XCommand

    return Step1XCLI(resolve(Step1XCommand, settings, where=name))


def _open_http(name: str, settings: dict[str, Any]) -> Editor:
    from mug_eval.counterfactual.editors.http_editor import HttpEditor, HttpSettings

    fields = {key: str(value) for key, value in _free_form(name, settings, "fields").items()}
    return HttpEditor(replace(resolve(HttpSettings, settings, where=name), fields=fields))


def _open_folder(name: str, settings: dict[str, Any]) -> Editor:
    from mug_eval.counterfactual.editors.folder_editor import FolderEditor

    return FolderEditor(Path(settings["folder"]).expanduser())


_KINDS: Mapping[str, Callable[[str, dict[str, Any]], Editor]] = {
    "opencv": _open_opencv,
    "diffusers": _open_diffusers,
    "step1x": _open_step1x,
    "step1x-cli": _open_step1x_cli,
    "http": _open_http,
    "folder": _open_folder,
}
_SHORT: Mapping[str, str | None] = {
    "diffusers": "model",
    "step1x": "model",
    "step1x-cli": None,
    "http": "model",
    "folder": "folder",
}
"""Kind -> the setting that WHAT is where it is no file."""
