"""The published formats, one reader each: a record -> rows.

What scoring needs (a name, an answer) must be there, or the file is refused: a row without its answer cannot be counted, and to count
the others would be another benchmark. What only the question needs is the question's own fault: it is owed, the others are played.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from mug_eval.benchmarks.task import Task
from mug_eval.errors import UserError
from mug_eval.names import unknown
from mug_eval.text_benchmarks import prompts
from mug_eval.text_benchmarks.f1 import LEAST_AGREEMENT, NO_ANSWER, agreement, references_of
from mug_eval.text_benchmarks.records import Records
from mug_eval.text_benchmarks.rows import FieldError, TextRow, clean, index_at, kind, list_at, text_at, value_at

Options = tuple[tuple[str, str], ...]

TRUE_OR_FALSE: Options = (("A", "True"), ("B", "False"))
VERDICTS: Options = (*TRUE_OR_FALSE, ("C", "Not enough information"))

_HOVER = {"SUPPORTED": "A", "NOT_SUPPORTED": "B"}
_FEVER = {"SUPPORTS": "A", "REFUTES": "B", "NOT ENOUGH INFO": "C"}
_SHOWN = 3


def read_rows(task: Task, records: Records) -> tuple[list[TextRow], tuple[str, ...]]:
    """All rows that are played, and notes on what was left out or can never be right.

    Raises:
        UserError: a record is not in the task's format, or two rows have one name; says where.
    """
    assert task.text is not None
    reader = _READERS.get(task.text.format)
    if reader is None:
        raise UserError(f"tasks/{task.name}.yaml: {unknown('text.format', task.text.format, _READERS)}")
    found: dict[str, tuple[str, TextRow]] = {}
    repeated = 0
    for number, (where, record) in enumerate(records.records):
        try:
            for row in reader(record, number):
                before = found.get(row.index)
                if before is None:
                    found[row.index] = where, row
                elif records.merged and before[1] == row:
                    repeated += 1
                else:
                    raise FieldError(f"the row has the name {row.index!r}, which {before[0]} has too")
        except FieldError as error:
            raise UserError(f"{records.named} {where}: {error}; {task.name} takes the format of {task.text.file}") from error
    rows = [row for _, row in found.values()]
    notes = [] if len(rows) == task.rows else [f"{len(rows)} rows, where the published {task.text.file} has {task.rows}"]
    if repeated:
        notes.append(f"{repeated} rows say what another says and are left out")
    if task.answers == "open":
        agreed = [row for row in rows if agreement(row.gold) >= LEAST_AGREEMENT]
        if len(agreed) < len(rows):
            notes.append(
                f"{len(rows) - len(agreed)} rows on which annotators disagree (F1 under {LEAST_AGREEMENT}) do not count, as in QuAC"
            )
        if not agreed:
            raise UserError(f"{records.named}: annotators disagree on every row, so that none counts")
        rows = agreed
    hopeless = [row.index for row in rows if row.options and not row.fault and row.gold[0] not in dict(row.options)]
    if hopeless:
        shown = ", ".join(hopeless[:_SHOWN]) + (", ..." if len(hopeless) > _SHOWN else "")
        notes.append(f"{len(hopeless)} row(s) have an answer that is none of the options and are always scored wrong: {shown}")
    return rows, tuple(notes)


def _commonsense_qa(record: Any, number: int) -> Iterator[TextRow]:
    index, gold = index_at(record, "id"), text_at(record, "answerKey")
    # A file may leave the concept out: then nothing is known to depend on the row.
    told = record.get("question") if isinstance(record, dict) else None
    concept = told.get("question_concept") if isinstance(told, dict) else None
    keys = {"concept": concept.strip().lower() if isinstance(concept, str) and concept.strip() else f"row {index}"}

    def build() -> tuple[str, Options]:
        options = _labelled(list_at(record, "question.choices"))
        return prompts.knowledge(text_at(record, "question.stem"), options), options

    yield _row(index, (gold,), keys, build)


def _boolq(record: Any, number: int) -> Iterator[TextRow]:
    answer = value_at(record, "answer")
    if not isinstance(answer, bool):
        raise FieldError(f"field answer is {kind(answer)}, not true or false")

    def build() -> tuple[str, Options]:
        return prompts.reading(text_at(record, "passage"), text_at(record, "question"), TRUE_OR_FALSE), TRUE_OR_FALSE

    yield _row(str(number), ("A" if answer else "B",), {"passage": _key(record, "passage")}, build)


def _cosmos_qa(record: Any, number: int) -> Iterator[TextRow]:
    index, label = index_at(record, "id"), value_at(record, "label")
    spelled = label.strip() if isinstance(label, str) else str(label)  # a CSV file holds texts only
    if isinstance(label, bool) or spelled not in ("0", "1", "2", "3"):
        raise FieldError("field label must be 0, 1, 2 or 3 (the published test file has none)")

    def build() -> tuple[str, Options]:
        options = tuple((letter, text_at(record, f"answer{place}")) for place, letter in enumerate("ABCD"))
        return prompts.story(text_at(record, "context"), text_at(record, "question"), options), options

    yield _row(index, ("ABCD"[int(spelled)],), {"passage": _key(record, "context")}, build)


def _hover(record: Any, number: int) -> Iterator[TextRow]:
    index, gold = index_at(record, "uid"), _named(record, "label", _HOVER)
    hops = record.get("num_hops")
    category = f"{hops} hops" if isinstance(hops, int) and not isinstance(hops, bool) else ""
    yield _claim(record, index, gold, TRUE_OR_FALSE, category)


def _fever(record: Any, number: int) -> Iterator[TextRow]:
    yield _claim(record, index_at(record, "id"), _named(record, "label", _FEVER), VERDICTS)


def _claim(record: Any, index: str, gold: str, options: Options, category: str = "") -> TextRow:
    def build() -> tuple[str, Options]:
        return prompts.claim(text_at(record, "claim"), options), options

    return _row(index, (gold,), {"claim": _key(record, "claim")}, build, category)


def _quac(record: Any, number: int) -> Iterator[TextRow]:
    """A file is one object with ``data``; an article of it may stand alone."""
    articles = list_at(record, "data") if isinstance(record, dict) and "data" in record else [record]
    for article in articles:
        for paragraph in list_at(article, "paragraphs"):
            earlier: list[str] = []
            for asked in list_at(paragraph, "qas"):
                yield _turn(article, paragraph, asked, tuple(earlier))
                words = asked.get("question")
                earlier.append(clean(words) if isinstance(words, str) else "(unreadable)")


def _turn(article: Any, paragraph: Any, asked: Any, earlier: Sequence[str]) -> TextRow:
    index = index_at(asked, "id")
    answers = [text_at(answer, "text") for answer in list_at(asked, "answers")]
    if not answers:
        raise FieldError(f"question {index} has no answers")
    dialogue = index_at(paragraph, "id") if "id" in paragraph else index.rpartition("_q#")[0] or _key(paragraph, "context")

    def build() -> tuple[str, Options]:
        section = text_at(paragraph, "context").removesuffix(NO_ANSWER).rstrip()
        headings = [text_at(article, name, may_be_empty=True) for name in ("title", "section_title") if name in article]
        background = text_at(article, "background", may_be_empty=True) if "background" in article else ""
        return prompts.conversation(headings, background, section, earlier, text_at(asked, "question")), ()

    return _row(index, references_of(answers), {"dialogue": dialogue}, build)


def _row(
    index: str, gold: tuple[str, ...], keys: Mapping[str, str], build: Callable[[], tuple[str, Options]], category: str = ""
) -> TextRow:
    """A row whose question is built here; one that cannot be built keeps its place, and says why it is owed."""
    try:
        prompt, options = build()
    except FieldError as error:
        return TextRow(index, "", (), gold, keys, category, str(error))
    return TextRow(index, prompt, options, gold, keys, category)


def _labelled(choices: Iterable[Any]) -> Options:
    """Options with their own labels, in their own order.

    Raises:
        FieldError: none, too many for letters, or one that has no text, no letter, or another's letter.
    """
    options = tuple((text_at(choice, "label"), text_at(choice, "text")) for choice in choices)
    if not options:
        raise FieldError("no options")
    if len(options) > len(string.ascii_uppercase):
        raise FieldError(f"{len(options)} options, and there are {len(string.ascii_uppercase)} letters")
    letters = [letter for letter, _ in options]
    for letter in letters:
        if letter not in tuple(string.ascii_uppercase):
            raise FieldError(f"option label {letter[:20]!r} is no letter A to Z")
        if letters.count(letter) > 1:
            raise FieldError(f"two options have the label {letter}")
    return options


def _named(record: Any, path: str, names: Mapping[str, str]) -> str:
    label = value_at(record, path)
    if not isinstance(label, str) or label not in names:
        shown = repr(label[:40]) if isinstance(label, str) else kind(label)
        raise FieldError(f"field {path} is {shown}, not one of {', '.join(names)}")
    return names[label]


def _key(record: Any, path: str) -> str:
    """What rows over the same text have in common; of a row without one, which is owed, the text is empty."""
    text = record.get(path)
    words = " ".join(text.split()) if isinstance(text, str) else ""
    return hashlib.sha256(words.encode("utf-8", errors="replace")).hexdigest()[:16]


_READERS: Mapping[str, Callable[[Any, int], Iterator[TextRow]]] = {
    "commonsense_qa": _commonsense_qa,
    "boolq": _boolq,
    "cosmos_qa": _cosmos_qa,
    "hover": _hover,
    "fever": _fever,
    "quac": _quac,
}
