import asyncio
import hashlib
import random
import tracemalloc
from dataclasses import dataclass, field

import pytest

from mug_eval.chat import ImageRef, Message, MisconfiguredError, RefusedError, Reply, Sampling, TransientError, Usage
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.games import GamesFile
from mug_eval.engine.journal import Journal
from mug_eval.engine.runner import Owed, PlayStopped, Setting, play_questions
from mug_eval.engine.table import GameTable
from mug_eval.errors import QuestionError, UserError
from mug_eval.methods.method import CallRange, Method, Verdict
from mug_eval.question import Answer, AnswerFormat, Question, Unparsed


@dataclass(frozen=True)
class Debate:
    agents: int = 3
    rounds: int = 2


async def play_debate(question, table, config):
    """Agents speak at once in each round, then one is drawn and asked; every reply goes into the next prompt."""
    said = []
    for number in range(config.rounds):
        replies = await asyncio.gather(
            *(
                table.ask(f"Agent {seat}", [Message("user", (*question.prompt, *said, f"you are {seat}"))])
                for seat in range(config.agents)
            )
        )
        said += [reply.text for reply in replies]
        table.record("round", number=number, said=[reply.text for reply in replies])
    drawn = table.random("last").randrange(config.agents)
    last = await table.ask(f"Agent {drawn}", [Message("user", (*said, "and so?"))])
    answer = Answer("Yes") if int(last.text, 16) % 3 else Unparsed("no answer found")
    return Verdict(answer, raw=last.text, ended="drawn", facts={"drawn": drawn})


def method(play=play_debate, config=Debate):
    return Method("debate", "", config, play, lambda question, config: CallRange(7, 7))


@dataclass
class Source:
    """Questions made when they are asked for; ``broken`` ones cannot be put."""

    count: int = 20
    broken: tuple[str, ...] = ()
    picture_bytes: int = 10
    opened: list[str] = field(default_factory=list)
    name: str = "Bench"

    @property
    def indices(self):
        return tuple(str(number) for number in range(self.count))

    def question(self, index):
        self.opened.append(index)
        if index in self.broken:
            raise QuestionError(f"row {index}:\n the picture does not decode")
        data = index.encode().ljust(self.picture_bytes, b"x")
        picture = ImageRef(hashlib.sha256(data).hexdigest(), "image/jpeg", 1, 1, data)
        return Question(self.name, index, (picture, f"question {index}?"), AnswerFormat("yes_no"))

    def prediction(self, index, answer):
        return answer.value if isinstance(answer, Answer) else ""


@dataclass
class Backbone:
    """Replies with a hash of everything it is sent, after a time that differs from call to call; ``fail`` may raise first."""

    jitter: float = 0.003
    fail: object = None
    asked: list = field(default_factory=list)
    fingerprint: str = "hash"

    async def chat(self, messages, sampling, schema=None):
        self.asked.append((messages[-1].text, sampling.seed))
        await asyncio.sleep(random.Random(len(self.asked)).random() * self.jitter)
        if self.fail is not None:
            self.fail(messages[-1].text)
        said = repr([(message.role, [getattr(part, "sha256", part) for part in message.parts]) for message in messages])
        words = hashlib.sha256(f"{said} {sampling}".encode()).hexdigest()[:12]
        return Reply(words, Usage(5, 2, len(messages[-1].images)), "stop", "hash", 0.25)

    async def close(self):
        pass


async def play(folder, source, backbone, *, concurrency=8, games_in_flight=8, seed=0, played=None, on_done=None, **policy):
    with Journal(folder / "journal.sqlite") as journal, GamesFile(folder / "games.jsonl") as games:
        quick = {"backoff_base": 0.001, "backoff_cap": 0.001, "retries": 1, "circuit_failures": 1000}
        dispatcher = Dispatcher(backbone, journal, DispatchPolicy(concurrency=concurrency, **{**quick, **policy}))
        setting = Setting(played or method(), (played or method()).config(), Sampling(temperature=0.5), seed)
        try:
            return await play_questions(
                source, setting, dispatcher, games, games_in_flight=games_in_flight, on_done=on_done or (lambda outcome: None)
            )
        finally:
            games.rewrite(source.indices)


def games_in(folder):
    return (folder / "games.jsonl").read_bytes()


async def test_the_same_seed_gives_the_same_bytes_at_any_concurrency(tmp_path):
    runs = {}
    for name, concurrency, games_in_flight, seed in (
        ("one", 1, 1, 0),
        ("many", 16, 20, 0),
        ("odd", 3, 7, 0),
        ("other seed", 16, 20, 1),
    ):
        assert (
            await play(tmp_path / name, Source(), Backbone(), concurrency=concurrency, games_in_flight=games_in_flight, seed=seed)
            == []
        )
        runs[name] = games_in(tmp_path / name)
    assert runs["one"] == runs["many"] == runs["odd"]
    assert runs["one"] != runs["other seed"]
    assert runs["one"].count(b"\n") == 20


async def test_a_run_that_is_broken_off_and_continued_asks_no_recorded_call_twice_and_ends_the_same(tmp_path):
    whole = Backbone()
    await play(tmp_path / "whole", Source(), whole)
    broken_off = Backbone()
    attempts = 0
    while True:
        attempts += 1
        run = asyncio.create_task(play(tmp_path / "parts", Source(), broken_off, concurrency=4))
        before = len(broken_off.asked)
        while not run.done() and len(broken_off.asked) < before + 25:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        if run.done():
            await run
            break
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert attempts > 3
    assert games_in(tmp_path / "parts") == games_in(tmp_path / "whole")
    # Only calls that were out at a break may be asked again: 4 at each.
    assert len(whole.asked) <= len(broken_off.asked) <= len(whole.asked) + 4 * (attempts - 1)
    assert set(broken_off.asked) == set(whole.asked)


async def test_a_spent_budget_says_what_is_owed_and_the_same_command_continues(tmp_path):
    backbone = Backbone()
    with pytest.raises(PlayStopped, match="call budget of 50") as stop:
        await play(tmp_path, Source(), backbone, call_budget=50, games_in_flight=4)
    assert len(backbone.asked) == 50
    done = games_in(tmp_path).count(b"\n")
    assert 0 < done < 20
    assert len(stop.value.owed) == 20 - done
    assert [int(owed.index) for owed in stop.value.owed] == sorted(int(owed.index) for owed in stop.value.owed)
    assert all("call budget" in owed.reason for owed in stop.value.owed)
    assert await play(tmp_path, Source(), backbone) == []
    assert len(backbone.asked) == len(set(backbone.asked)) == 20 * 7  # nothing that was out was lost
    await play(tmp_path / "whole", Source(), Backbone())
    assert games_in(tmp_path) == games_in(tmp_path / "whole")


async def test_a_question_that_cannot_be_played_is_owed_with_its_reason_and_the_rest_goes_on(tmp_path):
    def fail(words):
        if "question 3?" in words:
            raise RefusedError("context too long:\n 9000 tokens")
        if "question 5?" in words:
            raise TransientError("overloaded")

    told = []
    owed = await play(tmp_path, Source(broken=("7",)), Backbone(fail=fail), on_done=told.append)
    assert owed == [
        Owed("3", "context too long: 9000 tokens"),
        Owed("5", "overloaded (2 tries)"),
        Owed("7", "row 7: the picture does not decode"),
    ]
    assert sorted(outcome.index if isinstance(outcome, Owed) else outcome["index"] for outcome in told) == sorted(Source().indices)
    assert games_in(tmp_path).count(b"\n") == 17
    # The cause is mended: only the owed are played.
    source, backbone = Source(), Backbone()
    assert await play(tmp_path, source, backbone) == []
    assert sorted(source.opened) == ["3", "5", "7"]
    await play(tmp_path / "whole", Source(), Backbone())
    assert games_in(tmp_path) == games_in(tmp_path / "whole")


async def test_a_misconfigured_backbone_stops_everything_with_one_line(tmp_path):
    def fail(words):
        raise MisconfiguredError("m at host answered 401:\n wrong key")

    backbone = Backbone(fail=fail)
    with pytest.raises(UserError, match="m at host answered 401: wrong key"):
        await play(tmp_path, Source(500), backbone, concurrency=4)
    assert len(backbone.asked) <= 4


async def test_a_mistake_in_a_method_names_its_question_and_what_is_done_stays(tmp_path):
    async def buggy(question, table, config):
        if question.index == "9":
            raise KeyError("seat")
        return await play_debate(question, table, config)

    with pytest.raises(KeyError, match="seat") as error:
        await play(tmp_path, Source(), Backbone(), played=method(buggy), games_in_flight=2)
    assert error.value.__notes__ == ["while playing question 9 of Bench with debate"]
    assert games_in(tmp_path).count(b"\n") >= 7


async def test_errors_from_a_methods_task_group_count_as_what_they_are(tmp_path):
    async def grouped(question, table, config):
        async with asyncio.TaskGroup() as group:
            for seat in range(2):
                group.create_task(table.ask(f"Agent {seat}", [Message("user", question.prompt)]))
        return Verdict(Answer("Yes"))

    def fail(words):
        if "question 1?" in words:
            raise RefusedError("too long")

    assert await play(tmp_path, Source(3), Backbone(fail=fail), played=method(grouped)) == [Owed("1", "too long")]


async def test_the_record_holds_the_whole_game(tmp_path):
    class Quiet(Backbone):
        async def chat(self, messages, sampling, schema=None):
            reply = await super().chat(messages, sampling, schema)
            return Reply(reply.text, Usage(None, 2, 1), "stop", "hash", 0.25)

    await play(tmp_path, Source(1), Quiet())
    with GamesFile(tmp_path / "games.jsonl") as games, Journal(tmp_path / "journal.sqlite") as journal:
        record = games.record("0")
        for call in record["calls"]:
            assert journal.read(call["key"]).reply.text == call["text"]
    assert list(record) == ["index", "prediction", "answer", "raw", "ended", "facts", "events", "calls", "usage"]
    drawn = record["facts"]["drawn"]
    expected = [f"Agent {seat}#{number}" for seat in range(3) for number in ((1, 2, 3) if seat == drawn else (1, 2))]
    assert [call["call"] for call in record["calls"]] == expected
    assert record["events"][0]["event"] == "round"
    assert record["usage"] == {
        "calls": 7,
        "prompt_tokens": 0,
        "completion_tokens": 14,
        "images": 7,
        "seconds": 1.75,
        "calls_without_usage": 7,
    }
    assert record["answer"] in ({"value": "Yes"}, {"unparsed": "no answer found"})
    assert record["prediction"] == record["answer"].get("value", "")


async def test_questions_are_opened_when_their_game_begins_and_no_earlier(tmp_path):
    source = Source(50)
    opened_ahead = []

    def on_done(outcome):
        done = sum(1 for _ in opened_ahead) + 1
        opened_ahead.append(len(source.opened) - done)

    await play(tmp_path, source, Backbone(), games_in_flight=3, on_done=on_done)
    assert max(opened_ahead) <= 3
    assert sorted(source.opened) == sorted(source.indices)


async def test_memory_does_not_grow_with_the_number_of_questions(tmp_path):
    async def direct(question, table, config):
        return Verdict(Answer((await table.ask("Agent", [Message("user", question.prompt)])).text))

    peaks = []
    for count in (100, 1000):
        folder = tmp_path / str(count)
        backbone = Backbone(jitter=0)
        backbone.asked = _Forgetful()
        source = Source(count, picture_bytes=50_000)
        source.opened = _Forgetful()
        tracemalloc.start()
        assert await play(folder, source, backbone, played=method(direct), games_in_flight=4) == []
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # 900 more questions hold 45 MB of pictures; what may stay of each is its index and where its line begins.
    assert peaks[1] - peaks[0] < 900 * 600


class _Forgetful(list):
    def append(self, item):
        pass


@pytest.fixture
def table(tmp_path):
    with Journal(tmp_path / "journal.sqlite") as journal:
        question = Question("Bench", "7", ("Is there a dog?",), AnswerFormat("yes_no"))
        backbone = Backbone(jitter=0)
        made = GameTable(question, "debate", Sampling(seed=99), 3, Dispatcher(backbone, journal, DispatchPolicy()))
        made.backbone = backbone
        yield made


HELLO = [Message("user", ("hello",))]


async def test_every_call_of_every_seat_draws_with_a_seed_of_its_own(table):
    for seat in ("Agent 1", "Agent 2", "Agent 1"):
        await table.ask(seat, HELLO, sampling=Sampling(temperature=1.0, seed=5))
    seeds = [seed for _, seed in table.backbone.asked]
    assert len(set(seeds)) == 3
    assert not {5, 99} & set(seeds)


async def test_a_seat_that_asks_twice_at_once_is_a_mistake_of_the_method(table):
    with pytest.raises(RuntimeError, match="Agent 1 asks while its last call is out"):
        await asyncio.gather(table.ask("Agent 1", HELLO), table.ask("Agent 1", HELLO))


async def test_a_call_after_the_game_is_a_mistake_of_the_method(table):
    table.close()
    with pytest.raises(RuntimeError, match="after its game is over"):
        await table.ask("Agent 1", HELLO)


async def test_calls_are_listed_by_seat_and_number_as_people_count(table):
    for seat in ("judge", "Agent 10", "Agent 2", "Agent 10"):
        await table.ask(seat, HELLO)
    assert [call["call"] for call in table.calls] == ["Agent 2#1", "Agent 10#1", "Agent 10#2", "judge#1"]


async def test_draws_depend_on_their_purpose_only(table):
    first = table.random("seats").random()
    await table.ask("Agent 1", HELLO)
    assert table.random("seats").random() == first
    assert table.random("undercover").random() != first
