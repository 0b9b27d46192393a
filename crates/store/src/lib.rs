//! Records of trials in one SQLite file, and their exports.
//!
//! A trial is whole or absent. Nothing is written to a store inside a measured window.

mod costs;
pub mod energy;
mod error;
pub mod export;
mod file;
pub mod histogram;
pub mod record;
mod schema;
mod sequential;
mod source;
mod store;

pub use error::StoreError;
pub use record::{Generator, Latency, Measurement, Outcome, Slice, StudyRecord, Trial, Unavailable};
pub use sequential::Sequential;
pub use source::EnergySource;
pub use store::Store;
