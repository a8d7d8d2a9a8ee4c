"""A picture on the size that a model works at, and back: what is added at the sides is cut off again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from mug_eval.counterfactual.editors.editor import EditFailed

# A model that works in steps of 32 pixels stretches a megapixel by up to 3 % in each direction.
_SAME_PROPORTIONS = 0.06


@dataclass(frozen=True, slots=True)
class Canvas:
    """How a picture lies on a canvas. Sizes are (width, height) in pixels.

    Attributes:
        picture: the picture's size.
        size: the canvas's.
        inner: the picture's on the canvas, in the middle.
    """

    picture: tuple[int, int]
    size: tuple[int, int]
    inner: tuple[int, int]

    @classmethod
    def for_sizes(cls, picture: tuple[int, int], sizes: Sequence[tuple[int, int]]) -> Canvas:
        """The canvas, of those that there are, that leaves least room at the sides; without any, one like the picture."""
        if not sizes:
            return cls(picture, picture, picture)

        def inner(size: tuple[int, int]) -> tuple[int, int]:
            scale = min(size[0] / picture[0], size[1] / picture[1])
            return max(1, round(picture[0] * scale)), max(1, round(picture[1] * scale))

        best = max(sizes, key=lambda size: inner(size)[0] * inner(size)[1] / (size[0] * size[1]))
        return cls(picture, best, inner(best))

    @classmethod
    def of_area(cls, picture: tuple[int, int], most_pixels: int, multiple: int) -> Canvas:
        """A canvas of up to ``most_pixels`` with sides that are multiples, with the picture stretched to it by less than one step."""
        scale = min(1.0, (most_pixels / (picture[0] * picture[1])) ** 0.5)
        width, height = (max(multiple, int(side * scale) // multiple * multiple) for side in picture)
        return cls(picture, (width, height), (width, height))

    def laid(self, image: Image.Image) -> Image.Image:
        """The picture on the canvas; what is left beside it has the picture's mean colour."""
        image = image.convert("RGB")
        if self.inner == self.size:
            return image if image.size == self.size else image.resize(self.size, Image.Resampling.LANCZOS)
        canvas = Image.new("RGB", self.size, image.resize((1, 1), Image.Resampling.BOX).getpixel((0, 0)))
        canvas.paste(image.resize(self.inner, Image.Resampling.LANCZOS), self._corner)
        return canvas

    def cut(self, image: Image.Image) -> Image.Image:
        """The picture from a canvas that came back, at its own size.

        Raises:
            EditFailed: the canvas that came back has other proportions, so that nobody can tell where the picture lies on it.
        """
        across, down = image.width / self.size[0], image.height / self.size[1]
        if abs(across / down - 1) > _SAME_PROPORTIONS:
            raise EditFailed(f"the editor gave back {image.width}x{image.height} pixels for {self.size[0]}x{self.size[1]}")
        if self.inner != self.size:
            left, top = self._corner
            box = (left * across, top * down, (left + self.inner[0]) * across, (top + self.inner[1]) * down)
            return image.resize(self.picture, Image.Resampling.LANCZOS, box=box)
        return image if image.size == self.picture else image.resize(self.picture, Image.Resampling.LANCZOS)

    @property
    def _corner(self) -> tuple[int, int]:
        return (self.size[0] - self.inner[0]) // 2, (self.size[1] - self.inner[1]) // 2
