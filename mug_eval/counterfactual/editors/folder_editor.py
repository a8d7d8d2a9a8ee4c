"""Pictures that somebody made by hand, as an editor: ``HASH.png`` or, for one kind of edit, ``HASH-remove.png`` in a folder.

HASH is :func:`picture_hash` of the picture that was altered; a missing one is named in the reason, so that it can be put there.
``NAME.original.png`` beside ``NAME.png`` does the same without a hash.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from PIL import Image

from mug_eval.counterfactual.editors.editor import EditFailed, as_picture
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError
from mug_eval.images import ImageError

_ENDINGS = (".png", ".jpg", ".jpeg", ".webp")
_ORIGINAL = ".original"


def picture_hash(image: Image.Image) -> str:
    """SHA-256 over width, height and RGB pixels: the same however the picture is encoded, as long as nothing is lost."""
    rgb = image.convert("RGB")
    return hashlib.sha256(f"{rgb.width}x{rgb.height}:".encode() + rgb.tobytes()).hexdigest()


class FolderEditor:
    """Hands out the picture that lies in the folder for a picture, whatever the plan's words.

    Args:
        folder: the folder; it is read once, its pictures when they are asked for.

    Raises:
        UserError: no such folder, nothing in it, two files for the same picture, or an original without its picture.
    """

    batch: Final = 1
    inventive: Final = True

    def __init__(self, folder: Path) -> None:
        self.name: Final = f"folder:{folder.resolve().name}"
        self._files: dict[str, Path] = {}
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in _ENDINGS and path.is_file())
            digest = hashlib.sha256()
            for path in paths:
                digest.update(f"{path.name}:{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
        except OSError as error:
            raise UserError(f"the folder of edited pictures {folder} cannot be read: {error.strerror or error}") from error
        stems = {path.stem: path for path in paths if not path.stem.endswith(_ORIGINAL)}
        for path in paths:
            key = path.stem.lower()
            if path.stem.endswith(_ORIGINAL):
                own = stems.get(path.stem.removesuffix(_ORIGINAL))
                if own is None:
                    raise UserError(f"{path}: there is no edited picture {path.stem.removesuffix(_ORIGINAL)} beside it")
                key, path = self._hash_of(path), own
            if self._files.setdefault(key, path) != path:
                raise UserError(f"{self._files[key]} and {path} are for the same picture; keep one of them")
        if not self._files:
            raise UserError(f"the folder of edited pictures {folder} holds no pictures ({', '.join(_ENDINGS)})")
        self._content = digest.hexdigest()[:16]

    @property
    def fingerprint(self) -> str:
        """A hash of the files' names and contents."""
        return f"folder:{self._content}"

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        """See ``Editor.edit``; the seed makes no difference.

        Raises:
            EditFailed: no picture lies there for this one, or it cannot be read.
        """
        key = picture_hash(image)
        path = self._files.get(f"{key}-{plan.kind}") or self._files.get(key)
        if path is None:
            raise EditFailed(f"nobody made this picture: put it there as {key}.png or {key}-{plan.kind}.png")
        try:
            return as_picture(path.read_bytes())
        except (OSError, ImageError) as error:
            raise EditFailed(f"{path.name} cannot be read: {error}") from error

    def close(self) -> None:
        """Nothing is held."""

    def _hash_of(self, path: Path) -> str:
        try:
            return picture_hash(as_picture(path.read_bytes()))
        except (OSError, ImageError) as error:
            raise UserError(f"{path} cannot be read: {error}") from error
