"""Pictures in memory at a time, counted in pixels: a dozen of a hundred megapixels each are more than most machines hold."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

MOST_PIXELS_IN_WORK = 128_000_000
"""Of the originals that are edited and judged at a time; with copies, edits and scores a picture takes some 20 bytes a pixel."""


class PixelBudget:
    """So many pixels at a time, first come, first served; a picture larger than all of them has them to itself.

    Args:
        most: pixels.
    """

    def __init__(self, most: int = MOST_PIXELS_IN_WORK) -> None:
        self._most = self._free = max(1, most)
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @contextlib.asynccontextmanager
    async def hold(self, pixels: int) -> AsyncIterator[None]:
        """Wait until there is room for so many pixels, and keep it."""
        wanted = min(max(1, pixels), self._most)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted, turn))
        self._serve()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._serve()  # whoever stood behind
            else:
                self._give_back(wanted)  # served in the moment of being called off
            raise
        try:
            yield
        finally:
            self._give_back(wanted)

    def _give_back(self, pixels: int) -> None:
        self._free += pixels
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            wanted, turn = self._waiting[0]
            if not turn.cancelled():
                if wanted > self._free:
                    break
                self._free -= wanted
                turn.set_result(None)
            self._waiting.popleft()
