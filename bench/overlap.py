"""How much of a build an editor is at work when it is the bottleneck: planning (a slow server) and judging must hide behind it.

A real HTTP server answers each planning call after a while; an editor sleeps and paints the target. The share is the time in which the
editor works from its first edit's start to its last edit's end. Called by ``bench/counterfactuals.py --part overlap``.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from aiohttp import web
from PIL import Image, ImageDraw

from mug_eval.backbones.openai_api import OpenAIModel
from mug_eval.building import judges_named
from mug_eval.chat import Sampling
from mug_eval.counterfactual.boxes import FRAMES
from mug_eval.counterfactual.build import build
from mug_eval.counterfactual.constraints import default_rule
from mug_eval.counterfactual.editors.editor import Edit
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.counterfactual.store import Store, png
from mug_eval.counterfactual.workshop import Effort, Workshop, identity
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.journal import Journal
from mug_eval.images import load_image
from mug_eval.question import AnswerFormat, Question

BOX = (200, 150, 260, 210)
REPLIES = {
    '"type"': '{"type": "object", "image": 1}',
    '"objects"': json.dumps({"objects": [{"name": "disc", "attributes": ["red"], "box": BOX}], "relations": []}),
    '"target"': json.dumps(
        {"target": 0, "edit": "recolour", "to": "blue", "box": None, "instruction": "Make the disc blue.", "answer": "No"}
    ),
}


class Discs:
    """Questions about photographs' worth of pixels with a disc in them."""

    name = "Discs"

    def __init__(self, count: int) -> None:
        self.indices = tuple(str(number) for number in range(count))

    def picture(self, index: str) -> bytes:
        draw = np.random.default_rng(int(index))
        ground = Image.fromarray(draw.integers(80, 140, (12, 16, 3), np.uint8)).resize((448, 336), Image.Resampling.BICUBIC)
        ImageDraw.Draw(ground).ellipse(BOX, fill=(200, 30, 30))
        return png(ground)

    def question(self, index: str) -> Question:
        return Question(self.name, index, (load_image(self.picture(index)), f"Is disc {index} red?"), AnswerFormat("yes_no"))

    def pictures(self, index: str) -> tuple[tuple[int, bytes], ...]:
        return ((0, self.picture(index)),)


class SlowEditor:
    """Sleeps, paints the disc blue, and keeps when it was at work."""

    name, fingerprint, inventive = "slow", "slow 1", True

    def __init__(self, seconds: float, batch: int) -> None:
        self.seconds, self.batch = seconds, batch
        self.spans: list[tuple[float, float]] = []

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        return self.edit_many([Edit(image, plan, seed)])[0]

    def edit_many(self, edits: Sequence[Edit]) -> list[Image.Image]:
        start = time.perf_counter()
        results = []
        for edit in edits:
            result = edit.image.copy()
            ImageDraw.Draw(result).ellipse(BOX, fill=(30, 30, 200))
            results.append(result)
        time.sleep(max(0.0, self.seconds - (time.perf_counter() - start)))
        self.spans.append((start, time.perf_counter()))
        return results

    def close(self) -> None: ...

    def busy(self, threads: int) -> float:
        """Share of the threads' time spent at work."""
        length = max(end for _, end in self.spans) - min(start for start, _ in self.spans)
        return sum(end - start for start, end in self.spans) / (threads * length)


class SlowPlanner:
    """Answers in a thread of its own after ``delay`` seconds."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _chat(self, request: web.Request) -> web.Response:
        text = json.dumps((await request.json())["messages"][-1]).replace("\\", "")
        await asyncio.sleep(self._delay)
        reply = next((reply for word, reply in reversed(REPLIES.items()) if f"{{{word}" in text), "Answer: Yes")
        body: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}]}
        return web.json_response(body | {"usage": {"prompt_tokens": 300, "completion_tokens": 30}})

    async def _serve(self) -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        self._ready.set()
        await asyncio.Event().wait()

    def __enter__(self) -> SlowPlanner:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None: ...


async def _run(base_url: str, editor: SlowEditor, count: int, at_once: int, threads: int) -> tuple[float, int]:
    source = Discs(count)
    model, judges = OpenAIModel("slow", base_url), judges_named(["handmade"])
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.sqlite") as journal:
        shop = Workshop(
            dispatcher=Dispatcher(model, journal, DispatchPolicy(concurrency=16)),
            planner="slow",
            frame=FRAMES["pixels"],
            sampling=Sampling(),
            editor=editor,
            judges=judges,
            rule=default_rule(judges),
            effort=Effort(),
            questions_at_once=at_once,
            editor_threads=threads,
        )
        start = time.perf_counter()
        with Store(Path(folder) / "store", identity(shop, source.name, "", {})) as store:
            await build(source, store, shop)
            accepted = len(store.accepted)
            store.close(source.indices)
        await model.close()
        return time.perf_counter() - start, accepted


def overlap(count: int, edit_seconds: float, reply_seconds: float) -> None:
    """Print the table."""
    print(f"{count} questions, an edit or a batch of edits takes {edit_seconds:g} s, a planning call {reply_seconds:g} s\n")
    print("| editor | in work | editor busy | s a question | CPU s (server too) | accepted |\n|---|---|---|---|---|---|")
    with SlowPlanner(reply_seconds) as server:
        for batch, threads, at_once in ((1, 1, 1), (1, 1, 12), (1, 2, 16), (4, 1, 24)):
            editor = SlowEditor(edit_seconds * (1 if batch == 1 else batch / 2), batch)
            cpu = time.process_time()
            seconds, accepted = asyncio.run(_run(server.base_url, editor, count, at_once, threads))
            what = f"batches of {batch}" if batch > 1 else f"{threads} at a time"
            busy = f"{100 * editor.busy(threads):.1f} %"
            cpu = (time.process_time() - cpu) / count
            cells = (what, at_once, busy, f"{seconds / count:.2f}", f"{cpu:.2f}", f"{accepted} of {count}")
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
