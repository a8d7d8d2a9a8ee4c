"""What an editor is, and the one way to run it: whatever it gives back is looked at before it counts as a picture I-."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from PIL import Image, ImageChops

from mug_eval.chat import ImageRef
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.images import load_image

# Encoders and colour conversions move a level or two everywhere; an edit that anybody could see moves a few pixels by more.
_VISIBLE_LEVELS = 8
_VISIBLE_PIXELS = 12


class EditFailed(Exception):
    """This picture got no edit; others may. The reason becomes the state of the question.

    Attributes:
        reason: one line.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Edit:
    """One piece of work: a picture (RGB, upright), what is to become of it, and the seed of every draw made for it."""

    image: Image.Image
    plan: EditPlan
    seed: int


class Editor(Protocol):
    """What changes pictures. Calls block and may come from several threads at a time; the same edit gives the same pixels."""

    @property
    def name(self) -> str:
        """As the user names it."""
        ...

    @property
    def fingerprint(self) -> str:
        """The editor and every setting that changes its pictures; no secret, and nothing that differs between two runs."""
        ...

    @property
    def batch(self) -> int:
        """How many edits are best handed over at once: 1 where that gains nothing."""
        ...

    @property
    def inventive(self) -> bool:
        """Whether it can put a thing into a picture that holds none like it; without a model it can only copy what is there."""
        ...

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        """The altered picture, RGB, of the same size. Call it through :func:`run_edit`, which checks that.

        Raises:
            EditFailed: not this picture, or not this plan.
            UserError: no picture at all until the user mends something (no such model, a missing extra, no server).
        """
        ...

    def close(self) -> None:
        """Let go of memory and connections."""
        ...


@runtime_checkable
class BatchEditor(Editor, Protocol):
    """An editor that is faster at many pictures than at one after the other."""

    def edit_many(self, edits: Sequence[Edit]) -> Sequence[Image.Image | EditFailed]:
        """One result for each edit, in order; what :meth:`edit` would give, but for rounding. One failure leaves the others alone.

        Raises:
            UserError: as :meth:`edit`.
        """
        ...


def as_picture(picture: bytes | ImageRef) -> Image.Image:
    """What editors take: upright RGB of 8 bits, transparency on white, CMYK converted (as ``images.load_image`` does for backbones).

    Raises:
        ImageError: the bytes are no picture that can be shown.
    """
    data = picture if isinstance(picture, bytes) else picture.data
    shown: Image.Image = Image.open(io.BytesIO(load_image(data).data))
    shown.load()
    return _rgb(shown)


def run_edit(editor: Editor, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
    """Edit one picture and check what came back.

    Raises:
        EditFailed: the editor gave up, or gave back nothing, another size, a blank frame or the picture as it was.
        UserError: no picture can be edited until the user mends something.
    """
    return _checked(image, editor.edit(image, plan, seed))


def run_edits(editor: Editor, edits: Sequence[Edit]) -> list[Image.Image | EditFailed]:
    """Edit many pictures, in batches where the editor gains by it; each result is checked, each failure stays with its picture.

    Raises:
        UserError: no picture can be edited until the user mends something.
    """
    if isinstance(editor, BatchEditor) and editor.batch > 1:
        raw: list[Image.Image | EditFailed | None] = []
        for start in range(0, len(edits), editor.batch):
            part = edits[start : start + editor.batch]
            got = list(editor.edit_many(part))
            # Too few: which one is missing cannot be told, and a picture must never go to another question.
            raw += (
                got if len(got) == len(part) else [EditFailed(f"the editor gave {len(got)} pictures for {len(part)}")] * len(part)
            )
    else:
        raw = [*each_caught(lambda edit: editor.edit(edit.image, edit.plan, edit.seed), edits)]
    results: list[Image.Image | EditFailed] = []
    for edit, result in zip(edits, raw, strict=True):
        if not isinstance(result, EditFailed):
            try:
                result = _checked(edit.image, result)
            except EditFailed as failure:
                result = failure
        results.append(result)
    return results


def _checked(before: Image.Image, after: Image.Image | None) -> Image.Image:
    """The picture, if it can be one.

    Raises:
        EditFailed: it cannot.
    """
    if not isinstance(after, Image.Image):
        raise EditFailed(f"the editor gave back no picture but {'nothing' if after is None else type(after).__name__}")
    if after.size != before.size:
        raise EditFailed(f"the editor gave back {after.width}x{after.height} pixels for {before.width}x{before.height}")
    before, after = _rgb(before), _rgb(after)
    if _flat(after) and not _flat(before):
        # Safety checkers and numerical failures (NaN) both end in a black frame.
        black = max(_levels(after), key=lambda level: level[1])[1] <= _VISIBLE_LEVELS
        raise EditFailed(f"the editor gave back a {'black' if black else 'blank'} frame")
    # By Pillow's own means, without arrays, since a picture may have a hundred megapixels.
    red, green, blue = ImageChops.difference(before, after).split()
    counts = ImageChops.lighter(ImageChops.lighter(red, green), blue).histogram()
    if sum(counts[_VISIBLE_LEVELS + 1 :]) < _VISIBLE_PIXELS:
        raise EditFailed("the editor gave back the picture as it was")
    return after


def _rgb(picture: Image.Image) -> Image.Image:
    """As RGB; the same picture where it is."""
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _levels(picture: Image.Image) -> list[tuple[int, int]]:
    """Darkest and lightest level of each channel."""
    return [channel.getextrema() for channel in picture.split()]  # type: ignore[misc]


def _flat(picture: Image.Image) -> bool:
    return all(lightest - darkest <= _VISIBLE_LEVELS for darkest, lightest in _levels(picture))


def instruction(plan: EditPlan) -> str:
    """The plan's sentence, for editors that read.

    Raises:
        EditFailed: it has none.
    """
    # Halves of characters, as JSON may hold them, can be written to no file and sent to no server.
    words = " ".join(plan.instruction.encode(errors="replace").decode().replace("\0", " ").split())
    if not words:
        raise EditFailed("the plan holds no instruction for an editor that reads")
    return words


def each_caught(edit: Callable[[Edit], Image.Image], edits: Sequence[Edit]) -> list[Image.Image | EditFailed]:
    """Edit one after the other; a failure takes the place of its picture."""
    results: list[Image.Image | EditFailed] = []
    for one in edits:
        try:
            results.append(edit(one))
        except EditFailed as failure:
            results.append(failure)
    return results
