"""Charts of studies and papers: what is drawn as data, and drawing it with matplotlib so that the same data gives the same bytes.

Colours are those of Okabe and Ito (Color Universal Design, 2008), which people tell apart whatever their colour vision; markers
differ too, so that a print in grey can be read. What is reported is hollow and dashed, chance is dotted and grey.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from mug_eval.errors import UserError
from mug_eval.show import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = "Bars: 95 % intervals, clustered."
FORMATS = ("pdf", "svg", "png")

Shape = Literal["lines", "points", "dots", "bars"]
"""``lines``: points joined from left to right; ``points``: each named by the legend; ``dots``: a value for each category, from
top to bottom; ``bars``: the same as bars to both sides of zero."""

Kind = Literal["measured", "control", "reported", "chance"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h", "<", ">")
_GREY = "#777777"
_STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "text.parse_math": False,  # a stranger's word may hold dollars
    "svg.hashsalt": "mug_eval",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,  # TrueType: conferences refuse Type 3
}
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "mug_eval"},
    "pdf": {"CreationDate": None, "Creator": "mug_eval"},
    "png": {"Software": "mug_eval"},
}
_LONGEST_WORD = 60
_BESIDE = 1.05
"""By how much points of the same price are set apart on a logarithmic axis."""
_STEP = 0.012
"""The same on a plain axis, as a share of its length."""
_WIDEST = 0.08
"""At most this share of it from the first curve to the last."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval.

    Attributes:
        x: in ``dots`` and ``bars`` the number of the category, from 0.
        y: the value.
        low: lower end of its 95 % interval; NaN without.
        high: upper end.
    """

    x: float
    y: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True, slots=True)
class Series:
    """Points that belong together.

    Attributes:
        label: in the legend.
        points: drawn from left to right.
        kind: how it is drawn.
    """

    label: str
    points: tuple[Point, ...]
    kind: Kind = "measured"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: above it.
        series: what is in it.
        categories: of ``dots`` and ``bars``, from top to bottom.
    """

    title: str
    series: tuple[Series, ...]
    categories: tuple[str, ...] = ()
    x_label: str = ""
    y_label: str = ""
    log_x: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure.

    Attributes:
        shape: of all panels.
        panels: side by side, in rows of at most ``columns``.
        columns: most panels in a row.
        caption: one line below: what the intervals are.
    """

    shape: Shape
    panels: tuple[Panel, ...]
    columns: int = 2
    caption: str = CAPTION


def draw(chart: Chart, form: str) -> bytes:
    """The chart as a file's bytes.

    Args:
        chart: at least one panel.
        form: one of ``FORMATS``.

    Raises:
        UserError: matplotlib is not installed.
    """
    require_matplotlib()
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # The user's own style would make other bytes of the same data.
    taken = ("backend", "toolbar")
    style: Any = {name: value for name, value in matplotlib.rcParamsDefault.items() if not name.startswith(taken)} | _STYLE
    with matplotlib.rc_context(style):
        across = min(chart.columns, len(chart.panels))
        down = -(-len(chart.panels) // across)
        lines = max((len(panel.categories) for panel in chart.panels), default=0)
        height = max(2.6, 0.9 + 0.28 * lines) if chart.shape in ("dots", "bars") else 2.6
        longest = max((len(_short(word)) for panel in chart.panels for word in panel.categories), default=0)
        width = max(3.6, (3.4 + max(0.0, 0.06 * longest - 0.7)) * across)
        beside, below = _legend_size(chart, width)
        figure = Figure(figsize=(width, height * down + 0.45 + 0.17 * below), layout="constrained")
        FigureCanvasAgg(figure)
        styles = _styles(chart)
        for number, panel in enumerate(chart.panels):
            axes = figure.add_subplot(down, across, number + 1)
            axes.set_title(_short(panel.title))
            axes.set_xlabel(panel.x_label)
            axes.set_ylabel(panel.y_label)
            (_draw_categories if chart.shape in ("dots", "bars") else _draw_points)(axes, panel, chart.shape, styles)
        _legend(figure, chart, beside)
        out = io.BytesIO()
        figure.savefig(out, format=form, metadata=_METADATA[form], dpi=160)
    return out.getvalue()


def require_matplotlib() -> None:
    """See that charts can be drawn.

    Raises:
        UserError: they cannot; says what to install.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UserError("figures are drawn with matplotlib, which is not installed: pip install 'mug-eval[report]'") from None


def _styles(chart: Chart) -> dict[str, tuple[str, str]]:
    """Label -> (colour, marker), the same in all panels; lots and chance have none of their own."""
    labels = dict.fromkeys(series.label for panel in chart.panels for series in panel.series if series.kind != "chance")
    return {
        label: (_COLOURS[place % len(_COLOURS)], _MARKERS[(place + place // len(_COLOURS)) % len(_MARKERS)])
        for place, label in enumerate(labels)
    }


def _look(series: Series, styles: dict[str, tuple[str, str]], *, joined: bool) -> dict[str, Any]:
    """Arguments of ``Axes.errorbar``."""
    if series.kind == "chance":
        return {"color": _GREY, "linestyle": ":", "marker": "", "linewidth": 1.2}
    colour, marker = styles[series.label]
    look = {"color": colour, "marker": marker, "markersize": 5, "capsize": 2, "elinewidth": 0.9, "linewidth": 1.0}
    if series.kind == "reported":
        return {**look, "markerfacecolor": "white", "linestyle": "--" if joined else "none", "alpha": 0.75}
    return {**look, "linestyle": "-" if joined or series.kind == "control" else "none"}


def _reach(points: Sequence[Point]) -> list[list[float]] | None:
    """Distances to the lower and upper ends, as matplotlib wants them; None if no point has an interval."""
    if all(math.isnan(point.low) for point in points):
        return None
    ends = [(0.0, 0.0) if math.isnan(p.low) else (max(0.0, p.y - p.low), max(0.0, p.high - p.y)) for p in points]
    return [[low for low, _ in ends], [high for _, high in ends]]


def _draw_points(axes: Axes, panel: Panel, shape: Shape, styles: dict[str, tuple[str, str]]) -> None:
    for series in _apart(panel) if panel.log_x else _beside(panel):
        points = sorted(series.points, key=lambda point: point.x)
        look = _look(series, styles, joined=shape == "lines")
        axes.errorbar([p.x for p in points], [p.y for p in points], yerr=_reach(points), label=_short(series.label), **look)
    places = sorted({point.x for series in panel.series for point in series.points})
    if panel.log_x:
        axes.set_xscale("log")
        low, high = places[0], places[-1]
        axes.set_xlim(low / 1.4, high * 1.4)
        ticks = [tick for tick in _round_numbers() if low / 1.4 <= tick <= high * 1.4]
        axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
        axes.minorticks_off()
    elif shape == "lines" and all(place == int(place) for place in places) and len(places) <= 10:
        axes.set_xticks(places, [f"{place:g}" for place in places])
    else:
        axes.locator_params(axis="x", nbins=4)
    low, high = axes.get_ylim()
    if high - low < 1:  # percent or points: what does not differ is not to look as if it did
        axes.set_ylim((low + high) / 2 - 5, (low + high) / 2 + 5)


def _apart(panel: Panel) -> Iterator[Series]:
    """Single points of the same place a little beside each other, so that each interval can be seen."""
    for series in panel.series:
        x = series.points[0].x
        same = [other for other in panel.series if len(other.points) == 1 and abs(math.log(other.points[0].x / x)) < 0.02]
        if len(series.points) == 1 and len(same) > 1:
            shift = _BESIDE ** (same.index(series) - (len(same) - 1) / 2)
            yield replace(series, points=(replace(series.points[0], x=x * shift),))
        else:
            yield series


def _beside(panel: Panel) -> Iterator[Series]:
    """Curves over the same places a little beside each other, for the same reason; chance stays where it is."""
    curves = [series for series in panel.series if series.kind != "chance"]
    places = [point.x for series in curves for point in series.points]
    step = min(_STEP, _WIDEST / len(curves)) * (max(places) - min(places)) if places else 0.0
    for series in panel.series:
        if series.kind == "chance":
            yield series
            continue
        shift = step * (curves.index(series) - (len(curves) - 1) / 2)
        yield replace(series, points=tuple(replace(point, x=point.x + shift) for point in series.points))


def _round_numbers() -> Iterator[float]:
    for power in range(-2, 8):
        for step in (1, 2, 5):
            yield float(step * 10**power)


def _draw_categories(axes: Axes, panel: Panel, shape: Shape, styles: dict[str, tuple[str, str]]) -> None:
    beside = [series for series in panel.series if series.kind != "chance"]
    for number, series in enumerate(beside):
        shift = 0.0 if shape == "bars" else 0.5 * ((number + 0.5) / len(beside) - 0.5)
        places, values = [point.x + shift for point in series.points], [point.y for point in series.points]
        if shape == "bars":
            drawn = axes.barh(places, values, height=0.6, color=styles[series.label][0], label=_short(series.label))
            axes.bar_label(drawn, [f"{abs(value):g}" if value else "" for value in values], padding=2, fontsize=7)
        else:
            look = _look(series, styles, joined=False)
            axes.errorbar(values, places, xerr=_reach(series.points), label=_short(series.label), **look)
    for series in panel.series:
        if series.kind == "chance":
            axes.axvline(series.points[0].y, color=_GREY, linestyle=":", linewidth=1.2, label=_short(series.label))
    axes.set_yticks(range(len(panel.categories)), [_short(word) for word in panel.categories])
    axes.set_ylim(len(panel.categories) - 0.5, -0.5)
    if shape == "bars":
        axes.axvline(0, color="black", linewidth=0.8)
        axes.margins(x=0.15)
        low, high = axes.get_xlim()
        ticks = [tick for tick in axes.get_xticks() if low <= tick <= high and tick == int(tick)]
        axes.set_xticks(ticks, [f"{abs(tick):g}" for tick in ticks])


def _legend_size(chart: Chart, width: float) -> tuple[int, int]:
    """Names beside and below each other, so that the panels keep their place however many there are."""
    names = {_short(series.label) for panel in chart.panels for series in panel.series}
    beside = max(1, min(len(names), int(width / (0.065 * max(map(len, names)) + 0.6))))
    return beside, -(-len(names) // beside)


def _legend(figure: Figure, chart: Chart, across: int) -> None:
    """One for all panels, below them; a single name stands in the caption."""
    found: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    caption = chart.caption
    if any(series.kind == "reported" for panel in chart.panels for series in panel.series):
        caption += " Hollow: reported by the paper, not measured."
    if len(found) > 1:
        figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=across, title=caption, title_fontsize=7)
    else:
        figure.supxlabel(f"{next(iter(found))}. {caption}" if found else caption, fontsize=7)


def _short(words: str) -> str:
    """A stranger's words, on one line and not too long."""
    flat = " ".join(printable(words).split())
    return flat if len(flat) <= _LONGEST_WORD else flat[: _LONGEST_WORD - 3] + "..."
