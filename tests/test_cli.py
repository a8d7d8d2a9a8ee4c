"""The command line: one clear line for a mistake, nothing heavy before it is needed, a game printed from a run's folder."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mug_eval import __version__
from mug_eval.chat import ImageRef, Message, Reply, Sampling, Usage
from mug_eval.cli import guarded, main
from mug_eval.cli.show import find_game, find_run
from mug_eval.engine.journal import Journal, describe_call
from mug_eval.errors import RunStopped, UserError

ROOT = Path(__file__).resolve().parents[1]


def fails(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line on stderr of a command that the user got wrong."""
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mug-eval: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["rnu"], ["rnu", "did you mean run"]),
        (["--model", "mug-qwen"], ["mug-eval run --model"]),
        (["run", "--modle", "mug-qwen"], ["--modle", "did you mean --model"]),
        (["run", "--mod", "mug-qwen"], ["--mod", "--model"]),
        (["run", "--token-budgt", "5"], ["--token-budgt", "did you mean --token-budget"]),
        (["run", "stray"], ["unexpected argument 'stray'"]),
        (["run", "--limit", "0"], ["--limit", "at least 1"]),
        (["run", "--limit", "ten"], ["--limit", "'ten'", "whole number"]),
        (["run", "--concurrency", "0"], ["--concurrency", "at least 1"]),
        (["run", "--retries", "-1"], ["--retries", "at least 0"]),
        (["run", "--timeout", "0"], ["--timeout", "more than 0"]),
        (["run", "--timeout", "inf"], ["--timeout", "more than 0"]),
        (["run", "--seed", "x"], ["--seed", "'x'"]),
        (["run", "--preset", "papre"], ["--preset", "paper"]),
        (["run", "--counterfactual-match", "x"], ["--counterfactual-match", "question"]),
        (["run", "--model"], ["--model", "expected at least one argument"]),
        (["run"], ["--model", "--list"]),
        (["show"], ["OUT"]),
        (["show", "."], ["--index"]),
        (["show", "nowhere", "--index", "1"], ["nowhere", "no such folder"]),
        (["list", "x"], ["unexpected argument 'x'"]),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(argv: list[str], said: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, *argv)
    for piece in said:
        assert piece in line


@pytest.mark.parametrize(
    "argv",
    [
        ["--api-key", "sk-secret"],
        ["--api-key=sk-secret"],
        ["--api_key", "sk-secret"],
        ["--openai-api-key=sk-secret"],
        ["--access-token", "sk-secret"],
    ],
)
def test_a_key_on_the_command_line_is_refused_and_never_repeated(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    line = fails(capsys, "run", "--model", "mug-qwen", "--data", "POPE", *argv)
    assert "OPENAI_API_KEY" in line
    assert "environment" in line
    assert "secret" not in line


def test_the_value_of_an_unknown_option_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert "secret" not in fails(capsys, "run", "--auth=sk-secret", "--data", "POPE")
    assert "secret" not in fails(capsys, "run", "--auth", "sk-secret", "--data", "POPE")


def raising(error: BaseException) -> int:
    def action() -> int:
        raise error

    return guarded(action)


def test_the_ways_to_end_have_their_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert guarded(lambda: 0) == 0
    assert guarded(lambda: 3) == 3
    assert raising(UserError("mend\nit")) == 2
    assert raising(RunStopped("the call budget of 10 is spent")) == 3
    assert raising(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err.splitlines() == [
        "mug-eval: error: mend it",
        "mug-eval: stopped: the call budget of 10 is spent; what is done is kept, the same command continues",
        "mug-eval: interrupted: what is done is kept, the same command continues",
    ]


def test_a_second_interrupt_ends_a_process_that_still_waits_for_a_thread_without_a_traceback() -> None:
    code = """
import signal, sys, threading, time
from mug_eval import cli

def linger():
    while signal.getsignal(signal.SIGINT) is not signal.SIG_DFL:
        time.sleep(0.01)
    print("still here", flush=True)
    time.sleep(600)

def interrupted(arguments):
    threading.Thread(target=linger).start()
    raise KeyboardInterrupt

cli._command = interrupted
sys.exit(cli.program())
"""
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "still here\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGINT
    assert said == "mug-eval: interrupted: what is done is kept, the same command continues\n"


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        guarded(lambda: 1 // 0)


def test_an_error_cannot_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    raising(UserError("the server says \x1b[2J"))
    assert "\x1b" not in capsys.readouterr().err


def test_help_and_version_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, said in (
        (["--help"], "show"),
        (["run", "--help"], "examples:"),
        (["show", "--help"], "--prompts"),
        (["list", "--help"], "presets"),
        (["--version"], __version__),
        (["run", "--version"], __version__),
    ):
        assert main(argv) == 0
        captured = capsys.readouterr()
        assert said in captured.out
        assert captured.err == ""
    assert main([]) == 2
    assert "run" in capsys.readouterr().err


def test_help_explains_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "--help"])
    said = capsys.readouterr().out
    for option in (
        *(
            "--model",
            "--method",
            "--backbone",
            "--base-url",
            "--data",
            "--data-file",
            "--counterfactuals",
            "--counterfactual-match",
        ),
        *("--limit", "--preset", "--set", "--config", "--seed", "--judge", "--work-dir", "--concurrency", "--timeout", "--retries"),
        *("--call-budget", "--token-budget", "--allow-missing", "--wait", "--quiet", "--dry-run", "--list"),
    ):
        assert f"  {option}" in said
    assert "--api-key" not in said


def test_the_list_names_everything_with_its_settings_and_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    for piece in (
        *("direct", "cot", "sc", "self-refine", "mad-vote", "mad-judge", "cfmad", "mug"),
        *(
            "agents=3, ",
            "adaptive_stop=null (a number or null)",
            "undercover=random (random | most_uncertain)",
            "calls a question: 1\n",
            "counterfactual pictures",
        ),
        *("qwen", "internvl", "gpt-4o-mini", "OPENAI_API_KEY", "openai:", "vlmevalkit:"),
        *("HallusionBench", "951", "aAcc", "POPE", "5,127", "F1", "MMStar", "1,500", "MMMU_DEV_VAL", "1,050"),
        *("native", "paper", "temperature"),
    ):
        assert piece in " ".join(listed.split()) or piece in listed
    assert main(["run", "--list"]) == 0
    assert capsys.readouterr().out == listed
    assert max(map(len, listed.splitlines())) <= 120


HEAVY = ("vlmeval", "torch", "pandas", "numpy", "aiohttp", "transformers", "PIL")


@pytest.mark.parametrize(
    "argv", [["list"], ["run", "--list"], ["run", "--help"], ["--version"], ["run", "--model", "x", "--data", "POPE"]]
)
def test_nothing_heavy_is_imported_to_say_what_there_is(argv: list[str]) -> None:
    code = (
        "import sys; from mug_eval.cli import main; main(sys.argv[1:]);"
        f"print('loaded:', [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "loaded: []"


def test_run_eval_is_mug_eval_run() -> None:
    def said(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)

    script = said("run_eval.py", "--model", "mug-qwne", "--data", "POPE")
    module = said(
        "-c", "import sys; from mug_eval.cli import program; sys.exit(program())", "run", "--model", "mug-qwne", "--data", "POPE"
    )
    assert (script.returncode, script.stdout, script.stderr) == (module.returncode, module.stdout, module.stderr)
    assert script.returncode == 2
    assert "did you mean qwen" in script.stderr
    assert "Traceback" not in script.stderr


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "run_eval.py", "--list"]
    with os.fdopen(theirs, "wb") as pipe:
        done = subprocess.run(command, cwd=ROOT, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_said_in_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", "import sys; from mug_eval.cli import program; sys.exit(program())", "--version"]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr.splitlines() == ["mug-eval: stopped: the disk is full: make room and give the same command again"]


def test_a_game_in_any_script_prints_on_an_ascii_terminal(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "mug-qwen", "POPE", record("犬"))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from mug_eval.cli import program; sys.exit(program())",
            "show",
            str(folder),
            "--index",
            "犬",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\\u72ac" in done.stdout


def record(index: str, key: str = "k") -> dict[str, Any]:
    call = {"call": "solver#0", "key": key, "text": "Yes", "finish_reason": "stop", "prompt_tokens": 3, "completion_tokens": 1}
    return {
        "index": index,
        "prediction": "Yes",
        "answer": {"value": "Yes"},
        "raw": "Yes",
        "ended": "answered",
        "facts": {},
        "events": [{"event": "answer", "seat": "solver", "text": "Yes", "answer": "Yes"}],
        "calls": [{**call, "images": 1, "seconds": 0.5}],
        "usage": {"calls": 1},
    }


def run_folder(work_dir: Path, model: str, benchmark: str, *records: dict[str, Any]) -> Path:
    folder = work_dir / model / benchmark
    folder.mkdir(parents=True)
    (folder / "games.jsonl").write_text("".join(json.dumps(game) + "\n" for game in records))
    return folder


def test_a_run_is_found_by_its_folder_or_above_it(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "mug-qwen", "POPE", record("1"))
    assert find_run(folder) == find_run(folder.parent) == find_run(tmp_path) == folder


def test_of_several_runs_one_must_be_named(tmp_path: Path) -> None:
    for benchmark in ("POPE", "MMStar"):
        run_folder(tmp_path, "mug-qwen", benchmark, record("1"))
    with pytest.raises(UserError, match=r"2 runs.*mug-qwen/MMStar, .*mug-qwen/POPE"):
        find_run(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no run there"):
        find_run(tmp_path / "empty")


def test_an_unknown_index_is_answered_with_the_nearest(tmp_path: Path) -> None:
    games = run_folder(tmp_path, "mug-qwen", "POPE", record("VS_photo_1_1"), record("VS_photo_2_1")) / "games.jsonl"
    assert find_game(games, "VS_photo_2_1")["index"] == "VS_photo_2_1"
    with pytest.raises(UserError, match=r"VS_photo_2_2.*nearest: VS_photo_2_1.*2 games"):
        find_game(games, "VS_photo_2_2")
    with pytest.raises(UserError, match=r"the first ones: VS_photo_1_1, VS_photo_2_1"):
        find_game(games, "77")


def test_a_torn_last_line_is_a_game_that_is_not_finished(tmp_path: Path) -> None:
    games = run_folder(tmp_path, "mug-qwen", "POPE", record("1")) / "games.jsonl"
    with games.open("a") as file:
        file.write(json.dumps(record("2"))[:-20])
    assert find_game(games, "1")["index"] == "1"
    with pytest.raises(UserError, match="no game with index '2'"):
        find_game(games, "2")
    games.write_text('{"index": "1"\n' + json.dumps(record("2")) + "\n")
    with pytest.raises(UserError, match="line 1 is not a game"):
        find_game(games, "2")
    games.write_text("")
    with pytest.raises(UserError, match="no finished game yet"):
        find_game(games, "2")


async def recorded(journal: Path) -> str:
    """Put one call into a journal; its key."""
    picture = ImageRef("ab" * 32, "image/jpeg", 448, 336, b"")
    call = describe_call("m", (Message("user", (picture, "Is there a dog?", "\n\nSecret rules.")),), Sampling(seed=1), None)
    with Journal(journal) as calls:
        await calls.put(call, Reply("Yes", Usage(3, 1, 1)))
    return call.key


def test_show_prints_a_game_and_with_prompts_every_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = asyncio.run(recorded(tmp_path / "journal.sqlite"))
    folder = run_folder(tmp_path, "direct-qwen", "POPE", record("7", key))
    assert main(["show", str(folder), "--index", "7"]) == 0
    short = capsys.readouterr().out
    assert "direct-qwen on POPE, question 7" in short
    assert "[picture 448x336" in short
    assert "Is there a dog?" in short
    assert "Secret rules." not in short
    assert main(["show", str(tmp_path), "--index", "7", "--prompts"]) == 0
    assert "Secret rules." in capsys.readouterr().out


def test_show_works_without_a_journal_but_cannot_show_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path, "direct-qwen", "POPE", record("7"))
    assert main(["show", str(folder), "--index", "7"]) == 0
    assert "solver [answer Yes]" in capsys.readouterr().out
    assert "journal.sqlite" in fails(capsys, "show", str(folder), "--index", "7", "--prompts")


def test_show_works_with_a_journal_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "journal.sqlite"
    key = asyncio.run(recorded(journal))
    folder = run_folder(tmp_path, "direct-qwen", "POPE", record("7", key))
    junk = b"no journal at all, but long enough to be taken for one " * 50
    for content in (journal.read_bytes()[:5000] + junk, junk, b""):
        journal.write_bytes(content)
        assert main(["show", str(folder), "--index", "7"]) == 0
        shown = capsys.readouterr().out
        assert "its text is not available" in shown
        assert "solver [answer Yes]" in shown
        assert "journal" in fails(capsys, "show", str(folder), "--index", "7", "--prompts")
        assert journal.read_bytes() == content


def test_show_reads_a_journal_and_leaves_nothing_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = asyncio.run(recorded(tmp_path / "journal.sqlite"))
    folder = run_folder(tmp_path, "direct-qwen", "POPE", record("7", key))
    before = sorted(tmp_path.rglob("*"))
    tmp_path.chmod(0o555)
    try:
        assert main(["show", str(folder), "--index", "7"]) == 0
    finally:
        tmp_path.chmod(0o755)
    assert "Is there a dog?" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


def nested(depth: int) -> str:
    return json.dumps(record("7")).replace('"facts": {}', '"facts": {"deep": ' + "[" * depth + "]" * depth + "}")


@pytest.mark.parametrize(
    "line",
    [
        json.dumps(record("7") | {"calls": "none"}),
        json.dumps(record("7") | {"usage": [1]}),
        json.dumps(record("7") | {"facts": 5}),
        nested(600),
        nested(200_000),
    ],
)
def test_a_record_that_was_changed_is_one_line(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path, "direct-qwen", "POPE")
    (folder / "games.jsonl").write_text(line + "\n")
    assert "changed from outside" in fails(capsys, "show", str(folder), "--index", "7")


TABLE = str(ROOT / "tests" / "data" / "tiny_pope.tsv")


def test_a_dry_run_leaves_nothing_in_the_work_dir(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["run", "--model", "mug-qwen", "--data", "POPE", "--data-file", f"POPE={TABLE}", "--dry-run"]
    assert main([*argv, "--work-dir", str(tmp_path / "new")]) == 0
    assert "Nothing was asked." in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RunStopped("cannot write x: No space left on device"), 2, "TMPDIR"),
        (KeyboardInterrupt(), 130, "interrupted: nothing was asked"),
    ],
)
def test_a_dry_run_that_breaks_off_promises_nothing(
    error: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(_: object) -> int:
        raise error

    monkeypatch.setattr("mug_eval.evaluation.evaluate", breaks)
    assert main(["run", "--model", "mug-qwen", "--data", "POPE", "--dry-run"]) == code
    line = capsys.readouterr().err
    assert said in line
    assert "is kept" not in line
    assert "same command" not in line


@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_mistake(closed: str, tmp_path: Path) -> None:
    """A run plays to its end, here against a server that is not there."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]  # bound, but never listening: whoever calls is refused
        command = (
            f"{sys.executable} run_eval.py --method direct --backbone openai:m --base-url http://127.0.0.1:{port}/v1 --data POPE "
            f"--data-file POPE={TABLE} --limit 1 --patience 0.1 --work-dir {tmp_path} {closed}"
        )
        done = subprocess.run(["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 3, (done.stdout, done.stderr)
    assert "Traceback" not in done.stdout + done.stderr
    if closed == "2>&-":
        assert done.stdout == ""  # what is meant for stderr does not turn up in stdout
    assert (tmp_path / "journal.sqlite").read_bytes().startswith(b"SQLite format 3\0")  # nobody wrote into it as if it were stderr
    assert [json.loads(path.read_text())[0]["index"] for path in tmp_path.rglob("owed.json")] == ["0"]
