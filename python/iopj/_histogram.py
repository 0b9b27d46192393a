"""Histograms of latencies: HdrHistogram, as the stores have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from iopj import _native


class Histogram:
    """A histogram of latencies in nanoseconds, with three significant digits. It never changes.

    Histograms are added by `+`, or many at once by `Histogram.merge`.
    """

    __slots__ = ("_native",)

    def __init__(self) -> None:
        """An empty one."""
        self._native = _native.Histogram()

    @classmethod
    def _of(cls, native: _native.Histogram) -> Histogram:
        histogram = cls.__new__(cls)
        histogram._native = native
        return histogram

    @classmethod
    def from_bytes(cls, encoded: bytes) -> Histogram:
        """Of HdrHistogram's V2 encoding, as the column `v2` of `Store.histograms` has it.

        Raises ValueError if the bytes are no such encoding.
        """
        return cls._of(_native.Histogram.from_bytes(encoded))

    def to_bytes(self) -> bytes:
        """HdrHistogram's V2 encoding, not compressed."""
        return self._native.to_bytes()

    @classmethod
    def merge(cls, histograms: Iterable[Histogram]) -> Histogram:
        """All values of these histograms in one."""
        return cls._of(_native.Histogram().merged([one._native for one in histograms]))

    def __add__(self, other: object) -> Histogram:
        if not isinstance(other, Histogram):
            return NotImplemented
        return Histogram._of(self._native.merged([other._native]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        return self._native == other._native

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return self.count

    @property
    def count(self) -> int:
        """The number of values."""
        return self._native.count

    @property
    def mean_ns(self) -> float:
        """The mean; NaN of an empty histogram."""
        return self._native.mean_ns

    @property
    def stddev_ns(self) -> float:
        """The standard deviation; NaN of an empty histogram."""
        return self._native.stddev_ns

    @property
    def min_ns(self) -> int:
        """The least value; 0 of an empty histogram."""
        return self._native.min_ns

    @property
    def max_ns(self) -> int:
        """The greatest value; 0 of an empty histogram."""
        return self._native.max_ns

    @overload
    def percentile_ns(self, percent: float) -> int: ...
    @overload
    def percentile_ns(self, percent: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.int64]: ...

    def percentile_ns(
        self, percent: float | Sequence[float] | npt.NDArray[np.float64]
    ) -> int | npt.NDArray[np.int64]:
        """The least value that `percent` per cent of all do not exceed: 99.9 for p99.9.

        One number gives an int, a sequence of shape (n,) an array of shape (n,), int64, in ns. Raises
        ValueError of an empty histogram, or outside 0 to 100.
        """
        if isinstance(percent, (int, float, np.floating, np.integer)):
            return self._native.percentiles([float(percent)])[0]
        values = self._native.percentiles([float(one) for one in percent])
        return np.asarray(values, dtype=np.int64)

    def cdf(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """The distribution: `(values_ns, shares)`, both of shape (n,), one for each value that occurs.

        `shares[i]` of all values are `values_ns[i]` or less; the last share is 1.
        """
        values, shares = self._native.cdf()
        return np.asarray(values, dtype=np.int64), np.asarray(shares, dtype=np.float64)

    def __repr__(self) -> str:
        if self.count == 0:
            return "<iopj.Histogram, empty>"
        p50, p99 = self._native.percentiles([50.0, 99.0])
        return f"<iopj.Histogram of {self.count} I/Os: p50 {p50} ns, p99 {p99} ns, max {self.max_ns} ns>"
