"""POPE: one file a split, a line a question, ``{"question": ..., "answer": "yes" | "no"}``, in the order of the split's questions.

Read by evaluate.py of github.com/AoiDragon/POPE: line i is held against line i of ``coco_pope_<split>.json``; an answer whose first
sentence has one of the words No, no, not is no, and **anything else is yes**. So an answer that is none would count as yes, and a run
with such answers is refused unless the user keeps them knowingly.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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

_Asked = tuple[str, str, str]
"""Split, question, label; or a picture's name in the place of the split."""


def write(source: Source, *, questions: Path | None = None, keep_unparsed: bool = False) -> Written:
    """The three files.

    Args:
        source: a run on POPE.
        questions: the folder with POPE's own ``*_pope_<split>.json``, whose order is taken; None: the table's.
        keep_unparsed: write answers that are none, which evaluate.py takes for yes.

    Raises:
        UserError: answers that are none; other questions than POPE's own; splits that are not POPE's.
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
    for split, rows in by_split.items():
        if not rows:
            raise UserError(f"no question is of the split {split}: POPE has {', '.join(SPLITS)}")
    if questions is None:
        notes.append(
            "the order is the table's: give --questions DIR, the folder with POPE's own coco_pope_<split>.json, for POPE's"
        )
    else:
        by_split = _in_their_order(source, by_split, questions)
    files = {}
    for split, rows in by_split.items():
        if len(rows) != _PUBLISHED:
            notes.append(f"{split}: {len(rows)} questions, where POPE has {_PUBLISHED}")
        lines = [_line(one) for one in rows]
        files[f"{source.run.model}_pope_{split}.jsonl"] = "".join(f"{line}\n" for line in lines).encode()
    return Written(files, tuple(notes))


def _line(one: Answered) -> str:
    if one.answer is not None and one.answer not in _TEXTS:
        raise UserError(f"question {one.index}: the answer {one.answer!r} is neither Yes nor No")
    answer = UNPARSED if one.answer is None else _TEXTS[one.answer]
    # One line whatever the question holds: json.dumps escapes line ends, and with them what else some readers take for one.
    return json.dumps({"question": one.row["question"], "answer": answer})


def _in_their_order(source: Source, by_split: Mapping[str, Sequence[Answered]], folder: Path) -> dict[str, list[Answered]]:
    """The answers in the order of POPE's own files.

    The table has pictures where POPE has their names, so a picture is known by all that is asked of it: no two of POPE's 500 share that.
    """
    theirs = {split: _questions(folder, split) for split in SPLITS}
    asked: dict[str, set[_Asked]] = {}
    for split, lines in theirs.items():
        for image, text, label in lines:
            asked.setdefault(image, set()).add((split, text, label))
    ours: dict[str, set[_Asked]] = {}
    found: dict[tuple[str, str], Answered] = {}
    for split, rows in by_split.items():
        if len(rows) != len(theirs[split]):
            raise UserError(
                f"--questions {folder} has {len(theirs[split])} questions of {split}, the run {len(rows)}: another POPE"
            )
        for one in rows:
            picture, text = source.run.clusters[one.index], one.row["question"]
            ours.setdefault(picture, set()).add((split, text, one.row["answer"].lower()))
            found[picture, text] = one
    pictures = {frozenset(questions): picture for picture, questions in ours.items()}
    if len(pictures) != len(ours):
        raise UserError(
            "two pictures of the table are asked the same questions, so POPE's order cannot be told; leave out --questions"
        )
    ordered: dict[str, list[Answered]] = {}
    for split, lines in theirs.items():
        ordered[split] = []
        for number, (image, text, label) in enumerate(lines, 1):
            picture_of = pictures.get(frozenset(asked[image]))
            if picture_of is None:
                raise UserError(
                    f"--questions {folder}, {split} line {number}: no picture of the run is asked what {image} is ({text!r}, {label}, "
                    "and the others): another version of POPE"
                )
            ordered[split].append(found[picture_of, text])
    return ordered


def _questions(folder: Path, split: str) -> list[_Asked]:
    """(picture, question, label) of every line of POPE's own file of a split."""
    found = sorted(folder.glob(f"*pope_{split}.json")) if folder.is_dir() else []
    if len(found) != 1:
        raise UserError(f"--questions {folder}: {len(found)} files *pope_{split}.json, and one is needed")
    try:
        lines = [json.loads(line) for line in found[0].read_text(encoding="utf-8").split("\n") if line.strip()]
        return [(str(line["image"]), str(line["text"]), str(line["label"])) for line in lines]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{found[0]}: not POPE's questions, an object with image, text and label a line ({error})") from None
