"""A question as a protocol sees it. No type in this module has a place for the gold answer (validity rule 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mug_eval.chat import ImageRef, Part

AnswerKind = Literal["yes_no", "choice", "open"]


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """What counts as an answer.

    Attributes:
        kind: ``yes_no`` (canonical ``Yes``/``No``), ``choice`` (canonical option letter) or ``open`` (free text).
        options: for ``choice``: (letter, text) in the order shown; letters need not be contiguous.
    """

    kind: AnswerKind
    options: tuple[tuple[str, str], ...] = ()

    @property
    def candidates(self) -> tuple[str, ...]:
        """The canonical answers there are; empty for open questions."""
        if self.kind == "yes_no":
            return ("Yes", "No")
        return tuple(letter for letter, _ in self.options)

    def describe(self, candidate: str) -> str:
        """A candidate in words: ``B. a red bus`` for a choice, else the candidate itself."""
        text = dict(self.options).get(candidate)
        return candidate if text is None else f"{candidate}. {text}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A parsed answer in canonical form: an option letter, ``Yes``/``No``, or the text of an open answer."""

    value: str


@dataclass(frozen=True, slots=True)
class Unparsed:
    """No answer could be read. It is counted and reported, never replaced by a default (validity rule 4)."""

    reason: str


@dataclass(frozen=True, slots=True)
class Altered:
    """The same question over I-: the prompt with one picture replaced by its counterfactual (METHODS 1a).

    Attributes:
        prompt: like ``Question.prompt``, the altered picture in the original's place.
        edit: what is known of the edit (type, target, instruction, ...); for the record, never for a prompt.
    """

    prompt: tuple[Part, ...]
    edit: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """One benchmark row without its answer.

    Attributes:
        benchmark: the benchmark's name, e.g. ``POPE``.
        index: the row's index as text, unique within the benchmark.
        prompt: the loader's own prompt, text and pictures in its order.
        answer_format: what counts as an answer.
        altered: the question over the counterfactual picture, if there is one.
    """

    benchmark: str
    index: str
    prompt: tuple[Part, ...]
    answer_format: AnswerFormat
    altered: Altered | None = None

    @property
    def images(self) -> tuple[ImageRef, ...]:
        """The pictures I+ in prompt order."""
        return tuple(part for part in self.prompt if isinstance(part, ImageRef))
