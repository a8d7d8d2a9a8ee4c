"""What a user sees of long work: questions done and owed, calls a second, tokens, unparsed, time left. All of it goes to stderr."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TextIO

from mug_eval.show import printable

PLAIN_SECONDS = 10.0
"""A log gets one line a job at most this often, and at least every :data:`IDLE_SECONDS`."""

IDLE_SECONDS = 60.0
"""Without news, a log gets a line this often: it is still at work."""

_WINDOW_SECONDS = 60.0
"""Rates are those of the last minute: replayed questions rush by at the start and say nothing about the rest."""

_WINDOW_QUESTIONS = 20
"""And of at least so many questions, since a slow model finishes less than one a minute."""


class Traffic(Protocol):
    """What the dispatcher counts (``engine.dispatcher.Statistics``), over all jobs that share it."""

    @property
    def calls(self) -> int:
        """Calls answered by the backbone in this run."""
        ...

    @property
    def hits(self) -> int:
        """Calls answered from the journal: replayed, not asked again."""
        ...

    @property
    def retries(self) -> int:
        """Requests sent again after a failure."""
        ...

    @property
    def prompt_tokens(self) -> int:
        """Of this run's calls, where the backbone says."""
        ...

    @property
    def completion_tokens(self) -> int:
        """Likewise."""
        ...

    @property
    def calls_without_usage(self) -> int:
        """Calls of this run whose tokens the backbone did not say."""
        ...

    @property
    def circuit(self) -> str:
        """``open`` while the backbone does not answer and calls wait for it, else ``closed``."""
        ...


@dataclass(frozen=True, slots=True)
class Spent:
    """Traffic since some moment."""

    calls: int = 0
    hits: int = 0
    retries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls_without_usage: int = 0
    circuit: str = "closed"

    @property
    def tokens(self) -> str:
        """All tokens; ``+`` says that some calls came without a count."""
        if self.calls and self.calls == self.calls_without_usage:
            return "unknown"
        return amount(self.prompt_tokens + self.completion_tokens) + ("+" if self.calls_without_usage else "")


@dataclass(slots=True)
class JobProgress:
    """One model on one benchmark.

    Attributes:
        name: ``mug-qwen on POPE``.
        total: questions of the job.
        done: questions with a finished game, those of an earlier run too.
        owed: questions that failed in this run.
        unparsed: finished games without an answer, those of an earlier run too.
        lacking: what ``unparsed`` counts, where the work is no game.
    """

    name: str
    total: int
    traffic: Callable[[], Traffic]
    clock: Callable[[], float]
    done: int = 0
    owed: int = 0
    unparsed: int = 0
    lacking: str = "unparsed"
    started: float = field(init=False)
    before: Traffic = field(init=False)
    _done_at: deque[tuple[float, int]] = field(init=False, default_factory=deque)
    _calls_at: deque[tuple[float, int]] = field(init=False, default_factory=deque)

    def __post_init__(self) -> None:
        self.started = self.clock()
        self.before = self.traffic()
        self._done_at.append((self.started, self.done))
        self._calls_at.append((self.started, 0))

    def on_done(self, event: object) -> None:
        """Count one question: a record of ``games.jsonl``, or anything else for one that is owed."""
        if not isinstance(event, Mapping):
            self.owed += 1
            return
        self.done += 1
        answer = event.get("answer")
        if not (isinstance(answer, Mapping) and "value" in answer):
            self.unparsed += 1

    def spent(self) -> Spent:
        """The traffic since the job began."""
        now, before = self.traffic(), self.before
        return Spent(
            now.calls - before.calls,
            now.hits - before.hits,
            now.retries - before.retries,
            now.prompt_tokens - before.prompt_tokens,
            now.completion_tokens - before.completion_tokens,
            now.calls_without_usage - before.calls_without_usage,
            now.circuit,
        )

    def rates(self) -> tuple[float, float]:
        """(questions, calls) a second of late; call it about as often as a line is shown."""
        now, calls = self.clock(), self.spent().calls
        long_ago = now - _WINDOW_SECONDS
        done_at, calls_at = self._done_at, self._calls_at
        if self.done != done_at[-1][1]:
            done_at.append((now, self.done))
        while len(done_at) > 1 and done_at[1][0] <= long_ago and self.done - done_at[1][1] >= _WINDOW_QUESTIONS:
            done_at.popleft()
        if calls != calls_at[-1][1]:
            calls_at.append((now, calls))
        while len(calls_at) > 1 and calls_at[1][0] <= long_ago:
            calls_at.popleft()
        return _rate(done_at[0], (now, self.done)), _rate(calls_at[0], (now, calls))

    def status(self) -> str:
        """The line while it runs, without the name."""
        spent = self.spent()
        a_second, calls_a_second = self.rates()
        left = self.total - self.done - self.owed
        parts = [f"{self.done}/{self.total} done"]
        parts += [f"{self.owed} owed"] if self.owed else []
        parts += [f"{self.unparsed} {self.lacking}"] if self.unparsed else []
        speed = f"{calls_a_second:.1f}/s" if calls_a_second >= 1 else f"{60 * calls_a_second:.1f}/min"
        parts += [f"{spent.calls:,} calls at {speed}", f"{spent.tokens} tokens"]
        parts += [f"{spent.hits} replayed"] if spent.hits else []
        parts += [f"{spent.retries} retries"] if spent.retries else []
        if spent.circuit == "open":
            parts.append("the backbone does not answer, waiting")
        elif left > 0:
            parts.append(f"{duration(left / a_second)} left" if a_second > 0 else "time left unknown")
        return ", ".join(parts)


def _rate(then: tuple[float, int], now: tuple[float, int]) -> float:
    return (now[1] - then[1]) / (now[0] - then[0]) if now[0] > then[0] else 0.0


def closing_line(job: JobProgress) -> str:
    """What a job came to, in one line."""
    spent = job.spent()
    return (
        f"{job.name}: {job.done} of {job.total} questions done, {job.owed} owed, {job.unparsed} {job.lacking}; "
        f"{spent.calls} calls ({spent.hits} replayed, {spent.retries} retries), {spent.tokens} tokens "
        f"in {duration(job.clock() - job.started)}"
    )


def amount(count: int) -> str:
    """A count in few characters: 950, 12.3k, 4.56M."""
    for size, letter, digits in ((10**9, "G", 2), (10**6, "M", 2), (10**3, "k", 1)):
        if count >= size:
            return f"{count / size:.{digits}f}{letter}"
    return str(count)


def duration(seconds: float) -> str:
    """Seconds as a person says them: 12 s, 3 min 5 s, 2 h 7 min, 3 d 4 h."""
    whole = round(max(seconds, 0.0))
    for unit, below, size in (("d", "h", 86400), ("h", "min", 3600), ("min", "s", 60)):
        if whole >= size:
            rest = whole % size * (24 if unit == "d" else 60) // size
            return f"{whole // size} {unit} {rest} {below}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


Mode = Literal["live", "plain", "quiet"]


class Reporter:
    """Shows the jobs of a run: one live line a job on a terminal, a line now and then in a log, the closing lines only when quiet."""

    def __init__(self, mode: Mode, stream: TextIO, clock: Callable[[], float] = time.monotonic, live: Any = None) -> None:
        self._mode, self._stream, self._clock, self._live = mode, stream, clock, live
        self._jobs: list[tuple[JobProgress, Any]] = []
        self._last = clock()
        self._news: dict[int, tuple[object, float]] = {}
        self._lock = threading.Lock()

    def job(
        self,
        name: str,
        total: int,
        *,
        done: int = 0,
        unparsed: int = 0,
        traffic: Callable[[], Traffic] = Spent,
        lacking: str = "unparsed",
    ) -> JobProgress:
        """Begin to show a job.

        Args:
            name: ``mug-qwen on POPE``.
            total: its questions.
            done: those that an earlier run finished.
            unparsed: of these, those that ended without what they were to give.
            traffic: reads the dispatcher's counts.
            lacking: what is said of those.
        """
        job = JobProgress(name, total, traffic, self._clock, done=done, unparsed=unparsed, lacking=lacking)
        task = self._live.add_task(printable(name), total=total, completed=done, status="") if self._live else None
        with self._lock:
            self._jobs.append((job, task))
        return job

    def tick(self) -> None:
        """Bring what is shown up to date; called every second or so. A log gets a line only when it is due."""
        with self._lock:
            if self._mode == "live":
                for job, task in self._jobs:
                    self._live.update(task, completed=job.done, status=job.status())
                self._live.refresh()
            elif self._mode == "plain" and self._clock() - self._last >= PLAIN_SECONDS:
                self._last = self._clock()
                for job, _ in self._jobs:
                    status, state = job.status(), (job.done, job.owed, job.spent())
                    seen, printed = self._news.get(id(job), (None, job.started))
                    if state != seen or self._last - printed >= IDLE_SECONDS:
                        self._news[id(job)] = state, self._last
                        self._print(f"{job.name}: {status}")

    def close(self, job: JobProgress) -> None:
        """Print the job's closing line and show it no longer."""
        with self._lock:
            for entry in [entry for entry in self._jobs if entry[0] is job]:
                self._jobs.remove(entry)
                if self._live:
                    self._live.remove_task(entry[1])
                    self._live.refresh()
            self._print(closing_line(job))

    def note(self, line: str) -> None:
        """One line that is not about progress (a repair while loading, a setting that the server refused)."""
        with self._lock:
            self._print(line)

    def _print(self, line: str) -> None:
        line = printable(" ".join(line.split()))  # a server's or a file's words may be in it
        if self._live:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            print(line, file=self._stream, flush=True)


@contextmanager
def open_reporter(*, quiet: bool, stream: TextIO) -> Iterator[Reporter]:
    """A reporter for the stream, ticking by itself until the block ends.

    Args:
        quiet: closing lines only.
        stream: stderr; a terminal gets live lines, all else plain ones.
    """
    if quiet:
        yield Reporter("quiet", stream)
        return
    live = _live_display(stream) if stream.isatty() else None
    reporter = Reporter("live" if live else "plain", stream, live=live)
    stopping = threading.Event()

    def beat() -> None:
        while not stopping.wait(0.5 if live else 1.0):
            reporter.tick()

    ticking = threading.Thread(target=beat, name="progress", daemon=True)
    if live:
        live.start()
    ticking.start()
    try:
        yield reporter
    finally:
        stopping.set()
        ticking.join()
        if live:
            live.stop()


def _live_display(stream: TextIO) -> Any:
    """Rich's live lines, each cut to the terminal's width; rich itself honours NO_COLOR and a dumb terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    name = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
    status = TextColumn("{task.fields[status]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1))
    return Progress(
        name,
        BarColumn(bar_width=12),
        status,
        console=Console(file=stream),
        expand=True,
        auto_refresh=False,  # the reporter's own ticks do it
        redirect_stdout=False,
    )


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One line of the closing table.

    Attributes:
        model: ``mug-qwen``.
        benchmark: ``POPE``.
        headline: the benchmark's numbers by name, in order; empty where nothing was scored.
        questions: games that count.
        calls, prompt_tokens, completion_tokens, images, seconds: means a question; None where the backbone did not say.
        unparsed: games without an answer.
        owed: questions without a game.
    """

    model: str
    benchmark: str
    headline: Mapping[str, float | None]
    questions: int
    calls: float | None
    prompt_tokens: float | None
    completion_tokens: float | None
    images: float | None
    seconds: float | None
    unparsed: int
    owed: int


def score_table(rows: list[ScoreRow], width: int = 120) -> str:
    """Headline numbers beside their price (means a question), one table a benchmark; a narrow terminal gets a line a number."""
    tables = []
    for benchmark in dict.fromkeys(row.benchmark for row in rows):
        mine = [row for row in rows if row.benchmark == benchmark]
        names = list(dict.fromkeys(name for row in mine for name in row.headline))
        head = ["model", *names, "calls/q", "prompt tok/q", "reply tok/q", "images/q", "s/q", "questions", "unparsed", "owed"]
        body = [
            [
                row.model,
                *(_decimal(row.headline.get(name), 2) for name in names),
                _decimal(row.calls, 2),
                _decimal(row.prompt_tokens, 0),
                _decimal(row.completion_tokens, 0),
                _decimal(row.images, 2),
                _decimal(row.seconds, 2),
                *(str(count) for count in (row.questions, row.unparsed, row.owed)),
            ]
            for row in mine
        ]
        tables.append(f"{benchmark}\n" + _aligned([head, *body], width))
    return "\n\n".join(tables) + "\n" if tables else ""


def _decimal(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def _aligned(rows: list[list[str]], width: int) -> str:
    """Columns, the first to the left; one ``name: value`` a line where they do not fit."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if sum(widths) + 2 * len(widths) <= width:
        return "\n".join(
            "  ".join(
                cell.rjust(size) if place else cell.ljust(size) for place, (cell, size) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        )
    head, *body = rows
    label = max(map(len, head))
    return "\n".join(f"{name.ljust(label)}  {cell}" for row in body for name, cell in zip(head, row, strict=True))
