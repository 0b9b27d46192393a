//! A simulated drive that works only when it is asked to: its doorbells are mapped, as a real device's are,
//! and the device's work happens outside the engine's calls.

use super::super::controller::{Controller, Setup};
use super::super::registers::DOORBELLS;
use super::{Behaviour, SimController};
use crate::error::EngineError;
use crate::pci::ParsePciAddressError;
use crate::target::Target;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The one queue pair for I/O.
pub(super) const PAIR: usize = 1;
/// Its doorbells, submission and completion, where they are close together (`CAP.DSTRD` = 0).
pub(super) const DOORBELLS_AT: [usize; 2] = [DOORBELLS + 2 * PAIR * 4, DOORBELLS + 2 * PAIR * 4 + 4];
/// Entries of the longest queue: as many as NVMe allows.
const MOST_ENTRIES: u32 = 1 << 16;

/// A simulated NVMe drive behind the `nvme-user` engine, with one namespace and one queue pair. It takes
/// commands in [`Drive::work`] and at no other time, so a wait for a completion returns only if the work was
/// done before.
///
/// Source: NVM Express Base Specification 2.0.
pub struct Drive {
    device: Arc<SimController>,
    target: Target,
}

impl Drive {
    /// A drive of `len` bytes, all zero, in blocks of 512 bytes; `len` is a multiple of 512. Its target can
    /// be written.
    ///
    /// # Errors
    /// No memory for its admin queues.
    pub fn open(len: usize) -> Result<Drive, EngineError> {
        Drive::with_entries(len, MOST_ENTRIES)
    }

    /// As [`Drive::open`], with queues of at most `most_entries` entries.
    fn with_entries(len: usize, most_entries: u32) -> Result<Drive, EngineError> {
        let behaviour =
            Behaviour { pairs: Some(1), most_entries: Some(most_entries), ..Behaviour::default() };
        let device = SimController {
            deferred: Some(Default::default()),
            ..SimController::new(behaviour, vec![0; len])
        };
        let device = Arc::new(device);
        let unsupported = |error: &dyn Display| EngineError::unsupported(error.to_string());
        let address = "0000:01:00.0".parse().map_err(|error: ParsePciAddressError| unsupported(&error))?;
        let controller = Controller::start(address, device.clone(), &Setup::default())?;
        let target = Target::open_bypass(Path::new("a simulated drive"), &controller, 1, true);
        let target = target.map_err(|error| unsupported(&error))?;
        Ok(Drive { device, target })
    }

    /// Its namespace, on which [`open`](crate::open) opens one `nvme-user` engine at a time.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Does up to `most` submitted commands in order; they are complete when this returns.
    pub fn work(&self, most: u32) {
        let Some(doorbells) = &self.device.deferred else { return };
        let [tail, head] = [&doorbells[0], &doorbells[1]].map(|doorbell| doorbell.load(Ordering::Acquire));
        let mut state = self.device.state();
        let (Some(submission), Some(completion)) = (state.submission[PAIR], state.completion[PAIR]) else {
            return;
        };
        if head != completion.head {
            state.doorbell(2 * PAIR + 1, head);
        }
        let waiting = (tail + submission.entries - submission.tail) % submission.entries;
        if waiting.min(most) > 0 {
            state.doorbell(2 * PAIR, (submission.tail + waiting.min(most)) % submission.entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::pool::{Buffer, Pool};
    use crate::request::Request;

    /// Does `rounds` rounds of pushing `depth` reads and waiting for them all; returns the writes to the
    /// submission queue's doorbell and to the completion queue's.
    fn doorbells(most_entries: u32, depth: u32, rounds: u64) -> [u64; 2] {
        let drive = Drive::with_entries(4096, most_entries).unwrap();
        let pool = Pool::new(depth, 512).unwrap();
        let path = "nvme-user/doorbell/poll".parse().unwrap();
        let mut engine = crate::open(path, drive.target(), &pool, depth).unwrap();
        let depth = depth as usize;
        let mut buffers: Vec<Buffer> = (0..depth).map(|_| pool.acquire().unwrap()).collect();
        for _ in 0..rounds {
            for buffer in buffers.drain(..) {
                engine.push(Request::read(buffer, 512, 0)).unwrap();
            }
            assert_eq!(engine.in_flight(), depth);
            engine.submit().unwrap();
            drive.work(depth as u32);
            let found = engine.wait(depth, None, |completion| buffers.extend(completion.into_buffer()));
            assert_eq!((found.unwrap(), buffers.len()), (depth, depth));
        }
        let counters = engine.counters();
        assert_eq!((counters.system_calls, counters.empty_polls), (Some(0), 0));
        [counters.doorbells - counters.completion_doorbells, counters.completion_doorbells]
    }

    #[test]
    fn a_polled_completion_queue_is_given_back_seldom() {
        let rounds: u64 = if cfg!(miri) { 8 } else { 10_160 };
        // 256 entries, of which one stays free and one is in flight: the doorbell rings once per 254.
        assert_eq!(doorbells(MOST_ENTRIES, 1, rounds), [rounds, rounds / 254]);
        // 256 entries, of which 32 are in flight: the doorbell rings in the seventh batch, at 224.
        assert_eq!(doorbells(MOST_ENTRIES, 32, rounds), [rounds, rounds / 7]);
        // With short queues the doorbell rings as often as it must, and no command is lost.
        assert_eq!(doorbells(16, 1, 2 * rounds), [2 * rounds, 2 * rounds / 14]);
        assert_eq!(doorbells(2, 1, rounds), [rounds, rounds]);
    }

    #[test]
    fn a_wait_in_its_callers_code_submits_and_takes_and_leaves_the_rest_to_the_whole_one() {
        let drive = Drive::open(4096).unwrap();
        let pool = Pool::new(3, 512).unwrap();
        let mut engine = crate::NvmeUser::builder().iodepth(3).open(drive.target(), &pool).unwrap();
        for tag in 0..3 {
            engine.push(Request::read(pool.acquire().unwrap(), 512, 0).tagged(tag)).unwrap();
        }
        let mut tags = Vec::new();
        assert_eq!(engine.wait_inline(1, |one| tags.push(one.tag)), Err(0), "it may have to wait");
        assert_eq!(engine.wait_inline(0, |one| tags.push(one.tag)), Ok(0));
        assert_eq!(engine.counters().empty_polls, 1);
        drive.work(2);
        assert_eq!(engine.wait_inline(3, |one| tags.push(one.tag)), Err(2), "one is not complete");
        drive.work(1);
        assert_eq!(engine.wait_inline(1, |one| tags.push(one.tag)), Ok(1));
        assert_eq!((tags, engine.in_flight(), pool.available()), (vec![0, 1, 2], 0, 3));
    }

    #[test]
    fn a_drive_does_as_many_commands_as_it_is_asked_to() {
        let drive = Drive::open(4096).unwrap();
        let pool = Pool::new(3, 512).unwrap();
        // The second engine gets the first one's pair, which starts afresh.
        for _ in 0..2 {
            let path = "nvme-user/doorbell/poll".parse().unwrap();
            let mut engine = crate::open(path, drive.target(), &pool, 3).unwrap();
            for _ in 0..5 {
                for tag in 0..3 {
                    let buffer = pool.acquire().unwrap();
                    engine.push(Request::read(buffer, 512, tag * 512).tagged(tag)).unwrap();
                }
                let mut tags = Vec::new();
                drive.work(3);
                assert_eq!(engine.wait(0, None, |one| tags.push(one.tag)).unwrap(), 0);
                assert_eq!(tags, [], "not submitted before the wait");
                drive.work(1);
                assert_eq!(engine.wait(0, None, |one| tags.push(one.tag)).unwrap(), 1);
                assert_eq!(tags, [0]);
                drive.work(8);
                assert_eq!(engine.wait(2, None, |one| tags.push(one.tag)).unwrap(), 2);
                assert_eq!(tags, [0, 1, 2]);
            }
            let counters = engine.counters();
            // One for each push, and none yet for the 15 entries that were taken.
            assert_eq!((counters.system_calls, counters.doorbells), (Some(0), 5));
        }
    }
}
