import asyncio
import base64
import io
import logging
import ssl
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from loop_clock import LoopClock
from PIL import Image
from servers import ChatServer, always, completion, failure, in_turn

from mug_eval.backbones.catalogue import load_catalogue, open_backbone, parse_backbone
from mug_eval.backbones.vlmevalkit_model import VLMEvalKitModel
from mug_eval.chat import ImageRef, Message, MisconfiguredError, RefusedError, Sampling, TransientError, Usage
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.journal import Journal
from mug_eval.errors import UserError

config = pytest.importorskip("vlmeval.config", reason="VLMEvalKit is not installed")
from vlmeval.api import GPT4V  # noqa: E402
from vlmeval.vlm.base import BaseModel  # noqa: E402


def picture(colour="red"):
    file = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(file, "PNG")
    return ImageRef(colour.encode().hex().ljust(64, "0"), "image/png", 8, 8, file.getvalue())


HELLO = [Message("user", ("Is there a dog?",))]


class Local(BaseModel):
    """A model in this process: says what it was given, and how many calls were in it at once."""

    INTERLEAVE = True
    made = 0
    at_once = most_at_once = 0
    clock = None

    def __init__(self, model_path="x", max_new_tokens=1, temperature=0.7, do_sample=True, **kwargs):
        super().__init__()
        type(self).made += 1
        self.settings = {"max_new_tokens": max_new_tokens, "temperature": temperature, "do_sample": do_sample, **kwargs}

    def generate_inner(self, message, dataset=None):
        import torch

        type(self).at_once += 1
        type(self).most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(0.005)
        if self.clock is not None:
            self.clock.forward(1)
        type(self).at_once -= 1
        print("noise")
        asked = message[-1]["value"]
        if asked == "crash":
            raise ValueError("CUDA out of\nmemory")
        if asked == "dict":
            return {"prediction": "from a dict", "extra_records": {}}
        if asked == "nothing":
            return None
        if asked == "draw":
            return str(int(torch.randint(0, 2**31, (1,))))
        if asked == "settings":
            return repr(self.settings)
        return repr([(item["type"], item["value"]) for item in message])


class Parallel(Local):
    is_api = True


@pytest.fixture
def register(monkeypatch):
    def add(name, made, **keywords):
        monkeypatch.setitem(config.supported_VLM, name, partial(made, **keywords))

    Local.made = Local.at_once = Local.most_at_once = 0
    add("local", Local, model_path="y")
    return add


async def ask(model, *parts, sampling=None):
    messages = [Message("user", parts)]
    return (await model.chat(messages, sampling or Sampling())).text


async def test_a_real_api_class_plays_over_http(register, caplog):
    with ChatServer(in_turn(completion, lambda: failure(500), completion)) as server:
        register(
            "gpt",
            GPT4V,
            model="m",
            api_base=f"{server.base_url}/chat/completions",
            key="sk-secret-key",
            retry=10,
            img_detail="high",
        )
        caplog.set_level(logging.DEBUG)
        sampling = Sampling(temperature=0.25, top_p=0.5, top_k=7, max_tokens=33)
        model = VLMEvalKitModel("gpt", sampling)
        messages = [Message("system", ("Be brief.",)), Message("user", (picture(), "Is there a dog?"))]
        reply = await model.chat(messages, sampling)
        with pytest.raises(TransientError, match="gpt: Failed to obtain answer"):
            await model.chat(HELLO, sampling)
        assert len(server.requests) == 2  # its own ten retries are off
        assert (await model.chat(HELLO, sampling)).text == "Yes"
        await model.close()
    assert (reply.text, reply.usage) == ("Yes", Usage(None, None, 1))
    sent = server.requests[0]
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"]) == (0.25, 0.5, 33)
    [turn] = sent["messages"]
    assert [part["type"] for part in turn["content"]] == ["text", "image_url", "text"]
    assert [turn["content"][0]["text"], turn["content"][2]["text"]] == ["Be brief.", "Is there a dog?"]
    data = turn["content"][1]["image_url"]["url"].partition("base64,")[2]
    red, green, _ = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB").getpixel((4, 4))
    assert red > 200 > 50 > green
    assert server.requests[1]["messages"] == [{"role": "user", "content": "Is there a dog?"}]  # no system text of another call
    assert "sk-secret-key" not in caplog.text
    assert model.notes == [
        "gpt takes no seed: its draws cannot be repeated",
        "gpt has no keyword for top_k: it plays with its own default, not 7",
    ]


async def test_a_model_in_this_process_is_made_once_and_asked_one_call_at_a_time(register, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Local, "clock", LoopClock())
    model = VLMEvalKitModel("local", Sampling(), concurrency=8)
    assert Local.made == 0
    with Journal(tmp_path / "j.sqlite") as journal:
        dispatcher = Dispatcher(model, journal, DispatchPolicy(concurrency=8, timeout=60, retries=0))
        calls = (dispatcher.ask([Message("user", (str(number),))], Sampling()) for number in range(150))
        assert (
            len(await asyncio.gather(*calls)) == 150
        )  # 150 s of work in all, by the clock: waiting does not count as the call's time
    await model.close()
    assert (Local.made, Local.most_at_once, model.most_calls_in_flight) == (1, 1, 1)
    assert capsys.readouterr().out == ""


async def test_an_api_is_asked_as_many_calls_at_a_time_as_allowed(register):
    meeting = threading.Barrier(3, timeout=60)

    class Meeting(Parallel):
        def generate(self, message, dataset=None):
            meeting.wait()
            return "met"

    register("parallel", Meeting)
    model = VLMEvalKitModel("parallel", Sampling(), concurrency=3)
    assert await asyncio.gather(*(ask(model, "hi") for _ in range(3))) == ["met"] * 3
    assert model.most_calls_in_flight == 3
    await model.close()


async def test_a_conversation_becomes_one_list_with_the_system_text_first(register):
    model = VLMEvalKitModel("local", Sampling())
    messages = [
        Message("user", ("Look:", picture(), "", "dog?")),
        Message("assistant", ("No.",)),
        Message("user", ("Sure?", picture("blue"), picture())),
        Message("system", ("Be brief.",)),
    ]
    items = eval((await model.chat(messages, Sampling())).text, {})  # noqa: S307 (our own repr)
    kinds = [(kind, value if kind == "text" else Path(value).name) for kind, value in items]
    assert kinds == [
        ("text", "Be brief."),
        ("text", "Look:"),
        ("image", f"{picture().sha256}.png"),
        ("text", "dog?"),
        ("text", "Your earlier reply:\nNo."),
        ("text", "Sure?"),
        ("image", f"{picture('blue').sha256}.png"),
        ("image", f"{picture().sha256}.png"),
    ]
    files = {Path(value) for kind, value in items if kind == "image"}
    assert {file.read_bytes() for file in files} == {picture().data, picture("blue").data}
    await model.close()
    assert not any(file.parent.exists() for file in files)


@pytest.mark.parametrize(
    "text", [__file__, ".", "/etc", "https://example.invalid/a.png", "data:image/png;base64,AAAA", "x" * 50_000, "a\x00b"]
)
async def test_text_that_looks_like_a_file_or_address_stays_text(register, text):
    model = VLMEvalKitModel("local", Sampling())
    [(kind, value)] = eval(await ask(model, text), {})  # noqa: S307 (our own repr)
    assert (kind, value.removeprefix("\n")) == ("text", text)
    await model.close()


async def test_both_kinds_of_reply_are_read_and_anything_else_is_an_error(register):
    model = VLMEvalKitModel("local", Sampling())
    assert await ask(model, "dict") == "from a dict"
    with pytest.raises(TransientError, match="NoneType instead of text"):
        await ask(model, "nothing")
    with pytest.raises(RefusedError, match="local failed: ValueError: CUDA out of memory"):
        await ask(model, "crash")
    with pytest.raises(RefusedError, match="asked nothing"):
        await ask(model, "", " ")
    await model.close()


async def test_a_call_in_this_process_draws_with_its_seed(register):
    model = VLMEvalKitModel("local", Sampling())
    drawn = [await ask(model, "draw", sampling=Sampling(seed=seed)) for seed in (1, 2, 1)]
    assert drawn[0] == drawn[2] != drawn[1]
    assert model.notes == []
    await model.close()


async def test_decoding_is_set_where_the_class_takes_it_and_said_where_not(register):
    model = VLMEvalKitModel("local", Sampling(temperature=0.0, top_p=0.9, max_tokens=5))
    assert (
        await ask(model, "settings", sampling=Sampling(temperature=1.0))
        == "{'max_new_tokens': 5, 'temperature': 0.7, 'do_sample': False}"
    )
    assert model.notes == [
        "local has no keyword for top_p: it plays with its own default, not 0.9",
        "local plays with the decoding that it was made with, also where a method asks for another",
    ]
    await model.close()
    model = VLMEvalKitModel("local", Sampling(temperature=0.2))
    assert await ask(model, "settings") == "{'max_new_tokens': 2048, 'temperature': 0.2, 'do_sample': True}"
    assert VLMEvalKitModel("local", Sampling(temperature=0.3)).fingerprint != model.fingerprint
    await model.close()


def test_what_an_internvl_overwrites_at_every_call_is_said():
    model = VLMEvalKitModel("InternVL3-14B", Sampling(1.0, 1.0, 50, 4096))
    assert model._keywords == {"do_sample": True, "top_k": 50, "max_new_tokens": 4096}
    assert [note.split(":")[0] for note in model.notes] == [
        f"InternVL3-14B has no keyword for {field}" for field in ("temperature", "top_p")
    ]


async def test_a_model_that_cannot_be_made_here_is_misconfigured(register):
    def broken():
        raise AssertionError("no\nGPU")

    register("broken", broken)
    model = VLMEvalKitModel("broken", Sampling())
    with pytest.raises(MisconfiguredError, match=r"cannot make broken here \(AssertionError: no GPU\)"):
        await ask(model, "hi")
    await model.close()


def test_an_unknown_name_is_the_users_mistake_and_the_nearest_are_said():
    with pytest.raises(UserError, match=r"Qwen2\.5-VL-7B-Instruct"):
        open_backbone("vlmevalkit:Qwen2.5-VL-7B-instruckt", sampling=Sampling())


def test_tls_is_verified_after_vlmevalkit_was_imported():
    assert VLMEvalKitModel("GPT4o_MINI", Sampling())
    assert ssl._create_default_https_context is not ssl._create_unverified_context


def test_every_short_name_is_registered_in_vlmevalkit():
    entries = [entry for entry in load_catalogue().values() if entry.folder is None]  # one that comes with us is not in VLMEvalKit
    missing = [entry.name for entry in entries if entry.vlmevalkit not in config.supported_VLM]
    assert not missing
    for entry in entries:
        keywords = config.supported_VLM[entry.vlmevalkit].keywords
        assert entry.openai in (keywords.get("model"), keywords.get("model_path")), entry.name


def test_a_short_name_is_played_where_it_can_be(monkeypatch):
    monkeypatch.delenv("MUG_EVAL_BASE_URL", raising=False)
    played = {name: (spec.kind, spec.model) for name in ("qwen", "gpt-4o-mini") for spec in [parse_backbone(name)]}
    assert played == {"qwen": ("hf", "Qwen/Qwen2.5-VL-7B-Instruct"), "gpt-4o-mini": ("openai", "gpt-4o-mini-2024-07-18")}
    monkeypatch.setenv("MUG_EVAL_BASE_URL", "http://gpu1:8000/v1")
    assert parse_backbone("qwen").identity == {"kind": "openai", "model": "Qwen/Qwen2.5-VL-7B-Instruct", "provider": "local"}
    assert parse_backbone("vlmevalkit:GPT4o_MINI").identity == {"kind": "vlmevalkit", "model": "GPT4o_MINI"}


async def test_a_short_name_with_an_address_plays_there(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with ChatServer(always(completion)) as server:
        model = open_backbone("gpt-5-mini", base_url=server.base_url, sampling=Sampling())
        assert await ask(model, "hi", sampling=Sampling(temperature=0.5, max_tokens=9)) == "Yes"
        await model.close()
    [body] = server.requests
    assert (body["model"], body["max_completion_tokens"]) == ("gpt-5-mini-2025-08-07", 9)
    assert "temperature" not in body
    assert "max_tokens" not in body


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("qwem", "did you mean qwen"),
        ("opanai:m", "did you mean openai"),
        ("openai:", "names no model"),
        ("hf:", "names no model"),
    ],
)
def test_a_backbone_that_is_none_is_the_users_mistake(text, words):
    with pytest.raises(UserError, match=words):
        parse_backbone(text)


def test_a_model_without_an_address_or_key_says_what_to_give(monkeypatch):
    monkeypatch.delenv("MUG_EVAL_BASE_URL", raising=False)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with pytest.raises(UserError, match="--base-url"):
        open_backbone("openai:my-model", sampling=Sampling())
    with pytest.raises(UserError, match="GEMINI_API_KEY"):
        open_backbone("gemini-2.5-flash", sampling=Sampling())
