//! The workload in JSON.

use crate::corunner::{Corunner, CorunnerKind};
use crate::open_load::{Burst, OpenLoad, RateProcess};
use crate::sizes::BlockSizes;
use crate::trace_load::TraceLoad;
use crate::workload::{JobsBeside, Length, Rw, Workload, WriteSync};
use std::time::Duration;

/// The flat form of a workload in JSON: times as integer nanoseconds. What only an open load has is absent
/// from a closed one.
#[derive(serde::Serialize, serde::Deserialize)]
struct Flat {
    rw: Rw,
    rwmixread: u8,
    bs: u32,
    iodepth: u32,
    iodepth_batch_submit: u32,
    iodepth_batch_complete_min: u32,
    numjobs: u32,
    ramp_time_ns: u64,
    runtime_ns: Option<u64>,
    ios: Option<u64>,
    random_distribution: String,
    cpus_allowed: Vec<u32>,
    #[serde(flatten)]
    open: FlatOpen,
    #[serde(flatten)]
    corunner: FlatCorunner,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bssplit: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    fsync: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    fdatasync: u32,
    #[serde(default, skip_serializing_if = "is_none")]
    sync: WriteSync,
    #[serde(flatten)]
    trace: Option<TraceLoad>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beside: Vec<JobsBeside>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<Vec<String>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_none(sync: &WriteSync) -> bool {
    *sync == WriteSync::None
}

/// The flat form of a co-runner; without one nothing.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct FlatCorunner {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    corunner: Option<CorunnerKind>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    corunner_cpus: Vec<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    corunner_nice: Option<i8>,
}

impl From<&Corunner> for FlatCorunner {
    fn from(corunner: &Corunner) -> FlatCorunner {
        FlatCorunner {
            corunner: Some(corunner.kind),
            corunner_cpus: corunner.cpus.clone(),
            corunner_nice: Some(corunner.nice),
        }
    }
}

impl From<FlatCorunner> for Option<Corunner> {
    fn from(flat: FlatCorunner) -> Option<Corunner> {
        flat.corunner.map(|kind| {
            let plain = Corunner::of(kind);
            Corunner { kind, cpus: flat.corunner_cpus, nice: flat.corunner_nice.unwrap_or(plain.nice) }
        })
    }
}

/// The flat form of an open load; of a closed one nothing.
#[derive(Default, serde::Serialize, serde::Deserialize)]
struct FlatOpen {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_iops: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_process: Option<RateProcess>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rate_iops_end: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst_on_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst_off_ns: Option<u64>,
}

impl From<&OpenLoad> for FlatOpen {
    fn from(open: &OpenLoad) -> FlatOpen {
        FlatOpen {
            rate_iops: Some(open.rate_iops),
            rate_process: Some(open.rate_process),
            rate_iops_end: open.rate_iops_end,
            burst_on_ns: open.burst.map(|burst| nanoseconds(burst.on)),
            burst_off_ns: open.burst.map(|burst| nanoseconds(burst.off)),
        }
    }
}

impl From<FlatOpen> for Option<OpenLoad> {
    fn from(flat: FlatOpen) -> Option<OpenLoad> {
        let burst = flat.burst_on_ns.zip(flat.burst_off_ns);
        flat.rate_iops.map(|rate_iops| OpenLoad {
            rate_iops,
            rate_process: flat.rate_process.unwrap_or_default(),
            rate_iops_end: flat.rate_iops_end,
            burst: burst
                .map(|(on, off)| Burst { on: Duration::from_nanos(on), off: Duration::from_nanos(off) }),
        })
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl serde::Serialize for Workload {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (runtime_ns, ios) = match self.length {
            Length::Runtime(time) => (Some(nanoseconds(time)), None),
            Length::Ios(ios) => (None, Some(ios)),
        };
        Flat {
            rw: self.rw,
            rwmixread: self.rwmixread,
            bs: self.bs,
            iodepth: self.iodepth,
            iodepth_batch_submit: self.iodepth_batch_submit,
            iodepth_batch_complete_min: self.iodepth_batch_complete_min,
            numjobs: self.numjobs,
            ramp_time_ns: nanoseconds(self.ramp_time),
            runtime_ns,
            ios,
            random_distribution: self.random_distribution.to_string(),
            cpus_allowed: self.cpus_allowed.clone(),
            open: self.open.as_ref().map(FlatOpen::from).unwrap_or_default(),
            corunner: self.corunner.as_ref().map(FlatCorunner::from).unwrap_or_default(),
            bssplit: self.sizes.as_ref().map(BlockSizes::to_string),
            fsync: self.fsync,
            fdatasync: self.fdatasync,
            sync: self.sync,
            trace: self.trace.clone(),
            beside: self.beside.clone(),
            told: self.told.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> serde::Deserialize<'de> for Workload {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Workload, D::Error> {
        use serde::de::Error;
        let flat = Flat::deserialize(deserializer)?;
        let length = match (flat.runtime_ns, flat.ios) {
            (Some(ns), None) => Length::Runtime(Duration::from_nanos(ns)),
            (None, Some(ios)) => Length::Ios(ios),
            _ => return Err(D::Error::custom("a workload has either runtime_ns or ios")),
        };
        Ok(Workload {
            rw: flat.rw,
            rwmixread: flat.rwmixread,
            bs: flat.bs,
            iodepth: flat.iodepth,
            iodepth_batch_submit: flat.iodepth_batch_submit,
            iodepth_batch_complete_min: flat.iodepth_batch_complete_min,
            numjobs: flat.numjobs,
            ramp_time: Duration::from_nanos(flat.ramp_time_ns),
            length,
            random_distribution: flat.random_distribution.parse().map_err(D::Error::custom)?,
            cpus_allowed: flat.cpus_allowed,
            open: flat.open.into(),
            corunner: flat.corunner.into(),
            sizes: flat.bssplit.map(|text| text.parse()).transpose().map_err(D::Error::custom)?,
            fsync: flat.fsync,
            fdatasync: flat.fdatasync,
            sync: flat.sync,
            trace: flat.trace,
            beside: flat.beside,
            told: flat.told,
        })
    }
}
