//! Histograms of latencies for Python.

use crate::error::Error;
use iopj_record::histogram::{self, Histogram as Hdr};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A histogram of latencies in ns, which never changes.
#[pyclass(frozen, module = "iopj._native")]
pub(crate) struct Histogram(Hdr<u64>);

#[pymethods]
impl Histogram {
    /// One without a value.
    #[new]
    fn new() -> Histogram {
        Histogram(histogram::new())
    }

    /// Of `HdrHistogram`'s V2 encoding.
    #[staticmethod]
    fn from_bytes(encoded: &[u8]) -> PyResult<Histogram> {
        let decoded = histogram::decode(encoded).map(Histogram);
        decoded.ok_or_else(|| {
            PyValueError::new_err("these bytes are no histogram in HdrHistogram's V2 encoding")
        })
    }

    /// The same encoding.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &histogram::summary(&self.0).histogram)
    }

    /// Both together, with the bounds of the stores' histograms.
    fn merged(&self, others: Vec<PyRef<'_, Histogram>>) -> PyResult<Histogram> {
        let mut merged = histogram::new();
        for one in std::iter::once(&self.0).chain(others.iter().map(|other| &other.0)) {
            merged.add(one).map_err(|error| {
                Error::new_err(format!("a histogram has values that no store's has: {error:?}"))
            })?;
        }
        Ok(Histogram(merged))
    }

    /// The least values in ns that these per cent of all values do not exceed.
    fn percentiles(&self, percents: Vec<f64>) -> PyResult<Vec<u64>> {
        if let Some(wrong) = percents.iter().find(|one| !(0.0..=100.0).contains(*one)) {
            return Err(PyValueError::new_err(format!("{wrong:?} is no percentile: give 0 to 100")));
        }
        if self.0.is_empty() {
            return Err(PyValueError::new_err("an empty histogram has no percentiles"));
        }
        Ok(percents.iter().map(|percent| self.0.value_at_percentile(*percent)).collect())
    }

    /// The values that occur in ns, ascending, and the share of all that do not exceed each.
    fn cdf(&self) -> (Vec<u64>, Vec<f64>) {
        let (all, mut below) = (self.0.len() as f64, 0);
        let points = self.0.iter_recorded().map(|bin| {
            below += bin.count_at_value();
            (bin.value_iterated_to(), below as f64 / all)
        });
        points.unzip()
    }

    #[getter]
    fn count(&self) -> u64 {
        self.0.len()
    }

    #[getter]
    fn mean_ns(&self) -> f64 {
        if self.0.is_empty() { f64::NAN } else { self.0.mean() }
    }

    #[getter]
    fn stddev_ns(&self) -> f64 {
        if self.0.is_empty() { f64::NAN } else { self.0.stdev() }
    }

    #[getter]
    fn min_ns(&self) -> u64 {
        self.0.min()
    }

    #[getter]
    fn max_ns(&self) -> u64 {
        self.0.max()
    }

    fn __eq__(&self, other: &Histogram) -> bool {
        self.0 == other.0
    }
}
