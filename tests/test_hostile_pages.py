"""What must hold when result folders, rows of the board, links and browsers are hostile, or two commands write at once."""

from __future__ import annotations

import csv
import fcntl
import json
import re
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from run_folders import game, write_run
from test_leaderboard import entry_of, finished_run, sealed

from mug_eval.atomic import atomic_file, atomic_write
from mug_eval.cli import main
from mug_eval.errors import UserError
from mug_eval.leaderboard.board import make_board, write_board
from mug_eval.leaderboard.entry import _settings_hash, check_entry
from mug_eval.leaderboard.private import private_parts
from mug_eval.report.serve import serving
from mug_eval.report.site import MARK, build_site
from mug_eval.statistics.games import game_statistics
from mug_eval.statistics.runs import Group, read_run
from mug_eval.studies.edit_tables import _edits

RIGHT = {str(number): number % 2 == 0 for number in range(6)}


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "index.html").write_text("x" * 10_000_000)
    (tmp_path / "loop").symlink_to("loop")
    with serving(tmp_path, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def first_line(port: int, path: str) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as talk:
        talk.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        return talk.makefile("rb").readline()


@pytest.mark.parametrize("path", ["/%00", "/%ed%a0%80", "/loop", "/" + "a" * 5000])
def test_a_path_that_no_file_can_have_is_not_found(port: int, path: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert b" 404 " in first_line(port, path)
    assert "Traceback" not in capfd.readouterr().err


def test_a_browser_that_goes_away_leaves_the_terminal_quiet(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    talk = socket.create_connection(("127.0.0.1", port), timeout=60)
    talk.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    talk.recv(100)
    talk.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed with a reset
    talk.close()
    assert b" 200 " in first_line(port, "/")
    for thread in threading.enumerate():
        if "process_request" in thread.name:
            thread.join(60)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["../../evil", "/etc/evil", "a\\b", "..", "", "half \ud800", "turned\u202e", 7])
@pytest.mark.parametrize("field", ["model", "benchmark"])
def test_a_run_whose_name_leads_out_of_its_folder_is_not_read(tmp_path: Path, field: str, name: Any) -> None:
    folder = write_run(tmp_path, RIGHT)
    said = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**said, field: name}))
    with pytest.raises(UserError, match="the name of no folder"):
        read_run(folder)


def test_a_figure_is_never_written_beside_its_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "out", RIGHT, model="direct-toy")
    said = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**said, "benchmark": "../../outside"}))
    assert main(["figures", str(tmp_path / "out"), "--to", str(tmp_path / "a" / "b"), "--format", "svg"]) == 2
    assert not list(tmp_path.rglob("outside*"))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[]",
        "7",
        '{"cost": {}, "headline": "", "config": {"seed": 0, "sampling": "x"}, "versions": {}}',
        '{"config": 3}',
        '{"config": {"seed": 0}}',
    ],
)
@pytest.mark.parametrize("name", ["run.json", "scores.json"])
def test_a_file_of_a_run_that_is_something_else_is_said_in_one_line(tmp_path: Path, name: str, text: str) -> None:
    folder = write_run(tmp_path, RIGHT)
    (folder / name).write_text(text)
    with pytest.raises(UserError, match=r"damaged|no layout number"):
        read_run(folder)


@pytest.mark.parametrize("layout", [None, 2, "1", True])
@pytest.mark.parametrize("name", ["run.json", "scores.json"])
def test_a_run_of_another_layout_is_not_read_as_if_it_were_of_this(tmp_path: Path, name: str, layout: Any) -> None:
    folder = write_run(tmp_path, RIGHT)
    whole = json.loads((folder / name).read_text())
    del whole["schema"]
    (folder / name).write_text(json.dumps(whole if layout is None else {**whole, "schema": layout}))
    with pytest.raises(UserError, match=f"{name} has {'no layout number' if layout is None else 'layout '}"):
        read_run(folder)


WRONG_FIELDS = [
    ("run.json", "limit", "4"),
    ("run.json", "limit", None),  # stands for a field that lacks
    ("run.json", "versions.ms-vlmeval", float("nan")),
    ("run.json", "cost", "../x"),
    ("run.json", "cost", {"mean": {}, "total": "<script>"}),
    ("run.json", "notes", [{}]),
    ("run.json", "finished", 5),
    ("run.json", "config.method", []),
    ("run.json", "config.preset", None),
    ("run.json", "config.seed", True),
    ("run.json", "config.image_size", [448]),
    ("run.json", "config.sampling.top_p", float("inf")),
    ("run.json", "config.config.agents", json.loads("[" * 200 + "]" * 200)),
    ("scores.json", "missing", [None]),
    ("scores.json", "missing", -1),
    ("scores.json", "judge", None),
    ("scores.json", "headline.Overall", "<script>"),
    ("scores.json", "cost.images", "1"),
    ("scores.json", "cost.seconds", None),
    ("scores.json", "cost.calls", 10**400),
    ("scores.json", "categories", {"shape": {"Overall": "x"}}),
    ("scores.json", "game", {"ended": {"answered": "many"}}),
]


@pytest.mark.parametrize(("name", "field", "value"), WRONG_FIELDS)
def test_a_field_that_no_run_writes_is_named_by_every_reader_and_hinders_no_other_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, field: str, value: Any
) -> None:
    out = tmp_path / "out"
    bad, good = write_run(out, RIGHT), write_run(out, RIGHT, model="cot-toy")
    write_run(out, RIGHT, model="sc3-toy", method="sc")
    whole = inner = json.loads((bad / name).read_text())
    *path, last = field.split(".")
    for step in path:
        inner = inner[step]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    (bad / name).write_text(json.dumps(whole))
    for argv in (["compare", bad, "--against", good], ["plan", "--gap", "1", "--runs", bad, "--against", good]):
        assert main([*map(str, argv)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{bad / name}: {field.split('.')[0]}" in line and line.endswith("give its command again")
    for argv in (["view", out, "--build", tmp_path / "site"], ["figures", out, "--to", tmp_path / "figures", "--format", "svg"]):
        assert main([*map(str, argv)]) == 0
        (line,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("left out"))
        assert "direct-toy" in line and name in line
    assert "cot-toy" in (tmp_path / "site" / "index.html").read_text() and list((tmp_path / "figures").glob("*.svg"))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("items.tsv", '"0"\t"0"', '"0"\t["0"]'),
        ("items.tsv", '"1"\t', "1\t"),
        ("predictions.tsv", '\t"shape"', ""),
        ("predictions.tsv", '"shape"', '"shape"\t"more"'),
        ("predictions.tsv", '"prediction"', '"said"'),
    ],
)
def test_a_table_of_another_shape_is_said_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str
) -> None:
    rows = {index: {"answer": "Yes", "category": "shape", "prediction": "Yes" if hit else "No"} for index, hit in RIGHT.items()}
    headline = {"acc": 50.0, "F1": 200 / 3, "precision": 100.0, "recall": 50.0}
    bad = write_run(tmp_path, RIGHT, benchmark="ScenesPOPE", rows=rows, headline=headline)
    good = write_run(tmp_path, RIGHT, benchmark="ScenesPOPE", rows=rows, headline=headline, model="cot-toy")
    assert main(["compare", str(bad), "--against", str(good)]) == 0
    table = (bad / name).read_text()
    assert old in table
    (bad / name).write_text(table.replace(old, new, 1))
    capsys.readouterr()
    assert main(["compare", str(bad), "--against", str(good)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(bad) in line and name in line and "damaged" in line


@pytest.mark.parametrize(
    "facts",
    [
        {"detection_rounds": 10**9},
        {"detection_rounds": float("inf")},
        {"found_round": "1"},
        {"found_round": 2},
        {"normals_lost": 10**400},
        {"normals_lost": -1},
    ],
)
def test_facts_that_no_game_has_are_said_in_one_line(tmp_path: Path, facts: dict[str, Any]) -> None:
    played = {"undercover_played": True, "undercover_found": True, "found_round": 1, "detection_rounds": 1, "normals_lost": 0}
    seats = {"event": "seats", "order": ["Agent 1", "Agent 2", "Agent 3"], "undercover": "Agent 2"}
    games = [game(index, facts={**played, **(facts if index == "3" else {})}, events=[seats]) for index in RIGHT]
    folder = write_run(tmp_path, RIGHT, games=games, config={"config": {"detection_rounds": 10**9}})
    with pytest.raises(UserError, match=r"games\.jsonl: the game '3' has not the shape of a game"):
        game_statistics(Group((read_run(folder),)))


@pytest.mark.parametrize("events", [[7], 7, [{"event": "seats", "edit": "x"}], [{}]])
def test_a_game_whose_edit_cannot_be_read_is_said_in_one_line(tmp_path: Path, events: Any) -> None:
    folder = write_run(tmp_path, RIGHT, games=[game(index, **({"events": events} if index == "3" else {})) for index in RIGHT])
    with pytest.raises(UserError, match=r"games\.jsonl: the game '3' has not the shape of a game"):
        _edits(Group((read_run(folder),)))


def test_a_table_that_was_changed_is_not_compared_with_others_on_its_questions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = write_run(tmp_path, RIGHT), write_run(tmp_path, RIGHT, model="cot-toy")
    (one / "predictions.tsv").write_text((one / "predictions.tsv").read_text().replace('"shape"', '"colour"', 1))
    assert main(["compare", str(one), "--against", str(other)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "'category' of question '0' differs" in line and "predictions.tsv of one of them was changed" in line


@pytest.mark.parametrize(
    "changes",
    [
        {"usage": {"prompt_tokens": {}, "completion_tokens": 1}},
        {"usage": {"prompt_tokens": "many", "completion_tokens": 1}},
        {"answer": 7},
    ],
)
def test_a_game_of_another_shape_takes_no_other_run_its_pages(tmp_path: Path, changes: dict[str, Any]) -> None:
    games = [game(index, **(changes if index == "3" else {})) for index in RIGHT]
    write_run(tmp_path / "out", RIGHT, model="direct-toy", games=games)
    write_run(tmp_path / "out", RIGHT, model="sc3-toy", method="sc")
    write_run(tmp_path / "out", RIGHT, model="cot-toy", method="cot")
    site = build_site(tmp_path / "out", tmp_path / "site")
    assert [name.replace("/", "--") for name, _ in site.left_out] == ["direct-toy--ScenesMCQ"] and site.games == 2 * len(RIGHT)
    assert "differences are from <bdi>cot-toy</bdi>" in (tmp_path / "site" / "index.html").read_text(), "nor the others' comparison"


@pytest.mark.parametrize("damaged", ["direct", "sc3"])
def test_nothing_leads_to_a_run_that_was_left_out_for_one_of_its_games(tmp_path: Path, damaged: str) -> None:
    # Statistics can read these games, pages cannot: the run is dropped when its family stands already.
    for method, name in (("direct", "direct"), ("sc", "sc3"), ("cot", "cot")):
        games = [
            game(index, **({"usage": {"prompt_tokens": {}, "completion_tokens": 1}} if name == damaged and index == "3" else {}))
            for index in RIGHT
        ]
        write_run(tmp_path / "out", RIGHT, model=f"{name}-toy", method=method, games=games)
    site = build_site(tmp_path / "out", tmp_path / "site")
    assert [name for name, _ in site.left_out] == [f"{damaged}-toy--ScenesMCQ"]
    assert (site.runs, site.games) == (2, 2 * len(RIGHT))
    pages = {path.name: path.read_text() for path in (tmp_path / "site").glob("*.html")}
    assert len(pages) == 2 * 2 + 2
    for name, text in pages.items():
        linked = {link.partition("#")[0].partition("?")[0] for link in re.findall(r'(?:href|src)="([^"]+)"', text)}
        for link in linked:
            assert not link.endswith(".html") or link in pages, (name, link)
        assert f"{damaged}-toy--ScenesMCQ" not in text or (name == "index.html" and text.count(f"{damaged}-toy--ScenesMCQ") == 1)
    assert not (tmp_path / "site" / "data" / f"{damaged}-toy--ScenesMCQ").exists()
    base = "direct-toy" if damaged != "direct" else "cot-toy"
    assert f"differences are from <bdi>{base}</bdi>" in pages["index.html"], "held against a run that has pages"


def test_a_number_that_is_none_is_shown_and_does_not_break_the_page(tmp_path: Path) -> None:
    events = [{"event": "answer", "seat": "Agent 1", "text": "so", "answer": "A", "sure": float("nan")}]
    write_run(tmp_path / "out", RIGHT, games=[game(index, events=events, prediction=float("inf")) for index in RIGHT])
    assert build_site(tmp_path / "out", tmp_path / "site").games == len(RIGHT)
    assert "inf" in (tmp_path / "site" / "data" / "direct-toy--ScenesMCQ" / "0.js").read_text()


def test_pages_are_not_written_through_a_link(tmp_path: Path) -> None:
    write_run(tmp_path / "out", RIGHT)
    build_site(tmp_path / "out", tmp_path / "site")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "keep.txt").write_text("mine")
    for name in ("static", "data"):
        (tmp_path / "site" / name).rename(tmp_path / f"old-{name}")
        (tmp_path / "site" / name).symlink_to(theirs)
    (tmp_path / "site" / "board.html").unlink()
    (tmp_path / "site" / "board.html").symlink_to(theirs / "keep.txt")
    build_site(tmp_path / "out", tmp_path / "site")
    assert [path.name for path in theirs.iterdir()] == ["keep.txt"] and (theirs / "keep.txt").read_text() == "mine"
    assert (tmp_path / "site" / "static" / "game.js").is_file() and not (tmp_path / "site" / "static").is_symlink()


def test_runs_that_lie_in_the_folder_of_pages_are_not_cleared_away(tmp_path: Path) -> None:
    site = tmp_path / "site"
    write_run(tmp_path / "out", RIGHT)
    build_site(tmp_path / "out", site)
    folder = write_run(site / "data", RIGHT)
    with pytest.raises(UserError, match="holds the runs"):
        build_site(site / "data", site)
    assert read_run(folder).right == RIGHT


def test_two_builds_of_one_folder_do_not_clear_each_other_away(tmp_path: Path) -> None:
    write_run(tmp_path / "out", RIGHT)
    build_site(tmp_path / "out", tmp_path / "site")
    before = {path: path.read_bytes() for path in (tmp_path / "site").rglob("*") if path.is_file()}
    with (tmp_path / "site" / MARK).open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another mug-eval view is writing"):
            build_site(tmp_path / "out", tmp_path / "site")
    assert before == {path: path.read_bytes() for path in (tmp_path / "site").rglob("*") if path.is_file()}
    build_site(tmp_path / "out", tmp_path / "site")


def files_of(site: Path) -> dict[str, bytes]:
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}


def test_a_build_that_is_killed_leaves_the_earlier_site_whole(tmp_path: Path) -> None:
    out, site = tmp_path / "out", tmp_path / "site"
    write_run(out, RIGHT)
    build_site(out, site)
    (site / "CNAME").write_text("theirs")
    before = files_of(site)
    for name in ("cot", "sc3"):
        write_run(out, RIGHT, model=f"{name}-toy")
    argv = [sys.executable, "-m", "mug_eval", "view", str(out), "--build", str(site)]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as build:
        assert build.stderr is not None and b" games" in build.stderr.readline()  # the first run's pages are being written
        build.kill()
    assert build.returncode < 0 and {name: files_of(site).get(name) for name in before} == before
    assert {name.partition("/")[0] for name in files_of(site).keys() - before.keys()} <= {".mug-eval-fresh"}
    build_site(out, site)
    build_site(out, tmp_path / "anew")
    assert files_of(site) == {**files_of(tmp_path / "anew"), "CNAME": b"theirs"}


def test_a_build_that_cannot_take_the_place_of_the_earlier_site_leaves_it_whole(tmp_path: Path) -> None:
    out, site = tmp_path / "out", tmp_path / "site"
    write_run(out, RIGHT)
    build_site(out, site)
    write_run(out, RIGHT, model="cot-toy")
    before = files_of(site)
    in_the_way = site / "run-cot-toy--ScenesMCQ.html"
    in_the_way.mkdir()
    (in_the_way / "theirs").write_text("theirs")
    with pytest.raises(UserError, match="is a folder, which no page of ours is"):
        build_site(out, site)
    assert files_of(site) == {**before, f"{in_the_way.name}/theirs": b"theirs"}
    assert [path.name for path in site.iterdir() if path.name.startswith(".")] == [MARK]


def test_two_writers_of_one_file_wait_for_each_other(tmp_path: Path) -> None:
    place = tmp_path / "board.json"
    code = (
        "import sys; from pathlib import Path; from mug_eval.atomic import atomic_write; atomic_write(Path(sys.argv[1]), 'second')"
    )
    with atomic_file(place) as file:
        file.write(b"first, ")
        file.flush()
        other = subprocess.Popen([sys.executable, "-c", code, str(place)], stderr=subprocess.PIPE)
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(1.5)
        file.write(b"whole")
    assert other.communicate(timeout=300)[1] == b"" and other.returncode == 0
    assert place.read_text() == "second" and [path.name for path in tmp_path.iterdir()] == ["board.json"]


def test_what_a_kill_left_half_written_is_not_in_the_next_file(tmp_path: Path) -> None:
    (tmp_path / ".board.json.part").write_text("half of something longer than what comes")
    atomic_write(tmp_path / "board.json", "whole")
    assert (tmp_path / "board.json").read_text() == "whole" and [path.name for path in tmp_path.iterdir()] == ["board.json"]


def on_board(tmp_path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    entry = entry_of(finished_run(tmp_path / "out"))
    change(entry)
    settings = _settings_hash(entry)
    entry = sealed({**entry, "config_sha256": settings, "id": f"{entry['model']}_{entry['benchmark']['name']}_{settings[:8]}"})
    (tmp_path / "board" / "entries").mkdir(parents=True)
    (tmp_path / "board" / "entries" / f"{entry['id']}.json").write_text(json.dumps(entry))
    return tmp_path / "board"


@pytest.mark.parametrize("text", ["half \ud800", "turned \u202e", "two\u2028lines", "bell\x07"])
def test_a_row_with_what_does_not_show_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"backbone\.identity\.model has characters that do not show"):
        make_board(on_board(tmp_path, lambda entry: entry["backbone"]["identity"].update(model=text)))


def test_a_number_that_no_float_holds_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cost\.calls must be a number"):
        make_board(on_board(tmp_path, lambda entry: entry["cost"].update(calls=10**400)))


def test_a_settings_text_cannot_write_lines_of_the_board(tmp_path: Path) -> None:
    entry = entry_of(finished_run(tmp_path))
    entry["method"] |= {"name": "sc", "config": {"k": "5\n\n# Injected"}}
    entry = sealed(entry)
    with pytest.raises(UserError, match=r"method\.config\.k must be a whole number"):
        check_entry(entry, Path(f"{entry['id']}.json"))


def test_no_cell_of_the_board_is_a_formula(tmp_path: Path) -> None:
    board = on_board(tmp_path, lambda entry: entry["backbone"]["identity"].update(model="=HYPERLINK(1)"))
    write_board(board)
    with (board / "leaderboard.csv").open() as file:
        assert [row["backbone"] for row in csv.DictReader(file)] == ["'=HYPERLINK(1)"]


def test_a_reported_score_and_source_stay_in_their_cells(tmp_path: Path) -> None:
    source = {"title": "t", "url": "https://example.org/a)[b](x", "date": "2025-01", "read_from": "tables", "note": "n"}
    row = {"method": "mug", "backbone": "b", "benchmark": "POPE", "closed": False, "scores": {"F1 | x": 50}}
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "a.json").write_text(json.dumps({"schema": 1, "source": source, "rows": [row]}))
    write_board(tmp_path)
    text = (tmp_path / "leaderboard.md").read_text()
    assert r"F1 \| x" in text and "(https://example.org/a%29[b]%28x)" in text


@pytest.mark.parametrize(
    "text",
    [
        *(
            "gsk_abcdefghijklmnopqrstuv",
            "xai-abcdefghijklmnopqrstuv",
            "github_pat_11ABCDEFG0abcdefgh",
            "glpat-abcdefghijklmnop1234",
        ),
        *("--set x.api_key=0123456789abcdef", "PASSWORD: hunter2hunter2", "--out=/data", "$HOME/foo", "${HOME}/foo"),
        *("http://[::1]:8000/v1", "http://169.254.1.1/v1", "http://0.0.0.0:8000", "http://gpu01.internal:8000/v1"),
    ],
)
def test_keys_places_and_networks_of_more_kinds_are_private(text: str) -> None:
    assert list(private_parts(text))


@pytest.mark.parametrize(
    "text", ["max_tokens=2048", "n/a", "3 / 4 of it", "https://a.internal.example.org/x", "sk-learn", "a key: none"]
)
def test_common_words_are_not_private(text: str) -> None:
    assert not list(private_parts(text))
