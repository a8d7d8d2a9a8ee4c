"""Any server that speaks OpenAI's chat completions: vLLM, SGLang, LMDeploy, closed models."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import aiohttp

from mug_eval.backbones.endpoint import api_key, endpoint, proxy_of
from mug_eval.backbones.openai_body import EMPTY_TURN, PictureCache, messages_json
from mug_eval.backbones.openai_reply import Scrubber, ServerError, read_error, read_reply
from mug_eval.backbones.provider import LOCAL, provider
from mug_eval.chat import BackboneError, Json, Message, MisconfiguredError, Reply, Sampling, TransientError
from mug_eval.json_bytes import json_bytes

LONGEST_BODY: Final = 16 * 2**20
"""Bytes of a reply's body beyond which a server is not believed."""

# What a server may be unable to do without the game being another one, and how it may call it when it says so.
_DROPPABLE: Final[Mapping[str, str]] = {
    "response_format": r"response_format|json_schema|guided|structured.outputs?",
    "seed": r"seed",
    "top_k": r"top_k",
}


class OpenAIModel:
    """A ``chat.ChatModel`` over HTTP; one session with kept-alive connections, made at the first call.

    The key comes from the environment and goes into the requests' header, nowhere else.

    Args:
        model: the model's name at the server.
        base_url: the address up to ``/v1``; ``/chat/completions`` is added if it is not there.
        key_env: the environment variable that holds the key. Servers on this machine or network may do without one.
        concurrency: connections held.
        timeout: seconds for a request, from connecting to the last byte.
        max_tokens_field: ``max_tokens``, or ``max_completion_tokens`` for models that want that.
        omit: decoding settings that this model does not take (``temperature``, ...); never sent.

    Attributes:
        notes: what could not be sent as asked, one line each; for the run's record.

    Raises:
        UserError: the address is none, or the key is missing or cannot be one.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        key_env: str = "OPENAI_API_KEY",
        concurrency: int = 8,
        timeout: float = 600.0,
        max_tokens_field: str = "max_tokens",
        omit: Sequence[str] = (),
    ) -> None:
        self._url = endpoint(base_url, "/chat/completions")
        host = self._url.host or ""
        place = provider(base_url)
        key = api_key(key_env, needed=place != LOCAL, host=host)
        self._scrub = Scrubber(key)
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        self._where = f"{model} at {host}:{self._url.port}"
        self._model = json_bytes(model)
        self._connections = concurrency
        self._timeout = timeout
        self._max_tokens_field = max_tokens_field
        self._omit = frozenset(omit)
        self._refused: set[str] = set()
        self._pictures = PictureCache()
        self._session: aiohttp.ClientSession | None = None
        self._proxy = proxy_of(self._url)
        self.notes: list[str] = [f"{name} is not sent: {model} does not take it" for name in omit]
        self._fingerprint = f"openai:{model}@{place}" + "".join(f" without {name}" for name in sorted(self._omit))

    @property
    def fingerprint(self) -> str:
        """The model's name, who provides it, and what is never sent.

        Of a server on this machine or network the address is left out, so that a run continues when the same model has been started
        again elsewhere.
        """
        return self._fingerprint

    async def chat(self, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> Reply:
        """Ask once; see ``chat.ChatModel.chat``.

        Where the server refuses a JSON schema, a seed or top_k by name, the request is sent again without just that, which is left
        out from then on and said in ``notes``.
        """
        conversation, filled = messages_json(messages, self._pictures)
        if filled:
            self._note(f"a turn without words was sent as {EMPTY_TURN!r}")
        images = sum(len(message.images) for message in messages)
        settings = self._settings(sampling, schema)
        dropped: list[tuple[str, str]] = []
        while True:
            try:
                reply = await self._post(conversation, settings, images)
            except ServerError as server_error:
                name = _refused_parameter(server_error, settings)
                if name is None:
                    raise server_error.error from None
                del settings[name]
                dropped.append((name, str(server_error.error)))
                continue
            for name, words in dropped:
                self._refused.add(name)
                self._note(f"{name} is not sent any more, the server refused it: {words}")
            return reply

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _settings(self, sampling: Sampling, schema: Json | None) -> dict[str, Any]:
        """The request's fields beside model and messages; what is None, not taken or refused is left out."""
        settings: dict[str, Any] = {
            self._max_tokens_field: sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "seed": sampling.seed,
        }
        if schema is not None:
            # OpenAI's strict mode takes closed schemas only, and refuses others.
            strict = schema.get("additionalProperties") is False
            settings["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "reply", "schema": schema, "strict": strict},
            }
        left_out = self._omit | self._refused
        return {name: value for name, value in settings.items() if value is not None and name not in left_out}

    async def _post(self, conversation: bytes, settings: Mapping[str, Any], images: int) -> Reply:
        """One request.

        Raises:
            ServerError: the server answered, but not with a reply.
            BackboneError: it did not answer, or endlessly.
        """
        body = b'{"model":%s,"messages":%s,%s' % (self._model, conversation, json_bytes(settings)[1:])
        start = time.perf_counter()
        try:
            async with self._open_session().post(self._url, data=body, proxy=self._proxy, allow_redirects=False) as response:
                answer = await self._read(response)
                status, retry_after = response.status, response.headers.get("Retry-After")
        except aiohttp.ClientConnectorCertificateError:
            raise MisconfiguredError(f"{self._where} has a certificate that this machine does not trust") from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise self._no_answer(error) from None
        if status == 200:
            return read_reply(answer, images, time.perf_counter() - start, self._where, self._scrub)
        raise read_error(status, answer, retry_after, self._where, self._scrub)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        """The whole body, up to :data:`LONGEST_BODY`."""
        chunks, size = [], 0
        async for chunk in response.content.iter_any():
            chunks.append(chunk)
            size += len(chunk)
            if size > LONGEST_BODY:
                raise TransientError(f"{self._where} sent more than {LONGEST_BODY // 2**20} MB for one reply")
        return b"".join(chunks)

    def _no_answer(self, error: Exception) -> BackboneError:
        """What it means that there was no whole answer."""
        words = self._scrub.line(str(error)) or type(error).__name__
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            return TransientError(f"{self._where} cannot be reached: {words}", unreachable=True)
        if isinstance(error, TimeoutError):
            return TransientError(f"{self._where} gave no whole reply within {self._timeout:g} s")
        # A connection that was made and broke has put the request to the server, which may have worked on it, or broken at it.
        if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError | aiohttp.ClientOSError):
            return TransientError(f"{self._where} closed the connection without an answer: {words}")
        return TransientError(f"{self._where} broke off or sent no HTTP: {words}")

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=max(1, self._connections), ttl_dns_cache=300),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=min(30.0, self._timeout)),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _refused_parameter(error: ServerError, settings: Mapping[str, Any]) -> str | None:
    """The one droppable setting that a refusal names, None if it names none: what a server does not say is not guessed."""
    if not error.refuses:
        return None
    named = error.parameter.split(".")[0]
    if named in settings and named in _DROPPABLE:
        return named
    for name, words in _DROPPABLE.items():
        if name in settings and re.search(rf"(?i)(?<![a-z])(?:{words})(?![a-z])", error.message):
            return name
    return None
