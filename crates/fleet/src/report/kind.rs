//! What a data set says of one kind of machine.

use super::drift::Drift;
use super::outliers::Outlier;
use super::winners::WorkloadReport;
use crate::table::Kind;
use iopj_model::Observation;
use serde::Serialize;
use std::collections::BTreeMap;

/// A kind of machine.
#[derive(Clone, Debug, Serialize)]
pub struct KindReport {
    /// Processor and cores.
    pub machine: String,
    /// The drives' models.
    pub drive: String,
    /// The kernel's release.
    pub kernel: String,
    /// Hosts, stores, and trials that count.
    pub hosts: usize,
    /// Stores.
    pub stores: usize,
    /// Trials.
    pub trials: u64,
    /// Of these, trials whose path was not taken.
    pub refuted: u64,
    /// Of these, trials that failed.
    pub failed: u64,
    /// When the first and the last trial began, in ns since 1970.
    pub span_ns: Option<[i64; 2]>,
    /// The names of its hosts.
    #[serde(skip)]
    pub host_names: Vec<String>,
    /// Each workload: which path wins, and which to take.
    pub workloads: Vec<WorkloadReport>,
    /// Hosts far from the others.
    pub outliers: Vec<Outlier>,
    /// What a month changes; absent where too few hosts were measured in several months.
    pub drift: Option<Drift>,
    /// What a cost model of the kind is calibrated by.
    #[serde(skip)]
    pub observations: Vec<Observation>,
    /// Facts about the machine for that model.
    #[serde(skip)]
    pub provenance: BTreeMap<String, String>,
}

impl KindReport {
    /// The kind.
    pub fn kind(&self) -> Kind {
        Kind { machine: self.machine.clone(), drive: self.drive.clone(), kernel: self.kernel.clone() }
    }
}
