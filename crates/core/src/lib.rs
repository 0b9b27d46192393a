//! The words of iopj as types: workloads, settings, evidence and costs, with their text forms; and those of
//! `iopj-path`, passed on. No I/O.
//!
//! A type is here only if two crates that do not use each other need it.

mod allow;
pub mod conditions;
pub mod corunner;
pub mod cost;
mod counts;
pub mod energy;
pub mod evidence;
pub mod fabric;
pub mod generator;
mod jobs_beside;
pub mod open_load;
pub mod power_change;
pub mod routes;
pub mod sequential;
pub mod setting;
mod shared;
pub mod sizes;
pub mod steadystate;
pub mod trace_load;
pub mod watch;
pub mod workload;
mod workload_fio;
mod workload_json;
mod workload_keys;

pub use allow::{Allow, Grant};
pub use conditions::{Conditions, Disturbance, Spinner};
pub use corunner::{Corunner, CorunnerKind};
pub use cost::{Cost, CostKind, CostProfile, CostSource, FunctionCost, Space};
pub use energy::{AboveIdle, EnergyOutcome, Joules, PowerReading, Scope, TrialEnergy};
pub use evidence::{Evidence, Observed, Verdict, VerdictKind};
pub use fabric::{FabricEvidence, Transport};
pub use generator::{Generator, Slice};
// The words that an engine needs, too.
pub use iopj_path::{
    AutoPath, CompletionMode, IoPath, PolicyName, ProgramName, Ring, RingCompletion, RingFlag,
    RingSubmission, RingThread, SioCompletion, Sleep, Spin, Submission, UserCompletion, Way, files,
    format_bytes, format_duration, parse_bytes, parse_duration, path, units, uring,
};
pub use open_load::{Burst, OpenLoad, RateProcess};
pub use power_change::{PowerChange, PowerSetting};
pub use routes::{Route, Routes};
pub use sequential::Sequential;
pub use setting::{Setting, SettingError};
pub use shared::Shared;
pub use sizes::BlockSizes;
pub use steadystate::SteadyStateRule;
pub use trace_load::{TraceLoad, TraceOp};
pub use workload::{JobsBeside, Length, ParseWorkloadError, RandomDistribution, Rw, Workload, WriteSync};
