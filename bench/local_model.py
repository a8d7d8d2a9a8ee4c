"""Games per minute with a model in this process, three ways side by side in one run and over the same games.

(1) ``one``: one call at a time, everything computed anew, as VLMEvalKit and the released code of MUG play;
(2) ``batch``: whole prompts batched, nothing shared;
(3) ``ours``: batches over cached prefixes and picture embeddings.

Ratios are to (1), by the clock and by processor time; on a machine that others use too only the latter means much.

The model has random weights, so what it says means nothing, and no game may depend on it: a script has MUG's shape (every agent talks,
talks, votes; two of three sum up; one call writes the answer) and its prompts' layout and lengths, and a fixed number of tokens a reply.

    python bench/local_model.py                                       # a small model, on a CPU
    python bench/local_model.py --shape hidden512 --image-tokens 1024 --agents 5
    python bench/local_model.py --shape qwen7b --device cuda --dtype bf16 --games 16 --in-flight 16
    python bench/local_model.py --model path/to/a/model               # weights of one's own
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import random
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(HERE), str(HERE / "tests")]

import torch
from PIL import Image

from mug_eval.backbones.transformers_vlm import TransformersVLM
from mug_eval.chat import ImageRef, Message, Sampling
from mug_eval.images import load_image
from mug_eval.methods.conversation import SYSTEM, statements, turn
from mug_eval.methods.mug_prompts import COMMON, ODD, RULES, SUMMARISE, TALK, VOTE

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {"hidden": 128, "layers": 4, "heads": 4, "kv_heads": 4, "intermediate": 320, "vision": 96, "depth": 3},
    "hidden512": {"hidden": 512, "layers": 8, "heads": 8, "kv_heads": 8, "intermediate": 1536, "vision": 256, "depth": 4},
    "qwen7b": {"hidden": 3584, "layers": 28, "heads": 28, "kv_heads": 4, "intermediate": 18944, "vision": 1280, "depth": 32},
}
WORDS = "the picture shows a red circle left of two blue squares and one dog near the table which I can see clearly".split()  # noqa: SIM905
QUESTION = "How many dogs are there in picture {number}? Please answer with a number."
# A tokenizer of our own, trained on what it will see, so that prompts have about as many tokens as with a model's real one.
CORPUS = [RULES, COMMON, ODD, TALK, VOTE, SUMMARISE, SYSTEM, QUESTION, " ".join(WORDS)]


@dataclass(frozen=True)
class Measured:
    seconds: float
    calls: int
    prompt_tokens: int
    computed_tokens: int
    pictures: int
    encoded: int
    rows_a_step: float
    peak_mb: float
    processor: float


def picture(seed: int, side: int) -> ImageRef:
    buffer = io.BytesIO()
    small = Image.frombytes("RGB", (16, 16), random.Random(seed).randbytes(768))
    small.resize((side, side)).save(buffer, "JPEG")
    return load_image(buffer.getvalue())


async def play(model: TransformersVLM, number: int, side: int, agents: int, reply_tokens: int, spoken_words: int) -> None:
    """One game of MUG's shape: 3N talks and votes, N-1 summaries, one answer."""
    draw = random.Random(number)
    true, altered = picture(2 * number, side), picture(2 * number + 1, side)
    question = QUESTION.format(number=number)
    odd = draw.randrange(agents)
    names = [f"Agent {i + 1}" for i in range(agents)]
    talk: list[tuple[str, str]] = []
    sampling = Sampling(temperature=0, max_tokens=reply_tokens)

    def prompt(seat: int, task: str) -> tuple[Message, ...]:
        role = (ODD if seat == odd else COMMON).format(seat=names[seat])
        shown = (altered if seat == odd else true, question)
        return turn(shown, RULES.format(count=agents), statements(talk), f"{role}\n\n{task}")

    for phase in (TALK.format(round=1), TALK.format(round=2), VOTE.format(others="the others", example="{...}")):
        await asyncio.gather(*(model.chat(prompt(seat, phase), sampling) for seat in range(agents)))
        # What a random model says is no text: the transcript grows by drawn words, as many as an agent would say.
        talk += [(name, " ".join(draw.choices(WORDS, k=spoken_words))) for name in names]
    left = [seat for seat in range(agents) if seat != odd]
    await asyncio.gather(
        *(model.chat(turn((true, question), statements(talk), SUMMARISE.format(seat=names[seat])), sampling) for seat in left)
    )
    await model.chat(turn((true, question), statements(talk[-agents:]), "Write the final answer."), sampling)


async def measure(folder: str, sharing: Any, args: argparse.Namespace, side: int, agents: int) -> Measured:
    model = TransformersVLM(folder, device=args.device, dtype=args.dtype, sharing=sharing)
    warm = Sampling(temperature=0, max_tokens=2)
    await model.chat(turn((picture(10**6, side), "Warm up."), "Say something."), warm)  # weights, kernels, self-check
    before = (model.counts.prompt_tokens, model.counts.computed_tokens, model.counts.pictures, model.counts.encoded_pictures)
    calls, steps, rows = model.counts.calls, model.counts.steps, model.counts.step_rows
    places = asyncio.Semaphore(1 if sharing == "none" else args.in_flight)

    async def one(number: int) -> None:
        async with places:
            await play(model, number, side, agents, args.reply_tokens, args.spoken_words)

    on_gpu = model._opened.device.startswith("cuda")
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    games = args.games if sharing == "auto" else min(args.games, args.plain_games)
    start, used = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one(number) for number in range(games)))
    seconds, used = time.perf_counter() - start, time.process_time() - used
    counts = model.counts
    for note in model.notes:
        print(f"  note: {note}")
    measured = Measured(
        seconds / games,
        (counts.calls - calls) // games,
        (counts.prompt_tokens - before[0]) // games,
        (counts.computed_tokens - before[1]) // games,
        (counts.pictures - before[2]) // games,
        round((counts.encoded_pictures - before[3]) / games),
        (counts.step_rows - rows) / max(counts.steps - steps, 1),
        (torch.cuda.max_memory_allocated() if on_gpu else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024) / 2**20,
        used / games,
    )
    await model.close()
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=list(SHAPES), default="tiny", help="of the random-weight Qwen2.5-VL")
    parser.add_argument("--model", help="a model folder of one's own instead")
    parser.add_argument("--agents", type=int, nargs="+", default=[3])
    parser.add_argument("--image-tokens", type=int, nargs="+", default=[64], help="of a picture (28 x 28 pixels each)")
    parser.add_argument("--games", type=int, default=8)
    parser.add_argument("--plain-games", type=int, default=2, help="games for (1) and (2), which take longer; all are alike")
    parser.add_argument("--in-flight", type=int, default=8, help="games at a time, for (2) and (3)")
    parser.add_argument("--reply-tokens", type=int, default=32)
    parser.add_argument("--spoken-words", type=int, default=30, help="words that each statement adds to the transcript")
    parser.add_argument("--ways", nargs="+", choices=("one", "batch", "ours"), default=["one", "batch", "ours"])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{args.model or args.shape}; {os.cpu_count()} cores, {torch.get_num_threads()} threads, load {load:.1f} at the start")
    print(
        "agents  image tokens  way    games/min  ratio  CPU s/game  ratio  calls  prompt tokens  computed  "
        "pictures  encoded  rows/step  peak MB"
    )
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.model
        if folder is None:
            from tiny_vlm import save_qwen

            most = max(args.image_tokens) * 28 * 28
            dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(args.dtype, torch.float32)
            torch.set_default_dtype(dtype)
            folder = str(
                save_qwen(Path(scratch), **SHAPES[args.shape], max_pixels=most, context=32_768, corpus=CORPUS, vocabulary=4000)
            )
            torch.set_default_dtype(torch.float32)
        for agents in args.agents:
            for tokens in args.image_tokens:
                side = round(tokens**0.5) * 28
                base = None
                for way in args.ways:
                    sharing = {"one": "none", "batch": "batch", "ours": "auto"}[way]
                    found = asyncio.run(measure(folder, sharing, args, side, agents))
                    base = base or found
                    print(
                        f"{agents:6}  {tokens:12}  {way:5}  {60 / found.seconds:9.2f}  {base.seconds / found.seconds:5.2f}  "
                        f"{found.processor:10.2f}  {base.processor / found.processor:5.2f}  {found.calls:5}  "
                        f"{found.prompt_tokens:13,}  {found.computed_tokens:8,}  {found.pictures:8}  {found.encoded:7}  "
                        f"{found.rows_a_step:9.1f}  {found.peak_mb:7,.0f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
