"""An oracle at the table: it answers every call of a real game with the ideal reply for the picture that the caller was shown.

The training dialogs are the calls of games that the real methods play with it, so they hold the methods' own prompts, word for word.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mug_eval.chat import Json, Message, Reply, Sampling
from mug_eval.methods import cfmad, debate, mad_judge, mug_prompts, self_refine
from mug_eval.methods import chain_of_thought as cot
from mug_eval.methods.mug_ratings import FACTORS
from mug_eval.reference_vlm.questions import Asked, edit_for, reason
from mug_eval.reference_vlm.scenes import Scene, any_edit
from mug_eval.seeds import generator

STATEMENT = re.compile(r"^(?:\[[^\]\n]*\] )?([A-Z][A-Za-z]+(?: \w+)?):\n((?:>.*(?:\n|\Z))+)", re.MULTILINE)
"""A statement in a transcript: who said it, and the quoted lines."""
_LIST = re.compile(r"I see .*? Total \d\.")
_STANCE = re.compile(r'the right answer is "([^"\n]*)"')


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a game and the reply that the model is to learn.

    Attributes:
        seat: who asked.
        task: which of the methods' tasks it was.
        messages: the conversation.
        scenes: what the pictures show, in the order in which they were shown.
        reply: the ideal reply.
    """

    seat: str
    task: str
    messages: tuple[Message, ...]
    scenes: tuple[Scene, ...]
    reply: str


def opening(template: str) -> str:
    """The longest run of a template's own words: what identifies it in a prompt."""
    return max(re.split(r"\{\w+\}", template), key=len)


_TASKS: tuple[tuple[str, str], ...] = (
    ("vote", opening(mug_prompts.VOTE)),
    ("feedback", opening(self_refine.CRITIQUE)),
    ("argue", opening(cfmad.ABDUCTION)),
    ("criticise", opening(cfmad.CRITIQUE)),
    ("rebut", opening(cfmad.REBUTTAL)),
    ("alone", opening(mug_prompts.ALONE)),
    ("judge", opening(mad_judge.DECIDE)),
    ("judge", opening(cfmad.JUDGE)),
    ("final", opening(mug_prompts.FINAL)),
    ("again", opening(mug_prompts.SUMMARISE)),
    ("again", opening(debate.AGAIN)),
    ("again", opening(self_refine.REFINE)),
    ("describe", opening(debate.FIRST)),
    ("describe", opening(cot.TASK)),
    ("talk", opening(mug_prompts.TALK)),
)


def task_of(text: str) -> str:
    """Which task a prompt sets; ``answer`` if none of the methods' tasks is in it."""
    for task, words in _TASKS:
        if words in text:
            if task == "talk":
                return "again" if _LIST.search(text) else "describe"
            return task
    return "answer"


def lists_said(text: str) -> dict[str, str]:
    """Speaker -> the last list of a picture that they gave, from a transcript."""
    said = {}
    for speaker, words in STATEMENT.findall(text):
        found = _LIST.findall(words)
        if found:
            said[speaker] = found[-1]
    return said


class OracleTable:
    """A :class:`~mug_eval.methods.method.Table` at which the oracle answers.

    What it says in the game is wrong now and then (it misreads one detail), as the model will be; what it is to be learnt from, the
    ``calls``, is right.

    Args:
        asked: the question that is played.
        pictures: SHA-256 of a picture -> what it shows.
        rng: of the mistakes.
        mistakes: how often a reply rests on a misread picture.
    """

    def __init__(self, asked: Asked, pictures: Mapping[str, tuple[Scene, ...]], rng: random.Random, mistakes: float) -> None:
        self.calls: list[Call] = []
        self._asked = asked
        self._pictures = pictures
        self._rng = rng
        self._mistakes = mistakes
        self._seed = rng.getrandbits(31)

    @property
    def sampling(self) -> Sampling:
        """Nothing is sampled."""
        return Sampling(temperature=0)

    async def ask(
        self, seat: str, messages: Sequence[Message], *, sampling: Sampling | None = None, schema: Json | None = None
    ) -> Reply:
        """The oracle's reply; the ideal one is kept."""
        scenes = tuple(scene for message in messages for image in message.images for scene in self._pictures[image.sha256])
        text = messages[-1].text
        task = task_of(text)
        ideal = ideal_reply(task, seat, text, self._asked, scenes, self._rng)
        self.calls.append(Call(seat, task, tuple(messages), scenes, ideal))
        likely = 0.4 if self._mistakes and _is_draft(seat, task) else self._mistakes
        if self._rng.random() >= likely:
            return Reply(ideal)
        return Reply(ideal_reply(task, seat, text, self._asked, misread(scenes, self._asked, self._rng), self._rng))

    def random(self, purpose: str) -> random.Random:
        """The game's draws."""
        return generator(self._seed, purpose)

    def record(self, kind: str, **fields: Any) -> None:
        """No trace is kept."""


def _is_draft(seat: str, task: str) -> bool:
    """Self-refine's first draft is often wrong, or there would be nothing to criticise."""
    return seat == "solver" and task == "describe"


def misread(scenes: tuple[Scene, ...], asked: Asked, rng: random.Random) -> tuple[Scene, ...]:
    """The pictures with one detail wrong; the question can still be answered over them."""
    for _ in range(6):
        which = rng.randrange(len(scenes))
        wrong = tuple(any_edit(scene, rng).scene if i == which else scene for i, scene in enumerate(scenes))
        if len(scenes) == 2 or asked.gold(wrong[0]) is not None:
            return wrong
    return scenes


def ideal_reply(task: str, seat: str, text: str, asked: Asked, scenes: tuple[Scene, ...], rng: random.Random) -> str:
    """What to say for a task over a picture.

    Args:
        task: from :func:`task_of`.
        seat: who speaks.
        text: the prompt's words, the transcript in them.
        asked: the question.
        scenes: what the pictures show: one, or two for a question that compares.
        rng: of what is free to choose.
    """
    answer = answer_over(asked, scenes)
    why = reason_over(asked, scenes)
    own = " ".join(scene.listed() for scene in scenes)
    if task == "answer":
        return answer
    concluded = f"{why}\nAnswer: {answer}"
    if task == "describe":
        return f"{own}\n{concluded}"
    if task == "alone":
        return f"{own}\n{why}\nConfidence: {95 - 5 * sum(len(scene.things) for scene in scenes)}\nAnswer: {answer}"
    if task in ("judge", "final"):
        return concluded
    said = lists_said(text)
    if task == "vote":
        return ballot(seat, said, own)
    if task == "again":
        others = [compared(speaker, words, own) for speaker, words in said.items() if speaker != seat]
        return " ".join(others) + "\n" + concluded if others else concluded
    if task == "feedback":
        drafts = re.findall(r"^> Answer: (.+)$", text, re.MULTILINE)
        right = bool(drafts) and drafts[-1].strip() == answer
        return f"{why}\nThe answer {'holds' if right else 'is wrong'}.\nChange needed: {'no' if right else 'yes'}"
    stance = _STANCE.findall(text)[-1]
    right = stance == answer or stance.startswith(f"{answer}. ")
    if task == "criticise":
        return f"{why}\nSo {stance} is {'right' if right else 'wrong'}."
    if task == "rebut":
        return f"{why}\n{'I stand by it.' if right else 'I give it up.'}"
    if not right and len(scenes) == 1:
        edits = (edit_for(asked.query, scenes[0], rng) for _ in range(4))
        fitting = [edit.scene for edit in edits if edit and stance.split(".")[0] == asked.gold(edit.scene)]
        why = reason(asked.query, fitting[0]) if fitting else why
    return f"{why}\nSo the answer is {stance}."


def answer_over(asked: Asked, scenes: tuple[Scene, ...]) -> str:
    """The true answer over what is shown, as the benchmark's format wants it."""
    if len(scenes) == 2:
        first, second = (len(scene.named(*asked.query.about[0])) for scene in scenes)
        return "C" if first == second else "A" if first > second else "B"
    answer = asked.gold(scenes[0])
    if answer is None:  # what is seen is none of the options: a letter must be named all the same
        return "A" if asked.form == "choice" else "No" if asked.form == "yes_no" else "none"
    return answer


def reason_over(asked: Asked, scenes: tuple[Scene, ...]) -> str:
    """The reason over one picture, or over each of two."""
    return " ".join(reason(asked.query, scene) for scene in scenes)


def compared(speaker: str, words: str, own: str) -> str:
    """Whether somebody's list fits the own picture: entry by entry, then the totals, then what follows."""
    theirs, mine = _entries(words), _entries(own)
    steps = [f"{entry.rsplit(' ', 1)[1]} {'right' if entry in mine else 'wrong'}" for entry in theirs]
    verdict = "fits" if set(theirs) == set(mine) else "differs"
    return f"{speaker}: {' '.join(steps) or 'none'}, number {len(theirs)} and {len(mine)}, so {speaker} {verdict}."


def ballot(seat: str, said: Mapping[str, str], own: str) -> str:
    """Ratings by the facts: whose list does not fit the own picture, and whose stands apart from most."""
    every = list(said.values())
    rated = []
    for speaker in sorted(said):
        if speaker == seat:
            continue
        words = said[speaker]
        wrong = set(_entries(words)) != set(_entries(own))
        apart = every.count(words) * 2 < len(every)
        numbers = (9 if wrong else 1, 8 if apart else 1, 7 if wrong else 0, 7 if wrong and apart else 2)
        fields = ", ".join(f'"{factor}": {n}' for factor, n in zip(FACTORS, numbers, strict=True))
        rated.append(f'"{speaker}": {{{fields}}}')
    return "{" + ", ".join(rated) + "}"


def _entries(words: str) -> list[str]:
    listed = words.removeprefix("I see ").partition(". Total")[0]
    return [] if listed == "nothing" else listed.split(", ")
