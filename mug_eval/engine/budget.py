"""What a run may spend, over all of its backbones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Budget:
    """Requests and tokens, spent and allowed; several dispatchers of one run share one.

    Attributes:
        calls: most requests that may reach a server; None for no limit.
        tokens: prompt and completion tokens after which no request is sent; None for no limit.
        requests: sent so far.
        used: tokens so far.
    """

    calls: int | None = None
    tokens: int | None = None
    requests: int = 0
    used: int = 0

    def spent(self) -> str | None:
        """Why no further request may go out, or None if one may."""
        if self.calls is not None and self.requests >= self.calls:
            return f"the call budget of {self.calls} is spent; the same command with a new budget continues"
        if self.tokens is not None and self.used >= self.tokens:
            return f"the token budget of {self.tokens} is spent ({self.used}); the same command with a new budget continues"
        return None
