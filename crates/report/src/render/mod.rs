//! Results as text and for other programs: aligned tables, the report of a store, winner maps, claims.

mod claims;
mod compare;
mod emulated;
mod energy;
mod explain;
mod export;
mod grid;
pub mod html;
mod number;
#[cfg(feature = "parquet")]
mod parquet;
mod report;
mod steady;
mod tables;
mod winner;

pub use claims::claims;
pub use compare::comparison;
pub use explain::explanation;
pub use export::{csv, latex};
pub use grid::{Align, Grid, escape, wrap};
#[cfg(feature = "parquet")]
pub use parquet::parquet;
pub use report::{report, unavailable};
pub use tables::paper_tables;
pub use winner::winners;
