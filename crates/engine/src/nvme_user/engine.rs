//! The engine `nvme-user`: it turns requests into commands on its own queue pair, and reads their
//! completions.

use super::command::{Command, CompletionEntry, Transfer};
use super::controller::Controller;
use super::device::{PAGE, PageRange};
use super::dma::DmaMapping;
use super::flights::{Flight, Flights, MOST_SLOTS};
use super::identify::NamespaceInfo;
use super::pairs;
use super::prp::{self, Prepared};
use super::queue::QueuePair;
use super::registers::ControllerEnd;
use super::waiting::Waiting;
use crate::drain::{Drained, Leaky, drain};
use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Op, Request};
use crate::pool::{Pool, Slot};
use iopj_core::UserCompletion;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What must outlive the device's access to it, in the order of dropping: the controller last, because it
/// owns the shadow doorbells.
struct Held {
    pair: QueuePair,
    buffers: DmaMapping,
    pool: Rc<Pool>,
    controller: Arc<Controller>,
}

/// What one command may do on the namespace.
struct TransferLimits {
    shift: u8,
    /// The bits of an offset or a length that must be zero.
    mask: u64,
    /// The most bytes of one command.
    most: u32,
    writable: bool,
}

pub(crate) struct NvmeUser {
    held: Leaky<Held>,
    limits: TransferLimits,
    flights: Flights,
    /// By slot, the second PRP entries of commands of more than a page; empty if a list needs more than one
    /// page.
    prepared: Box<[Prepared]>,
    waiting: Waiting,
    /// Batches of completions until the next look at the commands in flight, and between two looks.
    until_look: u32,
    look_every: u32,
    looks: u32,
    /// When the commands in flight age next.
    next_age: Instant,
    finished: Option<EngineEnd>,
    /// True when the kernel wants the device back.
    asked_back: Arc<AtomicBool>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EngineEnd {
    /// The controller has ended.
    Ended(ControllerEnd),
    /// The kernel wants the device back; the controller goes on.
    AskedBack,
}

/// Looks at the commands in flight per look at the controller, while completions keep coming.
const LOOKS: u32 = 16;

/// A command in flight ages this many times within the time limit; an older one is aborted.
const AGES: u32 = 10;

impl NvmeUser {
    /// Opens an engine with a queue pair of its own on a namespace that can be used.
    pub(crate) fn open(
        controller: &Arc<Controller>,
        namespace: &NamespaceInfo,
        writable: bool,
        pool: &Rc<Pool>,
        mode: UserCompletion,
        iodepth: u32,
    ) -> Result<NvmeUser, EngineError> {
        if let Some(reason) = &namespace.unusable {
            return Err(EngineError::unsupported(format!(
                "namespace {} of {} cannot be used: {reason}",
                namespace.nsid,
                controller.address()
            )));
        }
        if pool.slots() > MOST_SLOTS {
            return Err(EngineError::unsupported(format!(
                "{} buffers are more than the {MOST_SLOTS} identifiers that NVMe commands have: lower \
                 iodepth",
                pool.slots()
            )));
        }
        let (base, len) = pool.memory();
        let buffers =
            DmaMapping::new(controller.device(), &PageRange { base, len, is_huge: pool.is_huge() })?;
        let flights = Flights::new(pool.slots(), iodepth);
        let interrupts = mode == UserCompletion::Interrupt;
        let (mut pair, event) =
            controller.create_pair(pairs::layout(pool, iodepth, interrupts), interrupts)?;
        pair.submission.prepare(Command::transfers(namespace.nsid));
        let prepared = pairs::prepare(&pair, &buffers, pool);
        // Waits that sleep are few, and a clock read costs little beside them.
        let look_every = if matches!(mode, UserCompletion::Poll(_)) { 1 << 12 } else { 1 << 6 };
        let limits = TransferLimits {
            shift: namespace.lba_shift,
            mask: (1 << namespace.lba_shift) - 1,
            most: controller
                .identity()
                .max_transfer_bytes
                .min(1 << (16 + u32::from(namespace.lba_shift)).min(31)),
            writable,
        };
        let held = Held { pair, buffers, pool: Rc::clone(pool), controller: Arc::clone(controller) };
        let mut engine = NvmeUser {
            held: Leaky::new(held),
            limits,
            flights,
            prepared,
            waiting: Waiting::polling(),
            until_look: look_every,
            look_every,
            looks: 0,
            next_age: Instant::now(),
            finished: None,
            asked_back: controller.device().asked_back(),
        };
        // Last: a failure drops the engine, which deletes the queue pair.
        engine.waiting = Waiting::new(mode, event)?;
        Ok(engine)
    }

    /// Writes one command, for which there is room, and returns 1. Kept out of line, as in the ring's engine.
    /// Rare cases end in a call, so it saves no registers for them.
    #[inline(never)]
    fn push_one(&mut self, request: &Request) -> Result<usize, EngineError> {
        let Request { op, slot, len, offset, tag } = *request;
        if offset & self.limits.mask != 0 {
            return self.refuse(request);
        }
        if op == Op::Write && !self.limits.writable {
            return self.refuse(request);
        }
        let Some(prps) = self.flights.prps(slot, len) else { return self.push_other_len(request) };
        self.held.pool.start_known(slot)?;
        self.flights.start(slot, tag, len);
        let shift = self.limits.shift;
        self.held.pair.submission.push_transfer(Transfer {
            write: op == Op::Write,
            id: slot.0 as u16,
            lba: offset >> shift,
            blocks: len >> shift,
            prps,
        });
        Ok(1)
    }

    /// As [`NvmeUser::push_one`], if the length differs from that of the slot's last command.
    #[inline(never)]
    fn push_other_len(&mut self, request: &Request) -> Result<usize, EngineError> {
        let Request { slot, len, .. } = *request;
        if u64::from(len) & self.limits.mask != 0 || len.wrapping_sub(1) >= self.limits.most {
            return self.refuse(request);
        }
        // The slot is taken while its list may be written, so no command in flight uses the list.
        self.held.pool.start(slot, len)?;
        self.flights.set_prps(slot, len, self.prps(slot, len));
        self.held.pool.finish(slot);
        self.push_one(request)
    }

    /// The PRP entries of a command of `len` bytes in a slot that the caller has taken.
    fn prps(&self, slot: Slot, len: u32) -> (u64, u64) {
        let Held { pair, buffers, pool, .. } = &*self.held;
        let at = pool.offset(slot);
        let pages = prp::pages_of(at % PAGE, len as usize);
        let second = match self.prepared.get(slot.0 as usize) {
            _ if pages == 1 => 0,
            Some(prepared) => prepared.second(pages),
            // SAFETY: the list is as long as the longest transfer needs, and no command in flight has this
            // identifier: the pool gave its slot to this one.
            None => unsafe {
                prp::second(&buffers.pages()[at / PAGE..], at % PAGE, len as usize, || {
                    pair.list(slot.0 as u16)
                })
            },
        };
        (buffers.address(at), second)
    }

    /// [`Engine::push`] of more than one request, or without room.
    #[inline(never)]
    fn push_many(&mut self, requests: &[Request]) -> Result<usize, EngineError> {
        let taken = self.flights.room().min(requests.len());
        for request in &requests[..taken] {
            self.push_one(request)?;
        }
        Ok(taken)
    }

    #[cold]
    fn push_nothing(&self, finish: EngineEnd) -> Result<usize, EngineError> {
        Err(self.finish_error(finish))
    }

    #[cold]
    fn refuse(&self, request: &Request) -> Result<usize, EngineError> {
        let TransferLimits { shift, most, writable, .. } = self.limits;
        let address = self.held.controller.address();
        if request.op == Op::Write && !writable {
            let reading = format!("{address} was opened for reading: open its target for writing");
            return Err(EngineError::unsupported(reading));
        }
        Err(EngineError::unsupported(format!(
            "{} bytes at byte {} do not make an NVMe command: {address} takes whole logical blocks of {} \
             bytes, up to {most} bytes at once; use such a bs",
            request.len,
            request.offset,
            1u32 << shift,
        )))
    }

    /// Takes completions, of which at least one is ready, within `done`'s spare capacity; returns how many.
    #[inline(always)]
    fn reap(&mut self, done: &mut Vec<Completion>) -> usize {
        let Held { pair, pool, .. } = &mut *self.held;
        let mut found = 0;
        let places = done.spare_capacity_mut();
        while let Some(place) = places.get_mut(found) {
            let Some(ended) = next_ended(pair, pool, &mut self.flights) else { break };
            place.write(ended);
            found += 1;
            if !pair.completion.is_ready() {
                break;
            }
        }
        // SAFETY: the first `found` places of the spare capacity were written.
        unsafe { done.set_len(done.len() + found) };
        pair.completion.release();
        self.waiting.progress();
        self.until_look -= 1;
        if self.until_look == 0 {
            self.look_after();
        }
        found
    }

    /// As [`NvmeUser::reap`], if any is ready; otherwise does nothing.
    #[inline(never)]
    fn reap_late(&mut self, done: &mut Vec<Completion>) -> usize {
        if self.held.pair.completion.is_ready() { self.reap(done) } else { 0 }
    }

    /// Checks the commands in flight, and from time to time the controller, while completions come.
    #[cold]
    fn look_after(&mut self) {
        self.until_look = self.look_every;
        self.age();
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS) {
            self.finished = self.held.controller.look().map(EngineEnd::Ended);
        }
        if self.asked_back.load(Ordering::Relaxed) {
            self.finished = Some(EngineEnd::AskedBack);
        }
    }

    /// Ages the commands in flight, [`AGES`] times within the time limit. Aborts those that are older and, if
    /// that does not help in time, resets the controller.
    #[cold]
    fn age(&mut self) {
        let controller = &self.held.controller;
        let (limits, now) = (controller.limits, Instant::now());
        if now < self.next_age {
            return;
        }
        // They age once, however late this is: a process that was stopped for a minute must not think that a
        // command hangs.
        let period = limits.command / AGES;
        self.next_age = now + period;
        let old = self.flights.grow_older(AGES);
        let after_abort = limits.abort.div_duration_f64(period).ceil() as u32;
        if old.iter().any(|(_, age)| *age > AGES + 1 + after_abort) {
            controller.reset(ControllerEnd::Late);
        }
        for (id, _) in old.iter().filter(|(_, age)| *age == AGES + 1) {
            controller.abort(self.held.pair.id, *id);
        }
        self.finished = controller.end().map(EngineEnd::Ended);
    }

    #[cold]
    fn finish_error(&self, finish: EngineEnd) -> EngineError {
        match finish {
            EngineEnd::Ended(end) => self.held.controller.end_error(end),
            EngineEnd::AskedBack => self.held.controller.asked_back_error(),
        }
    }

    /// After the controller's end: completes what is in flight with errors, then returns the error that says
    /// why.
    #[cold]
    fn give_up(&mut self, finish: EngineEnd, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let EngineEnd::Ended(end) = finish else { return Err(self.finish_error(finish)) };
        if self.reap_late(done) > 0 {
            return Ok(()); // these had completed before
        }
        let controller = &self.held.controller;
        if self.in_flight() == 0 || !controller.has_stopped() {
            return Err(controller.end_error(end));
        }
        let result = Err(IoError::Os(end.errno()));
        for id in self.flights.ids().into_iter().take(done.capacity() - done.len()) {
            let (Some(Flight { tag, .. }), slot) = (self.flights.end(id), Slot(id.into())) else { continue };
            self.held.pool.finish(slot);
            done.push(Completion { tag, slot, result });
        }
        Ok(())
    }

    /// Nothing came for a while: checks the controller, rings again, and checks what is in flight.
    #[cold]
    fn quiet(&mut self) {
        if self.asked_back.load(Ordering::Relaxed) {
            self.finished = Some(EngineEnd::AskedBack);
            return;
        }
        self.finished = self.held.controller.look().map(EngineEnd::Ended);
        if self.finished.is_none() && self.in_flight() > 0 {
            self.held.pair.ring_if_behind();
            self.age();
        }
    }

    /// [`Engine::wait`] if the doorbell is not a plain register, or the engine is finished.
    #[inline(never)]
    fn wait_otherwise(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if let Some(finish) = self.finished {
            return self.give_up(finish, done);
        }
        self.held.pair.submission.ring();
        self.wait_submitted(min, done)
    }

    /// [`Engine::wait`] for what was submitted. The branches end in calls: each saves only the
    /// registers that it uses.
    #[inline(always)]
    fn wait_submitted(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if self.held.pair.completion.is_ready() {
            self.reap_and_await(min, done)
        } else if min > 0 {
            self.await_more(min, done)
        } else if self.waiting.is_look_due() {
            self.look_if_quiet()
        } else {
            Ok(())
        }
    }

    /// Called after many polls that found nothing.
    #[cold]
    fn look_if_quiet(&mut self) -> Result<(), EngineError> {
        if self.waiting.is_quiet() {
            self.quiet();
        }
        Ok(())
    }

    /// Takes what is ready, and waits for the rest of `min`.
    #[inline(never)]
    fn reap_and_await(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let found = self.reap(done);
        if found < min { self.await_more(min - found, done) } else { Ok(()) }
    }

    /// Waits for at least one of `min` more completions, or for the engine's end.
    #[inline(never)]
    fn await_more(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        let already = done.len();
        let min = min.min(self.in_flight()).min(done.capacity() - already);
        if min == 0 {
            return Ok(());
        }
        self.waiting.begin();
        while done.len() - already < min {
            let Held { pair, .. } = &*self.held;
            if self.waiting.until_ready(&pair.completion) {
                self.reap_late(done);
            } else {
                self.quiet();
                if let Some(finish) = self.finished {
                    return if done.len() > already { Ok(()) } else { self.give_up(finish, done) };
                }
            }
        }
        self.waiting.end();
        Ok(())
    }
}

/// The next completion, of an entry that is ready; `None` if no ready entry belongs to a request in flight.
#[inline(always)]
fn next_ended(pair: &mut QueuePair, pool: &Pool, flights: &mut Flights) -> Option<Completion> {
    loop {
        let CompletionEntry { id, status, .. } = pair.completion.take();
        if let Some(Flight { tag, len, .. }) = flights.end(id) {
            let slot = Slot(id.into());
            pool.finish(slot);
            let result = if status == 0 { Ok(len) } else { failed(status) };
            return Some(Completion { tag, slot, result });
        }
        // An identifier that is not in flight is the controller's error.
        if !pair.completion.is_ready() {
            return None;
        }
    }
}

#[cold]
fn failed(status: u16) -> Result<u32, IoError> {
    Err(IoError::Nvme(status))
}

impl Engine for NvmeUser {
    fn push(&mut self, requests: &[Request]) -> Result<usize, EngineError> {
        if let Some(finish) = self.finished {
            return self.push_nothing(finish);
        }
        match requests {
            [request] if self.flights.room() > 0 => self.push_one(request),
            _ => self.push_many(requests),
        }
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        self.held.pair.submission.ring();
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if self.finished.is_some() || !self.held.pair.submission.ring_if_plain() {
            return self.wait_otherwise(min, done);
        }
        self.wait_submitted(min, done)
    }

    fn in_flight(&self) -> usize {
        self.flights.count()
    }

    fn facts(&self) -> EngineFacts {
        let pair = &self.held.pair;
        let [submissions, completions] = pair.doorbell_writes();
        EngineFacts {
            system_calls: Some(self.waiting.system_calls),
            doorbells: submissions + completions,
            completion_doorbells: completions,
            sleeps: self.waiting.sleeps,
            empty_polls: self.waiting.empty_polls,
            shadow_doorbells: pair.has_shadow(),
            ..EngineFacts::default()
        }
    }
}

impl Drop for NvmeUser {
    fn drop(&mut self) {
        if self.held.is_parents() {
            return;
        }
        let Held { pair, pool, controller, .. } = &mut *self.held;
        let flights = &mut self.flights;
        let finish = |flights: &mut Flights, id: u16| {
            if flights.end(id).is_some() {
                pool.finish(Slot(id.into()));
            }
        };
        // Commands that the controller has not seen are taken back: a write that was only pushed does not
        // happen.
        pair.submission.take_back(|id| finish(flights, id));
        drain(|_| {
            if flights.count() == 0 || controller.end().is_some() {
                return Drained::Empty;
            }
            while let Some(entry) = pair.completion.next() {
                finish(flights, entry.id);
            }
            pair.completion.release();
            pair.ring_if_behind();
            std::thread::yield_now();
            Drained::Pending
        });
        // Deleting the queues ends what is still in flight; where that fails the controller may still write
        // into the pool.
        if controller.delete_pair(pair.id) {
            flights.ids().into_iter().for_each(|id| finish(flights, id));
            self.held.release();
        }
    }
}
