import asyncio
import base64
import datetime
import email.utils
import hashlib
import json
import logging
import socket
import struct

import pytest
from aiohttp import web
from servers import ChatServer, always, bytes_on_the_wire, completion, failure, in_turn

from mug_eval.backbones.openai_api import LONGEST_BODY, OpenAIModel
from mug_eval.backbones.openai_body import PictureCache
from mug_eval.backbones.openai_reply import Scrubber, read_retry_after
from mug_eval.chat import (
    ImageRef,
    Message,
    MisconfiguredError,
    PromptTooLong,
    RefusedError,
    Reply,
    Sampling,
    TransientError,
    Usage,
)
from mug_eval.engine.dispatcher import Dispatcher, DispatchPolicy
from mug_eval.engine.journal import Journal
from mug_eval.errors import UserError

KEY = "sk-test-1234567890abcdef"
SCHEMA = {"type": "object", "properties": {"vote": {"type": "integer"}}, "additionalProperties": False}


def picture(data=b"\xff\xd8 a picture"):
    return ImageRef(hashlib.sha256(data).hexdigest(), "image/jpeg", 2, 2, data)


HELLO = [Message("user", ("Is there a dog?",))]


async def chat(server, messages=HELLO, sampling=None, schema=None, model=None, **options):
    model = model or OpenAIModel("m", server.base_url, **options)
    try:
        return await model.chat(messages, sampling or Sampling(), schema)
    finally:
        await model.close()


async def error_of(answer, kind, **options):
    """The error that one call to a server with this answer ends in; always one short line."""
    with ChatServer(answer) as server, pytest.raises(kind) as caught:
        await chat(server, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert type(caught.value) is kind
    return caught.value


async def test_a_conversation_goes_out_as_chat_completions_and_the_reply_comes_back():
    messages = [
        Message("system", ("Be brief.",)),
        Message("user", ("Look:", picture(), 'Is there a "dog"?\n\x00é', picture(b"other"))),
        Message("assistant", ("No",)),
        Message("user", ("Sure?", "Really?")),
    ]
    with ChatServer() as server:
        reply = await chat(server, messages, Sampling(temperature=0.0, top_p=0.9, top_k=3, max_tokens=77, seed=5), SCHEMA)
        body, headers = server.requests[0], server.headers[0]
    assert reply == Reply("Yes", Usage(11, 3, 2), "stop", "m-2025", reply.seconds)
    assert reply.seconds > 0

    def image(data):
        return {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64," + base64.b64encode(data).decode()}}

    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Look:"},
                    image(picture().data),
                    {"type": "text", "text": 'Is there a "dog"?\n\x00é'},
                    image(b"other"),
                ],
            },
            {"role": "assistant", "content": "No"},
            {"role": "user", "content": "Sure?\nReally?"},
        ],
        "max_tokens": 77,
        "temperature": 0.0,
        "top_p": 0.9,
        "top_k": 3,
        "seed": 5,
        "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}},
    }
    assert "Authorization" not in headers


async def test_what_is_not_set_is_not_sent():
    with ChatServer() as server:
        await chat(server)
        await chat(server, sampling=Sampling(temperature=1.0), max_tokens_field="max_completion_tokens", omit=["temperature"])
    assert set(server.requests[0]) == {"model", "messages", "max_tokens"}
    assert set(server.requests[1]) == {"model", "messages", "max_completion_tokens"}


async def test_a_turn_without_words_is_never_sent_empty():
    messages = [
        Message("user", ("Hi", "", "  ")),
        Message("assistant", ("",)),
        Message("user", ()),
        Message("user", ("", picture())),
    ]
    with ChatServer() as server:
        model = OpenAIModel("m", server.base_url)
        await chat(server, messages, model=model)
    contents = [message["content"] for message in server.requests[0]["messages"]]
    assert contents[:3] == ["Hi", "(no words)", "(no words)"]
    assert [part["type"] for part in contents[3]] == ["image_url"]
    assert model.notes == ["a turn without words was sent as '(no words)'"]


@pytest.mark.parametrize("status", [400, 413, 422, 402])
async def test_a_request_that_the_server_cannot_take_is_refused(status):
    error = await error_of(always(lambda: failure(status, "that picture\nis none")), RefusedError)
    assert f"answered {status}: that picture is none" in str(error)


OPENAI = (
    "This model's maximum context length is 4097 tokens. However, your messages resulted in 6988 tokens. Please reduce the length."
)
VLLM = {
    "old": "This model's maximum context length is 8192 tokens. However, you requested 8203 tokens (7691 in the messages, 512 in the "
    "completion). Please reduce the length of the messages or completion.",
    "new": "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length is 2048 tokens and your "
    "request has 1551 input tokens (512 > 2048 - 1551).",
    "newer": "This model's maximum context length is 8192 tokens. However, you requested 2048 output tokens and your prompt contains at "
    "least 6145 input tokens, for a total of at least 8193 tokens.",
    "pictures": "The decoder prompt (length 11157) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no "
    "smaller than the number of text tokens plus multimodal tokens.",
    "older pictures": "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
}
SGLANG = "The input (61709 tokens) is longer than the model's context length (40960 tokens)."
LLAMA = "request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it"
LLAMA_OLD = "the request exceeds the available context size. try increasing the context size or enable context shift"
TGI = "Input validation error: `inputs` must have less than 1024 tokens. Given: 1168"
TGI_SUM = (
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1512. Given: 1000 `inputs` tokens and 1024 "
    "`max_new_tokens`"
)
OVERLONG = {
    "OpenAI": (400, {"error": {"message": OPENAI, "code": "context_length_exceeded", "param": "messages"}}, 6988, 4097),
    "OpenAI, code alone": (400, {"error": {"message": "Too much.", "code": "context_length_exceeded"}}, None, None),
    "vLLM, old": (
        400,
        {"object": "error", "message": VLLM["old"], "type": "BadRequestError", "param": None, "code": 400},
        8203,
        8192,
    ),
    "vLLM, new": (400, {"error": {"message": VLLM["new"], "type": "BadRequestError", "param": None, "code": 400}}, 1551, 2048),
    "vLLM, newer": (400, {"error": {"message": VLLM["newer"], "param": "input_tokens", "code": 400}}, 6145, 8192),
    "vLLM, pictures counted": (400, {"error": {"message": VLLM["pictures"], "code": 400}}, 11157, 4096),
    "vLLM, pictures counted, older": (400, {"error": {"message": VLLM["older pictures"], "code": 400}}, 25938, 4096),
    "SGLang": (400, {"object": "error", "message": SGLANG, "type": "BadRequestError", "param": None, "code": 400}, 61709, 40960),
    "llama.cpp": (400, {"error": {"code": 400, "message": LLAMA, "type": "exceed_context_size_error"}}, 9412, 8192),
    "llama.cpp, old": (
        500,
        {"error": {"code": 500, "message": LLAMA_OLD, "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}},
        1407,
        256,
    ),
    "llama.cpp, old, in a 200": (
        200,
        {"error": {"code": 400, "message": LLAMA_OLD, "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}},
        1407,
        256,
    ),
    "text-generation-inference": (422, {"error": TGI, "error_type": "validation"}, 1168, 1024),
    "text-generation-inference, with the reply": (422, {"error": TGI_SUM, "error_type": "validation"}, 1000, 1512),
}


@pytest.mark.parametrize("server", OVERLONG)
async def test_a_prompt_over_the_context_is_known_by_what_servers_say(server):
    status, body, tokens, limit = OVERLONG[server]
    error = await error_of(always(lambda: web.json_response(body, status=status)), PromptTooLong)
    assert (error.tokens, error.limit) == (tokens, limit)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "the model's context is in use by another request", RefusedError),
        (400, "Request exceeds the maximum length of a URL (2048)", RefusedError),
        (413, "payload too large: 9000000 bytes", RefusedError),
        (429, "Too many tokens per minute. This model's maximum context length is 4096 tokens.", TransientError),
        (503, "overloaded; maximum context length is 4096 tokens", TransientError),
        (404, "no such model; its maximum context length is 4096", MisconfiguredError),
    ],
)
async def test_no_other_trouble_is_taken_for_a_prompt_over_the_context(status, message, kind):
    await error_of(always(lambda: failure(status, message)), kind)


async def test_numbers_in_an_error_that_are_none_are_not_believed():
    lie = {
        "message": f"maximum context length is {'9' * 5000}",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": True,
        "n_ctx": "x",
    }
    error = await error_of(always(lambda: web.json_response({"error": lie}, status=400)), PromptTooLong)
    assert (error.tokens, error.limit) == (None, None)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_key_or_name_that_is_wrong_is_misconfigured(status):
    error = await error_of(always(lambda: failure(status, "no such model")), MisconfiguredError)
    assert "no such model; check the key" in str(error)


@pytest.mark.parametrize("code", ["insufficient_quota", "invalid_api_key", "model_not_found"])
async def test_a_code_that_means_no_request_will_work_counts_more_than_its_status(code):
    await error_of(always(lambda: failure(429, "you are out of money", code=code)), MisconfiguredError)
    await error_of(always(lambda: failure(400, "not valid", code=code)), MisconfiguredError)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
async def test_what_may_work_later_is_transient(status):
    error = await error_of(always(lambda: failure(status, "busy", headers={"Retry-After": "7"})), TransientError)
    assert (error.retry_after, error.unreachable) == (7.0, False)


@pytest.mark.parametrize(
    ("header", "seconds"), [("0", 0), ("1.5", 1.5), ("-3", 0), ("soon", None), ("nan", None), ("inf", None), ("", None)]
)
def test_a_retry_after_is_seconds(header, seconds):
    assert read_retry_after(header) == seconds


def test_a_retry_after_may_be_a_date():
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    assert 3500 < read_retry_after(email.utils.format_datetime(later, usegmt=True)) <= 3600
    assert read_retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert read_retry_after(None) is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (always(lambda: web.Response(text="<html>welcome</html>", content_type="text/html")), "not JSON (<html>welcome</html>)"),
        (always(lambda: web.Response(body=b"", content_type="application/json")), "not JSON (empty)"),
        (always(lambda: web.Response(body=b"\xff\xfe{", content_type="application/json")), "not JSON"),
        (always(lambda: web.Response(body=b"[" * 200_000, content_type="application/json")), "not JSON"),
        (always(lambda: web.json_response([1])), "not an object"),
        (always(lambda: web.json_response({})), "no choices"),
        (always(lambda: completion(choices=[])), "no choices"),
        (always(lambda: completion(choices={"0": 1})), "no choices"),
        (always(lambda: completion(choices=["Yes"])), "no choices"),
        (always(lambda: completion(choices=[{"message": "Yes"}])), "no choices"),
        (always(lambda: completion(None)), "without content"),
        (always(lambda: completion(7)), "without content"),
        (always(lambda: completion([{"type": "image", "text": "x"}])), "without content"),
        (always(lambda: web.json_response({"error": {"message": "overloaded"}})), "answered 500: overloaded"),
        (always(lambda: web.json_response({"error": {"message": "slow down", "code": 429}})), "answered 429: slow down"),
        (always(lambda: web.json_response({"error": "boom"})), "boom"),
        (always(lambda: web.Response(status=204)), "answered 204"),
        (bytes_on_the_wire(b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"choices"'), "broke off"),
        (bytes_on_the_wire(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"cho'), "broke off"),
        (bytes_on_the_wire(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "no HTTP"),
    ],
)
async def test_a_server_that_lies_is_a_clear_transient_error(answer, words):
    error = await error_of(answer, TransientError)
    assert words in str(error)
    assert not error.unreachable


@pytest.mark.parametrize(
    ("message", "text", "finish_reason"),
    [
        ({"content": ""}, "", "stop"),
        ({"content": [{"type": "text", "text": "Yes"}, {"type": "text", "text": ", two"}]}, "Yes, two", "stop"),
        ({"content": None, "refusal": "I cannot"}, "I cannot", "stop"),
        ({"content": None, "reasoning_content": "hm"}, "", "length"),
        ({"content": "half \ud83d"}, "half \ud83d", "length"),
    ],
)
async def test_a_reply_is_read_in_every_honest_form(message, text, finish_reason):
    with ChatServer(always(lambda: completion(choices=[{"message": message, "finish_reason": finish_reason}]))) as server:
        reply = await chat(server)
    assert (reply.text, reply.finish_reason) == (text, finish_reason)


async def test_a_withheld_reply_is_refused():
    answer = always(lambda: completion(choices=[{"message": {"content": None}, "finish_reason": "content_filter"}]))
    assert "content_filter" in str(await error_of(answer, RefusedError))


@pytest.mark.parametrize(
    "usage", [None, [], {}, {"prompt_tokens": None}, {"prompt_tokens": "11", "completion_tokens": -1}, {"prompt_tokens": True}]
)
async def test_usage_that_is_not_told_is_unknown_not_guessed(usage):
    with ChatServer(always(lambda: completion(usage=usage))) as server:
        reply = await chat(server, [Message("user", (picture(), "?"))])
    assert reply.usage == Usage(None, None, 1)


async def test_an_endless_body_is_not_read_to_its_end():
    async def endless(request, body):
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(40):
            await response.write(b" " * 2**20)
        return response

    assert f"more than {LONGEST_BODY // 2**20} MB" in str(await error_of(endless, TransientError))


async def test_a_dripping_body_is_cut_off_by_the_total_time():
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b" " * 1000
    error = await error_of(bytes_on_the_wire(reply, drip=0.02), TransientError, timeout=3.0)
    assert "no whole reply within 3 s" in str(error)


async def test_a_redirect_is_not_followed():
    elsewhere = ChatServer()
    with elsewhere:
        answer = always(lambda: web.Response(status=307, headers={"Location": elsewhere.base_url + "/chat/completions"}))
        assert "redirect" in str(await error_of(answer, MisconfiguredError))
    assert elsewhere.requests == []


async def test_a_server_that_is_not_there_is_unreachable():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]  # bound, but never listening: whoever calls is refused
        for base_url in (f"http://127.0.0.1:{port}/v1", "http://no-such-host.invalid/v1"):
            model = OpenAIModel("m", base_url, key_env="PATH" if "invalid" in base_url else "OPENAI_API_KEY")
            with pytest.raises(TransientError, match="cannot be reached") as error:
                await model.chat(HELLO, Sampling())
            await model.close()
            assert error.value.unreachable


async def test_a_server_that_hangs_up_was_reached_and_the_request_counts():
    async def reset(request, body):
        sock = request.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
        raise asyncio.CancelledError

    for answer in (reset, bytes_on_the_wire(b"")):
        error = await error_of(answer, TransientError)
        assert "closed the connection" in str(error)
        assert not error.unreachable


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("seed", lambda: failure(400, "nope", param="seed")),
        ("top_k", lambda: failure(400, "Unrecognized request argument supplied: top_k")),
        ("response_format", lambda: failure(400, "bad", param="response_format.json_schema")),
        ("response_format", lambda: failure(400, "this model has no structured outputs")),
        ("top_k", lambda: web.json_response({"detail": [{"loc": ["body", "top_k"], "msg": "extra field"}]}, status=422)),
        ("seed", lambda: web.json_response({"object": "error", "message": "'seed' is not supported"}, status=400)),
        ("response_format", lambda: failure(500, "response_format is not supported by this backend")),
        ("response_format", lambda: failure(501, "json_schema: not implemented")),
        ("seed", lambda: failure(500, "generate() got an unexpected keyword argument 'seed'")),
        ("top_k", lambda: failure(500, "Unsupported parameter", param="top_k")),
    ],
)
async def test_a_parameter_that_the_server_refuses_is_left_out_from_then_on_and_said(name, refusal):
    async def answer(request, body):
        return refusal() if name in body else completion()

    sampling = Sampling(temperature=0.5, top_k=5, seed=1)
    with ChatServer(answer) as server:
        model = OpenAIModel("m", server.base_url)
        for _ in range(2):
            assert (await model.chat(HELLO, sampling, SCHEMA)).text == "Yes"
        await model.close()
    optional = {"temperature", "top_k", "seed", "response_format"}
    assert [optional - set(request) for request in server.requests] == [set(), {name}, {name}]  # exactly that one, learned once
    assert len(model.notes) == 1
    assert model.notes[0].startswith(f"{name} is not sent any more, the server refused it: m at 127.0.0.1")


async def test_a_refusal_that_is_not_about_a_parameter_teaches_nothing():
    """It only quotes the word; without the parameter it is refused all the same."""
    with ChatServer(always(lambda: failure(400, "cannot see a seed in the picture"))) as server:
        model = OpenAIModel("m", server.base_url)
        for _ in range(2):
            with pytest.raises(RefusedError):
                await model.chat(HELLO, Sampling(seed=1))
        await model.close()
    assert model.notes == []
    assert ["seed" in request for request in server.requests] == [True, False, True, False]


async def test_a_refusal_that_names_nothing_droppable_is_not_argued_with():
    answer = always(lambda: failure(400, "temperature must be 1; superseeded", param="temperature"))
    with ChatServer(answer) as server, pytest.raises(RefusedError):
        await chat(server, sampling=Sampling(temperature=0.3, seed=1), schema=SCHEMA)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "message"), [(500, "out of memory, seed 7"), (503, "seed is not supported while loading"), (500, "not supported")]
)
async def test_a_server_that_fails_is_not_taken_to_refuse_a_parameter(status, message):
    with ChatServer(always(lambda: failure(status, message))) as server, pytest.raises(TransientError):
        await chat(server, sampling=Sampling(seed=1), schema=SCHEMA)
    assert len(server.requests) == 1


@pytest.fixture
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


async def test_the_key_goes_into_the_header_and_nowhere_else(key, tmp_path, caplog):
    echo = f"Incorrect key provided: {KEY}; your header was Authorization: Bearer {KEY}"
    answers = in_turn(
        lambda: failure(500, echo),
        lambda: web.Response(status=502, text=f"<html>{'x' * 280}{KEY}</html>"),
        lambda: web.Response(text=f"debug: {KEY}"),
        lambda: completion(choices=[{"message": {"content": f"Your key is {KEY}"}, "finish_reason": KEY}], model=KEY),
        lambda: failure(401, echo),
    )
    caplog.set_level(logging.DEBUG)
    errors = []
    with ChatServer(answers) as server, Journal(tmp_path / "j.sqlite") as journal:
        model = OpenAIModel("m", server.base_url)
        dispatcher = Dispatcher(model, journal, DispatchPolicy(backoff_base=0.0, retries=3))
        _, reply = await dispatcher.ask(HELLO, Sampling())
        assert reply.text == "Your key is [key]"
        for _ in range(2):
            with pytest.raises(Exception, match=r"\[key\]") as caught:
                await dispatcher.ask([Message("user", ("more",))], Sampling())
            error = caught.value
            while error is not None:
                errors.append(f"{error!r} {vars(error)}")
                error = error.__cause__ or error.__context__
        await model.close()
    assert [headers["Authorization"] for headers in server.headers] == [f"Bearer {KEY}"] * 5
    assert all(KEY not in json.dumps(request) for request in server.requests)
    everything = [model.fingerprint, repr(model), *model.notes, *errors, caplog.text]
    assert not [text for text in everything if KEY[:12] in text]
    assert not [file for file in tmp_path.iterdir() if KEY[:12].encode() in file.read_bytes()]


def test_a_key_is_taken_out_before_a_line_is_cut():
    line = Scrubber(KEY).line("x" * 290 + KEY, 300)
    assert KEY[:5] not in line
    assert "sk-" not in Scrubber(None).line("You gave sk-abc***************wxyz.")


@pytest.mark.parametrize("placeholder", ["EMPTY", "no", "A", "x", "Yes", "token-abc123"])
async def test_a_placeholder_for_a_key_never_rewrites_a_reply(monkeypatch, placeholder):
    monkeypatch.setenv("OPENAI_API_KEY", placeholder)
    text = f"Yes, no: A box is EMPTY. Answer: {placeholder}"
    with ChatServer(always(lambda: completion(text))) as server:
        assert (await chat(server)).text == text


async def test_a_key_is_taken_out_of_an_error_and_a_placeholder_is_not(monkeypatch):
    for held, said in (("x", "no box for x"), ("token-abc123", "no box for [key]")):
        monkeypatch.setenv("OPENAI_API_KEY", held)
        error = await error_of(always(lambda held=held: failure(400, f"no box for {held}")), RefusedError)
        assert str(error).endswith(said)


async def test_a_key_of_another_name_is_used_where_the_entry_says_so(monkeypatch):
    monkeypatch.setenv("OTHER_KEY", " other-key\n")
    with ChatServer() as server:
        await chat(server, key_env="OTHER_KEY")
    assert server.headers[0]["Authorization"] == "Bearer other-key"


def test_a_missing_or_broken_key_is_the_users_mistake_and_is_not_shown(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match="set the environment variable OPENAI_API_KEY"):
        OpenAIModel("m", "https://api.example.com/v1")
    for host in ("127.0.0.1:8000", "localhost", "gpu17:8000", "10.1.2.3", "[::1]:8000"):
        OpenAIModel("m", f"http://{host}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "two words")
    with pytest.raises(UserError) as error:
        OpenAIModel("m", "https://api.example.com/v1")
    assert "two words" not in str(error.value)


@pytest.mark.parametrize(
    "base_url", ["", "127.0.0.1:8000", "ftp://host/v1", "http://", "http://host/v1?key=secret", "http://u:secret@host/v1"]
)
def test_an_address_that_is_none_is_the_users_mistake(base_url):
    with pytest.raises(UserError) as error:
        OpenAIModel("m", base_url)
    assert "secret@" not in str(error.value)


def test_the_fingerprint_tells_models_and_providers_apart_but_not_two_starts_of_one_server(key):
    prints = [
        OpenAIModel("m", "http://127.0.0.1:8000/v1").fingerprint,
        OpenAIModel("n", "http://127.0.0.1:8000/v1").fingerprint,
        OpenAIModel("m", "https://api.one.com/v1").fingerprint,
        OpenAIModel("m", "https://api.two.com/v1").fingerprint,
        OpenAIModel("m", "http://127.0.0.1:8000/v1", omit=["top_p"]).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert OpenAIModel("m", "http://gpu3:9999/v1/chat/completions/").fingerprint == prints[0]


def test_pictures_are_encoded_once_and_the_cache_stays_within_its_limit():
    cache = PictureCache(limit=100_000)
    first = picture(b"a" * 30_000)
    part = cache.part(first)
    assert cache.part(first) is part
    for letter in (b"b", b"c", b"d"):
        cache.part(picture(letter * 30_000))
    assert cache._size <= 100_000
    assert cache.part(first) is not part
    assert json.loads(cache.part(picture(b"e" * 200_000)))["image_url"]["url"].endswith(base64.b64encode(b"e" * 200_000).decode())


async def test_as_many_calls_as_allowed_go_out_at_once_over_kept_connections(tmp_path):
    ports, together = set(), asyncio.Barrier(16)

    async def when_all_are_there(request, body):
        ports.add(request.transport.get_extra_info("peername")[1])
        async with asyncio.timeout(60):
            await together.wait()
        return completion()

    with ChatServer(when_all_are_there) as server, Journal(tmp_path / "j.sqlite") as journal:
        model = OpenAIModel("m", server.base_url, concurrency=16)
        dispatcher = Dispatcher(model, journal, DispatchPolicy(concurrency=16))
        await asyncio.gather(*(dispatcher.ask([Message("user", (str(number),))], Sampling()) for number in range(192)))
        await model.close()
    assert server.most_at_once == 16
    assert len(ports) == 16


async def test_a_flaky_server_costs_retries_but_no_call(tmp_path):
    left = {str(number): 2 for number in range(30)}

    async def flaky(request, body):
        number = body["messages"][0]["content"]
        left[number] -= 1
        if left[number] == 1:
            return failure(503, "busy")
        if left[number] == 0:
            request.transport.close()
            raise asyncio.CancelledError
        return completion(number)

    with ChatServer(flaky) as server, Journal(tmp_path / "j.sqlite") as journal:
        model = OpenAIModel("m", server.base_url)
        policy = DispatchPolicy(concurrency=8, backoff_base=0.001, circuit_failures=1000)
        dispatcher = Dispatcher(model, journal, policy)
        replies = await asyncio.gather(*(dispatcher.ask([Message("user", (number,))], Sampling()) for number in left))
        await model.close()
        assert [reply.text for _, reply in replies] == list(left)
        assert len(journal) == 30
    assert all(asked_again <= -1 for asked_again in left.values()), "each was answered at its third try"
