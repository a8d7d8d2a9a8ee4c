"""What the reference model can do, on test scenes: ``python -m mug_eval.reference_vlm.evaluate [--model FOLDER]``."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from mug_eval.answers import parse_answer, parse_object
from mug_eval.chat import ImageRef, Part
from mug_eval.methods import chain_of_thought, mug
from mug_eval.methods.conversation import turn
from mug_eval.question import Altered, Answer, AnswerFormat, Question
from mug_eval.reference_vlm.dialogs import LETTERS, choice_text, game_calls, put, question_of
from mug_eval.reference_vlm.drawing import png
from mug_eval.reference_vlm.oracle import Call
from mug_eval.reference_vlm.planning import planning_calls
from mug_eval.reference_vlm.questions import KINDS, Asked, draw_query, edit_for
from mug_eval.reference_vlm.scenes import Scene, draw_scene, scene_seed
from mug_eval.reference_vlm.speaking import Crowd, SpeakingTable, generate
from mug_eval.reference_vlm.weights import SHIPPED, load

_VERDICTS = re.compile(r"(Agent \d|[A-Z]\w+(?: answer)?) (fits|differs)(?:\.| at )")


def shown(scene: Scene) -> ImageRef:
    """The scene as a picture in a message."""
    import hashlib

    data = png(scene)
    return ImageRef(hashlib.sha256(data).hexdigest(), "image/png", 168, 168, data)


def question_over(asked: Asked, scene: Scene, altered: Scene | None) -> Question:
    """The question with real pictures."""
    text = asked.text if asked.form == "yes_no" else choice_text(asked.text, asked.options)
    prompt: tuple[Part, ...] = (shown(scene), text)
    other = Altered((shown(altered), text)) if altered is not None else None
    return Question("scenes", "0", prompt, AnswerFormat(asked.form, tuple(zip(LETTERS, asked.options, strict=False))), other)


def seeing(model: Any, processor: Any, count: int, seed: int) -> dict[str, Any]:
    """Enumeration of whole pictures, and accuracy by question type, answered directly and after a description.

    Args:
        model: the model.
        processor: its processor.
        count: test scenes; each gets one question.
        seed: of the scenes.
    """
    asked_over: list[tuple[Scene, Asked, Question]] = []
    number = 0
    while len(asked_over) < count:
        rng = random.Random(scene_seed("test", seed, number) + 1)
        scene = draw_scene(scene_seed("test", seed, number))
        number += 1
        query = draw_query(KINDS[len(asked_over) % len(KINDS)], scene, rng)
        if query is not None:
            asked = put(query, scene, rng)
            asked_over.append((scene, asked, question_over(asked, scene, None)))
    direct = generate(model, processor, [turn(question.prompt) for _, _, question in asked_over])
    described = generate(model, processor, [chain_of_thought.chain_prompt(question) for _, _, question in asked_over])
    right: dict[str, list[bool]] = defaultdict(list)
    entries = [0, 0, 0]
    for (scene, asked, question), short, long in zip(asked_over, direct, described, strict=True):
        truth = asked.gold(scene)
        for way, said in (("direct", short), ("described", long)):
            answer = parse_answer(said, question.answer_format)
            right[f"{asked.query.kind} {way}"].append(isinstance(answer, Answer) and answer.value == truth)
        listed = long.split("\n")[0]
        right["enumeration"].append(listed == scene.listed())
        said_things = set(re.split(r", ", listed.removeprefix("I see ").partition(". Total")[0]))
        true_things = {thing.described() for thing in scene.things}
        entries = [entries[0] + len(said_things & true_things), entries[1] + len(said_things), entries[2] + len(true_things)]
    report: dict[str, Any] = {name: round(sum(values) / len(values), 4) for name, values in sorted(right.items())}
    report |= {"entry_precision": round(entries[0] / entries[1], 4), "entry_recall": round(entries[0] / entries[2], 4)}
    return report | {"scenes": count}


def comparing(model: Any, processor: Any, count: int, seed: int) -> dict[str, Any]:
    """Whether the lists of others fit the own picture, said in later rounds of games that the oracle plays; both classes count alike."""
    calls: list[Call] = []
    number = 0
    while len(calls) < count:
        rng = random.Random(scene_seed("test", seed + 1, number) + 2)
        calls += [call for call in game_calls(draw_scene(scene_seed("test", seed + 1, number)), rng, 9) if call.task == "again"]
        number += 1
    conversations = [with_pictures(call) for call in calls]
    right: dict[str, list[bool]] = {"fits": [], "differs": []}
    for call, said in zip(calls, generate(model, processor, conversations), strict=True):
        spoken = dict(_VERDICTS.findall(said))
        for speaker, verdict in _VERDICTS.findall(call.reply):
            right[verdict].append(spoken.get(speaker) == verdict)
    shares = {name: sum(values) / len(values) for name, values in right.items() if values}
    verdicts = sum(map(len, right.values()))
    return {
        "compare": round(sum(shares.values()) / len(shares), 4),
        **{k: round(v, 4) for k, v in shares.items()},
        "verdicts": verdicts,
    }


def planning(model: Any, processor: Any, count: int, seed: int) -> dict[str, Any]:
    """Question type, scene graph and plan over test scenes: how often they are the oracle's, word for word; the plan's edit alone, too."""
    calls: list[tuple[Call, Asked]] = []
    number = 0
    while len(calls) < count:
        rng = random.Random(scene_seed("test", seed + 3, number) + 4)
        scene = draw_scene(scene_seed("test", seed + 3, number))
        query = draw_query(KINDS[number % len(KINDS)], scene, rng)
        number += 1
        if query is not None:
            asked = put(query, scene, rng)
            calls += [(call, asked) for call in planning_calls(question_of(asked, False), asked, scene, rng)]
    said = generate(model, processor, [with_pictures(call) for call, _ in calls], most=320)
    right: dict[str, list[bool]] = defaultdict(list)
    for (call, _), words in zip(calls, said, strict=True):
        found, ideal = parse_object(words), json.loads(call.reply)
        right["valid_json"].append(_is_json(words))
        right[call.task].append(found == ideal)
        if call.task == "plan":
            fields = ("target", "edit", "to", "box")
            right["plan_edit"].append(found is not None and all(found.get(name) == ideal[name] for name in fields))
    return {**{name: round(sum(values) / len(values), 4) for name, values in sorted(right.items())}, "calls": len(calls)}


def _is_json(words: str) -> bool:
    try:
        return isinstance(json.loads(words), dict)
    except ValueError:
        return False


def with_pictures(call: Call) -> tuple[Any, ...]:
    """The call's conversation with its pictures drawn."""
    import dataclasses

    pictures = iter(shown(scene) for scene in call.scenes)
    return tuple(
        dataclasses.replace(m, parts=tuple(next(pictures) if isinstance(part, ImageRef) else part for part in m.parts))
        for m in call.messages
    )


def playing(model: Any, processor: Any, count: int, seed: int) -> dict[str, Any]:
    """MUG with true counterfactual pictures that touch what is asked: who is voted out in the first round, and what comes of it."""
    games: list[tuple[Asked, Scene, SpeakingTable, Any]] = []
    crowd = Crowd(model, processor)
    number = 0
    while len(games) < count:
        rng = random.Random(scene_seed("test", seed + 2, number) + 3)
        scene = draw_scene(scene_seed("test", seed + 2, number))
        number += 1
        query = draw_query(KINDS[len(games) % len(KINDS)], scene, rng)
        edit = None if query is None else edit_for(query, scene, rng)
        if query is None or edit is None:
            continue
        asked = put(query, scene, rng, edit.scene)
        table = SpeakingTable(crowd, number)
        game = mug.METHOD.play(question_over(asked, scene, edit.scene), table, mug.MugConfig())
        games.append((asked, scene, table, game))
    verdicts = asyncio.run(_all(crowd, [game for *_, game in games]))
    votes = [event for _, _, table, _ in games for event in table.events if event["kind"] == "vote"]
    return {
        "found_in_first_round": round(sum(v.facts.get("found_round") == 1 for v in verdicts) / count, 4),
        "found": round(sum(bool(v.facts.get("undercover_found")) for v in verdicts) / count, 4),
        "mug_accuracy": round(
            sum(isinstance(v.answer, Answer) and v.answer.value == a.gold(s) for v, (a, s, *_) in zip(verdicts, games, strict=True))
            / count,
            4,
        ),
        "ballots_valid": round(sum(vote["ratings"] is not None for vote in votes) / max(1, len(votes)), 4),
        "ballots_valid_at_first": round(
            sum(vote["ratings"] is not None and not vote["asked_again"] for vote in votes) / max(1, len(votes)), 4
        ),
        "games": count,
    }


async def _all(crowd: Crowd, games: Sequence[Any]) -> list[Any]:
    return await crowd.play(games)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; prints one JSON object."""
    parser = argparse.ArgumentParser(prog="python -m mug_eval.reference_vlm.evaluate", description="Measure the reference model.")
    parser.add_argument("--model", type=Path, default=SHIPPED, help="the model's folder (default: the one in the package)")
    parser.add_argument("--scenes", type=int, default=500, help="test scenes, one question each (default 500)")
    parser.add_argument("--games", type=int, default=100, help="MUG games, and comparisons (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="of the test scenes (default 0)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    model, processor = load(args.model)
    report = {"seeing": seeing(model, processor, args.scenes, args.seed)}
    report["comparing"] = comparing(model, processor, args.games, args.seed)
    report["playing"] = playing(model, processor, args.games, args.seed)
    report["planning"] = planning(model, processor, args.games * 3, args.seed)
    print(json.dumps(report, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
