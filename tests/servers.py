"""A real HTTP server for tests, in a thread: it speaks chat completions, or lies as it is told."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


def completion(text: Any = "Yes", **changes: Any) -> web.Response:
    """A well-formed reply; keywords replace its top-level fields, None takes one away."""
    body = {
        "model": "m-2025",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 3},
        **changes,
    }
    return web.json_response({name: value for name, value in body.items() if value is not None})


def failure(status: int, message: str = "no", headers: dict[str, str] | None = None, **fields: Any) -> web.Response:
    return web.json_response({"error": {"message": message, **fields}}, status=status, headers=headers)


def always(make: Callable[[], web.Response]) -> Answer:
    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return make()

    return answer


def in_turn(*makes: Callable[[], web.Response]) -> Answer:
    """One answer after the other; the last stays."""
    left = list(makes)

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return (left.pop(0) if len(left) > 1 else left[0])()

    return answer


def bytes_on_the_wire(data: bytes, drip: float = 0.0) -> Answer:
    """Writes exactly these bytes past all HTTP machinery, at once or one every ``drip`` seconds, then hangs up."""

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        assert request.transport is not None
        pieces = [data[i : i + 1] for i in range(len(data))] if drip else [data]
        for piece in pieces:
            if request.transport.is_closing():
                break
            request.transport.write(piece)
            await asyncio.sleep(drip)
        request.transport.close()
        raise asyncio.CancelledError

    return answer


class ChatServer:
    """``with ChatServer(answer) as server``: listens on a free port; ``requests`` and ``headers`` hold what was asked."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.answer = answer or always(completion)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ChatServer:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(60)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._chat)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        self._ready.set()
        await self._over.wait()
        await runner.cleanup()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await self.answer(request, body)
        finally:
            self.at_once -= 1
