//! A queue pair: the rings of submission and completion entries, their indices, phase and doorbells.
//!
//! Sources: NVM Express Base Specification 2.0, sections 3.3 (queues) and 4.2 (completions), and annex B.5
//! (shadow doorbells); PCIe Transport Specification 1.0, section 3.1.2 (doorbells).

use super::command::{COMMAND_LEN, COMPLETION_LEN, Command, CompletionEntry, Transfer};
use super::device::{Device, PAGE};
use super::dma::DmaMemory;
use super::prp::List;
use super::registers::DOORBELLS;
use crate::error::EngineError;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// The largest queue in entries that an index of 16 bits can name.
pub(super) const MOST_ENTRIES: u32 = 1 << 16;

/// Makes all that was written to memory visible to the device before the next write of a register. Registers
/// are uncached, so on x86 the order of the stores suffices.
#[inline]
fn before_doorbell() {
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier touches no memory.
    unsafe {
        std::arch::asm!("dmb oshst", options(nostack, preserves_flags));
    }
    fence(Ordering::Release);
}

/// The shadow doorbells of a controller: a page of values, and a page in which the controller says when it
/// wants to be told by the real doorbell.
pub(super) struct ShadowPages {
    memory: DmaMemory,
}

impl ShadowPages {
    pub(super) fn new(device: &Arc<dyn Device>) -> Result<ShadowPages, EngineError> {
        Ok(ShadowPages { memory: DmaMemory::new(device, 2 * PAGE)? })
    }

    /// The pages' addresses as the device sees them: values, event indices.
    pub(super) fn addresses(&self) -> (u64, u64) {
        let mapping = self.memory.mapping();
        (mapping.address(0), mapping.address(PAGE))
    }

    /// The shadow of the doorbell `at` bytes after the first one; a page holds no more than its length.
    fn of(&self, at: usize) -> Option<Shadow> {
        (at + 4 <= PAGE).then(|| Shadow {
            value: self.memory.at(at, 4).cast(),
            event: self.memory.at(PAGE + at, 4).cast(),
        })
    }
}

/// One doorbell's addresses in the [`ShadowPages`].
#[derive(Clone, Copy)]
struct Shadow {
    value: NonNull<AtomicU32>,
    event: NonNull<AtomicU32>,
}

impl Shadow {
    fn both(&self) -> (&AtomicU32, &AtomicU32) {
        // SAFETY: both point into the controller's `ShadowPages`, which outlive every queue pair
        // (`QueuePair::new`); the device reads and writes them as whole dwords.
        unsafe { (self.value.as_ref(), self.event.as_ref()) }
    }

    fn clear(self) {
        let (value, event) = self.both();
        value.store(0, Ordering::Relaxed);
        event.store(0, Ordering::Relaxed);
    }

    /// Writes the new value; true if the controller wants to be told of it, that is, if its event index lies
    /// among the values passed.
    #[inline]
    fn pass(self, old: u16, new: u16) -> bool {
        let (value, event) = self.both();
        value.store(new.into(), Ordering::Relaxed);
        // The device writes its event index, then reads the value; we do the reverse. One of the two sees the
        // other.
        fence(Ordering::SeqCst);
        let event = event.load(Ordering::Relaxed) as u16;
        new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
    }
}

/// A doorbell register with, where the controller offers it, its shadow.
struct Doorbell {
    device: Arc<dyn Device>,
    at: usize,
    register: Option<NonNull<u32>>,
    /// The register, if a store to it is all that is needed.
    plain: Option<NonNull<u32>>,
    shadow: Option<Shadow>,
    /// The latest value, below 65536.
    shown: u32,
    /// Only the shadow holds it.
    is_behind: bool,
    writes: u64,
}

impl Doorbell {
    fn new(device: &Arc<dyn Device>, number: usize, stride: usize, shadow: Option<&ShadowPages>) -> Doorbell {
        let at = number * stride;
        let shadow = shadow.and_then(|pages| pages.of(at));
        if let Some(shadow) = shadow {
            // A queue of this number may have been here before; the new one begins at zero.
            shadow.clear();
        }
        let (device, at) = (Arc::clone(device), DOORBELLS + at);
        let register = device.mapped(at);
        let plain = register.filter(|_| shadow.is_none());
        Doorbell { register, plain, device, at, shadow, shown: 0, is_behind: false, writes: 0 }
    }

    /// Tells the controller the new value of an index, which differs from the one before.
    #[inline]
    fn show(&mut self, value: u32) {
        before_doorbell();
        let old = std::mem::replace(&mut self.shown, value);
        if let Some(shadow) = self.shadow {
            self.is_behind = !shadow.pass(old as u16, value as u16);
            if self.is_behind {
                return;
            }
        }
        self.ring();
    }

    /// As [`Doorbell::show`] if a store to the register is all that is needed; otherwise does nothing and
    /// returns false.
    #[inline]
    fn show_if_plain(&mut self, value: u32) -> bool {
        let Some(register) = self.plain else { return false };
        before_doorbell();
        self.shown = value;
        self.writes += 1;
        // SAFETY: as in `ring`.
        unsafe { register.write_volatile(value) };
        true
    }

    #[inline]
    fn ring(&mut self) {
        self.writes += 1;
        match self.register {
            // SAFETY: it is mapped as long as the device, which is kept here.
            Some(register) => unsafe { register.write_volatile(self.shown) },
            None => self.device.write32(self.at, self.shown),
        }
    }

    /// Rings again if the register does not hold the latest value: an event index may have been stale.
    fn ring_if_behind(&mut self) {
        if std::mem::take(&mut self.is_behind) {
            self.ring();
        }
    }
}

/// The submission queue of a pair. Its owner keeps fewer commands in flight than it has entries.
pub(super) struct SubmissionQueue {
    base: NonNull<Command>,
    entries: u32,
    tail: u32,
    doorbell: Doorbell,
}

impl SubmissionQueue {
    /// Writes a command to the tail. [`SubmissionQueue::ring`] tells the controller.
    #[inline]
    pub(super) fn push(&mut self, command: Command) {
        // SAFETY: the tail is below the number of entries, all of which are in the pair's memory; the entry
        // is free, because fewer commands than entries are in flight.
        unsafe { self.base.add(self.tail as usize).write(command) };
        self.advance();
    }

    /// Makes every entry start as `command`, for [`SubmissionQueue::push_transfer`]; nothing has been pushed
    /// yet.
    pub(super) fn prepare(&mut self, command: Command) {
        for at in 0..self.entries as usize {
            // SAFETY: the entry is in the pair's memory, and none belongs to the controller before the first
            // doorbell.
            unsafe { self.base.add(at).write(command) };
        }
    }

    /// As [`SubmissionQueue::push`], into a queue of prepared entries.
    #[inline]
    pub(super) fn push_transfer(&mut self, transfer: Transfer) {
        // SAFETY: the tail is below the number of entries, all of which were written by `prepare`; the entry
        // is free, because fewer commands than entries are in flight, and the controller does not read it
        // before the doorbell.
        unsafe { self.base.add(self.tail as usize).as_mut() }.become_transfer(transfer);
        self.advance();
    }

    #[inline]
    fn advance(&mut self) {
        self.tail = if self.tail + 1 == self.entries { 0 } else { self.tail + 1 };
    }

    /// Tells the controller of all that was pushed.
    #[inline]
    pub(super) fn ring(&mut self) {
        if self.tail != self.doorbell.shown {
            self.doorbell.show(self.tail);
        }
    }

    /// As [`SubmissionQueue::ring`] if the doorbell is a register that a store reaches; otherwise does
    /// nothing and returns false.
    #[inline]
    pub(super) fn ring_if_plain(&mut self) -> bool {
        self.tail == self.doorbell.shown || self.doorbell.show_if_plain(self.tail)
    }

    /// Takes back the commands that the controller has not seen; gives the identifier of each.
    pub(super) fn take_back(&mut self, mut each: impl FnMut(u16)) {
        while self.tail != self.doorbell.shown {
            self.tail = self.tail.checked_sub(1).unwrap_or(self.entries - 1);
            // SAFETY: the entry was written by `push`, and the controller does not read past the tail it was
            // told.
            let command = unsafe { self.base.add(self.tail as usize).read() };
            each((command.dword0 >> 16) as u16);
        }
    }
}

/// The completion queue of a pair. It cannot overflow: the commands in flight, and the entries not yet given
/// back to the controller, are together fewer than its entries.
pub(super) struct CompletionQueue {
    base: NonNull<u8>,
    /// The end of the last entry.
    end: NonNull<u8>,
    /// The entry that comes next.
    head: NonNull<u8>,
    /// Entries taken that the controller does not know of yet, and the number at which it learns of them.
    taken: u32,
    release_at: u32,
    /// The same where it learns seldom.
    seldom_at: u32,
    /// The phase, in its place in an entry's last dword, that the next complete entry carries.
    phase: u32,
    doorbell: Doorbell,
}

const PHASE: u32 = 1 << 16;

impl CompletionQueue {
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        self.last_dword() & PHASE == self.phase
    }

    #[inline]
    fn last_dword(&self) -> u32 {
        // SAFETY: the head is one of the entries, all of which are in the pair's memory.
        unsafe { CompletionEntry::last_dword(self.head) }
    }

    /// The next entry, if there is one. The controller learns by [`CompletionQueue::release`] that it was
    /// taken.
    #[inline]
    pub(super) fn next(&mut self) -> Option<CompletionEntry> {
        self.is_ready().then(|| self.take())
    }

    /// The next entry, which is ready.
    #[inline]
    pub(super) fn take(&mut self) -> CompletionEntry {
        debug_assert!(self.is_ready());
        let head = self.head;
        self.taken += 1;
        // SAFETY: as in `last_dword`; the caller has seen by the phase that the entry is complete.
        let entry = unsafe { CompletionEntry::read(head, CompletionEntry::last_dword(head)) };
        // SAFETY: the head is one of the entries, so its end is not beyond theirs.
        let next = unsafe { head.add(COMPLETION_LEN) };
        self.head = next;
        if next == self.end {
            self.go_round();
        }
        entry
    }

    #[cold]
    fn go_round(&mut self) {
        self.head = self.base;
        self.phase ^= PHASE;
    }

    /// Changes when the controller learns of taken entries, and tells it of those that are due then. While
    /// nothing interrupts, no interrupt waits for them, so a pair that can interrupt and polls tells seldom.
    pub(super) fn set_release(&mut self, release: Release) {
        self.release_at = match release {
            Release::AtOnce => 1,
            Release::Seldom => self.seldom_at,
        };
        self.release();
    }

    /// Returns the taken entries to the controller, once it might run out of entries without them.
    #[inline]
    pub(super) fn release(&mut self) {
        if self.taken >= self.release_at {
            self.taken = 0;
            let bytes = self.head.as_ptr() as usize - self.base.as_ptr() as usize;
            self.doorbell.show((bytes / COMPLETION_LEN) as u32);
        }
    }
}

/// What the doorbells of a controller have in common.
#[derive(Clone, Copy)]
pub(super) struct Doorbells<'a> {
    pub(super) stride: usize,
    pub(super) shadow: Option<&'a ShadowPages>,
}

/// When a controller learns that entries of its completion queue were taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// After each batch.
    AtOnce,
    /// Once it might run out of entries without them.
    Seldom,
}

/// How many entries and lists a pair has.
#[derive(Clone, Copy)]
pub(super) struct PairLayout {
    /// Commands in flight at the most.
    pub(super) depth: u32,
    /// Entries of the submission queue, more than the depth: a full queue and an empty one must differ.
    pub(super) submissions: u32,
    /// Entries of the completion queue, more than the depth. The more there are, the fewer doorbells are
    /// needed to free them.
    pub(super) completions: u32,
    pub(super) release: Release,
    /// Lists of PRP entries, one per identifier.
    pub(super) lists: u32,
    /// Bytes of each.
    pub(super) list_len: usize,
}

impl PairLayout {
    /// A pair of the least length, whose commands have no lists.
    pub(super) fn least(depth: u32) -> PairLayout {
        let (entries, release) = (depth + 1, Release::AtOnce);
        PairLayout { depth, submissions: entries, completions: entries, release, lists: 0, list_len: 0 }
    }

    /// The same within a controller's limit, which is more than the depth.
    pub(super) fn within(self, most_entries: u32) -> PairLayout {
        let (submissions, completions) =
            (self.submissions.min(most_entries), self.completions.min(most_entries));
        PairLayout { submissions, completions, ..self }
    }

    /// How many entries are taken before the controller learns of it: with those that may be in flight they
    /// leave one entry free.
    fn release_at(&self, release: Release) -> u32 {
        match release {
            Release::AtOnce => 1,
            Release::Seldom => (self.completions - self.depth - 1).max(1),
        }
    }
}

/// A submission queue and a completion queue with one number, and the memory for the lists of their commands.
pub(super) struct QueuePair {
    pub(super) id: u16,
    pub(super) submission: SubmissionQueue,
    pub(super) completion: CompletionQueue,
    lists_at: usize,
    list_len: usize,
    memory: DmaMemory,
}

// SAFETY: all pointers lead to memory of the pair's own, or to doorbells of its controller and their shadows,
// which only the owner of the pair writes; so it may move to another thread.
unsafe impl Send for QueuePair {}

impl QueuePair {
    /// The pair of number `id` in memory; the controller does not know of it yet. The doorbells' shadows must
    /// outlive the pair.
    pub(super) fn new(
        device: &Arc<dyn Device>,
        id: u16,
        shape: PairLayout,
        doorbells: Doorbells<'_>,
    ) -> Result<QueuePair, EngineError> {
        let PairLayout { depth, submissions, completions, lists, list_len, .. } = shape;
        let submission_len = submissions as usize * COMMAND_LEN;
        let completion_at = submission_len.next_multiple_of(PAGE);
        let completion_len = completions as usize * COMPLETION_LEN;
        let lists_at = (completion_at + completion_len).next_multiple_of(PAGE);
        let memory = DmaMemory::new(device, lists_at + lists as usize * list_len)?;
        if !memory.is_contiguous(0, completion_at) || !memory.is_contiguous(completion_at, completion_len) {
            return Err(EngineError::unsupported(format!(
                "queues for {depth} commands found no contiguous memory, which they need without an IOMMU: \
                 lower iodepth"
            )));
        }
        let bell = |second: usize| {
            Doorbell::new(device, 2 * usize::from(id) + second, doorbells.stride, doorbells.shadow)
        };
        let (first, last) =
            (memory.at(completion_at, completion_len), memory.at(completion_at + completion_len, 0));
        Ok(QueuePair {
            id,
            submission: SubmissionQueue {
                base: memory.at(0, submission_len).cast(),
                entries: submissions,
                tail: 0,
                doorbell: bell(0),
            },
            completion: CompletionQueue {
                base: first,
                end: last,
                head: first,
                taken: 0,
                release_at: shape.release_at(shape.release),
                seldom_at: shape.release_at(Release::Seldom),
                phase: PHASE,
                doorbell: bell(1),
            },
            lists_at,
            list_len,
            memory,
        })
    }

    /// The addresses of the submission and of the completion queue as the device sees them.
    pub(super) fn addresses(&self) -> (u64, u64) {
        let completion_at = (self.submission.entries as usize * COMMAND_LEN).next_multiple_of(PAGE);
        (self.memory.mapping().address(0), self.memory.mapping().address(completion_at))
    }

    /// The list of command `id`; an empty one if the pair has no lists.
    #[inline]
    pub(super) fn list(&self, id: u16) -> List<'_> {
        let at = self.lists_at + usize::from(id) * self.list_len;
        let pages = self.memory.mapping().pages();
        List {
            base: self.memory.at(at, self.list_len).cast(),
            pages: &pages[(at / PAGE).min(pages.len())..],
            offset: at % PAGE,
        }
    }

    /// Writes to the registers since the pair was made: of the submission queue, of the completion queue.
    pub(super) fn doorbell_writes(&self) -> [u64; 2] {
        [self.submission.doorbell.writes, self.completion.doorbell.writes]
    }

    pub(super) fn has_shadow(&self) -> bool {
        self.submission.doorbell.shadow.is_some()
    }

    /// Writes both registers where they are behind the shadows: after a while without completions, in case an
    /// event index was stale.
    pub(super) fn ring_if_behind(&mut self) {
        self.submission.doorbell.ring_if_behind();
        self.completion.doorbell.ring_if_behind();
    }
}
