//! The engine `nvme-user`: it turns requests into commands on its own queue pair, and reads their
//! completions.

mod care;
mod waits;

use super::command::{Command, CompletionEntry, Transfer};
use super::controller::Controller;
use super::device::{PAGE, PageRange};
use super::dma::DmaMapping;
use super::flights::{Flight, Flights, MOST_IDS};
use super::identify::NamespaceInfo;
use super::pairs;
use super::prp::{self, Prepared};
use super::queue::{QueuePair, Release};
use super::registers::ControllerEnd;
use super::waiting::Waiting;
use crate::drain::{DRAIN_LIMIT, Leaky};
use crate::engine::{Counters, Engine, Leaked, Setup, sealed};
use crate::error::{EngineError, Refused};
use crate::pool::Pool;
use crate::request::{Buffers, Completion, IoError, Op, Operation, Request};
use iopj_path::UserCompletion;
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What must outlive the device's access to it, in the order of dropping: the controller last, because it
/// owns the shadow doorbells.
pub(super) struct Held {
    pub(super) pair: QueuePair,
    buffers: DmaMapping,
    _pool: Pool,
    pub(super) controller: Arc<Controller>,
}

/// What one command may do on the namespace.
pub(super) struct TransferLimits {
    pub(super) nsid: u32,
    pub(super) shift: u8,
    /// The bits of an offset or a length that must be zero.
    pub(super) mask: u64,
    /// The most bytes of one command.
    pub(super) most: u32,
    pub(super) writable: bool,
}

impl TransferLimits {
    fn of(controller: &Controller, namespace: &NamespaceInfo, writable: bool) -> TransferLimits {
        let shift = namespace.lba_shift;
        let blocks = 1 << (16 + u32::from(shift)).min(31);
        let most = controller.identity().max_transfer_bytes.min(blocks);
        TransferLimits { nsid: namespace.nsid, shift, mask: (1 << shift) - 1, most, writable }
    }
}

/// The engine of kernel bypass: a queue pair of its own on a controller that this process drives.
pub struct NvmeUser {
    pub(super) held: Leaky<Held>,
    pub(super) pool: Pool,
    pub(super) limits: TransferLimits,
    pub(super) flights: Flights,
    /// By buffer, the second PRP entries of commands of more than a page; empty if a list needs more than one
    /// page.
    prepared: Box<[Prepared]>,
    pub(super) iodepth: usize,
    waiting: Waiting,
    /// What the pair's vector signals, and whether it does so now.
    event: Option<Arc<OwnedFd>>,
    is_armed: bool,
    /// The event is in somebody's epoll loop, so it must be read.
    is_watched: Cell<bool>,
    setup: Setup,
    /// Batches of completions until the next look at the commands in flight, and between two looks.
    until_look: u32,
    look_every: u32,
    looks: u32,
    /// When the commands in flight age next.
    next_age: Instant,
    finished: Option<EngineEnd>,
    /// True when the kernel wants the device back.
    asked_back: Arc<AtomicBool>,
    is_closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EngineEnd {
    /// The controller has ended.
    Ended(ControllerEnd),
    /// The kernel wants the device back; the controller goes on.
    AskedBack,
}

impl NvmeUser {
    /// Opens an engine with a queue pair of its own on a namespace that can be used. One that `switches` can
    /// interrupt, even if it does not begin with that.
    pub(super) fn open_pair(
        controller: &Arc<Controller>,
        namespace: &NamespaceInfo,
        writable: bool,
        pool: &Pool,
        iodepth: u32,
        (mode, switches): (UserCompletion, bool),
    ) -> Result<NvmeUser, EngineError> {
        if let Some(reason) = &namespace.unusable {
            return Err(EngineError::unsupported(format!(
                "namespace {} of {} cannot be used: {reason}",
                namespace.nsid,
                controller.address()
            )));
        }
        if pool.count() > MOST_IDS {
            return Err(EngineError::unsupported(format!(
                "{} buffers are more than the {MOST_IDS} identifiers that NVMe commands have: lower iodepth",
                pool.count()
            )));
        }
        let (base, len) = memory(pool)?;
        let buffers =
            DmaMapping::new(controller.device(), &PageRange { base, len, is_huge: pool.is_huge() })?;
        let flights = Flights::new(pool.count(), iodepth);
        let interrupts = switches || mode == UserCompletion::Interrupt;
        let (mut pair, event) =
            controller.create_pair(pairs::layout(pool, iodepth, interrupts), interrupts)?;
        pair.submission.prepare(Command::transfers(namespace.nsid));
        let prepared = pairs::prepare(&pair, &buffers, pool);
        let limits = TransferLimits::of(controller, namespace, writable);
        let setup = Setup { shadow_doorbells: pair.has_shadow(), ..Setup::default() };
        let held = Held { pair, buffers, _pool: pool.clone(), controller: Arc::clone(controller) };
        let mut engine = NvmeUser {
            held: Leaky::new(held),
            pool: pool.clone(),
            limits,
            flights,
            prepared,
            iodepth: iodepth as usize,
            waiting: Waiting::polling(),
            is_armed: event.is_some(),
            event,
            is_watched: Cell::new(false),
            setup,
            until_look: 1,
            look_every: 1,
            looks: 0,
            next_age: Instant::now(),
            finished: None,
            asked_back: controller.device().asked_back(),
            is_closed: false,
        };
        // Last: a failure drops the engine, which deletes the queue pair.
        engine.set_completion(mode)?;
        Ok(engine)
    }

    /// Changes how the engine waits, whatever is in flight; the queue pair stays as it is. To interrupt, the
    /// engine must have begun with that or been opened by
    /// [`NvmeUserBuilder::switches`](super::NvmeUserBuilder::switches). A pair that can interrupt and polls
    /// has its vector masked.
    ///
    /// # Errors
    /// The pair has no vector, or the kernel refuses to arm it: the engine waits as before. The kernel
    /// refuses to mask it: the engine waits in the new way, and interrupts go on.
    pub fn set_completion(&mut self, mode: UserCompletion) -> Result<(), EngineError> {
        let interrupts = mode == UserCompletion::Interrupt;
        if interrupts {
            self.arm(true)?;
        }
        self.waiting.change(mode, self.event.as_ref())?;
        self.held.pair.completion.set_release(if interrupts { Release::AtOnce } else { Release::Seldom });
        // Waits that sleep are few, and a clock read costs little beside them.
        self.look_every = if matches!(mode, UserCompletion::Poll(_)) { 1 << 12 } else { 1 << 6 };
        self.until_look = self.look_every;
        if interrupts { Ok(()) } else { self.arm(false) }
    }

    /// Lets the pair's vector, if it has one, signal its event from now on, or not.
    fn arm(&mut self, arm: bool) -> Result<(), EngineError> {
        if let Some(event) = self.event.as_deref()
            && arm != self.is_armed
        {
            self.held.controller.arm_pair(self.held.pair.id, arm.then_some(event))?;
            self.is_armed = arm;
        }
        Ok(())
    }

    /// The PRP entries of a read or a write for which there is room, if they are known: its command can be
    /// written at once. The request is looked at where it is, so that it is moved nowhere.
    #[inline(always)]
    fn known(&self, operation: &Operation) -> Option<(u64, u64)> {
        let transfer = operation.transfer()?;
        if self.flights.room() == 0
            || transfer.offset & self.limits.mask != 0
            || (operation.op() != Op::Read && !self.limits.writable)
            || !transfer.buffer.pool().is(&self.pool)
        {
            return None;
        }
        self.flights.prps(transfer.buffer.index(), transfer.len)
    }

    /// Writes the command of a request whose PRP entries are [`NvmeUser::known`].
    #[inline(always)]
    fn push_known(&mut self, request: Request, prps: (u64, u64)) {
        let op = request.operation.op();
        let Some(transfer) = request.operation.into_transfer() else { return };
        let (index, len, offset) = (transfer.buffer.index(), transfer.len, transfer.offset);
        self.flights.start(index, request.tag);
        let shift = self.limits.shift;
        self.held.pair.submission.push_transfer(Transfer {
            write: op != Op::Read,
            fua: op.is_durable(),
            id: index as u16,
            lba: offset >> shift,
            blocks: len >> shift,
            prps,
        });
        transfer.buffer.take_off();
    }

    /// Pushes a request whose PRP entries are not [`NvmeUser::known`], or refuses it.
    #[cold]
    #[inline(never)]
    fn push_otherwise(&mut self, request: Request) -> Result<(), Refused> {
        if let Err(error) = self.check(&request) {
            return Err(Refused::new(request, error));
        }
        if let Some(transfer) = request.operation.transfer() {
            // The caller has the buffer, so no command in flight uses its list.
            let (index, len) = (transfer.buffer.index(), transfer.len);
            self.flights.set_prps(index, len, self.prps(index, len));
            let Some(prps) = self.known(&request.operation) else {
                let why = EngineError::unsupported("the request was refused for no known reason");
                return Err(Refused::new(request, why));
            };
            self.push_known(request, prps);
            return Ok(());
        }
        self.push_rare(request)
    }

    /// The PRP entries of a command of `len` bytes from a buffer that is not in flight.
    fn prps(&self, index: u32, len: u32) -> (u64, u64) {
        let Held { pair, buffers, .. } = &*self.held;
        let at = self.pool.offset(index);
        let pages = prp::pages_of(at % PAGE, len as usize);
        let second = match self.prepared.get(index as usize) {
            _ if pages == 1 => 0,
            Some(prepared) => prepared.second(pages),
            // SAFETY: the list is as long as the longest transfer needs, and no command in flight has this
            // identifier: its buffer has another owner now.
            None => unsafe {
                prp::second(&buffers.pages()[at / PAGE..], at % PAGE, len as usize, || {
                    pair.list(index as u16)
                })
            },
        };
        (buffers.address(at), second)
    }

    /// Hands out completions, of which at least one is ready; returns how many.
    #[inline(always)]
    fn take_ready<S: FnMut(Completion)>(&mut self, sink: &mut S) -> usize {
        let mut found = 0;
        let taking = Taking(self);
        loop {
            let CompletionEntry { id, status, .. } = taking.0.held.pair.completion.take();
            let completion = match taking.0.flights.end_transfer(id) {
                Some(Flight { tag, len, .. }) => {
                    let result = if status == 0 { Ok(len) } else { failed(status) };
                    // SAFETY: the buffer of this number took off with the command, which was in flight.
                    let buffer = unsafe { taking.0.pool.land(id.into()) };
                    Some(Completion { tag, result, buffers: Buffers::One(buffer) })
                }
                None => taking.0.end_other(id, status).map(|completion| *completion),
            };
            if let Some(completion) = completion {
                found += 1;
                sink(completion);
            }
            if !taking.0.held.pair.completion.is_ready() {
                break;
            }
        }
        drop(taking);
        self.waiting.progress();
        self.until_look -= 1;
        if self.until_look == 0 {
            self.look_after();
        }
        found
    }

    /// As [`NvmeUser::take_ready`], if any is ready; otherwise does nothing.
    #[inline(never)]
    fn take_late<S: FnMut(Completion)>(&mut self, sink: &mut S) -> usize {
        if self.held.pair.completion.is_ready() { self.take_ready(sink) } else { 0 }
    }

    /// The completion of a command without a buffer; none for an identifier that is not in flight, which is
    /// the controller's error. Boxed, so that the common completion is made in registers.
    #[cold]
    #[inline(never)]
    fn end_other(&mut self, id: u16, status: u16) -> Option<Box<Completion>> {
        let Flight { tag, .. } = self.flights.end(id)?;
        Some(Box::new(self.complete(id, tag, if status == 0 { Ok(0) } else { failed(status) })))
    }

    /// The completion of a command that was in flight and has ended.
    fn complete(&self, id: u16, tag: u64, result: Result<u32, IoError>) -> Completion {
        if !self.flights.is_buffer(id) {
            return Completion { tag, result: result.map(|_| 0), buffers: Buffers::None };
        }
        // SAFETY: the buffer of this number took off with the command, which was in flight until now.
        let buffer = unsafe { self.pool.land(id.into()) };
        Completion { tag, result, buffers: Buffers::One(buffer) }
    }
}

/// Gives the entries that were taken back to the controller, even if a sink panics: else the queue would run
/// full.
struct Taking<'a>(&'a mut NvmeUser);

impl Drop for Taking<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.held.pair.completion.release();
    }
}

#[inline]
fn failed(status: u16) -> Result<u32, IoError> {
    Err(IoError::Nvme(status.into()))
}

/// The memory of a pool, to be mapped for the drive.
fn memory(pool: &Pool) -> Result<(NonNull<u8>, usize), EngineError> {
    pool.memory().ok_or_else(|| EngineError::unsupported("nvme-user needs buffers of its own, not lent ones"))
}

impl sealed::Sealed for NvmeUser {}

impl Engine for NvmeUser {
    #[inline(always)]
    fn push(&mut self, request: Request) -> Result<(), Refused> {
        if self.finished.is_none()
            && let Some(prps) = self.known(&request.operation)
        {
            self.push_known(request, prps);
            return Ok(());
        }
        self.push_otherwise(request)
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        self.held.pair.submission.ring();
        Ok(())
    }

    #[inline]
    fn reap<S: FnMut(Completion)>(&mut self, mut sink: S) -> Result<usize, EngineError> {
        if let Some(finish) = self.finished {
            return self.give_up(finish, &mut sink);
        }
        let is_watched = self.is_watched.get() && self.is_armed;
        if is_watched {
            self.waiting.read_event(self.event.as_deref());
        }
        if self.held.pair.completion.is_ready() {
            return Ok(self.take_ready(&mut sink));
        }
        // Whoever sleeps elsewhere asks seldom, so the clock is read each time.
        if is_watched {
            self.look_if_quiet();
        } else {
            self.count_empty_poll();
        }
        Ok(0)
    }

    #[inline]
    fn wait<S: FnMut(Completion)>(
        &mut self,
        min: usize,
        until: Option<Instant>,
        mut sink: S,
    ) -> Result<usize, EngineError> {
        if self.finished.is_some() || !self.held.pair.submission.ring_if_plain() {
            return self.wait_otherwise(min, until, &mut sink);
        }
        self.wait_submitted(min, until, &mut sink)
    }

    #[inline]
    fn in_flight(&self) -> usize {
        self.flights.count()
    }

    fn iodepth(&self) -> usize {
        self.iodepth
    }

    fn supports(&self, op: Op) -> bool {
        self.lacks(op).is_none()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let event = self.event.as_ref().filter(|_| self.is_armed)?;
        self.is_watched.set(true);
        Some(event.as_fd())
    }

    fn counters(&self) -> Counters {
        let [submissions, completions] = self.held.pair.doorbell_writes();
        Counters {
            system_calls: Some(self.waiting.system_calls),
            doorbells: submissions + completions,
            completion_doorbells: completions,
            sleeps: self.waiting.sleeps,
            empty_polls: self.waiting.empty_polls,
            ..Counters::default()
        }
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn close(mut self, until: Instant) -> Result<(), Leaked> {
        Leaked::unless_none(self.end(until))
    }
}

impl Drop for NvmeUser {
    fn drop(&mut self) {
        self.end(Instant::now() + DRAIN_LIMIT);
    }
}
