//! Results as text and for other programs: aligned tables, the report of a store, winner maps, claims.

mod claims;
mod compare;
mod emulated;
mod energy;
mod explain;
mod export;
pub mod html;
mod number;
#[cfg(feature = "parquet")]
mod parquet;
mod report;
mod results;
mod steady;
mod table;
mod tables;
mod text;
mod winner;

pub use claims::claims;
pub use compare::comparison;
pub use explain::explanation;
pub use export::{csv, latex};
#[cfg(feature = "parquet")]
pub use parquet::parquet;
pub use report::{report, unavailable};
pub use table::Table;
pub use tables::paper_tables;
pub use text::{escape, wrap};
pub use winner::winners;
