//! The Python package's native module, `iopj._native`: stores, histograms and answers, and the engines.
//!
//! It is thin: what a function here answers comes from the crate that the program asks, too. Names, types and
//! documentation for users are in the Python sources beside it.

mod engine;
mod error;
mod histogram;
mod predict;
mod store;
mod table;

use pyo3::prelude::*;

/// The native part of the package.
#[pymodule]
#[pyo3(name = "_native")]
mod native {
    #[pymodule_export]
    use super::engine::{Buffer, Engine, Pending, make_file};
    #[pymodule_export]
    use super::error::Error;
    #[pymodule_export]
    use super::histogram::Histogram;
    #[pymodule_export]
    use super::store::{Store, figure_style, summarize};
    #[pymodule_export]
    use super::table::Batches;
}
