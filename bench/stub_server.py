"""A chat completions server that answers every call after a fixed time and counts what it saw, cheap enough to share two cores.

It reads no more of a request than its length and whether it wants JSON: then the reply is a ballot over ten agents. A call
beyond its room is answered 503 and told on standard error: a client that keeps its limit never sees that. ``GET /stats`` gives
{"calls", "refused", "most_at_once", "bytes"}.

    python bench/stub_server.py --delay-ms 50 --room 64        prints its port
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import dataclass

REPLY = "The picture shows two people beside a red bus; nothing else is in front of it.\n\nAnswer: Yes"

FACTORS = ("inconsistency", "deviation", "inaccuracy", "suspicion")
BALLOT = json.dumps({f"Agent {seat}": dict.fromkeys(FACTORS, seat * 3 % 10) for seat in range(1, 11)})


@dataclass
class Counts:
    delay: float
    room: int
    reply: bytes
    ballot: bytes
    at_once: int = 0
    calls: int = 0
    refused: int = 0
    most_at_once: int = 0
    bytes: int = 0


class StubProtocol(asyncio.Protocol):
    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.head = b""
        self.left = 0  # bytes of the body still to come
        self.end = b""  # of the body, where the settings are

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.end = (self.end + data[-4000:])[-4000:]
        if self.left:
            self.left -= len(data)
        else:
            self.head += data
            head, end, body = self.head.partition(b"\r\n\r\n")
            if not end:
                return
            self.head = b""
            if head.startswith(b"GET"):
                counts = self.counts
                stats = {name: getattr(counts, name) for name in ("calls", "refused", "most_at_once", "bytes")}
                self.transport.write(http(200, json.dumps(stats).encode()))
                return
            length = int(next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))[15:])
            self.counts.bytes += length
            self.left = length - len(body)
        if self.left == 0:
            self.whole()

    def whole(self) -> None:
        counts = self.counts
        if counts.at_once >= counts.room:
            counts.refused += 1
            print(f"stub server: a call beyond the room for {counts.room}", file=sys.stderr, flush=True)
            self.transport.write(http(503, b'{"error":{"message":"no room"}}'))
            return
        counts.at_once += 1
        counts.calls += 1
        counts.most_at_once = max(counts.most_at_once, counts.at_once)
        asyncio.get_running_loop().call_later(counts.delay, self.answer, b'"response_format"' in self.end)
        self.end = b""

    def answer(self, wants_json: bool) -> None:
        self.counts.at_once -= 1
        self.transport.write(self.counts.ballot if wants_json else self.counts.reply)


def http(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def completion(text: str) -> bytes:
    return json.dumps(
        {
            "id": "stub",
            "object": "chat.completion",
            "model": "stub",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 700, "completion_tokens": 30, "total_tokens": 730},
        }
    ).encode()


async def serve(counts: Counts, port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: StubProtocol(counts), "127.0.0.1", port, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay-ms", type=float, default=50.0)
    parser.add_argument("--room", type=int, default=64)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--reply", default=REPLY)
    args = parser.parse_args()
    counts = Counts(args.delay_ms / 1000, args.room, http(200, completion(args.reply)), http(200, completion(BALLOT)))
    asyncio.run(serve(counts, args.port))
