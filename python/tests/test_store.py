"""Tables and answers are those of the program, for the same store."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import iopj
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import DEPTHS, PATHS, REPLICATES
from iopj._store import TABLES

#: Cells: two asynchronous paths at each depth, and the synchronous one at the first.
CELLS = 2 * len(DEPTHS) + 1


def printed(store: iopj.Store, command: str, *words: str) -> Any:
    """What the program prints as JSON, whatever it exits with."""
    line = [iopj.program(), command, store.path, "--json", *words]
    return json.loads(subprocess.run(line, capture_output=True, text=True, check=False).stdout)


def test_trials_are_those_of_the_program(store: iopj.Store) -> None:
    trials = store.trials()
    assert isinstance(trials, pa.Table)
    assert trials.num_rows == CELLS * REPLICATES
    assert set(trials["path"].to_pylist()) == set(PATHS)
    of_program = {one["position"]: one for one in printed(store, "export")["trials"]}
    for row in trials.to_pylist():
        told = of_program[row["position"]]
        assert row["path"] == told["path"]
        assert row["iodepth"] == told["workload"]["iodepth"]
        assert row["ios"] == told["ios"]
        assert row["latency_ns_p99"] == told["latency_ns"]["p99"]
        assert row["ios"] > 0 and row["iops"] > 0
    assert trials.schema.field("latency_ns_p99").type == pa.int64()
    assert trials.schema.field("iops").type == pa.float64()


def test_a_store_is_read_once_and_stays_what_it_was(
    store: iopj.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables were read at the first question, by a path that meant another file by then, or none."""
    shutil.copy(store.path, folder / "moved.iopj")
    monkeypatch.chdir(folder)
    opened = iopj.open("moved.iopj")
    assert opened.path == str(folder / "moved.iopj")
    monkeypatch.chdir("/")
    (folder / "moved.iopj").unlink()
    assert opened.trials().num_rows == len(opened.to_pandas()) == CELLS * REPLICATES
    assert opened.winners("iops", with_unproven=True) == store.winners("iops", with_unproven=True)


def test_every_table_has_rows_that_name_trials_or_none(store: iopj.Store) -> None:
    positions = set(store.trials()["position"].to_pylist())
    for name in TABLES:
        table = store.table(name)
        if "position" in table.column_names:
            assert set(table["position"].to_pylist()) <= positions, name
    assert store.table("stores").num_rows == 1
    assert store.evidence().num_rows == CELLS * REPLICATES
    assert store.series().num_rows > 0
    for position in positions:
        own = store.series().filter(pc.equal(store.series()["position"], position))
        ios = store.trials().filter(pc.equal(store.trials()["position"], position))["ios"][0]
        assert pc.sum(own["ios"]) == ios
    assert store.costs().num_rows == 0, "nothing was profiled"
    assert "joules" in store.energy().column_names
    with pytest.raises(ValueError, match="there is no table `trial`: use one of stores, trials"):
        store.table("trial")


def test_frames_have_the_same_rows(store: iopj.Store) -> None:
    frame, polars = store.to_pandas(), store.to_polars("series")
    assert frame["ios"].dtype == np.int64 and len(frame) == CELLS * REPLICATES
    assert polars.height == store.series().num_rows
    assert polars["ios"].sum() == frame["ios"].sum()


def test_answers_are_those_of_the_program(store: iopj.Store) -> None:
    unproven = "--with-unproven"
    answers = {
        "winners": store.winners("latency_p99", with_unproven=True),
        "claims": {"claims": store.claims(with_unproven=True)},
        "advise": store.advise("latency", p99="1s", with_unproven=True),
        "predict": store.predict(iodepth=8, rate="2k", with_unproven=True),
    }
    options = {
        "winners": ["--metric", "latency_p99"],
        "claims": [],
        "advise": ["--objective", "latency", "--p99", "1s"],
        "predict": ["--iodepth", "8", "--rate", "2k"],
    }
    for command, answer in answers.items():
        told = printed(store, command, unproven, *options[command])
        if command == "predict":
            # The program names the file that it was given.
            del told["model"]["provenance"]["store"]
        assert answer == told, command
    within = store.compare_within("iodepth=1,4", with_unproven=True)
    assert within == printed(store, "compare", "--by", "iodepth=1,4", unproven)
    assert iopj.compare(store, store, with_unproven=True) == printed(store, "compare", store.path, unproven)


def test_what_is_wrong_is_said_in_the_words_of_python(store: iopj.Store, folder: Path) -> None:
    with pytest.raises(iopj.Error, match="there is no store"):
        iopj.open(folder / "none.iopj")
    with pytest.raises(ValueError, match="^metric: "):
        store.winners("speed")
    with pytest.raises(ValueError, match="^axes: "):
        store.winners(axes=("iodepth", "depth"))
    with pytest.raises(ValueError, match="^p99: no I/O takes 0s"):
        store.advise(p99="0s")
    with pytest.raises(ValueError, match="^rate: `0` is not a rate"):
        store.predict(rate=0)
    with pytest.raises(ValueError, match="^bs: "):
        store.predict(bs="none")
    with pytest.raises(iopj.Error, match="closed loop"):
        store.advise(rate="40k", with_unproven=True)
    with pytest.raises(KeyError, match="no column `depth`"):
        store.histogram(depth=1)


def test_a_histogram_is_of_all_trials_that_are_meant(store: iopj.Store) -> None:
    one, all_depths = store.histogram(path=PATHS[1], iodepth=4), store.histogram(path=PATHS[1])
    trials = [row for row in store.trials().to_pylist() if row["path"] == PATHS[1]]
    assert one.count == sum(row["ios"] for row in trials if row["iodepth"] == 4)
    assert all_depths.count == sum(row["ios"] for row in trials)
    assert one + store.histogram(path=PATHS[1], iodepth=1) == all_depths
    assert all_depths.max_ns >= max(row["latency_ns_max"] for row in trials)
    single = store.histogram(position=trials[0]["position"])
    assert single.percentile_ns(99) == trials[0]["latency_ns_p99"]
    assert store.histogram(path="libaio/none").count == 0


def test_histograms_are_numbers_and_arrays() -> None:
    encoded_empty = iopj.Histogram().to_bytes()
    empty = iopj.Histogram.from_bytes(encoded_empty)
    assert empty.count == 0 and np.isnan(empty.mean_ns) and empty.cdf()[0].shape == (0,)
    with pytest.raises(ValueError, match="empty histogram"):
        empty.percentile_ns(50)
    with pytest.raises(ValueError, match="V2 encoding"):
        iopj.Histogram.from_bytes(b"none")


def test_a_distribution_ascends_to_one(store: iopj.Store) -> None:
    histogram = store.histogram()
    values, shares = histogram.cdf()
    assert values.dtype == np.int64 and shares.dtype == np.float64 and values.shape == shares.shape
    assert (np.diff(values) > 0).all() and (np.diff(shares) > 0).all() and shares[-1] == 1.0
    percentiles = histogram.percentile_ns([0, 50, 99, 100])
    assert percentiles.dtype == np.int64 and (np.diff(percentiles) >= 0).all()
    assert values[np.searchsorted(shares, 0.99)] == percentiles[2]
    assert iopj.Histogram.from_bytes(histogram.to_bytes()) == histogram
    mean = np.average(values, weights=np.diff(shares, prepend=0))
    assert histogram.mean_ns == pytest.approx(mean, rel=1e-2)
    with pytest.raises(ValueError, match="101.0 is no percentile"):
        histogram.percentile_ns(101)
