"""Opening an editor by what it was named; it is imported only then, and its weights are loaded at its first edit."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mug_eval.configuration import resolve
from mug_eval.counterfactual.editor_catalogue import EditorEntry, parse_editor
from mug_eval.counterfactual.editors.editor import Editor
from mug_eval.errors import UserError

BASE_URL_VARIABLE = "MUG_EVAL_EDITOR_URL"


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
    return _KINDS[entry.kind](_without_place(entry.name), settings)


def _without_place(name: str) -> str:
    """``KIND:WHAT`` with the last part of a path alone: the name goes into stores, which are published."""
    kind, colon, what = name.partition(":")
    path = Path(what).expanduser()
    return f"{kind}:{path.resolve().name}" if colon and path.exists() else name


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
