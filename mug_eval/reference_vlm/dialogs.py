"""Training dialogs: real games played with the oracle, and from each a few calls to learn from."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from mug_eval.chat import ImageRef, Part
from mug_eval.methods import cfmad, chain_of_thought, debate, direct, mad_judge, mad_vote, mug, self_refine
from mug_eval.methods.conversation import turn
from mug_eval.question import Altered, AnswerFormat, Question
from mug_eval.reference_vlm.oracle import Call, OracleTable, misread
from mug_eval.reference_vlm.planning import planning_calls
from mug_eval.reference_vlm.questions import (
    KINDS,
    Asked,
    Query,
    ask_choice,
    ask_open,
    ask_yes_no,
    draw_query,
    edit_for,
    plural,
    reason,
)
from mug_eval.reference_vlm.scenes import SHAPES, Scene, draw_scene

LETTERS = "ABCD"
_loop: asyncio.AbstractEventLoop | None = None  # kept: making a loop for each of a training's games takes as long as playing them
NO_MORE = ("the first image", "the second image", "both have the same number")


def run_now(game: Coroutine[Any, Any, Any]) -> None:
    """Play a game whose table never waits for anything."""
    global _loop
    if _loop is None or _loop.is_closed():
        _loop = asyncio.new_event_loop()
    _loop.run_until_complete(game)


def picture(key: str) -> ImageRef:
    """A stand-in for a picture, known by a key; the scene behind it is drawn when the dialog is learnt."""
    return ImageRef(key, "image/png", 168, 168, b"")


def choice_text(question: str, options: tuple[str, ...]) -> str:
    """A question in VLMEvalKit's own multiple-choice layout; without options, as its open questions."""
    lines = [f"Question: {question}\n"]
    if options:
        lines.append("Options:\n")
        lines.extend(f"{letter}. {option}\n" for letter, option in zip(LETTERS, options, strict=False))
        lines.append("Please select the correct answer from the options above. \n")
    return "".join(lines)


def question_of(asked: Asked, altered: bool) -> Question:
    """The question as a benchmark would hand it to a method; pictures are ``true`` and ``altered``."""
    text = asked.text if asked.form == "yes_no" else choice_text(asked.text, asked.options)
    options = tuple(zip(LETTERS, asked.options, strict=False))
    answer_format = AnswerFormat(asked.form, options)
    prompts: list[tuple[Part, ...]] = [(picture(key), text) for key in ("true", "altered")]
    return Question("scenes", "0", prompts[0], answer_format, Altered(prompts[1]) if altered else None)


def put(query: Query, scene: Scene, rng: random.Random, edited: Scene | None = None) -> Asked:
    """A query in one of the forms that it can take."""
    forms = ["yes_no", "choice"] + (["open"] if query.aspect not in ("exists", "side") else [])
    form = rng.choice(forms)
    if form == "open":
        return ask_open(query)
    return ask_choice(query, scene, rng, edited) if form == "choice" else ask_yes_no(query, scene, rng)


def short_questions(scene: Scene, rng: random.Random, count: int) -> list[Call]:
    """Questions about one picture, put and answered directly."""
    calls: list[Call] = []
    for _ in range(count):
        query = draw_query(rng.choice(KINDS), scene, rng)
        if query is None:
            continue
        asked = put(query, scene, rng)
        table = OracleTable(asked, {"true": (scene,)}, rng, 0.0)
        run_now(direct.METHOD.play(question_of(asked, False), table, direct.DirectConfig()))
        calls.append(table.calls[0])
    return calls


def described_questions(scene: Scene, rng: random.Random, count: int) -> list[Call]:
    """Questions about one picture, answered after a description: chains of thought, first turns of debates and games."""
    calls: list[Call] = []
    for _ in range(count):
        query = draw_query(rng.choice((*KINDS, "spatial", "quantity", "quantity")), scene, rng)
        if query is None:
            continue
        asked = put(query, scene, rng)
        table = OracleTable(asked, {"true": (scene,)}, rng, 0.0)
        question = question_of(asked, False)
        method = rng.choices(("cot", "mug", "vote", "judge"), weights=(4, 4, 2, 2))[0]
        if method == "cot":
            run_now(chain_of_thought.METHOD.play(question, table, chain_of_thought.ChainOfThoughtConfig()))
        elif method == "mug":
            config = mug.MugConfig(no_undercover=True, observation_rounds=1, summary_rounds=1)
            run_now(mug.METHOD.play(question, table, config))
        elif method == "vote":
            run_now(mad_vote.METHOD.play(question, table, debate.DebateConfig(agents=rng.choice((3, 3, 4)))))
        else:
            run_now(mad_judge.METHOD.play(question, table, mad_judge.MadJudgeConfig(agents=rng.choice((3, 3, 4)))))
        calls.append(rng.choice([call for call in table.calls if call.task == "describe"]))
    return calls


def concluded_questions(scene: Scene, rng: random.Random, count: int) -> list[Call]:
    """The last step alone: the reason is given, the answer is to be said, mostly the letter of an option.

    To find a value among the options and to name the letter before it is learnt late, and soon when there is much of it.
    """
    calls: list[Call] = []
    for _ in range(count):
        query = draw_query(rng.choice(KINDS), scene, rng)
        if query is None:
            continue
        asked = ask_choice(query, scene, rng) if rng.random() < 0.75 else put(query, scene, rng)
        answer = asked.gold(scene)
        if answer is not None:
            messages = turn(question_of(asked, False).prompt)
            calls.append(Call("solver", "conclude", messages, (scene,), f"{reason(query, scene)}\nAnswer: {answer}"))
    return calls


def drilled_questions(scene: Scene, rng: random.Random, count: int) -> list[Call]:
    """A description and then the reasons of many questions, one a line: looking things up in a list, many times a picture.

    Each reason names what it is about, so no question is needed; what does follow from a question only (``so yes``) is left out.
    """
    kinds = rng.choices(KINDS, weights=(3, 8, 1, 3, 1), k=count)  # counts are learnt last
    queries = filter(None, (draw_query(kind, scene, rng) for kind in kinds))
    reasons = dict.fromkeys(_without_question(query, scene) for query in queries)
    messages = turn((picture("true"), "Look everything up."))
    return [Call("solver", "drill", messages, (scene,), "\n".join([scene.listed(), *reasons]))]


def _without_question(query: Query, scene: Scene) -> str:
    why = reason(query, scene)
    return why.partition(", so")[0] + "." if query.kind == "spatial" else why


def planned_questions(scene: Scene, rng: random.Random, count: int) -> list[Call]:
    """Calls of a planner that is to edit the picture of a question: its type, what the picture holds, the edit."""
    calls: list[Call] = []
    for _ in range(count):
        query = draw_query(rng.choice(KINDS), scene, rng)
        if query is not None:
            asked = put(query, scene, rng)
            calls += planning_calls(question_of(asked, False), asked, scene, rng)
    return calls


def game_calls(scene: Scene, rng: random.Random, most: int, mistakes: float = 0.1) -> list[Call]:
    """Calls of one game about a picture and its edited twin, all of them over one of the two.

    Args:
        scene: the picture.
        rng: of every choice.
        most: calls to return.
        mistakes: how often a speaker misreads its picture.
    """
    kinds = list(KINDS)
    rng.shuffle(kinds)
    for kind in kinds:
        query = draw_query(kind, scene, rng)
        edit = None if query is None else edit_for(query, scene, rng)
        if query is not None and edit is not None:
            break
    else:
        return []
    asked = put(query, scene, rng, edit.scene)
    altered = edit.scene if rng.random() < 0.5 else more_edits(edit.scene, asked, rng)
    table = OracleTable(asked, {"true": (scene,), "altered": (altered,)}, rng, mistakes)
    question = question_of(asked, True)
    method = rng.choices(("mug", "vote", "judge", "cfmad", "refine"), weights=(10, 3, 3, 4, 2))[0]
    agents = rng.choices((3, 4, 5), weights=(8, 1, 1))[0]
    if method == "mug":
        rounds = rng.choices((0, 1), weights=(1, 5))[0]
        uncertain: Any = "most_uncertain" if rng.random() < 0.1 else "random"
        config: Any = mug.MugConfig(agents=agents, observation_rounds=rounds, detection_rounds=2, undercover=uncertain)
        run_now(mug.METHOD.play(question, table, config))
    elif method == "vote":
        run_now(mad_vote.METHOD.play(question, table, debate.DebateConfig(agents=agents)))
    elif method == "judge":
        run_now(mad_judge.METHOD.play(question, table, mad_judge.MadJudgeConfig(agents=agents)))
    elif method == "cfmad":
        run_now(cfmad.METHOD.play(question, table, cfmad.CfmadConfig()))
    else:
        run_now(self_refine.METHOD.play(question, table, self_refine.SelfRefineConfig(turns=1)))
    true_ones = [call for call in table.calls if call.scenes == (scene,)]
    altered_ones = [call for call in table.calls if call.scenes != (scene,)]
    calls = altered_ones if altered_ones and rng.random() < 0.2 else true_ones
    later = [call for call in calls if call.task != "describe"]
    by_task: dict[str, list[Call]] = {}
    for call in later or calls:
        by_task.setdefault(call.task, []).append(call)
    chosen = [rng.choice(same) for same in by_task.values()]
    rng.shuffle(chosen)
    chosen.sort(key=lambda call: call.task != "vote")  # the vote is the hardest: always among them
    return chosen[:most]


def more_edits(scene: Scene, asked: Asked, rng: random.Random) -> Scene:
    """One to four further edits that leave the question an answer: where much differs, comparing is learnt sooner."""
    for _ in range(rng.randint(1, 4)):
        scene = misread((scene,), asked, rng)[0]
    return scene


def two_pictures(rng: random.Random) -> list[Call]:
    """A question that compares two pictures, in MMMU's layout, answered directly or after a description."""
    scenes = (draw_scene(rng.getrandbits(30)), draw_scene(rng.getrandbits(30)))
    things = [thing for scene in scenes for thing in scene.things if thing.colour]
    about = rng.choice(
        [("", thing.shape) for thing in things] + [(thing.colour, "") for thing in things] or [("", rng.choice(SHAPES))]
    )
    asked = more_asked(about)
    table = OracleTable(asked, {"first": (scenes[0],), "second": (scenes[1],)}, rng, 0.0)
    before, after = asked.text.split("<image 1>")
    between, after = after.split("<image 2>")
    parts = choice_text("\0", asked.options).split("\0")
    prompt = (parts[0] + before, picture("first"), between, picture("second"), after + parts[1])
    question = Question("scenes", "0", prompt, AnswerFormat("choice", tuple(zip(LETTERS, asked.options, strict=False))))
    method: Any = direct.METHOD if rng.random() < 0.4 else chain_of_thought.METHOD
    run_now(method.play(question, table, method.config()))
    return table.calls[:1]


def more_asked(about: tuple[str, str]) -> Asked:
    """The question which of two images has more of something."""
    name = " ".join(filter(None, (about[0], about[1] or "object")))
    text = f"Which image has more {plural(name)}, <image 1> or <image 2>?"
    return Asked(Query("count", (about,)), text, "choice", "", NO_MORE)
