"""A run that is killed and continued is the run that was never killed: the real command, a real server, real SIGKILL."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from PIL import Image
from recorded import recorded_seeds
from scripted import ballot
from servers import ChatServer, completion

HERE = Path(__file__).parent
QUESTIONS = 24
KILLS = 20


def picture(seed: int) -> bytes:
    rng = random.Random(seed)
    image = Image.new("RGB", (32, 32), tuple(rng.randrange(256) for _ in range(3)))
    for _ in range(20):
        image.putpixel((rng.randrange(32), rng.randrange(32)), (255, 255, 255))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def words_of(body: dict[str, Any]) -> str:
    """A reply that is a function of the request alone; one in five has no answer, one ballot in five is none."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
    rng = random.Random(digest)
    task = "".join(part["text"] for part in _parts(body["messages"][-1]) if part["type"] == "text")
    if rng.random() < 0.2:
        return "Let me think about that for a long while, since it is quite dark in there and I would rather not guess."
    if "JSON object" in task:
        named = [n for n in range(1, 4) if f'"Agent {n}"' in task]
        return ballot(**{f"a{n}": rng.randrange(11) for n in named})
    return f"Detail {rng.randrange(1000)}.\nAnswer: {rng.choice(('Yes', 'No'))}"


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


class Ledger:
    """Answers by rule after a jittered while, counts every request by its body, and calls ``on_request`` in the server's thread."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.on_request: Any = lambda count: None
        self.jitter = random.Random(1)

    async def __call__(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        self.asked.append(hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest())
        self.on_request(len(self.asked))
        await asyncio.sleep(self.jitter.uniform(0.0, 0.02))
        return completion(words_of(body))


class Zygote:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        self.errors: list[str] = []
        threading.Thread(target=self._drain, daemon=True).start()
        assert self._line() == "ready"

    def _drain(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.errors.append(line)

    def _line(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline().strip()
        assert line, "".join(self.errors[-30:])
        return line

    def start(self, argv: list[str]) -> int:
        assert self.process.stdin
        self.process.stdin.write(json.dumps(argv) + "\n")
        self.process.stdin.flush()
        return int(self._line().removeprefix("pid "))

    def wait(self) -> int:
        return int(self._line().removeprefix("exit "))


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    found = Zygote()
    yield found
    assert found.process.stdin
    found.process.stdin.close()
    found.process.wait(60)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A yes/no table in POPE's format and a folder of altered pictures for two thirds of its questions."""
    folder = tmp_path_factory.mktemp("data")
    altered = folder / "altered"
    altered.mkdir()
    rows = ["index\tquestion\tanswer\timage\tcategory"]
    for i in range(QUESTIONS):
        cell = base64.b64encode(picture(i)).decode()
        rows.append(f"{i}\tIs there a disc number {i} in the image?\t{'Yes' if i % 2 else 'No'}\t{cell}\trandom")
        if i % 3:
            (altered / f"{i}.png").write_bytes(picture(1000 + i))
    table = folder / "tiny.tsv"
    table.write_text("\n".join(rows) + "\n")
    return table, altered


def command(data: tuple[Path, Path], work_dir: Path, base_url: str, concurrency: int, *more: str) -> list[str]:
    table, altered = data
    return [
        *("run", "--method", "mug", "--backbone", "openai:toy", "--base-url", base_url, "--data", "POPE"),
        *("--data-file", f"POPE={table}", "--counterfactuals", str(altered), "--seed", "5", "--quiet"),
        *("--concurrency", str(concurrency), "--work-dir", str(work_dir), *more),
    ]


def outcome(work_dir: Path) -> tuple[bytes, dict[str, Any], list[dict[str, Any]]]:
    """Predictions byte for byte; scores and games without the one thing that is measured, the seconds."""
    folder = work_dir / "mug-toy" / "POPE"
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["cost"].pop("seconds") > 0
    games = [json.loads(line) for line in (folder / "games.jsonl").read_text().splitlines()]
    for game in games:
        game["usage"].pop("seconds")
        for call in game["calls"]:
            call.pop("seconds")
    assert json.loads((folder / "run.json").read_text())["counts"]["played"] == QUESTIONS
    return (folder / "predictions.tsv").read_bytes(), scores, games


@pytest.fixture(scope="module")
def whole(zygote: Zygote, data: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, int]:
    """The uninterrupted run: what came out, and how many calls it took."""
    ledger = Ledger()
    work_dir = tmp_path_factory.mktemp("whole")
    with ChatServer(ledger) as server:
        zygote.start(command(data, work_dir, server.base_url, 4))
        assert zygote.wait() == 0, "".join(zygote.errors[-20:])
    assert len(set(ledger.asked)) == len(ledger.asked)
    result = outcome(work_dir)
    assert {"undercover_found", "undercover_survived", "no_counterfactual_picture"} <= set(result[1]["game"]["ended"])
    assert 0 < result[1]["unparsed"] < QUESTIONS, "the run has something to go wrong with"
    return result, len(ledger.asked)


def test_twenty_kills_change_nothing_and_no_recorded_call_is_asked_again(
    zygote: Zygote, data: tuple[Path, Path], whole: tuple[Any, int], tmp_path: Path
) -> None:
    uninterrupted, calls = whole
    ledger = Ledger()
    rng = random.Random(42)
    points = sorted(rng.sample(range(1, calls), KILLS))
    recorded: list[tuple[int, set[int]]] = []
    with ChatServer(ledger) as server:
        for point in points:
            concurrency = rng.choice((1, 2, 5, 8, 16))
            before = len(ledger.asked)
            unique_before = len(set(ledger.asked))
            reached = threading.Event()
            wanted = max(1, point - unique_before)
            ledger.on_request = lambda count, goal=before + wanted, flag=reached: flag.set() if count >= goal else None
            pid = zygote.start(command(data, tmp_path, server.base_url, concurrency))
            assert reached.wait(120), "".join(zygote.errors[-20:])
            os.kill(pid, signal.SIGKILL)
            assert zygote.wait() == -signal.SIGKILL
            assert not (tmp_path / "mug-toy" / "POPE" / "run.json").exists(), "only a complete run is marked complete"
            recorded.append((len(server.requests), recorded_seeds(tmp_path / "journal.sqlite")))
        ledger.on_request = lambda count: None
        zygote.start(command(data, tmp_path, server.base_url, 3))
        assert zygote.wait() == 0, "".join(zygote.errors[-20:])
    assert outcome(tmp_path) == uninterrupted
    assert len(set(ledger.asked)) == calls
    for before, seeds in recorded:
        assert not seeds & {request["seed"] for request in server.requests[before:]}
    assert len(recorded_seeds(tmp_path / "journal.sqlite")) == calls
    sizes = [len(seeds) for _, seeds in recorded]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1], "what is recorded stays recorded, and there is more of it"


def test_a_finished_run_given_again_asks_nothing(
    zygote: Zygote, data: tuple[Path, Path], whole: tuple[Any, int], tmp_path: Path
) -> None:
    ledger = Ledger()
    with ChatServer(ledger) as server:
        for _ in range(2):
            zygote.start(command(data, tmp_path, server.base_url, 16))
            assert zygote.wait() == 0, "".join(zygote.errors[-20:])
    assert len(ledger.asked) == whole[1]
    assert outcome(tmp_path) == whole[0]


@pytest.mark.parametrize("concurrency", [1, 32])
def test_concurrency_changes_nothing(
    zygote: Zygote, data: tuple[Path, Path], whole: tuple[Any, int], tmp_path: Path, concurrency: int
) -> None:
    with ChatServer(Ledger()) as server:
        zygote.start(command(data, tmp_path, server.base_url, concurrency))
        assert zygote.wait() == 0, "".join(zygote.errors[-20:])
    assert outcome(tmp_path) == whole[0]


def test_games_lost_from_the_file_are_replayed_from_the_journal(
    zygote: Zygote, data: tuple[Path, Path], whole: tuple[Any, int], tmp_path: Path
) -> None:
    """A torn last line, and even a lost file, cost no call."""
    ledger = Ledger()
    with ChatServer(ledger) as server:
        argv = command(data, tmp_path, server.base_url, 8)
        zygote.start(argv)
        assert zygote.wait() == 0
        games = tmp_path / "mug-toy" / "POPE" / "games.jsonl"
        lines = games.read_bytes().splitlines(keepends=True)
        games.write_bytes(b"".join(lines[:3]) + lines[3][: len(lines[3]) // 2])
        zygote.start(argv)
        assert zygote.wait() == 0
    assert len(ledger.asked) == whole[1]
    assert outcome(tmp_path) == whole[0]


def test_the_gold_answer_never_reaches_a_call(data: tuple[Path, Path], zygote: Zygote, tmp_path: Path) -> None:
    """Validity rule 2, end to end: a table whose answers are marked words."""
    table = tmp_path / "marked.tsv"
    table.write_text(data[0].read_text().replace("\tYes\t", "\tGOLDYES\t").replace("\tNo\t", "\tGOLDNO\t"))
    with ChatServer(Ledger()) as server:
        zygote.start(command((table, data[1]), tmp_path / "out", server.base_url, 8, "--limit", "6"))
        assert zygote.wait() == 0, "".join(zygote.errors[-20:])
        bodies = json.dumps(server.requests)
    assert server.requests and "GOLD" not in bodies
    assert str(data[1]) not in bodies and ".png" not in bodies, "no file name either (rule 1)"
    journal = (tmp_path / "out" / "journal.sqlite").read_bytes()
    games = (tmp_path / "out" / "mug-toy" / "POPE" / "games.jsonl").read_bytes()
    assert b"GOLD" not in journal and b"GOLD" not in games
    assert b"GOLD" in (tmp_path / "out" / "mug-toy" / "POPE" / "predictions.tsv").read_bytes(), "only the scorer's file holds it"
