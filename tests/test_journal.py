import asyncio
import errno
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mug_eval.atomic import atomic_write
from mug_eval.chat import ImageRef, Message, Reply, Sampling, Usage
from mug_eval.engine.journal import Journal, call_key, describe_call
from mug_eval.errors import RunStopped, UserError

PICTURE = ImageRef("ab" * 32, "image/jpeg", 20, 10, b"not looked at")
MESSAGES = (Message("system", ("Be brief.",)), Message("user", (PICTURE, "Is there a dog?")))
SAMPLING = Sampling(temperature=0.2, top_k=1, seed=7)
SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}}


def call(text="Is there a dog?", seed=7):
    return describe_call("openai:m", (Message("user", (PICTURE, text)),), replace(SAMPLING, seed=seed), None)


async def test_a_recorded_reply_comes_back_as_it_was(tmp_path):
    reply = Reply("Yes", Usage(10, None, 2), "length", "m-2025", 0.123456789012345)
    with Journal(tmp_path / "j.sqlite") as journal:
        assert await journal.get(call().key) is None
        await journal.put(call(), reply, attempts=3)
        assert await journal.get(call().key) == reply
        assert await journal.get(call(seed=8).key) is None
    with Journal(tmp_path / "j.sqlite", read_only=True) as journal:
        assert await journal.get(call().key) == reply
        with pytest.raises(RunStopped, match="cannot be written"):
            await journal.put(call(seed=8), reply)
    assert [file.name for file in tmp_path.iterdir()] == ["j.sqlite"]


async def test_a_call_can_be_audited_back_to_its_words_and_pictures_by_hash(tmp_path):
    asked = describe_call("openai:m", MESSAGES, SAMPLING, SCHEMA)
    with Journal(tmp_path / "j.sqlite") as journal:
        await journal.put(asked, Reply("Yes"), attempts=2)
        recorded = journal.read(asked.key)
        assert journal.read("0" * 64) is None
    assert recorded.messages == [
        {"role": "system", "parts": ["Be brief."]},
        {
            "role": "user",
            "parts": [{"image": PICTURE.sha256, "media_type": "image/jpeg", "width": 20, "height": 10}, "Is there a dog?"],
        },
    ]
    assert recorded.sampling == {"temperature": 0.2, "top_p": None, "top_k": 1, "max_tokens": 2048, "seed": 7}
    assert (recorded.fingerprint, recorded.schema, recorded.reply.text, recorded.attempts) == ("openai:m", SCHEMA, "Yes", 2)
    assert b"not looked at" not in (tmp_path / "j.sqlite").read_bytes()


def test_everything_that_a_reply_depends_on_is_part_of_the_key_and_nothing_else():
    def key(fingerprint="f", messages=MESSAGES, sampling=SAMPLING, schema=None):
        return call_key(fingerprint, messages, sampling, schema)

    others = [
        key("g"),
        key(messages=MESSAGES[1:]),
        key(messages=(MESSAGES[0], Message("user", ("Is there a dog?", PICTURE)))),
        key(messages=(MESSAGES[0], Message("user", (replace(PICTURE, sha256="cd" * 32), "Is there a dog?")))),
        key(messages=(MESSAGES[0], Message("assistant", MESSAGES[1].parts))),
        key(messages=(MESSAGES[0], Message("user", (PICTURE, "Is there", " a dog?")))),
        *(key(sampling=replace(SAMPLING, **{field: 1})) for field in ("temperature", "top_p", "max_tokens", "seed")),
        key(sampling=replace(SAMPLING, top_k=None)),
        key(schema=SCHEMA),
        key(schema={**SCHEMA, "properties": {"a": {}, "b": {}}}),
    ]
    assert len({key(), *others}) == 1 + len(others)
    assert key() == key(messages=(MESSAGES[0], Message("user", (replace(PICTURE, data=b"other"), "Is there a dog?"))))
    assert len(key()) == 64


@pytest.mark.parametrize(
    "text", ["half a pair \ud83d", "a\x00b", "\ud800\udfff"[:1] + "𝔘", "", "x" * 3_000_000, "'; DROP TABLE calls;--"]
)
async def test_no_text_loses_its_reply(tmp_path, text):
    with Journal(tmp_path / "j.sqlite") as journal:
        await journal.put(call(text), Reply(text, model=text[:10]))
        assert (await journal.get(call(text).key)).text == text
        assert journal.read(call(text).key).messages[0]["parts"][1] == text


def test_what_was_confirmed_survives_a_kill(tmp_path):
    code = """
import asyncio, os, signal, sys
from pathlib import Path
from test_journal import Journal, Reply, call
async def main():
    journal = Journal(Path(sys.argv[1]))
    await asyncio.gather(*(journal.put(call(seed=seed), Reply(str(seed))) for seed in range(100)))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    path = tmp_path / "j.sqlite"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), str(Path(__file__).parent)])}
    assert subprocess.run([sys.executable, "-c", code, str(path)], env=environment, check=False).returncode == -signal.SIGKILL
    with Journal(path) as journal:
        assert len(journal) == 100
        assert journal.read(call(seed=99).key).reply.text == "99"


async def test_replies_of_cancelled_tasks_are_recorded_too(tmp_path):
    with Journal(tmp_path / "j.sqlite") as journal:
        task = asyncio.create_task(journal.put(call(), Reply("Yes")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    with Journal(tmp_path / "j.sqlite") as journal:
        assert (await journal.get(call().key)).text == "Yes"


async def test_the_first_reply_to_a_call_stays(tmp_path):
    with Journal(tmp_path / "j.sqlite") as journal:
        await journal.put(call(), Reply("first"))
        await journal.put(call(), Reply("second"))
        assert (await journal.get(call().key)).text == "first"


async def test_a_full_disk_stops_the_run_in_one_line_and_loses_nothing(tmp_path):
    with Journal(tmp_path / "j.sqlite") as journal:
        await journal.put(call("before"), Reply("kept"))
        pages = journal._writer.execute("PRAGMA page_count").fetchall()[0][0]
        journal._writer.execute(f"PRAGMA max_page_count = {pages + 3}")  # a real SQLITE_FULL from here on
        puts = [journal.put(call(seed=seed), Reply("x" * (100 if seed == 5 else 50_000))) for seed in range(10)]
        results = await asyncio.gather(*puts, return_exceptions=True)
        for seed, result in enumerate(results):
            if seed == 5:  # the one that still fits is kept, though it came with others that do not
                assert result is None
            else:
                assert isinstance(result, RunStopped)
                assert "disk is full" in str(result)
                assert "\n" not in str(result)
        assert (await journal.get(call("before").key)).text == "kept"
        assert (await journal.get(call(seed=5).key)).text == "x" * 100
        assert await journal.get(call(seed=4).key) is None
        journal._writer.execute("PRAGMA max_page_count = 100000")
        await journal.put(call(seed=4), Reply("there is room again"))
        assert (await journal.get(call(seed=4).key)).text == "there is room again"


def test_a_file_that_is_no_journal_is_left_alone_with_a_word_what_to_do(tmp_path):
    text = tmp_path / "text.sqlite"
    text.write_text(
        "no database at all, but longer than a header of SQLite would be, which has 100 bytes, so that it is read as one"
    )
    with sqlite3.connect(tmp_path / "foreign.sqlite") as foreign:
        foreign.execute("CREATE TABLE calls (key)")
    for path, word in ((text, "not a database"), (tmp_path / "foreign.sqlite", "another program"), (tmp_path, "cannot open")):
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(UserError, match=word) as error:
            Journal(path)
        assert "--work-dir" in str(error.value)
        assert before is None or path.read_bytes() == before
    with pytest.raises(UserError, match="no journal"):
        Journal(tmp_path / "none.sqlite", read_only=True)
    assert not (tmp_path / "none.sqlite").exists()


def test_a_journal_of_another_version_is_named_as_such(tmp_path):
    Journal(tmp_path / "j.sqlite").close()
    with sqlite3.connect(tmp_path / "j.sqlite") as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(UserError, match=r"version 99.*version 1"):
        Journal(tmp_path / "j.sqlite")


async def test_a_journal_that_is_being_written_can_be_read(tmp_path):
    with Journal(tmp_path / "j.sqlite") as journal:
        await journal.put(call(), Reply("Yes"))
        with Journal(tmp_path / "j.sqlite", read_only=True) as other:
            assert other.read(call().key).reply.text == "Yes"


def test_an_empty_file_is_not_made_a_journal_by_reading(tmp_path):
    (tmp_path / "j.sqlite").touch()
    with pytest.raises(UserError):
        Journal(tmp_path / "j.sqlite", read_only=True)
    assert (tmp_path / "j.sqlite").stat().st_size == 0


def damaged(error):
    return "is damaged" in str(error.value) and "j.sqlite" in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("reply", ["{torn", "[]", "{}", "7", "null", '{"text": 5}', "[" * 100_000, b"\xff\xfe"])
async def test_a_damaged_reply_is_said_in_one_line(tmp_path, reply):
    with Journal(tmp_path / "j.sqlite") as journal:
        await journal.put(call(), Reply("Yes"))
    with sqlite3.connect(tmp_path / "j.sqlite") as other:
        other.execute("UPDATE calls SET reply = CAST(? AS TEXT)", (reply,))
    with Journal(tmp_path / "j.sqlite") as journal:
        with pytest.raises(UserError) as error:
            await journal.get(call().key)
        assert damaged(error)
        with pytest.raises(UserError) as error:
            journal.read(call().key)
        assert damaged(error)


async def test_a_damaged_file_is_said_in_one_line(tmp_path):
    path = tmp_path / "j.sqlite"
    with Journal(path) as journal:
        for seed in range(50):
            await journal.put(call("x" * 3000, seed=seed), Reply("Yes"))
    data = path.read_bytes()
    path.write_bytes(data[:8192] + b"\xa5" * (len(data) - 8192))  # all but the pages that tell what it is
    with Journal(path) as journal:
        for read in (journal.read, lambda _: len(journal)):
            with pytest.raises(UserError) as error:
                read(call("x" * 3000, seed=7).key)
            assert damaged(error)
        with pytest.raises(UserError) as error:
            await journal.get(call("x" * 3000, seed=7).key)
        assert damaged(error)


def in_a_process(function: Callable[..., None], path: Path, *numbers: int) -> None:
    """Run a function of this file in a process of its own: not a fork, which would inherit locks that other tests' threads hold."""
    code = "import sys; from pathlib import Path; import test_journal as t; "
    code += f"t.{function.__name__}(Path(sys.argv[1]), *map(int, sys.argv[2:]))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), str(Path(__file__).parent)])}
    command = [sys.executable, "-c", code, str(path), *map(str, numbers)]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("room", [0, 1000, 6000])
def test_a_journal_on_a_full_disk_stops_the_run_and_is_not_to_be_moved_away(tmp_path, room):
    path = tmp_path / "j.sqlite"
    in_a_process(_make_a_journal_on_a_full_disk, path, room)
    Journal(path).close()  # once there is room, what was left behind is no hindrance


def _make_a_journal_on_a_full_disk(path: Path, room: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    with pytest.raises(RunStopped, match=r"the disk is full.*make room") as error:
        Journal(path)
    assert "move it away" not in str(error.value)


def test_a_full_disk_may_take_not_even_the_folder(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(RunStopped, match="the disk is full"):
        Journal(tmp_path / "new" / "j.sqlite")


def test_an_atomic_write_is_whole_or_not_at_all(tmp_path):
    path = tmp_path / "run.json"
    atomic_write(path, "old ✓")
    assert path.read_text() == "old ✓"

    in_a_process(_write_on_a_full_disk, path)
    assert path.read_text() == "old ✓"
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def _write_on_a_full_disk(path: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    with pytest.raises(RunStopped, match=r"run\.json"):
        atomic_write(path, b"n" * 1000)
