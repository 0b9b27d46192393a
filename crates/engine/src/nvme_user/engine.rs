//! The engine: requests become commands on a queue pair of its own, and completions requests' ends.

use super::command::{Command, Entry};
use super::controller::{Controller, End};
use super::dma::{Mapping, Memory};
use super::flights::{Flight, Flights, MOST_SLOTS};
use super::identify::NamespaceInfo;
use super::prp;
use super::queue::{QueuePair, Shape};
use super::registers::PAGE;
use super::waiting::Waiting;
use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Op, Request};
use crate::pool::{Pool, Slot};
use iopj_core::CompletionMode;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What must outlive the device's access to it, in the order of dropping: the controller last, for the shadow doorbells
/// are its.
struct Held {
    pair: QueuePair,
    buffers: Mapping,
    pool: Rc<Pool>,
    controller: Arc<Controller>,
}

/// The namespace in the terms of a command.
struct Blocks {
    nsid: u32,
    shift: u8,
    /// The bits of an offset or a length that must be zero.
    mask: u64,
    /// The most bytes of one command.
    most: u32,
    writable: bool,
}

pub(crate) struct NvmeUser {
    held: ManuallyDrop<Held>,
    blocks: Blocks,
    /// Where each slot begins, as the device sees it.
    starts: Box<[u64]>,
    flights: Flights,
    waiting: Waiting,
    /// Batches of completions until the next look at the commands in flight, and from one to the next.
    until_look: u32,
    look_every: u32,
    looks: u32,
    /// When the commands in flight grow older next.
    next_age: Instant,
    finished: Option<End>,
    /// True when the kernel wants the device back.
    asked_back: Arc<AtomicBool>,
}

/// Looks at the commands in flight between two at the controller, where completions always come.
const LOOKS: u32 = 16;

/// A command in flight grows older this many times within the time limit; when it is older it is aborted.
const AGES: u32 = 10;

impl NvmeUser {
    /// Opens an engine with a queue pair of its own on a namespace that can be used.
    pub(crate) fn open(
        controller: &Arc<Controller>,
        namespace: &NamespaceInfo,
        writable: bool,
        pool: &Rc<Pool>,
        mode: CompletionMode,
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
                "{} buffers are more than the {MOST_SLOTS} identifiers that NVMe commands have: lower iodepth",
                pool.slots()
            )));
        }
        let (base, len) = pool.memory();
        let buffers = Mapping::new(controller.device(), &Memory { base, len, is_huge: pool.is_huge() })?;
        let starts = (0..pool.slots()).map(|slot| buffers.address(pool.offset(Slot(slot)))).collect();
        let interrupts = mode == CompletionMode::Interrupt;
        let (pair, event) = controller.create_pair(shape(pool, iodepth, interrupts), interrupts)?;
        // Where waits sleep they are few, and a clock read is little beside them.
        let look_every = if mode == CompletionMode::Poll { 1 << 12 } else { 1 << 6 };
        let blocks = Blocks {
            nsid: namespace.nsid,
            shift: namespace.lba_shift,
            mask: (1 << namespace.lba_shift) - 1,
            most: controller.identity().max_transfer_bytes.min(1 << (16 + u32::from(namespace.lba_shift)).min(31)),
            writable,
        };
        let held = Held { pair, buffers, pool: Rc::clone(pool), controller: Arc::clone(controller) };
        let mut engine = NvmeUser {
            held: ManuallyDrop::new(held),
            blocks,
            starts,
            flights: Flights::new(pool.slots(), iodepth),
            waiting: Waiting::polling(),
            until_look: look_every,
            look_every,
            looks: 0,
            next_age: Instant::now(),
            finished: None,
            asked_back: controller.device().asked_back(),
        };
        // Last, so that a failure finds an engine to be dropped, which deletes the queue pair.
        engine.waiting = Waiting::new(mode, event)?;
        Ok(engine)
    }

    /// Writes one command, for which there is room. Kept out of line, as in the ring's engine.
    #[inline(never)]
    fn push_one(&mut self, request: &Request) -> Result<(), EngineError> {
        let Request { op, slot, len, offset, .. } = *request;
        let blocks = &self.blocks;
        if (offset | u64::from(len)) & blocks.mask != 0
            || len.wrapping_sub(1) >= blocks.most
            || op == Op::Write && !blocks.writable
        {
            return Err(self.refuse(request));
        }
        self.held.pool.start(slot, len)?;
        let first = self.starts[slot.0 as usize];
        if first as usize % PAGE + len as usize <= PAGE {
            self.place(request, (first, 0));
        } else {
            self.place_long(request);
        }
        Ok(())
    }

    /// Writes the command of a slot that was started, whose memory its two entries name.
    #[inline(always)]
    fn place(&mut self, request: &Request, prps: (u64, u64)) {
        let Request { op, slot, len, offset, tag } = *request;
        let Blocks { nsid, shift, .. } = self.blocks;
        let command = Command::transfer(op == Op::Write, nsid, offset >> shift, len >> shift, prps);
        self.held.pair.submission.push(command.with_id(slot.0 as u16));
        self.flights.start(slot, Flight::new(tag, len));
    }

    /// As [`NvmeUser::place`], of more than one page.
    #[inline(never)]
    fn place_long(&mut self, request: &Request) {
        let Held { pair, buffers, pool, .. } = &*self.held;
        let at = pool.offset(request.slot);
        let pages = &buffers.pages()[at / PAGE..];
        // SAFETY: the list is as long as the longest transfer needs, and no command in flight has this identifier: the
        // pool gave its slot to this one.
        let prps = unsafe { prp::build(pages, at % PAGE, request.len as usize, || pair.list(request.slot.0 as u16)) };
        self.place(request, prps);
    }

    #[cold]
    fn refuse(&self, request: &Request) -> EngineError {
        let Blocks { shift, most, writable, .. } = self.blocks;
        let address = self.held.controller.address();
        if request.op == Op::Write && !writable {
            return EngineError::unsupported(format!("{address} was opened for reading: open its target for writing"));
        }
        EngineError::unsupported(format!(
            "{} bytes at byte {} are no NVMe command: {address} takes whole logical blocks of {} bytes, up to {most} bytes at once; use such a bs",
            request.len,
            request.offset,
            1u32 << shift,
        ))
    }

    /// Takes completions, of which one is there, within `done`'s spare capacity; returns how many.
    #[inline(always)]
    fn reap(&mut self, done: &mut Vec<Completion>) -> usize {
        let Held { pair, pool, .. } = &mut *self.held;
        let places = done.spare_capacity_mut();
        let mut found = 0;
        while found < places.len() {
            let Entry { id, status, .. } = pair.completion.take();
            // An identifier that is not in flight is the controller's mistake, and nobody's completion.
            if let Some(Flight { tag, len, .. }) = self.flights.end(id) {
                let slot = Slot(id.into());
                pool.finish(slot);
                let result = if status == 0 { Ok(len) } else { Err(IoError::Nvme(status)) };
                places[found].write(Completion { tag, slot, result });
                found += 1;
            }
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

    /// As [`NvmeUser::reap`], for those who have waited; there may be none.
    #[inline(never)]
    fn reap_late(&mut self, done: &mut Vec<Completion>) -> usize {
        if self.held.pair.completion.is_ready() { self.reap(done) } else { 0 }
    }

    /// Looks after the commands in flight, and sometimes after the controller, while completions come.
    #[cold]
    fn look_after(&mut self) {
        self.until_look = self.look_every;
        self.age();
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(LOOKS) {
            self.finished = self.held.controller.look();
        }
    }

    /// Ten times within the time limit lets the commands in flight grow older; aborts those beyond it and, where that
    /// does not help in time, resets the controller.
    #[cold]
    fn age(&mut self) {
        let controller = &self.held.controller;
        let (limits, now) = (controller.limits, Instant::now());
        if now < self.next_age {
            return;
        }
        // Once, however late: a process that was stopped for a minute takes no command for hung.
        let period = limits.command / AGES;
        self.next_age = now + period;
        let old = self.flights.grow_older(AGES);
        let after_abort = limits.abort.div_duration_f64(period).ceil() as u32;
        if old.iter().any(|(_, age)| *age > AGES + 1 + after_abort) {
            controller.reset(End::Late);
        }
        for (id, _) in old.iter().filter(|(_, age)| *age == AGES + 1) {
            controller.abort(self.held.pair.id, *id);
        }
        self.finished = controller.end();
    }

    /// Ends what is in flight after the controller's end; once all was handed out, the error that says why.
    #[cold]
    fn give_up(&mut self, end: End, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if self.reap_late(done) > 0 {
            return Ok(()); // what had ended before
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

    /// Ends the engine, and not the controller, when the kernel wants the device back.
    #[inline]
    fn require_device(&self) -> Result<(), EngineError> {
        if self.asked_back.load(Ordering::Relaxed) { Err(self.held.controller.asked_back_error()) } else { Ok(()) }
    }

    /// Nothing came for a while: looks after the controller, rings again, and looks after what is in flight.
    #[cold]
    fn quiet(&mut self) -> Result<(), EngineError> {
        self.require_device()?;
        self.finished = self.held.controller.look();
        if self.finished.is_some() || self.in_flight() == 0 {
            return Ok(());
        }
        self.held.pair.ring_if_behind();
        self.age();
        Ok(())
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
                self.quiet()?;
                if let Some(end) = self.finished {
                    return if done.len() > already { Ok(()) } else { self.give_up(end, done) };
                }
            }
        }
        self.waiting.end();
        Ok(())
    }
}

/// The queue pair of an engine.
fn shape(pool: &Pool, iodepth: u32, interrupts: bool) -> Shape {
    let entries = iodepth + 1;
    Shape {
        depth: iodepth,
        // A drive that interrupts is told at once what was taken: some wait for it with the next interrupt.
        completions: if interrupts { entries } else { 2 * entries },
        lists: pool.slots(),
        list_len: prp::list_len(pool.slot_len() as usize),
    }
}

impl Engine for NvmeUser {
    fn push(&mut self, requests: &[Request]) -> Result<usize, EngineError> {
        if let Some(end) = self.finished {
            return Err(self.held.controller.end_error(end));
        }
        let taken = self.flights.room().min(requests.len());
        for request in &requests[..taken] {
            self.push_one(request)?;
        }
        Ok(taken)
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        self.held.pair.submission.ring();
        Ok(())
    }

    fn wait(&mut self, min: usize, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if let Some(end) = self.finished {
            return self.give_up(end, done);
        }
        self.require_device()?;
        self.held.pair.submission.ring();
        let found = if self.held.pair.completion.is_ready() { self.reap(done) } else { 0 };
        if found < min {
            return self.await_more(min - found, done);
        }
        if found == 0 && self.waiting.is_look_due() {
            self.quiet()?;
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.flights.count()
    }

    fn facts(&self) -> EngineFacts {
        let pair = &self.held.pair;
        EngineFacts {
            system_calls: Some(self.waiting.system_calls()),
            doorbells: pair.doorbell_writes(),
            sleeps: self.waiting.sleeps(),
            shadow_doorbells: pair.has_shadow(),
            ..EngineFacts::default()
        }
    }
}

impl Drop for NvmeUser {
    fn drop(&mut self) {
        let deadline = Instant::now() + crate::DRAIN_LIMIT;
        let Held { pair, pool, controller, .. } = &mut *self.held;
        let flights = &mut self.flights;
        let finish = |flights: &mut Flights, id: u16| {
            if flights.end(id).is_some() {
                pool.finish(Slot(id.into()));
            }
        };
        // What the controller was not told of it never gets: a write that was only pushed does not happen.
        pair.submission.take_back(|id| finish(flights, id));
        while flights.count() > 0 && controller.end().is_none() && Instant::now() < deadline {
            while let Some(entry) = pair.completion.next() {
                finish(flights, entry.id);
            }
            pair.completion.release();
            pair.ring_if_behind();
            std::thread::yield_now();
        }
        if !controller.delete_pair(pair.id) {
            return; // leaks `held`: the controller may still write into the pool
        }
        flights.ids().into_iter().for_each(|id| finish(flights, id));
        // SAFETY: dropped once; the controller has forgotten the queues, or was seen stopped.
        unsafe { ManuallyDrop::drop(&mut self.held) };
    }
}
