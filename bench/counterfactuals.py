"""What scoring edits costs, one at a time and many at once, on one CPU thread with a small vision transformer.

CPU time, so that a busy machine does not count. Weights are drawn, which does not change the time.

    python bench/counterfactuals.py
    python bench/counterfactuals.py --model vit_small_patch16_224 --pairs 64 --threads 4
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import cv2
import numpy as np
import torch

from mug_eval.counterfactual.change import measure
from mug_eval.counterfactual.constraints import Judges, Pair, natural, score
from mug_eval.counterfactual.features import features, timm_features


def pairs(count: int, tries: int) -> list[Pair]:
    """Edits of pictures of a photograph's size, ``tries`` of each."""
    made = []
    for number in range(count):
        draw = np.random.default_rng((number // tries, 0))
        before = cv2.resize(draw.integers(0, 256, (24, 32, 3), np.uint8), (448, 336), interpolation=cv2.INTER_CUBIC)
        after = before.copy()
        cv2.circle(after, (200, 150), 40, np.random.default_rng(number).integers(0, 256, 3).tolist(), -1)
        made.append(Pair(before, after, ((155.0, 105.0, 245.0, 195.0),)))
    return made


def cpu_seconds(work: Callable[[], Any]) -> float:
    """The best of two."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def by_part(every: Sequence[Pair], network: Any, batch: int) -> dict[str, float]:
    pictures = [picture for pair in every for picture in (pair.before, pair.after)]
    patches = network.patches(pictures[:2]).reshape(2, -1, network.patches(pictures[:1]).shape[-1])
    half = np.repeat(patches[:1], batch, 0), np.repeat(patches[1:], batch, 0)
    return {
        "pixels (change, local, seam)": cpu_seconds(lambda: [measure(p.before, p.after, p.boxes) for p in every]) / len(every),
        "the network, two pictures alone": cpu_seconds(lambda: network.embed(pictures[:2])),
        f"the network, two of {batch} pictures": cpu_seconds(lambda: network.embed(pictures[:batch])) / batch * 2,
        "Frechet distance alone": cpu_seconds(lambda: natural(patches[:1], patches[1:])),
        f"Frechet distance, one of {batch}": cpu_seconds(lambda: natural(*half)) / batch,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vit_tiny_patch16_224")
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    cv2.setNumThreads(args.threads)
    network = timm_features(args.model, weights=False)
    handmade = features("handmade")
    print(f"{args.model}, {args.threads} thread(s), batch {args.batch}; CPU ms a pair\n")
    print("| judges | tries of each original | each constraint for itself | one at a time | in one pass |\n|---|---|---|---|---|")
    for title, judges in ((args.model, Judges(network, network, network)), ("handmade", Judges(handmade, handmade, handmade))):
        for tries in (1, 4):
            every = pairs(args.pairs, tries)
            apart = Judges(*(replace(judges.visual) for _ in range(3)))  # equal, but not the same: each embeds anew
            costs = [
                cpu_seconds(lambda every=every, by=by: [score([pair], by) for pair in every]) / len(every) for by in (apart, judges)
            ]
            costs.append(cpu_seconds(lambda every=every, judges=judges: score(every, judges, args.batch)) / len(every))
            print(
                f"| {title} | {tries} | " + " | ".join(f"{1000 * c:.1f} ({c / costs[-1]:.2f}x)" for c in costs) + " |", flush=True
            )
    print("\n| part | CPU ms a pair |\n|---|---|")
    for part, seconds in by_part(pairs(args.pairs, 1), network, args.batch).items():
        print(f"| {part} | {1000 * seconds:.1f} |")


if __name__ == "__main__":
    main()
