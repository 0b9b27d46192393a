//! The life of a run and of a trial: target, paths, settings, generators, evidence, meters, store.

mod adaptive;
mod announce;
mod begin;
pub mod blocks;
mod continued;
mod control;
mod dry_run;
mod engines;
mod error;
mod fabric;
mod limits;
mod locks;
mod new_store;
mod options;
mod own_program;
mod pace;
pub mod paths;
mod precondition;
mod profile;
mod program_error;
mod program_run;
pub mod programs;
mod runner;
mod target;
mod traces;
mod trial;
mod trials;

pub use dry_run::{PlannedBytes, RunPlan, dry_run};
pub use error::{RunError, TrialError};
pub use fabric::serve_agent;
pub use options::Options;
pub use pace::RunTime;
pub use program_error::ProgramError;
pub use runner::{read_study, resume, run};
pub use target::{devices_below, writes};
pub use trials::Summary;
