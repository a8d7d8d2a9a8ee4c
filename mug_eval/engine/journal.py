"""The journal: every call to a backbone, once, in one SQLite file. What is in it is never asked again."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import hashlib
import json
import sqlite3
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mug_eval.chat import Json, Message, Part, Reply, Sampling, Usage
from mug_eval.errors import RunStopped, UserError
from mug_eval.json_bytes import json_bytes

APPLICATION_ID = 0x4D554745  # "MUGE"
VERSION = 1
_MOST_ROWS = 64  # of one transaction: more than a loop turn brings, few enough for one statement

# The reply stands before the messages: SQLite reads a long row from its beginning, and a replay wants the reply only.
_TABLE = """
CREATE TABLE calls (
    key TEXT NOT NULL UNIQUE,   -- SHA-256 of what follows it but the reply and the attempts
    reply TEXT NOT NULL,        -- JSON: text, finish_reason, model, prompt_tokens, completion_tokens, images, seconds
    attempts INTEGER NOT NULL,  -- requests sent for it, the one that was answered included
    fingerprint TEXT NOT NULL,  -- the backbone and its fixed settings
    sampling TEXT NOT NULL,     -- JSON
    schema TEXT,                -- JSON, NULL for free text
    messages TEXT NOT NULL      -- JSON; a picture is {"image": sha256, "media_type", "width", "height"}
)
"""
_COLUMNS = 7


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the journal knows it: its identity and the JSON of what is asked."""

    key: str
    fingerprint: str
    sampling: bytes
    schema: bytes | None
    messages: bytes


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call read back from the journal, JSON decoded."""

    key: str
    fingerprint: str
    messages: list[dict[str, Any]]
    sampling: dict[str, Any]
    schema: dict[str, Any] | None
    reply: Reply
    attempts: int


def describe_call(fingerprint: str, messages: Sequence[Message], sampling: Sampling, schema: Json | None) -> Call:
    """Name a call by the SHA-256 of everything that its reply depends on.

    A schema counts in the order it is written in, since a server that is held to one writes its fields in that order.
    """
    messages_json = json_bytes(
        [{"role": message.role, "parts": [_part_json(part) for part in message.parts]} for message in messages]
    )
    sampling_json = json_bytes(
        {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "max_tokens": sampling.max_tokens,
            "seed": sampling.seed,
        }
    )
    schema_json = None if schema is None else json_bytes(schema)
    digest = hashlib.sha256()
    # Each piece is one JSON value, so their sequence is a JSON text and no two different calls join to the same bytes.
    for piece in (json_bytes(fingerprint), sampling_json, schema_json or b"null", messages_json):
        digest.update(piece + b"\n")
    return Call(digest.hexdigest(), fingerprint, sampling_json, schema_json, messages_json)


def call_key(fingerprint: str, messages: Sequence[Message], sampling: Sampling, schema: Json | None = None) -> str:
    """The identity of a call: 64 hex digits, see :func:`describe_call`."""
    return describe_call(fingerprint, messages, sampling, schema).key


class Journal:
    """An open journal. One process writes it at a time (``engine.lock``); any number may read it meanwhile.

    Replies are committed by one thread that takes all that wait into one transaction (write-ahead log, ``synchronous=NORMAL``: a
    kill loses nothing that :meth:`put` has confirmed, a power cut may lose the last moments but never the file).

    Args:
        path: the file; made, with its folder, if it is not there.
        read_only: only read what exists, and leave no file beside it (``mug-eval show``); works on a read-only file system too.

    Raises:
        UserError: the file is not a journal, or is one of another version, or cannot be opened.
        RunStopped: the disk is full.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        if read_only and not path.exists():
            raise UserError(f"there is no journal at {path}; is this the right work-dir?")
        try:
            if read_only:
                self._writer = self._reader = _connect_to_read(path)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._writer, self._reader = _connect_to_write(path)
        except (sqlite3.Error, OSError) as error:
            if _disk_is_full(error):
                raise RunStopped(
                    f"the disk is full or failing ({error}): the journal {path} cannot be opened; make room and give the same command again"
                ) from error
            raise UserError(
                f"cannot open the journal {path} ({error}); mend it, move it away, or choose another --work-dir"
            ) from error
        self._waiting: deque[_Entry] = deque()
        self._wake = threading.Event()
        self._waking = self._closing = False
        self._thread: threading.Thread | None = None

    async def get(self, key: str) -> Reply | None:
        """The recorded reply to a call, or None.

        It is read on the event loop: one look-up by key takes some 20 microseconds, less than a trip to a thread.

        Raises:
            UserError: the file is damaged.
        """
        with self._undamaged():
            rows = self._reader.execute("SELECT reply FROM calls WHERE key = ?", (key,)).fetchall()
            return _reply(rows[0][0]) if rows else None

    async def put(self, call: Call, reply: Reply, attempts: int = 1) -> None:
        """Record a reply; returns when it is committed.

        Raises:
            RunStopped: the disk is full or failing. What was confirmed before stays recorded.
        """
        await self.enqueue(call, reply, attempts)

    def enqueue(self, call: Call, reply: Reply, attempts: int = 1) -> asyncio.Future[None]:
        """Hand a reply to the writer; the future is done when it is committed, and raises as :meth:`put` does.

        From here on the reply is written whatever becomes of the tasks, at the latest by :meth:`close`.
        """
        row = (
            call.key,
            _reply_json(reply),
            attempts,
            json_bytes(call.fingerprint).decode(),
            call.sampling.decode(),
            None if call.schema is None else call.schema.decode(),
            call.messages.decode(),
        )
        loop = asyncio.get_running_loop()
        entry = _Entry(row, loop, loop.create_future())
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
            self._thread.start()
        self._waiting.append(entry)
        if not self._waking:
            # Once a turn of the loop, not once a reply: each waking hands the interpreter lock to and fro.
            self._waking = True
            loop.call_soon(self._wake_writer)
        return entry.done

    def read(self, key: str) -> RecordedCall | None:
        """A recorded call whole, or None; for ``mug-eval show``.

        Raises:
            UserError: the file is damaged.
        """
        columns = "key, fingerprint, messages, sampling, schema, reply, attempts"
        with self._undamaged():
            rows = self._reader.execute(f"SELECT {columns} FROM calls WHERE key = ?", (key,)).fetchall()
            if not rows:
                return None
            key, fingerprint, messages, sampling, schema, reply, attempts = rows[0]
            return RecordedCall(
                key,
                json.loads(fingerprint),
                _messages(messages),
                json.loads(sampling),
                None if schema is None else json.loads(schema),
                _reply(reply),
                attempts,
            )

    def __len__(self) -> int:
        """The number of recorded calls."""
        with self._undamaged():
            return int(self._reader.execute("SELECT count(*) FROM calls").fetchall()[0][0])

    @contextlib.contextmanager
    def _undamaged(self) -> Iterator[None]:
        """What goes wrong while a row is read: the file is not as it was written."""
        try:
            yield
        except (sqlite3.Error, ValueError, TypeError, KeyError, RecursionError) as error:
            raise UserError(
                f"the journal {self.path} is damaged ({type(error).__name__}: {error}); put a copy of it back, or move it away and give "
                "the same command again, which asks its calls anew"
            ) from error

    def close(self) -> None:
        """Commit what waits and let go of the file."""
        if self._thread is not None:
            self._closing = True
            self._wake.set()
            self._thread.join()
            self._thread = None
        self._reader.close()
        # The last connection to close folds the write-ahead log into the file, so that the journal is one file again.
        self._writer.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wake_writer(self) -> None:
        self._waking = False
        self._wake.set()

    def _write(self) -> None:
        """The writer thread: sleep until entries wait, then commit all that are there, together."""
        while True:
            self._wake.wait()
            self._wake.clear()
            closing = self._closing  # read before the entries: what was enqueued before close() is written
            while self._waiting:
                self._commit([self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_ROWS))])
            if closing:
                return

    def _commit(self, batch: list[_Entry]) -> None:
        """Commit entries in one transaction; on a failure one by one, so that a nearly full disk still takes what fits."""
        error = self._insert(batch)
        if error is None or len(batch) == 1:
            _resolve(batch, error)
            return
        for entry in batch:
            _resolve([entry], self._insert([entry]))

    def _insert(self, batch: list[_Entry]) -> RunStopped | None:
        try:
            # One statement is one transaction, and one release of the interpreter lock: with a statement a row, the thread would
            # queue for that lock behind a busy event loop at every row.
            self._writer.execute(_insert_statement(len(batch)), [value for entry in batch for value in entry.row])
        except sqlite3.Error as error:
            trouble = (
                "the disk is full" if _primary_code(error) == sqlite3.SQLITE_FULL else f"the journal cannot be written ({error})"
            )
            return RunStopped(f"{trouble}: a reply could not be recorded in {self.path}; make room and give the same command again")
        return None


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row on its way to the disk and who waits for it."""

    row: tuple[object, ...]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]


def _resolve(entries: list[_Entry], error: RunStopped | None) -> None:
    """Tell the waiting tasks, one wake-up a loop, from the writer's thread."""

    def tell(mine: list[_Entry]) -> None:
        for entry in mine:
            if entry.done.done():
                continue
            if error is None:
                entry.done.set_result(None)
            else:
                entry.done.set_exception(RunStopped(str(error)))

    for loop in {entry.loop for entry in entries}:
        with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits any more
            loop.call_soon_threadsafe(tell, [entry for entry in entries if entry.loop is loop])


@functools.cache
def _insert_statement(rows: int) -> str:
    row = f"({','.join('?' * _COLUMNS)})"
    return f"INSERT INTO calls VALUES {','.join([row] * rows)} ON CONFLICT (key) DO NOTHING"


def _connect_to_write(path: Path) -> tuple[sqlite3.Connection, sqlite3.Connection]:
    """A connection that writes and one that reads; the journal is made if it is not there."""
    connections: list[sqlite3.Connection] = []
    try:
        for _ in range(2):
            connections.append(sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False))
            connections[-1].execute("PRAGMA synchronous = NORMAL")
            if len(connections) == 1:
                _check(connections[0], path, make=True)
    except BaseException:
        for connection in connections:
            connection.close()
        raise
    return connections[0], connections[1]


def _connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection that only reads.

    A journal with a write-ahead log has to be opened as a shared file; where the file system is read-only, and where there is no
    such log (nobody writes), SQLite is told that the file does not change, or else it would put files beside it.
    """
    uri = f"{path.absolute().as_uri()}?mode=ro"
    ways = [f"{uri}&immutable=1"]
    if path.with_name(f"{path.name}-wal").exists():
        ways.insert(0, uri)
    for way in ways:
        connection = sqlite3.connect(way, uri=True, timeout=30, isolation_level=None, check_same_thread=False)
        try:
            _check(connection, path, make=False)
        except sqlite3.Error:
            connection.close()
            if way == ways[-1]:
                raise
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise AssertionError("the last way returned or raised")


def _primary_code(error: BaseException) -> int:
    """SQLite's result code without the details in its upper bits; 0 for other errors."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _disk_is_full(error: sqlite3.Error | OSError) -> bool:
    """Whether the disk is what is wrong. SQLite says "disk I/O error" where the disk filled up while it made a file."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return _primary_code(error) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _check(connection: sqlite3.Connection, path: Path, *, make: bool) -> None:
    """Refuse a file that is no journal of ours; an empty one is made into one if ``make`` says so."""
    application_id, version, objects = (
        connection.execute(query).fetchall()[0][0]
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    )
    if make and application_id == 0 and version == 0 and objects == 0:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_TABLE)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    elif application_id != APPLICATION_ID:
        raise UserError(f"{path} is an SQLite file of another program; move it away or choose another --work-dir")
    elif version != VERSION:
        raise UserError(
            f"{path} is a journal of version {version}, this mug_eval reads version {VERSION}; "
            "choose another --work-dir, or the mug_eval that wrote it"
        )


def _part_json(part: Part) -> object:
    if isinstance(part, str):
        return part
    return {"image": part.sha256, "media_type": part.media_type, "width": part.width, "height": part.height}


def _reply_json(reply: Reply) -> str:
    return json_bytes(
        {
            "text": reply.text,
            "finish_reason": reply.finish_reason,
            "model": reply.model,
            "prompt_tokens": reply.usage.prompt_tokens,
            "completion_tokens": reply.usage.completion_tokens,
            "images": reply.usage.images,
            "seconds": reply.seconds,
        }
    ).decode()


def _messages(text: str) -> list[dict[str, Any]]:
    """Raises ValueError or TypeError if the text is not what was written."""
    messages = json.loads(text)
    if not isinstance(messages, list) or not all(isinstance(m, dict) and isinstance(m.get("parts"), list) for m in messages):
        raise ValueError("no list of messages")
    return messages


def _reply(text: str) -> Reply:
    """Raises ValueError, TypeError or KeyError if the text is not what was written."""
    fields = json.loads(text)
    if not all(isinstance(fields[name], str) for name in ("text", "finish_reason", "model")):
        raise ValueError("a reply without words")
    usage = Usage(fields["prompt_tokens"], fields["completion_tokens"], fields["images"])
    return Reply(fields["text"], usage, fields["finish_reason"], fields["model"], fields["seconds"])
