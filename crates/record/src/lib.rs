//! What a store holds, as types: the study, its trials and what each measured, what meters added, and what
//! was seen of a program; latencies as histograms; the columns of a trial, as JSON and CSV. No SQL.
//!
//! [`trial`] holds the record of a trial, [`export`] its columns, [`energy`] what meters add, [`watch`] what
//! was seen of programs.

mod cell;
mod corunner_window;
pub mod energy;
mod energy_source;
pub mod export;
mod export_energy;
pub mod export_lines;
pub mod histogram;
mod kind_window;
mod latency;
mod open_window;
mod pooled;
mod program_window;
mod rate;
pub mod repeat;
mod shared_value;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trial;
pub mod watch;

pub use corunner_window::CorunnerWindow;
pub use energy_source::{EnergyCover, EnergySource, TOOK_NO_PART};
pub use kind_window::KindWindow;
// Types of `iopj_core` that records contain.
pub use iopj_core::{Generator, Sequential, Slice};
pub use latency::Latency;
pub use open_window::{LatencyFrom, OpenWindow};
pub use pooled::{Bin, Pooled};
pub use program_window::ProgramWindow;
pub use repeat::Repeat;
pub use shared_value::SharedValue;
pub use trial::{Measurement, Outcome, StudyRecord, Trial, Unavailable};
