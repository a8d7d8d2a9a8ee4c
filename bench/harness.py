"""How close the harness comes to the time that the server alone would need, and whether its memory grows with the questions.

A stub server in a process of its own answers each call after 50 ms and has room for 64 at a time. Ideal is calls x 50 ms / 64.

    python bench/harness.py                                      # 500 games of the toy method at concurrency 64
    python bench/harness.py --method mug                         # the real one
    python bench/harness.py --questions 500 2000 5000 --delay-ms 1    # memory
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mug_eval.backbones.openai_api import OpenAIModel
from mug_eval.chat import ImageRef, Message, Sampling
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.games import GamesFile
from mug_eval.engine.journal import Journal
from mug_eval.engine.runner import Setting, play_questions
from mug_eval.methods import methods
from mug_eval.methods.method import CallRange, Method, Table, Verdict
from mug_eval.question import Altered, Answer, AnswerFormat, Question, Unparsed

SYSTEM = "You look at a picture together with others and answer a question about it. " * 6


@dataclass(frozen=True)
class ToyConfig:
    agents: int = 3


async def play_toy(question: Question, table: Table, config: ToyConfig) -> Verdict:
    """MUG's shape without its words: two rounds of reasoning and one of votes by three agents, two summaries, one answer."""
    assert question.altered is not None
    said: list[str] = []

    def messages(seat: int, task: str) -> list[Message]:
        prompt = question.altered.prompt if seat == 1 and question.altered else question.prompt
        return [Message("system", (SYSTEM,)), Message("user", (*prompt, *said, task))]

    for phase in ("reason", "reason", "vote"):
        replies = await asyncio.gather(
            *(table.ask(f"Agent {seat}", messages(seat, f"Agent {seat}: {phase}.")) for seat in range(1, config.agents + 1))
        )
        said += [f"Agent {seat}: {reply.text}" for seat, reply in enumerate(replies, 1)]
        table.record(phase, said=[reply.text for reply in replies])
    replies = await asyncio.gather(*(table.ask(f"Agent {seat}", messages(seat, "Sum up.")) for seat in (2, 3)))
    said += [reply.text for reply in replies]
    final = await table.ask("summary", messages(2, "Answer Yes or No."))
    return Verdict(Answer(final.text[-3:].strip()), raw=final.text)


TOY = Method("toy", "MUG's shape", ToyConfig, play_toy, lambda question, config: CallRange(12, 12), True)


@dataclass(frozen=True)
class Photographs:
    """Questions that each have two pictures of a photograph's size of their own."""

    count: int
    bytes: int
    name: str = "bench"

    @property
    def indices(self) -> tuple[str, ...]:
        return tuple(str(number) for number in range(self.count))

    def question(self, index: str) -> Question:
        draw = random.Random(int(index))
        text = f"Is there a red bus in the picture, number {index}? Answer Yes or No."
        pictures = [picture(draw.randbytes(self.bytes)) for _ in range(2)]
        return Question(self.name, index, (pictures[0], text), AnswerFormat("yes_no"), Altered((pictures[1], text)))

    def prediction(self, index: str, answer: Answer | Unparsed) -> str:
        return answer.value if isinstance(answer, Answer) else ""


def picture(data: bytes) -> ImageRef:
    return ImageRef(hashlib.sha256(data).hexdigest(), "image/jpeg", 640, 480, data)


@contextmanager
def stub_server(delay_ms: float, room: int) -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).with_name("stub_server.py")), "--delay-ms", str(delay_ms), "--room", str(room)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


async def play(source: Photographs, method: Method, base_url: str, concurrency: int, folder: Path) -> tuple[float, Any]:
    model = OpenAIModel("stub", f"{base_url}/v1", concurrency=concurrency)
    setting = Setting(method, method.config(), Sampling(temperature=0.2), 0)
    start = time.perf_counter()
    with Journal(folder / "journal.sqlite") as journal, GamesFile(folder / "games.jsonl") as games:
        dispatcher = Dispatcher(model, journal, DispatchPolicy(concurrency=concurrency))
        owed = await play_questions(source, setting, dispatcher, games, games_in_flight=concurrency)
        games.rewrite(source.indices)
    seconds = time.perf_counter() - start
    await model.close()
    assert not owed, owed
    return seconds, dispatcher.statistics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, nargs="+", default=[500])
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--delay-ms", type=float, default=50.0)
    parser.add_argument("--picture-bytes", type=int, default=40_000)
    parser.add_argument("--method", default="toy")
    parser.add_argument("--profile", action="store_true", help="print where the client's time goes")
    args = parser.parse_args()
    method = TOY if args.method == "toy" else methods()[args.method]
    for count in args.questions:
        source = Photographs(count, args.picture_bytes)
        with stub_server(args.delay_ms, args.concurrency) as base_url, tempfile.TemporaryDirectory() as folder:
            run = play(source, method, base_url, args.concurrency, Path(folder))
            before = time.process_time()
            seconds, statistics = profiled(run) if args.profile else asyncio.run(run)
            cpu = time.process_time() - before
            with urllib.request.urlopen(f"{base_url}/stats") as answer:
                stats = json.load(answer)
            journal_bytes = (Path(folder) / "journal.sqlite").stat().st_size
        ideal = statistics.calls * args.delay_ms / 1000 / args.concurrency
        print(
            f"{count} questions of {method.name}: {statistics.calls} calls, ideal {ideal:.2f} s, measured {seconds:.2f} s, "
            f"ratio {seconds / ideal:.3f}; {cpu / statistics.calls * 1e3:.2f} ms of processor a call; "
            f"{stats['most_at_once']} at once, {stats['refused']} refused; journal {journal_bytes / 2**20:.0f} MB; "
            f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB",
            flush=True,
        )


def profiled(run: Any) -> Any:
    import cProfile
    import pstats

    with cProfile.Profile() as profile:
        result = asyncio.run(run)
    pstats.Stats(profile).sort_stats("tottime").print_stats(35)
    return result


if __name__ == "__main__":
    main()
