import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mug_eval.engine.games import GamesFile
from mug_eval.engine.lock import work_dir_lock
from mug_eval.errors import UserError


def game(index, prediction="Yes", **more):
    usage = {"calls": 1, "prompt_tokens": 9, "completion_tokens": 2, "images": 1, "seconds": 0.5, "calls_without_usage": 0}
    whole = {
        "answer": {"value": prediction},
        "raw": "",
        "ended": "answered",
        "facts": {},
        "events": [],
        "calls": [],
        "usage": usage,
    }
    return {"index": index, "prediction": prediction, **whole, **more}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m" / "POPE" / "games.jsonl"


def test_what_was_appended_is_there_when_it_is_opened_again(path):
    with GamesFile(path) as games:
        games.append(game("b"))
        games.append(game("a", raw="zwei\nZeilen\u2028 und \x00"))
        assert "a" in games
    with GamesFile(path) as games:
        assert (len(games), "b" in games, "c" in games) == (2, True, False)
        assert games.record("a") == game("a", raw="zwei\nZeilen\u2028 und \x00")
        assert [record["index"] for record in games] == ["b", "a"]
    assert path.read_bytes().count(b"\n") == 2


def test_letters_stay_readable_and_half_a_surrogate_pair_is_kept(path):
    with GamesFile(path) as games:
        games.append(game("é", "是"))
        games.append(game("x", "\ud83d"))
        assert games.record("x")["prediction"] == "\ud83d"
    assert "是".encode() in path.read_bytes()


def test_a_line_torn_anywhere_by_a_kill_is_owed_again(path):
    with GamesFile(path) as games:
        games.append(game("a"))
        games.append(game("b", "é"))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for cut in range(first, len(whole)):
        path.write_bytes(whole[:cut])
        with GamesFile(path) as games:
            assert ("a" in games, "b" in games) == (True, False)
            games.append(game("b", "é"))
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "garbage",
    [
        b"{",
        b'"a"',
        b"null",
        b"\xff\xfe",
        b'{"index": 3, "prediction": ""}',
        b'{"index": "3"}',
        b'{"index": "3", "prediction": "Yes"}',
        b"[" * 100_000,
    ],
)
def test_a_garbled_line_is_named_by_its_number_and_nothing_is_changed(path, garbage):
    path.parent.mkdir(parents=True)
    content = json.dumps(game("a")).encode() + b"\n" + garbage + b"\n" + json.dumps(game("c")).encode() + b"\n"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"games\.jsonl line 2 "):
        GamesFile(path)
    assert path.read_bytes() == content


def test_two_records_of_one_question_are_an_error_on_opening_and_on_appending(path):
    with GamesFile(path) as games:
        games.append(game("a"))
        with pytest.raises(ValueError, match=r"recorded in .* already"):
            games.append(game("a", "No"))
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(UserError, match="line 2 repeats question a"):
        GamesFile(path)


def test_a_record_that_json_cannot_hold_is_refused_whole(path):
    with GamesFile(path) as games:
        with pytest.raises(ValueError, match="JSON compliant"):
            games.append(game("a", facts={"share": float("nan")}))
        assert path.read_bytes() == b""
        games.append(game("a"))


def test_rewriting_puts_the_dataset_order_whatever_order_the_games_ended_in(path):
    with GamesFile(path) as games:
        for index in ("10", "9", "11", "2"):
            games.append(game(index, "p" + index))
        games.rewrite(["2", "3", "9", "10"])  # 3 is owed; 11 is not asked for any more
        assert [record["index"] for record in games] == ["2", "9", "10"]
        assert games.record("10") == game("10", "p10")
        games.append(game("3"))
        assert games.record("3") == game("3")
    with GamesFile(path) as games:
        assert [record["index"] for record in games] == ["2", "9", "10", "3"]
    assert [file.name for file in path.parent.iterdir()] == ["games.jsonl"]


def in_a_small_world(code: str, path: Path) -> None:
    """Run code in a process whose files cannot grow beyond 2,000 bytes, as on a full disk."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    prelude = "import sys; from test_games_file import *; from mug_eval.errors import RunStopped; path = Path(sys.argv[1])\n"
    search = os.pathsep.join([str(Path.cwd()), str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", prelude + code, str(path)]
    result = subprocess.run(command, env=environment, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_a_full_disk_stops_the_run_in_one_line_and_leaves_whole_lines(path):
    in_a_small_world(
        """
with GamesFile(path) as games:
    games.append(game("a", "x" * 600))
    with pytest.raises(RunStopped) as stop:
        games.append(game("b", "x" * 600))
    assert "games.jsonl" in str(stop.value) and "too large" in str(stop.value) and "\\n" not in str(stop.value)
    assert "b" not in games
    games.append(game("c"))
    assert [record["index"] for record in games] == ["a", "c"]
""",
        path,
    )
    with GamesFile(path) as games:
        assert [record["index"] for record in games] == ["a", "c"]


def test_a_full_disk_while_rewriting_leaves_the_file_as_it_was(path):
    with GamesFile(path) as games:
        for index in ("b", "a", "c"):
            games.append(game(index, "x" * 600))
    before = path.read_bytes()
    in_a_small_world(
        """
with GamesFile(path) as games:
    with pytest.raises(RunStopped):
        games.rewrite(["a", "b", "c"])
    assert games.record("a")["prediction"] == "x" * 600
""",
        path,
    )
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["games.jsonl"]


HOLD = """
import sys
from pathlib import Path
from mug_eval.engine.lock import work_dir_lock
with work_dir_lock(Path(sys.argv[1]), wait=False):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def other_run(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_run_on_a_work_dir_is_refused_and_told_who_holds_it(tmp_path, other_run):
    with pytest.raises(UserError, match=rf"process {other_run.pid}\).*--wait"), work_dir_lock(tmp_path, wait=False):
        raise AssertionError("two runs at once")


def test_a_second_run_waits_if_it_is_told_to_and_says_for_whom(tmp_path, other_run):
    said = []

    def say(line):
        said.append(line)
        other_run.stdin.write("\n")
        other_run.stdin.flush()

    with work_dir_lock(tmp_path, wait=True, say=say):
        assert other_run.wait(60) == 0
        assert str(os.getpid()) in (tmp_path / ".lock").read_text()
    assert said == [f"waiting for another run (process {other_run.pid}) to leave {tmp_path}"]


def test_a_killed_run_holds_nothing(tmp_path, other_run):
    other_run.kill()
    other_run.wait()
    with work_dir_lock(tmp_path, wait=False):
        pass
    with work_dir_lock(tmp_path / "new" / "folder", wait=False):
        pass


def test_a_work_dir_that_cannot_be_is_the_users_mistake(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--work-dir"), work_dir_lock(tmp_path / "file" / "sub", wait=False):
        pass
