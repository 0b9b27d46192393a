//! Which I/O paths a program takes, by what was seen of it.

use crate::completion_by_interrupts::INTERRUPT_SHARE;
use iopj_core::watch::{
    Certainty, EventCounts, EventEstimates, FoundRing, ProgramCounts, SeenCaching, SeenCompletion,
    SeenInterface, SeenPath, WatchEvidence, WatchedDevice,
};

/// An interface with a smaller share of the calls and ring entries is not named.
pub const FEW_SHARE: f64 = 0.001;
/// From this share on, all completions, or all threads' I/O, are taken for one kind.
pub const ONE_KIND_SHARE: f64 = 0.99;
/// Bytes of the smallest folio that the page cache takes.
const PAGE: f64 = 4096.0;
const SECTOR: f64 = 512.0;

/// Calls that read or write at an offset: of files and devices only.
const AT_OFFSET: [&str; 6] = ["pread64", "pwrite64", "preadv", "pwritev", "preadv2", "pwritev2"];
/// Calls that serve pipes and sockets too.
const ANYWHERE: [&str; 4] = ["read", "write", "readv", "writev"];

/// An interface with what it handed to the kernel.
struct Found {
    interface: SeenInterface,
    sqpoll: bool,
    count: f64,
    certainty: Certainty,
    why: String,
}

/// The paths that a program takes, the most used first. It never sees what the program was asked to do.
pub fn paths_of(evidence: &WatchEvidence) -> Vec<SeenPath> {
    let Some(program) = &evidence.program else { return Vec::new() };
    let mut found = match &evidence.events {
        Some(events) if saw_io(events) => by_events(evidence, events, program),
        _ => by_totals(evidence, program),
    };
    let all: f64 = found.iter().map(|found| found.count).sum();
    found.retain(|found| found.count > FEW_SHARE * all);
    let kinds = found.len();
    let path = |found: Found| {
        let (caching, cache_why) = caching(evidence, &found);
        let (completion, sure, completion_why) = completion(evidence, &found, kinds);
        // A buffered I/O does not wait for the device, so its completion decides nothing.
        let is_sure = (sure || caching == SeenCaching::Buffered) && knows_files(evidence, &found, caching);
        let mut why = vec![found.why, cache_why];
        why.extend((caching != SeenCaching::Buffered).then_some(completion_why));
        SeenPath {
            interface: found.interface,
            sqpoll: found.sqpoll,
            completion,
            caching,
            share: found.count / all,
            certainty: if is_sure { found.certainty } else { Certainty::Inferred },
            why: why.join("; "),
        }
    };
    let mut paths: Vec<SeenPath> = found.into_iter().map(path).collect();
    paths.sort_by(|a, b| b.share.total_cmp(&a.share));
    paths
}

/// Counting saw more than the program's start: it never rested, or the program did I/O while it did not rest.
fn saw_io(events: &EventCounts) -> bool {
    let calls = |names: &[&str]| names.iter().map(|name| events.calls_of(name)).sum::<u64>();
    let entries = events.ring_entries + events.poller_entries + events.passthrough_entries;
    let is_whole = events.share() >= 1.0;
    is_whole
        || calls(&AT_OFFSET) + entries + events.calls_of("io_submit") > FEW_CALLS
        || calls(&ANYWHERE) > MANY_CALLS
}

/// The interfaces by the calls and ring entries that were counted.
fn by_events(evidence: &WatchEvidence, events: &EventCounts, program: &ProgramCounts) -> Vec<Found> {
    let mut found = Vec::new();
    let mut add = |interface, sqpoll, count: u64, certainty, why: String| {
        if count > 0 {
            found.push(Found { interface, sqpoll, count: count as f64, certainty, why });
        }
    };
    let proven = Certainty::Proven;
    add(SeenInterface::IoUring, false, events.ring_entries, proven, ring_words(evidence, events, false));
    add(SeenInterface::IoUring, true, events.poller_entries, proven, ring_words(evidence, events, true));
    let commands = format!("{} commands passed through rings", events.passthrough_entries);
    add(SeenInterface::NvmePassthrough, false, events.passthrough_entries, proven, commands);
    let submits = events.calls_of("io_submit");
    add(SeenInterface::Libaio, false, submits, proven, format!("{submits} calls of io_submit"));
    // The program's own code is read by such faults too.
    let faults = if program.major_faults > MANY_FAULTS { program.major_faults } else { 0 };
    let others = events.ring_entries + events.poller_entries + events.passthrough_entries + submits + faults;
    let (calls, certainty, words) = synchronous(evidence, events, program, others);
    match aio_share(program) {
        Some(share) if calls > 0 => {
            let of_threads = (calls as f64 * share).round() as u64;
            let why = format!(
                "{words}, {:.0} % of the bytes by {} threads that block all signals, as those of POSIX AIO \
                 do",
                100.0 * share,
                program.aio_threads,
            );
            add(SeenInterface::PosixAio, false, of_threads, Certainty::Inferred, why);
            add(SeenInterface::PosixSio, false, calls - of_threads, certainty, words);
        }
        _ => add(SeenInterface::PosixSio, false, calls, certainty, words),
    }
    let mapped = format!("{} page faults that had to read", program.major_faults);
    add(SeenInterface::Mmap, false, faults, Certainty::Inferred, mapped);
    found
}

/// Page faults beyond what starting a program takes.
const MANY_FAULTS: u64 = 1000;

/// Calls of the synchronous interface, how sure it is that they do I/O of files, and what they are.
fn synchronous(
    evidence: &WatchEvidence,
    events: &EventCounts,
    program: &ProgramCounts,
    others: u64,
) -> (u64, Certainty, String) {
    let of = |names: &[&str]| {
        let calls = names.iter().map(|name| (*name, events.calls_of(name))).filter(|(_, count)| *count > 0);
        let calls: Vec<(&str, u64)> = calls.collect();
        let words: Vec<String> =
            calls.iter().map(|(name, count)| format!("{count} calls of {name}")).collect();
        (calls.iter().map(|(_, count)| count).sum::<u64>(), words.join(", "))
    };
    let (at_offset, words) = of(&AT_OFFSET);
    let (anywhere, more) = of(&ANYWHERE);
    let io = program.io.unwrap_or_default();
    let bytes = (io.read_chars + io.write_chars) as f64;
    let has_files = evidence.files.direct + evidence.files.buffered > 0 || io.read_bytes + io.write_bytes > 0;
    // Every program reads its libraries and writes its messages: beside another interface that is no path.
    // Without a page cache each would be a request of a disk, beyond those of the other interfaces.
    let is_direct = evidence.files.direct > 0 && evidence.files.buffered == 0;
    let has_requests = !is_direct || evidence.device_ios().saturating_sub(others) > FEW_CALLS;
    let few_bytes = (FEW_BYTES * device_bytes(evidence)).max(MUCH as f64);
    let is_much = others == 0 || (has_requests && bytes > few_bytes);
    // Past the page cache, calls fetch what they ask for: those that asked for far less did not fetch it.
    let past_cache = is_past_cache(evidence, cached_bytes(evidence));
    let is_too_little = others == 0 && past_cache && bytes < io.read_bytes as f64 / 2.0;
    let counts_too = anywhere > at_offset && anywhere > FEW_CALLS && has_files && is_much && !is_too_little;
    match (at_offset > FEW_CALLS, counts_too) {
        (_, true) => {
            let words = if words.is_empty() { more } else { format!("{words}, {more}") };
            let words = format!("{words}; read and write serve pipes and sockets too");
            // Of other interfaces the share would be unsure.
            let is_sure = others == 0 && at_offset > FEW_CALLS;
            let certainty = if is_sure { Certainty::Proven } else { Certainty::Inferred };
            (at_offset + anywhere, certainty, words)
        }
        (true, false) => (at_offset, Certainty::Proven, words),
        (false, false) => (0, Certainty::Proven, words),
    }
}

/// Calls that starting and ending a program may take.
const FEW_CALLS: u64 = 64;
/// Calls of `read` and `write` that no start takes.
const MANY_CALLS: u64 = 1000;
/// The share of the devices' bytes up to which such calls are no path beside another interface.
const FEW_BYTES: f64 = 0.05;

/// The share of synchronous I/O that threads of POSIX AIO did.
fn aio_share(program: &ProgramCounts) -> Option<f64> {
    let share = (program.aio_thread_bytes as f64 / program.aio_of_bytes.max(1) as f64).min(1.0);
    match share {
        share if share >= AIO_ALL => Some(1.0),
        share if share >= 1.0 - AIO_ALL => Some(share),
        _ => None,
    }
}

/// Such threads end when they have nothing to do, and the kernel's counts are read one after the other: from
/// this share of the bytes on they are taken to have done all.
const AIO_ALL: f64 = 0.9;

/// The interfaces by the kernel's own totals, where no event can be counted, or counting rested while the
/// program did its I/O.
fn by_totals(evidence: &WatchEvidence, program: &ProgramCounts) -> Vec<Found> {
    let mut found = Vec::new();
    let mut add = |interface, sqpoll, count: u64, why: String| {
        if count > FEW_CALLS {
            found.push(Found { interface, sqpoll, count: count as f64, certainty: Certainty::Inferred, why });
        }
    };
    let io = program.io.unwrap_or_default();
    let (chars, bytes) = (io.read_chars + io.write_chars, io.read_bytes + io.write_bytes);
    // What no call of read or write asked for came by another way, or was read ahead.
    let unasked = bytes.saturating_sub(chars) / PAGE as u64;
    let few_bytes = (FEW_BYTES * device_bytes(evidence)).max(MUCH as f64);
    let is_ahead = evidence.rings.is_empty() && chars >= bytes / 2;
    let is_much = unasked <= FEW_CALLS || is_ahead || chars as f64 > few_bytes;
    let calls = if is_much { io.read_calls + io.write_calls } else { 0 };
    let words = format!("/proc/PID/io counts {calls} calls of read and write, pipes and sockets included");
    let of_threads = aio_share(program).unwrap_or(0.0);
    if of_threads > 0.5 {
        add(SeenInterface::PosixAio, false, calls, format!("{words}, by threads that block all signals"));
    } else {
        add(SeenInterface::PosixSio, false, calls, words);
    }
    if !evidence.rings.is_empty() {
        let sqpoll = evidence.rings.iter().any(|ring| ring.sqpoll);
        let words = format!(
            "{} rings are open, and the device moved more than read and write asked for",
            evidence.rings.len()
        );
        add(SeenInterface::IoUring, sqpoll, unasked, words);
    }
    found
}

fn ring_words(evidence: &WatchEvidence, events: &EventCounts, sqpoll: bool) -> String {
    let (count, by) = match sqpoll {
        true => (events.poller_entries, "a submission poller"),
        false => (events.ring_entries, "io_uring_enter"),
    };
    let created = evidence.rings.iter().filter(|ring| ring.flags.is_some()).count();
    let made = match (created, evidence.rings.len() - created) {
        (0, 0) => String::new(),
        (0, older) => format!(", {older} rings found open, older than the watch"),
        (created, _) => format!(", {created} rings created"),
    };
    format!("{count} ring entries taken by {by}{made}")
}

/// Whether the path goes through the page cache.
fn caching(evidence: &WatchEvidence, found: &Found) -> (SeenCaching, String) {
    match found.interface {
        SeenInterface::NvmePassthrough => {
            return (SeenCaching::Direct, "commands have no page cache".to_owned());
        }
        SeenInterface::Mmap => return (SeenCaching::Buffered, "a mapping is the page cache".to_owned()),
        _ => {}
    }
    let files = evidence.files;
    let cached = cached_bytes(evidence);
    let moved = device_bytes(evidence);
    // Both at once: what the page cache took decides.
    let past_cache = cached.is_some_and(|cached| moved > 0.0 && cached < (1.0 - ONE_KIND_SHARE) * moved);
    let caching = match (files.direct, files.buffered) {
        // The pages of a program that starts are added too.
        (0, 0) => match cached {
            Some(cached) if moved > 0.0 && cached < moved / 2.0 => SeenCaching::Direct,
            Some(cached) if cached > 0.0 => SeenCaching::Buffered,
            _ => SeenCaching::Unknown,
        },
        (_, 0) => SeenCaching::Direct,
        (0, _) if is_past_cache(evidence, cached) => SeenCaching::Direct,
        (0, _) => SeenCaching::Buffered,
        (_, _) if past_cache => SeenCaching::Direct,
        _ => SeenCaching::Mixed,
    };
    let words = match (files.direct, files.buffered) {
        (0, 0) => "no open file was seen".to_owned(),
        (direct, 0) => format!("open files: {direct} with O_DIRECT"),
        (0, buffered) if caching == SeenCaching::Direct => {
            format!(
                "open files: {buffered} without O_DIRECT, but what was read was not added to the page cache"
            )
        }
        (0, buffered) => format!("open files: {buffered} without O_DIRECT"),
        (direct, buffered) => format!("open files: {direct} with O_DIRECT, {buffered} without"),
    };
    (caching, words)
}

/// Bytes that the program added to the page cache; unknown if counting rested while it did its I/O.
fn cached_bytes(evidence: &WatchEvidence) -> Option<f64> {
    evidence.events.as_ref().filter(|events| saw_io(events))?;
    let estimates = evidence.estimates.clone().or_else(|| EventEstimates::of(evidence));
    estimates.map(|estimates| estimates.cache_adds * PAGE)
}

/// Files were met that are not those which the program reads: it fetched much by itself, of which the page
/// cache took nothing.
fn is_past_cache(evidence: &WatchEvidence, cached: Option<f64>) -> bool {
    let fetched = evidence.program.as_ref().and_then(|program| program.io).unwrap_or_default().read_bytes;
    fetched > MUCH && cached.is_some_and(|cached| cached < (1.0 - ONE_KIND_SHARE) * fetched as f64)
}

/// Bytes beyond what starting a program reads.
const MUCH: u64 = 1 << 20;

/// The page cache's part in the path was read off open files, or is plain from its interface.
fn knows_files(evidence: &WatchEvidence, found: &Found, caching: SeenCaching) -> bool {
    let is_plain = matches!(found.interface, SeenInterface::NvmePassthrough | SeenInterface::Mmap);
    let files = evidence.files;
    is_plain || files.direct > 0 || (files.buffered > 0 && caching == SeenCaching::Buffered)
}

/// Bytes that the devices moved.
fn device_bytes(evidence: &WatchEvidence) -> f64 {
    let sectors =
        evidence.devices.iter().map(|device| device.counts.read_sectors + device.counts.write_sectors);
    sectors.sum::<u64>() as f64 * SECTOR
}

/// How the path completes, whether that is sure, and what shows it. `kinds` interfaces are in use.
fn completion(evidence: &WatchEvidence, found: &Found, kinds: usize) -> (SeenCompletion, bool, String) {
    let Contexts { interrupts, threads, is_own, what } = contexts(evidence);
    let all = interrupts + threads;
    let hybrid = is_hybrid(evidence, found);
    let polled = if hybrid { SeenCompletion::Hybrid } else { SeenCompletion::Poll };
    if all == 0 {
        return uncounted(evidence, found, polled);
    }
    if let Some(device) = unseen(evidence) {
        let words = format!("most I/O was of {device}, whose completions cannot be counted");
        return (SeenCompletion::Unknown, false, words);
    }
    let is_all = |count: u64| count as f64 >= ONE_KIND_SHARE * all as f64;
    let words = |count: u64, who: &str| format!("{count} of {all} {what} completed by {who}");
    if is_all(interrupts) {
        (SeenCompletion::Interrupt, true, words(interrupts, "interrupts and the kernel's workers"))
    } else if is_all(threads) && is_own {
        (polled, !hybrid || kinds == 1, words(threads, "the threads that wait"))
    } else if is_all(threads) {
        (polled, false, words(threads, "threads, of which it was not seen that they are this program's"))
    } else {
        (SeenCompletion::Mixed, false, words(interrupts, "interrupts, the others by threads"))
    }
}

/// Who completed the requests of the devices.
struct Contexts {
    /// Interrupts, and the kernel's workers on their behalf.
    interrupts: u64,
    threads: u64,
    /// The threads are the program's.
    is_own: bool,
    what: &'static str,
}

/// As they were counted; of a disk that was found too late for that, as they were sampled.
fn contexts(evidence: &WatchEvidence) -> Contexts {
    let counted = evidence.devices.iter().filter_map(|device| device.completions);
    let [interrupts, threads] = counted.fold([0, 0], |[interrupts, threads], seen| {
        let by_interrupt = seen.hard_interrupt + seen.soft_interrupt + seen.worker;
        [interrupts + by_interrupt, threads + seen.thread]
    });
    let latencies = evidence.devices.iter().filter_map(|device| device.latency);
    let [in_interrupt, in_thread, own] = latencies.fold([0; 3], |[interrupts, threads, own], seen| {
        let in_thread = seen.requests.saturating_sub(seen.completed_in_interrupt);
        [interrupts + seen.completed_in_interrupt, threads + in_thread, own + seen.completed_by_program]
    });
    let is_own = in_thread > 0 && own as f64 >= ONE_KIND_SHARE * in_thread as f64;
    if interrupts + threads > 0 {
        Contexts { interrupts, threads, is_own, what: "requests" }
    } else {
        Contexts { interrupts: in_interrupt, threads: in_thread, is_own, what: "sampled requests" }
    }
}

/// A disk without requests, such as zram, if it did a share of the I/O that matters.
fn unseen(evidence: &WatchEvidence) -> Option<&str> {
    let ios = |device: &&WatchedDevice| device.counts.reads + device.counts.writes;
    let is_unseen = |device: &&WatchedDevice| {
        device.completions.is_none_or(|seen| seen.total() == 0) && device.latency.is_none()
    };
    let most = evidence.devices.iter().filter(is_unseen).max_by_key(ios)?;
    let share = ios(&most) as f64 / evidence.device_ios().max(1) as f64;
    (share > 1.0 - ONE_KIND_SHARE).then_some(most.counts.name.as_str())
}

/// The same where no completion was counted: by what rings were made for, or by the devices' interrupts.
fn uncounted(
    evidence: &WatchEvidence,
    found: &Found,
    polled: SeenCompletion,
) -> (SeenCompletion, bool, String) {
    let is_ring = matches!(found.interface, SeenInterface::IoUring | SeenInterface::NvmePassthrough);
    let mut known = evidence.rings.iter().filter(|ring| ring.flags.is_some()).peekable();
    if is_ring && known.peek().is_some() && known.all(|ring| ring.has(FoundRing::IOPOLL)) {
        return (polled, false, "its rings were created to poll, and no completion was counted".to_owned());
    }
    let told = evidence.devices.iter().filter(|device| device.counts.interrupts.is_some());
    let [ios, interrupts] = told.fold([0, 0], |[ios, interrupts], device| {
        let counts = &device.counts;
        [ios + counts.reads + counts.writes, interrupts + counts.interrupts.unwrap_or(0)]
    });
    // Commands that pass through are no reads and writes of the disk's own counters.
    let is_passthrough = found.interface == SeenInterface::NvmePassthrough;
    let ios = if is_passthrough { ios.max(found.count as u64) } else { ios };
    let words =
        format!("{interrupts} interrupts for {ios} I/Os of its devices, and no completion was counted");
    match interrupts as f64 / ios.max(1) as f64 {
        _ if ios < FEW_CALLS => (SeenCompletion::Unknown, false, "no completion was counted".to_owned()),
        per_io if per_io >= INTERRUPT_SHARE => (SeenCompletion::Interrupt, false, words),
        _ if interrupts == 0 => (polled, false, words),
        _ => (SeenCompletion::Unknown, false, words),
    }
}

/// Polling sleeps first: rings made for that, or, for other interfaces, the device's setting.
fn is_hybrid(evidence: &WatchEvidence, found: &Found) -> bool {
    let is_ring = matches!(found.interface, SeenInterface::IoUring | SeenInterface::NvmePassthrough);
    let by_ring = evidence.rings.iter().any(|ring| ring.has(FoundRing::HYBRID_IOPOLL));
    let delays = |device: &WatchedDevice| {
        device.counts.settings.get("io_poll_delay").is_some_and(|delay| delay != "-1")
    };
    (is_ring && by_ring) || evidence.devices.iter().any(delays)
}

#[cfg(test)]
mod tests;
