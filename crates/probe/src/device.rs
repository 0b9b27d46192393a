//! One whole disk: where it is, which interrupts it raises, its counters and queue settings.
//!
//! Source: Documentation/ABI/stable/sysfs-block.

use crate::error::ProbeError;
use crate::interrupts::{InterruptCounts, InterruptTable};
use crate::root::{Root, names, text, text_if_there};
use crate::vectors::{self, Vectors};
use iopj_core::evidence::DeviceEvidence;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Queue settings that affect the path or the cost of an I/O.
const SETTINGS: [&str; 10] = [
    "io_poll",
    "io_poll_delay",
    "iostats",
    "iostats_passthrough",
    "nomerges",
    "nr_requests",
    "rq_affinity",
    "scheduler",
    "wbt_lat_usec",
    "write_cache",
];

/// A disk may share its interrupts with others (namespaces of one controller, ports of one host adapter);
/// these may have done at most one I/O in the window per so many of its own.
const OWN_PER_PEER: u64 = 1000;

/// What does not change about a disk.
#[derive(Debug)]
pub(crate) struct Device {
    name: String,
    queue: PathBuf,
    stat: PathBuf,
    /// Counters of other disks that raise the same interrupts.
    peers: Vec<PathBuf>,
    vectors: Option<Vectors>,
}

/// The counters of a disk at one moment.
#[derive(Clone, Debug)]
pub(crate) struct DiskCounts {
    stat: DiskStat,
    peer_ios: u64,
    settings: BTreeMap<String, String>,
}

impl Device {
    pub(crate) fn find(
        root: &Root,
        name: &str,
        interrupts: &InterruptTable<'_>,
    ) -> Result<Device, ProbeError> {
        let block = root.path("sys/block");
        let unknown = || ProbeError::NoDevice(name.to_owned());
        if !names(&block).iter().any(|known| known == name) {
            return Err(unknown());
        }
        let place = fs::canonicalize(block.join(name)).map_err(|_| unknown())?;
        let vectors = vectors::find(&place, interrupts);
        let is_peer = |other: &String| {
            let owner = vectors.as_ref().map(|vectors| &vectors.owner);
            other != name
                && fs::canonicalize(block.join(other))
                    .is_ok_and(|it| owner.is_some_and(|owner| it.starts_with(owner)))
        };
        let peers = names(&block)
            .iter()
            .filter(|other| is_peer(other))
            .map(|it| block.join(it).join("stat"))
            .collect();
        let (queue, stat) = (place.join("queue"), place.join("stat"));
        Ok(Device { name: name.to_owned(), queue, stat, peers, vectors })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The numbers of its interrupts.
    pub(crate) fn irqs(&self) -> impl Iterator<Item = u32> {
        self.vectors.iter().flat_map(|vectors| vectors.list.iter().map(|(irq, _)| *irq))
    }

    pub(crate) fn sample(&self) -> Result<DiskCounts, ProbeError> {
        let stat = DiskStat::read(&self.stat)?;
        let mut peer_ios = 0;
        for path in &self.peers {
            // A peer may be pulled out; it then does no I/O either.
            if let Some(text) = text_if_there(path)? {
                peer_ios += DiskStat::parse(&text).map_or(0, |stat| stat.total());
            }
        }
        Ok(DiskCounts { stat, peer_ios, settings: settings(&self.queue) })
    }

    /// The sums of the times of its reads and of its writes from `earlier` to `later`, in ms.
    pub(crate) fn times_ms(earlier: &DiskCounts, later: &DiskCounts) -> [u64; 2] {
        [3, 7].map(|field| since_u32(later.stat.0[field], earlier.stat.0[field]))
    }

    /// What the disk did from `earlier` to `later`.
    pub(crate) fn between(
        &self,
        earlier: (&DiskCounts, &InterruptCounts),
        later: (&DiskCounts, &InterruptCounts),
    ) -> DeviceEvidence {
        let delta = later.0.stat.since(&earlier.0.stat);
        let peer_ios = later.0.peer_ios.saturating_sub(earlier.0.peer_ios);
        let is_alone = peer_ios <= (delta.reads() + delta.writes()) / OWN_PER_PEER;
        let vectors = self.vectors.iter().flat_map(|vectors| &vectors.list);
        let is_distinct = self.vectors.is_some() && is_alone;
        let interrupts = is_distinct.then(|| later.1.since(earlier.1, vectors.clone())).flatten();
        DeviceEvidence {
            name: self.name.clone(),
            reads: delta.reads(),
            read_merges: delta.0[1],
            read_sectors: delta.0[2],
            writes: delta.writes(),
            write_merges: delta.0[5],
            write_sectors: delta.0[6],
            discards: delta.discards(),
            flushes: delta.flushes(),
            in_queue_ms: delta.0[10],
            interrupts,
            vectors: vectors.map(|(irq, name)| format!("{irq} {name}")).collect(),
            settings: later.0.settings.clone().into(),
            taken_by: None,
            by_log: false,
        }
    }
}

/// Some settings exist only for some drivers, some cannot be read where they mean nothing.
fn settings(queue: &Path) -> BTreeMap<String, String> {
    let read = |name: &str| Some((name.to_owned(), chosen(text(&queue.join(name)).ok()?.trim()).to_owned()));
    SETTINGS.into_iter().filter_map(read).collect()
}

/// The entry in brackets of a list such as `none [mq-deadline] bfq`, else the whole text.
fn chosen(text: &str) -> &str {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(entry, _)| entry)
}

/// The fields of `/sys/block/X/stat`; the last six are absent on old kernels.
#[derive(Clone, Debug, Default, PartialEq)]
struct DiskStat([u64; 17]);

/// Fields before the discards, that every kernel has.
const STAT_MIN: usize = 11;

impl DiskStat {
    fn read(path: &Path) -> Result<DiskStat, ProbeError> {
        let what = "eleven counters";
        DiskStat::parse(&text(path)?).ok_or_else(|| ProbeError::Form { path: path.to_owned(), what })
    }

    fn parse(text: &str) -> Option<DiskStat> {
        let mut stat = DiskStat::default();
        let mut fields = 0;
        for (field, word) in stat.0.iter_mut().zip(text.split_whitespace()) {
            *field = word.parse().ok()?;
            fields += 1;
        }
        (fields >= STAT_MIN).then_some(stat)
    }

    fn since(&self, earlier: &DiskStat) -> DiskStat {
        let mut delta = self.clone();
        for (field, before) in delta.0.iter_mut().zip(earlier.0) {
            *field = field.saturating_sub(before);
        }
        delta.0[10] = since_u32(self.0[10], earlier.0[10]);
        delta
    }

    fn reads(&self) -> u64 {
        self.0[0]
    }

    fn writes(&self) -> u64 {
        self.0[4]
    }

    fn discards(&self) -> u64 {
        self.0[11]
    }

    fn flushes(&self) -> u64 {
        self.0[15]
    }

    /// Everything for which the disk interrupts.
    fn total(&self) -> u64 {
        [self.reads(), self.writes(), self.discards(), self.flushes()]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// The time in the queue is printed as 32 bits of milliseconds: nine hours at a depth of 128.
fn since_u32(later: u64, earlier: u64) -> u64 {
    match later.checked_sub(earlier) {
        Some(delta) => delta,
        None => u64::from((later as u32).wrapping_sub(earlier as u32)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "  111197     8864  7708898    43142    16066    39930  8985552    22132        0    \
                        14504    66084 7130       52  2741320      753     1497       56\n";

    #[test]
    fn stat_has_its_fields_in_the_documented_order() {
        let stat = DiskStat::parse(TEXT).unwrap();
        assert_eq!((stat.reads(), stat.0[1], stat.0[2]), (111_197, 8_864, 7_708_898));
        assert_eq!((stat.writes(), stat.0[5], stat.0[6]), (16_066, 39_930, 8_985_552));
        assert_eq!((stat.0[10], stat.discards(), stat.flushes()), (66_084, 7_130, 1_497));
        assert_eq!(stat.total(), 111_197 + 16_066 + 7_130 + 1_497);
        assert_eq!(DiskStat::parse("1 2 3 4 5 6 7 8 9 10"), None);
        assert!(DiskStat::parse("1 2 3 4 5 6 7 8 9 10 11").is_some());
        assert_eq!(DiskStat::parse("1 2 x 4 5 6 7 8 9 10 11"), None);
    }

    #[test]
    fn differences_neither_panic_nor_go_below_zero() {
        let (mut earlier, mut later) = (DiskStat::parse(TEXT).unwrap(), DiskStat::parse(TEXT).unwrap());
        (earlier.0[10], later.0[10]) = (u64::from(u32::MAX) - 9, 5);
        (earlier.0[0], later.0[0]) = (100, 40);
        let delta = later.since(&earlier);
        assert_eq!((delta.reads(), delta.writes(), delta.0[10]), (0, 0, 15));
    }

    #[test]
    fn the_entry_in_brackets_is_chosen() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq"), "mq-deadline");
        assert_eq!(chosen("write back"), "write back");
        assert_eq!(chosen("]none["), "]none[");
    }

    proptest! {
        #[test]
        fn any_stat_is_read_without_panic(text in "[ 0-9\n-]{0,200}|\\PC*") {
            if let Some(stat) = DiskStat::parse(&text) {
                prop_assert_eq!(stat.since(&stat), DiskStat::default());
            }
        }

        #[test]
        fn differences_of_any_counts_do_not_panic(a: [u64; 17], b: [u64; 17]) {
            let delta = DiskStat(a).since(&DiskStat(b));
            prop_assert!(delta.reads() <= a[0] && delta.total() >= delta.flushes());
        }
    }
}
