//! The rings of another process, by what the kernel says of their descriptors (`/proc/PID/fdinfo`,
//! io_uring/fdinfo.c).

use crate::root::{Root, names, text_if_there};
use iopj_core::evidence::RingEvidence;
use std::collections::BTreeMap;
use std::fs;

/// What the kernel shows instead of a file's name for the descriptor of a ring.
pub(crate) const RING: &str = "anon_inode:[io_uring]";

/// How often a ring is read until its head is there.
const ATTEMPTS: usize = 16;

/// The rings that were seen, by descriptor.
#[derive(Debug, Default)]
pub(super) struct Rings(BTreeMap<String, Ring>);

/// One ring, up to the last look.
#[derive(Debug, Default)]
struct Ring {
    poller: Option<i32>,
    head: u32,
    entries: Option<u64>,
    read_ns: u64,
}

/// One reading; the kernel leaves out a part while the ring is locked.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FdInfo {
    pub(crate) poller: Option<i32>,
    head: Option<u32>,
}

impl Rings {
    /// Reads all rings of a process at this moment. What cannot be read stays as it was.
    pub(super) fn look(&mut self, root: &Root, process: &str, now_ns: u64) {
        let directory = root.path("proc").join(process);
        for fd in names(&directory.join("fd")) {
            let is_ring = fs::read_link(directory.join("fd").join(&fd))
                .is_ok_and(|link| link.to_str().is_some_and(|name| name == RING));
            if !is_ring {
                continue;
            }
            let file = directory.join("fdinfo").join(&fd);
            let read = || FdInfo::parse(&text_if_there(&file).ok().flatten().unwrap_or_default());
            // A poller holds the ring's lock most of the time, and the kernel does not wait for it.
            let info = (1..ATTEMPTS).map(|_| read()).find(|info| info.head.is_some()).unwrap_or_else(read);
            self.0.entry(fd).or_default().add(&info, now_ns);
        }
    }

    /// True once an entry was taken off a submission queue.
    pub(super) fn have_begun(&self) -> bool {
        self.0.values().any(|ring| ring.entries.is_some_and(|entries| entries > 0))
    }

    pub(super) fn pollers(&self) -> impl Iterator<Item = i32> {
        self.0.values().filter_map(|ring| ring.poller)
    }

    /// True if no ring was seen.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was seen, of jobs that began at this moment.
    pub(super) fn evidence(&self, begin_ns: u64) -> Vec<RingEvidence> {
        let of = |ring: &Ring| RingEvidence {
            poller: ring.poller,
            entries: ring.entries,
            over_ns: ring.entries.map(|_| ring.read_ns.saturating_sub(begin_ns)),
        };
        self.0.values().map(of).collect()
    }
}

impl Ring {
    /// The head is 32 bits wide and wraps.
    fn add(&mut self, info: &FdInfo, now_ns: u64) {
        self.poller = info.poller.or(self.poller);
        if let Some(head) = info.head {
            let more = u64::from(head.wrapping_sub(self.head));
            self.entries = Some(self.entries.unwrap_or(0).saturating_add(more));
            (self.head, self.read_ns) = (head, now_ns);
        }
    }
}

impl FdInfo {
    pub(crate) fn parse(text: &str) -> FdInfo {
        let value = |key: &str| {
            text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).map(str::trim)
        };
        FdInfo {
            poller: value("SqThread").and_then(|tid| tid.parse().ok()).filter(|tid| *tid > 0),
            head: value("SqHead").and_then(|head| head.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Shortened from Linux 6.18.
    const POLLED: &str = "pos:\t0\nflags:\t02000002\nSqMask:\t0x3\nSqHead:\t2639\nSqTail:\t2640\n\
                          CachedSqHead:\t2639\nSQEs:\t1\nSqThread:\t24265\nSqThreadCpu:\t0\n\
                          UserFiles:\t1\n    0: /t.dat\n";
    /// Shortened from Linux 5.10, which does not show the heads.
    const OLD: &str =
        "pos:\t0\nflags:\t02000002\nSqThread:\t-1\nSqThreadCpu:\t-1\nUserFiles:\t0\nUserBufs:\t0\n";

    #[test]
    fn pollers_and_heads_are_read() {
        assert_eq!(FdInfo::parse(POLLED), FdInfo { poller: Some(24265), head: Some(2639) });
        assert_eq!(FdInfo::parse(OLD), FdInfo { poller: None, head: None });
    }

    #[test]
    fn a_head_that_wraps_goes_on_counting_and_a_locked_ring_changes_nothing() {
        let mut ring = Ring::default();
        ring.add(&FdInfo { poller: Some(7), head: Some(u32::MAX) }, 1);
        ring.add(&FdInfo { poller: None, head: Some(4) }, 2);
        ring.add(&FdInfo::default(), 3);
        assert_eq!((ring.poller, ring.entries, ring.read_ns), (Some(7), Some(u64::from(u32::MAX) + 5), 2));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(SqThread|SqHead|Sq):?\t?-?[0-9]{0,12}\n|\\PC*") {
            Ring::default().add(&FdInfo::parse(&text), 0);
        }
    }
}
