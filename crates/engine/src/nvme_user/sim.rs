//! A simulated controller for tests: it reads queues and lists as the specification says, reaches only memory
//! that was mapped for it, and panics on every doorbell write that a controller may reject. `commands` does
//! the commands; `drive` works only when asked, so an engine's own instructions can be counted.

mod commands;
mod drive;

pub use drive::Drive;

use super::device::{Device, HugePages, PAGE, PageRange, Registers};
use super::irq;
use super::registers::{ACQ, AQA, ASQ, CC, CRTO, CSTS, DOORBELLS, VS};
use crate::error::EngineError;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What the controller is and how it behaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Behaviour {
    /// NVMe 2.0 if absent.
    pub(super) version: Option<u32>,
    /// 4 if absent.
    pub(super) pairs: Option<u32>,
    /// 64 if absent.
    pub(super) most_entries: Option<u32>,
    /// 9 if absent.
    pub(super) mdts: Option<u8>,
    pub(super) stride_shift: u32,
    /// Controller Ready Timeouts; present from NVMe 2.0 on.
    pub(super) crto: Option<u32>,
    /// Bytes of host memory that it prefers, and the least that it can use; 0 for none.
    pub(super) host_memory: (u32, u32),
    /// The least length of a part of it in pages, and the most parts.
    pub(super) host_memory_parts: (u32, u16),
    /// Power states: whether no I/O is done in each, and the times to enter and to leave it in us. If empty,
    /// it makes no transitions by itself.
    pub(super) power_states: Vec<(bool, u32, u32)>,
    /// Features with their values after a reset, except those with data; one that it refuses to change, one
    /// whose change it ignores, and one whose change never ends; 0 for none.
    pub(super) features: BTreeMap<u32, u32>,
    pub(super) fixed_feature: u32,
    pub(super) deaf_feature: u32,
    pub(super) endless_feature: u32,
    /// Without an IOMMU.
    pub(super) sees_physical: bool,
    pub(super) shadow: bool,
    /// It never wants a doorbell once it has seen the first, like a controller that polls its shadow
    /// doorbells.
    pub(super) never_wants_doorbells: bool,
    /// Metadata of a block in bytes.
    pub(super) metadata: u16,
    /// I/O commands are taken and never complete.
    pub(super) hangs: bool,
    /// A command that hangs does not come back when it is aborted.
    pub(super) never_aborts: bool,
    /// Admin commands other than Identify are taken and never complete.
    pub(super) admin_hangs: bool,
    /// `CSTS.RDY` never becomes 0 again.
    pub(super) never_stops: bool,
    /// The status of the next I/O commands.
    pub(super) status: u16,
    /// Seed of the order in which the I/O commands of one doorbell complete.
    pub(super) shuffle: u64,
    pub(super) fatal: bool,
    /// Something else has reset it.
    pub(super) was_reset: bool,
    pub(super) gone: bool,
    /// The next memory that is mapped gets pages in reverse order.
    pub(super) scatter_next: bool,
    /// Its access to memory cannot be taken away.
    pub(super) cannot_be_cut_off: bool,
}

impl Behaviour {
    fn pairs(&self) -> u32 {
        self.pairs.unwrap_or(4)
    }

    fn most_entries(&self) -> u32 {
        self.most_entries.unwrap_or(64)
    }
}

#[derive(Clone, Copy)]
struct Sq {
    base: u64,
    entries: u32,
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy)]
struct Cq {
    base: u64,
    entries: u32,
    head: u32,
    tail: u32,
    phase: u32,
    vector: Option<usize>,
}

/// Memory that the device reaches: host addresses by page.
#[derive(Default)]
struct Reach(BTreeMap<u64, *mut u8>);

// SAFETY: the pointers are used under the lock of the simulation's state.
unsafe impl Send for Reach {}

impl Reach {
    fn at(&self, address: u64) -> *mut u8 {
        let page =
            self.0.get(&(address / PAGE as u64)).unwrap_or_else(|| panic!("{address:#x} is not mapped"));
        page.wrapping_add(address as usize % PAGE)
    }

    fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        assert!(address as usize % PAGE + N <= PAGE);
        // SAFETY: the page is mapped, and the driver does not write it at the same time, which Miri checks.
        unsafe { self.at(address).cast::<[u8; N]>().read() }
    }

    /// The words of a command.
    fn command(&self, address: u64) -> [u32; 16] {
        assert!(address.is_multiple_of(64));
        // SAFETY: as in `read`; the address is a multiple of the command's length, as pages are of theirs.
        unsafe { self.at(address).cast::<[u32; 16]>().read() }.map(u32::from_le)
    }

    fn write(&self, address: u64, bytes: &[u8]) {
        assert!(address as usize % PAGE + bytes.len() <= PAGE);
        // SAFETY: as in `read`.
        unsafe { self.at(address).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    fn atomic(&self, address: u64) -> &AtomicU32 {
        // SAFETY: the page is mapped as long as the controller runs.
        unsafe { AtomicU32::from_ptr(self.at(address).cast()) }
    }
}

#[derive(Default)]
struct State {
    behaviour: Behaviour,
    registers: BTreeMap<usize, u32>,
    reach: Reach,
    next_page: u64,
    submission: Vec<Option<Sq>>,
    completion: Vec<Option<Cq>>,
    shadow: Option<(u64, u64)>,
    /// Pages of the host memory that it has.
    host_memory: Vec<u64>,
    /// Queue and identifier of commands that hang.
    hanging: Vec<(usize, u16)>,
    events: Vec<Arc<OwnedFd>>,
    /// By vector: its interrupts are held back; one was.
    masked: Vec<(bool, bool)>,
    disk: Vec<u8>,
    seen: Seen,
}

#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) doorbells: u64,
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) flushes: u64,
    /// Of the writes, those with Force Unit Access.
    pub(super) fuas: u64,
    pub(super) aborts: u64,
    pub(super) resets: u64,
    /// Pages of host memory that it was given, and how often they were taken back.
    pub(super) host_pages: usize,
    pub(super) host_memory_ends: u64,
    /// The first entry of the table of power states, once it is on.
    pub(super) apst: Option<u64>,
}

/// A controller with one namespace of `disk` bytes in blocks of 512.
pub(super) struct SimController {
    state: Mutex<State>,
    /// The registers of the first pair's doorbells, submission and completion, where a store reaches them:
    /// the controller then looks at them only when asked.
    deferred: Option<[AtomicU32; 2]>,
    pub(super) asked_back: Arc<AtomicBool>,
}

impl SimController {
    pub(super) fn new(behaviour: Behaviour, disk: Vec<u8>) -> SimController {
        let state = Mutex::new(State {
            behaviour,
            next_page: 0x100,
            submission: vec![None; 65],
            completion: vec![None; 65],
            disk,
            ..State::default()
        });
        SimController { state, deferred: None, asked_back: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn behave(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.state().behaviour);
    }

    #[cfg(test)]
    pub(super) fn seen(&self) -> Seen {
        self.state().seen
    }

    #[cfg(test)]
    pub(super) fn disk(&self) -> Vec<u8> {
        self.state().disk.clone()
    }

    /// The value of a feature that it has.
    #[cfg(test)]
    pub(super) fn feature(&self, id: u32) -> Option<u32> {
        self.state().behaviour.features.get(&id).copied()
    }

    #[cfg(test)]
    pub(super) fn mapped(&self) -> usize {
        self.state().reach.0.len()
    }

    /// Takes what the submission queues hold by their shadow doorbells, like a controller with a thread of
    /// its own.
    #[cfg(test)]
    pub(super) fn poll(&self) {
        let mut state = self.state();
        for id in 1..state.submission.len() {
            if state.submission[id].is_some() {
                state.run(id);
            }
        }
    }
}

impl State {
    fn register(&self, at: usize) -> u32 {
        self.registers.get(&at).copied().unwrap_or(0)
    }

    fn doorbell(&mut self, number: usize, value: u32) {
        let (id, is_completion) = (number / 2, number % 2 == 1);
        if self.register(CC) & 1 == 0 {
            return;
        }
        self.seen.doorbells += u64::from(id > 0);
        let shadow = self.shadow_of(number);
        if is_completion {
            let queue = self.completion[id].as_mut().expect("a completion queue");
            assert!(value < queue.entries, "head {value} of {}", queue.entries);
            assert!(shadow.is_some() || value != queue.head, "the same head again");
            let (there, taken) = (
                (queue.tail + queue.entries - queue.head) % queue.entries,
                (value + queue.entries - queue.head) % queue.entries,
            );
            assert!(taken <= there, "{taken} entries taken of {there}");
            queue.head = value;
        } else {
            let queue = self.submission[id].as_mut().expect("a submission queue");
            assert!(value < queue.entries, "tail {value} of {}", queue.entries);
            assert!(shadow.is_some() || value != queue.tail, "the same tail again");
            queue.tail = value;
            self.run(id);
        }
    }

    /// Where the shadow of a doorbell and its event index lie; the admin queues always ring.
    fn shadow_of(&self, number: usize) -> Option<(u64, u64)> {
        let at = (number << (2 + self.behaviour.stride_shift)) as u64;
        self.shadow.filter(|_| number > 1).map(|(values, events)| (values + at, events + at))
    }

    /// Takes all commands of a submission queue.
    fn run(&mut self, id: usize) {
        let mut ended = Vec::new();
        loop {
            if let Some((value, event)) = self.shadow_of(2 * id) {
                let tail = self.reach.atomic(value).load(Ordering::Acquire);
                let queue = self.submission[id].as_mut().expect("a submission queue");
                assert!(tail < queue.entries);
                queue.tail = tail;
                let wanted = if self.behaviour.never_wants_doorbells { tail.wrapping_sub(1) } else { tail };
                self.reach.atomic(event).store(wanted, Ordering::SeqCst);
            }
            let queue = self.submission[id].as_mut().expect("a submission queue");
            if queue.head == queue.tail {
                break;
            }
            let at = queue.base + u64::from(queue.head) * 64;
            queue.head = (queue.head + 1) % queue.entries;
            let words = self.reach.command(at);
            let answer = if id == 0 { self.admin(&words) } else { self.io(id, &words) };
            ended.extend(answer.map(|(status, result)| ((words[0] >> 16) as u16, status, result)));
        }
        if self.behaviour.shuffle != 0 {
            for at in (1..ended.len()).rev() {
                self.behaviour.shuffle =
                    self.behaviour.shuffle.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ended.swap(at, (self.behaviour.shuffle >> 33) as usize % (at + 1));
            }
        }
        for (command, status, result) in ended {
            self.complete(id, command, status, result);
        }
    }

    fn complete(&mut self, id: usize, command: u16, status: u16, result: u32) {
        if let Some((value, event)) = self.shadow_of(2 * id + 1) {
            let head = self.reach.atomic(value).load(Ordering::Acquire);
            self.completion[id].as_mut().expect("a completion queue").head = head;
            let wanted = if self.behaviour.never_wants_doorbells { head.wrapping_sub(1) } else { head };
            self.reach.atomic(event).store(wanted, Ordering::SeqCst);
        }
        let queue = self.completion[id].as_mut().expect("a completion queue");
        assert_ne!((queue.tail + 1) % queue.entries, queue.head, "the completion queue is full");
        let at = queue.base + u64::from(queue.tail) * 16;
        let last = u32::from(command) | queue.phase << 16 | u32::from(status) << 17;
        queue.tail += 1;
        if queue.tail == queue.entries {
            (queue.tail, queue.phase) = (0, queue.phase ^ 1);
        }
        let vector = queue.vector;
        self.reach.write(at, &result.to_le_bytes());
        self.reach.atomic(at + 12).store(last, Ordering::Release);
        if let Some(vector) = vector {
            match &mut self.masked[vector] {
                (true, was_held_back) => *was_held_back = true,
                (false, _) => {
                    irq::signal(&self.events[vector]);
                }
            }
        }
    }

    fn configure(&mut self, value: u32) {
        let pair = |at| u64::from(self.register(at)) | u64::from(self.register(at + 4)) << 32;
        if value & 1 != 0 && self.register(CC) & 1 == 0 {
            assert_eq!(value >> 16 & 0xff, 0x46, "entries of 64 and 16 bytes");
            let (base, entries) = (pair(ASQ), (self.register(AQA) & 0xfff) + 1);
            let completion = pair(ACQ);
            self.submission[0] = Some(Sq { base, entries, head: 0, tail: 0 });
            self.completion[0] =
                Some(Cq { base: completion, entries, head: 0, tail: 0, phase: 1, vector: None });
        }
        if value & 1 == 0 {
            self.seen.resets += 1;
            self.submission.fill(None);
            self.completion.fill(None);
            self.hanging.clear();
            self.shadow = None;
            self.host_memory.clear();
        }
    }
}

impl Registers for SimController {
    fn read32(&self, at: usize) -> u32 {
        let state = self.state();
        if state.behaviour.gone {
            return u32::MAX;
        }
        match at {
            VS => state.behaviour.version.unwrap_or(0x2_0000),
            CRTO => state.behaviour.crto.expect("read where CAP.CRMS says that it is there"),
            CSTS => {
                let enabled = state.register(CC) & u32::from(!state.behaviour.was_reset);
                let ready = enabled | u32::from(state.behaviour.never_stops && state.seen.resets > 0);
                ready | u32::from(state.behaviour.fatal) << 1
            }
            other => state.register(other),
        }
    }

    fn write32(&self, at: usize, value: u32) {
        let mut state = self.state();
        if state.behaviour.gone {
            return;
        }
        if let Some(doorbells) = &self.deferred
            && state.submission[drive::PAIR].is_none()
        {
            // A pair that is created begins at zero.
            doorbells.iter().for_each(|doorbell| doorbell.store(0, Ordering::Release));
        }
        if at >= DOORBELLS {
            let shift = 2 + state.behaviour.stride_shift;
            state.doorbell((at - DOORBELLS) >> shift, value);
        } else {
            if at == CC {
                state.configure(value);
            }
            state.registers.insert(at, value);
        }
    }

    fn mapped(&self, at: usize) -> Option<NonNull<u32>> {
        let number = drive::DOORBELLS_AT.iter().position(|doorbell| *doorbell == at)?;
        NonNull::new(self.deferred.as_ref()?[number].as_ptr())
    }

    fn read64(&self, at: usize) -> u64 {
        assert_eq!(at, 0, "CAP");
        let behaviour = &self.state().behaviour;
        let Behaviour { stride_shift, crto, gone, .. } = *behaviour;
        if gone {
            return u64::MAX;
        }
        // The NVM command set, half a second to become ready.
        let modes = u64::from(crto.is_some()) << 59;
        u64::from(behaviour.most_entries() - 1) | 1 << 24 | u64::from(stride_shift) << 32 | 1 << 37 | modes
    }

    fn write64(&self, at: usize, value: u64) {
        self.write32(at, value as u32);
        self.write32(at + 4, (value >> 32) as u32);
    }
}

impl Device for SimController {
    fn registers_len(&self) -> usize {
        2 * PAGE
    }

    fn huge_pages(&self) -> HugePages {
        if self.state().behaviour.sees_physical { HugePages::Required } else { HugePages::Preferred }
    }

    fn map(&self, memory: &PageRange) -> Result<Box<[u64]>, EngineError> {
        let mut state = self.state();
        let count = memory.len / PAGE;
        let mut pages: Vec<u64> = (0..count as u64).map(|page| state.next_page + page).collect();
        if std::mem::take(&mut state.behaviour.scatter_next) {
            pages.reverse();
        }
        state.next_page += count as u64 + 1;
        for (at, page) in pages.iter().enumerate() {
            state.reach.0.insert(*page, memory.base.as_ptr().wrapping_add(at * PAGE));
        }
        Ok(pages.iter().map(|page| page * PAGE as u64).collect())
    }

    fn unmap(&self, pages: &[u64]) {
        let mut state = self.state();
        for page in pages {
            assert!(!state.host_memory.contains(page), "unmapped while it is the drive's own memory");
            state.reach.0.remove(&(page / PAGE as u64)).expect("mapped until now");
        }
    }

    fn admit(&self) -> Result<(), EngineError> {
        Ok(())
    }

    fn cut_off(&self) -> bool {
        let mut state = self.state();
        if state.behaviour.cannot_be_cut_off {
            return false;
        }
        state.configure(0);
        true
    }

    fn vectors(&self) -> u32 {
        self.state().behaviour.pairs().min(2)
    }

    fn arm(&self, events: &[Arc<OwnedFd>]) -> Result<(), EngineError> {
        let mut state = self.state();
        (state.events, state.masked) = (events.to_vec(), vec![(false, false); events.len()]);
        Ok(())
    }

    fn arm_one(&self, vector: u16, event: Option<&OwnedFd>) -> Result<(), EngineError> {
        let mut state = self.state();
        let (_, was_held_back) = std::mem::take(&mut state.masked[usize::from(vector)]);
        match event {
            None => state.masked[usize::from(vector)].0 = true,
            Some(event) if was_held_back => drop(irq::signal(event)),
            Some(_) => {}
        }
        Ok(())
    }

    fn asked_back(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asked_back)
    }

    fn vfio(&self) -> &'static str {
        "type1"
    }
}
