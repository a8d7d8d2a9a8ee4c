"""``mug-eval view``: what the pages' files hold and, more so, what they do not; no browser needed."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="pages need Jinja2 (the report extra)")

from page_runs import HOSTILE, KEY, PRIVATE, write_runs
from run_folders import write_run

from mug_eval.cli import main
from mug_eval.errors import UserError
from mug_eval.leaderboard.private import private_parts
from mug_eval.report.board_page import render_board
from mug_eval.report.families import find_families
from mug_eval.report.game_page import script
from mug_eval.report.pictures import outline
from mug_eval.report.plain_text import command_line, without_places
from mug_eval.report.serve import serving
from mug_eval.report.site import board_of
from mug_eval.statistics.compare import compare
from mug_eval.statistics.runs import Group


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("pages") / "outputs"
    write_runs(work)
    return work


@pytest.fixture(scope="module")
def site(out: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "site"
    assert main(["view", str(out), "--build", str(folder)]) == 0
    return folder


def payload(path: Path) -> Any:
    """What a data file hands to the viewer."""
    called = re.fullmatch(r"mugEval\.\w+\((.*)\);\n", path.read_text(encoding="ascii"))
    assert called, path
    return json.loads(json.loads(called[1]))


def games(site: Path, slug: str = "mug-toy--ScenesMCQ") -> list[dict[str, Any]]:
    return payload(site / "data" / slug / "0.js")["games"]


class Markup(HTMLParser):
    """Tags, attributes, and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_every_link_and_file_of_a_page_is_there_and_nothing_is_fetched_from_the_network(site: Path) -> None:
    pages = list(site.glob("*.html"))
    assert {page.name for page in pages} >= {
        "index.html",
        "board.html",
        "run-mug-toy--ScenesMCQ.html",
        "games-direct-toy--ScenesMCQ.html",
    }
    for page in pages:
        for tag, attributes in Markup(page.read_text(encoding="utf-8")).tags:
            for name in ("href", "src"):
                link = attributes.get(name) or ""
                if link and not link.startswith(("data:", "#")):
                    assert "//" not in link, (page.name, tag, link)
                    assert (site / re.split(r"[?#]", link)[0]).is_file(), (page.name, link)
    for game in games(site):
        for picture in [*game["pictures"], game["altered"]]:
            name = Path(picture["src"])
            assert hashlib.sha256((site / name).read_bytes()).hexdigest() == name.stem


def test_no_path_key_or_address_of_this_machine_is_on_any_page(site: Path, out: Path) -> None:
    for path in site.rglob("*"):
        if path.suffix in (".html", ".js", ".css"):
            text = path.read_text(encoding="utf-8")
            for secret in (PRIVATE, "secretuser", KEY, "10.0.0.7", str(out), str(out.parent), str(Path.home())):
                assert secret not in text, (path, secret)
    run = (site / "run-mug-toy--ScenesMCQ.html").read_text()
    assert "--data-file ScenesMCQ=ScenesMCQ.tsv" in run  # what is left of the command still says what was done


def test_what_a_model_said_is_data_and_never_markup(site: Path) -> None:
    for path in (site / "data").rglob("*.js"):
        text = path.read_bytes()
        assert b"<" not in text and b">" not in text and text.isascii()
    said = {event["text"] for game in games(site) for event in game["events"] if "text" in event}
    assert {HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[3]} <= said
    # What could not be written or would turn the line around is visible as an escape; other scripts stay as they are.
    assert r"half a pair \ud800 and a line\u2028end \x00 \x1b[31m" in said
    assert "turned \\u202earound\\u202c and Hebrew \u05e9\u05dc\u05d5\u05dd" in said


def test_a_page_with_a_hostile_name_has_no_tags_of_its_making(tmp_path: Path) -> None:
    rows = {"0": {"A": "yes", "B": "no", "answer": "A", "category": HOSTILE[0], "prediction": "A"}}
    for model in ("mug-<script>alert(1)", "direct-x"):
        write_run(tmp_path / "outputs", {"0": True}, model=model.replace("/", "_"), rows=rows)
    assert main(["view", str(tmp_path / "outputs"), "--build", str(tmp_path / "site")]) == 0
    for page in (tmp_path / "site").glob("*.html"):
        scripts = [attributes for tag, attributes in Markup(page.read_text()).tags if tag == "script"]
        assert len(scripts) == {"games": 2, "board": 1}.get(page.stem.split("-")[0], 0), page.name
        assert re.fullmatch(r"[A-Za-z0-9._-]+", page.name)


@pytest.mark.parametrize("value", [{"__proto__": {"polluted": True}}, "</script>", "\u2028\u2029", "a\\\"'`${x}", "\ud800", "é"])
def test_a_data_file_gives_back_exactly_what_was_put_in(value: Any) -> None:
    text = script("f", value)
    assert text.isascii() and "<" not in text and text.count("\n") == 1
    assert json.loads(json.loads(text.removeprefix("f(").removesuffix(");\n"))) == value


def test_a_game_tells_what_happened_and_what_was_right(site: Path) -> None:
    game = games(site)[3]
    assert game["answer"] is None and game["unparsed"] == "the reply names no option" and game["right"] is False
    assert game["gold"] in dict(game["options"]) and game["undercover"] == "Agent 3" and game["found"] is False
    assert game["altered"]["src"] != game["pictures"][0]["src"] and game["altered"]["at"] == 0
    assert [event["heading"] for event in game["events"]][::4] == ["Round 1, observation", "Round 2, statements", "Round 2, vote"]
    listed = payload(site / "data" / "mug-toy--ScenesMCQ" / "list.js")
    assert [row[2] for row in listed["rows"]][:4] == ["rf", "rs", "rf", "wus"]
    assert listed["others"] == [{"label": "direct-toy", "slug": "direct-toy--ScenesMCQ", "right": "100100100100"}]
    assert all(game["altered"] is None for game in games(site, "direct-toy--ScenesMCQ"))


def test_numbers_on_the_run_page_are_those_of_compare(site: Path, out: Path) -> None:
    family = find_families(out).families[0]
    assert [member.label for member in family.members] == ["direct-toy", "mug-toy"]
    direct, mug = (Group((member.run,)) for member in family.members)
    found = compare([mug], [direct])
    pair, score = found.compared[0], found.scored[0].scores["Overall"]
    words = " ".join(" ".join(Markup((site / "run-mug-toy--ScenesMCQ.html").read_text()).words).split())
    change = pair.differences["Overall"]
    for text in (
        f"{score.value:.1f}",
        f"{score.low:.1f} to {score.high:.1f}",
        f"{change.value:+.1f}",
        f"{change.low:+.1f} to {change.high:+.1f}; p {pair.p:.3f}",
        f"{pair.fixed} fixed",
        f"{pair.broken} broken",
    ):
        assert text in words, text
    hunt = found.scored[0].games.detection
    assert hunt is not None and f"Found in {100 * hunt.found.value:.1f} % of 12 games" in words


def test_data_that_has_moved_is_said_and_found_where_the_user_says(out: Path, tmp_path: Path) -> None:
    work = tmp_path / "outputs"
    shutil.copytree(out, work)
    for run in work.glob("*/*/run.json"):
        run.write_text(run.read_text().replace(str(out.parent), "/nowhere"))
    assert main(["view", str(work), "--build", str(tmp_path / "lost")]) == 0
    lost = games(tmp_path / "lost")[0]
    assert lost["pictures"] == [] and "not where it was" in lost["note"] and lost["right"] is True
    table = out.parent / "private-data" / "ScenesMCQ.tsv"
    given = ["view", str(work), "--build", str(tmp_path / "half"), "--data-file", f"ScenesMCQ={table}"]
    assert main(given) == 0
    half = games(tmp_path / "half")[0]
    assert len(half["pictures"]) == 1 and half["altered"] is None and "altered picture is not here" in half["note"]
    changed = tmp_path / "counterfactuals"
    shutil.copytree(table.parent / "counterfactuals", changed)
    with (changed / "manifest.jsonl").open("r+") as manifest:
        lines = manifest.readlines()
        manifest.seek(0)
        manifest.truncate()
        manifest.writelines(lines[1:])
    assert main([*given, "--counterfactuals", str(changed)]) == 0
    assert "has changed since" in games(tmp_path / "half")[0]["note"]


def test_a_run_that_cannot_be_read_is_named_and_hinders_no_other(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "outputs"
    shutil.copytree(out, work)
    (work / "direct-toy" / "ScenesMCQ" / "run.json").unlink()
    games_file = work / "mug-toy" / "ScenesMCQ" / "games.jsonl"
    assert main(["view", str(work), "--build", str(tmp_path / "site")]) == 0
    assert "direct-toy/ScenesMCQ" in capsys.readouterr().err
    index = (tmp_path / "site" / "index.html").read_text()
    assert "is not complete" in index and "run-mug-toy--ScenesMCQ.html" in index
    games_file.write_text(games_file.read_text().replace('"votes": {', '"votes": 7, "was": {', 1))
    assert main(["view", str(work), "--build", str(tmp_path / "site")]) == 0
    assert "changed from outside" in (tmp_path / "site" / "index.html").read_text()


def test_a_folder_with_other_things_is_not_written_over(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.html").write_text("mine")
    assert main(["view", str(out), "--build", str(tmp_path)]) == 2
    assert "something else" in capsys.readouterr().err and [path.name for path in tmp_path.iterdir()] == ["thesis.html"]
    assert main(["view", str(tmp_path), "--build", str(tmp_path / "site")]) == 2
    assert main(["view", str(out), "--build", str(tmp_path / "site"), "--against", "dierct-toy"]) == 2
    assert "direct-toy" in capsys.readouterr().err


def test_a_site_built_again_keeps_nothing_of_the_earlier_one(out: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    assert main(["view", str(out), "--build", str(site)]) == 0
    assert main(["view", str(out / "mug-toy"), "--build", str(site)]) == 0
    assert [path.name for path in (site / "data").iterdir()] == ["ScenesMCQ"]
    assert not list(site.glob("*direct-toy*"))


def test_the_same_runs_give_the_same_bytes(out: Path, site: Path, tmp_path: Path) -> None:
    assert main(["view", str(out), "--build", str(tmp_path / "again")]) == 0
    for path in site.rglob("*"):
        if path.is_file():
            assert (tmp_path / "again" / path.relative_to(site)).read_bytes() == path.read_bytes(), path


@pytest.fixture
def server(site: Path) -> Iterator[int]:
    with serving(site, 0) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running.server_address[1]
        running.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 200),
        ("/run-mug-toy--ScenesMCQ.html", 200),
        ("/../private-data/ScenesMCQ.tsv", 404),
        ("/%2e%2e/%2e%2e/private-data/ScenesMCQ.tsv", 404),
        ("/static/..%2f..%2f..%2fetc/passwd", 404),
        ("/.mug-eval-pages", 404),
        ("/data/", 404),
        ("/leak", 404),
    ],
)
def test_the_server_gives_pages_and_nothing_else(site: Path, server: int, path: str, status: int) -> None:
    if path == "/leak":
        (site / "leak").symlink_to("/etc/hostname")
    connection = http.client.HTTPConnection("127.0.0.1", server, timeout=60)
    connection.request("GET", path)
    assert connection.getresponse().status == status
    (site / "leak").unlink(missing_ok=True)


def test_a_page_asked_for_by_a_foreign_name_is_refused(server: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server, timeout=60)
    connection.request("GET", "/", headers={"Host": "evil.example:80"})
    assert connection.getresponse().status == 403


def test_a_port_in_use_is_said_in_one_line(out: Path, server: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(out), "--port", str(server)]) == 2
    assert f"--port {server}" in capsys.readouterr().err


def row(**changes: Any) -> dict[str, Any]:
    known = dict.fromkeys(("score_name", "low", "high", "n", "calls", "tokens", "seconds", "source", "date", "command", "sample"))
    return {
        "id": "r",
        "method": "mug",
        "backbone": "toy",
        "benchmark": "POPE",
        "score": 80.0,
        "reported": False,
        **known,
        **changes,
    }


def test_the_board_greys_reported_rows_and_follows_only_links_to_the_web() -> None:
    rows = [
        row(low=75.0, high=84.0, calls=11.0),
        row(reported=True, source="https://example.org/paper", score=None, note="from a summary"),
        row(method=HOSTILE[1], source="javascript:alert(1)", sample="javascript:alert(2)", command=HOSTILE[0]),
    ]
    markup = Markup(render_board({"schema": 1, "rows": rows}))
    assert "from a summary" in markup.words, "what a reader must know of a row stands beside it"
    links = [attributes["href"] for tag, attributes in markup.tags if tag == "a"]
    assert "https://example.org/paper" in links and not any("javascript" in str(link) for link in links)
    assert [attributes.get("class") for tag, attributes in markup.tags if tag == "tr"][1:] == [None, "reported", None]
    assert [tag for tag, _ in markup.tags].count("script") == 1 and "img" not in [tag for tag, _ in markup.tags]
    reach = [attributes for tag, attributes in markup.tags if tag == "line" and attributes["class"] == "reach"]
    assert len(reach) == 1 and (reach[0]["x1"], reach[0]["x2"]) == ("75.00", "84.00")


def test_what_sets_a_run_apart_from_the_plain_method_stands_beside_its_name_on_the_board(tmp_path: Path) -> None:
    right = {str(number): number % 3 > 0 for number in range(12)}
    for name in ("mug-toy", "mug-toy@agents-4", "mug-toy@identical", "mug-toy@no-undercover@agents-5"):
        write_run(tmp_path, right, model=name, method="mug")
    methods = {row["method"] for row in board_of(find_families(tmp_path))["rows"]}
    assert methods == {"mug", "mug@agents-4", "mug@identical", "mug@no-undercover@agents-5"}


def test_runs_on_other_questions_have_a_column_of_their_own_on_the_board(tmp_path: Path) -> None:
    right = {str(number): number % 3 > 0 for number in range(12)}
    write_run(tmp_path / "whole", right)
    write_run(tmp_path / "part", dict(list(right.items())[:6]), limit=6)
    write_run(tmp_path / "small", right, model="cot-toy", config={"image_size": [224, 224]})
    rows = board_of(find_families(tmp_path))["rows"]
    assert sorted((row["benchmark"], row["n"]) for row in rows) == [
        ("ScenesMCQ", 12),
        ("ScenesMCQ", 12),
        ("ScenesMCQ, first 6", 6),
    ]
    assert {row["method"]: row["note"] for row in rows if row["n"] == 12} == {"direct": None, "cot": "pictures at 224x224"}
    write_run(tmp_path / "other", right, model="cot-toy", config={"dataset_sha256": "e" * 64})
    names = {row["benchmark"] for row in board_of(find_families(tmp_path))["rows"]}
    assert names == {"ScenesMCQ@dddddddd", "ScenesMCQ@dddddddd, first 6", "ScenesMCQ@eeeeeeee"}


@pytest.mark.parametrize(
    "board", [{"schema": 2, "rows": []}, {"schema": 1}, {"schema": 1, "rows": [3]}, {"schema": 1, "rows": [row(score="9")]}]
)
def test_a_board_of_another_shape_is_refused(board: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="board"):
        render_board(board)


def test_the_outline_is_where_the_pictures_differ() -> None:
    before = np.full((100, 200, 3), 120, np.uint8)
    after = before.copy()
    after[20:40, 50:90] = (250, 30, 30)
    after[80, 180] = 140  # a coder's speck
    boxes = outline(before, after)
    assert boxes is not None and len(boxes) == 1
    left, top, width, height = boxes[0]
    assert 0.2 <= left <= 0.25 and 0.1 <= top <= 0.2 and 0.45 <= left + width <= 0.5 and 0.4 <= top + height <= 0.5
    assert outline(before, before) == []
    assert outline(before, before * 0) is None and outline(before, after[:50]) is None


KEYS = (
    *("sk-abcdefgh12345678", "pk_live_abcdefgh1234", "hf_abcdefgh12345678", "ghp_abcdefgh12345678", "gho_abcdefgh12345678"),
    *("github_pat_11ABCDEFG0abcdefgh", "glpat-abcdefghijklmnop1234", "gsk_abcdefghijklmnopqrst", "xai-abcdefghijklmnopqrst"),
    *("nvapi-abcdefghijklmnopqrst", "r8_abcdefghijklmnopqrst", "xoxb-123456789012-abcdef", "AKIAABCDEFGHIJKLMNOP"),
    *("AIzaSyA-abcdefghijklmnopqrstu", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc_def", "Bearer abc", "api_key=0123456789abcdef"),
    *("access-token=0123456789", "password:hunter2hunter2", "SECRET='abcdefgh"),
)
"""One of every shape; the last ones are keys by what they are called."""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/me/outputs/mug/POPE is not complete", "POPE is not complete"),
        ("C:\\Users\\me\\x.tsv was read", "x.tsv was read"),
        ("~/data/a.tsv and ../b/c.tsv", "a.tsv and c.tsv"),
        ("at http://10.0.0.7:80/v1 now", "at (address) now"),
        (f"key {KEY}", "key (key)"),
        ("12 of 30 rows, 5.2 tokens/second", "12 of 30 rows, 5.2 tokens/second"),
        ("Qwen/Qwen2.5-VL-7B", "Qwen/Qwen2.5-VL-7B"),
        (
            "/home/me/out/mug-toy/POPE is not complete; a run is <work-dir>/<model>/<benchmark>",
            "POPE is not complete; a run is <work-dir>/<model>/<benchmark>",
        ),
        ("<work-dir>/<model> for all, in /home/me/x/y", "<work-dir>/<model> for all, in y"),
        ("kept in <work-dir>/counterfactuals, see ../me/b/c", "kept in <work-dir>/counterfactuals, see c"),
        ("<model>/home/me/secret", "<model>secret"),
        ("<work-dir>/home/me/secret", "<work-dir>secret"),
    ],
)
def test_our_own_words_lose_where_things_lie_and_keep_the_rest(text: str, left: str) -> None:
    assert without_places(text) == left


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_any_provider_is_on_no_page_and_on_no_board(key: str) -> None:
    assert without_places(f"tried with {key} twice") == "tried with (key) twice"
    assert "(key)" in command_line(["mug-eval", "run", "--set", key]) and key not in command_line(["mug-eval", "run", "--set", key])
    assert "a key" in [what for _, what in private_parts({"notes": [f"tried with {key}"]})]


@pytest.mark.parametrize("text", ["sk-learn", "hf-internal-testing", "skateboarding_in_a_park", "a key: none", "max_tokens=2048"])
def test_a_common_word_is_no_key(text: str) -> None:
    assert without_places(text) == text and not list(private_parts(text))


def test_a_command_keeps_its_options_and_loses_its_places() -> None:
    words = ["/opt/x/mug_eval/__main__.py", "run", "--base-url", "http://h/v1", "--work-dir=/tmp/me", "--set", "mug.agents=4"]
    assert command_line(words) == "mug-eval run --base-url URL --work-dir=me --set mug.agents=4"
