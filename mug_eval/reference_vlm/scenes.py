"""The scene graph: what is in a picture, drawn by seed, and the small edits that make its counterfactual."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from mug_eval.seeds import derive_seed

GRID = 6
"""Cells a side; one cell is one visual token of the model (28 pixels)."""
MOST_OBJECTS = 8
SHAPES = ("circle", "square", "triangle", "star", "cross", "ring", "diamond")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "white")
SIZES = ("small", "large")
WORDS = ("cat", "dog", "sun", "map", "box", "key", "ice", "jam", "owl", "pen", *"0123456789")
SIGN = "sign"

Split = Literal["train", "test"]
_HALF = 2**30


@dataclass(frozen=True, slots=True)
class Thing:
    """One object: a coloured shape, or a white sign with a printed word.

    Attributes:
        row: 1 (top) to 6.
        column: 1 (left) to 6.
        shape: one of SHAPES, or SIGN.
        colour: one of COLOURS; "" for a sign.
        size: one of SIZES; "" for a sign.
        word: what a sign says; "" for a shape.
    """

    row: int
    column: int
    shape: str
    colour: str = ""
    size: str = ""
    word: str = ""

    @property
    def cell(self) -> tuple[int, int]:
        """(row, column)."""
        return self.row, self.column

    @property
    def place(self) -> str:
        """The cell as the model says it, ``r2c5``."""
        return f"r{self.row}c{self.column}"

    @property
    def name(self) -> str:
        """``red star``, or ``sign``."""
        return f"{self.colour} {self.shape}" if self.colour else self.shape

    @property
    def looks(self) -> str:
        """``small red star``, or ``sign owl``."""
        return f"{self.size} {self.name}" if self.colour else f"{SIGN} {self.word}"

    def described(self) -> str:
        """One entry of the list of a picture, ``small red star r2c5`` or ``sign owl r1c1``.

        The place comes last: to find where a named thing is, is then to go on as the list went on, which a small model learns at once.
        """
        return f"{self.looks} {self.place}"


@dataclass(frozen=True, slots=True)
class Scene:
    """What is to be seen, in reading order of the cells, no two in one cell.

    Attributes:
        things: 0 to 8 objects.
        look: seed of what carries no meaning: background, exact shade and place within the cell. An edit keeps it.
    """

    things: tuple[Thing, ...]
    look: int

    def listed(self) -> str:
        """The whole picture in words, the form in which the model describes it."""
        if not self.things:
            return "I see nothing. Total 0."
        return f"I see {', '.join(thing.described() for thing in self.things)}. Total {len(self.things)}."

    def named(self, colour: str = "", shape: str = "") -> tuple[Thing, ...]:
        """The things of a colour and of a shape; "" admits any. A sign has no colour, so a colour excludes it."""
        return tuple(t for t in self.things if (not colour or t.colour == colour) and (not shape or t.shape == shape))


@dataclass(frozen=True, slots=True)
class Edit:
    """A counterfactual picture.

    Attributes:
        scene: after the edit.
        kind: ``add``, ``remove``, ``recolour``, ``resize``, ``reshape``, ``move``, ``swap`` or ``reword``.
        target: what was changed, in words.
        instruction: the edit as one would ask an image editor for it.
    """

    scene: Scene
    kind: str
    target: str
    instruction: str


def scene_seed(split: Split, seed: int, number: int) -> int:
    """The seed of one scene. Train seeds lie in [0, 2^30), test seeds in [2^30, 2^31): no scene is in both."""
    half = derive_seed("scene", split, seed, number) >> 1
    return half + _HALF if split == "test" else half


def draw_scene(seed: int) -> Scene:
    """The scene of a seed: 0 to 8 things in different cells, at most two of them signs.

    Colours and shapes are drawn from a few favourites of the scene, so that things repeat and counts above one are common.
    """
    rng = random.Random(seed)
    count = rng.choices(range(MOST_OBJECTS + 1), weights=(1, 4, 6, 8, 8, 8, 7, 6, 5))[0]
    colours = rng.sample(COLOURS, rng.randint(2, len(COLOURS)))
    shapes = rng.sample(SHAPES, rng.randint(2, len(SHAPES)))
    signs = min(count, rng.choices((0, 1, 2), weights=(5, 4, 1))[0])
    things = []
    for i, cell in enumerate(rng.sample(range(GRID * GRID), count)):
        row, column = cell // GRID + 1, cell % GRID + 1
        if i < signs:
            things.append(Thing(row, column, SIGN, word=rng.choice(WORDS)))
        else:
            things.append(Thing(row, column, rng.choice(shapes), rng.choice(colours), rng.choice(SIZES)))
    return Scene(in_order(things), derive_seed("look", seed))


def in_order(things: list[Thing]) -> tuple[Thing, ...]:
    """Things by cell, as one reads."""
    return tuple(sorted(things, key=lambda thing: thing.cell))


def free_cells(scene: Scene) -> list[tuple[int, int]]:
    """Cells with nothing in them."""
    taken = {thing.cell for thing in scene.things}
    return [(r, c) for r in range(1, GRID + 1) for c in range(1, GRID + 1) if (r, c) not in taken]


def add(scene: Scene, thing: Thing) -> Edit:
    """Put one more thing into a free cell."""
    after = Scene(in_order([*scene.things, thing]), scene.look)
    return Edit(after, "add", thing.name, f"Add a {thing.looks} at {thing.place}.")


def remove(scene: Scene, thing: Thing) -> Edit:
    """Take a thing away."""
    after = Scene(tuple(t for t in scene.things if t != thing), scene.look)
    return Edit(after, "remove", thing.name, f"Remove the {thing.name} at {thing.place}.")


def change(scene: Scene, thing: Thing, **values: str | int) -> Edit:
    """Give a thing another colour, size, shape, word or cell (``row`` and ``column``)."""
    new = replace(thing, **values)  # type: ignore[arg-type]
    after = Scene(in_order([*(t for t in scene.things if t != thing), new]), scene.look)
    kinds = {"colour": "recolour", "size": "resize", "shape": "reshape", "word": "reword"}
    kind = next((kinds[field] for field in values if field in kinds), "move")
    if kind == "move":
        wanted = f"Move the {thing.name} from {thing.place} to {new.place}."
    else:
        wanted = f"Turn the {thing.looks} at {thing.place} into a {new.looks}."
    return Edit(after, kind, thing.name, wanted)


def swap(scene: Scene, first: Thing, second: Thing) -> Edit:
    """Let two things change places."""
    moved = (replace(first, row=second.row, column=second.column), replace(second, row=first.row, column=first.column))
    after = Scene(in_order([*(t for t in scene.things if t not in (first, second)), *moved]), scene.look)
    wanted = f"Swap the {first.name} at {first.place} and the {second.name} at {second.place}."
    return Edit(after, "swap", first.name, wanted)


def any_edit(scene: Scene, rng: random.Random) -> Edit:
    """Some edit of one thing, whatever it is."""
    kinds = ["add"] if not scene.things else ["remove", "recolour", "resize", "reshape", "move", "reword"]
    if 0 < len(scene.things) < MOST_OBJECTS:
        kinds.append("add")
    kind = rng.choice(kinds)
    if kind == "add":
        row, column = rng.choice(free_cells(scene))
        return add(scene, Thing(row, column, rng.choice(SHAPES), rng.choice(COLOURS), rng.choice(SIZES)))
    thing = rng.choice(scene.things)
    if kind == "remove":
        return remove(scene, thing)
    if kind == "move":
        row, column = rng.choice(free_cells(scene))
        return change(scene, thing, row=row, column=column)
    if thing.shape == SIGN:
        return change(scene, thing, word=other(WORDS, thing.word, rng))
    if kind == "resize":
        return change(scene, thing, size=other(SIZES, thing.size, rng))
    if kind == "reshape":
        return change(scene, thing, shape=other(SHAPES, thing.shape, rng))
    return change(scene, thing, colour=other(COLOURS, thing.colour, rng))


def other(values: tuple[str, ...], than: str, rng: random.Random) -> str:
    """A value that is not the one there is."""
    return rng.choice([value for value in values if value != than])
