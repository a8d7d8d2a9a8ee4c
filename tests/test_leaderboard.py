"""Rows of the leaderboard and the board: what a row must say, what is refused, and the same bytes every time."""

from __future__ import annotations

import csv
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_folders import cost, write_run

from mug_eval.benchmarks import load_task
from mug_eval.cli import main
from mug_eval.configuration import config_hash
from mug_eval.errors import UserError
from mug_eval.leaderboard.board import COLUMNS, make_board
from mug_eval.leaderboard.entry import check_entry, make_entry, read_entries, write_entry
from mug_eval.leaderboard.private import private_parts
from mug_eval.leaderboard.reference import read_reference
from mug_eval.plan import model_setting
from mug_eval.statistics.intervals import wilson
from mug_eval.statistics.runs import by_seed, find_runs

BOARD = Path(__file__).resolve().parents[1] / "leaderboards"
SAMPLING = {"temperature": None, "top_p": None, "top_k": None, "max_tokens": 2048, "seed": None}
NOT_PUBLISHED = "20 rows, where the published MMStar has 1500"


def finished_run(work_dir: Path, *, right: int = 12, n: int = 20, notes: tuple[str, ...] = (), **changes: Any) -> Path:
    """A run's folder with all that a row says; ``changes`` are of ``write_run``, with ``config`` merged."""
    config = {"sampling": SAMPLING, "method_sha256": "a" * 64, "fingerprint": "openai:toy@local", **changes.pop("config", {})}
    folder = write_run(work_dir, {str(i): i < right for i in range(n)}, config=config, **changes)
    edit(folder / "scores.json", lambda scores: scores.update(unparsed=2))
    edit(folder / "run.json", lambda run: run.update(finished="2026-01-02T03:04:05+00:00", notes=list(notes)))
    return folder


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def entry_of(*folders: Path) -> dict[str, Any]:
    (group,) = by_seed(find_runs(folders))
    return make_entry(group)


def refused(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> str:
    """The one line that a mistake gets."""
    assert main([*map(str, argv)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def sealed(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with the hash over its content made anew, so that only what was changed can be wrong with it."""
    return {**entry, "sha256": config_hash({name: value for name, value in entry.items() if name != "sha256"})}


def test_a_row_says_what_was_played_what_came_out_and_what_it_cost(tmp_path: Path) -> None:
    entry = entry_of(finished_run(tmp_path, price=cost(11.0, 2000.0, 100.0, 4.0)))
    (score,) = entry["scores"]
    low, high = wilson(0.6, 20)
    assert (score["name"], score["value"], score["interval"]) == ("Overall", 60.0, "wilson")
    assert (score["low"], score["high"]) == (pytest.approx(100 * low, abs=1e-3), pytest.approx(100 * high, abs=1e-3))
    assert (entry["questions"], entry["clusters"], entry["unparsed"], entry["seeds"]) == (20, 20, [2], [0])
    assert entry["cost"] == {
        **{"calls": 11.0, "prompt_tokens": 2000.0, "completion_tokens": 100.0},
        **{"tokens": 2100.0, "images": 11.0, "seconds": 4.0},
    }
    assert entry["benchmark"] == {"name": "ScenesMCQ", "sha256": "d" * 64, "published": False}
    assert (entry["judge"], entry["resolution"], entry["date"]) == ("exact_matching", None, "2026-01-02")
    assert entry["backbone"] == {"identity": {"kind": "openai", "model": "toy"}, "revision": "openai:toy@local"}


def test_runs_that_differ_in_their_seed_are_one_row_and_the_order_does_not_matter(tmp_path: Path) -> None:
    runs = [finished_run(tmp_path / str(seed), right=10 + 2 * seed, seed=seed) for seed in (0, 1, 2)]
    entry = entry_of(*runs)
    assert entry["seeds"] == [0, 1, 2] and entry["unparsed"] == [2, 2, 2]
    (score,) = entry["scores"]
    assert score["value"] == 60.0 and score["each"] == [50.0, 60.0, 70.0] and score["spread"] == 10.0
    assert entry == entry_of(*reversed(runs))
    assert entry["command"].startswith("for seed in 0 1 2; do mug-eval run ") and "--seed $seed" in entry["command"]
    assert entry["id"] != entry_of(runs[0])["id"], "one seed is another row than three"


def test_settings_of_any_kind_are_in_the_command_and_the_command_gives_them_back(tmp_path: Path) -> None:
    sampling = {**SAMPLING, "temperature": 0.2, "max_tokens": 160}
    _, default = model_setting("mug-openai:toy", base_url="http://127.0.0.1:1/v1")
    _, wanted = model_setting(
        "mug-openai:toy", settings=["mug.agents=5", "mug.weights=[1, 0, 2, 1]"], base_url="http://127.0.0.1:1/v1"
    )
    from mug_eval.configuration import as_json

    config = {
        **{"config": as_json(wanted.config), "sampling": sampling, "image_size": [224, 112]},
        "counterfactuals": {"sha256": "c" * 64, "match": "image"},
    }
    line = entry_of(finished_run(tmp_path, model="mug-toy", config=config, seed=7))["command"]
    words = shlex.split(line)
    after = words.index("--set") + 1
    settings = words[after : next(i for i in range(after, len(words)) if words[i].startswith("--"))]
    _, again = model_setting(words[words.index("--model") + 1], settings=settings, base_url="http://127.0.0.1:1/v1")
    assert again.config == wanted.config != default.config
    assert as_json(again.sampling) == sampling and again.image_size == (224, 112)
    for piece in (
        *("--data ScenesMCQ", "--data-file ScenesMCQ=ScenesMCQ.tsv", "--counterfactuals counterfactuals"),
        *("--counterfactual-match image", "--seed 7", "--base-url http://SERVER/v1"),
    ):
        assert piece in line


def test_a_run_that_no_command_of_this_version_plays_again_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no command of this version plays this run again"):
        entry_of(finished_run(tmp_path, model="mug-toy", config={"config": {"agents": 3, "of_another_version": 1}}))


def test_an_arm_of_a_study_is_no_row_and_the_line_says_how_to_make_it_one(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mug-toy@agents-4 is a study's arm.*--model mug-toy with the arm's settings"):
        entry_of(finished_run(tmp_path, model="mug-toy@agents-4"))


def test_what_makes_the_table_stands_before_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, board = finished_run(tmp_path / "out"), tmp_path / "board"
    before = "mug-eval scenes --out . --questions 20 --seed 3"
    assert main(["board", "add", str(run), "--board", str(board), "--before", before]) == 0
    (entry,) = read_entries(board / "entries")
    assert entry["command"] == f"{before} && {entry_of(run)['command']}"
    assert "command holds a path" in refused(capsys, "board", "add", run, "--board", board, "--before", "cp /data/me/x.tsv .")


def test_a_run_whose_files_lack_something_is_named_without_a_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = finished_run(tmp_path)
    for field in ("preset", "sampling", "backbone"):
        before = (run / "run.json").read_text()
        edit(run / "run.json", lambda whole: whole["config"].pop(field))  # noqa: B023 - called at once
        said = refused(capsys, "board", "add", run, "--board", tmp_path / "board")
        assert f"run.json: config.{field} is missing" in said and "damaged" in said
        (run / "run.json").write_text(before)


def test_the_environment_does_not_change_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = finished_run(
        tmp_path,
        model="direct-qwen",
        config={"backbone": {"kind": "hf", "model": "Qwen/Qwen2.5-VL-7B-Instruct", "dtype": "auto"}},
    )
    plain = entry_of(run)
    monkeypatch.setenv("MUG_EVAL_BASE_URL", "http://127.0.0.1:9/v1")
    assert entry_of(run) == plain
    assert "--model direct-qwen " in plain["command"] and "base-url" not in plain["command"]


def test_a_row_is_written_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, board = finished_run(tmp_path / "out"), tmp_path / "board"
    assert main(["board", "add", str(run), "--board", str(board)]) == 0
    (path,) = (board / "entries").iterdir()
    before = path.read_bytes()
    assert main(["board", "add", str(run), "--board", str(board)]) == 0
    assert path.read_bytes() == before
    capsys.readouterr()
    edit(run / "scores.json", lambda scores: scores.update(unparsed=3))
    assert "is there with other content" in refused(capsys, "board", "add", run, "--board", board)
    assert path.read_bytes() == before


def test_a_run_with_questions_owed_is_no_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = finished_run(tmp_path)
    edit(run / "scores.json", lambda scores: scores.update(missing=1))
    assert "1 questions are owed" in refused(capsys, "board", "add", run, "--board", tmp_path / "board")
    edit(run / "scores.json", lambda scores: scores.update(missing=0))
    (run / "owed.json").write_text("[]")
    assert "questions are owed" in refused(capsys, "board", "add", run, "--board", tmp_path / "board")
    (run / "owed.json").unlink()
    (run / "run.json").unlink()
    assert "is not complete" in refused(capsys, "board", "add", run, "--board", tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_one_bad_run_of_several_leaves_the_folder_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = finished_run(tmp_path / "a"), finished_run(tmp_path / "b", seed=1)
    edit(bad / "scores.json", lambda scores: scores.update(missing=4))
    refused(capsys, "board", "add", good, bad, "--board", tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_what_can_be_a_row_is_added_and_what_cannot_is_named_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, board = tmp_path / "out", tmp_path / "board"
    finished_run(out, benchmark="MMStar")
    one = finished_run(out, benchmark="BoolQ", headline={"acc": 60.0}, clusters={str(i): "one" for i in range(20)})
    owed = finished_run(out, benchmark="FEVER", headline={"acc": 60.0})
    edit(owed / "scores.json", lambda scores: scores.update(missing=2))
    cut_off = finished_run(out, benchmark="HoVer", headline={"acc": 60.0})
    (cut_off / "run.json").unlink()
    assert main(["board", "add", str(out / "direct-toy"), "--board", str(board)]) == 3
    said = capsys.readouterr()
    (entry,) = read_entries(board / "entries")
    assert entry["benchmark"]["name"] == "MMStar" and "MMStar" in said.out
    lines = said.err.splitlines()
    assert len(lines) == 3 and all(line.startswith("not added: ") for line in lines)
    for folder, why in ((one, "all questions are of one cluster"), (owed, "2 questions are owed"), (cut_off, "is not complete")):
        assert sum(str(folder) in line and why in line for line in lines) == 1


def test_if_none_can_be_a_row_each_is_named_and_it_is_the_users_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (
        finished_run(tmp_path / "out", model=f"{name}-toy", clusters={str(i): "one" for i in range(20)})
        for name in ("cot", "direct")
    )
    assert main(["board", "add", str(a), str(b), "--board", str(tmp_path / "board")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and str(a) in lines[0] and lines[1].startswith("mug-eval: error: ") and str(b) in lines[1]
    assert not (tmp_path / "board").exists()


def test_a_seed_that_cannot_be_read_leaves_no_row_of_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = finished_run(tmp_path / "a"), finished_run(tmp_path / "b", seed=1)
    other = finished_run(tmp_path / "a", model="cot-toy")
    (bad / "run.json").unlink()
    assert main(["board", "add", *map(str, (good, bad, other)), "--board", str(tmp_path / "board")]) == 3
    (entry,) = read_entries(tmp_path / "board" / "entries")
    assert entry["model"] == "cot-toy"
    assert "another seed of it cannot be read" in capsys.readouterr().err


def test_a_row_of_the_same_name_hinders_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, board = tmp_path / "out", tmp_path / "board"
    first, second = finished_run(out, model="cot-toy"), finished_run(out, model="direct-toy")
    assert main(["board", "add", str(first), "--board", str(board)]) == 0
    edit(first / "scores.json", lambda scores: scores.update(unparsed=3))
    assert main(["board", "add", str(first), str(second), "--board", str(board)]) == 3
    assert len(read_entries(board / "entries")) == 2
    assert "is there with other content" in capsys.readouterr().err


def test_a_limited_run_is_kept_off_the_main_board(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = tmp_path / "board"
    whole, limited = finished_run(tmp_path / "a"), finished_run(tmp_path / "b", limit=20)
    assert main(["board", "add", str(whole), "--board", str(board)]) == 0
    assert main(["board", "add", str(limited), "--board", str(board)]) == 0
    assert "a subset: --limit 20" in capsys.readouterr().out
    made = make_board(board)
    assert len(made["rows"]) == len(made["subsets"]) == 1
    assert "--limit 20" in made["subsets"][0]["command"] and "--limit" not in made["rows"][0]["command"]
    assert main(["board", "--board", str(board)]) == 0
    assert "## Subsets" in (board / "leaderboard.md").read_text()
    for page in ("leaderboard.md", "leaderboard.html"):
        assert "Seconds hold for the machine that a row was played on" in (board / page).read_text()
    with (board / "leaderboard.csv").open() as file:
        assert [row["id"] for row in csv.DictReader(file)] == [made["rows"][0]["id"]]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (
            {"backbone": {"kind": "hf", "model": "/data/models/secret", "dtype": "auto"}},
            "must not be published|plays this run again",
        ),
        ({"fingerprint": "openai:toy@10.1.2.3"}, "backbone.revision holds an address of a private network"),
        ({"fingerprint": "read from /home/me/weights"}, "backbone.revision holds a path of a machine"),
        ({"fingerprint": "sk-abcdefgh12345678"}, "backbone.revision holds a key"),
        ({"fingerprint": "https://me:word@example.org/v1"}, "backbone.revision holds a user name or password"),
    ],
)
def test_paths_keys_and_private_addresses_are_never_written(tmp_path: Path, config: dict[str, Any], field: str) -> None:
    with pytest.raises(UserError, match=field):
        entry_of(finished_run(tmp_path, config=config))


def test_what_is_public_is_not_taken_for_private() -> None:
    public = {
        **{"a": "Qwen/Qwen2.5-VL-7B-Instruct", "b": "https://example.org/a/b/c.html", "c": "1.0/2.0", "d": "samples/a.jsonl"},
        **{"e": "http://SERVER/v1", "f": "mug-eval run --data-file POPE=POPE.tsv", "g": "version 10.2.1"},
    }
    assert not list(private_parts(public))
    private = ["/root/x/y", "see ~/models", "C:\\Users\\me", "../outputs/mug/POPE", "http://127.0.0.1:8000/v1", "hf_abcdefghijk"]
    assert [where for where, _ in private_parts(private)] == [f"[{i}]" for i in range(len(private))]
    assert list(private_parts({"/home/me/x": 1})), "a key of an object is read too"


def spoilt(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def spoil(entry: dict[str, Any]) -> dict[str, Any]:
        change(entry)
        return sealed(entry)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoilt(lambda e: e.update(schema=2)), "schema must be 1"),
        (spoilt(lambda e: e.update(rank=1)), "unknown field 'rank'"),
        (spoilt(lambda e: e.pop("judge")), "judge is missing"),
        (spoilt(lambda e: e.update(questions="20")), "questions must be a whole number"),
        (spoilt(lambda e: e.update(questions=True)), "questions must be a whole number"),
        (spoilt(lambda e: e.update(clusters=21)), "clusters must not be more than questions"),
        (spoilt(lambda e: e["scores"][0].update(value=99.0, each=[99.0])), r"scores\[0\].value must lie in its interval"),
        (spoilt(lambda e: e["scores"][0].update(high=101.0)), r"scores\[0\].high must be a number from 0 to 100"),
        (spoilt(lambda e: e["scores"][0].update(each=[60.0, 60.0])), r"scores\[0\].each must have one number a seed"),
        (spoilt(lambda e: e["scores"].append(dict(e["scores"][0]))), r"scores\[1\].name is Overall a second time"),
        (spoilt(lambda e: e["benchmark"].update(sha256="D" * 64)), "benchmark.sha256 must be a text of the form"),
        (spoilt(lambda e: e.update(date="2026-13-01")), "date must be a text of the form"),
        (spoilt(lambda e: e.update(resolution=[224])), "resolution must be"),
        (spoilt(lambda e: e.update(seeds=[1, 0])), "seeds must be sorted"),
        (spoilt(lambda e: e["cost"].update(calls=-1)), "cost.calls must be a number from 0"),
        (spoilt(lambda e: e.update(samples=["javascript:alert(1)"])), "samples must be a list of links"),
        (spoilt(lambda e: e.update(samples=["../../etc/passwd"])), "samples must be a list of links"),
        (spoilt(lambda e: e["decoding"].update(temperature=0.7)), "config_sha256 is not that of the settings"),
        (spoilt(lambda e: e.update(id="another")), "id must be direct-toy_ScenesMCQ_"),
        (lambda e: {**e, "unparsed": [0]}, "sha256 is not that of the row: it was changed by hand"),
    ],
)
def test_a_row_that_is_none_is_refused_with_its_field(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], dict[str, Any]], said: str
) -> None:
    entry = entry_of(finished_run(tmp_path))
    file = Path(f"{entry['id']}.json")
    check_entry(entry, file)
    with pytest.raises(UserError, match=said) as caught:
        check_entry(spoil(entry), file)
    assert str(caught.value).startswith(f"{file}: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"schema": NaN}', "NaN is no number"),
        ('{"schema": 1, "schema": 1}', "'schema' is there twice"),
        ("[1]", "must be an object"),
        ("{", "not JSON"),
        ('{"a":' * 100_000, "nested too deeply|not JSON"),
    ],
)
def test_a_file_that_is_no_row_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(UserError, match=said) as caught:
        read_entries(tmp_path)
    assert "x.json" in str(caught.value)


def test_the_board_is_the_same_bytes_and_says_when_it_is_out_of_date(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = tmp_path / "board"
    shutil.copytree(BOARD / "reference", board / "reference")
    for name, right in (("a", 12), ("b", 15)):
        run = finished_run(tmp_path / name, right=right, benchmark="MMStar", seed=right)
        assert main(["board", "add", str(run), "--board", str(board), "--sample", "https://example.org/games/"]) == 0
    capsys.readouterr()
    assert "leaderboard.json" in refused(capsys, "board", "--check", "--board", board)
    assert main(["board", "--board", str(board)]) == 0
    files = {path.name: path.read_bytes() for path in board.glob("leaderboard.*")}
    assert {"leaderboard.json", "leaderboard.csv", "leaderboard.md"} <= files.keys()
    assert main(["board", "--check", "--board", str(board)]) == 0
    assert main(["board", "--board", str(board)]) == 0
    assert files == {path.name: path.read_bytes() for path in board.glob("leaderboard.*")}
    capsys.readouterr()
    (board / "leaderboard.csv").write_text("id\n")
    said = refused(capsys, "board", "--check", "--board", board)
    assert "leaderboard.csv out of date" in said and "leaderboard.json" not in said
    (path, _) = sorted((board / "entries").iterdir())
    edit(path, lambda entry: entry.update(unparsed=[0]))
    assert f"{path}: sha256" in refused(capsys, "board", "--check", "--board", board)


def test_rows_of_the_board_are_sorted_measured_and_reported_side_by_side(tmp_path: Path) -> None:
    board = tmp_path / "board"
    shutil.copytree(BOARD / "reference", board / "reference")
    for name, right, model in (("a", 12, "direct-toy"), ("b", 15, "cot-toy"), ("c", 14, "direct-toy")):
        notes = (NOT_PUBLISHED,) if name == "c" else ()
        run = finished_run(tmp_path / name, right=right, model=model, benchmark="MMStar", notes=notes, seed=right)
        write_entry(entry_of(run), board / "entries")
    rows = make_board(board)["rows"]
    assert all(tuple(row) == COLUMNS for row in rows)
    benchmarks = list(dict.fromkeys(row["benchmark"] for row in rows))
    (other,) = (name for name in benchmarks if name.startswith("MMStar@"))
    assert benchmarks[:2] == ["MMStar", other] and benchmarks[2:] == sorted(benchmarks[2:]), "what was measured stands first"
    mmstar = [row for row in rows if row["benchmark"] == "MMStar"]
    assert [row["score"] for row in mmstar] == sorted((row["score"] for row in mmstar), reverse=True)
    measured = [row for row in mmstar if not row["reported"]]
    assert [(row["method"], row["score"], row["n"], row["source"]) for row in measured] == [
        ("cot", 75.0, 20, None),
        ("direct", 60.0, 20, None),
    ]
    reported = [row for row in mmstar if row["reported"]]
    assert ("mug", "Qwen2.5-VL-7B", 63.8) in [(row["method"], row["backbone"], row["score"]) for row in reported]
    assert all(row["source"].startswith("https://") and row["low"] is row["calls"] is row["command"] is None for row in reported)
    # Other questions never stand in the published benchmark's column.
    assert [row["score"] for row in rows if row["benchmark"] == "MMStar@dddddddd"] == [70.0]


def test_what_a_row_was_played_with_otherwise_stands_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = tmp_path / "board"
    sizes = (("plain", None, "exact_matching"), ("small", [224, 224], "chatgpt-0125"))
    for name, size, judge in sizes:
        run = finished_run(tmp_path / name, benchmark="MMStar", judge=judge, config={"image_size": size})
        write_entry({**entry_of(run)}, board / "entries")
    notes = [row["note"] for row in make_board(board)["rows"]]
    assert sorted(notes, key=str) == [None, "pictures at 224x224, judged by chatgpt-0125"]
    assert main(["board", "--board", str(board)]) == 0
    for file in ("leaderboard.md", "leaderboard.csv", "leaderboard.html"):
        assert "pictures at 224x224, judged by chatgpt-0125" in (board / file).read_text(), file


def test_a_page_is_made_of_the_board_only_where_this_version_can(tmp_path: Path) -> None:
    from mug_eval.report import board_page as page

    board = tmp_path / "board"
    shutil.copytree(BOARD / "reference", board / "reference")
    assert main(["board", "--board", str(board)]) == 0
    assert (board / "leaderboard.html").read_text() == page.render_board(make_board(board))


def test_a_reported_number_needs_a_source_and_to_be_a_percentage(tmp_path: Path) -> None:
    text = json.loads((BOARD / "reference" / "mug-paper.json").read_text())
    for change, said in (
        (lambda v: v["source"].pop("url"), "source.url is missing"),
        (lambda v: v["source"].update(url="http://x"), "source.url must be"),
        (lambda v: v["source"].update(date="2025"), "source.date must be"),
        (lambda v: v["rows"][0]["scores"].update(validation=450), r"rows\[0\].scores.validation must be a number from 0 to 100"),
        (lambda v: v["rows"].append(v["rows"][0]), "a second time"),
        (lambda v: v["rows"][0].update(p=0.01), "unknown field 'p'"),
    ):
        value = json.loads(json.dumps(text))
        change(value)
        (tmp_path / "x.json").write_text(json.dumps(value))
        with pytest.raises(UserError, match=said):
            read_reference(tmp_path)


def test_reported_numbers_of_our_benchmarks_have_the_names_of_measured_ones() -> None:
    for one in read_reference(BOARD / "reference"):
        if one.read_from == "tables":
            told = load_task(one.benchmark).scores
            assert one.score_name in {ours for ours, _ in (*told.numbers, *told.means)}


def test_the_board_of_this_repository_is_valid_and_up_to_date() -> None:
    assert main(["board", "--check", "--board", str(BOARD)]) == 0
