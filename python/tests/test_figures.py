"""Figures have the report's colours and order, and a mark for each datum."""

from pathlib import Path

import iopj
import numpy as np
import pytest
from conftest import DEPTHS, PATHS
from iopj import figures


def labels(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_series_are_in_the_order_and_the_colours_of_the_report(store: iopj.Store) -> None:
    assert figures.colours()[:3] == ["#0072b2", "#d55e00", "#009e73"]
    figure = figures.over_depth(store)
    assert labels(figure) == ["posix-sio", "libaio", "io_uring"]
    lines = {line.get_label(): line.get_color() for line in figure.axes[0].get_lines()}
    assert lines["libaio"] == "#d55e00"


def test_a_line_has_the_means_of_its_trials(store: iopj.Store) -> None:
    plot = figures.over_depth(store, "iops").axes[0]
    trials = [row for row in store.trials().to_pylist() if row["path"] == PATHS[1]]
    wanted = [np.mean([row["iops"] for row in trials if row["iodepth"] == depth]) for depth in DEPTHS]
    lines = [line for line in plot.get_lines() if line.get_color() == "#d55e00"]
    line = next(line for line in lines if len(line.get_xdata()) == len(DEPTHS))
    assert list(line.get_xdata()) == DEPTHS
    assert list(line.get_ydata()) == pytest.approx(wanted)


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
    figure = figures.cdf(store, iodepth=4)
    assert labels(figure) == ["libaio", "io_uring"]
    values, _ = store.histogram(path=PATHS[1], iodepth=4).cdf()
    assert figure.axes[0].get_lines()[0].get_xdata()[0] == values[0] / 1000
    file = folder / "cdf.svg"
    figure.savefig(file)
    assert file.read_text().startswith("<?xml")


def test_what_cannot_be_drawn_is_said(store: iopj.Store) -> None:
    with pytest.raises(ValueError, match="two values of numjobs"):
        figures.over_depth(store, axis="numjobs")
    with pytest.raises(ValueError, match="no trial of .* has a histogram"):
        figures.cdf(store, iodepth=5)
    with pytest.raises(KeyError, match="no column `depth`"):
        figures.cdf(store, depth=5)
