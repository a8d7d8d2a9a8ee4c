"""The pictures of a run's games, found again by hash, written once each, with where I+ and I- differ."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from mug_eval.atomic import cannot_write
from mug_eval.benchmarks import Benchmark, load_task, open_benchmark
from mug_eval.benchmarks.dataset import file_sha256
from mug_eval.chat import ImageRef
from mug_eval.counterfactual.change import LONG_SIDE, changed_pixels
from mug_eval.counterfactual.features import Picture
from mug_eval.counterfactual.folder import CounterfactualFolder
from mug_eval.errors import QuestionError, RunStopped, UserError
from mug_eval.report.plain_text import without_places
from mug_eval.statistics.runs import Run

Box = tuple[float, float, float, float]
"""(left, top, width, height) as shares of the picture's width and height."""

_MOST_BOXES = 6
_ENDINGS = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp", "image/gif": "gif"}


@dataclass(frozen=True, slots=True)
class Places:
    """Where data may lie that the run's own records do not lead to.

    Attributes:
        data_files: benchmark -> TSV, as the user gave them.
        counterfactuals: folders of pictures I-, as the user gave them.
        roots: folders from which a recorded relative path may start.
    """

    data_files: dict[str, Path] = field(default_factory=dict)
    counterfactuals: tuple[Path, ...] = ()
    roots: tuple[Path, ...] = ()


class PictureBook:
    """Finds and writes the pictures of any number of runs; those with the same data share what was opened."""

    def __init__(self, folder: Path, places: Places) -> None:
        """Make a book.

        Args:
            folder: where picture files go (``img``).
            places: where to look.
        """
        self._folder = folder
        self._places = places
        self._opened: dict[tuple[Any, ...], tuple[Benchmark | None, str]] = {}
        self._written: set[str] = set()
        self._outlines: dict[tuple[str, str], list[Box] | None] = {}
        self._temporary = tempfile.TemporaryDirectory(prefix="mug-eval-view-")

    def close(self) -> None:
        """Drop the copies of the data."""
        self._temporary.cleanup()

    def __enter__(self) -> PictureBook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def pictures(self, run: Run, index: str) -> dict[str, Any]:
        """What the game page shows of a question's pictures.

        Returns:
            ``pictures``: I+ in the prompt's order, each ``{"src", "w", "h"}``; ``altered``: I- with ``at``, the place of the picture
            that it stands for, or None; ``boxes``: where the two differ, None if nearly everywhere; ``note``: why something is not here.

        Raises:
            RunStopped: the disk is full.
        """
        benchmark, note = self._benchmark(run)
        found: dict[str, Any] = {"pictures": [], "altered": None, "boxes": [], "note": note}
        if benchmark is None:
            return found
        try:
            question = benchmark.question(index)
        except (QuestionError, KeyError) as error:
            return {**found, "note": without_places(f"The picture cannot be shown: {error}")}
        found["pictures"] = [self._file(image) for image in question.images]
        if question.altered is None:
            return found
        altered = [part for part in question.altered.prompt if isinstance(part, ImageRef)]
        for at, (true, false) in enumerate(zip(question.images, altered, strict=False)):
            if true.sha256 != false.sha256:
                found["altered"] = {**self._file(false), "at": at}
                found["boxes"] = self._outline(true, false)
                break
        return found

    def _file(self, image: ImageRef) -> dict[str, Any]:
        name = f"{image.sha256}.{_ENDINGS.get(image.media_type, 'png')}"
        if name not in self._written:
            path = self._folder / name
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                path.write_bytes(image.data)
            except OSError as error:
                raise cannot_write(path, error) from error
            self._written.add(name)
        return {"src": f"img/{name}", "w": image.width, "h": image.height}

    def _outline(self, true: ImageRef, false: ImageRef) -> list[Box] | None:
        key = (true.sha256, false.sha256)
        if key not in self._outlines:
            self._outlines[key] = outline(_pixels(true), _pixels(false))
        return self._outlines[key]

    def _benchmark(self, run: Run) -> tuple[Benchmark | None, str]:
        pictures = run.config.get("counterfactuals") or None
        size = run.config.get("image_size")
        key = (run.benchmark, run.config["dataset_sha256"], str(pictures), str(size))
        if key not in self._opened:
            self._opened[key] = self._open(run, pictures, (int(size[0]), int(size[1])) if size else None)
        return self._opened[key]

    def _open(self, run: Run, pictures: Any, size: tuple[int, int] | None) -> tuple[Benchmark | None, str]:
        table = next((path for path in self._tables(run) if _is(path, run.config["dataset_sha256"])), None)
        if table is None:
            return None, (
                "The pictures are not here: the benchmark's file that this run was played with is not where it was. "
                "Give it with --data-file."
            )
        try:
            folder, note = self._counterfactuals(run, pictures, size) if pictures else (None, "")
            benchmark = open_benchmark(
                load_task(run.benchmark),
                work_dir=Path(self._temporary.name),
                data_file=table,
                image_size=size,
                counterfactuals=folder,
            )
        except (UserError, RunStopped) as error:
            return None, without_places(f"The pictures are not here: {error}")
        except (KeyError, TypeError) as error:
            raise UserError(f"run.json is damaged or of an older version ({type(error).__name__}: {error})") from error
        return benchmark, note

    def _tables(self, run: Run) -> Iterator[Path]:
        """Where the benchmark's file may be: as given, the copy that the run kept, where its command took it from, VLMEvalKit's own."""
        if run.benchmark in self._places.data_files:
            yield self._places.data_files[run.benchmark]
        kept = run.folder.parent.parent / ".data" / str(run.config["dataset_sha256"])[:16]
        yield from sorted(kept.glob("*.tsv"))
        for word in _after(run, "--data-file"):
            name, _, path = word.partition("=")
            if name == run.benchmark:
                yield from self._under_roots(path)
        published = os.environ.get("LMUData") or Path.home() / "LMUData"  # noqa: SIM112 (VLMEvalKit spells it so)
        yield Path(published) / f"{load_task(run.benchmark).upstream}.tsv"

    def _counterfactuals(self, run: Run, pictures: Any, size: tuple[int, int] | None) -> tuple[CounterfactualFolder | None, str]:
        changed = False
        given = [path for word in _after(run, "--counterfactuals") for path in self._under_roots(word)]
        stores = sorted((run.folder.parent.parent / "counterfactuals").glob(f"*{run.benchmark}*"))
        for folder in [*self._places.counterfactuals, *given, *stores]:
            try:
                opened = CounterfactualFolder(folder, size=size, match=pictures["match"])
                if opened.sha256 == pictures["sha256"]:
                    return opened, ""
                changed = True
            except UserError:
                continue
        if changed:
            return None, "The altered picture is not shown: its folder has changed since this run."
        return None, "The altered picture is not here: its folder is not where it was. Give it with --counterfactuals."

    def _under_roots(self, recorded: str) -> Iterator[Path]:
        path = Path(recorded).expanduser()
        yield path
        if not path.is_absolute():
            for root in self._places.roots:
                yield root / path


def _after(run: Run, option: str) -> Iterator[str]:
    """The words that the run's command gave to an option."""
    words = [str(word) for word in run.run.get("command") or []]
    taking = False
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            taking = name == option
            if taking and equals:
                yield value
        elif taking:
            yield word


def _is(path: Path, sha256: str) -> bool:
    try:
        return path.is_file() and file_sha256(path) == sha256
    except OSError:
        return False


def _pixels(image: ImageRef) -> Picture:
    with Image.open(io.BytesIO(image.data)) as opened:
        return np.asarray(opened.convert("RGB"), np.uint8)


def outline(before: Picture, after: Picture) -> list[Box] | None:
    """Rectangles around what changed visibly, the largest first; None if most of the picture did, or the sizes differ.

    Measured as ``counterfactual.change`` measures, at no more than its resolution.

    Args:
        before: I+, (height, width, 3).
        after: I-.
    """
    if before.shape != after.shape:
        return None
    scale = min(1.0, LONG_SIDE / max(before.shape[:2]))
    if scale < 1:
        size = (max(1, round(before.shape[1] * scale)), max(1, round(before.shape[0] * scale)))
        before, after = (np.asarray(cv2.resize(p, size, interpolation=cv2.INTER_AREA), np.uint8) for p in (before, after))
    marks = changed_pixels(before, after)
    height, width = marks.shape
    if marks.mean() > 0.5:
        return None
    reach = max(3, round(max(height, width) / 40)) | 1  # parts of one change lie near each other
    near = cv2.morphologyEx(marks.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((reach, reach), np.uint8))
    count, _, parts, _ = cv2.connectedComponentsWithStats(near, connectivity=8)
    largest = sorted((parts[number] for number in range(1, count)), key=lambda part: -int(part[cv2.CC_STAT_AREA]))
    if not largest:
        return []
    least = max(4.0, 0.02 * float(largest[0][cv2.CC_STAT_AREA]))  # a coder's specks are no change
    boxes: list[Box] = []
    edge = max(2, round(max(height, width) / 100))
    for part in [part for part in largest if part[cv2.CC_STAT_AREA] >= least][:_MOST_BOXES]:
        left, top = max(0, int(part[0]) - edge), max(0, int(part[1]) - edge)
        right, bottom = min(width, int(part[0] + part[2]) + edge), min(height, int(part[1] + part[3]) + edge)
        box = (left / width, top / height, (right - left) / width, (bottom - top) / height)
        boxes.append((round(box[0], 4), round(box[1], 4), round(box[2], 4), round(box[3], 4)))
    return boxes
