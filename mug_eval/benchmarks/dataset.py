"""A benchmark that VLMEvalKit's own classes load, prompt and score."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mug_eval.atomic import atomic_write
from mug_eval.benchmarks import vlmeval
from mug_eval.benchmarks.benchmark import CounterfactualSource, Scores
from mug_eval.benchmarks.exchange import exchange_bytes, prediction_text
from mug_eval.benchmarks.prompt import PictureAt, answer_format, build_prompt, build_question, picture_bytes, picture_cells
from mug_eval.benchmarks.score import score_predictions
from mug_eval.benchmarks.table import check_table, restore_words
from mug_eval.benchmarks.task import Task
from mug_eval.errors import RunStopped, UserError
from mug_eval.question import Answer, Question, Unparsed

_MOST_BYTES = 2**30
"""VLMEvalKit unpacks larger tables into picture files in 32 processes (vlmeval.dataset.image_base: prepare_tsv)."""


class VLMEvalBenchmark:
    """One of VLMEvalKit's datasets as a :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""

    def __init__(
        self,
        task: Task,
        dataset: Any,
        *,
        sha256: str,
        notes: tuple[str, ...],
        work_dir: Path,
        image_size: tuple[int, int] | None,
        limit: int | None,
        counterfactuals: CounterfactualSource | None,
    ) -> None:
        """Take a loaded dataset.

        Args:
            task: its description.
            dataset: the instance of VLMEvalKit's class, its table repaired.
            sha256: of the TSV.
            notes: what happened while loading.
            work_dir: where scoring may make its temporary folder.
            image_size: (width, height) for every picture, or None.
            limit: the most rows to be played, or None.
            counterfactuals: where altered pictures come from, or None.
        """
        self.name = task.name
        self.sha256 = sha256
        self.notes = notes
        self._task = task
        self._dataset = dataset
        self._work_dir = work_dir
        self._image_size = image_size
        self._counterfactuals = counterfactuals
        data = dataset.data
        played = data if task.split is None else data[data[task.split[0]] == task.split[1]]
        self.indices: tuple[str, ...] = tuple(str(index) for index in played["index"])[:limit]
        self._rows = {str(index): place for place, index in enumerate(data["index"])}

    def _row(self, index: str) -> Any:
        return self._dataset.data.iloc[self._rows[index]]

    def question(self, index: str) -> Question:
        """See :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""
        row = self._row(index)
        return build_question(self._task, row, build_prompt(self._dataset, row), self._image_size, self._counterfactuals)

    def pictures(self, index: str) -> tuple[tuple[int, bytes], ...]:
        """See :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""
        row = self._row(index)
        encoded = picture_bytes(row)
        places = [part.position for part in build_prompt(self._dataset, row) if isinstance(part, PictureAt)]
        return tuple((position, encoded[position]) for position in places)

    def prediction(self, index: str, answer: Answer | Unparsed) -> str:
        """See :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""
        return prediction_text(answer, answer_format(self._row(index), self._task))

    def write_predictions(self, path: Path, predictions: Mapping[str, str]) -> None:
        """See :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""
        atomic_write(path, exchange_bytes(self._dataset.data, predictions))

    def score(self, predictions_file: Path, judge: str = "exact_matching") -> Scores:
        """See :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""
        return score_predictions(self._task, self._dataset, predictions_file, judge, self._work_dir)

    def cluster(self, index: str) -> str:
        """See :class:`~mug_eval.benchmarks.benchmark.Benchmark`."""
        row = self._row(index)
        key = []
        for part in self._task.cluster:
            if part == "image":
                key.append(hashlib.sha256("\n".join(picture_cells(row)).encode()).hexdigest()[:16])
            elif part.startswith("index."):
                key.append(index.split("_")[int(part.removeprefix("index."))])
            else:
                key.append(str(row[part]))
        return "/".join(key)


def open_dataset(
    task: Task,
    *,
    work_dir: Path,
    data_file: Path | None,
    image_size: tuple[int, int] | None,
    limit: int | None,
    counterfactuals: CounterfactualSource | None,
) -> VLMEvalBenchmark:
    """See :func:`mug_eval.benchmarks.open_benchmark`."""
    notes: list[str] = []
    rows = 0
    source = Path()

    def inspect(path: Path, frame: Any) -> None:
        nonlocal rows, source
        rows, source = len(frame), path
        notes.extend(check_table(path, frame, task))

    if data_file is None and task.drawn:
        raise UserError(
            f"{task.name} is drawn, not downloaded: mug-eval scenes --out DIR writes it; then "
            f"--data-file {task.name}=DIR/{task.name}.tsv --counterfactuals DIR/counterfactuals"
        )
    if data_file is None:
        name, folder, shown = task.upstream, None, f"the published {task.upstream}"
    else:
        folder, sha256 = keep_copy(data_file, work_dir, f"{task.upstream}_local.tsv")
        # A name of its own: one that is in the class's table of checksums would be downloaded over. The scorers and the prompts
        # look for the upstream name inside of it.
        name, shown = f"{task.upstream}_local", str(data_file)
    try:
        dataset = vlmeval.construct(task.loader, name, inspect, folder)
    except UserError as error:
        raise UserError(str(error).replace(f"{name}.tsv", shown)) from error
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        if data_file is None:
            raise UserError(
                f"{task.name}: VLMEvalKit could not load the published set ({type(error).__name__}: {said}): "
                f"give a TSV that you have with --data-file {task.name}=FILE"
            ) from error
        raise UserError(f"{shown}: not a table that VLMEvalKit can read ({type(error).__name__}: {said})") from error
    if data_file is None:
        sha256 = file_sha256(source)
    dataset.data, repairs = restore_words(source, dataset.data, task)
    notes.extend(repairs)
    if task.rows and rows != task.rows:
        notes.append(f"{rows} rows, where the published {task.upstream} has {task.rows}")
    if dataset.data["index"].duplicated().any():
        raise UserError(f"{shown}: two rows have the same index after VLMEvalKit read them as numbers")
    if task.split is not None:
        column, value = task.split
        others = int((dataset.data[column] != value).sum())
        if others == len(dataset.data):
            raise UserError(f"{shown}: no row has {value!r} in column {column}, the split that {task.name} reports")
        if others:
            notes.append(f"{others} rows of other splits than {value} are not played")
    return VLMEvalBenchmark(
        task,
        dataset,
        sha256=sha256,
        notes=tuple(notes),
        work_dir=work_dir,
        image_size=image_size,
        limit=limit,
        counterfactuals=counterfactuals,
    )


def file_sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def keep_copy(data_file: Path, work_dir: Path, name: str) -> tuple[Path, str]:
    """Copy a user's TSV to ``<work_dir>/.data/<first 16 digits of its sha256>/<name>``.

    What is checked is then what is loaded, and VLMEvalKit never writes beside the user's file.

    Returns:
        The folder, and the sha256.

    Raises:
        UserError: there is no such file, or it is too large.
        RunStopped: the disk is full.
    """
    try:
        size = data_file.stat().st_size
        source = data_file.open("rb")
    except OSError as error:
        raise UserError(f"--data-file {data_file}: {error.strerror}") from error
    with source:
        if data_file.is_dir() or size == 0:
            raise UserError(f"--data-file {data_file}: {'a folder' if size else 'empty'}, a TSV is needed")
        if size > _MOST_BYTES:
            raise UserError(f"--data-file {data_file}: larger than 1 GiB, which VLMEvalKit would unpack: split it")
        parent = work_dir / ".data"
        digest = hashlib.sha256()
        temporary = ""
        try:
            parent.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=parent)
            with os.fdopen(descriptor, "wb") as copy:
                while block := source.read(2**20):
                    digest.update(block)
                    copy.write(block)
            sha256 = digest.hexdigest()
            folder = parent / sha256[:16]
            folder.mkdir(exist_ok=True)
            Path(temporary).replace(folder / name)
        except OSError as error:
            if temporary:
                Path(temporary).unlink(missing_ok=True)
            raise RunStopped(f"cannot write {parent}: {error.strerror or error}") from error
    return folder, sha256
