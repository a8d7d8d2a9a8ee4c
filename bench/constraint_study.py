"""Known-good and known-bad edits of photographs through the constraints: the defaults are chosen on some, the table shows others.

Chosen on: scikit-image's photographs (targets marked by hand below) and, where the folder ``shared/data`` is beside the repository, the
photographs of its photo_pope (targets are where its edited pictures differ). Held out: those of its other files.
Good: a recolour in the target's mask, the same stored as JPEG of quality 85, a removal by inpainting from smooth ground, a removal without
a trace (the photograph itself, its original being the photograph with a thing put in), a thing put in. Bad: nothing done, JPEG of quality
30, blur, another photograph, a block in the target's place (grey, noise, or cut from another photograph), a block elsewhere beside nothing
or beside a good edit.

    python bench/constraint_study.py                                  # every kind of features that can be loaded
    python bench/constraint_study.py --features handmade --sheet sheet.png
    python bench/constraint_study.py --features timm:vit_base_patch16_224+open_clip:ViT-B-32/laion2b_s34b_b79k
"""

from __future__ import annotations

import argparse
import ast
import base64
import csv
import hashlib
import io
import itertools
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mug_eval.counterfactual.constraints import Judges, Pair, Rule, Scores, default_rule, judge, score
from mug_eval.counterfactual.features import features, lab_of
from mug_eval.errors import UserError
from mug_eval.seeds import derive_seed

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"

WEIGHTS = ("alpha", "beta", "gamma", "least_vs", "least_sc", "least_na")

# An ellipse around one thing of each of scikit-image's photographs: (left, top, right, bottom) as shares of the sides.
MARKED = {
    "astronaut.png": (0.31, 0.03, 0.58, 0.38),
    "brick.png": (0.55, 0.30, 0.85, 0.48),
    "camera.png": (0.48, 0.14, 0.66, 0.36),
    "chelsea.png": (0.30, 0.26, 0.45, 0.50),
    "clock_motion.png": (0.35, 0.30, 0.60, 0.65),
    "coffee.png": (0.22, 0.10, 0.68, 0.72),
    "coins.png": (0.03, 0.08, 0.17, 0.30),
    "gravel.png": (0.40, 0.40, 0.62, 0.60),
    "ihc.png": (0.20, 0.30, 0.45, 0.60),
    "moon.png": (0.50, 0.05, 0.75, 0.35),
    "motorcycle_left.png": (0.55, 0.50, 0.85, 0.95),
    "retina.jpg": (0.10, 0.40, 0.30, 0.62),
    "rocket.jpg": (0.45, 0.20, 0.58, 0.78),
}


@dataclass(frozen=True, eq=False)
class Photo:
    """A photograph, and the mask (0..1, float) of the thing that edits are about."""

    name: str
    picture: Any
    mask: Any
    held_out: bool = False

    @property
    def box(self) -> tuple[int, int, int, int]:
        return box_of(self.mask > 0.5)


@dataclass(frozen=True, eq=False)
class Case:
    photo: Photo
    kind: str
    good: bool
    pair: Pair


def photographs() -> Iterator[Photo]:
    import skimage.data

    folder = Path(skimage.data.__file__).parent
    for name, share in MARKED.items():
        bgr = cv2.imread(str(folder / name), cv2.IMREAD_COLOR)
        scale = 448 / max(bgr.shape[:2])
        picture = cv2.cvtColor(cv2.resize(bgr, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), cv2.COLOR_BGR2RGB)
        height, width = picture.shape[:2]
        left, top, right, bottom = (round(value * side) for value, side in zip(share, (width, height) * 2, strict=True))
        mask = np.zeros((height, width), np.uint8)
        cv2.ellipse(mask, ((left + right) // 2, (top + bottom) // 2), ((right - left) // 2, (bottom - top) // 2), 0, 0, 360, 1, -1)
        yield Photo(name, picture, feathered(mask))
    if not SHARED.is_dir():
        return
    originals, rows = {}, {}
    csv.field_size_limit(1 << 30)
    for name in ("pope", "hallusion", "mmstar", "mmmu"):
        with (SHARED / f"photo_{name}.tsv").open(newline="") as file:
            rows[name] = list(csv.DictReader(file, delimiter="\t"))
    for row in rows["pope"]:
        data = base64.b64decode(row["image"])
        originals[hashlib.sha256(data).hexdigest()] = decoded(data)
    for line in (SHARED / "counterfactuals" / "manifest.jsonl").read_text().splitlines():
        entry = json.loads(line)
        before, after = originals[entry["image_sha256"]], decoded((SHARED / "counterfactuals" / entry["file"]).read_bytes())
        yield from edited(entry["file"], entry["edit"], before, after, held_out=False)
    seen = set(originals)
    figures: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows["hallusion"]:
        figures.setdefault(row["set_id"], {})[row["figure_id"]] = row
    for number, figure in figures.items():
        data = base64.b64decode(figure["1"]["image"])
        if hashlib.sha256(data).hexdigest() not in seen:
            seen.add(hashlib.sha256(data).hexdigest())
            after = decoded(base64.b64decode(figure["2"]["image"]))
            yield from edited(f"hallusion {number}", figure["2"]["edit"], decoded(data), after, held_out=True)
    for name in ("mmstar", "mmmu"):
        for row in rows[name]:
            cells = ast.literal_eval(row["image"]) if row["image"].startswith("[") else [row["image"]]
            for data in map(base64.b64decode, cells):
                if hashlib.sha256(data).hexdigest() not in seen:
                    seen.add(hashlib.sha256(data).hexdigest())
                    yield from cut(f"{name} {row['index']}", decoded(data))


def edited(name: str, edit: str, before: Any, after: Any, held_out: bool) -> Iterator[Photo]:
    """A photograph of which an edit shows where a thing is; of a duplicate, the edit, whose thing is the copy."""
    if before.shape == after.shape and (mask := difference(before, after)).sum() >= 200:
        yield Photo(name, after if edit == "duplicate" else before, feathered(mask), held_out)


def cut(name: str, picture: Any) -> Iterator[Photo]:
    """A photograph of which nothing is known: what GrabCut takes for the thing in a box drawn by seed, if it finds any."""
    height, width = picture.shape[:2]
    draw = np.random.default_rng(derive_seed("constraint study", "box", name))
    for _ in range(20):
        wide, tall = int(width * draw.uniform(0.15, 0.4)), int(height * draw.uniform(0.15, 0.4))
        left, top = int(draw.integers(2, width - wide - 2)), int(draw.integers(2, height - tall - 2))
        marks = np.zeros((height, width), np.uint8)
        cv2.setRNGSeed(0)
        cv2.grabCut(picture, marks, (left, top, wide, tall), np.zeros((1, 65)), np.zeros((1, 65)), 4, cv2.GC_INIT_WITH_RECT)
        kept = ((marks == cv2.GC_FGD) | (marks == cv2.GC_PR_FGD)).astype(np.uint8)
        kept = cv2.morphologyEx(kept, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
        if 0.2 < kept.sum() / (wide * tall) < 0.95:
            yield Photo(name, picture, feathered(kept), True)
            return


def difference(before: Any, after: Any) -> Any:
    """The mask of what an edit of shared/data changed: blobs at least a tenth as large as the largest, their holes filled."""
    apart = cv2.absdiff(cv2.GaussianBlur(before, (0, 0), 1), cv2.GaussianBlur(after, (0, 0), 1)).max(2)
    marks = cv2.morphologyEx((apart > 14).astype(np.uint8), cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    _, labels, facts, _ = cv2.connectedComponentsWithStats(marks)
    sizes = facts[1:, cv2.CC_STAT_AREA]
    kept = np.isin(labels, 1 + np.flatnonzero(sizes >= sizes.max() / 10)).astype(np.uint8)
    return cv2.morphologyEx(kept, cv2.MORPH_CLOSE, np.ones((9, 9), np.uint8))


def decoded(data: bytes) -> Any:
    return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)


def jpeg(picture: Any, quality: int) -> Any:
    return decoded(cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes())


def feathered(mask: Any) -> Any:
    return cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 1.2)


def box_of(marks: Any) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero(marks)
    return int(columns.min()), int(rows.min()), int(columns.max()) + 1, int(rows.max()) + 1


def loose(box: tuple[int, int, int, int]) -> tuple[float, float, float, float]:
    """A box as a planner gives it: not to the pixel."""
    x, y = (box[2] - box[0]) * 0.05, (box[3] - box[1]) * 0.05
    return box[0] - x, box[1] - y, box[2] + x, box[3] + y


def blended(under: Any, over: Any, mask: Any) -> Any:
    return np.clip(under * (1 - mask[..., None]) + over * mask[..., None] + 0.5, 0, 255).astype(np.uint8)


def recoloured(photo: Photo, draw: np.random.Generator) -> Any:
    """Another hue of at least that much colour; lightness, and so the shading, stays."""
    lab = lab_of(photo.picture).copy()
    angle = draw.uniform(0, 2 * np.pi)
    old = np.hypot(*lab[photo.mask > 0.5, 1:].mean(0))
    lab[..., 1:] += np.array([np.cos(angle), np.sin(angle)]) * max(45, 1.5 * old)
    return blended(photo.picture, 255 * np.clip(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB), 0, 1), photo.mask)


def placed(photo: Photo, thing: Photo, draw: np.random.Generator) -> tuple[Any, Any]:
    """A thing from another photograph on the smoothest of 40 places, as (picture, mask)."""
    left, top, right, bottom = thing.box
    height, width = photo.picture.shape[:2]
    scale = draw.uniform(0.12, 0.25) * max(height, width) / max(right - left, bottom - top)
    cut, mask = (
        cv2.resize(part[top:bottom, left:right], None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        for part in (thing.picture, thing.mask)
    )
    mask = np.pad(mask, 3)
    cut = np.pad(cut, ((3, 3), (3, 3), (0, 0)), mode="edge")
    tall, wide = mask.shape
    light = lab_of(photo.picture)[..., 0]
    places = [(int(draw.integers(0, height - tall)), int(draw.integers(0, width - wide))) for _ in range(40)]
    row, column = min(places, key=lambda place: light[place[0] : place[0] + tall, place[1] : place[1] + wide].std())
    full, over = np.zeros((height, width), np.float32), photo.picture.copy()
    full[row : row + tall, column : column + wide] = mask
    over[row : row + tall, column : column + wide] = cut
    return blended(photo.picture, over, full), full


def block(picture: Any, box: tuple[int, int, int, int], fill: str, other: Any, draw: np.random.Generator) -> Any:
    left, top, right, bottom = box
    out = picture.copy()
    if fill == "grey":
        out[top:bottom, left:right] = 128
    elif fill == "noise":
        out[top:bottom, left:right] = draw.integers(0, 256, out[top:bottom, left:right].shape)
    else:
        out[top:bottom, left:right] = cv2.resize(other, (right - left, bottom - top), interpolation=cv2.INTER_AREA)
    return out


def elsewhere(shape: tuple[int, ...], box: tuple[int, int, int, int], draw: np.random.Generator) -> tuple[int, int, int, int]:
    """A block of a tenth of the sides or more that overlaps the box as little as any of 40."""
    wide, tall = (int(side * draw.uniform(0.15, 0.25)) for side in (shape[1], shape[0]))
    corners = [(int(draw.integers(0, shape[1] - wide)), int(draw.integers(0, shape[0] - tall))) for _ in range(40)]

    def shared(corner: tuple[int, int]) -> int:
        x = min(corner[0] + wide, box[2]) - max(corner[0], box[0])
        y = min(corner[1] + tall, box[3]) - max(corner[1], box[1])
        return max(0, x) * max(0, y)

    left, top = min(corners, key=shared)
    return left, top, left + wide, top + tall


def cases(photos: list[Photo]) -> Iterator[Case]:
    for number, photo in enumerate(photos):
        draw = np.random.default_rng(derive_seed("constraint study", photo.name))
        half = [other for other in photos if other.held_out == photo.held_out and other is not photo]  # nothing crosses over
        other = half[derive_seed("other", photo.name) % len(half)]
        picture, box, boxes = photo.picture, photo.box, (loose(photo.box),)
        size = picture.shape[1::-1]
        stranger = cv2.resize(other.picture, size, interpolation=cv2.INTER_AREA)
        colour = recoloured(photo, draw)
        peopled, mask = placed(photo, other, draw)
        new = (loose(box_of(mask > 0.5)),)
        ground = cv2.inpaint(peopled, (cv2.dilate(mask, np.ones((5, 5))) > 0.02).astype(np.uint8), 3, cv2.INPAINT_TELEA)
        away = elsewhere(picture.shape, box, draw)
        yield Case(photo, "recolour", True, Pair(picture, colour, boxes))
        yield Case(photo, "recolour, stored as JPEG q85", True, Pair(picture, jpeg(colour, 85), boxes))
        yield Case(photo, "removal, inpainted", True, Pair(peopled, ground, new))
        yield Case(photo, "removal, without a trace", True, Pair(peopled, picture, new))
        yield Case(photo, "thing added", True, Pair(picture, peopled, new))
        yield Case(photo, "nothing done", False, Pair(picture, picture.copy(), boxes))
        yield Case(photo, "JPEG q30", False, Pair(picture, jpeg(picture, 30), boxes))
        yield Case(photo, "blur", False, Pair(picture, cv2.GaussianBlur(picture, (0, 0), 3), boxes))
        yield Case(photo, "another photograph", False, Pair(picture, stranger, boxes))
        fill = ("grey", "noise", "cut from another")[number % 3]
        yield Case(photo, "block on the target", False, Pair(picture, block(picture, box, fill, stranger, draw), boxes))
        yield Case(photo, "block elsewhere", False, Pair(picture, block(picture, away, fill, stranger, draw), boxes))
        yield Case(photo, "recolour and a block elsewhere", False, Pair(picture, block(colour, away, fill, stranger, draw), boxes))


def by_kind(measured: list[tuple[Case, Scores]], rule: Rule) -> dict[tuple[bool, str], float]:
    """Share judged rightly, by (good, kind)."""
    kinds: dict[tuple[bool, str], list[bool]] = {}
    for case, scores in measured:
        kinds.setdefault((case.good, case.kind), []).append(judge(scores, rule).accepted == case.good)
    return {key: float(np.mean(right)) for key, right in kinds.items()}


def rates(measured: list[tuple[Case, Scores]], rule: Rule) -> tuple[float, float]:
    """Share of good cases accepted and of bad ones rejected, each kind weighing the same."""
    shares = by_kind(measured, rule)
    good, bad = ([share for (side, _), share in shares.items() if side is which] for which in (True, False))
    return float(np.mean(good)), float(np.mean(bad))


def chosen(measured: list[tuple[Case, Scores]]) -> Rule:
    """c as strict as costs one in a hundred of the good edits; then floors from a grid, by the kind that they judge worst.

    Among equals by the mean over kinds, then the most lenient.
    """
    sums = [judge(scores, Rule()).total for case, scores in measured if case.good]
    c = math.floor(100 * float(np.quantile(sums, 0.01))) / 100
    grid = itertools.product((0.05, 0.08, 0.12), (0.97, 0.98, 0.985, 0.99, 0.995), (0.3, 0.4, 0.5, 0.6))
    rules = [Rule(c=c, least_change=change, least_local=local, least_seam=seam) for change, local, seam in grid]
    return max(rules, key=lambda rule: (round(min(by_kind(measured, rule).values()), 6), round(sum(rates(measured, rule)), 6)))


def table(measured: list[tuple[Case, Scores]], rule: Rule) -> str:
    lines = ["| edit | n | judged rightly | C_vs | C_sc | C_na | C_change | C_local | C_seam | rejected by |", "|---" * 10 + "|"]
    for kind in dict.fromkeys(case.kind for case, _ in measured):
        mine = [(case, scores) for case, scores in measured if case.kind == kind]
        verdicts = [judge(scores, rule) for _, scores in mine]
        right = sum(verdict.accepted == case.good for verdict, (case, _) in zip(verdicts, mine, strict=True))
        medians = np.median([list(asdict(scores).values()) for _, scores in mine], axis=0)
        by: dict[str, int] = {}
        for name in itertools.chain.from_iterable(verdict.rejected for verdict in verdicts):
            by[name] = by.get(name, 0) + 1
        reasons = ", ".join(f"{name} {count}" for name, count in sorted(by.items(), key=lambda item: -item[1]))
        values = " | ".join(f"{value:.3f}" for value in medians)
        side = "good" if mine[0][0].good else "bad"
        lines.append(f"| {side}: {kind} | {len(mine)} | {right / len(mine):.0%} | {values} | {reasons} |")
    return "\n".join(lines)


def sheet(every: list[Case], path: Path) -> None:
    """Original and edit side by side, a photograph a row, the boxes drawn."""
    rows = []
    for photo in dict.fromkeys(case.photo for case in every):
        tiles = []
        for case in (case for case in every if case.photo is photo):
            for picture in (case.pair.before, case.pair.after) if case.kind == "removal, inpainted" else (case.pair.after,):
                small = picture.copy()
                left, top, right, bottom = (round(value) for value in case.pair.boxes[0])
                cv2.rectangle(small, (left, top), (right, bottom), (255, 0, 0), 2)
                tiles.append(cv2.resize(small, (150, 112), interpolation=cv2.INTER_AREA))
        rows.append(np.hstack(tiles))
    path.write_bytes(cv2.imencode(".png", cv2.cvtColor(np.vstack(rows), cv2.COLOR_RGB2BGR))[1].tobytes())


def judges_of(names: str) -> Judges:
    """``A`` judges all; ``A+B``: A for C_vs and C_na, B for C_sc."""
    loaded = [features(name) for name in names.split("+")]
    return Judges(loaded[0], loaded[-1], loaded[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", nargs="+", default=["handmade", "reference", "efficientnet-lite0"])
    parser.add_argument("--sheet", type=Path, help="also draw every case into this PNG")
    args = parser.parse_args()
    photos = list(photographs())
    every = list(cases(photos))
    out = sum(photo.held_out for photo in photos)
    print(f"{len(photos)} photographs, {len(every)} cases; chosen on {len(photos) - out} photographs, {out} held out")
    if args.sheet:
        sheet(every, args.sheet)
    for names in args.features:
        try:
            judges = judges_of(names)
        except UserError as error:
            print(f"\n## {names}: left out, {error}")
            continue
        scores = score([case.pair for case in every], judges)
        split: dict[bool, list[tuple[Case, Scores]]] = {True: [], False: []}
        for case, one in zip(every, scores, strict=True):
            split[case.photo.held_out].append((case, one))
        for title, rule in (("chosen here", chosen(split[False])), ("default", default_rule(judges))):
            said = ", ".join(f"{name} {value:.3g}" for name, value in asdict(rule).items() if name not in WEIGHTS)
            print(f"\n## {names}, the rule {title}: {said}")
            for side, name in ((False, "chosen on"), (True, "held out")):
                if split[side]:
                    good, bad = rates(split[side], rule)
                    print(f"{name}: accepts {good:.1%} of the good, rejects {bad:.1%} of the bad (kinds weigh the same)")
        shown = split[True] or split[False]
        print(f"\n{'Held out' if split[True] else 'Chosen on'}, by kind, the default rule:\n\n{table(shown, default_rule(judges))}")


if __name__ == "__main__":
    sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", line_buffering=True)
    main()
