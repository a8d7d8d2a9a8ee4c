"""The most memory that one edit of a huge picture takes: every kind that the opencv editor can do, each in a process of its own.

The picture is soft shapes with grain; two things stand in it and a plate with words, so that every kind can be done. Measured is the
process's peak, with the picture and Python themselves in it, and what the checks and the pixel scores of a build take.

    python bench/edit_memory.py                                   # 100 megapixels, things of 9
    python bench/edit_memory.py --width 4000 --height 3000 --target 600
    python bench/edit_memory.py --kinds remove mirror
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mug_eval.counterfactual.change import measure
from mug_eval.counterfactual.editors import EditFailed, run_edit
from mug_eval.counterfactual.editors.opencv import OpenCVEditor
from mug_eval.counterfactual.plan import Box, EditPlan

KINDS = ("none", "remove", "add", "replace", "recolour", "resize", "move", "retext", "mirror")


def things(width: int, height: int, side: int) -> tuple[Box, Box, Box]:
    """Two things beside each other, and a plate above the gap between them."""
    foot, left = height - height // 10, width // 10
    one, other = (left, foot - side, left + side, foot), (width - left - side, foot - side, width - left, foot)
    middle = width // 2
    return one, other, (middle - side // 2, height // 20, middle + side // 2, height // 20 + side // 4)


def picture(width: int, height: int, side: int) -> Image.Image:
    draw = np.random.default_rng(0)
    ground = cv2.resize(draw.integers(110, 150, (40, 60, 3), np.uint8), (width, height), interpolation=cv2.INTER_CUBIC)
    grain = draw.integers(0, 24, (512, 512, 1), np.uint8)
    for top in range(0, height, 512):
        for left in range(0, width, 512):
            tile = ground[top : top + 512, left : left + 512]
            tile += grain[: tile.shape[0], : tile.shape[1]]
    one, other, plate = things(width, height, side)
    for box, colour in ((one, (200, 40, 40)), (other, (50, 80, 190))):
        middle = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
        cv2.ellipse(ground, middle, (side // 2 - 2, side // 2 - 2), 0, 0, 360, colour, -1)
    made = Image.fromarray(ground)
    pen = ImageDraw.Draw(made)
    pen.rectangle(plate, fill=(235, 235, 225))
    at = (plate[0] + plate[2]) // 2, (plate[1] + plate[3]) // 2
    pen.text(at, "STOP", fill=(25, 25, 30), font=ImageFont.load_default((plate[3] - plate[1]) * 0.7), anchor="mm")
    return made


def plan(kind: str, boxes: tuple[Box, Box, Box]) -> EditPlan:
    one, other, plate = boxes
    side = one[2] - one[0]
    beside = one[2] + side // 4, one[1], one[2] + side // 4 + side, one[3]
    return {
        "remove": EditPlan("remove", "ball", one),
        "add": EditPlan("add", "ball", one, "", beside),
        "replace": EditPlan("replace", "ball", one, "blue ball", other),
        "recolour": EditPlan("recolour", "ball", one, "green"),
        "resize": EditPlan("resize", "ball", one, "smaller"),
        "move": EditPlan("move", "ball", one, "", beside),
        "retext": EditPlan("retext", 'plate "STOP"', plate, "SLOW"),
        "mirror": EditPlan("mirror", "ball", one, "", other),
    }[kind]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--width", type=int, default=12_000)
    arguments.add_argument("--height", type=int, default=8_300)
    arguments.add_argument("--target", type=int, default=3_000, help="side of a thing, pixels")
    arguments.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    arguments.add_argument("--alone", action="store_true", help="the one kind named, in this process")
    options = arguments.parse_args()
    if not options.alone:
        size = ["--width", str(options.width), "--height", str(options.height), "--target", str(options.target)]
        print("| edit | peak GB | seconds |\n|---|---|---|", flush=True)
        for kind in options.kinds:
            subprocess.run([sys.executable, __file__, *size, "--alone", "--kinds", kind], check=True)
        return 0
    (kind,) = options.kinds
    before, boxes = picture(options.width, options.height, options.target), things(options.width, options.height, options.target)
    start, said = time.perf_counter(), ""
    if kind != "none":
        editor = OpenCVEditor()
        try:
            after = run_edit(editor, before, plan(kind, boxes), 1)
            measure(np.asarray(before), np.asarray(after), editor.places(before, plan(kind, boxes), 1))
        except EditFailed as failure:
            said = f" ({failure.reason})"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"| {kind}{said} | {peak:.1f} | {time.perf_counter() - start:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
