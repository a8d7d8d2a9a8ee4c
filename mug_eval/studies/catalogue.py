"""Every study there is, as data."""

from __future__ import annotations

from functools import partial

from mug_eval.errors import UserError
from mug_eval.methods import CallRange
from mug_eval.names import unknown
from mug_eval.plan import find_method
from mug_eval.question import Question
from mug_eval.studies.detail_tables import categories, survival, time_per_question
from mug_eval.studies.edit_tables import edit_quality, question_types
from mug_eval.studies.score_tables import score_study
from mug_eval.studies.study import Arm, Study

DIRECT = Arm("direct", "direct")
MUG = Arm("mug", "mug")
_CONTROL = Arm("sc12", "sc12")
"""About what MUG spends: 11 to 26 calls a question, 12 where the undercover is found at once."""

STUDIES = {
    study.name: study
    for study in (
        Study(
            "main-table",
            "every method on every benchmark, with self-consistency at about MUG's calls as the control",
            (
                DIRECT,
                Arm("cot", "cot"),
                Arm("self-refine", "self-refine"),
                Arm("mad-vote", "mad-vote"),
                Arm("mad-judge", "mad-judge"),
                Arm("cfmad", "cfmad"),
                Arm("sc5", "sc5"),
                _CONTROL,
                MUG,
            ),
            partial(score_study, axis="cost"),
            baseline="direct",
        ),
        Study(
            "pope-categories",
            "POPE's random, popular and adversarial objects apart",
            (DIRECT, MUG),
            categories,
            baseline="direct",
            benchmarks=("POPE",),
            accepts="POPE",
        ),
        Study(
            "hallusion-categories",
            "HallusionBench's kinds of figures apart",
            (DIRECT, MUG),
            categories,
            baseline="direct",
            benchmarks=("HallusionBench",),
            accepts="HallusionBench",
        ),
        Study(
            "ablations",
            "MUG without the altered picture, without the undercover, and with pictures that are no clue",
            (
                Arm("full game", "mug"),
                Arm("no-counterfactual", "mug", ablation="no-counterfactual"),
                Arm("no-undercover", "mug", ablation="no-undercover"),
                Arm("identical picture", "mug", ablation="identical"),
                Arm("random edit", "mug", ablation="random-edit"),
            ),
            partial(score_study, axis="arms", drawn={"HallusionBench": "Avg"}),
            baseline="full game",
            benchmarks=("MMStar", "HallusionBench", "MMMU_DEV_VAL"),
        ),
        Study(
            "observation-rounds",
            "0 to 3 rounds of talk before the first vote",
            tuple(
                Arm(f"{count} round{'' if count == 1 else 's'}", "mug", {"observation_rounds": count}, x=count)
                for count in range(4)
            ),
            partial(score_study, axis="x", x_label="observation rounds"),
            baseline="0 rounds",
            benchmarks=("HallusionBench", "MMMU_DEV_VAL", "MMStar"),
        ),
        Study(
            "survival",
            "how long the undercover stays, against lots, with more agents (and so more rounds), and with a picture that is no clue",
            (MUG, Arm("5 agents", "mug", {"agents": 5}), Arm("identical picture", "mug", ablation="identical")),
            survival,
        ),
        Study(
            "time-per-question",
            "seconds, calls and tokens of a question, of whole MUG and of its parts",
            (
                DIRECT,
                Arm("mad-vote", "mad-vote"),
                MUG,
                Arm("mug, no-counterfactual", "mug", ablation="no-counterfactual"),
                Arm("mug, no-undercover", "mug", ablation="no-undercover"),
            ),
            time_per_question,
        ),
        Study("question-types", "which kinds of question there are, and where MUG helps", (DIRECT, MUG), question_types),
        Study(
            "agents",
            "3 to 6 agents, against the single answer",
            (DIRECT, *(Arm(f"{count} agents", "mug", {"agents": count}, x=count) for count in range(3, 7))),
            partial(score_study, axis="x", x_label="agents"),
            baseline="direct",
            source="ours",
        ),
        Study(
            "undercover-choice",
            "the undercover drawn at random, or the agent least sure of its first answer",
            (DIRECT, Arm("random", "mug"), Arm("most uncertain", "mug", {"undercover": "most_uncertain"})),
            partial(score_study, axis="cost"),
            baseline="random",
            source="ours",
        ),
        Study(
            "adaptive",
            "MUG that stops when nobody is suspected, and MUG that plays only where sampled answers differ",
            (
                DIRECT,
                Arm("sc5", "sc5"),
                _CONTROL,
                Arm("always, to the end", "mug"),
                Arm("stop below 3", "mug", {"adaptive_stop": 3.0}),
                Arm("stop below 5", "mug", {"adaptive_stop": 5.0}),
                Arm("gate of 3 chains", "mug", {"gate": 3}),
                Arm("gate of 3, stop below 5", "mug", {"gate": 3, "adaptive_stop": 5.0}),
            ),
            partial(score_study, axis="cost"),
            baseline="always, to the end",
            source="ours",
        ),
        Study(
            "cfmad",
            "CFMAD with 0 to 3 rounds of critique, for all candidate answers or two",
            (
                DIRECT,
                *(
                    Arm(
                        f"{stances} stances, {count} round{'' if count == 1 else 's'}",
                        "cfmad",
                        {"stances": stances, "rounds": count},
                    )
                    for stances in ("all", "top2")
                    for count in range(4)
                ),
            ),
            partial(score_study, axis="cost"),
            baseline="direct",
            source="ours",
        ),
        Study(
            "edit-quality",
            "whether better edits (by the scores of their store) have more effect",
            (DIRECT, MUG),
            edit_quality,
            source="ours",
        ),
    )
}


def find_study(name: str) -> Study:
    """The study of that name.

    Raises:
        UserError: there is none; says the nearest.
    """
    if name not in STUDIES:
        raise UserError(unknown("study", name, STUDIES))
    return STUDIES[name]


def calls_of(study: Study, question: Question) -> CallRange:
    """Calls that all arms of a study take together for one such question, when every reply parses at first."""
    counts = []
    for arm in study.arms:
        method, fixed = find_method(arm.method)
        config = method.config(**{**fixed, **arm.configuration})
        counts.append(method.calls(question, config))
    return CallRange(sum(count.least for count in counts), sum(count.most for count in counts))
