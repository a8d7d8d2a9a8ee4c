"""Questions about a scene with their true answers, the reason for each, and the edit that changes the answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from mug_eval.reference_vlm.scenes import (
    COLOURS,
    MOST_OBJECTS,
    SHAPES,
    SIGN,
    SIZES,
    WORDS,
    Edit,
    Scene,
    Thing,
    add,
    change,
    free_cells,
    other,
    remove,
)

Kind = Literal["existence", "quantity", "attribute", "spatial", "text"]
KINDS: tuple[Kind, ...] = ("existence", "quantity", "attribute", "spatial", "text")
"""The paper's question types: object, quantity, attribute, spatial, other."""
Aspect = Literal["exists", "count", "colour", "shape", "size", "side", "further", "says"]
_KIND: dict[Aspect, Kind] = {
    "exists": "existence",
    "count": "quantity",
    "colour": "attribute",
    "shape": "attribute",
    "size": "attribute",
    "side": "spatial",
    "further": "spatial",
    "says": "text",
}
_SIDES = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}
_FURTHER = {"left": "further left", "right": "further right", "above": "higher up", "below": "lower down"}


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, whatever form the question takes.

    Attributes:
        aspect: which property.
        about: the things meant, each (colour, shape), "" for any.
        side: for ``side`` and ``further``: left, right, above or below.
    """

    aspect: Aspect
    about: tuple[tuple[str, str], ...]
    side: str = ""

    @property
    def kind(self) -> Kind:
        """The question type."""
        return _KIND[self.aspect]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query put as a question.

    Attributes:
        query: what is asked.
        text: the question.
        claim: for a yes/no question that names a value: it is true if the query's value is this one; else "".
        options: for multiple choice, the values in the order of their letters.
        form: how it is to be answered.
    """

    query: Query
    text: str
    form: Literal["yes_no", "choice", "open"]
    claim: str = ""
    options: tuple[str, ...] = ()

    def gold(self, scene: Scene) -> str | None:
        """The true answer over a scene: Yes/No, a letter, or a value; None where the question has none."""
        value = value_of(self.query, scene)
        if value is None:
            return None
        if self.form == "yes_no":
            return "Yes" if value == self.claim else "No"
        if self.form == "open":
            return value
        return "ABCDEFGH"[self.options.index(value)] if value in self.options else None


def phrase(about: tuple[str, str]) -> str:
    """``red star``, ``star``, ``red object``, ``sign``."""
    colour, shape = about
    return " ".join(filter(None, (colour, shape or "object")))


def plural(name: str) -> str:
    """``red objects``, ``crosses``."""
    return f"{name}es" if name.endswith("s") else f"{name}s"


def with_article(name: str) -> str:
    """``a red star``, ``an orange star``."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def value_of(query: Query, scene: Scene) -> str | None:
    """The true value over a scene; None if the thing asked about is not there exactly once."""
    found = [scene.named(*about) for about in query.about]
    if query.aspect == "exists":
        return "yes" if found[0] else "no"
    if query.aspect == "count":
        return str(len(found[0]))
    if any(len(things) != 1 for things in found):
        return None
    first = found[0][0]
    if query.aspect == "colour":
        return first.colour
    if query.aspect == "shape":
        return first.shape
    if query.aspect == "size":
        return first.size
    if query.aspect == "says":
        return first.word
    ahead = _ahead(query.side, first, found[1][0])
    if ahead == 0:
        return None
    if query.aspect == "side":
        return "yes" if ahead > 0 else "no"
    return f"the {phrase(query.about[0 if ahead > 0 else 1])}"


def reason(query: Query, scene: Scene) -> str:
    """The sentence from which the answer follows, in the form in which the model learns to say it.

    Small steps, each of which follows from a few words before it: a thing's name and then its place or ``none``; for a count, every
    place in turn and how many there were so far. The value comes last.
    """
    things = scene.named(*query.about[0])
    name = phrase(query.about[0])
    if query.aspect == "exists":
        return f"The {name}: {things[0].place}, so yes." if things else f"The {name}: none, so no."
    if query.aspect == "count":
        return f"Count of {name}: {_counted(things, scene)}, so {len(things)}."
    value = value_of(query, scene)
    if query.aspect in ("side", "further"):
        return _places(query, scene)
    if value is None:
        return f"The {name} is unclear."
    return f"The {name} says {value}." if query.aspect == "says" else f"The {name} is {value}."


def _places(query: Query, scene: Scene) -> str:
    """Where the two things are, their rows or columns as numbers, and what follows for the first: one small step at a time."""
    found = [scene.named(*about) for about in query.about]
    parts = [
        f"{phrase(about)} {things[0].place if len(things) == 1 else 'unclear'}"
        for about, things in zip(query.about, found, strict=True)
    ]
    places = f"The places: {', '.join(parts)}."
    if any(len(things) != 1 for things in found):
        return places
    across = query.side in ("left", "right")
    first, second = ((things[0].column if across else things[0].row) for things in found)
    less, more = ("left", "right") if across else ("above", "below")
    side = "level" if first == second else less if first < second else more
    value = value_of(query, scene)
    return f"{places} {'Across' if across else 'Down'} {first} and {second}: {side}, so {value or 'neither'}."


def _counted(things: Sequence[Thing], scene: Scene) -> str:
    """``r1c2 0 r3c3 1 r5c1 1``: every place that is taken, and how many of the things were met by then."""
    met = 0
    steps = []
    for thing in scene.things:
        met += thing in things
        steps.append(f"{thing.place} {met}")
    return " ".join(steps) or "none"


def _ahead(side: str, first: Thing, second: Thing) -> int:
    """Positive if the first is further to the side than the second, 0 if level."""
    difference = first.column - second.column if side in ("left", "right") else first.row - second.row
    return -difference if side in ("left", "above") else difference


def draw_query(kind: Kind, scene: Scene, rng: random.Random) -> Query | None:
    """A query of a kind that the scene can answer; None if it cannot."""
    shapes = [thing for thing in scene.things if thing.shape != SIGN]
    named_once = [t for t in shapes if len(scene.named(t.colour, t.shape)) == 1]
    if kind == "existence":
        if shapes and rng.random() < 0.5:
            thing = rng.choice(shapes)
            return Query("exists", ((thing.colour, thing.shape),))
        return Query("exists", (absent(scene, rng.choice(("random", "popular", "adversarial")), rng),))
    if kind == "quantity":
        present = [about for t in shapes for about in ((t.colour, ""), ("", t.shape))]
        anything = [*((colour, "") for colour in COLOURS), *(("", shape) for shape in SHAPES)]
        return Query("count", (rng.choice(present if present and rng.random() < 0.85 else anything),))
    if kind == "text":
        return Query("says", (("", SIGN),)) if len(scene.named("", SIGN)) == 1 else None
    if kind == "attribute":
        queries = [Query("size", ((t.colour, t.shape),)) for t in named_once]
        queries += [Query("colour", (("", t.shape),)) for t in shapes if len(scene.named("", t.shape)) == 1]
        queries += [Query("shape", ((t.colour, ""),)) for t in shapes if len(scene.named(t.colour)) == 1]
        return rng.choice(queries) if queries else None
    pairs = [(a, b) for a in named_once for b in named_once if a != b]
    rng.shuffle(pairs)
    for a, b in pairs:
        sides = [side for side in _SIDES if _ahead(side, a, b)]
        if sides:
            about = ((a.colour, a.shape), (b.colour, b.shape))
            return Query(rng.choice(("side", "further")), about, rng.choice(sides))
    return None


def absent(scene: Scene, how: str, rng: random.Random) -> tuple[str, str]:
    """A (colour, shape) that is not in the scene.

    Args:
        scene: the scene.
        how: ``random``: any; ``popular``: one of four fixed kinds, red and blue circles and squares; ``adversarial``: its colour and
            its shape are both there, apart (as POPE's co-occurring negatives).
        rng: of the draw.
    """
    every = [(colour, shape) for colour in COLOURS for shape in SHAPES if not scene.named(colour, shape)]
    if how == "popular":
        some = [(c, s) for c, s in every if c in ("red", "blue") and s in ("circle", "square")]
    elif how == "adversarial":
        some = [(c, s) for c, s in every if scene.named(c) and scene.named("", s)]
        some = some or [(c, s) for c, s in every if scene.named(c) or scene.named("", s)]
    else:
        some = every
    return rng.choice(some or every)


def ask_yes_no(query: Query, scene: Scene, rng: random.Random) -> Asked:
    """The query as a yes/no question; questions that name a value name the true one half of the time."""
    names = [phrase(about) for about in query.about]
    if query.aspect == "exists":
        return Asked(query, f"Is there {with_article(names[0])} in the image?", "yes_no", "yes")
    if query.aspect == "side":
        return Asked(query, f"Is the {names[0]} {_SIDES[query.side]} the {names[1]}?", "yes_no", "yes")
    truth = value_of(query, scene)
    assert truth is not None, "a query is put over a scene that can answer it"
    claim = truth if rng.random() < 0.5 else rng.choice(wrong_values(query, truth, rng))
    texts: dict[Aspect, str] = {
        "count": f"Are there exactly {claim} {plural(names[0])} in the image?",
        "colour": f"Is the {names[0]} {claim}?",
        "shape": f"Is the {names[0]} a {claim}?",
        "size": f"Is the {names[0]} {claim}?",
        "further": f"Of the {names[0]} and the {names[-1]}, is {claim} {_FURTHER.get(query.side, '')}?",
        "says": f"Does the sign say {claim}?",
    }
    return Asked(query, texts[query.aspect], "yes_no", claim)


def ask_open(query: Query) -> Asked:
    """The query as a question for its value; ``exists`` and ``side`` have none but yes and no."""
    names = [phrase(about) for about in query.about]
    texts: dict[Aspect, str] = {
        "count": f"How many {plural(names[0])} are there in the image?",
        "colour": f"What colour is the {names[0]}?",
        "shape": f"What shape is the {names[0]}?",
        "size": f"What size is the {names[0]}?",
        "further": f"Which is {_FURTHER.get(query.side, '')}, the {names[0]} or the {names[-1]}?",
        "says": "What does the sign say?",
    }
    return Asked(query, texts[query.aspect], "open")


def ask_choice(query: Query, scene: Scene, rng: random.Random, edited: Scene | None = None) -> Asked:
    """The query with options, at most four; existence and sides become statements to choose from.

    Args:
        query: what is asked.
        scene: over which the question is true.
        rng: of the draws.
        edited: the counterfactual scene, whose value is then one of the options.
    """
    truth = value_of(query, scene)
    assert truth is not None, "a query is put over a scene that can answer it"
    if query.aspect in ("exists", "side"):
        options = ["yes", "no"]
        text = ask_yes_no(query, scene, rng).text
    else:
        wrong = wrong_values(query, truth, rng)
        after = None if edited is None else value_of(query, edited)
        if after in wrong:
            wrong.remove(after)
            wrong.insert(0, after)
        options = [truth, *wrong[:3]]
        text = ask_open(query).text
    rng.shuffle(options)
    return Asked(query, text, "choice", "", tuple(options))


def wrong_values(query: Query, truth: str, rng: random.Random) -> list[str]:
    """Values of the right sort that are not the true one, in drawn order; counts near the truth first."""
    if query.aspect == "count":
        near = [n for n in range(MOST_OBJECTS + 1) if n != int(truth)]
        near.sort(key=lambda n: abs(n - int(truth)) + rng.random())
        return [str(n) for n in near]
    sorts: dict[Aspect, tuple[str, ...]] = {"colour": COLOURS, "shape": SHAPES, "size": SIZES, "says": WORDS}
    values = [f"the {phrase(about)}" for about in query.about] if query.aspect == "further" else sorts[query.aspect]
    wrong = [value for value in values if value != truth]
    rng.shuffle(wrong)
    return wrong


def edit_for(query: Query, scene: Scene, rng: random.Random) -> Edit | None:
    """A minimal edit after which the query has another value; None if one try at each way does not find it."""
    things = scene.named(*query.about[0])
    ways: list[Callable[[], Edit]] = []
    if query.aspect in ("exists", "count"):
        colour, shape = query.about[0]
        if things:
            ways.append(lambda: remove(scene, rng.choice(things)))
        if len(scene.things) < MOST_OBJECTS and (query.aspect == "count" or not things):
            row, column = rng.choice(free_cells(scene))
            thing = Thing(row, column, shape or rng.choice(SHAPES), colour or rng.choice(COLOURS), rng.choice(SIZES))
            ways.append(lambda: add(scene, thing))
        elif query.aspect == "exists" and not things:
            old = rng.choice([t for t in scene.things if t.shape != SIGN])
            ways.append(lambda: change(scene, old, colour=colour, shape=shape))
    elif query.aspect == "colour":
        ways.append(lambda: change(scene, things[0], colour=other(COLOURS, things[0].colour, rng)))
    elif query.aspect == "shape":
        ways.append(lambda: change(scene, things[0], shape=other(SHAPES, things[0].shape, rng)))
    elif query.aspect == "size":
        ways.append(lambda: change(scene, things[0], size=other(SIZES, things[0].size, rng)))
    elif query.aspect == "says":
        ways.append(lambda: change(scene, things[0], word=other(WORDS, things[0].word, rng)))
    else:
        for moved in (things[0], scene.named(*query.about[1])[0]):
            for row, column in rng.sample(free_cells(scene), 8):
                ways.append(lambda moved=moved, row=row, column=column: change(scene, moved, row=row, column=column))  # type: ignore[misc]
    rng.shuffle(ways)
    before = value_of(query, scene)
    for way in ways:
        edit = way()
        if value_of(query, edit.scene) not in (None, before):
            return edit
    return None
