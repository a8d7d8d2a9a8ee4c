"""``self-refine``: answer, feedback on it, a better answer, until the feedback asks for no change (Madaan et al. 2023)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mug_eval.answers import spoken
from mug_eval.methods.chain_of_thought import chain_prompt
from mug_eval.methods.conversation import answer_line, ask_answer, ask_until_read, record_heard, statements, turn
from mug_eval.methods.method import CallRange, Method, Table, Verdict
from mug_eval.question import Question, Unparsed

CRITIQUE = (
    "Above is a draft answer to the question. Check it against the picture: is each stated detail there, does the reasoning hold, "
    "does the final answer follow? Name what is wrong and how to mend it, in at most 100 words."
)
CRITIQUE_LINE = 'Finish with one line that reads "Change needed: yes" or "Change needed: no".'
REFINE = "Above are a draft answer to the question and feedback on it. Write a better answer that takes up what is right in the feedback."
_CHANGE = re.compile(r"change needed\W{0,6}(yes|no)\b(?!\s*(?:or\b|/|\|))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SelfRefineConfig:
    """Settings of self-refine.

    Attributes:
        turns: most rounds of feedback and refinement.
    """

    turns: int = 4

    def __post_init__(self) -> None:
        if self.turns < 1:
            raise ValueError("turns must be at least 1")


def change_needed(text: str) -> bool | Unparsed:
    """What the feedback's last verdict line says."""
    found = _CHANGE.findall(spoken(text))
    return found[-1].lower() == "yes" if found else Unparsed("no line 'Change needed: yes|no'")


async def play(question: Question, table: Table, config: SelfRefineConfig) -> Verdict:
    """Refine until the feedback asks for no change.

    Feedback whose verdict cannot be read after the reminder has not said "no change", so the answer is refined once more.
    """
    answer_format = question.answer_format
    draft = await ask_answer(table, "solver", chain_prompt(question), answer_format)
    record_heard(table, "answer", "solver", draft)
    ended, refinements = "turns_used", 0
    for turn_number in range(1, config.turns + 1):
        shown = statements([("Draft answer", draft.text)])
        change, replies = await ask_until_read(
            table, "critic", turn(question.prompt, shown, CRITIQUE, CRITIQUE_LINE), change_needed, CRITIQUE_LINE
        )
        feedback = spoken(replies[0]).strip()
        verdict = None if isinstance(change, Unparsed) else change
        table.record("feedback", turn=turn_number, text=feedback, change_needed=verdict, asked_again=len(replies) > 1)
        if verdict is False:
            ended = "no_change"
            break
        shown += "\n\n" + statements([("Feedback", feedback)])
        draft = await ask_answer(table, "solver", turn(question.prompt, shown, REFINE, answer_line(answer_format)), answer_format)
        refinements += 1
        record_heard(table, "answer", "solver", draft)
    return Verdict(draft.answer, draft.raw, ended, {"refinements": refinements})


METHOD = Method(
    "self-refine",
    "answer, feedback, better answer, until no change is asked for",
    SelfRefineConfig,
    play,
    lambda question, config: CallRange(2, 1 + 2 * config.turns),
)
