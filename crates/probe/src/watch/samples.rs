//! Requests of all disks sampled one by one for a short time: their latencies, who issued and who completed
//! them. Beside them every ring that is created.

use super::counters::ISSUED;
use crate::completions::tracefs::Tracefs;
use crate::completions::{COMPLETED, CompletionsError, HARD, SOFT};
use crate::cpu::online;
use crate::perf::{Counter, EventsError};
use crate::root::Root;
use crate::sampling::ring::{Ring, header};
use iopj_core::watch::FoundRing;
use std::collections::HashMap;
use std::io;

/// `PERF_RECORD_LOST`, `PERF_RECORD_SAMPLE`.
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
/// Where the kernel's own record begins in a sample: process, thread, time, and the record's length.
const RAW_AT: usize = 4 + 4 + 8 + 4;
/// A ring is created.
const CREATED: &str = "io_uring/io_uring_create";
/// The share of the requests of a slice that must be seen whole, so that their latencies stand for all: at
/// its edges some are cut off.
const MOST: f64 = 0.7;
/// What a worker's name begins with.
const WORKER: &[u8] = b"kworker/";

/// Samplers of every core.
#[derive(Debug)]
pub(super) struct Sampler {
    cores: Vec<Core>,
    kinds: Kinds,
    read: Read,
    on: bool,
}

/// The tracepoints, and where their fields are: device, sector, name; device, sector, flags; descriptor,
/// flags.
#[derive(Debug)]
struct Kinds {
    issue: Fields<3>,
    complete: Fields<3>,
    create: Fields<2>,
}

/// What was read so far.
#[derive(Debug, Default)]
struct Read {
    records: Vec<Record>,
    rings: Vec<FoundRing>,
    lost: u64,
}

#[derive(Debug)]
struct Core {
    /// Issue and completion.
    requests: [Counter; 2],
    _created: Counter,
    ring: Ring,
}

/// The number of a tracepoint, and where its fields are.
#[derive(Debug)]
struct Fields<const N: usize> {
    id: u64,
    at: [usize; N],
}

/// One event of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    time_ns: u64,
    device: u32,
    sector: u64,
    event: Event,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// By this process, which is or is not a worker of the kernel.
    Issued(i32, bool),
    /// In a thread of this process; in an interrupt if there is none.
    Completed(Option<i32>),
}

/// A request that was seen from issue to completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// Number of the disk, as the kernel has it (`MKDEV`, include/linux/kdev_t.h).
    pub(super) device: u32,
    pub(super) latency_ns: u64,
    pub(super) issuer: i32,
    pub(super) by_worker: bool,
    /// The process in whose thread it completed; absent for an interrupt.
    pub(super) completer: Option<i32>,
}

/// Events that were recorded in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recorded {
    pub(super) issued: usize,
    pub(super) all: usize,
}

impl Recorded {
    /// True if so many of the requests that were issued were seen to complete that their latencies stand for
    /// all.
    pub(super) fn are_most(self, whole: usize) -> bool {
        whole as f64 >= MOST * self.issued as f64
    }
}

impl Sampler {
    /// Opens the samplers, which do not sample requests yet. Rings are noted from now on.
    pub(super) fn open(root: &Root) -> Result<Sampler, CompletionsError> {
        let tracefs = Tracefs::find(root).map_err(CompletionsError::Tracefs)?;
        let kinds = Kinds {
            issue: Fields::find(&tracefs, ISSUED, ["dev", "sector", "comm"])?,
            complete: Fields::find(&tracefs, COMPLETED, ["dev", "sector", "common_flags"])?,
            create: Fields::find(&tracefs, CREATED, ["fd", "flags"])?,
        };
        let cores = online(root)?;
        let needed = 3 * cores.len();
        let refused = |source| CompletionsError::Events(EventsError::of(source, root, needed));
        let open = |cpu: u32| -> io::Result<Core> {
            // Flushes have no sectors, and cannot be told from each other.
            let filter = c"nr_sector > 0";
            let requests = [
                Counter::recorded(kinds.issue.id, filter, cpu)?,
                Counter::recorded(kinds.complete.id, filter, cpu)?,
            ];
            let ring = Ring::map(&requests[0])?;
            let created = Counter::recorded(kinds.create.id, c"fd >= 0", cpu)?;
            for other in [&requests[1], &created] {
                other.share_ring_of(&requests[0])?;
            }
            created.enable()?;
            Ok(Core { requests, _created: created, ring })
        };
        let cores = cores.into_iter().map(open).collect::<io::Result<Vec<Core>>>().map_err(refused)?;
        Ok(Sampler { cores, kinds, read: Read::default(), on: false })
    }

    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn start(&mut self) {
        self.each(Counter::enable);
        self.on = true;
    }

    /// Stops; the requests that were seen whole, and how many events were recorded for them and for others.
    ///
    /// A core that idles without a tick is seen to record few of its events (Linux 6.18), so completions may
    /// be missing where a machine has nothing else to do.
    pub(super) fn stop(&mut self) -> (Vec<Request>, Recorded) {
        self.each(Counter::disable);
        self.on = false;
        self.drain();
        let records = std::mem::take(&mut self.read.records);
        let issued = records.iter().filter(|record| matches!(record.event, Event::Issued(..))).count();
        let recorded = Recorded { issued, all: records.len() };
        (pair(records), recorded)
    }

    /// Samples for which there was no room.
    pub(super) fn lost(&self) -> u64 {
        self.read.lost
    }

    /// The rings that processes created since the last call.
    pub(super) fn take_rings(&mut self) -> Vec<FoundRing> {
        self.drain();
        std::mem::take(&mut self.read.rings)
    }

    /// Takes what is in the rings, so that they have room.
    pub(super) fn drain(&mut self) {
        for core in &mut self.cores {
            let (bytes, is_full) = core.ring.take_bytes();
            self.read.lost += u64::from(is_full);
            self.read.add(bytes, &self.kinds);
        }
    }

    fn each(&self, act: impl Fn(&Counter) -> io::Result<()>) {
        self.cores.iter().flat_map(|core| &core.requests).for_each(|counter| drop(act(counter)));
    }
}

impl<const N: usize> Fields<N> {
    fn find(tracefs: &Tracefs, name: &str, fields: [&str; N]) -> Result<Fields<N>, CompletionsError> {
        let id = tracefs.id(name).map_err(CompletionsError::Tracefs)?;
        Ok(Fields { id, at: tracefs.offsets(name, fields).map_err(CompletionsError::Tracefs)? })
    }
}

impl Read {
    /// Reads the records of a ring.
    fn add(&mut self, mut bytes: &[u8], kinds: &Kinds) {
        while let Some((kind, _, len)) = header(bytes) {
            let Some((body, rest)) = bytes[8..].split_at_checked(len - 8) else { break };
            match kind {
                SAMPLE => drop(self.add_sample(body, kinds)),
                LOST => self.lost += number(body, 8).map_or(0, u64::from_ne_bytes),
                _ => {}
            }
            bytes = rest;
        }
    }

    fn add_sample(&mut self, body: &[u8], kinds: &Kinds) -> Option<()> {
        let process = i32::from_ne_bytes(number(body, 0)?);
        let time_ns = u64::from_ne_bytes(number(body, 8)?);
        let raw = body.get(RAW_AT..)?;
        // The first field of every record is the number of its tracepoint.
        let id = u64::from(u16::from_ne_bytes(number(raw, 0)?));
        if id == kinds.create.id {
            let [fd, flags] = kinds.create.at;
            let flags = u32::from_ne_bytes(number(raw, flags)?);
            let (fd, sqpoll) = (i32::from_ne_bytes(number(raw, fd)?), flags & FoundRing::SQPOLL != 0);
            self.rings.push(FoundRing { pid: process, fd, flags: Some(flags), sqpoll });
            return Some(());
        }
        let (at, event) = if id == kinds.issue.id {
            let by_worker = raw.get(kinds.issue.at[2]..)?.starts_with(WORKER);
            (kinds.issue.at, Event::Issued(process, by_worker))
        } else if id == kinds.complete.id {
            let flags = u32::from(*raw.get(kinds.complete.at[2])?);
            let is_interrupt = flags & (HARD | SOFT) != 0;
            (kinds.complete.at, Event::Completed((!is_interrupt).then_some(process)))
        } else {
            return None;
        };
        let device = u32::from_ne_bytes(number(raw, at[0])?);
        let sector = u64::from_ne_bytes(number(raw, at[1])?);
        self.records.push(Record { time_ns, device, sector, event });
        Some(())
    }
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// Pairs issue and completion of each request; the records are of several cores, each in its own order.
fn pair(mut records: Vec<Record>) -> Vec<Request> {
    records.sort_by_key(|record| record.time_ns);
    let mut issued: HashMap<(u32, u64), (u64, i32, bool)> = HashMap::new();
    let mut requests = Vec::new();
    for Record { time_ns, device, sector, event } in records {
        match event {
            Event::Issued(process, by_worker) => {
                issued.insert((device, sector), (time_ns, process, by_worker));
            }
            Event::Completed(completer) => {
                if let Some((since, issuer, by_worker)) = issued.remove(&(device, sector)) {
                    requests.push(Request {
                        device,
                        latency_ns: time_ns - since,
                        issuer,
                        by_worker,
                        completer,
                    });
                }
            }
        }
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KINDS: Kinds = Kinds {
        issue: Fields { id: 2104, at: [8, 16, 44] },
        complete: Fields { id: 2107, at: [8, 16, 2] },
        create: Fields { id: 2149, at: [8, 32] },
    };

    fn sample(id: u16, process: i32, time_ns: u64, device: u32, sector: u64, name: &str) -> Vec<u8> {
        let mut raw = vec![0u8; 64];
        raw[..2].copy_from_slice(&id.to_ne_bytes());
        raw[2] = SOFT as u8;
        raw[8..12].copy_from_slice(&device.to_ne_bytes());
        raw[16..24].copy_from_slice(&sector.to_ne_bytes());
        raw[44..44 + name.len()].copy_from_slice(name.as_bytes());
        let mut bytes = SAMPLE.to_ne_bytes().to_vec();
        bytes.extend(0u16.to_ne_bytes());
        bytes.extend((8 + RAW_AT as u16 + 64).to_ne_bytes());
        bytes.extend(process.to_ne_bytes());
        bytes.extend(process.to_ne_bytes());
        bytes.extend(time_ns.to_ne_bytes());
        bytes.extend(64u32.to_ne_bytes());
        bytes.extend(raw);
        bytes
    }

    fn read(bytes: &[u8]) -> Read {
        let mut read = Read::default();
        read.add(bytes, &KINDS);
        read
    }

    fn requests(bytes: &[u8]) -> Vec<Request> {
        pair(read(bytes).records)
    }

    /// The completion in a thread: without the flags of an interrupt.
    fn in_thread(mut sample: Vec<u8>) -> Vec<u8> {
        sample[8 + RAW_AT + 2] = 0;
        sample
    }

    #[test]
    fn a_request_is_paired_with_its_completion_on_another_core() {
        // The completion's core is read first.
        let bytes = [
            sample(2107, 0, 1_500, 9, 64, ""),
            sample(2104, 7, 1_000, 9, 64, "fio"),
            sample(2104, 8, 1_100, 9, 72, "kworker/u4:1"),
            in_thread(sample(2107, 5, 3_100, 9, 72, "")),
            sample(2107, 0, 4_000, 9, 99, ""),
        ];
        let expected = [
            Request { device: 9, latency_ns: 500, issuer: 7, by_worker: false, completer: None },
            Request { device: 9, latency_ns: 2_000, issuer: 8, by_worker: true, completer: Some(5) },
        ];
        assert_eq!(requests(&bytes.concat()), expected);
    }

    #[test]
    fn a_ring_is_noted_with_its_flags_when_it_is_created() {
        let mut bytes = sample(2149, 77, 5, 6, 0, "");
        bytes[8 + RAW_AT + 32..][..4].copy_from_slice(&3u32.to_ne_bytes());
        let ring = FoundRing { pid: 77, fd: 6, flags: Some(3), sqpoll: true };
        assert_eq!(read(&bytes).rings, [ring]);
    }

    #[test]
    fn lost_samples_are_counted() {
        let mut bytes = LOST.to_ne_bytes().to_vec();
        bytes.extend(0u16.to_ne_bytes());
        bytes.extend(24u16.to_ne_bytes());
        bytes.extend(5u64.to_ne_bytes());
        bytes.extend(12u64.to_ne_bytes());
        assert_eq!(read(&bytes).lost, 12);
    }

    #[test]
    fn latencies_of_a_slice_stand_for_all_if_most_of_its_requests_are_whole() {
        let recorded = Recorded { issued: 100, all: 180 };
        assert!(recorded.are_most(80) && !recorded.are_most(60));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            requests(&bytes);
        }

        #[test]
        fn no_sample_that_is_cut_off_is_taken_for_a_whole_one(len in 0usize..92) {
            let whole = sample(2104, 7, 1, 9, 64, "fio");
            prop_assert_eq!(read(&whole[..len.min(whole.len() - 1)]).records, []);
        }
    }
}
