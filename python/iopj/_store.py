"""Stores: tables by Arrow, and the program's questions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from iopj import _native
from iopj._histogram import Histogram
from iopj._values import listed

if TYPE_CHECKING:
    import pandas
    import polars

#: The tables of a store.
TABLES = ("stores", "trials", "histograms", "latencies", "series", "power", "evidence", "energy", "costs")


def open(path: str | os.PathLike[str]) -> Store:
    """Opens a store that `iopj run` or `iopj lab run` wrote, and reads all of it.

    What is written to it later is seen by another `open`. Raises `iopj.Error` if it cannot be read.
    """
    return Store(path)


class Store:
    """A store, read when it was opened. See `iopj.open`.

    Each table is a `pyarrow.Table`; `position` names a trial in all of them. A figure that was not measured
    is null, as are times of an emulated study, which mean nothing.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._native = _native.Store(path)

    def __repr__(self) -> str:
        return f"<iopj.Store {os.fspath(self.path)!r} of study {self.name!r}>"

    @property
    def path(self) -> str:
        """The file, by its absolute path."""
        return os.fspath(self._native.path)

    @property
    def name(self) -> str:
        """The study's name."""
        return self._native.name

    @property
    def study(self) -> str:
        """The study as TOML."""
        return self._native.study

    @property
    def provenance(self) -> dict[str, str]:
        """Facts of the machine: its kernel, processor and drives."""
        return self._native.provenance

    @property
    def emulated(self) -> str | None:
        """The emulator under which the study ran, so that its times mean nothing; else None."""
        return self._native.emulated

    def table(self, name: str) -> pa.Table:
        """A table by its name, one of `iopj._store.TABLES`. Raises ValueError if there is none."""
        return pa.table(self._native.table(name))

    def trials(self) -> pa.Table:
        """One row a trial: what was asked for (`path`, `rw`, `bs` in bytes, `iodepth`, ...), its `verdict`,
        and figures (`iops`, `latency_ns_p99`, `cpu_percent`, `joules_system`, ...)."""
        return self.table("trials")

    def histograms(self) -> pa.Table:
        """One row a histogram of latencies: `op` is `all`, `read` or `write`, `v2` HdrHistogram's encoding
        for `Histogram.from_bytes`, `buckets` the same as a list for SQL."""
        return self.table("histograms")

    def series(self) -> pa.Table:
        """One row a slice of a trial's window: `begin_ns` and `end_ns` since its begin, and `ios` in it."""
        return self.table("series")

    def power(self) -> pa.Table:
        """One row a reading of a meter's channel: `watts`, or a `count` of its own unit."""
        return self.table("power")

    def evidence(self) -> pa.Table:
        """One row a measured trial: the raw counts by which its verdict was found."""
        return self.table("evidence")

    def energy(self) -> pa.Table:
        """One row a trial, meter and scope: `joules`, their interval, and `watts`."""
        return self.table("energy")

    def costs(self) -> pa.Table:
        """One row a trial and function: `instructions`, `loads`, `stores`, `cpu_ns`, with its `directory`."""
        return self.table("costs")

    def to_pandas(self, table: str = "trials") -> pandas.DataFrame:
        """A table as a pandas data frame; needs pandas."""
        return self.table(table).to_pandas()

    def to_polars(self, table: str = "trials") -> polars.DataFrame:
        """A table as a polars data frame; needs polars."""
        import polars

        return polars.DataFrame(self.table(table))

    def histogram(self, op: str = "all", **where: object) -> Histogram:
        """The latencies of all trials of which these columns of `trials` have these values, in one.

        `store.histogram(path="libaio/syscall/interrupt", iodepth=8)`; a list stands for any of its values.
        Trials that do not count are left out, unless `in_force` is asked for. `op` is `all`, `read` or
        `write`. Raises KeyError for an unknown column. It is empty if no trial is meant.
        """
        if op not in ("all", "read", "write"):
            raise ValueError(f"op: there is no `{op}`; use all, read or write")
        chosen = self._positions({"in_force": True, **where})
        histograms = self.histograms()
        mine = pc.and_(pc.equal(histograms["op"], op), pc.is_in(histograms["position"], value_set=chosen))
        encoded = histograms.filter(mine)["v2"].to_pylist()
        return Histogram.merge(Histogram.from_bytes(one) for one in encoded)

    def _positions(self, where: dict[str, object]) -> pa.Array:
        trials = self.trials()
        for column, value in where.items():
            if column not in trials.column_names:
                raise KeyError(f"trials have no column `{column}`: {', '.join(trials.column_names)}")
            allowed = pa.array(listed(value), type=trials[column].type)
            trials = trials.filter(pc.is_in(trials[column], value_set=allowed))
        return trials["position"].combine_chunks()

    def winners(
        self,
        metric: str | None = None,
        axes: tuple[str, str] = ("iodepth", "numjobs"),
        test: str | None = None,
        *,
        with_unproven: bool = False,
    ) -> dict[str, Any]:
        """Which path is the best in each cell of two axes, as `iopj winners --json` prints it.

        `maps` has one map for each set of workloads that differ in the axes only, with its `cells`:
        `decision` is `wins`, `equal`, `undecided`, `alone` or `empty`, `paths` names the best, `ranking`
        has the mean and its 95 % interval of each. `test` is `blocks`, `welch` or `student`.
        """
        answer = self._native.winners(metric, (axes[0], axes[1]), test, with_unproven)
        return _object(answer)

    def claims(self, *, with_unproven: bool = False) -> list[dict[str, Any]]:
        """The papers' findings, each decided by this store's trials or left open, with the reason."""
        claims: list[dict[str, Any]] = _object(self._native.claims(with_unproven))["claims"]
        return claims

    def advise(
        self,
        objective: str | None = None,
        *,
        p99: str | None = None,
        p99_9: str | None = None,
        rate: str | int | None = None,
        price: float | None = None,
        with_unproven: bool = False,
    ) -> dict[str, Any]:
        """Which path to take, as `iopj advise --json` prints it.

        `objective` is `ios_per_joule`, `latency`, `cpu` or `ios`; `p99` and `p99_9` are bounds such as
        `200us`; `rate` is in I/Os per second, such as `40k`; `price` is that of a kWh. Raises `iopj.Error`
        where the store cannot answer.
        """
        text = None if rate is None else str(rate)
        return _object(self._native.advise(objective, p99, p99_9, text, price, with_unproven))

    def predict(
        self,
        *,
        path: str | Sequence[str] = (),
        rw: str | Sequence[str] = (),
        rwmixread: int | None = None,
        bs: str | int | Sequence[str | int] = (),
        iodepth: int | Sequence[int] = (),
        numjobs: int | Sequence[int] = (),
        cores: int | None = None,
        rate: str | int | None = None,
        rate_process: str = "linear",
        burst_on: str | None = None,
        burst_off: str | None = None,
        drive: str | None = None,
        with_unproven: bool = False,
    ) -> dict[str, Any]:
        """What paths and workloads would do that were not measured, as `iopj predict --json` prints it.

        What is left out is as the store has it. `groups` has one group for each workload, its `rows` one for
        each path: quantities with their 90 % interval, and what they extrapolate. Raises `iopj.Error` if
        the store has too few cells to calibrate a model, ValueError for a value that makes no sense.
        """
        asked = {
            "path": _texts(path),
            "rw": _texts(rw),
            "rwmixread": rwmixread,
            "bs": _texts(bs),
            "iodepth": _numbers(iodepth),
            "numjobs": _numbers(numjobs),
            "cores": cores,
            "rate": None if rate is None else str(rate),
            "rate_process": rate_process,
            "burst_on": burst_on,
            "burst_off": burst_off,
            "drive": drive,
        }
        return _object(self._native.predict(json.dumps(asked), with_unproven))

    def compare(
        self, after: Store, *, ignore: Iterable[str] = (), with_unproven: bool = False
    ) -> dict[str, Any]:
        """What is better or worse in `after`, beyond noise, as `iopj compare --json` prints it."""
        return _object(self._native.compare(after._native, list(ignore), with_unproven))

    def compare_within(
        self, by: str, *, ignore: Iterable[str] = (), with_unproven: bool = False
    ) -> dict[str, Any]:
        """The same of two values within this store, such as `by="io_poll_delay=-1,50"`."""
        return _object(self._native.compare_within(by, list(ignore), with_unproven))


def compare(
    before: Store, after: Store, *, ignore: Iterable[str] = (), with_unproven: bool = False
) -> dict[str, Any]:
    """What is better or worse in `after` than in `before`, beyond noise, as `iopj compare --json` prints it.

    Raises `iopj.Error` if the stores have no cell in common; `ignore` names keys that need not match.
    """
    return before.compare(after, ignore=ignore, with_unproven=with_unproven)


def _object(text: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(text)
    return answer


def _texts(value: str | int | Sequence[str | int]) -> list[str]:
    return [str(one) for one in listed(value)]


def _numbers(value: int | Sequence[int]) -> list[int]:
    return [int(one) for one in listed(value)]
