"""Protocols as models of VLMEvalKit, for its own ``run.py`` and ``infer_data_job``."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mug_eval.benchmarks import vlmeval
from mug_eval.benchmarks.benchmark import CounterfactualSource
from mug_eval.benchmarks.exchange import guard_words
from mug_eval.benchmarks.prompt import PictureAt, build_prompt, build_question
from mug_eval.benchmarks.table import restore_words
from mug_eval.benchmarks.task import Task, load_task, task_names
from mug_eval.chat import RefusedError, TransientError
from mug_eval.errors import QuestionError, UserError
from mug_eval.question import Question

Play = Callable[[Question], Coroutine[Any, Any, Mapping[str, Any]]]
"""Plays one question; returns its line of games.jsonl: index, prediction, answer, raw, ended, facts, events, calls, usage.

It raises QuestionError, TransientError or RefusedError for a question that is owed, and anything else to stop the job.
"""


class Outcome(dict[str, Any]):
    """What VLMEvalKit gets for a question: ``prediction`` and ``extra_records``.

    It reads as its prediction: when a job is continued, VLMEvalKit mixes these with the plain texts of the file that is there and
    then takes ``str()`` of everything (vlmeval.inference: infer_data_job).
    """

    def __str__(self) -> str:
        return str(self["prediction"])


def answered(record: Mapping[str, Any]) -> Outcome:
    """The outcome of a played game: its prediction, and all the rest of its record as the trace."""
    return Outcome(prediction=record["prediction"], extra_records={key: record[key] for key in record if key != "prediction"})


def owed(index: str, reason: str) -> Outcome:
    """The outcome of a game that could not be played, which VLMEvalKit plays again on its next run.

    From its finished file it drops texts that contain its failure message; from its checkpoint it drops what
    ``message in outcome`` says yes to, which for a dictionary means a key (vlmeval.inference: infer_data_api).
    """
    outcome = Outcome(prediction=f"{vlmeval.FAILED} {reason}", extra_records={"index": index, "owed": reason})
    outcome[vlmeval.FAILED] = reason
    return outcome


class RegisteredModel:
    """One protocol with one backbone, as VLMEvalKit calls a model behind an API: ``generate`` from many threads.

    All games run side by side in one event loop, in a thread of its own.
    """

    is_api = True
    INTERLEAVE = True

    def __init__(
        self,
        open_play: Callable[[], Play],
        image_size: tuple[int, int] | None = None,
        counterfactuals: CounterfactualSource | None = None,
        **ignored: Any,
    ) -> None:
        """Make the model that VLMEvalKit asked for by name.

        Args:
            open_play: makes the coroutine function that plays one question.
            image_size: (width, height) in pixels for every picture, or None.
            counterfactuals: where altered pictures come from, or None.
            ignored: ``use_vllm``, which VLMEvalKit adds for some names; ``retry`` and ``verbose``, which its run.py overrides.
        """
        self._play = open_play()
        self._image_size = image_size
        self._counterfactuals = counterfactuals
        self._task: Task | None = None
        self._dataset: Any = None
        self._data: Any = None
        self._places: dict[str, int] = {}
        self._start = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def set_dump_image(self, dump_image: Callable[[Any], Any]) -> None:
        """Take the dataset, whose method ``dump_image`` is.

        Its table gets back the option texts that pandas took for missing, and its ``evaluate`` refuses while questions are owed:
        VLMEvalKit would count them as wrong answers.

        Raises:
            UserError: the dataset is none that a task file describes, or its pictures are gone.
        """
        dataset: Any = getattr(dump_image, "__self__", None)
        name = str(getattr(dataset, "dataset_name", ""))
        known = [task for task in map(load_task, task_names()) if task.upstream in name and not task.drawn]
        if not known:
            raise UserError(
                f"mug_eval cannot play {name or 'this dataset'}: add tasks/<name>.yaml, or use {', '.join(task_names())}"
            )
        self._task = max(known, key=lambda task: len(task.upstream))
        if type(dataset).__name__ != self._task.loader or not hasattr(dataset, "data_path"):
            raise UserError(
                f"VLMEvalKit made {name} a {type(dataset).__name__}; for a local file build it with the benchmark's own class: "
                f"vlmeval.dataset.{self._task.loader}(dataset={name!r})"
            )
        if "image" not in dataset.data:
            raise UserError(f"the pictures of {name} are gone (VLMEvalKit drops them after a job): build the dataset again")
        restored, _ = restore_words(Path(dataset.data_path), dataset.data, self._task)
        dataset.data = guard_words(restored)
        self._dataset = dataset
        self._data = dataset.data.copy(deep=False)
        self._places = {str(index): place for place, index in enumerate(self._data["index"])}
        _refuse_to_score_owed(dataset)

    def use_custom_prompt(self, dataset: str) -> bool:
        """Always: the prompt is the dataset's own, but the row's index has to come along."""
        return True

    def build_prompt(self, line: Any, dataset: str | None = None) -> list[dict[str, Any]]:
        """The dataset's own prompt, and the row's index. Nothing else of the row: it holds the gold answer too."""
        index = str(line["index"])
        items: list[dict[str, Any]] = [{"type": "index", "value": index}]
        try:
            # Not of ``line``: VLMEvalKit took it from the table before its option texts were given back.
            prompt = build_prompt(self._dataset, self._data.iloc[self._places[index]])
        except QuestionError as error:
            return [*items, {"type": "owed", "value": str(error)}]
        return items + [
            {"type": "image", "value": part.position} if isinstance(part, PictureAt) else {"type": "text", "value": part}
            for part in prompt
        ]

    def generate(self, message: list[dict[str, Any]], dataset: str | None = None) -> Outcome:
        """Play one question; blocks until it is played. Always an :class:`Outcome`, since one kind must do for all rows."""
        (index,) = (item["value"] for item in message if item["type"] == "index")
        for item in message:
            if item["type"] == "owed":
                return owed(index, item["value"])
        prompt = [
            PictureAt(item["value"]) if item["type"] == "image" else item["value"]
            for item in message
            if item["type"] in ("image", "text")
        ]
        assert self._task is not None, "VLMEvalKit calls set_dump_image before generate"
        try:
            row = self._data.iloc[self._places[index]]
            question = build_question(self._task, row, prompt, self._image_size, self._counterfactuals)
            record = asyncio.run_coroutine_threadsafe(self._play(question), self._running_loop()).result()
        except (QuestionError, TransientError, RefusedError) as error:
            return owed(index, " ".join(str(error).split()))
        return answered(record)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._start:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="mug_eval games", daemon=True).start()
            return self._loop

    def close(self) -> None:
        """Stop the event loop's thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None


def _refuse_to_score_owed(dataset: Any) -> None:
    """Make this instance's ``evaluate`` raise while its file holds owed questions; else it is the class's own."""

    def evaluate(eval_file: str, **judge_kwargs: Any) -> Any:
        failed = type(dataset).report_infer_err(eval_file)["failed"]
        if failed:
            raise UserError(f"{failed} question(s) are owed, so nothing is scored: run the same command again with --reuse")
        return type(dataset).evaluate(dataset, eval_file, **judge_kwargs)

    dataset.evaluate = evaluate


def put_into_vlmevalkit(
    names: Iterable[str],
    open_play: Callable[[str], Play],
    image_size: tuple[int, int] | None = None,
    counterfactuals: CounterfactualSource | None = None,
) -> list[str]:
    """Put models into VLMEvalKit's ``supported_VLM``.

    Sets ``PRED_FORMAT=tsv`` unless it is set: VLMEvalKit's default, a spreadsheet, cuts traces at 32,767 characters.
    """
    supported = vlmeval.load("vlmeval.config").supported_VLM
    registered = list(names)
    for name in registered:
        there = supported.get(name)
        if there is not None and getattr(there, "func", None) is not RegisteredModel:
            raise UserError(f"VLMEvalKit has a model {name!r} already: choose another name")
        supported[name] = partial(RegisteredModel, partial(open_play, name), image_size, counterfactuals)
    os.environ.setdefault("PRED_FORMAT", "tsv")
    return registered
