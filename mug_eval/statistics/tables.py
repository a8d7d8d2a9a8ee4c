"""A comparison as text: scores and prices, differences, games."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from mug_eval.show import printable
from mug_eval.statistics.compare import Compared, Comparison, Scored
from mug_eval.statistics.cost import tokens
from mug_eval.statistics.games import GameStatistics
from mug_eval.statistics.intervals import Estimate
from mug_eval.statistics.paper_test import LABEL

_NARROWEST = 100


def comparison_text(comparison: Comparison, width: int = 120, by: str | None = None) -> str:
    """The tables, one benchmark after the other, and the notes.

    Args:
        comparison: what was found.
        width: of the terminal in characters.
        by: also divide the games by ``category``, ``edit`` or ``edit_type``.
    """
    parts = []
    for benchmark in dict.fromkeys(one.group.benchmark for one in comparison.scored):
        scored = [one for one in comparison.scored if one.group.benchmark == benchmark]
        compared = [one for one in comparison.compared if one.benchmark == benchmark]
        sizes = dict.fromkeys(f"{one.questions} questions in {clusters_of(one.clusters)}" for one in scored)
        parts += [f"{benchmark}: {'; '.join(sizes)}", _scores(scored, width), _differences(compared, width)]
        parts += [_games(scored, width), *_survival(scored)]
        if by is not None:
            parts.append(_divided(scored, by, width))
    lines = list(comparison.notes)
    pairs = len(comparison.compared)
    lines.append(
        f"p: clusters exchanged between the runs, two-sided ({_how_exact(comparison.compared)}); Holm: over {pairs} "
        f"{'comparison' if pairs == 1 else 'comparisons'}; finds: the smallest true difference found with 80 % power"
    )
    if any(one.paper for one in comparison.compared):
        lines.append(f"paper's p: {LABEL}")
    return "\n".join(part for part in parts if part) + "\n" + printable("\n".join(lines)) + "\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> str:
    """A table without lines, its first column to the left; columns that are empty throughout are left out."""
    # Categories and edits are strangers' words: neither may they end the line that their numbers stand in.
    rows = [[printable(cell).replace("\n", " ").replace("\t", " ") for cell in row] for row in rows]
    kept = [place for place, name in enumerate(columns) if not name or any(row[place] for row in rows)]
    drawn = Table(box=None, pad_edge=False)
    for place in kept:
        drawn.add_column(columns[place], justify="left" if place == 0 else "right", no_wrap=place != 0, overflow="fold")
    for row in rows:
        drawn.add_row(*(row[place] for place in kept))
    console = Console(width=max(width, _NARROWEST), color_system=None, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(drawn)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())


def clusters_of(count: int) -> str:
    """``1 cluster``, ``200 clusters``."""
    return f"{count:,} cluster{'' if count == 1 else 's'}"


def ends(low: float, high: float, sign: str = "") -> str:
    """An interval."""
    return "" if math.isnan(low) else f"{low:{sign}.1f} to {high:{sign}.1f}"


def p_value(p: float | None) -> str:
    """A p-value; a small one by its bound."""
    if p is None or math.isnan(p):
        return ""
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def number(value: float | None, digits: int = 1, sign: str = "") -> str:
    """A number; nothing where there is none."""
    return "" if value is None or math.isnan(value) else f"{value:{sign},.{digits}f}"


def _scores(scored: Sequence[Scored], width: int) -> str:
    rows = []
    for one in scored:
        for place, (name, score) in enumerate(one.scores.items()):
            cost = one.group.cost if place == 0 else {}
            rows.append(
                (
                    one.label if place == 0 else "",
                    name,
                    f"{score.value:.1f}",
                    ends(score.low, score.high),
                    number(score.standard_error, 2),
                    str(len(score.each)) if len(score.each) > 1 else "",
                    number(score.spread, 2),
                    number(cost.get("calls")),
                    number(tokens(one.group), 0) if place == 0 else "",
                    number(cost.get("seconds"), 2),
                    "*" if one.frontier and place == 0 else "",
                )
            )
    head = ("", "score", "%", "95 %", "error", "seeds", "spread", "calls", "tokens", "seconds", "best for its calls")
    return table(head, rows, width)


def _differences(compared: Sequence[Compared], width: int) -> str:
    rows = []
    for one in compared:
        named = f"{one.label} - {one.against}{' (control)' if one.as_control else ''}"
        for place, (name, difference) in enumerate(one.differences.items()):
            first = place == 0
            rows.append(
                (
                    named if first else "",
                    name,
                    f"{difference.value:+.1f}",
                    ends(difference.low, difference.high, "+"),
                    p_value(difference.p),
                    p_value(one.p_holm) if first else "",
                    str(one.fixed) if first and one.fixed is not None else "",
                    str(one.broken) if first and one.broken is not None else "",
                    p_value(one.mcnemar_p) if first else "",
                    number(one.correlation, 2) if first else "",
                    number(one.smallest_difference) if first else "",
                    p_value(one.paper.p) if first and one.paper else "",
                )
            )
    head = ("", "score", "points", "95 %", "p", "Holm", "fixed", "broken", "McNemar", "corr.", "finds", "paper's p")
    return table(head, rows, width)


def _games(scored: Sequence[Scored], width: int) -> str:
    rows = [_game_row(one.label, one.games) for one in scored if _worth(one.games)]
    return table(_GAME_HEAD, rows, width) if rows else ""


_GAME_HEAD = (
    "games",
    "n",
    "found %",
    "95 %",
    "by lots",
    "votes %",
    "by lots",
    "lost",
    "broke %",
    "mended %",
    "unparsed",
    "no vote",
)


def _worth(games: GameStatistics) -> bool:
    return bool(games.detection or games.changed or games.unparsed)


def _game_row(label: str, games: GameStatistics) -> tuple[str, ...]:
    hunt, changed = games.detection, games.changed
    return (
        label,
        str(games.games),
        _share(hunt.found) if hunt else "",
        ends(100 * hunt.found.low, 100 * hunt.found.high) if hunt else "",
        number(100 * hunt.found_by_chance) if hunt else "",
        _share(hunt.normal_votes) if hunt and hunt.normal_votes else "",
        number(100 * hunt.votes_by_chance) if hunt and hunt.votes_by_chance is not None else "",
        number(hunt.normals_lost.value, 2) if hunt else "",
        _share(changed.right_to_wrong) if changed else "",
        _share(changed.wrong_to_right) if changed else "",
        str(games.unparsed),
        str(hunt.abstentions) if hunt else "",
    )


def _share(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f}"


def _survival(scored: Sequence[Scored]) -> list[str]:
    """The curve of every group that had an undercover, in words."""
    lines = []
    for one in scored:
        hunt = one.games.detection
        if hunt is not None:
            rounds = ", ".join(
                f"round {r.number}: {100 * r.survived.value:.0f} % ({ends(100 * r.survived.low, 100 * r.survived.high)}; by lots "
                f"{100 * r.by_chance:.0f} %)"
                for r in hunt.rounds
            )
            above = hunt.above_chance
            # Games of one cluster have a mean and no interval; neither have games that all ended alike.
            between = (ends(100 * above.low, 100 * above.high, "+") if above.low < above.high else "") or "no interval"
            lines.append(f"{one.label}: undercover still there after {rounds}")
            lines.append(f"{one.label}: found {100 * above.value:+.1f} points against lots ({between})\n")
    return lines


def _divided(scored: Sequence[Scored], by: str, width: int) -> str:
    rows = []
    for one in scored:
        parts: Mapping[str, GameStatistics] = one.games.by.get(by, {})
        for value, games in parts.items():
            label, *rest = _game_row(f"{one.label}, {value}", games)
            rows.append((label, _share(games.right), *rest))
    if not rows:
        return f"no game says its {by}\n"
    return table((f"by {by}", "right %", *_GAME_HEAD[1:]), rows, width)


def _how_exact(compared: Sequence[Compared]) -> str:
    exact = sum(one.exact for one in compared)
    if exact == len(compared):
        return "exact"
    return "drawn" if exact == 0 else f"{exact} of {len(compared)} exact, the others drawn"
