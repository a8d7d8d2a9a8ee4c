"""What a submission is made from: a whole run, and the benchmark's own table."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mug_eval.benchmarks import Task, load_task, open_benchmark
from mug_eval.errors import UserError
from mug_eval.leaderboard.entry import is_published, whole
from mug_eval.statistics.runs import Run


@dataclass(frozen=True, slots=True)
class Answered:
    """One question and what the run answered.

    Attributes:
        index: of the row.
        row: the table's row as text, pictures left out.
        answer: a letter, Yes or No, or an open answer; None where the run gave none.
    """

    index: str
    row: Mapping[str, str]
    answer: str | None


@dataclass(frozen=True, slots=True)
class Source:
    """A run that may be submitted.

    Attributes:
        run: the run.
        task: its benchmark.
        answered: every question of the benchmark, in the table's order.
    """

    run: Run
    task: Task
    answered: tuple[Answered, ...]

    @property
    def unparsed(self) -> list[str]:
        """Indices of the questions without an answer."""
        return [one.index for one in self.answered if one.answer is None]


@dataclass(frozen=True, slots=True)
class Written:
    """What a format made of a run.

    Attributes:
        files: name -> content. One file takes the name that the user gave; several are put into that folder.
        notes: what whoever submits it should know, one line each.
    """

    files: Mapping[str, bytes]
    notes: tuple[str, ...] = field(default=())


def check_run(run: Run, upstream: Sequence[str], leaderboard: str, *, rehearsal: bool) -> Task:
    """See that a run may be submitted to a leaderboard.

    Args:
        run: complete, as it was read.
        upstream: the benchmarks that the leaderboard takes, by VLMEvalKit's names.
        leaderboard: for messages.
        rehearsal: whether other questions in the benchmark's format will do.

    Raises:
        UserError: another benchmark, questions owed or left out, or other questions than the published ones.
    """
    task = load_task(run.benchmark)
    if task.upstream not in upstream:
        raise UserError(f"{run.folder}: {leaderboard} is for {' or '.join(upstream)}, and this run is on {run.benchmark}")
    whole(run)
    if run.run["limit"] is not None:
        raise UserError(f"{run.folder}: only the first {run.run['limit']} questions were played (--limit); play all of them")
    if not is_published(run) and not rehearsal:
        raise UserError(
            f"{run.folder}: these are not the questions of the published {task.upstream} ({len(run.rows)} were played), and no "
            "leaderboard takes others; add --rehearsal to see the file all the same"
        )
    return task


def open_source(run: Run, task: Task, data_file: Path | None = None) -> Source:
    """Put a run's answers beside the rows of the benchmark's table.

    The table is loaded again, and gives, with the answers of ``games.jsonl``, the same bytes as the run's ``predictions.tsv``: so rows
    and answers are those that were scored.

    Args:
        run: a run that passed :func:`check_run`.
        task: its benchmark.
        data_file: the table; None for the copy that the run kept, else the published one.

    Raises:
        UserError: the table cannot be found or is another one, or the run's files do not belong together.
    """
    wanted = str(run.config["dataset_sha256"])
    kept = sorted((run.folder.parent.parent / ".data" / wanted[:16]).glob("*.tsv"))
    table = data_file or (kept[0] if kept else None)
    if table is None and task.drawn:
        raise UserError(f"{run.folder}: its table is not in its work-dir any more; give it with --data-file")
    answers: dict[str, str | None] = {}
    predictions: dict[str, str] = {}
    for game in run.games():
        answer = game.get("answer")
        if (
            not isinstance(answer, dict)
            or not isinstance(answer.get("value", ""), str)
            or not isinstance(game.get("prediction"), str)
        ):
            raise UserError(f"{run.folder}/games.jsonl: the game of question {game['index']} has no answer as games have them")
        answers[game["index"]] = answer.get("value")
        predictions[game["index"]] = game["prediction"]
    with tempfile.TemporaryDirectory() as scratch:
        benchmark = open_benchmark(task, work_dir=Path(scratch), data_file=table)
        if benchmark.sha256 != wanted:
            where = table or f"the published {task.upstream} on this machine"
            raise UserError(f"{where} is another table than the one that was played; give that with --data-file")
        if set(benchmark.indices) != set(answers):
            raise UserError(f"{run.folder}: {len(answers)} of {len(benchmark.indices)} questions were played; play all of them")
        again = Path(scratch) / "predictions.tsv"
        benchmark.write_predictions(again, predictions)
        if again.read_bytes() != (run.folder / "predictions.tsv").read_bytes():
            raise UserError(
                f"{run.folder}: predictions.tsv is not what its table and games.jsonl give; give the run's command again"
            )
    return Source(run, task, tuple(Answered(index, run.rows[index], answers[index]) for index in benchmark.indices))
