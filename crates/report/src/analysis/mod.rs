//! Pure functions over records: cells and tables, statistics, winner maps, claims, comparisons.

pub mod admission;
pub mod apart;
pub mod cells;
pub mod claims;
pub mod compare;
pub mod contrast;
pub mod cost;
pub mod efficiency;
pub mod energy;
pub mod exact;
pub mod explain;
pub mod least;
pub mod loads_stores;
pub mod metric;
pub mod orderings;
pub mod power;
pub mod published;
pub mod sequential;
pub mod stats;
pub mod steady;
pub mod tables;
pub mod winner;
pub mod within;

pub use admission::Admission;
pub use cells::{Figures, Row, Table, Times, tables};
