//! The workload: what a path is asked to do, in fio's words.

use crate::corunner::Corunner;
use crate::open_load::OpenLoad;
use crate::sizes::BlockSizes;
use crate::trace_load::TraceLoad;
use iopj_path::path::IoPath;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::time::Duration;

/// Direction and order of the I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rw {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    Randread,
    /// Random writes.
    Randwrite,
    /// Sequential reads and writes mixed by `rwmixread`.
    Rw,
    /// Random reads and writes mixed by `rwmixread`.
    Randrw,
}

impl Rw {
    const ALL: [Rw; 6] = [Rw::Read, Rw::Write, Rw::Randread, Rw::Randwrite, Rw::Rw, Rw::Randrw];

    /// All words.
    pub const WORDS: [&'static str; 6] = ["read", "write", "randread", "randwrite", "rw", "randrw"];

    /// True if any write is issued.
    pub fn writes(self) -> bool {
        !matches!(self, Rw::Read | Rw::Randread)
    }

    /// True if any read is issued.
    pub fn reads(self) -> bool {
        !matches!(self, Rw::Write | Rw::Randwrite)
    }

    /// True if offsets are drawn at random.
    pub fn is_random(self) -> bool {
        matches!(self, Rw::Randread | Rw::Randwrite | Rw::Randrw)
    }

    /// True if reads and writes are mixed.
    pub fn is_mixed(self) -> bool {
        matches!(self, Rw::Rw | Rw::Randrw)
    }
}

impl fmt::Display for Rw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Rw::WORDS[Rw::ALL.iter().position(|rw| rw == self).unwrap_or_default()])
    }
}

impl FromStr for Rw {
    type Err = ParseWorkloadError;

    fn from_str(text: &str) -> Result<Rw, ParseWorkloadError> {
        let found = Rw::ALL.into_iter().find(|rw| rw.to_string() == text);
        found.ok_or_else(|| ParseWorkloadError::Rw(text.to_owned()))
    }
}

/// A text that is not a value of one of the workload's keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseWorkloadError {
    /// Not a direction and order.
    #[error("`{0}` is not a value of rw; there are {all}", all = Rw::WORDS.join(", "))]
    Rw(String),
    /// Not a way to make writes durable.
    #[error("`{0}` is not a value of sync; there are {all}", all = WriteSync::WORDS.join(", "))]
    Sync(String),
    /// Not a distribution of random offsets.
    #[error("`{0}` is not a random_distribution; write uniform or zipf:1.2")]
    RandomDistribution(String),
}

/// Whether each write is durable when it completes, in fio's words.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum WriteSync {
    /// It is not: it may lie in the drive's cache.
    #[default]
    None,
    /// Its data and the file's times are (`O_SYNC`, `RWF_SYNC`).
    Sync,
    /// Its data are (`O_DSYNC`, `RWF_DSYNC`). A drive knows but this: FUA.
    Dsync,
}

impl WriteSync {
    const ALL: [WriteSync; 3] = [WriteSync::None, WriteSync::Sync, WriteSync::Dsync];

    /// All words.
    pub const WORDS: [&'static str; 3] = ["none", "sync", "dsync"];
}

impl fmt::Display for WriteSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WriteSync::WORDS[*self as usize])
    }
}

impl FromStr for WriteSync {
    type Err = ParseWorkloadError;

    fn from_str(text: &str) -> Result<WriteSync, ParseWorkloadError> {
        let found = WriteSync::ALL.into_iter().find(|sync| sync.to_string() == text);
        found.ok_or_else(|| ParseWorkloadError::Sync(text.to_owned()))
    }
}

/// How random offsets are spread over the target.
#[derive(Clone, Copy, Debug, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RandomDistribution {
    /// Every block is equally likely.
    #[default]
    Uniform,
    /// Zipf with this exponent over the blocks, their ranks scattered over the target.
    Zipf(f64),
}

/// Every exponent that is parsed equals itself.
impl Eq for RandomDistribution {}

impl Hash for RandomDistribution {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            RandomDistribution::Uniform => 0_u64.hash(state),
            RandomDistribution::Zipf(theta) => theta.to_bits().hash(state),
        }
    }
}

impl fmt::Display for RandomDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RandomDistribution::Uniform => f.write_str("uniform"),
            RandomDistribution::Zipf(theta) => write!(f, "zipf:{theta}"),
        }
    }
}

impl FromStr for RandomDistribution {
    type Err = ParseWorkloadError;

    fn from_str(text: &str) -> Result<RandomDistribution, ParseWorkloadError> {
        if text == "uniform" {
            return Ok(RandomDistribution::Uniform);
        }
        text.strip_prefix("zipf:")
            .and_then(|theta| theta.parse::<f64>().ok())
            .filter(|theta| theta.is_finite() && *theta > 0.0)
            .map(RandomDistribution::Zipf)
            .ok_or_else(|| ParseWorkloadError::RandomDistribution(text.to_owned()))
    }
}

/// How long the measured window of a trial lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Length {
    /// A time.
    Runtime(Duration),
    /// A number of I/Os per job.
    Ios(u64),
}

impl Length {
    /// As long as a trace lasts.
    pub const WHOLE_TRACE: Length = Length::Ios(i64::MAX as u64);
}

/// Jobs of another kind beside those of a workload, as a database's log writer is beside its readers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct JobsBeside {
    /// Their path.
    pub path: IoPath,
    /// What they do. Its ramp and its window are those of the workload that they are beside; it has no jobs
    /// beside, no co-runner and no trace of its own.
    pub workload: Workload,
}

/// One workload. A closed loop, in which each job keeps `iodepth` I/Os in flight, unless the load is open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Workload {
    /// Direction and order.
    pub rw: Rw,
    /// Share of reads in a mixed workload, in per cent.
    pub rwmixread: u8,
    /// Size of one I/O in bytes.
    pub bs: u32,
    /// I/Os that each job keeps in flight; under an open load, the most that it has in flight.
    pub iodepth: u32,
    /// The most I/Os that are submitted at once.
    pub iodepth_batch_submit: u32,
    /// The fewest I/Os that a job waits for at once.
    pub iodepth_batch_complete_min: u32,
    /// Threads that do I/O.
    pub numjobs: u32,
    /// Time for which the workload runs before it is measured.
    pub ramp_time: Duration,
    /// Length of the measured window.
    pub length: Length,
    /// Spread of random offsets.
    pub random_distribution: RandomDistribution,
    /// Processors that every job may use; empty means all.
    pub cpus_allowed: Vec<u32>,
    /// When I/Os arrive, if the load is open.
    pub open: Option<OpenLoad>,
    /// Work that others do beside the I/O.
    pub corunner: Option<Corunner>,
    /// Sizes of which each I/O has one, if there are several; then `bs` is the largest.
    pub sizes: Option<BlockSizes>,
    /// Each job asks for `fsync` after so many writes; 0 is never.
    pub fsync: u32,
    /// The same for `fdatasync`; on a device both flush its cache.
    pub fdatasync: u32,
    /// Whether each write is durable when it completes.
    pub sync: WriteSync,
    /// The trace that is replayed; then `rw` says what it may do, `bs` is the longest I/O, and a length of
    /// [`Length::WHOLE_TRACE`] is the whole of it.
    pub trace: Option<TraceLoad>,
    /// Jobs of other kinds that do I/O at the same time, each kind on a path of its own.
    pub beside: Vec<JobsBeside>,
    /// Of a program's workload, the keys whose values it is told; all others mean nothing. Absent where iopj
    /// or fio does the I/O.
    pub told: Option<Vec<String>>,
}

impl Default for Workload {
    fn default() -> Workload {
        Workload {
            rw: Rw::Randread,
            rwmixread: 50,
            bs: 4096,
            iodepth: 1,
            iodepth_batch_submit: 1,
            iodepth_batch_complete_min: 1,
            numjobs: 1,
            ramp_time: Duration::ZERO,
            length: Length::Runtime(Duration::from_secs(10)),
            random_distribution: RandomDistribution::Uniform,
            cpus_allowed: Vec::new(),
            open: None,
            corunner: None,
            sizes: None,
            fsync: 0,
            fdatasync: 0,
            sync: WriteSync::None,
            trace: None,
            beside: Vec::new(),
            told: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rw_words_are_fios() {
        for (rw, name) in Rw::ALL.into_iter().zip(Rw::WORDS) {
            assert_eq!(rw.to_string(), name);
            assert_eq!(name.parse(), Ok(rw));
            assert_eq!(serde_json::to_value(rw).unwrap(), name);
        }
        for (sync, name) in WriteSync::ALL.into_iter().zip(WriteSync::WORDS) {
            assert_eq!((sync.to_string().as_str(), name.parse()), (name, Ok(sync)));
            assert_eq!(serde_json::to_value(sync).unwrap(), name);
        }
        let refused = "1".parse::<WriteSync>().unwrap_err().to_string();
        assert_eq!(refused, "`1` is not a value of sync; there are none, sync, dsync");
        assert!("trim".parse::<Rw>().unwrap_err().to_string().contains("randrw"));
        assert!(Rw::Randrw.writes() && Rw::Randrw.reads() && !Rw::Randread.writes() && !Rw::Write.reads());
    }
}
