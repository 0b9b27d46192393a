//! The exception of what iopj itself refuses or finds wrong.

use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(
    iopj,
    Error,
    PyException,
    "What iopj refuses or finds wrong. The message names the thing, the cause and the remedy."
);
