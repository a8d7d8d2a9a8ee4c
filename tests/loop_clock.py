"""Time for tests of what waits: an event loop's clock that is put forward, and waiting for what must come however slow the machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LONG = 120.0
"""seconds after which a test gives up; only what is broken takes as long"""


class LoopClock:
    """The running loop's clock, which a test (from any thread) puts forward instead of waiting.

    Limits of minutes then pass at once and in the order that the test gives them, and none passes because the machine was slow.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._ahead, self._time = 0.0, loop.time
        loop.time = lambda: self._time() + self._ahead  # type: ignore[method-assign]

    def forward(self, seconds: float) -> None:
        self._ahead += seconds


async def until(condition: Callable[[], bool]) -> None:
    """Give others their turns until something is so."""
    async with asyncio.timeout(LONG):
        while not condition():  # noqa: ASYNC110 (threads and tasks that are watched have no event to wait for)
            await asyncio.sleep(0.001)


async def turns(count: int = 50) -> None:
    """Let everything go on that needs no waiting."""
    for _ in range(count):
        await asyncio.sleep(0)
