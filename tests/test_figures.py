"""``mug-eval figures``: what is drawn is what the runs say, the same bytes every time, and one line for a mistake."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from run_folders import cost, game, write_run

from mug_eval.cli import main
from mug_eval.report.figures import figures_of, finished_groups
from mug_eval.report.plot import FORMATS, Chart, Panel, Point, Series, draw


def hits(share: float, seed: int, n: int = 40) -> dict[str, bool]:
    rng = random.Random(seed)
    return {str(i): rng.random() < share for i in range(n)}


def hunted(index: str, found_round: int | None, rounds: int) -> dict[str, Any]:
    """A game of MUG with three agents, whose undercover is found in a round or not at all."""
    facts = {
        "undercover_played": True,
        "undercover_found": found_round is not None,
        "found_round": found_round,
        "detection_rounds": rounds,
        "normals_lost": 0,
    }
    order = ["Agent 1", "Agent 2", "Agent 3"]
    left = [
        {"event": "elimination", "round": number, "votes": {}, "eliminated": None, "tied": []} for number in range(1, rounds + 1)
    ]
    return game(index, facts=facts, events=[{"event": "seats", "order": order, "undercover": "Agent 2", "edit": {}}, *left])


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """direct, two self-consistencies and MUG on 40 questions; MUG finds 10 undercovers at once and 10 in the second round."""
    out = tmp_path / "out"
    write_run(out, hits(0.5, 1), model="direct-toy")
    write_run(out, hits(0.6, 2), model="sc5-toy", method="sc", price=cost(5.0, 500, 50, 2.0))
    write_run(out, hits(0.6, 3), model="sc12-toy", method="sc", price=cost(12.0, 1200, 120, 5.0))
    games = [hunted(str(i), 1 if i < 10 else 2 if i < 20 else None, 1 if i < 10 else 2) for i in range(40)]
    config = {"config": {"detection_rounds": 2}}
    write_run(out, hits(0.7, 4), model="mug-toy", price=cost(11.0, 2000, 200, 9.0), games=games, config=config)
    return out


def series(chart: Chart, label: str, panel: int = 0) -> Series:
    (found,) = [one for one in chart.panels[panel].series if one.label == label]
    return found


def test_three_figures_of_every_benchmark_and_the_same_bytes_again(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["figures", str(runs), "--format", *FORMATS]
    assert main(argv) == 0
    written = [Path(line) for line in capsys.readouterr().out.splitlines()]
    names = {f"ScenesMCQ-{what}.{form}" for what in ("cost", "survival", "changes") for form in FORMATS}
    assert {path.name for path in written} == names and {path.parent for path in written} == {runs / "figures"}
    before = {path: path.read_bytes() for path in written}
    assert main(argv) == 0, "the figures' own folder is no run"
    assert {path: path.read_bytes() for path in written} == before
    assert all(content.startswith(b"%PDF") for path, content in before.items() if path.suffix == ".pdf")
    svg = before[runs / "figures" / "ScenesMCQ-cost.svg"]
    assert b"<dc:date>" not in svg and str(runs).encode() not in svg


def test_accuracy_stands_against_calls_and_tokens_with_the_control_as_a_curve(runs: Path) -> None:
    charts = {named.name: named.chart for named in figures_of(finished_groups(runs))}
    chart = charts["ScenesMCQ-cost"]
    by_calls, by_tokens = chart.panels
    assert by_calls.log_x and "calls" in by_calls.x_label and "tokens" in by_tokens.x_label
    control = series(chart, "control: sc5-toy, sc12-toy")
    assert control.kind == "control"
    assert sorted(point.x for point in control.points) == [5.0, 12.0]
    (mug,) = series(chart, "mug-toy").points
    right = 100 * sum(hits(0.7, 4).values()) / 40
    assert mug.x == 11.0 and mug.y == pytest.approx(right) and mug.low < right < mug.high
    assert series(chart, "mug-toy", 1).points[0].x == 2200


def test_no_tokens_are_drawn_where_a_backbone_does_not_say_them(tmp_path: Path) -> None:
    write_run(tmp_path, hits(0.5, 1), price=cost(1.0, None, None))
    write_run(tmp_path, hits(0.5, 2), model="cot-toy")
    (chart,) = [named.chart for named in figures_of(finished_groups(tmp_path)) if named.name.endswith("cost")]
    assert len(chart.panels) == 1, "a curve over some of the runs would be read as one over all"


def test_survival_begins_with_all_and_goes_against_lots(runs: Path) -> None:
    charts = {named.name: named.chart for named in figures_of(finished_groups(runs))}
    chart = charts["ScenesMCQ-survival"]
    mug = series(chart, "mug-toy")
    assert [(point.x, point.y) for point in mug.points] == [(0, 100), (1, 75), (2, 50)]
    lots = series(chart, "by lots")
    assert lots.kind == "chance" and [point.y for point in lots.points] == pytest.approx([100, 100 * 2 / 3, 100 * 2 / 3], abs=0.01)


def test_fixed_and_broken_are_counted_against_the_single_answer(runs: Path) -> None:
    charts = {named.name: named.chart for named in figures_of(finished_groups(runs))}
    chart = charts["ScenesMCQ-changes"]
    (panel,) = chart.panels
    place = panel.categories.index("mug-toy")
    mug, direct = hits(0.7, 4), hits(0.5, 1)
    fixed = sum(mug[i] and not direct[i] for i in mug)
    broken = sum(direct[i] and not mug[i] for i in mug)
    assert series(chart, "fixed").points[place].y == fixed and series(chart, "broken").points[place].y == -broken
    assert "direct-toy" in panel.x_label and "direct-toy" not in panel.categories


def test_runs_on_other_questions_are_drawn_apart(runs: Path) -> None:
    write_run(runs / "more", hits(0.5, 9, 20), model="direct-toy", limit=20)
    names = [named.name for named in figures_of(finished_groups(runs))]
    assert "ScenesMCQ-cost" in names and "ScenesMCQ-2-cost" in names


@pytest.mark.parametrize("fault", ["incomplete", "damaged games", "damaged items", "scores of other answers", "there twice"])
def test_a_run_that_cannot_be_drawn_is_named_and_hinders_no_other(
    runs: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    assert main(["figures", str(runs), "--format", "svg", "--to", str(runs / "before")]) == 0
    capsys.readouterr()
    folder = write_run(runs, hits(0.9, 8), model="aaa-toy", method="cot")  # the first to be read
    if fault == "there twice":
        shutil.rmtree(folder.parent)
        shutil.copytree(runs / "mug-toy", runs / "zzz" / "aaa-toy")
    elif fault == "incomplete":
        (folder / "run.json").unlink()
    elif fault == "damaged games":
        (folder / "games.jsonl").write_bytes((folder / "games.jsonl").read_bytes()[:-20])
    elif fault == "damaged items":
        (folder / "items.tsv").write_bytes(b"\xff\x00")
    else:
        items = (folder / "items.tsv").read_text(encoding="utf-8")
        (folder / "items.tsv").write_text(items.replace("\t1\n", "\t0\n"), encoding="utf-8")
    assert main(["figures", str(runs), "--format", "svg", "--to", str(runs / "after")]) == 0
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("left out: ") and "aaa-toy" in line
    before, after = ({path.name: path.read_bytes() for path in (runs / name).iterdir()} for name in ("before", "after"))
    assert before == after and len(after) == 3


def test_a_strangers_name_is_drawn_as_it_is() -> None:
    panel = Panel(
        "$\\frac{", (Series("$x^$ \x1b[2J " + "long " * 50, (Point(0, 1, 0, 2),)), Series("b", (Point(0, 1),))), ("a|$_$",)
    )
    for shape in ("dots", "bars", "points", "lines"):
        assert draw(Chart(shape, (panel,)), "svg").count(b"<svg") == 1


def test_mistakes_get_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*argv: str | Path) -> str:
        assert main(["figures", *map(str, argv)]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        return said

    assert "no such folder" in refused(tmp_path / "gone")
    assert "no run is there" in refused(tmp_path)
    folder = write_run(tmp_path, {"0": True, "1": False})
    (folder / "run.json").unlink()
    assert f"error: {folder} is not complete" in refused(tmp_path)
    assert not (tmp_path / "figures").exists()
    assert "invalid choice: 'gif'" in refused(tmp_path, "--format", "gif")


def test_a_missing_matplotlib_is_one_line(tmp_path: Path) -> None:
    write_run(tmp_path, {"0": True, "1": False})
    code = "import sys; sys.modules['matplotlib'] = None; from mug_eval.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", code, "figures", str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "pip install 'mug-eval[report]'" in done.stderr
