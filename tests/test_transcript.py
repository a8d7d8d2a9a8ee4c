"""A prompt over the model's context: the oldest rounds of the talk are left out, said so, and nothing else changes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from scripted import CHOICE, YES_NO, ScriptedTable, against, is_vote, question, says
from servers import ChatServer, completion, failure

from mug_eval.backbones.openai_api import OpenAIModel
from mug_eval.chat import Json, Message, PromptTooLong, RefusedError, Reply, Sampling
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.journal import Journal, call_key
from mug_eval.engine.runner import Setting, play_question
from mug_eval.engine.table import GameTable
from mug_eval.methods import methods
from mug_eval.methods.conversation import SYSTEM_OF_TEXT, reminded, together, turn
from mug_eval.question import AnswerFormat
from mug_eval.transcript import LEFT_OUT, Transcript, without_oldest_round


def size(messages: Sequence[Message]) -> int:
    """The length of a conversation, in characters: what stands for tokens here."""
    return sum(len(message.text) for message in messages)


class Narrow:
    """A backbone with a context; replies depend on what was shown and come back in an order that ``slow`` shuffles.

    Attributes:
        asked: every conversation that it answered.
        refused: how many it did not.
    """

    fingerprint = "narrow"

    def __init__(self, context: int | None, slow: str = "", unmendable: str = "") -> None:
        self.context, self.slow, self.unmendable = context, slow, unmendable
        self.asked: list[Sequence[Message]] = []
        self.refused = 0

    async def chat(self, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> Reply:
        shown = hashlib.sha256(repr((messages, sampling.seed)).encode()).hexdigest()
        await asyncio.sleep(int(hashlib.sha256((self.slow + shown).encode()).hexdigest()[:2], 16) / 256 * 0.003)
        if self.unmendable and self.unmendable in messages[-1].text:
            raise RefusedError("this one never")
        if self.context is not None and size(messages) > self.context:
            self.refused += 1
            raise PromptTooLong(f"{size(messages)} over {self.context}", size(messages), self.context)
        self.asked.append(messages)
        return Reply(reply_to(messages[-1].text, shown))

    async def close(self) -> None:
        """Nothing to close."""


def reply_to(prompt: str, shown: str) -> str:
    """Ballots that accuse the first of the others, and statements of 400 characters."""
    if "JSON object" in prompt:
        named = sorted(set(re.findall(r'"(Agent \d)"', prompt)))
        factors = ("inconsistency", "deviation", "inaccuracy", "suspicion")
        return json.dumps({name: dict.fromkeys(factors, int(shown[place], 16) % 11) for place, name in enumerate(named)})
    return f"I see {shown} {'and a dog ' * 33}.\nAnswer: {('Yes', 'No')[int(shown[0], 16) % 2]}"


LONG: dict[str, Mapping[str, Any]] = {
    "mug": {"observation_rounds": 3, "detection_rounds": 2},
    "mad-judge": {"rounds": 4, "early_stop": False},
    "cfmad": {"rounds": 3},
}
CONTEXT = {"mug": 4600, "mad-judge": 3900, "cfmad": 4500}
"""Too small for all the talk, and large enough for its newest round."""


async def game(folder: Path, name: str, model: Any, answer_format: AnswerFormat = YES_NO, **settings: Any) -> dict[str, Any]:
    method = methods()[name]
    setting = Setting(method, method.config(**{**LONG[name], **settings}), Sampling(max_tokens=50), 3)
    with Journal(folder / "journal.sqlite") as journal:
        dispatcher = Dispatcher(model, journal, DispatchPolicy(concurrency=4))
        return timeless(await play_question(question(answer_format), setting, dispatcher, lambda index, answer: str(answer)))


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    for call in record["calls"]:
        del call["seconds"]
    del record["usage"]["seconds"]
    return record


def dropped(record: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in record["events"] if event["event"] == "transcript_dropped"]


# A text that knows its rounds

TALK = Transcript(
    [(None, "Case A."), (0, "one"), (1, "two"), (1, "three"), (None, "Case B."), (0, "four"), (1, "five"), (2, "six")]
)


def test_a_transcript_is_the_text_that_it_would_be_without_rounds() -> None:
    assert TALK == "Case A.\n\none\n\ntwo\n\nthree\n\nCase B.\n\nfour\n\nfive\n\nsix"
    plain = [Message("system", (SYSTEM_OF_TEXT,)), Message("user", ("Q?", "\n\nRules.\n\n" + str(TALK) + "\n\nTask."))]
    told = turn(("Q?",), "Rules.", TALK, "", "Task.")
    assert call_key("m", told, Sampling()) == call_key("m", plain, Sampling()), "the journal knows a call by its words alone"


def test_the_oldest_round_goes_first_from_everywhere_and_the_newest_stays() -> None:
    once = TALK.without_oldest_round()
    assert once == f"Case A.\n\n{LEFT_OUT}\n\ntwo\n\nthree\n\nCase B.\n\n{LEFT_OUT}\n\nfive\n\nsix"
    assert once is not None
    twice = once.without_oldest_round()
    assert twice == f"Case A.\n\n{LEFT_OUT}\n\nCase B.\n\n{LEFT_OUT}\n\nsix", "said once a gap"
    assert twice is not None
    assert twice.without_oldest_round() is None


def test_what_is_no_transcript_is_never_shortened() -> None:
    assert without_oldest_round(turn(("Q?",), "Rules.", str(TALK), "Task.")) is None
    assert without_oldest_round(turn(("Q?",))) is None
    assert without_oldest_round(turn(("Q?",), TALK + " and a task")) is None


@pytest.mark.parametrize("reply", ["I cannot say.", "  "])
def test_a_conversation_that_goes_on_can_still_be_shortened(reply: str) -> None:
    conversation = turn(("Q?",), TALK, "Task.")
    longer = reminded(conversation, reply, "Once more.")
    shorter = without_oldest_round(longer)
    assert shorter is not None
    assert shorter == reminded(turn(("Q?",), TALK.without_oldest_round() or "", "Task."), reply, "Once more.")


# Games


@pytest.mark.parametrize("name", sorted(LONG))
async def test_a_long_game_is_played_to_its_end_within_the_context(name: str, tmp_path: Path) -> None:
    model = Narrow(CONTEXT[name])
    record = await game(tmp_path, name, model)
    assert model.refused > 0
    assert all(size(messages) <= CONTEXT[name] for messages in model.asked)
    told = [messages for messages in model.asked if LEFT_OUT in messages[1].text]
    assert len(told) == len(dropped(record)) > 0, "an agent that is not shown all is told so, and the trace says so"
    assert all(event["rounds"] >= 1 and event["call"].startswith(event["seat"] + "#") for event in dropped(record))
    assert max(event["rounds"] for event in dropped(record)) >= 2


@pytest.mark.parametrize("name", sorted(LONG))
async def test_no_more_is_left_out_than_has_to_be(name: str, tmp_path: Path) -> None:
    """The same game with one round more in a prompt would have been refused; where all fits nothing is touched."""
    wide = Narrow(None)
    whole = await game(tmp_path, name, wide)
    assert not dropped(whole)
    assert not any(LEFT_OUT in messages[1].text for messages in wide.asked)
    longest = max(size(messages) for messages in wide.asked)
    just_enough = Narrow(longest)
    (tmp_path / "again").mkdir()
    assert await game(tmp_path / "again", name, just_enough) == whole
    assert just_enough.refused == 0


async def test_mug_shows_the_newest_round_to_everybody_and_the_rules_and_role_stay(tmp_path: Path) -> None:
    model = Narrow(CONTEXT["mug"])
    await game(tmp_path, "mug", model)
    shortened = [
        messages[1].text for messages in model.asked if LEFT_OUT in messages[1].text and "You are Agent" in messages[1].text
    ]
    talk = [text for text in shortened if "discuss the question above" in text]
    assert talk
    for text in talk:
        rounds = [int(number) for number in re.findall(r"^\[Round (\d+)\]", text, re.MULTILINE)]
        assert rounds == list(range(rounds[0], rounds[-1] + 1)) and rounds[0] > 1
        assert text.index(LEFT_OUT) < text.index(f"[Round {rounds[0]}]")
        assert text.index("discuss the question above") < text.index(LEFT_OUT), "the rules stay where they are"
        spoken = re.search(r"Round (\d+) of talk", text)
        newest = int(spoken[1]) - 1 if spoken else rounds[-1]
        assert rounds[-1] == newest


async def test_cfmad_s_judge_is_shown_the_same_rounds_of_every_case(tmp_path: Path) -> None:
    model = Narrow(5600)
    await game(tmp_path, "cfmad", model, CHOICE, rounds=2)
    judged = next(messages[1].text for messages in model.asked if "choose exactly one answer" in messages[1].text)
    cases = judged.split("Case for ")[1:]
    assert len(cases) == 4
    kinds = [re.findall(r"^(Argument|Critique|Rebuttal):", case, re.MULTILINE) for case in cases]
    assert all(kind == ["Critique", "Rebuttal"] for kind in kinds)
    assert all(case.count(LEFT_OUT) == 1 for case in cases)


@pytest.mark.parametrize("name", sorted(LONG))
async def test_the_record_does_not_depend_on_which_reply_came_first(name: str, tmp_path: Path) -> None:
    records = []
    for slow in ("a", "b", "c"):
        (tmp_path / slow).mkdir()
        records.append(json.dumps(await game(tmp_path / slow, name, Narrow(CONTEXT[name], slow))))
    assert records[0] == records[1] == records[2]


async def test_the_trace_says_it_by_seat_before_what_came_of_the_calls(tmp_path: Path) -> None:
    """The seats answer from the last to the first, and another phase follows."""

    class Backwards(Narrow):
        async def chat(self, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> Reply:
            if size(messages) > 200:
                raise PromptTooLong("too long")
            await asyncio.sleep((12 - int(messages[-1].text.split()[-1])) * 0.002)
            return Reply("yes")

    with Journal(tmp_path / "journal.sqlite") as journal:
        table = GameTable(question(), "mug", Sampling(), 0, Dispatcher(Backwards(None), journal, DispatchPolicy(concurrency=12)))
        talk = Transcript([(1, "a" * 300), (2, "b")])
        for phase in ("statement", "vote"):
            await together([table.ask(f"Agent {n}", turn(("Q?",), talk, f"{phase} {n}")) for n in (2, 10, 1)])
            table.record(phase)
        await table.ask("writer", turn(("Q?",), Transcript([(1, "c" * 300), (2, "d"), (3, "e")]), "final 3"))
        table.close()
    assert [(event["event"], event.get("call"), event.get("rounds")) for event in table.events] == [
        *(("transcript_dropped", f"Agent {n}#1", 1) for n in (1, 2, 10)),
        ("statement", None, None),
        *(("transcript_dropped", f"Agent {n}#2", 1) for n in (1, 2, 10)),
        ("vote", None, None),
        ("transcript_dropped", "writer#1", 1),
    ]


@pytest.mark.parametrize("name", sorted(LONG))
async def test_a_recorded_game_is_replayed_whatever_the_context_is_now(name: str, tmp_path: Path) -> None:
    """Refusals are not in the journal: a server with a larger context must not make the game another one."""
    first = await game(tmp_path, name, Narrow(CONTEXT[name]))
    wide = Narrow(None)
    assert await game(tmp_path, name, wide) == first
    assert wide.asked == []


async def test_a_prompt_that_even_the_newest_round_does_not_fit_into_stays_refused(tmp_path: Path) -> None:
    with pytest.raises(PromptTooLong) as refusal:
        await game(tmp_path, "mug", Narrow(1500))
    assert refusal.value.limit == 1500
    assert refusal.value.tokens is not None and refusal.value.tokens > 1500
    assert "newest round" not in str(refusal.value), "it was the first"
    (tmp_path / "later").mkdir()
    with pytest.raises(PromptTooLong, match="over 2500, with nothing but the newest round of the talk left in it"):
        await game(tmp_path / "later", "mug", Narrow(2500))


async def test_another_refusal_is_not_mended(tmp_path: Path) -> None:
    model = Narrow(None, unmendable="[Round 2]")
    with pytest.raises(RefusedError, match="this one never"):
        await game(tmp_path, "mug", model)
    assert not any(LEFT_OUT in messages[1].text for messages in model.asked)


async def test_it_works_with_a_real_server_that_counts(tmp_path: Path) -> None:
    most = 4600

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        texts = [m["content"] if isinstance(m["content"], str) else m["content"][-1]["text"] for m in body["messages"]]
        length = sum(map(len, texts))
        if length > most:
            words = f"This model's maximum context length is {most} tokens. However, your request has {length} input tokens."
            return failure(400, words, type="BadRequestError", code=400)
        return completion(reply_to(texts[-1], hashlib.sha256("".join(texts).encode()).hexdigest()))

    with ChatServer(answer) as server:
        model = OpenAIModel("m", server.base_url)
        first = await game(tmp_path, "mug", model)
        asked = len(server.requests)
        assert await game(tmp_path, "mug", model) == first, "answered from the journal"
        assert len(server.requests) == asked
        await model.close()
    assert dropped(first)


# The prompts of a game that fits are what journals and the reference model know

DIGESTS = {
    "cfmad": "52a37310cc676103",
    "mad-judge": "585875f06c2995d8",
    "mad-vote": "b4cf76b8899a47d4",
    "mug": "7322505677e51ecf",
    "self-refine": "61acbafa1c46d858",
}
"""Of all calls of one game. A change of words makes every journal ask anew, and the reference model was trained on these."""


@pytest.mark.parametrize("name", sorted(DIGESTS))
async def test_the_words_of_a_game_that_fits_are_what_they_were(name: str) -> None:
    digest = hashlib.sha256()
    for script in (against({"Agent 1": "Agent 2", "Agent 2": "Agent 1", "Agent 3": "Agent 2"}), says("No"), mute):
        table = ScriptedTable(script)
        await methods()[name].play(question(), table, methods()[name].config())
        for call in table.calls:
            digest.update(call_key("model", call.messages, call.sampling, call.schema).encode())
    assert digest.hexdigest()[:16] == DIGESTS[name]


def mute(seat: str, number: int, messages: Sequence[Message]) -> str:
    """Blank statements, and ballots that are none."""
    return "no ballot" if is_vote(messages) else ""
