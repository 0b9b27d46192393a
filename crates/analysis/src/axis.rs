//! The axes of winner maps: dimensions of the workload, and values on them.

use iopj_core::{CorunnerKind, Rw, Workload, format_bytes};
use std::fmt;
use std::str::FromStr;

/// A dimension of the workload that a map runs along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Direction and order.
    Rw,
    /// Size of one I/O.
    Bs,
    /// I/Os in flight of each job.
    Iodepth,
    /// Jobs.
    Numjobs,
    /// Rate of each job under an open load.
    RateIops,
    /// What works beside the I/O.
    Corunner,
}

impl Axis {
    /// All of them.
    pub const ALL: [Axis; 6] =
        [Axis::Rw, Axis::Bs, Axis::Iodepth, Axis::Numjobs, Axis::RateIops, Axis::Corunner];

    /// The axis's word, fio's.
    pub fn as_str(self) -> &'static str {
        match self {
            Axis::Rw => "rw",
            Axis::Bs => "bs",
            Axis::Iodepth => "iodepth",
            Axis::Numjobs => "numjobs",
            Axis::RateIops => "rate_iops",
            Axis::Corunner => "corunner",
        }
    }

    /// The workload's value on the axis.
    pub fn value(self, workload: &Workload) -> AxisValue {
        match self {
            Axis::Rw => AxisValue::Rw(workload.rw),
            Axis::Bs => AxisValue::Bs(workload.bs),
            Axis::Iodepth => AxisValue::Count(workload.iodepth),
            Axis::Numjobs => AxisValue::Count(workload.numjobs),
            Axis::RateIops => AxisValue::Rate(workload.open.map(|open| open.rate_iops)),
            Axis::Corunner => AxisValue::Corunner(workload.corunner.as_ref().map(|one| one.kind)),
        }
    }

    /// Makes workloads that differ along this axis alone equal.
    pub fn clear(self, workload: &mut Workload) {
        workload.clear(self.as_str());
    }
}

/// A word that names no axis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an axis of a winner map: use one of {all}",
    all = Axis::ALL.map(Axis::as_str).join(", ")
)]
pub struct UnknownAxis(pub String);

impl FromStr for Axis {
    type Err = UnknownAxis;

    fn from_str(text: &str) -> Result<Axis, UnknownAxis> {
        let named = Axis::ALL.into_iter().find(|axis| axis.as_str() == text);
        named.ok_or_else(|| UnknownAxis(text.to_owned()))
    }
}

/// A value on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AxisValue {
    /// Direction and order.
    Rw(Rw),
    /// Bytes.
    Bs(u32),
    /// I/Os in flight, or jobs.
    Count(u32),
    /// I/Os per second of each job; none for a closed loop.
    Rate(Option<u32>),
    /// What works beside the I/O, if anything does.
    Corunner(Option<CorunnerKind>),
}

impl AxisValue {
    /// True for the value of a workload that lacks what the axis is about.
    pub fn is_none(self) -> bool {
        matches!(self, AxisValue::Rate(None) | AxisValue::Corunner(None))
    }
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AxisValue::Rw(rw) => write!(f, "{rw}"),
            AxisValue::Bs(bytes) => f.write_str(&format_bytes(u64::from(*bytes))),
            AxisValue::Count(count) => write!(f, "{count}"),
            AxisValue::Rate(Some(rate)) => write!(f, "{rate}"),
            AxisValue::Corunner(Some(kind)) => write!(f, "{kind}"),
            AxisValue::Rate(None) | AxisValue::Corunner(None) => f.write_str("none"),
        }
    }
}
