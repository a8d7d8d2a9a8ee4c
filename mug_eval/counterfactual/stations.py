"""Work that blocks, done by threads of its own beside the planning: as many pieces at once as are waiting and make a batch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")


class Station(Generic[Work, Result]):
    """A queue, and threads that take batches from it.

    Args:
        name: of its threads.
        work: a batch -> its results, in order; called in a thread. What it raises is raised where the results were awaited.
        batch: most pieces at a time.
        threads: how many batches at a time.

    Attributes:
        batches: done so far.
        pieces: done so far.
        busy: seconds that threads spent at work.
    """

    def __init__(self, name: str, work: Callable[[Sequence[Work]], Sequence[Result]], batch: int = 1, threads: int = 1) -> None:
        self._work, self._batch = work, max(1, batch)
        self._waiting: asyncio.Queue[tuple[Work, asyncio.Future[Result]]] = asyncio.Queue()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._takers = [asyncio.create_task(self._take()) for _ in range(threads)]
        self.batches = self.pieces = 0
        self.busy = 0.0

    async def do(self, piece: Work) -> Result:
        """Hand in one piece and wait for its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.put_nowait((piece, future))
        return await future

    async def _take(self) -> None:
        while True:
            taken = [await self._waiting.get()]
            while len(taken) < self._batch and not self._waiting.empty():
                taken.append(self._waiting.get_nowait())
            taken = [(piece, future) for piece, future in taken if not future.cancelled()]  # nobody waits for it any more
            if not taken:
                continue
            try:
                results = await asyncio.get_running_loop().run_in_executor(
                    self._threads, self._timed, [piece for piece, _ in taken]
                )
                if len(results) != len(taken):
                    raise RuntimeError(f"{len(results)} results for {len(taken)} pieces of work")
            except Exception as error:
                for _, future in taken:
                    if not future.done():
                        future.set_exception(error)
                continue
            self.batches += 1
            self.pieces += len(taken)
            for (_, future), result in zip(taken, results, strict=True):
                if not future.done():
                    future.set_result(result)

    def _timed(self, pieces: Sequence[Work]) -> Sequence[Result]:
        started = time.perf_counter()
        try:
            return self._work(pieces)
        finally:
            self.busy += time.perf_counter() - started

    async def __aenter__(self) -> Station[Work, Result]:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for taker in self._takers:
            taker.cancel()
        await asyncio.gather(*self._takers, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)
