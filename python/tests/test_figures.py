"""Figures have the report's colours and order, and a mark for each datum."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import iopj
import numpy as np
import pytest
from conftest import DEPTHS, PATHS
from iopj import figures


def altered(store: iopj.Store, to: Path, change: Callable[[dict[str, Any]], None]) -> iopj.Store:
    """A copy of a store in which each trial, without its doubts, is as `change` makes it."""
    with sqlite3.connect(store.path) as original, sqlite3.connect(to) as copy:
        original.backup(copy)
        # Those of before do not fit what is made of the trials.
        copy.execute("DELETE FROM checksum")
        columns = "id, path, replicate, workload, measurement, verdict, iops"
        for row in copy.execute(f"SELECT {columns} FROM trial").fetchall():
            trial = dict(zip(columns.split(", "), row, strict=True))
            trial |= {name: json.loads(trial[name]) for name in ("workload", "measurement")}
            trial["measurement"]["conditions"] = {"disturbances": []}
            trial["measurement"]["verdict"] = {"kind": "verified", "reasons": []}
            change(trial)
            trial["verdict"] = trial["measurement"]["verdict"]["kind"]
            values = [json.dumps(trial[name]) for name in ("workload", "measurement")]
            words = "UPDATE trial SET workload = ?, measurement = ?, verdict = ? WHERE id = ?"
            copy.execute(words, [*values, trial["verdict"], trial["id"]])
    return iopj.open(to)


def line_of(plot, colour: str) -> tuple[list[int], list[float], list[bool]]:
    """The places, means and filled marks of a series that has more than one."""
    mine = [line for line in plot.get_lines() if line.get_color() == colour]
    whole = next(line for line in mine if len(line.get_xdata()) > 1)
    marks = {line.get_xdata()[0]: line for line in mine if len(line.get_xdata()) == 1}
    filled = [marks[at].get_markerfacecolor() == colour for at in whole.get_xdata()]
    return list(whole.get_xdata()), list(whole.get_ydata()), filled


def labels(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_series_are_in_the_order_and_the_colours_of_the_report(store: iopj.Store) -> None:
    assert figures.colours()[:3] == ["#0072b2", "#d55e00", "#009e73"]
    figure = figures.over_depth(store)
    assert labels(figure) == ["posix-sio", "libaio", "io_uring"]
    lines = {line.get_label(): line.get_color() for line in figure.axes[0].get_lines()}
    assert lines["libaio"] == "#d55e00"


def test_a_line_has_the_means_of_its_trials(store: iopj.Store, folder: Path) -> None:
    whole = altered(store, folder / "whole.iopj", lambda _: None)
    trials = [row for row in whole.trials().to_pylist() if row["path"] == PATHS[1]]
    wanted = [np.mean([row["iops"] for row in trials if row["iodepth"] == depth]) for depth in DEPTHS]
    places, means, filled = line_of(figures.over_depth(whole, "iops").axes[0], "#d55e00")
    assert places == DEPTHS and means == pytest.approx(wanted) and filled == [True, True]


def test_a_cell_that_has_trials_that_compete_is_drawn_of_them_alone(store: iopj.Store, folder: Path) -> None:
    """Disturbed and unproven trials were pooled with verified ones."""

    def disturb(trial: dict[str, Any]) -> None:
        measurement = trial["measurement"]
        if trial["workload"]["iodepth"] == DEPTHS[0]:
            measurement["verdict"]["kind"] = "unproven"
        elif trial["replicate"] == 0:
            measurement["conditions"]["disturbances"] = [{"throttled": {"times": 1}}]

    part = altered(store, folder / "part.iopj", disturb)
    trials = [row for row in part.trials().to_pylist() if row["path"] == PATHS[1]]
    assert [row["competes"] for row in trials].count(True) == 1
    unproven = [row["iops"] for row in trials if row["iodepth"] == DEPTHS[0]]
    wanted = [np.mean(unproven), *(row["iops"] for row in trials if row["competes"])]
    _, means, filled = line_of(figures.over_depth(part, "iops").axes[0], "#d55e00")
    assert means == pytest.approx(wanted) and filled == [False, True]
    curve = figures.cdf(part, path=PATHS[1], iodepth=DEPTHS[1]).axes[0].get_lines()[0]
    values, _ = part.histogram(path=PATHS[1], competes=True).cdf()
    assert set(curve.get_xdata()) <= set(values / 1000)


def test_workloads_that_differ_in_another_key_than_the_axis_are_in_plots_of_their_own(
    store: iopj.Store, folder: Path
) -> None:
    def accompany(trial: dict[str, Any]) -> None:
        if trial["replicate"] == 0:
            trial["workload"]["corunner"] = "spin"

    two = altered(store, folder / "two.iopj", accompany)
    titles = [plot.get_title(loc="left") for plot in figures.over_depth(two).axes]
    assert ["corunner spin" in title for title in sorted(titles)] == [False, True], titles


def test_a_rate_that_some_workloads_lack_is_an_axis(store: iopj.Store, folder: Path) -> None:
    """Those without one made it a TypeError."""

    def rate(trial: dict[str, Any]) -> None:
        if trial["workload"]["iodepth"] == DEPTHS[1]:
            trial["workload"] |= {"iodepth": 1, "rate_iops": 1000 * (1 + trial["replicate"])}

    open_loads = altered(store, folder / "open.iopj", rate)
    (plot,) = figures.over_depth(open_loads, "iops", axis="rate_iops").axes
    assert line_of(plot, "#d55e00")[0] == [1000, 2000]


def test_verdicts_count_every_trial(store: iopj.Store) -> None:
    plot = figures.verdicts(store).axes[0]
    assert sum(bar.get_width() for bar in plot.patches) == store.trials().num_rows
    assert [text.get_text() for text in plot.get_yticklabels()] == ["posix-sio", "libaio", "io_uring"]


def test_a_map_has_a_cell_for_each_depth(store: iopj.Store) -> None:
    plot = figures.winner_map(store, with_unproven=True).axes[0]
    texts = " ".join(text.get_text() for text in plot.texts)
    (answer,) = store.winners("latency_mean", with_unproven=True)["maps"]
    best = {cell["ranking"][0]["path"] for cell in answer["cells"]}
    assert all(path.split("/")[0] in texts for path in best)
    assert [text.get_text() for text in plot.get_xticklabels()] == [str(depth) for depth in DEPTHS]


def test_a_distribution_has_a_curve_for_each_path(store: iopj.Store, folder: Path) -> None:
    whole = altered(store, folder / "curves.iopj", lambda _: None)
    figure = figures.cdf(whole, iodepth=4)
    assert labels(figure) == ["libaio", "io_uring"]
    values, _ = whole.histogram(path=PATHS[1], iodepth=4).cdf()
    assert figure.axes[0].get_lines()[0].get_xdata()[0] == values[0] / 1000
    file = folder / "cdf.svg"
    figure.savefig(file)
    assert file.read_text().startswith("<?xml")


def test_what_cannot_be_drawn_is_said(store: iopj.Store) -> None:
    with pytest.raises(ValueError, match="two values of numjobs"):
        figures.over_depth(store, axis="numjobs")
    with pytest.raises(ValueError, match="`rw` has no numbers: use iodepth"):
        figures.over_depth(store, axis="rw")
    with pytest.raises(KeyError, match="no column `speed`"):
        figures.over_depth(store, "speed")
    with pytest.raises(ValueError, match="no trial of .* has a histogram"):
        figures.cdf(store, iodepth=5)
    with pytest.raises(KeyError, match="no column `depth`"):
        figures.cdf(store, depth=5)
