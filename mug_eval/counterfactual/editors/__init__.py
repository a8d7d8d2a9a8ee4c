"""Editors by name; what each is able to do stands in its own module."""

from mug_eval.counterfactual.editors.catalogue import EditorEntry, load_catalogue, open_editor, parse_editor
from mug_eval.counterfactual.editors.editor import BatchEditor, Edit, EditFailed, Editor, as_picture, run_edit, run_edits

__all__ = [
    "BatchEditor",
    "Edit",
    "EditFailed",
    "Editor",
    "EditorEntry",
    "as_picture",
    "load_catalogue",
    "open_editor",
    "parse_editor",
    "run_edit",
    "run_edits",
]
