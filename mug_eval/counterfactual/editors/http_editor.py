"""A server that edits pictures: OpenAI-style ``POST /v1/images/edits`` with a multipart form, as closed and self-hosted models speak it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import json
import re
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import aiohttp
from PIL import Image

from mug_eval.backbones.endpoint import api_key, endpoint, proxy_of
from mug_eval.backbones.openai_reply import Scrubber, ServerError, read_error
from mug_eval.backbones.provider import LOCAL, provider
from mug_eval.chat import MisconfiguredError, RefusedError, TransientError
from mug_eval.counterfactual.editors.canvas import Canvas
from mug_eval.counterfactual.editors.editor import Edit, EditFailed, as_picture, instruction
from mug_eval.counterfactual.plan import EditPlan
from mug_eval.errors import UserError
from mug_eval.images import ImageError

LONGEST_BODY: Final = 96 * 2**20
"""Bytes of a reply beyond which a server is not believed."""

_LONGEST_WAIT = 60.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """A server's model and how it is asked.

    Attributes:
        model: the model's name at the server.
        base_url: the address up to ``/v1``.
        key_env: the environment variable with the key; servers on this machine or network may do without one.
        concurrency: most requests at a time.
        timeout: seconds for a request.
        tries: requests for one picture, while the server is busy, away or talks nonsense.
        first_wait: seconds before the second try; doubled for each further one.
        sizes: (width, height) of the pictures that the server makes; a picture is laid onto the one most like it and cut out of the
            result. Empty: it is sent as it is, and may come back at another size of the same proportions.
        fields: further fields of the form (``quality``, ``response_format``, ...).
    """

    model: str
    base_url: str
    key_env: str = "OPENAI_API_KEY"
    concurrency: int = 4
    timeout: float = 300.0
    tries: int = 5
    first_wait: float = 1.0
    sizes: tuple[tuple[int, int], ...] = ()
    fields: Mapping[str, str] = field(default_factory=dict)


class HttpEditor:
    """An editor over HTTP, several requests at a time, on an event loop of its own, so that it can be called from any thread.

    The key comes from the environment and goes into the requests' header, nowhere else.

    Args:
        settings: the server.

    Raises:
        UserError: the address is none, or the key is missing.
    """

    inventive: Final = True

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = s = settings
        self.name: Final = f"http:{s.model}"
        self.batch: Final = max(1, s.concurrency)
        self._url = endpoint(s.base_url, "/images/edits", "editor's")
        place = provider(s.base_url)
        key = api_key(s.key_env, needed=place != LOCAL, host=self._url.host or "")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._scrub = Scrubber(key)
        self._where = f"{s.model} at {self._url.host}:{self._url.port}"
        self._proxy = proxy_of(self._url)
        self._takes_seed = True
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()
        self._fingerprint = f"http:{s.model}@{place} {json.dumps([s.sizes, sorted(s.fields.items())])}"

    @property
    def fingerprint(self) -> str:
        """The model's name, who provides it, and what is sent with each picture."""
        return self._fingerprint

    def edit(self, image: Image.Image, plan: EditPlan, seed: int) -> Image.Image:
        """See ``Editor.edit``.

        Raises:
            EditFailed: the server refused this picture, or stayed busy, or sent no picture.
            UserError: the server cannot be reached, or takes no request (wrong key, unknown model, no such path).
        """
        result = self._run(self._edit(Edit(image, plan, seed)))
        if isinstance(result, EditFailed):
            raise result
        return result

    def edit_many(self, edits: Sequence[Edit]) -> Sequence[Image.Image | EditFailed]:
        """All at once; see ``BatchEditor.edit_many``."""

        async def together() -> list[Image.Image | EditFailed]:
            tasks = [asyncio.ensure_future(self._edit(edit)) for edit in edits]
            try:
                return list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()

        return self._run(together())

    def close(self) -> None:
        """Close the connections and end the thread."""
        with self._starting:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._close_session(), loop).result()
            loop.call_soon_threadsafe(loop.stop)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name=self.name, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _close_session(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _edit(self, edit: Edit) -> Image.Image | EditFailed:
        try:
            words = instruction(edit.plan)
            canvas = Canvas.for_sizes(edit.image.size, self._settings.sizes)
            return canvas.cut(await self._ask(canvas.laid(edit.image), words, edit.seed))
        except EditFailed as failure:
            return failure

    async def _ask(self, image: Image.Image, words: str, seed: int) -> Image.Image:
        """Ask until there is a picture.

        Raises:
            EditFailed, UserError: as :meth:`edit`.
        """
        wait, attempt = self._settings.first_wait, 0
        while True:
            attempt += 1
            try:
                return await self._post(image, words, seed)
            except ServerError as server_error:
                if self._takes_seed and server_error.refuses and _names_seed(server_error):
                    self._takes_seed, attempt = False, attempt - 1
                    continue
                error = server_error.error
            except TransientError as transient:
                error = transient
            if isinstance(error, MisconfiguredError):
                raise UserError(str(error))
            if isinstance(error, RefusedError) or not isinstance(error, TransientError):
                raise EditFailed(str(error))
            if attempt >= self._settings.tries:
                if error.unreachable:
                    raise UserError(f"{error} ({attempt} tries); is the server up and the address right?")
                raise EditFailed(f"{error} ({attempt} tries)")
            await asyncio.sleep(min(_LONGEST_WAIT, max(wait, error.retry_after or 0.0)))
            wait *= 2

    async def _post(self, image: Image.Image, words: str, seed: int) -> Image.Image:
        """One request.

        Raises:
            ServerError: the server answered, but not with a picture.
            TransientError: it did not answer, or endlessly.
        """
        form = aiohttp.FormData()
        for name, value in {"model": self._settings.model, "prompt": words, "n": "1", **self._settings.fields}.items():
            form.add_field(name, value)
        if self._settings.sizes:
            form.add_field("size", f"{image.width}x{image.height}")
        if self._takes_seed:
            form.add_field("seed", str(seed))
        buffer = io.BytesIO()
        Image.frombytes("RGB", image.size, image.convert("RGB").tobytes()).save(buffer, "PNG")  # pixels only, no metadata
        form.add_field("image", buffer.getvalue(), filename="image.png", content_type="image/png")
        try:
            async with self._open_session().post(self._url, data=form, proxy=self._proxy, allow_redirects=False) as response:
                body, size = bytearray(), 0
                async for chunk in response.content.iter_any():
                    body += chunk
                    size += len(chunk)
                    if size > LONGEST_BODY:
                        raise TransientError(f"{self._where} sent more than {LONGEST_BODY // 2**20} MB for one picture")
                status, retry_after = response.status, response.headers.get("Retry-After")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            unreachable = isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
            reason = self._scrub.line(str(error)) or type(error).__name__
            raise TransientError(f"{self._where} gave no answer: {reason}", unreachable=unreachable) from None
        if status != 200:
            raise read_error(status, bytes(body), retry_after, self._where, self._scrub)
        return self._picture(bytes(body))

    def _picture(self, body: bytes) -> Image.Image:
        """The picture in the body of a 200."""
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise TransientError(f"{self._where} sent a body that is not JSON") from None
        if isinstance(answer, dict) and answer.get("error"):
            raise read_error(500, body, None, self._where, self._scrub)
        data = answer.get("data") if isinstance(answer, dict) else None
        entry = data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}
        coded = entry.get("b64_json")
        if not isinstance(coded, str):
            # An address from a server is not followed: it could point anywhere in this network.
            hint = (
                "an address instead of a picture; set the field response_format to b64_json" if entry.get("url") else "no picture"
            )
            raise EditFailed(f"{self._where} sent {hint}")
        try:
            return as_picture(base64.b64decode(coded.partition(";base64,")[2] or coded, validate=True))
        except (binascii.Error, ValueError, ImageError) as error:
            raise TransientError(f"{self._where} sent something that is no picture: {self._scrub.line(str(error))}") from None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=self.batch),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=self._settings.timeout, sock_connect=min(30.0, self._settings.timeout)),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _names_seed(error: ServerError) -> bool:
    return error.parameter == "seed" or bool(re.search(r"(?i)(?<![a-z])seed(?![a-z])", error.message))
