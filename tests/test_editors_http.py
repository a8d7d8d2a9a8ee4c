"""The http editor against a real server, which edits pictures, or lies as it is told."""

from __future__ import annotations

import asyncio
import base64
import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from PIL import Image, ImageOps
from scenes_for_edits import BOX, scene

from mug_eval.counterfactual.editors import Edit, EditFailed, open_editor, run_edit, run_edits
from mug_eval.counterfactual.editors.http_editor import HttpEditor, HttpSettings
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError

KEY = "sk-a-secret-of-this-test"
PLAN = EditPlan("remove", "ball", BOX, instruction="Remove the red “ball”.")


@dataclass
class Asked:
    """One request as the server saw it."""

    fields: dict[str, str]
    picture: Image.Image
    raw: bytes
    authorization: str | None


@dataclass
class Server:
    """What the server was asked, and how it answers: with the picture's negative, unless told otherwise."""

    answers: list[Callable[[Asked], web.Response]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    port: int = 0
    meeting: int = 1
    """requests that are answered only when so many are there"""
    met: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def editor(self, **settings: Any) -> HttpEditor:
        return HttpEditor(HttpSettings("m", self.base_url, first_wait=0.01, **settings))

    async def serve(self, request: web.Request) -> web.Response:
        form = await request.post()
        image = form["image"]
        assert isinstance(image, web.FileField)
        raw = image.file.read()
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        asked = Asked(fields, Image.open(io.BytesIO(raw)).convert("RGB"), raw, request.headers.get("Authorization"))
        self.asked.append(asked)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        if self.most_at_once >= self.meeting:
            self.met.set()
        try:
            async with asyncio.timeout(60):
                await self.met.wait()
        finally:
            self.at_once -= 1
        return (self.answers.pop(0) if self.answers else negative)(asked)


def coded(picture: Image.Image) -> str:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def negative(asked: Asked) -> web.Response:
    return web.json_response({"data": [{"b64_json": coded(ImageOps.invert(asked.picture))}]})


def says(status: int, message: str, **headers: str) -> Callable[[Asked], web.Response]:
    return lambda asked: web.json_response({"error": {"message": message}}, status=status, headers=headers)


def body(value: Any) -> Callable[[Asked], web.Response]:
    return lambda asked: web.json_response(value)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    served = Server()
    loop = asyncio.new_event_loop()
    ready = threading.Event()

    async def start() -> web.AppRunner:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/images/edits", served.serve)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        served.port = runner.addresses[0][1]
        ready.set()
        return runner

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    assert ready.is_set()
    yield served
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(60)


def test_a_picture_goes_there_and_comes_back(server: Server) -> None:
    editor = server.editor(fields={"quality": "high"})
    after = run_edit(editor, scene(), PLAN, 11)
    editor.close()
    assert after.tobytes() == ImageOps.invert(scene()).tobytes()
    (asked,) = server.asked
    assert asked.fields == {"model": "m", "prompt": PLAN.instruction, "n": "1", "seed": "11", "quality": "high"}
    assert asked.picture.tobytes() == scene().tobytes()
    assert asked.authorization == f"Bearer {KEY}" and KEY not in editor.fingerprint


def test_no_metadata_goes_along(server: Server) -> None:
    picture = scene()
    picture.info["comment"] = "the altered one"
    run_edit(server.editor(), picture, PLAN, 1)
    assert b"altered" not in server.asked[0].raw


def test_many_are_asked_at_once_and_come_back_in_order(server: Server) -> None:
    server.meeting = 3
    pictures = [scene(colour=(20 * number, 40, 90)) for number in range(6)]
    results = run_edits(server.editor(concurrency=3), [Edit(picture, PLAN, 1) for picture in pictures])
    assert [result.tobytes() for result in results if isinstance(result, Image.Image)] == [
        ImageOps.invert(picture).tobytes() for picture in pictures
    ]
    assert server.most_at_once == 3


def test_a_larger_picture_of_the_same_proportions_is_brought_back_and_another_is_not(server: Server) -> None:
    server.answers = [
        lambda asked: web.json_response({"data": [{"b64_json": coded(ImageOps.invert(asked.picture).resize((480, 360)))}]}),
        lambda asked: web.json_response({"data": [{"b64_json": coded(ImageOps.invert(asked.picture).resize((256, 256)))}]}),
    ]
    editor = server.editor()
    assert run_edit(editor, scene(), PLAN, 1).size == (240, 180)
    with pytest.raises(EditFailed, match="256x256"):
        run_edit(editor, scene(), PLAN, 1)


def test_a_model_of_fixed_sizes_is_sent_one_of_them(server: Server) -> None:
    after = run_edit(server.editor(sizes=((256, 256), (384, 256), (256, 384))), scene(), PLAN, 1)
    (asked,) = server.asked
    assert asked.fields["size"] == "384x256" and asked.picture.size == (384, 256)
    assert after.size == (240, 180)
    assert np.abs(np.asarray(after).astype(int) - np.asarray(ImageOps.invert(scene()))).mean() < 4


def test_a_server_that_takes_no_seed_is_asked_without(server: Server) -> None:
    server.answers = [says(400, "Unknown parameter: 'seed'.")]
    editor = server.editor()
    run_edit(editor, scene(), PLAN, 1)
    run_edit(editor, scene(), PLAN, 2)
    assert ["seed" in asked.fields for asked in server.asked] == [True, False, False]


def test_a_busy_server_is_asked_again(server: Server) -> None:
    server.answers = [
        says(429, "slow down", **{"Retry-After": "0"}),
        says(503, "loading"),
        lambda asked: web.Response(text="<html>"),
    ]
    run_edit(server.editor(), scene(), PLAN, 1)
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("answer", "tries", "reason"),
    [
        (says(400, f"the picture is not allowed, {KEY}"), 1, r"not allowed, \[key\]"),
        (says(500, "broken"), 3, r"broken \(3 tries\)"),
        (body({"data": []}), 1, "no picture"),
        (body({"data": [{"url": "http://127.0.0.1:1/secret"}]}), 1, "response_format"),
        (body({"data": [{"b64_json": "AAAA"}]}), 3, "no picture"),
        (body({"data": [{"b64_json": "!"}]}), 3, "no picture"),
        (body({"error": {"message": "worn out"}}), 3, "worn out"),
        (body([1]), 1, "no picture"),
        (lambda asked: web.json_response({"data": [{"b64_json": coded(asked.picture)}]}), 1, "as it was"),
        (lambda asked: web.json_response({"data": [{"b64_json": coded(Image.new("RGB", (240, 180)))}]}), 1, "black frame"),
    ],
)
def test_what_a_server_may_send_instead_ends_in_a_reason(
    answer: Callable[[Asked], web.Response], tries: int, reason: str, server: Server
) -> None:
    server.answers = [answer] * 9
    with pytest.raises(EditFailed, match=reason) as caught:
        run_edit(server.editor(tries=3), scene(), PLAN, 1)
    assert len(server.asked) == tries and KEY not in caught.value.reason


@pytest.mark.parametrize("status", [401, 403, 404, 302])
def test_a_server_that_takes_no_request_is_the_users_to_mend(status: int, server: Server) -> None:
    server.answers = [says(status, f"no: {KEY}", Location="http://127.0.0.1:1/")]
    with pytest.raises(UserError) as caught:
        run_edits(server.editor(), [Edit(scene(), PLAN, 1)] * 2)
    assert KEY not in str(caught.value) and "\n" not in str(caught.value)


def test_a_server_that_is_not_there_is_the_users_to_mend(server: Server) -> None:
    editor = HttpEditor(HttpSettings("m", "http://127.0.0.1:1/v1", tries=2, first_wait=0.01))
    with pytest.raises(UserError, match=r"2 tries.*is the server up"):
        run_edit(editor, scene(), PLAN, 1)


def test_a_slow_server_is_not_waited_for_without_end(server: Server) -> None:
    server.meeting = 99
    with pytest.raises(EditFailed, match="no answer"):
        run_edit(server.editor(timeout=3.0, tries=1), scene(), PLAN, 1)


@pytest.mark.parametrize("url", ["nowhere", "ftp://x/v1", "http://me:secret@host/v1", "http://host/v1?key=1"])
def test_an_address_that_is_none_is_said(url: str) -> None:
    with pytest.raises(UserError) as caught:
        HttpEditor(HttpSettings("m", url))
    assert "secret" not in str(caught.value)


def test_a_server_elsewhere_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        HttpEditor(HttpSettings("m", "https://api.example.com/v1"))


def test_it_is_opened_by_name_with_an_address(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_edit(open_editor("http:m", base_url=server.base_url), scene(), PLAN, 1).size == (240, 180)
    monkeypatch.setenv("MUG_EVAL_EDITOR_URL", server.base_url)
    editor = open_editor("http:m")
    run_edit(editor, scene(), PLAN, 1)
    assert len(server.asked) == 2 and str(server.port) not in editor.fingerprint
