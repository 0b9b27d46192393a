//! The exception of what iopj itself refuses or finds wrong.

use iopj_analysis::asked::Wrong;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(
    iopj,
    Error,
    PyException,
    "What iopj refuses or finds wrong. The message names the thing, the cause and the remedy."
);

/// An error of iopj's crates.
pub(crate) fn failed(error: impl ToString) -> PyErr {
    Error::new_err(error.to_string())
}

/// A value that makes no sense, by the name of its argument.
pub(crate) fn wrong(Wrong { option, why }: Wrong) -> PyErr {
    PyValueError::new_err(format!("{option}: {why}"))
}
