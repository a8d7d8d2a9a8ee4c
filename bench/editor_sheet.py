"""Contact sheets of what the opencv editor makes of photographs: I+ with the target's box, I-, and where they differ.

    python bench/editor_sheet.py --out sheet.jpg            # one row an edit
    python bench/editor_sheet.py --out all.png --every      # every kind of edit of every photograph
    python bench/editor_sheet.py --out docs/opencv-edits.jpg --packaged --columns 3 --tile 150    # the sheet in the docs

The photographs are those that scikit-image and matplotlib are installed with, and the trial photographs in ../shared/data where
that folder is beside the repository. The boxes were read off by eye, or from the differences of the trial set's own edits.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mug_eval.counterfactual.editors import EditFailed, as_picture, run_edit
from mug_eval.counterfactual.editors.opencv import OpenCVEditor
from mug_eval.counterfactual.plan import Box, EditPlan

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


@dataclass(frozen=True)
class Photo:
    """A photograph with a thing in it, and the edits that the short sheet shows."""

    file: str
    target: str
    box: Box
    edits: tuple[str, ...]
    other: Box | None = None


PHOTOS = (
    Photo("skimage:astronaut.png", "mission badge", (133, 348, 210, 424), ("remove", "recolour green", "move")),
    Photo("skimage:coffee.png", "spoon", (323, 68, 426, 327), ("remove",)),
    Photo("skimage:chelsea.png", "left eye", (135, 86, 208, 146), ("recolour blue", "resize larger")),
    Photo("skimage:rocket.jpg", "rocket", (306, 128, 337, 412), ("remove", "add", "resize smaller")),
    Photo("skimage:coins.png", "coin", (130, 27, 181, 77), ("remove", "resize larger", "mirror"), (310, 18, 365, 70)),
    Photo("skimage:camera.png", "white tower", (411, 113, 436, 175), ("remove", "move", "add")),
    Photo("skimage:motorcycle_left.png", "motorcycle", (111, 80, 688, 453), ("recolour blue",)),
    Photo("skimage:page.png", 'heading "Region-based segmentation"', (3, 6, 295, 38), ("retext Edge-based completion",)),
    Photo("skimage:hubble_deep_field.jpg", "galaxy", (945, 462, 992, 507), ("remove", "recolour blue")),
    Photo("matplotlib:grace_hopper.jpg", "cap", (162, 21, 373, 151), ("recolour dark red",)),
    Photo("000000000724.jpg", 'sign "STOP"', (98, 59, 238, 212), ("remove", "recolour blue")),
    Photo("000000000724.jpg", 'word "STOP"', (116, 108, 222, 156), ("retext SLOW",)),
    Photo("000000000776.jpg", "teddy bear", (0, 190, 229, 448), ("recolour green",)),
    Photo("000000000802.jpg", "oven", (15, 193, 120, 374), ()),
    Photo("000000000872.jpg", "player", (94, 62, 315, 393), ("remove",)),
    Photo("000000001296.jpg", "phone", (206, 97, 265, 198), ("recolour yellow",)),
    Photo("000000001353.jpg", "train", (50, 286, 236, 424), ("recolour purple",)),
    Photo("000000001425.jpg", "sandwich", (43, 126, 312, 285), ()),
    Photo("000000001503.jpg", "tv", (122, 9, 240, 105), ()),
    Photo("000000001584.jpg", "bus", (357, 222, 424, 292), ("recolour yellow", "remove", "resize smaller")),
    Photo("000000001993.jpg", "bed", (177, 132, 435, 293), ("recolour dark green",)),
    Photo("000000002149.jpg", "apple", (63, 62, 242, 233), ("recolour orange",)),
    Photo("000000002157.jpg", "glass", (152, 29, 215, 151), ("remove",)),
    Photo("000000002473.jpg", "skier", (167, 64, 265, 185), ("remove", "add", "move left")),
    Photo("000000002587.jpg", "doughnut", (150, 5, 380, 242), ()),
    Photo("000000003156.jpg", "toilet", (178, 170, 310, 434), ("recolour pink",)),
    Photo("000000003501.jpg", "broccoli", (47, 119, 196, 274), ("remove",)),
    Photo("000000003553.jpg", "skateboard", (121, 174, 265, 269), ("recolour red",)),
    Photo("000000003934.jpg", "person", (49, 125, 193, 427), ("remove",)),
    Photo("000000004765.jpg", "surfboard", (186, 243, 397, 314), ("recolour red", "remove")),
    Photo("000000005529.jpg", "skier", (48, 73, 187, 324), ("remove",)),
    Photo("000000006040.jpg", "train", (40, 55, 424, 219), ("recolour green",)),
    Photo("000000006460.jpg", "person", (189, 89, 240, 153), ("remove", "add", "mirror"), (130, 89, 180, 153)),
    Photo("000000006471.jpg", "batter", (223, 55, 324, 277), ("remove", "move", "resize larger")),
    Photo("000000006614.jpg", "apple", (14, 34, 434, 229), ()),
)
EVERY = ("remove", "recolour red", "recolour blue", "add", "move", "resize smaller", "resize larger")


def trial_photos() -> dict[str, bytes]:
    """COCO file name -> JPEG of the trial set; empty where it is not there."""
    manifest = SHARED / "counterfactuals" / "manifest.jsonl"
    if not manifest.is_file():
        return {}
    csv.field_size_limit(1 << 30)
    with (SHARED / "photo_pope.tsv").open(encoding="utf-8", newline="") as table:
        pictures = [base64.b64decode(row["image"]) for row in csv.DictReader(table, delimiter="\t")]
    by_hash = {hashlib.sha256(picture).hexdigest(): picture for picture in pictures}
    entries = [json.loads(line) for line in manifest.read_text(encoding="utf-8").splitlines()]
    return {entry["coco_file"]: by_hash[entry["image_sha256"]] for entry in entries}


def read(photo: Photo, trial: dict[str, bytes]) -> Image.Image | None:
    package, _, name = photo.file.rpartition(":")
    if not package:
        return as_picture(trial[name]) if name in trial else None
    folder = files("skimage") / "data" if package == "skimage" else files("matplotlib") / "mpl-data" / "sample_data"
    return as_picture((folder / name).read_bytes())


def plan(photo: Photo, edit: str) -> EditPlan:
    kind, _, to = edit.partition(" ")
    return EditPlan(kind, photo.target, photo.box, to, photo.other if kind == "mirror" else None)  # type: ignore[arg-type]


def difference(before: Image.Image, after: Image.Image) -> Image.Image:
    """Black where nothing changed, white from 64 levels on."""
    apart = np.abs(np.asarray(before).astype(int) - np.asarray(after).astype(int)).max(axis=2)
    return Image.fromarray(np.minimum(255, apart * 4).astype(np.uint8)).convert("RGB")


def boxed(picture: Image.Image, photo: Photo, edit: str) -> Image.Image:
    picture = picture.copy()
    pen = max(2, max(picture.size) // 150)
    draw = ImageDraw.Draw(picture)
    draw.rectangle(photo.box, outline=(255, 230, 0), width=pen)
    if photo.other and edit == "mirror":
        draw.rectangle(photo.other, outline=(0, 230, 255), width=pen)
    return picture


def tile(picture: Image.Image, caption: str, side: int) -> Image.Image:
    tiled = Image.new("RGB", (side, side + 14), "white")
    picture = picture.copy()
    picture.thumbnail((side - 4, side - 4), Image.Resampling.LANCZOS)
    tiled.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
    ImageDraw.Draw(tiled).text((3, side - 1), caption[: side // 5], fill="black", font=ImageFont.load_default(10))
    return tiled


def rows(every: bool, packaged: bool, seed: int, side: int, say: Callable[[str], None]) -> Iterator[list[Image.Image]]:
    editor, trial = OpenCVEditor(), {} if packaged else trial_photos()
    for photo in PHOTOS:
        before = read(photo, trial)
        if before is None:
            continue
        row = [tile(boxed(before, photo, ""), photo.target, side)]
        for edit in EVERY if every else photo.edits:
            if not every:
                row = [tile(boxed(before, photo, edit), photo.target, side)]
            start = time.perf_counter()
            try:
                after = run_edit(editor, before, plan(photo, edit), seed)
                row.append(tile(after, edit, side))
                if not every:
                    row.append(tile(difference(before, after), "", side))
            except EditFailed as failure:
                say(f"{photo.file} {photo.target}: {edit}: {failure.reason}")
                if every:
                    row.append(tile(Image.new("RGB", before.size, (60, 60, 60)), f"{edit}: {failure.reason}", side))
            say(f"{photo.file} {before.width}x{before.height} {photo.target}: {edit}: {time.perf_counter() - start:.2f} s")
            if not every and len(row) > 1:
                yield row
        if every:
            yield row


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--every", action="store_true", help="every kind of edit of every photograph")
    arguments.add_argument("--packaged", action="store_true", help="without the trial photographs, which may not be republished")
    arguments.add_argument("--tile", type=int, default=200, help="side of a picture on the sheet, pixels")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--columns", type=int, default=2, help="edits beside each other in the short sheet")
    options = arguments.parse_args()
    made = list(rows(options.every, options.packaged, options.seed, options.tile, lambda line: print(line, file=sys.stderr)))
    across = 1 if options.every else options.columns
    wide, high = max(len(row) for row in made) * options.tile + 8, options.tile + 14
    sheet = Image.new("RGB", (across * wide, -(-len(made) // across) * high), "white")
    for number, row in enumerate(made):
        for column, picture in enumerate(row):
            sheet.paste(picture, (number % across * wide + column * options.tile, number // across * high))
    sheet.save(options.out, quality=80)
    print(f"{len(made)} rows in {options.out}, {options.out.stat().st_size // 1000} kB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
