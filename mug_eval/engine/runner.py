"""Plays a benchmark's questions: many games at a time, memory flat, every question either recorded or owed with its reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from mug_eval.chat import BackboneError, MisconfiguredError, Sampling
from mug_eval.engine.dispatcher import Dispatcher
from mug_eval.engine.games import GamesFile
from mug_eval.engine.table import GameTable
from mug_eval.errors import QuestionError, RunStopped, UserError
from mug_eval.methods.method import Method
from mug_eval.question import Answer, Question, Unparsed


@dataclass(frozen=True, slots=True)
class Setting:
    """What the games of one run have in common.

    Attributes:
        method: the protocol.
        config: an instance of ``method.config``.
        sampling: decoding settings, the same for every method.
        seed: the run's seed.
    """

    method: Method
    config: Any
    sampling: Sampling
    seed: int


@dataclass(frozen=True, slots=True)
class Owed:
    """A question without a record, and why, in one line."""

    index: str
    reason: str


class PlayStopped(RunStopped):
    """The run stopped while questions were being played.

    Attributes:
        owed: the questions without a record, in the dataset's order.
    """

    def __init__(self, reason: str, owed: Sequence[Owed]) -> None:
        super().__init__(reason)
        self.owed = tuple(owed)


class QuestionSource(Protocol):
    """What the runner needs of a benchmark."""

    @property
    def name(self) -> str:
        """The benchmark's name."""
        ...

    @property
    def indices(self) -> Sequence[str]:
        """The rows to be played, in the dataset's order."""
        ...

    def question(self, index: str) -> Question:
        """A row as a question. Called in a thread, one call at a time."""
        ...

    def prediction(self, index: str, answer: Answer | Unparsed) -> str:
        """The text that the scorer will read."""
        ...


OnDone = Callable[[dict[str, Any] | Owed], None]


async def play_question(
    question: Question, setting: Setting, dispatcher: Dispatcher, prediction: Callable[[str, Answer | Unparsed], str]
) -> dict[str, Any]:
    """Play one game and return its record, a line of ``games.jsonl``.

    Raises:
        BackboneError, RunStopped: as ``Dispatcher.ask``.
    """
    table = GameTable(question, setting.method.name, setting.sampling, setting.seed, dispatcher)
    try:
        verdict = await setting.method.play(question, table, setting.config)
    finally:
        table.close()
    answer = verdict.answer
    calls = table.calls
    return {
        "index": question.index,
        "prediction": prediction(question.index, answer),
        "answer": {"value": answer.value} if isinstance(answer, Answer) else {"unparsed": answer.reason},
        "raw": verdict.raw,
        "ended": verdict.ended,
        "facts": dict(verdict.facts),
        "events": table.events,
        "calls": calls,
        "usage": _usage(calls),
    }


async def play_questions(
    source: QuestionSource,
    setting: Setting,
    dispatcher: Dispatcher,
    games: GamesFile,
    *,
    games_in_flight: int,
    on_done: OnDone = lambda _: None,
) -> list[Owed]:
    """Play every question of a benchmark that has no record yet.

    Args:
        source: the benchmark.
        setting: method, config, sampling and seed.
        dispatcher: the way to the backbone.
        games: takes the records as games end.
        games_in_flight: most games at a time, hence most questions in memory.
        on_done: told of every game's record and every owed question, as they come.

    Returns:
        The questions that could not be played (they cannot be put, or the backbone kept failing), in the dataset's order.

    Raises:
        UserError: no request to this backbone will work.
        PlayStopped: the run cannot go on; carries what is owed. Replies that were on their way are recorded.
        Exception: a mistake in a method, with the question named in a note; what is done is recorded.
    """
    todo = [index for index in source.indices if index not in games]
    play = _Play(source, setting, dispatcher, games, on_done, iter(todo))
    players = [asyncio.create_task(play.on()) for _ in range(min(games_in_flight, len(todo)))]
    try:
        await _until_done_or_error(players)
    except RunStopped as stop:
        await dispatcher.settle(patiently=True)
        owed = (play.owed.get(index) or Owed(index, str(stop)) for index in source.indices if index not in games)
        raise PlayStopped(str(stop), list(owed)) from stop
    except (asyncio.CancelledError, MisconfiguredError) as error:
        await dispatcher.settle(patiently=False)
        if isinstance(error, MisconfiguredError):
            raise UserError(_one_line(error)) from error
        raise
    except BaseException:
        await dispatcher.settle(patiently=True)
        raise
    finally:
        play.opener.shutdown(wait=False, cancel_futures=True)
    return [play.owed[index] for index in source.indices if index in play.owed]


@dataclass(slots=True)
class _Play:
    """One pass over a benchmark, shared by its players."""

    source: QuestionSource
    setting: Setting
    dispatcher: Dispatcher
    games: GamesFile
    on_done: OnDone
    todo: Iterator[str]
    owed: dict[str, Owed] = field(default_factory=dict)
    # One thread, since VLMEvalKit's loaders write pictures to files that two questions may share.
    opener: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="questions"))

    async def on(self) -> None:
        """A player: takes the next question until there is none."""
        for index in self.todo:
            outcome: dict[str, Any] | Owed
            try:
                outcome = await self._play(index)
            except Exception as error:
                cause = _cause(error)
                gravity = _gravity(cause)
                if gravity == _BUG:
                    error.add_note(f"while playing question {index} of {self.source.name} with {self.setting.method.name}")
                    raise
                if gravity > _OWED:
                    raise cause from error
                self.owed[index] = outcome = Owed(index, _one_line(cause))
            self.on_done(outcome)

    async def _play(self, index: str) -> dict[str, Any]:
        question = await asyncio.get_running_loop().run_in_executor(self.opener, self.source.question, index)
        record = await play_question(question, self.setting, self.dispatcher, self.source.prediction)
        self.games.append(record)
        return record


async def _until_done_or_error(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for all tasks; at the first error (or if cancelled) cancel the rest, wait for them, and raise it."""
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    errors = [error for task in tasks if task in done and (error := task.exception()) is not None]
    if errors:
        raise max(errors, key=_gravity)


def _cause(error: Exception) -> Exception:
    """The error that decides what happens: of a group (from a method's ``TaskGroup``) the gravest."""
    if not isinstance(error, ExceptionGroup):
        return error
    return max((_cause(inner) for inner in error.exceptions), key=_gravity)


_OWED, _STOPPED, _WRONG, _BUG = range(4)


def _gravity(error: BaseException) -> int:
    """A question owed is less than a run that stops, which is less than a command that is wrong, which is less than a bug."""
    if isinstance(error, MisconfiguredError):
        return _WRONG
    if isinstance(error, RunStopped):
        return _STOPPED
    return _OWED if isinstance(error, BackboneError | QuestionError) else _BUG


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _usage(calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a game cost: tokens as far as the backbone says, and for how many calls it did not."""

    def total(name: str) -> Any:
        return sum(call[name] or 0 for call in calls)

    return {
        "calls": len(calls),
        "prompt_tokens": total("prompt_tokens"),
        "completion_tokens": total("completion_tokens"),
        "images": total("images"),
        "seconds": total("seconds"),
        "calls_without_usage": sum(call["prompt_tokens"] is None or call["completion_tokens"] is None for call in calls),
    }
