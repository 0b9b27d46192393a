"""Figures in matplotlib, in the style of the report: its colours and marks, and its order of paths.

Each function takes a store and gives a `matplotlib.figure.Figure`, which a notebook shows and `savefig`
writes. They need matplotlib (`pip install iopj[figures]`).
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from iopj import _native
from iopj._histogram import Histogram
from iopj._store import Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Marks of the series, in the report's order: circle, square, triangles and diamond.
_MARKS = ("o", "s", "^", "D", "v")
#: What the titles of maps name of their workloads.
_WORKLOAD = ("rw", "rwmixread", "bs", "numjobs", "iodepth", "rate_iops")
_VERDICTS = ("verified", "unproven", "refuted", "failed")
_SIZE_IN = (6.4, 3.6)

T = TypeVar("T")

#: A row of a table, or keywords.
Row = dict[str, Any]


@dataclass(frozen=True)
class _Series:
    """A path under settings and a generator."""

    key: tuple[str, str, str]
    label: str
    colour: str
    mark: str


@dataclass(frozen=True)
class _Cell(Generic[T]):
    """A series under a workload: its place on the axis, and a value of each trial that counts."""

    series: int
    at: int
    values: list[T]
    is_verified: bool


@cache
def _style() -> dict[str, str]:
    """The colours of the report's figures, by the classes of its style."""
    colour = r"\.figure \.([\w-]+) \{ (?:color|fill|stroke): (#[0-9a-f]{6})"
    return dict(re.findall(colour, _native.figure_style()))


def colours() -> list[str]:
    """The colours of series, in their order, as `#rrggbb`. The eighth series has the first one again."""
    style = _style()
    return [style[f"s{index}"] for index in range(7)]


def over_depth(store: Store, metric: str = "latency_ns_mean", axis: str = "iodepth") -> Figure:
    """A metric over `iodepth`, `numjobs`, `bs` or `rate_iops`: a plot for each workload, a line a path.

    `metric` is a column of `Store.trials`; nanoseconds are drawn as microseconds. Workloads of a plot differ
    in the axis only. Points are means over the replicates that compete, with their 95 % interval by
    Student's t; a cell in which none competes has those that were not refuted, and a hollow mark if none of
    them is verified. Raises ValueError if no workload has two values on the axis.
    """
    name, factor = _named(metric)
    values = _values(store, metric)
    all_plots = _plots(store, axis, {at: value * factor for at, value in values.items()})
    plots = [(title, cells) for title, cells in all_plots if len({cell.at for cell in cells}) > 1]
    if not plots:
        raise ValueError(f"no workload of {store.path} has {metric} at two values of {axis}")
    figure, axes = _figure(len(plots))
    for (title, cells), plot in zip(plots, axes, strict=True):
        for at, one in enumerate(_series(store)):
            _line(plot, one, [cell for cell in cells if cell.series == at])
        ticks = sorted({cell.at for cell in cells})
        plot.set_xscale("log", base=2)
        plot.set_xticks(ticks, [_size(tick) if axis == "bs" else str(tick) for tick in ticks])
        plot.minorticks_off()
        plot.set_ylim(bottom=0)
        _dress(plot, f"{_capital(name.split(',')[0])} over {axis}: {title}", axis, name)
    _legend(figure, axes)
    return figure


def verdicts(store: Store) -> Figure:
    """Trials of each path by verdict, as stacked bars."""
    from matplotlib.ticker import MaxNLocator

    rows, style = _rows(store), _style()
    all_series = _series(store)
    figure, (plot,) = _figure(1, height_in=0.9 + 0.34 * len(all_series))
    left = np.zeros(len(all_series), dtype=np.int64)
    for verdict in _VERDICTS:
        mine = [row for row in rows if _verdict(row) == verdict]
        counts = np.array([sum(_key(row) == one.key for row in mine) for one in all_series])
        if counts.sum() == 0:
            continue
        places = np.arange(len(all_series))
        bars = plot.barh(places, counts, left=left, height=0.62, color=style[verdict], label=verdict)
        texts = [str(count) if count else "" for count in counts]
        plot.bar_label(bars, texts, label_type="center", color="black", fontsize=9, fontweight="bold")
        left += counts
    plot.set_yticks(np.arange(len(all_series)), [one.label for one in all_series])
    plot.invert_yaxis()
    _dress(plot, "Verdicts by path", "trials", "")
    plot.grid(visible=False)
    plot.xaxis.set_major_locator(MaxNLocator(integer=True))
    plot.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    return figure


def winner_map(
    store: Store,
    metric: str = "latency_mean",
    axes: tuple[str, str] = ("iodepth", "numjobs"),
    *,
    with_unproven: bool = False,
) -> Figure:
    """The best path in each cell of two axes, its lead over the next, and the 95 % interval of that.

    `metric` and `axes` are those of `Store.winners`. In dashed cells no path wins: the best are equal, or
    undecided. Raises ValueError if no trial competes.
    """
    answer = store.winners(metric, axes, with_unproven=with_unproven)
    maps = [one for one in answer["maps"] if any(cell["ranking"] for cell in one["cells"])]
    if not maps:
        raise ValueError(f"{store.path} has no map of {metric}: {answer['nobody'] or 'no trial competes'}")
    x, y = axes
    columns = [sorted({cell[x] for cell in one["cells"]}) for one in maps]
    rows = [sorted({cell[y] for cell in one["cells"]}) for one in maps]
    width_in = max(_SIZE_IN[0], 1.2 + 1.35 * max(len(one) for one in columns))
    height_in = 1.0 + 0.95 * max(len(one) for one in rows)
    figure, plots = _figure(len(maps), width_in=width_in, height_in=height_in)
    for one, plot, across, down in zip(maps, plots, columns, rows, strict=True):
        for cell in one["cells"]:
            _cell(plot, store, one, cell, (across.index(cell[x]), down.index(cell[y])))
        plot.set_xlim(-0.5, len(across) - 0.5)
        plot.set_ylim(len(down) - 0.5, -0.5)
        plot.set_xticks(range(len(across)), [_size(at) if x == "bs" else str(at) for at in across])
        plot.set_yticks(range(len(down)), [_size(at) if y == "bs" else str(at) for at in down])
        _dress(plot, f"Best {metric.replace('_', ' ')}: {_map_title(one, axes)}", x, y)
        plot.grid(visible=False)
        plot.tick_params(length=0)
        plot.spines[:].set_visible(False)
    return figure


def cdf(store: Store, op: str = "all", **where: object) -> Figure:
    """The distribution of latencies, a plot for each workload and a curve a path, to five nines.

    `where` chooses trials by columns of `Store.trials`, as in `Store.histogram`: `iodepth=8`. Curves are of
    all I/Os of a cell's trials together, of the same trials as in `over_depth`, as far as one I/O lies
    beyond; dashed ones have no verified trial.
    Raises ValueError if no trial has a histogram.
    """
    meant = set(store._positions(where).to_pylist())
    encoded = {
        row["position"]: row["v2"]
        for row in store.histograms().select(["position", "op", "v2"]).to_pylist()
        if row["op"] == op and row["position"] in meant
    }
    plots = _plots(store, None, encoded)
    if not plots:
        raise ValueError(f"no trial of {store.path} that is meant has a histogram of `{op}`")
    figure, axes = _figure(len(plots))
    all_series = _series(store)
    for (title, cells), plot in zip(plots, axes, strict=True):
        for cell in cells:
            whole = Histogram.merge(Histogram.from_bytes(one) for one in cell.values)
            _curve(plot, all_series[cell.series], whole, cell.is_verified)
        nines = np.arange(6)
        plot.set_yticks(nines, ["0", "90", "99", "99.9", "99.99", "99.999"])
        plot.set_ylim(0, 5)
        plot.set_xscale("log")
        _dress(plot, f"Latency distribution: {title}", "latency, µs", "I/Os that take no longer, %")
    _legend(figure, axes)
    return figure


def _rows(store: Store) -> list[Row]:
    return [row for row in store.trials().to_pylist() if row["in_force"]]


def _key(row: Row) -> tuple[str, str, str]:
    return row["path"], row["generator"], row["settings"]


def _verdict(row: Row) -> str:
    return "failed" if row["error"] is not None else str(row["verdict"]).replace("seen", "verified")


def _series(store: Store) -> list[_Series]:
    palette = colours()
    return [
        _Series((path, generator, settings), label, palette[at % len(palette)], _MARKS[at % len(_MARKS)])
        for at, (path, generator, settings, label) in enumerate(store._native.series())
    ]


def _plots(store: Store, axis: str | None, values: dict[int, T]) -> list[tuple[str, list[_Cell[T]]]]:
    """The report's plots, with the values of these trials: cells and plots without any are left out."""
    plots = []
    for title, cells in store._native.plots(axis):
        valued = [
            _Cell(series, at or 0, [values[one] for one in positions if one in values], is_verified)
            for series, at, positions, is_verified in cells
        ]
        plots.append((title, [cell for cell in valued if cell.values]))
    return [(title, cells) for title, cells in plots if cells]


def _values(store: Store, column: str) -> dict[int, float]:
    """What trials have in a column of numbers, by position."""
    trials = store.trials()
    if column not in trials.column_names:
        raise KeyError(f"trials have no column `{column}`: {', '.join(trials.column_names)}")
    pairs = zip(trials["position"].to_pylist(), trials[column].to_pylist(), strict=True)
    return {position: float(value) for position, value in pairs if value is not None}


def _title(of: dict[str, Any]) -> str:
    words = [of.get("rw")]
    words += [f"{of['rwmixread']} % reads"] if of.get("rwmixread") is not None else []
    words += [_size(of["bs"])] if "bs" in of else []
    counts = ("numjobs", "iodepth", "rate_iops")
    words += [f"{name} {of[name]}" for name in counts if of.get(name) is not None]
    return " ".join(str(word) for word in words if word)


def _map_title(one: dict[str, Any], axes: tuple[str, str]) -> str:
    workload = one["workload"]
    named = [name for name in _WORKLOAD if name in workload and name not in (*axes, "rwmixread")]
    return _title({name: workload[name] for name in named})


def _size(size: object) -> str:
    if not isinstance(size, int):
        return str(size)
    for unit, letter in ((1 << 20, "M"), (1 << 10, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return str(size)


def _named(metric: str) -> tuple[str, float]:
    """A column in words, with its unit behind a comma, and the factor from its own unit."""
    latency = re.fullmatch(r"(read_|write_|)latency_ns_(\w+)", metric)
    if latency:
        kind, which = latency.groups()
        return f"{kind.replace('_', ' ')}latency {which.replace('_', '.')}, µs", 1e-3
    return {"iops": "IOPS", "cpu_percent": "CPU, %"}.get(metric, metric.replace("_", " ")), 1.0


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(plot: Axes, one: _Series, cells: list[_Cell[float]]) -> None:
    points = []
    for cell in sorted(cells, key=lambda cell: cell.at):
        summary = _native.summarize(cell.values)
        if summary is not None:
            _, mean, interval = summary
            low, high = interval or (mean, mean)
            points.append((cell.at, mean, mean - low, high - mean, cell.is_verified))
    if not points:
        return
    xs, means, below, above, solids = (list(column) for column in zip(*points, strict=True))
    plot.plot(xs, means, color=one.colour, linewidth=1.8, zorder=2)
    bars: Row = {"fmt": "none", "ecolor": one.colour, "elinewidth": 1.1, "capsize": 2.5, "alpha": 0.7}
    plot.errorbar(xs, means, [below, above], **bars)
    for x, mean, is_solid in zip(xs, means, solids, strict=True):
        fill = one.colour if is_solid else "white"
        plot.plot([x], [mean], one.mark, color=one.colour, markerfacecolor=fill, markersize=6, zorder=3)
    plot.plot([], [], one.mark + "-", color=one.colour, label=one.label)


def _curve(plot: Axes, one: _Series, whole: Histogram, is_verified: bool) -> None:
    values_ns, shares = whole.cdf()
    known = (1 - shares) * whole.count >= 1
    nines = -np.log10(1 - shares[known])
    kind = "-" if is_verified else "--"
    plot.plot(values_ns[known] / 1000, nines, kind, color=one.colour, linewidth=1.8, label=one.label)


def _cell(plot: Axes, store: Store, of: dict[str, Any], cell: dict[str, Any], at: tuple[int, int]) -> None:
    from matplotlib.patches import Rectangle

    corner, size = (at[0] - 0.48, at[1] - 0.47), (0.96, 0.94)
    if not cell["ranking"]:
        plot.add_patch(Rectangle(corner, *size, facecolor="#f6f7f9"))
        return
    settings = " ".join(f"{name}={value}" for name, value in of["settings"].items())
    key = (cell["ranking"][0]["path"], of["generator"], settings)
    one = next(series for series in _series(store) if series.key == key)
    wins = cell["decision"] == "wins"
    plot.add_patch(Rectangle(corner, *size, facecolor=one.colour, alpha=0.16 if wins else 0.05))
    line: Row = {"edgecolor": one.colour, "alpha": 0.55, "linestyle": "-" if wins else "--"}
    plot.add_patch(Rectangle(corner, *size, fill=False, **line))
    plot.plot([at[0] - 0.37], [at[1] - 0.25], one.mark, color=one.colour, markersize=6)
    name = one.label.replace(" ", "\n", 1)
    text: Row = {"linespacing": 1.3, "clip_on": True}
    plot.text(at[0] - 0.28, at[1] - 0.36, name, fontsize=9, fontweight="bold", va="top", **text)
    plot.text(at[0] - 0.28, at[1] + 0.4, _margin(cell), fontsize=8.5, color="#59636e", va="bottom", **text)


def _margin(cell: dict[str, Any]) -> str:
    """The lead over the next path, by the ratio of the means, or the decision in a word."""
    ratio, word = cell["ratio"], "only path" if cell["decision"] == "alone" else str(cell["decision"])
    if ratio is None:
        return word
    lead, low, high = (f"{100 * (ratio[name] - 1):+.1f}" for name in ("ratio", "low", "high"))
    return f"{lead} %\n{low} to {high}" if cell["decision"] == "wins" else f"{word}\n{lead} %"


def _figure(
    count: int, *, width_in: float = _SIZE_IN[0], height_in: float = _SIZE_IN[1]
) -> tuple[Figure, list[Axes]]:
    """A figure of so many plots, one below the other; no global state of pyplot's is used."""
    figure: Figure = _kind()(figsize=(width_in, height_in * count), layout="constrained", dpi=110)
    axes = figure.subplots(count, 1, squeeze=False)
    return figure, list(axes[:, 0])


@cache
def _kind() -> type[Figure]:
    """A figure that a notebook shows, whether it has pyplot or not."""
    from matplotlib.figure import Figure

    class Shown(Figure):
        def _repr_png_(self) -> bytes:
            png = io.BytesIO()
            self.savefig(png, format="png")
            return png.getvalue()

    return Shown


def _dress(plot: Axes, title: str, x_title: str, y_title: str) -> None:
    style = _style()
    ink, muted, rule = "#1c2128", style.get("base", "#59636e"), style.get("grid", "#e1e4e8")
    plot.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=ink, pad=9)
    plot.set_xlabel(x_title, fontsize=9.5, color=muted)
    plot.set_ylabel(y_title, fontsize=9.5, color=muted)
    plot.tick_params(colors=muted, labelsize=9, which="both")
    plot.grid(axis="y", color=rule, linewidth=1)
    plot.set_axisbelow(True)
    plot.spines[["top", "right", "left"]].set_visible(False)
    plot.spines["bottom"].set_color(muted)


def _legend(figure: Figure, axes: list[Axes]) -> None:
    """One for all plots, to their right."""
    named: dict[str, Any] = {}
    for plot in axes:
        for handle, label in zip(*plot.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    figure.legend(named.values(), named.keys(), loc="outside right upper", frameon=False, fontsize=9)
