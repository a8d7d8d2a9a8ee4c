"""Where an edit was to change something: what the constraints hold it against."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from PIL import Image

from mug_eval.counterfactual.boxes import Size
from mug_eval.counterfactual.editors.editor import Editor
from mug_eval.counterfactual.plan import Box, EditPlan


@runtime_checkable
class Placing(Protocol):
    """An editor that says where it will work."""

    def places(self, image: Image.Image, plan: EditPlan, seed: int) -> tuple[Box, ...]:
        """Where the target is, and where it, or one more of it, will be."""
        ...


def where(editor: Editor, picture: Image.Image, plan: EditPlan, seed: int) -> tuple[Box, ...]:
    """The target's box, and the new place's: as the editor says, or as the plan lets expect.

    A place that the plan leaves to an editor that does not say where is the whole picture: C_local then has nothing to judge.
    """
    if isinstance(editor, Placing):
        return editor.places(picture, plan, seed)
    if plan.kind in ("add", "move"):
        return plan.box, plan.to_box or (0, 0, *picture.size)
    if plan.kind == "mirror" and plan.to_box is not None:  # each may be larger than the place that it gets
        both = list(zip(plan.box, plan.to_box, strict=True))
        return (_grown((min(both[0]), min(both[1]), max(both[2]), max(both[3])), picture.size),)
    if plan.kind == "resize":
        return (_grown(plan.box, picture.size),)
    return (plan.box,)


def _grown(box: Box, size: Size) -> Box:
    """Twice as wide and as high about its middle, inside the picture."""
    by_x, by_y = (box[2] - box[0]) // 2, (box[3] - box[1]) // 2
    return max(0, box[0] - by_x), max(0, box[1] - by_y), min(size[0], box[2] + by_x), min(size[1], box[3] + by_y)
