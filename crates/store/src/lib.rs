//! Records of trials in one SQLite file, and their exports.
//!
//! A trial is whole or absent. Nothing is written to a store inside a measured window.
//!
//! [`record`] holds the types, [`Store`] the file, [`energy`] what meters add to it, [`export`] JSON and CSV.

mod at_rest;
mod cell;
mod checksum;
mod copy;
mod corunner_window;
mod create;
mod decode;
mod details;
pub mod energy;
mod energy_source;
mod error;
pub mod export;
mod export_energy;
mod export_lines;
mod export_whole;
mod file;
pub mod histogram;
mod json_column;
mod kind_window;
mod latency;
mod open;
mod open_window;
mod pending;
mod pooled;
mod program_window;
mod rate;
mod read;
pub mod record;
mod repeat;
mod schema;
mod shared_value;
mod store;
mod trial_row;
mod verify;
pub mod watch;

pub use corunner_window::CorunnerWindow;
pub use energy_source::{EnergySource, TOOK_NO_PART};
pub use error::StoreError;
pub use export_whole::ExportError;
pub use kind_window::KindWindow;
// Types of `iopj_core` that records contain.
pub use iopj_core::{Generator, Sequential, Slice};
pub use latency::Latency;
pub use open_window::{LatencyFrom, OpenWindow};
pub use pooled::{Bin, Pooled};
pub use program_window::ProgramWindow;
pub use record::{Measurement, Outcome, StudyRecord, Trial, Unavailable};
pub use repeat::Repeat;
pub use shared_value::SharedValue;
pub use store::Store;
pub use verify::Checked;
