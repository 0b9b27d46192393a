//! Results as text and for other programs: aligned tables, the report of a store, winner maps, claims.

mod advise;
mod advise_highest;
mod advise_words;
mod answer;
mod choice;
mod claims;
mod compare;
mod emulated;
mod energy;
mod explain;
mod export;
pub mod html;
pub mod json;
mod kinds;
mod network;
mod number;
mod open_load;
mod openmetrics;
mod paper_tables;
#[cfg(feature = "parquet")]
mod parquet;
mod repeats;
mod report;
mod results;
mod run_metrics;
mod score;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod titles;
mod two_hosts;
mod unsteady;
pub mod watch;
mod winner;

pub use advise::advice;
pub use answer::{bounds_words, open_words, signed_percent};
pub use claims::claims;
pub use compare::{comparison, gate};
pub use explain::explanation;
pub use export::{csv, latex};
pub use openmetrics::{Family, FamilyKind, Label, Labels, openmetrics, prometheus_text};
pub use paper_tables::paper_tables;
#[cfg(feature = "parquet")]
pub use parquet::parquet;
pub use report::{report, unavailable};
pub use run_metrics::run_metrics;
pub use score::score;
pub use table::Table;
pub use text::{WIDTH, escape, escape_json, escape_lines, wrap};
pub use winner::winners;
