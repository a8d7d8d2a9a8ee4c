"""How often a planner's type, scene graph, target, box and edit are right, over drawn scenes whose true scene graph is known.

Draws yes/no questions of the five kinds about scenes of the test half (the reference model was trained on the other), builds their
counterfactual pictures by the real command, and holds what it recorded against the truth.

    python bench/planning_rates.py --out rates
    python bench/planning_rates.py --out rates --planner qwen --base-url http://127.0.0.1:8000/v1 --questions 50
"""

from __future__ import annotations

import argparse
import base64
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mug_eval.cli import main as mug_eval
from mug_eval.reference_vlm.drawing import png
from mug_eval.reference_vlm.planning import TYPES, box_of
from mug_eval.reference_vlm.questions import KINDS, Asked, ask_yes_no, draw_query, edit_for, value_of
from mug_eval.reference_vlm.scenes import (
    COLOURS,
    SHAPES,
    SIGN,
    SIZES,
    WORDS,
    Scene,
    Thing,
    add,
    change,
    draw_scene,
    remove,
    scene_seed,
    swap,
)
from mug_eval.seeds import generator


def drawn(count: int, seed: int) -> list[tuple[Asked, Scene]]:
    """Questions of all kinds in turn, each about a scene of its own and with an edit of one thing that changes its answer."""
    found: list[tuple[Asked, Scene]] = []
    number = 0
    while len(found) < count:
        rng, scene = generator("planning rates", seed, number), draw_scene(scene_seed("test", seed + 7, number))
        query = draw_query(KINDS[len(found) % len(KINDS)], scene, rng)
        number += 1
        if query is not None and edit_for(query, scene, rng) is not None:
            found.append((ask_yes_no(query, scene, rng), scene))
    return found


def write_table(path: Path, found: Sequence[tuple[Asked, Scene]]) -> None:
    """As a table in POPE's format."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(["index", "question", "answer", "category", "image"])
        for index, (asked, scene) in enumerate(found):
            category = ("random", "popular", "adversarial")[index % 3]
            writer.writerow([index, asked.text, asked.gold(scene), category, base64.b64encode(png(scene)).decode()])


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union of two boxes."""
    across, down = (max(0.0, min(one[i + 2], other[i + 2]) - max(one[i], other[i])) for i in (0, 1))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return across * down / (sum(areas) - across * down)


def true_thing(box: Sequence[float], scene: Scene) -> Thing | None:
    """The thing in whose cell a box is, by half of their union or more."""
    return next((thing for thing in scene.things if overlap(box, box_of(*thing.cell)) >= 0.5), None)


def after(plan: Mapping[str, Any], scene: Scene) -> Scene | None:
    """The true scene after a plan; None where the plan means nothing over it."""
    thing, to = true_thing(plan["box"], scene), plan["to"].lower().split()
    if plan["thing"] is None or plan["edit"] == "add":
        place = plan["to_box"]
        if place is None:
            return None
        row, column = round((place[1] + place[3]) / 56 + 0.5), round((place[0] + place[2]) / 56 + 0.5)
        shape = next((word for word in to if word in SHAPES), thing.shape if thing and plan["thing"] is not None else SHAPES[0])
        colour = next((word for word in to if word in COLOURS), thing.colour if thing and plan["thing"] is not None else COLOURS[0])
        return add(scene, Thing(row, column, shape, colour, SIZES[1])).scene
    if thing is None:
        return None
    if plan["edit"] == "remove":
        return remove(scene, thing).scene
    if plan["edit"] == "mirror" and plan["to_box"] is not None:
        other = true_thing(plan["to_box"], scene)
        return None if other is None else swap(scene, thing, other).scene
    fields = {"recolour": ("colour", COLOURS), "replace": ("shape", SHAPES), "resize": ("size", SIZES), "retext": ("word", WORDS)}
    if plan["edit"] not in fields or (plan["edit"] == "retext") != (thing.shape == SIGN):
        return None
    field, values = fields[plan["edit"]]
    value = next((word for word in to if word in values), None)
    return None if value is None else change(scene, thing, **{field: value}).scene


def rates(store: Path, found: Sequence[tuple[Asked, Scene]]) -> dict[str, dict[str, Any]]:
    """Right and asked, by what was asked."""
    counts: dict[str, list[bool]] = {}
    accepted = {json.loads(line)["question_index"] for line in (store / "manifest.jsonl").read_text().splitlines()}
    for line in (store / "answers.jsonl").read_text().splitlines():
        known = json.loads(line)
        if "type" not in known:
            counts.setdefault("a scene graph could be read", []).append(False)
            continue
        asked, scene = found[int(known["question_index"])]
        counts.setdefault("a scene graph could be read", []).append(True)
        counts.setdefault("type", []).append(known["type"]["kind"] == TYPES[asked.query.kind])
        said = [(thing["name"], thing["box"]) for thing in known["graph"]["things"]]
        true = [(thing.shape, box_of(*thing.cell)) for thing in scene.things]
        hits = [any(name == shape and overlap(box, cell) >= 0.5 for name, box in said) for shape, cell in true]
        counts.setdefault("things found, name and box", []).extend(hits)
        counts.setdefault("scene graph without a mistake", []).append(all(hits) and len(said) == len(true))
        plan = known["plan"]
        counts.setdefault("a plan that can be carried out", []).append(plan is not None)
        if plan is None:
            continue
        if plan["thing"] is not None:
            thing = true_thing(plan["box"], scene)
            counts.setdefault("the target's box is a thing's", []).append(thing is not None)
        edited = after(plan, scene)
        changes = edited is not None and value_of(asked.query, edited) not in (None, value_of(asked.query, scene))
        counts.setdefault("the last plan changes the answer", []).append(changes)
        if known["question_index"] in accepted:
            counts.setdefault("of accepted edits: the plan changes the answer", []).append(changes)
            flips = (known["planner"] or {}).get("flips")
            if flips is not None:
                counts.setdefault("of accepted edits: the planner's answer flips", []).append(flips)
    return {
        name: {"right": sum(values), "of": len(values), "share": round(sum(values) / len(values), 4)}
        for name, values in counts.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args, more = parser.parse_known_args()
    found = drawn(args.questions, args.seed)
    write_table(args.out / "scenes.tsv", found)
    planner = [] if "--planner" in more else ["--planner", "reference"]
    command = [
        "--data",
        "POPE",
        "--data-file",
        str(args.out / "scenes.tsv"),
        "--editor",
        "opencv",
        "--out",
        str(args.out / "store"),
    ]
    code = mug_eval(["counterfactuals", "build", *command, "--work-dir", str(args.out / "work"), *planner, *more])
    if code not in (0, 3):
        return code
    found_rates = rates(args.out / "store", found)
    for name, entry in found_rates.items():
        print(f"{name:46s} {100 * entry['share']:6.1f} % of {entry['of']}")
    (args.out / "rates.json").write_text(json.dumps(found_rates, indent=1) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
