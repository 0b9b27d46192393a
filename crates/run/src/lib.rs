//! The life of a run and of a trial: target, paths, settings, generators, evidence, meters, store.

pub mod blocks;
mod continued;
mod control;
pub mod energy;
mod engines;
mod error;
pub mod import;
mod latencies;
mod limits;
mod locks;
mod new_store;
mod options;
mod pace;
pub mod paths;
mod precondition;
mod profile;
pub mod programs;
mod progress;
mod runner;
mod target;
mod trial;
mod trials;

pub use error::{RunError, TrialError};
pub use options::Options;
pub use progress::Progress;
pub use runner::{read_study, resume, run};
pub use trials::Summary;
