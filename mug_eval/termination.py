"""SIGTERM ends what runs as Ctrl-C does: a cluster's time limit must not cost replies that have come back."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_until_terminated(work: Coroutine[Any, Any, Result]) -> Result:
    """``asyncio.run`` whose work is cancelled by SIGTERM, so that it can put down what it has. Who handled SIGTERM before does so again.

    Raises:
        KeyboardInterrupt: SIGTERM, or Ctrl-C.
    """
    before = signal.getsignal(signal.SIGTERM)

    async def cancelled_by_sigterm() -> Result:
        task = asyncio.current_task()
        assert task is not None
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread: the caller's to handle
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(cancelled_by_sigterm())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        work.close()  # where the loop did not come to it
        with contextlib.suppress(ValueError, TypeError):  # not in the main thread; or not set from Python
            signal.signal(signal.SIGTERM, before)
