"""The circuit: when a server is down, calls wait instead of spending their tries, and one at a time looks whether it is back."""

from __future__ import annotations

import asyncio
import math

from mug_eval.errors import RunStopped


class Circuit:
    """Closed while calls get through; open after too many failures in a row over all calls.

    While it is open every call waits, but one probe at growing intervals. A success closes it.

    Args:
        failures: strikes in a row, with no success between, that open it. A call that the server answers with a failure is one strike
            however often it is tried (one question on which it always fails is no outage); nobody answering is one each time.
        probe_base: seconds until the first probe; doubled after each that fails.
        probe_cap: most seconds between probes.
        patience: seconds that it may stay open before the run stops.
        first_patience: the same before any call has ever been answered: then it is more likely a wrong address than an outage.
    """

    def __init__(self, failures: int, probe_base: float, probe_cap: float, patience: float, first_patience: float) -> None:
        self._threshold = failures
        self._probe_base = probe_base
        self._probe_cap = probe_cap
        self._patience = patience
        self._first_patience = min(first_patience, patience)
        self._answered = False
        self._strikes = 0
        self._struck: set[str] = set()
        self._last_error = ""
        self._opened_at = math.nan
        self._interval = 0.0
        self._next_probe = 0.0
        self._probing = False
        self._changed = asyncio.Event()
        self.is_open = False

    async def admit(self) -> bool:
        """Wait until a call may go out. Returns whether it goes as the probe, whose end :meth:`probe_over` must be told.

        Raises:
            RunStopped: the circuit stayed open for longer than the patience.
        """
        while self.is_open:
            now = asyncio.get_running_loop().time()
            patience = self._patience if self._answered else self._first_patience
            until = self._opened_at + patience
            if now >= until:
                raise RunStopped(
                    f"the backbone has not answered for {patience:g} s ({self._last_error}); "
                    "see that it runs and give the same command again"
                )
            if not self._probing:
                if now >= self._next_probe:
                    self._probing = True
                    return True
                until = min(until, self._next_probe)
            try:
                async with asyncio.timeout(until - now):
                    await self._changed.wait()
            except TimeoutError:
                continue
        return False

    def probe_over(self) -> None:
        """The probe has come back or was given up; the next may go when its time comes."""
        self._probing = False
        self._wake()

    def success(self) -> None:
        """The server has answered a call."""
        self._strikes = 0
        self._struck.clear()
        self._answered = True
        if self.is_open:
            self.is_open = False
            self._wake()

    def failure(self, call: str, error: str, retry_after: float, unreachable: bool = False) -> None:
        """A call has failed in a way that may be the server's fault.

        Args:
            call: the call's key.
            error: what it was, in a line.
            retry_after: seconds that the server asked to wait, 0 if it did not.
            unreachable: whether nobody answered at all. Before the first answer ever, one such failure is enough to open.
        """
        self._strikes += unreachable or call not in self._struck
        self._struck.add(call)
        self._last_error = error
        now = asyncio.get_running_loop().time()
        if self.is_open:
            if self._probing:
                self._interval = min(2 * self._interval, self._probe_cap)
                self._next_probe = max(self._next_probe, now + max(self._interval, retry_after))
        elif self._strikes >= self._threshold or (unreachable and not self._answered):
            self.is_open = True
            self._opened_at = now
            self._interval = self._probe_base
            self._next_probe = now + max(self._interval, retry_after)

    def _wake(self) -> None:
        """Let every waiting call look again."""
        self._changed.set()
        self._changed = asyncio.Event()
