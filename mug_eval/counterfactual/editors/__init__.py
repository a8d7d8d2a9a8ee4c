"""Editors; what each is able to do stands in its own module, by what names they go in ``counterfactual.editor_catalogue``."""

from mug_eval.counterfactual.editors.editor import BatchEditor, Edit, EditFailed, Editor, as_picture, run_edit, run_edits
from mug_eval.counterfactual.editors.opening import open_editor

__all__ = [
    "BatchEditor",
    "Edit",
    "EditFailed",
    "Editor",
    "as_picture",
    "open_editor",
    "run_edit",
    "run_edits",
]
