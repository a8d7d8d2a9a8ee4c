"""The dispatcher: the one way to a backbone. Journal first, then one limit, retries, a circuit and budgets over all calls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NoReturn

from mug_eval.chat import ChatModel, Json, Message, MisconfiguredError, RefusedError, Reply, Sampling, TransientError
from mug_eval.engine.budget import Budget
from mug_eval.engine.circuit import Circuit
from mug_eval.engine.journal import Call, Journal, call_key, describe_call
from mug_eval.errors import RunStopped
from mug_eval.seeds import generator


@dataclass(frozen=True, slots=True)
class DispatchPolicy:
    """How calls are put to a backbone. None of it changes a reply, so none of it is part of a call's identity.

    Attributes:
        concurrency: most requests out at a time.
        timeout: seconds that one request may take.
        retries: further tries of a call after its first failed.
        backoff_base: seconds before the first further try, doubled at each next, half of it drawn.
        backoff_cap: most seconds before a further try.
        retry_after_cap: most seconds that a server's Retry-After is honoured.
        circuit_failures: strikes in a row over all calls that open the circuit (:class:`~mug_eval.engine.circuit.Circuit`).
        probe_base: seconds before an open circuit's first probe, doubled at each next.
        probe_cap: most seconds between probes.
        patience: seconds that the circuit may stay open before the run stops.
        first_patience: the same, at most, before the backbone has answered any call.
        call_budget: most requests that may reach the server; None for no limit.
        token_budget: prompt and completion tokens after which no request is sent; None for no limit.
        seed: of the back-off's draws.
    """

    concurrency: int = 8
    timeout: float = 600.0
    retries: int = 5
    backoff_base: float = 1.0
    backoff_cap: float = 60.0
    retry_after_cap: float = 300.0
    circuit_failures: int = 8
    probe_base: float = 2.0
    probe_cap: float = 60.0
    patience: float = 900.0
    first_patience: float = 60.0
    call_budget: int | None = None
    token_budget: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no run can mean.

        Raises:
            ValueError: names the field.
        """
        for name in ("concurrency", "circuit_failures"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        for name in (
            "retries",
            "backoff_base",
            "backoff_cap",
            "retry_after_cap",
            "probe_base",
            "probe_cap",
            "patience",
            "first_patience",
        ):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative")
        if not self.timeout > 0:
            raise ValueError("timeout must be more than 0 seconds")
        for name in ("call_budget", "token_budget"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} must not be negative")


@dataclass(frozen=True, slots=True)
class Statistics:
    """Where the dispatcher stands, for the progress line.

    Attributes:
        calls: calls answered by the backbone and recorded in this run.
        hits: calls answered from the journal.
        requests: requests that reached the server; what ``call_budget`` limits.
        retries: requests beyond the first of a call.
        prompt_tokens: of the calls answered in this run, where the backbone says.
        completion_tokens: likewise.
        calls_without_usage: calls of this run whose tokens the backbone did not say.
        in_flight: requests out now.
        waiting: calls that wait for a slot, a further try or the circuit.
        circuit: ``closed``, or ``open`` while the server is thought to be down.
    """

    calls: int
    hits: int
    requests: int
    retries: int
    prompt_tokens: int
    completion_tokens: int
    calls_without_usage: int
    in_flight: int
    waiting: int
    circuit: Literal["closed", "open"]


@dataclass(slots=True, eq=False)
class _Flight:
    """A call on its way, and how many wait for it."""

    call: Call
    messages: Sequence[Message]
    sampling: Sampling
    schema: Json | None
    waiters: int = 0
    attempts: int = 0
    state: Literal["waiting", "out", "recording"] = "waiting"
    task: asyncio.Task[Reply] = field(init=False)


class Dispatcher:
    """Puts calls to one backbone.

    Each call is a task of its own: a game that is cancelled while its request is out loses nothing, the reply is recorded when it
    comes. A call for which nobody waits any more is dropped only while it is not out.
    """

    def __init__(self, model: ChatModel, journal: Journal, policy: DispatchPolicy, budget: Budget | None = None) -> None:
        """Make the way to a backbone.

        Args:
            model: the backbone.
            journal: what was asked before.
            policy: limits, retries and patience.
            budget: shared with the run's other dispatchers; one of its own from the policy if None.
        """
        self._budget = budget or Budget(policy.call_budget, policy.token_budget)
        self._model = model
        self._fingerprint = model.fingerprint
        self._journal = journal
        self._policy = policy
        # A model in this process takes one call at a time; more would wait in its queue while their time-out runs.
        self._slots = asyncio.Semaphore(min(policy.concurrency, getattr(model, "most_calls_in_flight", policy.concurrency)))
        self._circuit = Circuit(
            policy.circuit_failures, policy.probe_base, policy.probe_cap, policy.patience, policy.first_patience
        )
        self._flights: dict[str, _Flight] = {}
        self._stopped: str | None = None
        self._calls = self._hits = self._requests = self._retries = 0
        self._prompt_tokens = self._completion_tokens = self._calls_without_usage = self._in_flight = 0

    async def ask(self, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> tuple[str, Reply]:
        """The reply to a call, and the key under which the journal has it.

        A recorded call is answered from the journal; an identical one on its way is awaited; anything else is asked.

        Raises:
            TransientError: every try failed.
            RefusedError: the server will never answer this request (PromptTooLong: it is over the context).
            MisconfiguredError: the server will answer none.
            RunStopped: a budget is spent, the server stays away, or the reply could not be recorded.
        """
        call = describe_call(self._fingerprint, messages, sampling, schema)
        if call.key not in self._flights:
            recorded = await self._journal.get(call.key)
            if recorded is not None:
                self._hits += 1
                return call.key, recorded
        flight = self._flights.get(call.key)
        if flight is None:
            flight = self._flights[call.key] = _Flight(call, messages, sampling, schema)
            flight.task = asyncio.create_task(self._fly(flight))
        flight.waiters += 1
        try:
            return call.key, await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1

    async def recorded(self, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> bool:
        """Whether the journal holds the reply to a call.

        Raises:
            UserError: the journal is damaged.
        """
        return await self._journal.get(call_key(self._fingerprint, messages, sampling, schema)) is not None

    @property
    def statistics(self) -> Statistics:
        """Counts up to now."""
        return Statistics(
            calls=self._calls,
            hits=self._hits,
            requests=self._requests,
            retries=self._retries,
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            calls_without_usage=self._calls_without_usage,
            in_flight=self._in_flight,
            waiting=sum(flight.state == "waiting" for flight in self._flights.values()),
            circuit="open" if self._circuit.is_open else "closed",
        )

    async def settle(self, *, patiently: bool) -> None:
        """Send nothing more, and wait until every reply on its way is recorded.

        Args:
            patiently: wait for the requests that are out (a run that stops by itself) instead of dropping them (the user wants to
                leave); a reply that has come back is recorded in either case. While the circuit is open nobody waits for a probe.
        """
        self._stopped = self._stopped or "the run is being stopped"
        flights = list(self._flights.values())
        for flight in flights:
            if flight.state == "waiting" or (flight.state == "out" and (not patiently or self._circuit.is_open)):
                flight.task.cancel()
        if flights:
            await asyncio.wait([flight.task for flight in flights])
            for flight in flights:
                if not flight.task.cancelled():
                    flight.task.exception()  # whoever asked has heard of it; nobody else needs to

    async def _fly(self, flight: _Flight) -> Reply:
        """Ask until there is a reply, record it, and only then hand it out."""
        try:
            reply = await self._ask_until_answered(flight)
            flight.state = "recording"
            self._count(reply)
            try:
                # The journal has it from here on, whoever is cancelled.
                await asyncio.shield(self._journal.enqueue(flight.call, reply, flight.attempts))
            except RunStopped as error:
                self._stop(str(error))
            self._calls += 1
            if self._budget.tokens is not None and reply.usage.prompt_tokens is None and reply.usage.completion_tokens is None:
                self._stop("a token budget is set, but the backbone does not say how many tokens a call took; use a call budget")
            return reply
        finally:
            del self._flights[flight.call.key]

    async def _ask_until_answered(self, flight: _Flight) -> Reply:
        policy = self._policy
        charged = 0
        while True:
            answered_before = self._calls
            try:
                return await self._ask_once(flight)
            except TransientError as error:
                # Nobody answering is not this call's fault: only the circuit's patience counts then. An answer that is a failure is
                # charged, also to a probe: else a call that always fails could be probed with for ever while others would get through.
                charged += not (error.unreachable and self._calls == answered_before)
                if charged > policy.retries:
                    tries = f"{flight.attempts} tries" if flight.attempts > 1 else "1 try"
                    raise TransientError(f"{error} ({tries})", error.retry_after, error.unreachable) from error
                flight.state = "waiting"
                if not self._circuit.is_open:
                    await asyncio.sleep(self._pause(flight, error))

    async def _ask_once(self, flight: _Flight) -> Reply:
        """Send one request, in a slot that is held only while it is out."""
        is_probe = await self._take_slot()
        try:
            self._may_send(flight)
            self._requests += 1
            self._budget.requests += 1
            self._retries += flight.attempts > 0
            flight.attempts += 1
            flight.state = "out"
            self._in_flight += 1
            try:
                async with asyncio.timeout(self._policy.timeout):
                    reply = await self._model.chat(flight.messages, flight.sampling, flight.schema)
            except TimeoutError:
                raise TransientError(f"no reply within {self._policy.timeout:g} s") from None
            finally:
                self._in_flight -= 1
        except TransientError as error:
            self._requests -= error.unreachable
            self._budget.requests -= error.unreachable
            self._circuit.failure(
                flight.call.key, str(error), min(error.retry_after or 0.0, self._policy.retry_after_cap), error.unreachable
            )
            raise
        except RefusedError:
            self._circuit.success()
            raise
        except MisconfiguredError as error:
            self._stopped = self._stopped or str(error)
            raise
        finally:
            self._slots.release()
            if is_probe:
                self._circuit.probe_over()
        self._circuit.success()
        return reply

    async def _take_slot(self) -> bool:
        """Wait for the circuit, then for a slot, until both let the call go. Returns whether it goes as a probe."""
        while True:
            try:
                is_probe = await self._circuit.admit()
            except RunStopped as error:
                self._stop(str(error))
            try:
                await self._slots.acquire()
            except BaseException:
                if is_probe:
                    self._circuit.probe_over()
                raise
            if is_probe or not self._circuit.is_open:
                return is_probe
            self._slots.release()

    def _may_send(self, flight: _Flight) -> None:
        """Raise if this request should not go out."""
        if flight.waiters == 0:
            raise asyncio.CancelledError  # its game is over, and it has cost nothing yet
        if self._stopped is not None:
            raise RunStopped(self._stopped)
        reason = self._budget.spent()
        if reason is not None:
            self._stop(reason)

    def _stop(self, reason: str) -> NoReturn:
        self._stopped = self._stopped or reason
        raise RunStopped(reason)

    def _count(self, reply: Reply) -> None:
        usage = reply.usage
        self._prompt_tokens += usage.prompt_tokens or 0
        self._completion_tokens += usage.completion_tokens or 0
        self._budget.used += (usage.prompt_tokens or 0) + (usage.completion_tokens or 0)
        self._calls_without_usage += usage.prompt_tokens is None or usage.completion_tokens is None

    def _pause(self, flight: _Flight, error: TransientError) -> float:
        """Seconds until the next try: exponential, half of it drawn so that calls that failed together do not return together."""
        policy = self._policy
        longest = min(policy.backoff_cap, policy.backoff_base * 2.0 ** min(flight.attempts - 1, 30))
        pause = longest * (0.5 + 0.5 * generator(policy.seed, "back-off", flight.call.key, flight.attempts).random())
        if error.retry_after is None:
            return pause
        return min(error.retry_after, policy.retry_after_cap) + pause / 2
