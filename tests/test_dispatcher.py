import asyncio
import random
from dataclasses import dataclass, field

import pytest
from loop_clock import LoopClock, turns, until

from mug_eval.chat import Message, MisconfiguredError, RefusedError, Reply, Sampling, TransientError, Usage
from mug_eval.engine.budget import Budget
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.journal import Journal
from mug_eval.errors import RunStopped

QUICK = {"backoff_base": 0.001, "backoff_cap": 0.002, "probe_base": 0.01, "probe_cap": 0.02, "timeout": 60.0}


@dataclass
class Server:
    """A backbone that answers by script: ``answers`` in turn (the last stays), each a text, an error, or a coroutine function."""

    answers: list
    usage: Usage = field(default_factory=lambda: Usage(10, 5))
    asked: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    fingerprint: str = "scripted"

    async def chat(self, messages, sampling, schema=None):
        self.asked.append(messages[-1].text)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            if callable(answer):
                answer = await answer()
            if isinstance(answer, Exception):
                raise answer
            return Reply(answer, self.usage)
        finally:
            self.at_once -= 1

    async def close(self):
        pass


@pytest.fixture
def journal(tmp_path):
    with Journal(tmp_path / "journal.sqlite") as opened:
        yield opened


def dispatcher(server, journal, **policy):
    return Dispatcher(server, journal, DispatchPolicy(**{**QUICK, **policy}))


async def ask(to, text="Is there a dog?"):
    key, reply = await to.ask([Message("user", (text,))], Sampling(), None)
    assert len(key) == 64
    return reply.text


def down():
    return TransientError("refused", unreachable=True)


async def test_a_recorded_call_is_never_asked_again(journal):
    server = Server(["first", "second"])
    assert await ask(dispatcher(server, journal)) == "first"
    again = dispatcher(server, journal, call_budget=0)
    assert await ask(again) == "first"
    assert (len(server.asked), again.statistics.hits, again.statistics.calls) == (1, 1, 0)


async def test_an_identical_call_on_its_way_is_awaited_not_asked_twice(journal):
    server = Server(["only", "never"])
    to = dispatcher(server, journal)
    assert await asyncio.gather(*(ask(to) for _ in range(20))) == ["only"] * 20
    assert len(server.asked) == 1


async def test_no_more_calls_are_out_than_the_limit_and_waiting_for_a_retry_takes_no_slot(journal):
    clock, answer_now = LoopClock(), asyncio.Event()

    async def when_told():
        await answer_now.wait()
        return "fine"

    server = Server([TransientError("busy", retry_after=300.0)] * 3 + [when_told])
    to = dispatcher(server, journal, concurrency=3, circuit_failures=100)
    backing_off = [asyncio.create_task(ask(to, f"early {number}")) for number in range(3)]
    await until(lambda: len(server.asked) == 3 and not server.at_once)
    late = [asyncio.create_task(ask(to, f"late {number}")) for number in range(20)]
    await turns()
    assert (server.at_once, to.statistics.waiting) == (3, 20)
    answer_now.set()
    assert await asyncio.gather(*late) == ["fine"] * 20
    assert not any(task.done() for task in backing_off)  # all three slots served the others while these waited
    assert server.most_at_once == 3
    clock.forward(600)
    assert await asyncio.gather(*backing_off) == ["fine"] * 3
    assert to.statistics.retries == 3


async def test_a_call_is_tried_again_as_often_as_allowed_and_then_fails_with_its_last_error(journal):
    server = Server([TransientError("one"), TransientError("two"), "fine"])
    assert await ask(dispatcher(server, journal, retries=2)) == "fine"
    server = Server([TransientError("one"), TransientError("two"), "too late"])
    with pytest.raises(TransientError, match=r"two \(2 tries\)"):
        await ask(dispatcher(server, journal, retries=1), "other")
    assert len(server.asked) == 2


async def test_a_refusal_is_not_tried_again_and_others_go_on(journal):
    server = Server([RefusedError("too long"), "fine"])
    to = dispatcher(server, journal)
    with pytest.raises(RefusedError, match="too long"):
        await ask(to, "long")
    assert await ask(to, "short") == "fine"
    assert len(server.asked) == 2


async def test_after_a_misconfiguration_nothing_more_is_sent(journal):
    server = Server([MisconfiguredError("wrong key")])
    to = dispatcher(server, journal)
    with pytest.raises(MisconfiguredError, match="wrong key"):
        await ask(to)
    with pytest.raises(RunStopped, match="wrong key"):
        await ask(to, "other")
    assert len(server.asked) == 1


async def test_a_call_that_hangs_is_cut_off_and_tried_again(journal):
    clock = LoopClock()

    async def hang():
        clock.forward(60)
        await asyncio.sleep(3600)

    server = Server([hang, "fine"])
    assert await ask(dispatcher(server, journal, timeout=60)) == "fine"
    assert (len(server.asked), server.at_once) == (2, 0)
    server = Server([hang])
    with pytest.raises(TransientError, match=r"no reply within 60 s"):
        await ask(dispatcher(server, journal, timeout=60, retries=1), "other")
    assert (len(server.asked), server.at_once) == (2, 0)


async def test_a_server_asking_to_wait_is_given_that_time_up_to_a_cap(journal):
    to = dispatcher(Server([""]), journal, retry_after_cap=7.0, backoff_base=1.0, backoff_cap=4.0)
    flight = type("Flight", (), {"attempts": 1, "call": type("Call", (), {"key": "k"})})
    assert 3.0 <= to._pause(flight, TransientError("", retry_after=3.0)) <= 4.0
    assert 7.0 <= to._pause(flight, TransientError("", retry_after=86_400.0)) <= 8.0
    flight.attempts = 50
    assert 2.0 <= to._pause(flight, TransientError("")) <= 4.0
    assert to._pause(flight, TransientError("")) == to._pause(flight, TransientError(""))


async def test_while_a_server_is_down_calls_wait_without_spending_their_tries(journal):
    calls = 30
    server = Server([down()] * 25 + ["back"])
    to = dispatcher(server, journal, concurrency=10, retries=1, circuit_failures=5)
    assert await asyncio.gather(*(ask(to, str(number)) for number in range(calls))) == ["back"] * calls
    # 10 were out when it opened; after that one probe at a time, not one request for every waiting call.
    assert len(server.asked) == 25 + calls
    assert to.statistics.circuit == "closed"


async def test_an_open_circuit_lets_one_probe_through_at_a_time_and_ever_more_rarely(journal):
    clock, server = LoopClock(), Server([down()])
    patience = {"patience": 1e6, "first_patience": 1e6, "probe_base": 1000.0, "probe_cap": 4000.0}
    to = dispatcher(server, journal, concurrency=10, circuit_failures=3, **patience)
    tasks = [asyncio.create_task(ask(to, str(number))) for number in range(50)]
    await until(lambda: to.statistics.circuit == "open" and not server.at_once)
    server.most_at_once = 0
    for interval in (1000, 2000, 4000, 4000):
        already = len(server.asked)
        clock.forward(0.8 * interval)
        await turns()
        assert len(server.asked) == already
        clock.forward(0.2 * interval)
        await until(lambda before=already: len(server.asked) > before)
        await turns()
        assert len(server.asked) == already + 1
    assert server.most_at_once == 1
    assert not any(task.done() for task in tasks)
    clock.forward(1e6)
    await asyncio.wait(tasks)
    assert all(isinstance(task.exception(), RunStopped) for task in tasks)


async def test_a_server_that_stays_away_stops_the_run_with_its_reason(journal):
    to = dispatcher(Server([down()]), journal, circuit_failures=2, patience=0.05)
    with pytest.raises(RunStopped, match=r"has not answered for 0\.05 s \(refused\)"):
        await ask(to)
    with pytest.raises(RunStopped):
        await ask(to, "other")


async def test_one_poisonous_call_fails_alone_while_others_get_through(journal):
    """It breaks the connection each time; since others are answered meanwhile, the fault is its own and its tries are counted."""

    class Fragile(Server):
        async def chat(self, messages, sampling, schema=None):
            if messages[-1].text == "poison":
                self.asked.append("poison")
                answered = to.statistics.calls
                await until(lambda: to.statistics.calls > answered)  # the connection breaks while others get through
                raise down()
            return await super().chat(messages, sampling, schema)

    server = Fragile(["fine"])
    to = dispatcher(server, journal, retries=2, circuit_failures=1000)
    poison = asyncio.create_task(ask(to, "poison"))
    number = 0
    while not poison.done():
        number += 1
        assert number < 10_000, "its tries are not counted"
        assert await ask(to, str(number)) == "fine"
    with pytest.raises(TransientError, match="refused"):
        await poison
    assert server.asked.count("poison") == 3
    assert await ask(to, "after") == "fine"


async def test_a_call_budget_is_never_exceeded_and_what_is_out_is_recorded(journal):
    async def slowly():
        await asyncio.sleep(0.01)
        return "fine"

    server = Server([slowly])
    to = dispatcher(server, journal, concurrency=4, call_budget=10)
    results = await asyncio.gather(*(ask(to, str(number)) for number in range(30)), return_exceptions=True)
    assert len(server.asked) == 10
    assert results.count("fine") == 10
    assert all("call budget of 10" in str(result) for result in results if result != "fine")
    assert len(journal) == 10


async def test_retries_count_against_the_call_budget(journal):
    server = Server([TransientError("busy")])
    with pytest.raises(RunStopped, match="call budget"):
        await ask(dispatcher(server, journal, retries=10, call_budget=3))
    assert len(server.asked) == 3


async def test_a_token_budget_stops_after_the_call_that_reaches_it(journal):
    server = Server(["fine"], usage=Usage(10, 5))
    to = dispatcher(server, journal, token_budget=30)
    assert [await ask(to, "1"), await ask(to, "2")] == ["fine"] * 2
    with pytest.raises(RunStopped, match="token budget of 30 is spent"):
        await ask(to, "3")
    assert await ask(to, "1") == "fine"  # the journal costs nothing
    assert len(server.asked) == 2


async def test_a_token_budget_that_cannot_be_kept_is_not_kept_silently(journal):
    server = Server(["fine"], usage=Usage())
    to = dispatcher(server, journal, token_budget=1000)
    with pytest.raises(RunStopped, match="does not say how many tokens"):
        await ask(to)
    assert len(journal) == 1


async def test_a_cancelled_game_loses_no_request_that_is_out(journal):
    answer_now = asyncio.Event()

    async def when_told():
        await answer_now.wait()
        return "fine"

    server = Server([when_told])
    to = dispatcher(server, journal)
    task = asyncio.create_task(ask(to))
    await until(lambda: server.at_once)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    answer_now.set()
    await to.settle(patiently=True)
    assert await ask(to) == "fine"
    assert len(server.asked) == 1


async def test_a_call_that_is_not_out_dies_with_its_game(journal):
    answer_now = asyncio.Event()

    async def when_told():
        await answer_now.wait()
        return "fine"

    server = Server([when_told])
    to = dispatcher(server, journal, concurrency=1)
    first = asyncio.create_task(ask(to, "first"))
    await until(lambda: server.at_once)
    second = asyncio.create_task(ask(to, "second"))
    await until(lambda: to.statistics.waiting)
    second.cancel()
    await asyncio.sleep(0)
    answer_now.set()
    assert await first == "fine"
    assert await ask(to, "third") == "fine"
    assert server.asked == ["first", "third"]
    assert to.statistics.waiting == 0


async def test_leaving_in_haste_drops_requests_but_no_reply(journal):
    async def hang():
        await asyncio.sleep(3600)

    server = Server(["fine", hang])
    to = dispatcher(server, journal)
    tasks = [asyncio.create_task(ask(to, str(number))) for number in range(3)]
    for _ in range(4):  # turns of the loop until the first reply is there and not yet recorded
        await asyncio.sleep(0)
    assert (len(server.asked), server.at_once) == (3, 2)
    await to.settle(patiently=False)
    await asyncio.wait(tasks)
    assert len(journal) == 1
    with pytest.raises(RunStopped):
        await ask(to, "more")


async def test_a_reply_that_cannot_be_recorded_is_not_handed_out(journal):
    to = dispatcher(Server(["x" * 100_000]), journal)
    pages = journal._writer.execute("PRAGMA page_count").fetchall()[0][0]
    journal._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(RunStopped, match="disk is full"):
        await ask(to)
    assert len(journal) == 0


async def test_a_thousand_calls_through_a_flaky_server_are_each_recorded_once(journal):
    draw = random.Random(0)

    class Flaky(Server):
        async def chat(self, messages, sampling, schema=None):
            self.answers = [TransientError("busy")] if draw.random() < 0.2 else [messages[-1].text]
            return await super().chat(messages, sampling, schema)

    server = Flaky([""])
    to = dispatcher(server, journal, concurrency=16, retries=20, circuit_failures=50)
    assert await asyncio.gather(*(ask(to, str(number)) for number in range(1000))) == [str(number) for number in range(1000)]
    statistics = to.statistics
    assert (len(journal), statistics.calls, statistics.in_flight, statistics.waiting) == (1000, 1000, 0, 0)
    assert statistics.requests == len(server.asked) == 1000 + statistics.retries
    assert (statistics.prompt_tokens, statistics.completion_tokens) == (10_000, 5_000)


@pytest.mark.parametrize("field", ["concurrency", "retries", "timeout", "patience", "call_budget", "token_budget"])
def test_a_policy_that_no_run_can_mean_is_refused(field):
    with pytest.raises(ValueError, match=field):
        DispatchPolicy(**{field: -1})


async def test_two_backbones_share_one_budget(journal):
    shared = Budget(calls=3)
    servers = [Server(["fine"], fingerprint=name) for name in ("one", "other")]
    first, second = (Dispatcher(server, journal, DispatchPolicy(**QUICK), shared) for server in servers)
    await ask(first, "a")
    await ask(second, "a")
    await ask(first, "b")
    for to in (first, second):
        with pytest.raises(RunStopped, match="call budget of 3"):
            await ask(to, "c")
    assert [len(server.asked) for server in servers] == [2, 1]


async def test_a_server_that_never_answered_is_given_up_sooner_and_at_once_thought_down(journal):
    to = dispatcher(Server([down()]), journal, circuit_failures=8, backoff_base=60.0, first_patience=0.1, patience=900.0)
    with pytest.raises(RunStopped, match=r"has not answered for 0\.1 s"):
        await ask(to)
