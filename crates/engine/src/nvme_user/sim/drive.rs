//! A simulated drive that does its work when it is asked to: its doorbells are mapped, as a real device's,
//! and what the device does happens outside the engine's calls.

use super::super::controller::{Controller, Setup};
use super::super::dma::Memory;
use super::super::registers::{DOORBELLS, Device, HugePages, Registers};
use super::{Behaviour, Sim};
use crate::engine::EngineError;
use crate::pci::ParsePciAddressError;
use crate::target::Target;
use std::fmt::Display;
use std::os::fd::RawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The one queue pair for I/O, and its doorbells where they stand close together (`CAP.DSTRD` = 0).
const PAIR: usize = 1;
const SUBMISSION: usize = DOORBELLS + 2 * PAIR * 4;
const COMPLETION: usize = SUBMISSION + 4;
/// Entries of the longest queue: as many as NVMe allows.
const MOST_ENTRIES: u32 = 1 << 16;

/// A simulated NVMe drive behind the `nvme-user` engine, with one namespace and one queue pair. It takes
/// commands in [`Drive::work`] and at no other time, so a wait for a completion that was not worked for does
/// not return.
///
/// Source: NVM Express Base Specification 2.0.
pub struct Drive {
    device: Arc<Deferred>,
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

    /// As [`Drive::open`], with queues of at most so many entries.
    fn with_entries(len: usize, most_entries: u32) -> Result<Drive, EngineError> {
        let behaviour = Behaviour { pairs: 1, most_entries, ..Behaviour::default() };
        let device = Arc::new(Deferred {
            sim: Sim::new(behaviour, vec![0; len]),
            tail: AtomicU32::new(0),
            head: AtomicU32::new(0),
        });
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

    /// Does up to `most` commands that were submitted, in their order; they are complete when this returns.
    pub fn work(&self, most: u32) {
        self.device.work(most);
    }
}

/// The simulated controller with its doorbells for I/O put off.
struct Deferred {
    sim: Sim,
    /// What was last written to the submission queue's doorbell, and to the completion queue's.
    tail: AtomicU32,
    head: AtomicU32,
}

impl Deferred {
    fn work(&self, most: u32) {
        let (tail, head) = (self.tail.load(Ordering::Acquire), self.head.load(Ordering::Acquire));
        let mut state = self.sim.state();
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

impl Registers for Deferred {
    fn read32(&self, at: usize) -> u32 {
        self.sim.read32(at)
    }

    fn write32(&self, at: usize, value: u32) {
        if self.sim.state().submission[PAIR].is_none() {
            // A pair that is created begins at zero.
            self.tail.store(0, Ordering::Release);
            self.head.store(0, Ordering::Release);
        }
        self.sim.write32(at, value);
    }

    fn mapped(&self, at: usize) -> Option<NonNull<u32>> {
        match at {
            SUBMISSION => NonNull::new(self.tail.as_ptr()),
            COMPLETION => NonNull::new(self.head.as_ptr()),
            _ => None,
        }
    }

    fn read64(&self, at: usize) -> u64 {
        self.sim.read64(at)
    }

    fn write64(&self, at: usize, value: u64) {
        self.sim.write64(at, value);
    }
}

impl Device for Deferred {
    fn registers_len(&self) -> usize {
        self.sim.registers_len()
    }

    fn huge_pages(&self) -> HugePages {
        self.sim.huge_pages()
    }

    fn map(&self, memory: &Memory) -> Result<Box<[u64]>, EngineError> {
        self.sim.map(memory)
    }

    fn unmap(&self, pages: &[u64]) {
        self.sim.unmap(pages);
    }

    fn admit(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn cut_off(&self) -> bool {
        self.sim.cut_off()
    }

    fn vectors(&self) -> u32 {
        self.sim.vectors()
    }

    fn arm(&self, events: &[RawFd]) -> Result<(), EngineError> {
        self.sim.arm(events)
    }

    fn asked_back(&self) -> Arc<AtomicBool> {
        self.sim.asked_back()
    }

    fn vfio(&self) -> &'static str {
        self.sim.vfio()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Op, Request};
    use crate::pool::{Pool, Slot};

    fn request(slot: u32) -> Request {
        Request { op: Op::Read, slot: Slot(slot), len: 512, offset: u64::from(slot) * 512, tag: slot.into() }
    }

    /// Does `rounds` of pushing `depth` reads and waiting for them all; the writes of the submission queue's
    /// doorbell and of the completion queue's.
    fn doorbells(most_entries: u32, depth: u32, rounds: u64) -> [u64; 2] {
        let drive = Drive::with_entries(4096, most_entries).unwrap();
        let pool = Pool::new(depth, 512).unwrap();
        let path = "nvme-user/doorbell/poll".parse().unwrap();
        let mut engine = crate::open(path, drive.target(), &pool, depth).unwrap();
        let requests: Vec<_> = (0..depth).map(|slot| Request { offset: 0, ..request(slot) }).collect();
        let mut done = Vec::with_capacity(depth as usize);
        for _ in 0..rounds {
            assert_eq!(engine.push(&requests).unwrap(), depth as usize);
            engine.submit().unwrap();
            drive.work(depth);
            engine.wait(depth as usize, &mut done).unwrap();
            assert_eq!(done.drain(..).count(), depth as usize);
        }
        let facts = engine.facts();
        assert_eq!((facts.system_calls, facts.empty_polls), (Some(0), 0));
        [facts.doorbells - facts.completion_doorbells, facts.completion_doorbells]
    }

    #[test]
    fn a_polled_completion_queue_is_given_back_seldom() {
        let rounds: u64 = if cfg!(miri) { 16 } else { 10_160 };
        // 256 entries, of which one stays free and one is in flight: told of each 254.
        assert_eq!(doorbells(MOST_ENTRIES, 1, rounds), [rounds, rounds / 254]);
        // 256 entries, of which 32 are in flight: told in the seventh batch, at 224.
        assert_eq!(doorbells(MOST_ENTRIES, 32, rounds), [rounds, rounds / 7]);
        // A drive with short queues is told as often as it must be, and no command is lacking.
        assert_eq!(doorbells(16, 1, rounds), [rounds, rounds / 14]);
        assert_eq!(doorbells(2, 1, rounds), [rounds, rounds]);
    }

    #[test]
    fn a_drive_does_as_many_commands_as_it_is_asked_to() {
        let drive = Drive::open(4096).unwrap();
        let pool = Pool::new(3, 512).unwrap();
        let mut done = Vec::with_capacity(3);
        // The second engine gets the pair of the first one, from the beginning.
        for _ in 0..2 {
            let path = "nvme-user/doorbell/poll".parse().unwrap();
            let mut engine = crate::open(path, drive.target(), &pool, 3).unwrap();
            for _ in 0..5 {
                engine.push(&[request(0), request(1), request(2)]).unwrap();
                drive.work(3);
                engine.wait(0, &mut done).unwrap();
                assert_eq!(done.len(), 0, "not submitted before the wait");
                drive.work(1);
                engine.wait(0, &mut done).unwrap();
                assert_eq!(done.len(), 1);
                drive.work(8);
                engine.wait(2, &mut done).unwrap();
                assert_eq!(done.drain(..).map(|one| one.tag).collect::<Vec<_>>(), [0, 1, 2]);
            }
            let facts = engine.facts();
            // One for each push, and none yet for the 15 entries that were taken.
            assert_eq!((facts.system_calls, facts.doorbells), (Some(0), 5));
        }
    }
}
