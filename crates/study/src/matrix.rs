//! `[[workload]]` of a study: a matrix of workloads, every key in fio's words.

use crate::axis::Axis;
use serde::{Deserialize, Serialize};

/// `[[workload]]`: every key in fio's words.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct WorkloadMatrix {
    pub paths: Option<Axis<String>>,
    pub rw: Option<Axis<String>>,
    pub rwmixread: Option<Axis<u8>>,
    pub bs: Option<Axis<String>>,
    pub bssplit: Option<Axis<String>>,
    pub fsync: Option<Axis<u32>>,
    pub fdatasync: Option<Axis<u32>>,
    pub sync: Option<Axis<String>>,
    pub iodepth: Option<Axis<u32>>,
    pub iodepth_batch_submit: Option<Axis<u32>>,
    pub iodepth_batch_complete_min: Option<Axis<u32>>,
    pub numjobs: Option<Axis<u32>>,
    pub random_distribution: Option<Axis<String>>,
    pub cpus_allowed: Option<String>,
    pub ramp_time: Option<String>,
    pub runtime: Option<String>,
    pub ios: Option<u64>,
    pub rate_iops: Option<Axis<u32>>,
    pub rate_process: Option<Axis<String>>,
    pub rate_iops_end: Option<u32>,
    pub burst_on: Option<String>,
    pub burst_off: Option<String>,
    pub read_iolog: Option<String>,
    pub replay_time_scale: Option<Axis<u32>>,
    pub replay_no_stall: Option<Axis<bool>>,
    pub replay_scale: Option<u64>,
    pub replay_align: Option<String>,
    pub replay_map: Option<String>,
    pub replay_device: Option<String>,
    pub replay_skip: Option<Axis<String>>,
    pub corunner: Option<Axis<String>>,
    pub corunner_cpus: Option<String>,
    pub corunner_nice: Option<Axis<i32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<WorkloadMatrix>,
}

impl WorkloadMatrix {
    /// How many workloads the matrix has, counted without making them.
    pub(crate) fn count(&self) -> u64 {
        fn of<T: Clone>(axis: &Option<Axis<T>>) -> u64 {
            axis.as_ref().map_or(1, Axis::count)
        }
        let batches = [of(&self.iodepth_batch_submit), of(&self.iodepth_batch_complete_min)];
        let others = [of(&self.rw), of(&self.rwmixread), of(&self.bs), of(&self.iodepth), of(&self.numjobs)];
        let spreads = [of(&self.random_distribution), of(&self.rate_iops), of(&self.rate_process)];
        let corunners = [of(&self.corunner), of(&self.corunner_nice)];
        let flushes = [of(&self.bssplit), of(&self.fsync), of(&self.fdatasync), of(&self.sync)];
        let traces = [of(&self.replay_time_scale), of(&self.replay_no_stall)];
        batches
            .into_iter()
            .chain(others)
            .chain(spreads)
            .chain(corunners)
            .chain(traces)
            .chain(flushes)
            .chain(self.beside.iter().map(|jobs| of(&jobs.paths).saturating_mul(jobs.count())))
            .fold(1, u64::saturating_mul)
    }
}
