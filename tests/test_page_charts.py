"""Charts of pages: what is drawn is read back from the drawing with its own ticks, and is the numbers of statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2", reason="pages need Jinja2 (the report extra)")

from page_runs import write_runs
from run_folders import cost, write_run

from mug_eval.report.families import Family, Shown, find_families
from mug_eval.report.page_charts import Drawing, Tick, cost_chart, survival_chart

RIGHT = {str(i): i % 2 == 0 for i in range(20)}


def scale(ticks: Sequence[Tick], number: Callable[[str], float]) -> Callable[[float], float]:
    """Place -> value, by the first and the last tick; those between must lie on the same line."""
    first, last = ticks[0], ticks[-1]
    low, high = number(first.label), number(last.label)

    def value(place: float) -> float:
        return low + (high - low) * (place - first.at) / (last.at - first.at)

    for tick in ticks:
        assert value(tick.at) == pytest.approx(number(tick.label))
    return value


def points(line: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.split())]


def only_family(out: Path) -> Family:
    (family,) = find_families(out).families
    return family


def mean_right(count: int) -> dict[str, bool]:
    return {index: int(index) < count for index in RIGHT}


def test_the_survival_chart_shows_each_round_with_its_interval_and_what_lots_would_leave(tmp_path: Path) -> None:
    write_runs(tmp_path / "outputs")
    hunt = next(
        member.scored.games.detection for member in only_family(tmp_path / "outputs").members if member.scored.games.detection
    )
    drawn = survival_chart(hunt)
    share = scale(drawn.y_ticks, float)
    when = scale(drawn.x_ticks, lambda label: 0.0 if label == "start" else float(label.removeprefix("round ")))
    assert [tick.label for tick in drawn.x_ticks] == ["start", *(f"round {one.number}" for one in hunt.rounds)]
    assert len(drawn.marks) == len(hunt.rounds) and hunt.rounds
    for mark, one in zip(drawn.marks, hunt.rounds, strict=True):
        assert when(mark.x) == pytest.approx(one.number)
        ends = (100 * one.survived.value, 100 * one.survived.low, 100 * one.survived.high)
        assert [share(place) for place in (mark.y, mark.low, mark.high)] == pytest.approx(list(ends))
        assert f"{ends[0]:.1f} % ({ends[1]:.1f} to {ends[2]:.1f}), lots {100 * one.by_chance:.1f} %" in mark.tip
    for line, values in (
        (drawn.line, [one.survived.value for one in hunt.rounds]),
        (drawn.lots, [one.by_chance for one in hunt.rounds]),
    ):
        shown = points(line)
        assert [when(x) for x, _ in shown] == pytest.approx([0, *(one.number for one in hunt.rounds)], abs=0.01)
        assert [share(y) for _, y in shown] == pytest.approx([100, *(100 * value for value in values)], abs=0.05)
    assert any(one.by_chance != one.survived.value for one in hunt.rounds), "else lots could be drawn from the votes"


def priced(out: Path, **calls_and_right: tuple[float, int]) -> Family:
    for name, (calls, right) in calls_and_right.items():
        write_run(out, mean_right(right), model=f"{name}-toy", method=name, price=cost(calls=calls))
    return only_family(out)


def by_name(drawn: Drawing) -> dict[str, Any]:
    return {mark.label: mark for mark in drawn.marks}


def test_the_cost_chart_puts_every_run_at_its_calls_and_score(tmp_path: Path) -> None:
    family = priced(tmp_path, direct=(1, 8), cot=(1.5, 11), sc=(5, 10), mug=(12, 14))
    mine = next(member for member in family.members if member.run.model == "sc-toy")
    drawn = cost_chart(family, mine)
    assert drawn is not None
    calls, score = scale(drawn.x_ticks, float), scale(drawn.y_ticks, float)
    assert by_name(drawn).keys() == {"direct", "cot", "sc", "mug"}, "the backbone, which all have, is left away"
    for member in family.members:
        mark = by_name(drawn)[member.label.removesuffix("-toy")]
        first = next(iter(member.scored.scores.values()))
        assert calls(mark.x) == pytest.approx(member.run.cost["calls"])
        assert [score(place) for place in (mark.y, mark.low, mark.high)] == pytest.approx([first.value, first.low, first.high])
        assert mark.mine is (member is mine)
        assert f"{first.value:.1f} % ({first.low:.1f} to {first.high:.1f})" in mark.tip
        assert drawn.left <= mark.x <= drawn.right and drawn.top <= mark.high <= mark.y <= mark.low <= drawn.bottom
    best = points(drawn.line)
    assert [round(calls(x), 1) for x, _ in best] == [1.0, 1.5, 12.0], (
        "what no cheaper run beats, from the cheapest; sc is beaten by cot"
    )


def test_labels_of_the_cost_chart_lie_on_no_other_label(tmp_path: Path) -> None:
    family = priced(tmp_path, direct=(1, 10), cot=(1, 10), cfmad=(1.1, 10), mug=(11.9, 10), sc=(12, 10))
    drawn = cost_chart(family, family.base)
    assert drawn is not None

    def span(mark: Any) -> tuple[float, float]:
        reach = 6.4 * len(mark.label) + 10
        return (mark.x - reach, mark.x - 7) if mark.label_left else (mark.x + 7, mark.x + reach)

    for place, one in enumerate(drawn.marks):
        assert drawn.left <= span(one)[0] and span(one)[1] <= drawn.width
        for other in drawn.marks[:place]:
            apart = span(one)[0] >= span(other)[1] or span(other)[0] >= span(one)[1]
            assert apart or abs(one.label_y - other.label_y) >= 13, (one.label, other.label)


def test_runs_that_do_not_say_their_calls_are_not_drawn(tmp_path: Path) -> None:
    write_run(tmp_path, RIGHT, price={**cost(), "calls": None})
    assert cost_chart(only_family(tmp_path), only_family(tmp_path).base) is None
    write_run(tmp_path, RIGHT, model="cot-toy", price=cost(calls=2))
    family = only_family(tmp_path)
    drawn = cost_chart(family, family.base)
    assert drawn is not None and [math.isfinite(mark.x) for mark in drawn.marks] == [True]


def members(families: Sequence[Family]) -> list[set[str]]:
    def name(member: Shown) -> str:
        return member.run.model.removesuffix("-toy")

    return sorted(({name(member) for member in family.members} for family in families), key=sorted)


@pytest.mark.parametrize(
    "other",
    [
        {"config": {"dataset_sha256": "e" * 64}},
        {"config": {"image_size": [224, 224]}},
        {"config": {"backbone": {"kind": "openai", "model": "another"}}},
        {"judge": "gpt-4o"},
        {"scorer": "0.0.99"},
        {"right": dict.fromkeys(list(RIGHT)[:10], True)},
    ],
    ids=lambda other: next(iter(other.get("config", other))),
)
def test_runs_that_may_not_be_compared_stand_in_families_apart(tmp_path: Path, other: dict[str, Any]) -> None:
    write_run(tmp_path, RIGHT)
    write_run(tmp_path, RIGHT, model="cot-toy")
    write_run(tmp_path, **{"right": RIGHT, "model": "sc-toy", **other})
    found = find_families(tmp_path)
    assert found.left_out == [] and members(found.families) == [{"cot", "direct"}, {"sc"}]
    for family in found.families:
        assert [member.compared is None for member in family.members] == [True, *[False] * (len(family.members) - 1)]
