//! Results as text: aligned tables, and the report of a store.

mod grid;
mod report;

pub use grid::{Align, Grid, escape, wrap};
pub use report::{report, unavailable};
