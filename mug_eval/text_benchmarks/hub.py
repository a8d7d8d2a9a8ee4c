"""The rows that the Hugging Face hub has, brought into the form of the published files. Needs the library ``datasets``."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from mug_eval.benchmarks.task import Task
from mug_eval.errors import UserError
from mug_eval.text_benchmarks.records import Records

Record = dict[str, Any]


def load_records(task: Task) -> Records:
    """Load a task's published rows, labels by their names.

    Raises:
        UserError: ``datasets`` is not installed, the hub cannot be reached, or its rows have another form than is known here.
    """
    assert task.text is not None
    source = task.text
    instead = f"give the published file with --data-file {task.name}={source.file}"
    try:
        import datasets  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise UserError(f"{task.name}: rows from the hub need the library datasets (pip install datasets), or {instead}") from error
    try:
        with _quiet(datasets):
            rows = datasets.load_dataset(source.hub, source.config, split=source.split, revision=source.revision)
            labels = {name: feature.int2str for name, feature in rows.features.items() if hasattr(feature, "int2str")}
            plain = [_named(dict(row), labels) for row in rows]
    except Exception as error:  # of whatever library it goes through; their messages hold addresses and folders of this machine
        raise UserError(
            f"{task.name}: {source.hub} could not be loaded from the hub ({type(error).__name__}); {instead}"
        ) from error
    try:
        found = tuple((f"hub row {number}", _PUBLISHED[source.format](row)) for number, row in enumerate(plain))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise UserError(f"{task.name}: the rows of {source.hub} have another form than is known here; {instead}") from error
    digest = hashlib.sha256()
    for _, record in found:
        digest.update(json.dumps(record, sort_keys=True, ensure_ascii=True).encode() + b"\n")
    return Records(f"{source.hub} ({source.split})", digest.hexdigest(), found, merged=True)


def _named(row: Record, labels: dict[str, Callable[[int], str]]) -> Record:
    """A class by its name; -1, the hub's word for a row without one, as null."""
    return row | {name: None if row[name] in (None, -1) else names(row[name]) for name, names in labels.items()}


@contextlib.contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Keep bars and retries' warnings off the terminal: what matters is said in one line."""
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    datasets.logging.set_verbosity(logging.CRITICAL)
    datasets.disable_progress_bars()
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def _as_it_is(row: Record) -> Record:
    return row


def _commonsense_qa(row: Record) -> Record:
    choices = row["choices"]
    return {
        "id": row["id"],
        "answerKey": row["answerKey"],
        "question": {
            "stem": row["question"],
            "question_concept": row["question_concept"],
            "choices": [{"label": label, "text": text} for label, text in zip(choices["label"], choices["text"], strict=True)],
        },
    }


def _quac(row: Record) -> Record:
    turns = zip(row["turn_ids"], row["questions"], row["answers"]["texts"], strict=True)
    questions = [{"id": turn, "question": asked, "answers": [{"text": text} for text in texts]} for turn, asked, texts in turns]
    return {
        "title": row["wikipedia_page_title"],
        "section_title": row["section_title"],
        "background": row["background"],
        "paragraphs": [{"id": row["dialogue_id"], "context": row["context"], "qas": questions}],
    }


_PUBLISHED: dict[str, Callable[[Record], Record]] = {
    "commonsense_qa": _commonsense_qa,
    "boolq": _as_it_is,
    "cosmos_qa": _as_it_is,
    "hover": _as_it_is,
    "fever": _as_it_is,
    "quac": _quac,
}
