"""A model for studies over HTTP: it disagrees with itself, reads the picture a little, and votes in valid ballots."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from servers import completion
from tables import DATA, TINY, picture

from mug_eval.cli import main

FACTORS = ("inconsistency", "deviation", "inaccuracy", "suspicion")


async def player(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """The same request gets the same reply; another seed or prompt may get another."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    text = "\n".join(
        part["text"]
        for message in body["messages"]
        for part in ([{"type": "text", "text": message["content"]}] if isinstance(message["content"], str) else message["content"])
        if part["type"] == "text"
    )
    if "Reply with one JSON object" in text.rsplit("Now vote", 1)[-1] and "Now vote" in text:
        named = [f"Agent {number}" for number in range(1, 10) if f'"Agent {number}"' in text.rsplit("Now vote", 1)[-1]]
        ballot = {name: dict.fromkeys(FACTORS, digest[place] % 11) for place, name in enumerate(named)}
        return completion(json.dumps(ballot))
    answer = "ABCD"[digest[0] % 4] if "\nA. " in text else ("Yes", "No")[digest[0] % 2]
    return completion(f"I looked.\nConfidence: {digest[1] % 101}\nChange needed: no\nAnswer: {answer}")


def pictures(folder: Path, scores: bool = True) -> Path:
    """A picture I- for every question of the tiny POPE and HallusionBench: by manifest, with kinds, types and scores of edits."""
    csv.field_size_limit(sys.maxsize)
    folder.mkdir(parents=True, exist_ok=True)
    other = base64.b64decode(picture("purple", (24, 24)))
    (folder / "other.png").write_bytes(other)
    lines = []
    number = 0
    for name in ("POPE", "HallusionBench"):
        with (DATA / TINY[name]).open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
            known = {row["index"]: row["image"] for row in rows}
            for row in rows:
                number += 1
                image = known.get(row["image"], row["image"])  # a short cell names the row that has the picture
                file_name = f"{number}.png"
                (folder / file_name).write_bytes(other)
                line: dict[str, Any] = {
                    "image_sha256": hashlib.sha256(base64.b64decode(image)).hexdigest(),
                    "question_index": row["index"],
                    "file": file_name,
                    "edit": "remove" if number % 2 else "recolour",
                    "edit_type": "object" if number % 2 else "attribute",
                    "target": f"thing {number}",
                }
                if scores:
                    line["scores"] = {"vs": 0.9 + number / 100, "change": 0.5}
                lines.append(json.dumps(line))
    (folder / "manifest.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def study(name: str, base_url: str, out: Path, *more: str, data: Sequence[str] = ("POPE",), store: Path | None = None) -> int:
    """``mug-eval study NAME`` on the tiny benchmarks."""
    argv = ["study", name, "--backbone", "openai:toy", "--base-url", base_url, "--out", str(out), "--quiet"]
    argv += ["--data", *data, "--data-file", *(f"{one}={DATA / TINY[one]}" for one in data)]
    if store is not None:
        argv += ["--counterfactuals", str(store)]
    return main([*argv, *more])
