"""Places that are not as a command needs them: a file for a folder, a folder for a file, no right to read, a full disk, another layout.

Each ends in one line that says what is wrong, and nothing that was there is lost.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
from run_folders import write_run

from mug_eval.cli import main
from mug_eval.errors import UserError
from mug_eval.statistics.runs import read_run

RIGHT = {str(i): i % 3 != 0 for i in range(12)}


def write_runs(work_dir: Path) -> Path:
    write_run(work_dir, RIGHT)
    write_run(work_dir, {index: not hit for index, hit in RIGHT.items()}, model="cot-toy")
    return work_dir


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return write_runs(tmp_path / "out")


def one_line(capsys: pytest.CaptureFixture[str], argv: Sequence[str | Path], code: int) -> str:
    capsys.readouterr()
    assert main([*map(str, argv)]) == code
    *before, last = capsys.readouterr().err.splitlines()
    assert not any("Traceback" in line for line in before)
    return last


def compared(out: Path) -> list[str | Path]:
    return ["compare", out / "cot-toy", "--against", out / "direct-toy"]


WRITERS: dict[str, Callable[[Path, Path], list[str | Path]]] = {
    "scenes": lambda out, place: ["scenes", "--out", place, "--questions", "12"],
    "compare": lambda out, place: [*compared(out), "--json", place / "comparison.json"],
    "plan": lambda out, place: ["plan", "--gap", "1", "--json", place / "plan.json"],
    "figures": lambda out, place: ["figures", out, "--format", "svg", "--to", place],
    "view": lambda out, place: ["view", out, "--build", place],
    "run": lambda out, place: ["run", "--model", "direct-reference", "--data", "ScenesMCQ", "--work-dir", place],
    "board": lambda out, place: ["board", "--board", place],
}


@pytest.mark.parametrize("command", WRITERS)
def test_a_file_in_the_place_of_a_folder_is_the_users_mistake_and_stays(
    command: str, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "taken"
    place.write_text("mine")
    assert "taken" in (said := one_line(capsys, WRITERS[command](out, place), 2))
    assert "file" in said and said.startswith("mug-eval: error: ")
    assert place.read_text() == "mine"


def test_a_folder_in_the_place_of_a_file_is_the_users_mistake_and_stays(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "comparison.json" / "mine").mkdir(parents=True)
    assert "is a folder" in one_line(capsys, [*compared(out), "--json", tmp_path / "comparison.json"], 2)
    assert (tmp_path / "comparison.json" / "mine").is_dir() and not list(tmp_path.glob(".*"))


READERS: dict[str, Callable[[Path, Path], list[str | Path]]] = {
    "compare": lambda out, to: compared(out),
    "plan": lambda out, to: ["plan", "--gap", "1", "--runs", out / "cot-toy", "--against", out / "direct-toy"],
    "figures": lambda out, to: ["figures", out, "--format", "svg", "--to", to / "figures"],
    "submit": lambda out, to: ["submit", out / "direct-toy" / "ScenesMCQ", "--to", "mmstar", "--out", to / "x.xlsx", "--rehearsal"],
    "board add": lambda out, to: ["board", "add", out / "direct-toy", "--board", to / "board"],
}


@pytest.mark.parametrize("name", ["x" * 300, "loop/x", "loop"])
@pytest.mark.parametrize("command", ["compare", "plan", "figures", "view", "board"])
def test_a_name_that_nothing_can_have_is_said_in_one_line(
    command: str, name: str, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    place = tmp_path / name
    readers: dict[str, list[str | Path]] = {
        "compare": ["compare", place, "--against", out / "direct-toy"],
        "plan": ["plan", "--gap", "1", "--runs", place, "--against", out / "direct-toy"],
        "figures": ["figures", place, "--format", "svg"],
        "view": ["view", place, "--build", tmp_path / "pages"],
        "board": ["board", "--board", place],
    }
    commands = [readers[command]]
    if name != "loop" or command == "view":  # a file takes the place of a link
        commands.append(WRITERS[command](out, place))
    for argv in commands:
        assert main([*map(str, argv)]) == 2
        *_, line = capsys.readouterr().err.splitlines()
        assert line.startswith("mug-eval: error: ") and name in line, argv
    assert (tmp_path / "loop").is_symlink() and not (tmp_path / "pages").exists()


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_word_that_names_no_file_is_said_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "is a folder; name a file" in one_line(capsys, ["plan", "--gap", "1", "--json", name], 2)
    assert not list((tmp_path / "here").iterdir())


@pytest.mark.parametrize("layout", [0, 2, "x", None])
@pytest.mark.parametrize("file", ["run.json", "scores.json"])
def test_a_run_of_another_layout_is_not_read_as_if_it_were_ours(out: Path, file: str, layout: object) -> None:
    path = out / "direct-toy" / "ScenesMCQ" / file
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": layout}))
    with pytest.raises(UserError, match=f"{file} has layout .* reads 1"):
        read_run(path.parent)
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 1}))
    assert read_run(path.parent).right == RIGHT


@pytest.mark.parametrize("command", READERS)
def test_a_run_without_its_games_is_refused_everywhere(
    command: str, out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if command == "plan":
        pytest.skip("takes right and wrong only, which items.tsv has")
    for model in ("direct-toy", "cot-toy"):
        (out / model / "ScenesMCQ" / "games.jsonl").write_text("")
        run = out / model / "ScenesMCQ" / "run.json"
        more = {"finished": "2026-01-02T03:04:05+00:00", "notes": []}
        whole = {**json.loads(run.read_text()), **more}
        whole["config"] |= {"method_sha256": "a" * 64, "fingerprint": "openai:toy"}
        run.write_text(json.dumps(whole))
    said = one_line(capsys, READERS[command](out, tmp_path), 2)
    assert "has no game for 12 questions" in said or (command == "submit" and "table" in said)
    assert not (tmp_path / "board").exists()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may look into, which ``tmp_path`` is not."""
    folder = Path(tempfile.mkdtemp(prefix="mug-eval-places-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755)
    shutil.rmtree(folder)


AS_NOBODY = """
import contextlib, io, json, os, sys
from mug_eval.cli import main

def give(argv):
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = main(argv)
    except BaseException as error:
        return 99, f"Traceback {error!r}"
    return code, said.getvalue()

before, after = json.loads(sys.argv[1])
for argv in before:  # what they import is imported now: nobody may not read Python's own files
    give(argv)
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
print(json.dumps([give(argv) for argv in after]))
"""
"""Commands given by a user who may read only what others may. (Root may read everything.)"""

CLOSED = ("direct-toy/ScenesMCQ", "direct-toy", "direct-toy/ScenesMCQ/run.json", ".")


def test_what_may_not_be_read_is_said_in_one_line(open_folder: Path) -> None:
    commands = {**READERS, "view": lambda out, to: ["view", out, "--build", to / "pages"]}
    to = open_folder / "to"
    to.mkdir()
    warm = [list(map(str, make(write_runs(open_folder / "warm" / name), open_folder / "warm"))) for name, make in commands.items()]
    cases, given = [], []
    for number, (closed, (name, make)) in enumerate(product(CLOSED, commands.items())):
        out = write_runs(open_folder / str(number))
        (to / str(number)).mkdir()
        (to / str(number)).chmod(0o777)
        cases.append((closed, name))
        given.append(list(map(str, make(out, to / str(number)))))
        (out / closed).chmod(0)
    ended = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, json.dumps([warm, given])], check=True, capture_output=True, text=True, timeout=300
    )
    for (closed, name), (code, said) in zip(cases, json.loads(ended.stdout), strict=True):
        assert "Traceback" not in said and "Permission denied" in said.splitlines()[-1], (closed, name, said)
        others = name == "view" or (name == "figures" and closed != ".")  # what may be read is shown all the same
        assert code == (0 if others else 2), (closed, name, said)
