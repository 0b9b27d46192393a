//! Study files and the plan: which trials there are, and in which order. Pure: nothing is opened or run here.

mod axis;
mod beside;
mod error;
mod fabric;
pub mod keys;
mod load;
mod matrix;
mod meters;
mod mistakes;
mod of_workload;
mod patterns;
pub mod plan;
mod program;
mod reach;
mod replicates;
mod score;
mod settings;
mod steadystate;
mod study;
mod time;
mod values;
mod workload;

pub use axis::Axis;
pub use error::StudyError;
pub use fabric::{Fabric, FabricCell};
pub use matrix::WorkloadMatrix;
pub use meters::{Meters, MetersAsked};
pub use patterns::matching;
pub use program::{FigureKeys, Program, Variant};
pub use reach::Ask;
pub use replicates::Replicates;
pub use score::ScoreKeys;
pub use steadystate::SteadyStateKeys;
pub use study::{FioOptions, Study};
pub use time::duration;
pub use values::parse_paths;
