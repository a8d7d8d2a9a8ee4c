"""One thread in front of a model in this process: collects the calls of all games in flight, and batches them within a token budget."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import torch

from mug_eval.backbones.hf_row import Row, Runner
from mug_eval.backbones.token_draw import draw_for
from mug_eval.chat import RefusedError

_REPLY_RESERVE = 256
"""Tokens of its reply that a call is charged for when it is let in; most replies are shorter than what they may have."""
_GATHER = 0.02
"""Longest wait, in seconds, of an idle model for further calls that are being prepared."""
_STALL = 8
"""Steps after which calls that wait are let in even if few."""


class Scheduler:
    """Feeds a :class:`hf_row.Runner`.

    Calls are let in at any step, oldest first, as long as their tokens fit. When memory runs out the budget is halved, everything cached
    is let go, and the calls concerned start anew with fresh generators, so that their replies are the same; only a call that does not
    even fit alone is refused.

    Args:
        defaults: the model's ``generation_config``.
        memory: says in words how much memory there is, for messages.
        patience: seconds to wait, idle, while further calls are being prepared.

    Attributes:
        runner: what runs the calls, once :meth:`serve` was called.
        budget: most tokens of prompts and reserved replies in the batch.
    """

    def __init__(self, defaults: object, memory: Callable[[], str] = lambda: "", patience: float = _GATHER) -> None:
        self._defaults = defaults
        self._memory = memory
        self._patience = patience
        self._threads = torch.get_num_threads()
        self._waiting: deque[Row] = deque()
        self._changed = threading.Condition()
        self._preparing = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self.runner: Runner | None = None
        self.budget = 0

    def serve(self, runner: Runner, budget: int) -> None:
        """Begin to run calls."""
        with self._changed:
            if self._closed:
                return
            self.runner, self.budget = runner, budget
            self._thread = threading.Thread(target=self._work, args=(runner,), name="model", daemon=True)
            self._thread.start()

    def announce(self, change: int) -> None:
        """Say that a call is being prepared (+1), or is no longer (-1): an idle model waits a moment for it."""
        with self._changed:
            self._preparing += change
            self._changed.notify_all()

    def submit(self, row: Row) -> None:
        """Queue a call; its future is told when it has ended."""
        with self._changed:
            if self._closed:
                row.future.cancel()
                return
            self._waiting.append(row)
            self._changed.notify_all()

    def close(self) -> None:
        """Drop what waits, let the model go, and wait for the pass that is running."""
        with self._changed:
            self._closed = True
            while self._waiting:
                self._waiting.popleft().future.cancel()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self.runner = None

    def _work(self, runner: Runner) -> None:
        torch.set_num_threads(self._threads)  # a thread begins with the machine's number, whatever this process was told
        stalled = 0
        with torch.inference_mode():
            while True:
                active = runner.active
                rows = self._admitted(active, stalled)
                if self._closed:
                    break
                if rows:
                    stalled = 0
                    self._guarded(runner, rows, partial(runner.start, rows))
                elif active:
                    stalled += 1
                    self._guarded(runner, active, runner.step)
        for row in runner.drop():
            row.future.cancel()

    def _admitted(self, active: list[Row], stalled: int) -> list[Row]:
        """Calls that are let in now; waits for some if the model is idle."""
        with self._changed:
            if not active:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                give_up = time.monotonic() + self._patience
                while self._preparing and not self._closed and (left := give_up - time.monotonic()) > 0:
                    self._changed.wait(left)
            few = len(self._waiting) * 4 < len(active) and self._preparing > 0
            if not self._waiting or (few and stalled < _STALL):
                return []
            if self._waiting[0].alone:
                return [] if active else [self._waiting.popleft()]
            used = sum(_charge(row) for row in active)
            rows: list[Row] = []
            while self._waiting:
                row = self._waiting[0]
                if row.future.cancelled():
                    self._waiting.popleft()
                    continue
                if row.alone or (used + _charge(row) > self.budget and (rows or active)):
                    break
                used += _charge(row)
                self._waiting.popleft()
                rows.append(row)
            return rows

    def _guarded(self, runner: Runner, rows: list[Row], work: Callable[[], None]) -> None:
        """Run a pass for these rows; hand out what is finished, and put back what ran out of memory."""
        for row in rows:
            if row.future.cancelled() and not row.finish:
                row.finish = "stop"  # nobody waits for it any more: leaves the batch at the next rebuild
        try:
            work()
        except torch.OutOfMemoryError:
            self._out_of_memory(runner, rows)
            return
        except Exception as error:
            concerned = list(dict.fromkeys([*rows, *runner.drop()]))
            if len(concerned) == 1:
                _tell(rows[0], error=RefusedError(f"the model failed: {type(error).__name__}: {_one_line(error)}"))
                return
            for row in concerned:  # one of them is to blame, and only that one shall fail
                row.alone = True
            self._again(concerned)
            return
        for row in rows:
            if row.finish and not row.future.done():
                runner.counts.calls += 1
                _tell(row)

    def _out_of_memory(self, runner: Runner, rows: list[Row]) -> None:
        concerned = list(dict.fromkeys([*rows, *runner.drop()]))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        if len(concerned) == 1 and self.budget <= _charge(concerned[0]):
            row = concerned[0]
            wanted = f"its prompt of {row.prompt.length} tokens and {len(row.prompt.images)} pictures does not fit into memory even alone"
            _tell(row, error=RefusedError(f"{wanted} ({self._memory()}); make pictures smaller with --set image.size=WIDTHxHEIGHT"))
            return
        total = sum(_charge(row) for row in concerned)
        self.budget = max(min(self.budget, total) // 2, min(_charge(row) for row in concerned))
        runner.counts.halvings += 1
        self._again(concerned)

    def _again(self, rows: list[Row]) -> None:
        """Put rows back at the head of the queue, as if they had not begun."""
        with self._changed:
            for row in reversed(rows):
                if not row.future.done():
                    row.tokens, row.finish, row.draw = [], "", draw_for(row.sampling, self._defaults)
                    self._waiting.appendleft(row)


def _charge(row: Row) -> int:
    return row.prompt.length + max(min(row.most, _REPLY_RESERVE), len(row.tokens))


def _tell(row: Row, error: Exception | None = None) -> None:
    """Resolve the row's future unless somebody cancelled it."""
    if not row.future.set_running_or_notify_cancel():
        return
    if error is None:
        row.future.set_result(row)
    else:
        row.future.set_exception(error)


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else text[:299] + "…"
