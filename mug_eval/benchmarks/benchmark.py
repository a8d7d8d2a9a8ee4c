"""What the rest of the house knows of a benchmark, whoever loads and scores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mug_eval.chat import ImageRef, Json
from mug_eval.question import Answer, Question, Unparsed


@dataclass(frozen=True, slots=True)
class Scores:
    """What the scorer said.

    Attributes:
        scorer: the scorer's output whole, as JSON: ``{"rows": [...]}`` for a table, in an order that does not depend on the
            process; NaN is null.
        headline: the benchmark's results by name, in percent.
        extra: ``categories`` (name -> numbers by name, in percent, null where the scorer had nothing to count), ``judge``,
            ``n_scored``, and for benchmarks that count a row several times ``n_unique`` and ``n_exploded``.
        right: row index -> whether the scorer took its answer for right, for every row that it scored.
    """

    scorer: Json
    headline: dict[str, float]
    extra: dict[str, Any] = field(default_factory=dict)
    right: dict[str, bool] = field(default_factory=dict)


class FoundCounterfactual(Protocol):
    """An altered picture for one of a question's pictures."""

    @property
    def image(self) -> ImageRef:
        """The altered picture."""
        ...

    @property
    def position(self) -> int:
        """Which of the row's pictures it replaces, from 0."""
        ...

    @property
    def edit(self) -> tuple[tuple[str, str], ...]:
        """What is known of the edit, for the record only."""
        ...


class CounterfactualSource(Protocol):
    """Where altered pictures come from."""

    def find(self, index: str, pictures: Sequence[bytes], names: Sequence[str]) -> FoundCounterfactual | None:
        """The altered picture for a question, or None.

        Args:
            index: the row's index.
            pictures: the row's pictures, the bytes of the TSV.
            names: the file names that VLMEvalKit gives these pictures.
        """
        ...


class Benchmark(Protocol):
    """An opened benchmark: questions out, predictions in, scores out."""

    @property
    def name(self) -> str:
        """As in ``--data <name>``."""
        ...

    @property
    def sha256(self) -> str:
        """Hex digest of the TSV's bytes."""
        ...

    @property
    def indices(self) -> tuple[str, ...]:
        """The rows to be played, in the dataset's order; limit and split applied."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What was repaired or dropped while loading, one line each."""
        ...

    def question(self, index: str) -> Question:
        """One row as a question; decodes its pictures. Safe to call from several threads.

        Raises:
            QuestionError: this row cannot be put (its picture does not decode, say).
        """
        ...

    def pictures(self, index: str) -> tuple[tuple[int, bytes], ...]:
        """The pictures of ``question(index).images`` as the TSV holds them: (which of the row's pictures, from 0; its bytes).

        Raises:
            QuestionError: as ``question``.
        """
        ...

    def prediction(self, index: str, answer: Answer | Unparsed) -> str:
        """The text that the scorer will read for an answer."""
        ...

    def write_predictions(self, path: Path, predictions: Mapping[str, str]) -> None:
        """Write the exchange TSV in the dataset's order, atomically.

        Args:
            path: the file to write.
            predictions: index -> text; rows without one are left out.

        Raises:
            RunStopped: the disk is full or the folder cannot be written.
        """
        ...

    def score(self, predictions_file: Path, judge: str) -> Scores:
        """Score an exchange TSV with the benchmark's own scorer, from scratch.

        Raises:
            UserError: the judge cannot be reached, or the scorer fails on the file.
            RunStopped: the disk is full.
        """
        ...

    def cluster(self, index: str) -> str:
        """The row's cluster for statistics: questions of one cluster are not independent."""
        ...
