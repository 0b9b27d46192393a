//! Tracepoints that are counted in a program's threads, and what each hit means.

use crate::completions::tracefs::Tracefs;
use iopj_core::watch::EventCounts;
use std::ffi::CString;
use std::io;

/// System calls that read, write, sync or hand over I/O, by their names in the kernel and their numbers.
const CALLS: [(&str, libc::c_long); 14] = [
    ("read", libc::SYS_read),
    ("write", libc::SYS_write),
    ("readv", libc::SYS_readv),
    ("writev", libc::SYS_writev),
    ("pread64", libc::SYS_pread64),
    ("pwrite64", libc::SYS_pwrite64),
    ("preadv", libc::SYS_preadv),
    ("pwritev", libc::SYS_pwritev),
    ("preadv2", libc::SYS_preadv2),
    ("pwritev2", libc::SYS_pwritev2),
    ("fsync", libc::SYS_fsync),
    ("fdatasync", libc::SYS_fdatasync),
    ("io_submit", libc::SYS_io_submit),
    ("io_uring_enter", libc::SYS_io_uring_enter),
];

/// Operations of ring entries that read, write or sync: `IORING_OP_READV`, `_WRITEV`, `_FSYNC`,
/// `_READ_FIXED`, `_WRITE_FIXED`, `_READ`, `_WRITE` (include/uapi/linux/io_uring.h).
const OPERATIONS: [u8; 7] = [1, 2, 3, 4, 5, 22, 23];
/// `IORING_OP_URING_CMD`.
const COMMAND: u8 = 46;
/// A ring takes an entry: the name since Linux 6.3, and before.
const ENTRIES: [&str; 2] = ["io_uring/io_uring_submit_req", "io_uring/io_uring_submit_sqe"];
const CACHED: &str = "filemap/mm_filemap_add_to_page_cache";
const ANY_CALL: &str = "raw_syscalls/sys_enter";

/// What a hit means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    AnyCall,
    Call(&'static str),
    RingEntry,
    PollerEntry,
    PassthroughEntry,
    CacheAdd,
}

/// A tracepoint to count.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) id: u64,
    /// Only records that pass are counted.
    pub(super) filter: Option<CString>,
    pub(super) meaning: Meaning,
}

impl Event {
    fn new(id: u64, filter: Option<String>, meaning: Meaning) -> Option<Event> {
        let filter = match filter {
            // A text without a zero byte, as all of these are, always has a C form.
            Some(text) => Some(CString::new(text).ok()?),
            None => None,
        };
        Some(Event { id, filter, meaning })
    }
}

/// Everything that this kernel can count.
///
/// # Errors
/// System calls cannot be counted at all.
pub(super) fn all(tracefs: &Tracefs) -> io::Result<Vec<Event>> {
    let any_call = tracefs.id(ANY_CALL)?;
    let mut events = Vec::new();
    events.extend(Event::new(any_call, None, Meaning::AnyCall));
    for (name, number) in CALLS {
        // Without tracepoints of single calls the one of all does, with a filter that each call passes.
        let event = match tracefs.id(&format!("syscalls/sys_enter_{name}")) {
            Ok(id) => Event::new(id, None, Meaning::Call(name)),
            Err(_) => Event::new(any_call, Some(format!("id == {number}")), Meaning::Call(name)),
        };
        events.extend(event);
    }
    if let Some(id) = ENTRIES.iter().find_map(|name| tracefs.id(name).ok()) {
        let is_io = OPERATIONS.map(|operation| format!("opcode == {operation}")).join(" || ");
        for (filter, meaning) in [
            (format!("({is_io}) && sq_thread == 0"), Meaning::RingEntry),
            (format!("({is_io}) && sq_thread == 1"), Meaning::PollerEntry),
            (format!("opcode == {COMMAND}"), Meaning::PassthroughEntry),
        ] {
            events.extend(Event::new(id, Some(filter), meaning));
        }
    }
    if let Ok(id) = tracefs.id(CACHED) {
        events.extend(Event::new(id, None, Meaning::CacheAdd));
    }
    Ok(events)
}

/// Adds the hits of an event to what they mean.
pub(super) fn add(counts: &mut EventCounts, meaning: Meaning, hits: u64) {
    let field = match meaning {
        Meaning::Call(name) => {
            *counts.calls.entry(name.to_owned()).or_default() += hits;
            return;
        }
        Meaning::AnyCall => &mut counts.all_calls,
        Meaning::RingEntry => &mut counts.ring_entries,
        Meaning::PollerEntry => &mut counts.poller_entries,
        Meaning::PassthroughEntry => &mut counts.passthrough_entries,
        Meaning::CacheAdd => &mut counts.cache_adds,
    };
    *field += hits;
}

/// What was counted from `earlier` to `later`; calls that were never made are left out.
pub(super) fn between(earlier: &EventCounts, later: &EventCounts) -> EventCounts {
    let calls = later.calls.iter().filter_map(|(name, count)| {
        let more = count.saturating_sub(earlier.calls_of(name));
        (more > 0).then(|| (name.clone(), more))
    });
    let since = |field: fn(&EventCounts) -> u64| field(later).saturating_sub(field(earlier));
    EventCounts {
        counted_ns: since(|counts| counts.counted_ns),
        of_ns: since(|counts| counts.of_ns),
        all_calls: since(|counts| counts.all_calls),
        calls: calls.collect(),
        ring_entries: since(|counts| counts.ring_entries),
        poller_entries: since(|counts| counts.poller_entries),
        passthrough_entries: since(|counts| counts.passthrough_entries),
        cache_adds: since(|counts| counts.cache_adds),
    }
}

/// Hits of counters, which cost the program time.
pub(super) fn hits(counts: &EventCounts) -> u64 {
    let calls: u64 = counts.calls.values().sum();
    // Each entry of a ring passes three filters.
    let ring = 3 * (counts.ring_entries + counts.poller_entries + counts.passthrough_entries);
    counts.all_calls + calls + ring + counts.cache_adds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_add_up_by_meaning_and_calls_that_were_not_made_are_left_out() {
        let mut earlier = EventCounts::default();
        add(&mut earlier, Meaning::Call("pread64"), 4);
        add(&mut earlier, Meaning::Call("fsync"), 1);
        add(&mut earlier, Meaning::AnyCall, 9);
        let mut later = earlier.clone();
        add(&mut later, Meaning::Call("pread64"), 6);
        add(&mut later, Meaning::AnyCall, 10);
        add(&mut later, Meaning::PollerEntry, 3);
        let delta = between(&earlier, &later);
        assert_eq!((delta.calls_of("pread64"), delta.calls.len(), delta.all_calls), (6, 1, 10));
        assert_eq!((delta.poller_entries, hits(&delta)), (3, 10 + 6 + 9));
    }

    #[test]
    fn the_live_kernel_counts_calls_and_entries_of_rings() {
        let root = crate::root::Root::new(std::path::Path::new("/")).unwrap();
        let Ok(tracefs) = Tracefs::find(&root) else {
            return eprintln!("skipped: needs root, to read tracefs");
        };
        let events = match all(&tracefs) {
            Ok(events) => events,
            Err(error) => {
                let needs = "a kernel with tracepoints (tracefs, perf events)";
                let is_there = std::path::Path::new("/sys/kernel/tracing/events/raw_syscalls").exists();
                assert!(!is_there && std::env::var("CI").as_deref() != Ok("true"), "needs {needs}: {error}");
                return eprintln!("skipped: needs {needs}");
            }
        };
        let has = |meaning| events.iter().any(|event| event.meaning == meaning);
        assert!(has(Meaning::AnyCall) && has(Meaning::Call("io_uring_enter")));
        assert!(has(Meaning::CacheAdd));
        assert!(events.len() > 1 + CALLS.len());
    }
}
