//! Analysis of records and their rendering as tables.
//!
//! `analysis` has pure functions over records; `render` turns their results into text.

pub mod analysis;
pub mod render;
