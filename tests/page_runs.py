"""Two runs on the same drawn scenes, one of them MUG with pictures I-, full of what a hostile model might say."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from run_folders import game, write_run

from mug_eval.counterfactual.folder import CounterfactualFolder
from mug_eval.reference_vlm.benchmark_files import COUNTERFACTUALS, write_benchmarks

PRIVATE = "/home/secretuser/private"
KEY = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
HOSTILE = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    "[a link](javascript:document.title='owned')",
    "</script><script>document.title='owned'</script>",
    "half a pair \ud800 and a line\u2028end \x00 \x1b[31m",
    "turned \u202earound\u202c and Hebrew \u05e9\u05dc\u05d5\u05dd",
)
AGENTS = ("Agent 1", "Agent 2", "Agent 3")


def factors(high: bool) -> dict[str, float]:
    return dict.fromkeys(("inconsistency", "deviation", "inaccuracy", "suspicion"), 9.0 if high else 1.0)


def mug_game(index: str, answer: str | None, words: Sequence[str], edit: dict[str, str], found: bool) -> dict[str, Any]:
    """Three agents, the third of them odd; the ballot goes for it or for the second."""
    out = AGENTS[2] if found else AGENTS[1]
    votes = {AGENTS[0]: out, AGENTS[1]: AGENTS[2], AGENTS[2]: AGENTS[1]}
    if not found:
        votes[AGENTS[1]] = AGENTS[0]
    events: list[dict[str, Any]] = [
        {"event": "seats", "order": list(AGENTS), "undercover": AGENTS[2], "holds": "the altered picture", "edit": edit}
    ]
    for number, phase in ((1, "observe"), (2, "reason")):
        for place, seat in enumerate(AGENTS):
            text = words[(place + number) % len(words)]
            events.append({"event": "statement", "round": number, "phase": phase, "seat": seat, "text": text, "answer": answer})
    for seat in AGENTS:
        ratings = {other: factors(other == votes[seat]) for other in AGENTS if other != seat}
        events.append({"event": "vote", "round": 2, "seat": seat, "vote": votes[seat], "ratings": ratings, "reason": ""})
    events.append({"event": "elimination", "round": 2, "votes": {out: 2}, "eliminated": out, "tied": []})
    events.append({"event": "answer", "seat": "writer", "text": words[0], "answer": answer, "asked_again": False})
    facts = {
        "undercover_played": True,
        "undercover_found": found,
        "found_round": 1 if found else None,
        "detection_rounds": 1,
        "normals_lost": int(not found),
        "abstentions": 0,
    }
    said = {"unparsed": "the reply names no option"} if answer is None else {"value": answer}
    ended = "undercover_found" if found else "undercover_survived"
    return game(index, prediction=answer or "", answer=said, ended=ended, facts=facts, events=events)


def write_runs(out: Path, questions: int = 12, times: int = 1) -> list[str]:
    """``out/mug-toy/ScenesMCQ`` and ``out/direct-toy/ScenesMCQ``, their data beside ``out``.

    The n-th question: MUG is right unless n % 4 == 3, direct is right if n % 3 == 0; the undercover is found if n is even; question 3
    has no answer.

    Args:
        out: the work-dir.
        questions: drawn scenes.
        times: how often each is asked, under other indices; more than once leaves no scene for the copies.

    Returns:
        The questions' indices.
    """
    data = out.parent / "private-data"
    table = write_benchmarks(data, questions, 5)["ScenesMCQ"]
    before = csv.field_size_limit(2**24)
    with table.open(encoding="utf-8", newline="") as file:
        drawn = [{name: cell for name, cell in row.items() if name != "image"} for row in csv.DictReader(file, delimiter="\t")]
    csv.field_size_limit(before)
    rows = {f"{row['index']}" if time == 0 else f"{row['index']}.{time}": row for time in range(times) for row in drawn}
    order = list(rows)
    wrong = {"A": "B", "B": "A", "C": "A", "D": "A"}
    config = {
        "dataset_sha256": hashlib.sha256(table.read_bytes()).hexdigest(),
        "backbone": {"kind": "openai", "model": f"{PRIVATE}/weights/toy", "base_url": f"http://user:{KEY}@10.0.0.7:8000/v1"},
        "config": {"agents": 3, "detection_rounds": 3},
    }
    pictures = {"sha256": CounterfactualFolder(data / COUNTERFACTUALS).sha256, "match": "question"}
    for method in ("mug", "direct"):
        right = {index: (place % 4 != 3) if method == "mug" else (place % 3 == 0) for place, index in enumerate(order)}
        answers = {i: rows[i]["answer"] if hit else wrong[rows[i]["answer"]] for i, hit in right.items()}
        predicted = {
            i: {
                **{k: v for k, v in rows[i].items() if k != "index"},
                "prediction": "" if i == order[3] and method == "mug" else answers[i],
            }
            for i in order
        }
        games = None
        if method == "mug":
            edit = {"edit": "add", "target": "ring", "instruction": HOSTILE[0]}
            games = [
                mug_game(i, None if place == 3 else answers[i], HOSTILE[place % 6 :] + HOSTILE[: place % 6], edit, place % 2 == 0)
                for place, i in enumerate(order)
            ]
        folder = write_run(
            out,
            right,
            model=f"{method}-toy",
            rows=predicted,
            games=games,
            config={**config, "counterfactuals": pictures if method == "mug" else None},
        )
        _add_to_run(folder / "run.json", data)
    return order


def _add_to_run(path: Path, data: Path) -> None:
    import json

    run = json.loads(path.read_text())
    run["command"] = [
        f"{PRIVATE}/run_eval.py",
        "--data-file",
        f"ScenesMCQ={data / 'ScenesMCQ.tsv'}",
        "--counterfactuals",
        str(data / COUNTERFACTUALS),
        "--base-url",
        f"http://user:{KEY}@10.0.0.7:8000/v1",
        f"--config={PRIVATE}/config.yaml",
    ]
    run["notes"] = [f"{PRIVATE}/cache was used with {KEY}", "one <b>note</b>"]
    run["cost"] = {"mean": {}, "total": {"calls": 12}}
    path.write_text(json.dumps(run))
