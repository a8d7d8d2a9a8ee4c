"""POPE: one file a split, a line a question, ``{"question": ..., "answer": "yes" | "no"}``, in the order of the split's questions.

Read by evaluate.py of github.com/AoiDragon/POPE: line i is held against line i of ``coco_pope_<split>.json``; an answer whose first
sentence has one of the words No, no, not is no, and **anything else is yes**. So an answer that is none would count as yes, and a run
with such answers is refused unless the user keeps them knowingly.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from mug_eval.errors import UserError
from mug_eval.leaderboard.submit.source import Answered, Source, Written

LEADERBOARD = "POPE"
UPSTREAM = ("POPE",)
SPLITS = ("random", "popular", "adversarial")

UNPARSED = "Cannot determine the answer"
"""Kept answers that are none; evaluate.py takes it for yes."""

_PUBLISHED = 3000
"""Questions a split of the published set."""

_TEXTS = {"Yes": "yes", "No": "no"}


def write(source: Source, *, questions: Path | None = None, keep_unparsed: bool = False) -> Written:
    """The three files.

    Args:
        source: a run on POPE.
        questions: the folder with POPE's own ``*_pope_<split>.json``, against which the order is checked; None: not checked.
        keep_unparsed: write answers that are none, which evaluate.py takes for yes.

    Raises:
        UserError: answers that are none; another order, or other questions, than POPE's own; splits that are not POPE's.
    """
    unparsed = source.unparsed
    if unparsed and not keep_unparsed:
        raise UserError(
            f"{len(unparsed)} questions have no answer (first: {unparsed[0]}), and POPE's evaluate.py takes everything without a no for "
            "yes: its format has no word for none; --keep-unparsed writes them, to be counted as yes"
        )
    notes = [f"{len(unparsed)} answers are none, and evaluate.py counts them as yes"] if unparsed else []
    by_split: dict[str, list[Answered]] = {split: [] for split in SPLITS}
    for one in source.answered:
        for split in one.row["category"].split(","):
            if split.strip() not in by_split:
                raise UserError(f"question {one.index}: POPE has no split {split.strip()!r} (it has {', '.join(SPLITS)})")
            by_split[split.strip()].append(one)
    files = {}
    for split, rows in by_split.items():
        if not rows:
            raise UserError(f"no question is of the split {split}: POPE has {', '.join(SPLITS)}")
        if len(rows) != _PUBLISHED:
            notes.append(f"{split}: {len(rows)} questions, where POPE has {_PUBLISHED}")
        if questions is not None:
            _check_order(split, rows, questions)
        lines = [_line(one) for one in rows]
        files[f"{source.run.model}_pope_{split}.jsonl"] = "".join(f"{line}\n" for line in lines).encode()
    if questions is None:
        notes.append("the order is the table's: check it with --questions DIR, the folder with POPE's own coco_pope_<split>.json")
    return Written(files, tuple(notes))


def _line(one: Answered) -> str:
    if one.answer is not None and one.answer not in _TEXTS:
        raise UserError(f"question {one.index}: the answer {one.answer!r} is neither Yes nor No")
    answer = UNPARSED if one.answer is None else _TEXTS[one.answer]
    # One line whatever the question holds: json.dumps escapes line ends, and with them what else some readers take for one.
    return json.dumps({"question": one.row["question"], "answer": answer})


def _check_order(split: str, rows: Sequence[Answered], folder: Path) -> None:
    found = sorted(folder.glob(f"*pope_{split}.json")) if folder.is_dir() else []
    if len(found) != 1:
        raise UserError(f"--questions {folder}: {len(found)} files *pope_{split}.json, and one is needed")
    try:
        theirs = [json.loads(line) for line in found[0].read_text(encoding="utf-8").splitlines() if line.strip()]
        pairs = [(str(item["text"]), str(item["label"])) for item in theirs]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{found[0]}: not POPE's questions, a JSON object with text and label a line ({error})") from None
    if len(pairs) != len(rows):
        raise UserError(f"{found[0]} has {len(pairs)} questions, the run {len(rows)} of {split}: another version of POPE")
    for number, (one, (text, label)) in enumerate(zip(rows, pairs, strict=True), 1):
        if (one.row["question"], one.row["answer"].lower()) != (text, label):
            raise UserError(
                f"{found[0]} line {number} asks {text!r} ({label}), the run's {split} question {number} is {one.row['question']!r} "
                f"({one.row['answer'].lower()}): the order differs, and POPE compares line by line"
            )
