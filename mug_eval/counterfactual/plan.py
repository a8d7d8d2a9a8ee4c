"""What is to become of a picture: one edit of one thing. Nothing in this module knows of answers (validity rule 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

EditKind = Literal["remove", "add", "replace", "recolour", "resize", "move", "retext", "mirror"]
EDIT_KINDS: tuple[EditKind, ...] = get_args(EditKind)

Box = tuple[int, int, int, int]
"""(left, top, right, bottom) in pixels of the picture; right and bottom lie one past the last pixel."""


@dataclass(frozen=True, slots=True)
class EditPlan:
    """One edit.

    Attributes:
        kind: ``remove`` the target; ``add`` one more of it; ``replace`` it by something else; ``recolour``, ``resize`` or ``move``
            it; ``retext``: other printed words in its place; ``mirror``: it changes places with another object.
        target: its name, e.g. ``the red car``.
        box: where it is.
        to: the new colour, words, thing or size; a direction for ``move``; "" if the kind needs none or the editor is to choose.
        to_box: ``add``, ``move``: the new place, None if the editor is to choose. ``mirror``: the other object. ``replace``: an object
            of this picture to take the target's place.
        instruction: the edit in one sentence, for editors that read.

    Raises:
        ValueError: an unknown kind, or a box without an inside.
    """

    kind: EditKind
    target: str
    box: Box
    to: str = ""
    to_box: Box | None = None
    instruction: str = ""

    def __post_init__(self) -> None:
        if self.kind not in EDIT_KINDS:
            raise ValueError(f"unknown kind of edit {self.kind!r} (there are: {', '.join(EDIT_KINDS)})")
        for box in (self.box, self.to_box):
            if box is not None and (len(box) != 4 or box[0] >= box[2] or box[1] >= box[3]):
                raise ValueError(f"a box is (left, top, right, bottom) with left < right and top < bottom, not {box}")
