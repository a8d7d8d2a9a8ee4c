"""MMMU: one JSON object, the question's id -> the answer, e.g. ``{"validation_Accounting_1": "D"}``.

Read by main_eval_only.py of github.com/MMMU-Benchmark/MMMU (and by EvalAI): a letter must be the right one exactly; an open answer is
searched for the right one. Ids that are not there are left out of the denominator, so every question must be there. An answer that is
none is the empty text: no letter, and no open answer contains it or is contained in it. (A sentence would not do: an open question whose
answer is ``a`` is right for every text with the word ``a...`` in it.)
"""

from __future__ import annotations

import json
import re

from mug_eval.errors import UserError
from mug_eval.leaderboard.submit.source import Answered, Source, Written

LEADERBOARD = "MMMU"
UPSTREAM = ("MMMU_DEV_VAL",)

UNPARSED = ""

_ID = re.compile(r"validation_\w+_[0-9]+")
_PUBLISHED = 900
"""Questions of the validation split."""


def write(source: Source) -> Written:
    """The file.

    Raises:
        UserError: ids that are not MMMU's, or an answer that is none of the options.
    """
    answers: dict[str, str] = {}
    for one in source.answered:
        name = one.row.get("id", "")
        if not _ID.fullmatch(name):
            raise UserError(
                f"question {one.index}: its id {name!r} is none of MMMU's (validation_Accounting_1): the table needs a column id"
            )
        if name in answers:
            raise UserError(f"question {one.index}: the id {name} is there twice")
        answers[name] = _answer(one)
    notes = [f"{len(source.unparsed)} answers are none and written as the empty text, which is wrong"] if source.unparsed else []
    if len(answers) != _PUBLISHED:
        notes.append(f"{len(answers)} questions, where MMMU's validation split has {_PUBLISHED}")
    return Written({"mmmu_validation.json": (json.dumps(answers, indent=1) + "\n").encode()}, tuple(notes))


def _answer(one: Answered) -> str:
    if one.answer is None:
        return UNPARSED
    options = [name for name, cell in one.row.items() if len(name) == 1 and name.isupper() and cell]
    if options and one.answer not in options:
        raise UserError(f"question {one.index}: the answer {one.answer!r} is none of the options {', '.join(options)}")
    return one.answer
