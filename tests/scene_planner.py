"""A planner behind a real server that knows the drawn scenes it is shown: it plans as the oracle would, or errs as it is told."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from servers import ChatServer, completion
from tables import write_table

from mug_eval.cli import main
from mug_eval.counterfactual import planning_prompts as words
from mug_eval.methods.conversation import SYSTEM
from mug_eval.reference_vlm.drawing import png
from mug_eval.reference_vlm.planning import TYPES, graph_reply, plan_reply, planned
from mug_eval.reference_vlm.questions import KINDS, Asked, ask_yes_no, draw_query
from mug_eval.reference_vlm.scenes import Scene, draw_scene
from mug_eval.seeds import generator

TYPE, GRAPH, PLAN = (text.split("{")[0][:40] for text in (words.QUESTION_TYPE, words.SCENE_GRAPH, words.PLAN))
Asking = dict[str, Any]


@dataclass
class Row:
    index: str
    asked: Asked
    scene: Scene
    picture: bytes


def rows(count: int, kinds: tuple[str, ...] = KINDS) -> list[Row]:
    """Yes/no questions about drawn scenes, of every kind, each with an edit of one thing that changes its answer."""
    found: list[Row] = []
    number = 0
    while len(found) < count:
        number += 1
        rng, scene = generator("scene planner", number), draw_scene(number)
        query = draw_query(kinds[len(found) % len(kinds)], scene, rng)
        if query is not None and planned(query, scene) is not None:
            found.append(Row(str(len(found)), ask_yes_no(query, scene, rng), scene, png(scene)))
    return found


def table_of(path: Path, found: list[Row]) -> Path:
    """The rows as a table in POPE's format."""
    return write_table(
        path,
        [
            {
                "index": row.index,
                "question": row.asked.text,
                "answer": row.asked.gold(row.scene),
                "category": ("random", "popular", "adversarial")[number % 3],
                "image": base64.b64encode(row.picture).decode(),
            }
            for number, row in enumerate(found)
        ],
    )


@dataclass
class ScenePlanner:
    """Answers the planner's calls and direct questions; ``instead`` may give another reply, or None for the usual."""

    found: list[Row]
    instead: Callable[[Row, str, Asking], str | web.StreamResponse | None] = lambda row, task, body: None
    delay: Callable[[int], float] = lambda count: 0.0
    meeting: int = 1
    """nobody is answered before so many have asked"""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """(index, task) in the order asked"""
    met: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request, body: Asking) -> web.StreamResponse:
        row, task, known = self.read(body)
        self.asked.append((row.index, task))
        pause = self.delay(len(self.asked))
        if len(self.asked) >= self.meeting:
            self.met.set()
        async with asyncio.timeout(120):
            await self.met.wait()
        await asyncio.sleep(pause)
        reply = self.instead(row, task, body)
        if reply is None:
            reply = self.usual(row, task, known)
            if "in thousandths" in json.dumps(body["messages"]):
                reply = re.sub(r"\[\d+(?:, \d+){3}\]", in_thousandths, reply)
        return reply if isinstance(reply, web.StreamResponse) else completion(reply)

    def read(self, body: Asking) -> tuple[Row, str, bool]:
        """The row asked about, the task, and whether the picture shown is the original."""
        assert body["messages"][0]["content"] == SYSTEM
        user = body["messages"][1]["content"]
        text = "\n".join(part["text"] for part in user if part["type"] == "text")
        (shown,) = [part["image_url"]["url"] for part in user if part["type"] == "image_url"]
        sha256 = hashlib.sha256(base64.b64decode(shown.partition(",")[2])).hexdigest()
        mine = [row for row in self.found if row.asked.text in text]
        same = [row for row in mine if hashlib.sha256(row.picture).hexdigest() == sha256]
        task = next((name for name, start in (("type", TYPE), ("graph", GRAPH), ("plan", PLAN)) if start in text), "direct")
        return (same or mine)[0], task, bool(same)

    def usual(self, row: Row, task: str, original: bool) -> str:
        if task == "type":
            return json.dumps({"type": TYPES[row.asked.query.kind], "image": 1})
        if task == "graph":
            return graph_reply(row.scene)
        if task == "plan":
            plan = planned(row.asked.query, row.scene)
            assert plan is not None
            return plan_reply(plan, row.asked.gold(plan.edit.scene))
        gold = row.asked.gold(row.scene)
        return f"Answer: {gold if original else {'Yes': 'No', 'No': 'Yes'}[gold]}"


def in_thousandths(box: re.Match[str]) -> str:
    return json.dumps([round(edge * 1000 / 168) for edge in json.loads(box[0])])


def build(server: ChatServer, table: Path, out: Path, *more: str) -> int:
    """The real command."""
    return main(
        [
            *("counterfactuals", "build", "--data", "POPE", "--data-file", str(table), "--planner", "openai:toy"),
            *("--base-url", server.base_url, "--boxes", "reference", "--editor", "opencv", "--out", str(out), "--quiet"),
            *("--work-dir", str(out.with_name(f"{out.name}-work")), *more),
        ]
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
