//! What a model is asked about, and what it is calibrated by: a path with a workload, and quantities of it.

use crate::parameter::Quantile;
use iopj_core::workload::Rw;
use iopj_core::{IoPath, Workload};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A path with a closed workload: each of `numjobs` threads keeps `iodepth` I/Os in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Case {
    /// The path.
    pub path: IoPath,
    /// Direction and order.
    pub rw: Rw,
    /// Share of reads in a mixed workload, in per cent.
    pub rwmixread: u8,
    /// Size of an I/O in bytes.
    pub bs: u32,
    /// I/Os that each job keeps in flight.
    pub iodepth: u32,
    /// Threads.
    pub numjobs: u32,
    /// The most I/Os that are submitted at once.
    pub batch: u32,
    /// Processors that the jobs may use.
    pub cores: u32,
}

impl Case {
    /// A path with a workload on so many cores.
    ///
    /// # Errors
    /// The workload has something that no closed formula describes; what.
    pub fn of(path: IoPath, workload: &Workload, cores: u32) -> Result<Case, NotClosed> {
        let outside = [
            (workload.trace.is_some(), "a trace"),
            (workload.open.is_some(), "an open load"),
            (workload.sizes.is_some(), "several sizes (bssplit)"),
            (!workload.beside.is_empty(), "jobs of several kinds"),
            (workload.corunner.is_some(), "a co-runner"),
            (workload.told.is_some() || path.is_program(), "a program"),
            (path.auto().is_some(), "auto, which takes other paths"),
            (workload.fsync > 0 || workload.fdatasync > 0, "fsync or fdatasync"),
            (workload.sync != iopj_core::workload::WriteSync::None, "durable writes"),
        ];
        if let Some((_, what)) = outside.into_iter().find(|(is_so, _)| *is_so) {
            return Err(NotClosed(what));
        }
        Ok(Case {
            path,
            rw: workload.rw,
            rwmixread: workload.rwmixread,
            bs: workload.bs,
            iodepth: workload.iodepth,
            numjobs: workload.numjobs,
            batch: workload.iodepth_batch_submit.max(workload.iodepth_batch_complete_min),
            cores: match workload.cpus_allowed.len() {
                0 => cores,
                some => u32::try_from(some).unwrap_or(u32::MAX),
            },
        })
    }

    /// I/Os that one job has in flight: a synchronous path has no more than one.
    pub fn depth(&self) -> u32 {
        if self.path.is_synchronous() { 1 } else { self.iodepth }
    }

    /// The workload in fio's words.
    pub fn workload(&self) -> String {
        let mix = if self.rw.is_mixed() { format!(" ({} % reads)", self.rwmixread) } else { String::new() };
        let batch = if self.batch > 1 { format!(", batches of {}", self.batch) } else { String::new() };
        format!("{}{mix}, bs {}, iodepth {}, numjobs {}{batch}", self.rw, self.bs, self.iodepth, self.numjobs)
    }
}

/// What a workload has that the model's closed formulas do not describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{0}")]
pub struct NotClosed(pub &'static str);

/// Something that is measured and predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// I/Os per second.
    Iops,
    /// Mean latency in ns.
    LatencyMean,
    /// Median latency in ns.
    LatencyP50,
    /// 99th percentile in ns.
    LatencyP99,
    /// 99.9th percentile in ns.
    #[serde(rename = "latency_p99.9")]
    LatencyP99_9,
    /// CPU time of the threads that do or serve an I/O, in ns.
    CpuPerIo,
    /// Context switches per I/O of threads that sleep.
    ContextSwitches,
    /// Instructions per I/O.
    Instructions,
    /// Power of the whole machine in W.
    Watts,
    /// I/Os per joule of the whole machine.
    IosPerJoule,
    /// Cores that are not deeply idle, on average.
    AwakeCores,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Quantity; 11] = [
        Quantity::Iops,
        Quantity::LatencyMean,
        Quantity::LatencyP50,
        Quantity::LatencyP99,
        Quantity::LatencyP99_9,
        Quantity::CpuPerIo,
        Quantity::ContextSwitches,
        Quantity::Instructions,
        Quantity::Watts,
        Quantity::IosPerJoule,
        Quantity::AwakeCores,
    ];

    /// True if more of it is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Quantity::Iops | Quantity::IosPerJoule)
    }

    /// Its name with the unit in which people read it, and the factor to that unit.
    pub fn shown(self) -> (&'static str, f64) {
        match self {
            Quantity::Iops => ("IOPS", 1.0),
            Quantity::LatencyMean => ("mean us", 1e-3),
            Quantity::LatencyP50 => ("p50 us", 1e-3),
            Quantity::LatencyP99 => ("p99 us", 1e-3),
            Quantity::LatencyP99_9 => ("p99.9 us", 1e-3),
            Quantity::CpuPerIo => ("CPU us/IO", 1e-3),
            Quantity::ContextSwitches => ("ctx/IO", 1.0),
            Quantity::Instructions => ("instr/IO", 1.0),
            Quantity::Watts => ("W", 1.0),
            Quantity::IosPerJoule => ("IO/J", 1.0),
            Quantity::AwakeCores => ("awake cores", 1.0),
        }
    }

    /// True of latencies.
    pub fn is_latency(self) -> bool {
        self == Quantity::LatencyMean || self.quantile().is_some()
    }

    /// The quantile that it is.
    pub fn quantile(self) -> Option<Quantile> {
        match self {
            Quantity::LatencyP50 => Some(Quantile::P50),
            Quantity::LatencyP99 => Some(Quantile::P99),
            Quantity::LatencyP99_9 => Some(Quantile::P99_9),
            _ => None,
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quantity::Iops => "iops",
            Quantity::LatencyMean => "latency_mean",
            Quantity::LatencyP50 => "latency_p50",
            Quantity::LatencyP99 => "latency_p99",
            Quantity::LatencyP99_9 => "latency_p99.9",
            Quantity::CpuPerIo => "cpu_per_io",
            Quantity::ContextSwitches => "context_switches_per_io",
            Quantity::Instructions => "instructions_per_io",
            Quantity::Watts => "watts",
            Quantity::IosPerJoule => "ios_per_joule",
            Quantity::AwakeCores => "awake_cores",
        })
    }
}

/// One measured quantity of a case, over its replicates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The case.
    pub case: Case,
    /// What was measured.
    pub quantity: Quantity,
    /// Its geometric mean over the replicates.
    pub value: f64,
    /// The variance of that mean's logarithm that the replicates show; 0 where there is one.
    pub variance: f64,
    /// Replicates.
    pub replicates: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_other_paths_calibrates_no_model() {
        let of = |path: &str| Case::of(path.parse().unwrap(), &Workload::default(), 2);
        for path in ["auto", "auto:io_uring/syscall/interrupt"] {
            assert_eq!(of(path), Err(NotClosed("auto, which takes other paths")), "{path}");
        }
        assert_eq!(of("io_uring/syscall/interrupt").map(|case| case.cores), Ok(2));
    }
}
