//! Results as text: aligned tables, and the report of a store.

mod grid;
mod report;

pub use grid::{Align, Grid, escape};
pub use report::{report, unavailable};
