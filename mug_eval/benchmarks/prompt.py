"""A row of VLMEvalKit's table as a question: their words and order, the pictures straight from the table."""

from __future__ import annotations

import base64
import binascii
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mug_eval.benchmarks.benchmark import CounterfactualSource
from mug_eval.benchmarks.table import option_letters
from mug_eval.benchmarks.task import Task
from mug_eval.chat import ImageRef, Part
from mug_eval.errors import QuestionError
from mug_eval.images import load_image
from mug_eval.question import Altered, AnswerFormat, Question

_PICTURE = "picture "


@dataclass(frozen=True, slots=True)
class PictureAt:
    """A place in a prompt where one of the row's pictures belongs.

    Attributes:
        position: which of the row's pictures, from 0.
    """

    position: int


def build_prompt(dataset: Any, row: Any) -> tuple[str | PictureAt, ...]:
    """The dataset's own prompt for a row, with places for its pictures.

    ``build_prompt`` is VLMEvalKit's, unmodified. It asks ``dump_image`` for the files of the pictures; here it gets names that say
    which picture is meant and nothing else, so that no file is written (a stale one cannot be read, a row cannot name a path
    outside of the folder, a CMYK picture does not fail as PNG) and no file name can reach a prompt.

    Raises:
        QuestionError: the row's text is missing, or names a picture that it does not have.
    """
    index = str(row["index"])
    if pd.isna(row["question"]) or not str(row["question"]).strip():
        raise QuestionError(f"row {index}: column question is empty")
    view = copy.copy(dataset)
    view.dump_image = lambda line: [f"{_PICTURE}{position}" for position in range(len(picture_cells(line)))]
    try:
        items = view.build_prompt(row)
    except Exception as error:
        # For instance MMMU's "<image 3>" in a row of two pictures: whatever their code raises, this row alone cannot be put.
        raise QuestionError(f"row {index}: VLMEvalKit cannot build its prompt ({type(error).__name__}: {error})") from error
    parts: list[str | PictureAt] = []
    for item in items:
        if item["type"] == "image":
            parts.append(PictureAt(int(item["value"].removeprefix(_PICTURE))))
        elif text := str(item["value"]).replace("\x00", ""):
            parts.append(text)
    return tuple(parts)


def picture_cells(row: Any) -> list[str]:
    """The row's pictures as the table holds them (base64)."""
    cell = row["image"]
    return list(cell) if isinstance(cell, list) else [cell]


def picture_names(row: Any) -> list[str]:
    """The file names that VLMEvalKit gives the row's pictures when it dumps them (vlmeval.dataset.image_base: dump_image)."""
    cells = picture_cells(row)
    if "image_path" in row:
        paths = row["image_path"]
        return [str(path) for path in (paths if isinstance(paths, list) else [paths])]
    if isinstance(row["image"], list):
        return [f"{row['index']}_{position}.png" for position in range(len(cells))]
    return [f"{row['index']}.png"]


def picture_bytes(row: Any) -> list[bytes]:
    """The row's pictures, encoded as whoever made the table encoded them.

    Raises:
        QuestionError: a cell is not base64.
    """
    try:
        return [base64.b64decode(cell) for cell in picture_cells(row)]
    except (binascii.Error, ValueError) as error:
        raise QuestionError(f"row {row['index']}: column image is not base64 ({error})") from error


def answer_format(row: Any, task: Task) -> AnswerFormat:
    """What counts as an answer to a row.

    Raises:
        QuestionError: a multiple-choice row has no options.
    """
    if task.answers == "yes_no":
        return AnswerFormat("yes_no")
    letters = option_letters(row.keys())
    options = tuple((letter, str(row[letter]).strip()) for letter in letters if not pd.isna(row[letter]))
    if options:
        return AnswerFormat("choice", options)
    if task.open_without_options:
        return AnswerFormat("open")
    raise QuestionError(f"row {row['index']}: no options")


def build_question(
    task: Task,
    row: Any,
    prompt: Sequence[str | PictureAt],
    image_size: tuple[int, int] | None,
    counterfactuals: CounterfactualSource | None,
) -> Question:
    """Put the pictures into a prompt. The row's answer stays behind.

    Args:
        task: the benchmark.
        row: the row as the loader holds it.
        prompt: from :func:`build_prompt`.
        image_size: (width, height) in pixels for every picture, or None.
        counterfactuals: where altered pictures come from, or None.

    Raises:
        QuestionError: a picture does not decode.
    """
    index = str(row["index"])
    encoded = picture_bytes(row)
    images: dict[int, ImageRef] = {}
    for position in {part.position for part in prompt if isinstance(part, PictureAt)}:
        try:
            images[position] = load_image(encoded[position], image_size)
        except QuestionError as error:
            raise QuestionError(f"row {index}: picture {position + 1}: {error}") from error
    found = None if counterfactuals is None else counterfactuals.find(index, encoded, picture_names(row))
    altered = None
    # A picture that the text does not mention is not shown, so altering it would make I- the same as I+.
    if found is not None and found.position in images:
        altered = Altered(_fill(prompt, {**images, found.position: found.image}), found.edit)
    return Question(task.name, index, _fill(prompt, images), answer_format(row, task), altered)


def _fill(prompt: Sequence[str | PictureAt], images: Mapping[int, ImageRef]) -> tuple[Part, ...]:
    return tuple(images[part.position] if isinstance(part, PictureAt) else part for part in prompt)
