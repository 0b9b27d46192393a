//! The life of a run and of a trial: target, paths, settings, generators, evidence, meters, store.

pub mod blocks;
mod continued;
mod control;
mod dry_run;
pub mod energy;
mod engines;
mod error;
mod fabric;
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
mod traces;
mod trial;
mod trials;
pub mod watch;

pub use dry_run::{PlannedBytes, RunPlan, dry_run};
pub use error::{RunError, TrialError};
pub use fabric::serve_agent;
pub use options::Options;
pub use pace::RunTime;
pub use progress::Progress;
pub use runner::{read_study, resume, run};
pub use trials::Summary;
