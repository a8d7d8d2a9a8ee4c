"""HallusionBench: the authors' list of questions, each with our ``model_prediction``.

Read by evaluation.py of github.com/tianyi-lab/HallusionBench: a language model compares ``model_prediction`` (a text) with
``gt_answer_details`` and says correct, incorrect or unclear; results are grouped by category, subcategory, set_id, figure_id and
question_id, each of which may be there once. What is unclear counts as wrong where there is a picture, which is what an answer that is
none should be. It counts as right where there is none (VS questions without a figure): these are not in VLMEvalKit's table, so they
were not played, and nothing is written for them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mug_eval.errors import UserError
from mug_eval.leaderboard.submit.source import Answered, Source, Written

LEADERBOARD = "HallusionBench"
UPSTREAM = ("HallusionBench",)

UNPARSED = "Cannot determine the answer"
"""Judged unclear, and so counted as wrong."""

KEY = ("category", "subcategory", "visual_input", "set_id", "figure_id", "question_id")
"""The parts of a row's index, in its order; together they name a question in the authors' file."""

_GOLD = {"Yes": "1", "No": "0"}
_MOST_BYTES = 1 << 26


def write(source: Source, *, questions: Path | None = None, rehearsal: bool = False) -> Written:
    """The file.

    Args:
        source: a run on HallusionBench.
        questions: the authors' HallusionBench.json, which holds what the table lacks.
        rehearsal: whether the file may be made without it.

    Raises:
        UserError: no such file, or other questions than the run's.
    """
    ours: dict[tuple[str, ...], Answered] = {}
    for one in source.answered:
        key = tuple(one.index.split("_"))
        if len(key) != len(KEY):
            raise UserError(f"question {one.index}: its index does not have the {len(KEY)} parts {'_'.join(KEY)}")
        ours[key] = one
    notes = [f"{len(source.unparsed)} answers are none, to be judged unclear and counted as wrong"] if source.unparsed else []
    if questions is None:
        if not rehearsal:
            raise UserError(
                "give --questions HallusionBench.json of github.com/tianyi-lab/HallusionBench: its evaluation.py reads "
                "gt_answer_details of every question, which VLMEvalKit's table does not have"
            )
        notes.append("without --questions there is no gt_answer_details, which evaluation.py needs")
        records = [
            {**dict(zip(KEY, key, strict=True)), "question": one.row["question"], "gt_answer": _GOLD[one.row["answer"]]}
            for key, one in ours.items()
        ]
    else:
        records = _theirs(questions, ours, notes)
    for record in records:
        record["model_prediction"] = _prediction(ours[_key(record)])
    return Written({"HallusionBench_result.json": (json.dumps(records, indent=1) + "\n").encode()}, tuple(notes))


def _theirs(path: Path, ours: Mapping[tuple[str, ...], Answered], notes: list[str]) -> list[dict[str, Any]]:
    """The authors' records of the questions that were played, in their order."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"--questions {path}: larger than 64 MiB, surely not HallusionBench.json")
        records = json.loads(path.read_text(encoding="utf-8"))
        keys = [_key(record) for record in records]
        if any(not isinstance(record["question"], str) or not isinstance(record["gt_answer_details"], str) for record in records):
            raise ValueError("a question or its gt_answer_details is no text")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise UserError(f"--questions {path}: not HallusionBench.json ({said})") from None
    if len(set(keys)) != len(keys):
        raise UserError(f"--questions {path}: a question is there twice")
    for key, one in ours.items():
        if key not in keys:
            raise UserError(f"--questions {path} has no question {one.index}: another version of HallusionBench")
    found, without, reworded = [], 0, 0
    for key, record in zip(keys, records, strict=True):
        if key not in ours:
            if str(record["visual_input"]) != "0":
                raise UserError(f"the run has no answer to {'_'.join(key)} of {path}: another version of HallusionBench")
            without += 1
            continue
        one = ours[key]
        if str(record.get("gt_answer")) != _GOLD[one.row["answer"]]:
            raise UserError(f"question {one.index}: {path} has the answer {record.get('gt_answer')}, the table {one.row['answer']}")
        reworded += record["question"].split() != one.row["question"].split()
        found.append(dict(record))
    if without:
        notes.append(
            f"{without} questions without a picture were not played and are left out; evaluation.py wants them too, for what it says "
            "of question pairs: answer them with the backbone alone and add them"
        )
    if reworded:
        notes.append(f"{reworded} questions are worded otherwise in {path.name} than in the table that was played")
    return found


def _key(record: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(record[name]) for name in KEY)


def _prediction(one: Answered) -> str:
    if one.answer is None:
        return UNPARSED
    if one.answer not in _GOLD:
        raise UserError(f"question {one.index}: the answer {one.answer!r} is neither Yes nor No")
    return one.answer
