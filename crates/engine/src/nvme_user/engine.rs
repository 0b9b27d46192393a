//! The engine: requests become commands on a queue pair of its own, and completions requests' ends.

use super::command::Command;
use super::controller::{Controller, End};
use super::dma::{Mapping, Memory};
use super::flights::{Flight, Flights};
use super::identify::NamespaceInfo;
use super::prp;
use super::queue::{QueuePair, Shape};
use super::registers::PAGE;
use super::waiting::Waiting;
use crate::engine::{Completion, Engine, EngineError, EngineFacts, IoError, Op, Request};
use crate::pool::Pool;
use iopj_core::CompletionMode;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
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
    /// Where the pool begins.
    buffers_at: NonNull<u8>,
    flights: Flights,
    waiting: Waiting,
    /// Batches of completions, counted to look at the controller now and then.
    reaps: u32,
    finished: Option<End>,
    /// True when the kernel wants the device back.
    asked_back: Arc<AtomicBool>,
}

/// Batches between two looks at the controller, where completions always come.
const LOOK_EVERY: u32 = 1 << 16;

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
        let (buffers_at, len) = pool.memory();
        let memory = Memory { base: buffers_at, len, is_huge: pool.is_huge() };
        let buffers = Mapping::new(controller.device(), &memory)?;
        let shape = Shape { entries: iodepth + 1, lists: iodepth, list_len: prp::list_len(pool.slot_len() as usize) };
        let (pair, event) = controller.create_pair(shape, mode == CompletionMode::Interrupt)?;
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
            buffers_at,
            flights: Flights::new(iodepth as u16),
            waiting: Waiting::polling(),
            reaps: 0,
            finished: None,
            asked_back: controller.device().asked_back(),
        };
        // Last, so that a failure finds an engine to be dropped, which deletes the queue pair.
        engine.waiting = Waiting::new(mode, event)?;
        Ok(engine)
    }

    /// Writes one command. Kept out of line, as in the ring's engine.
    #[inline(never)]
    fn push_one(&mut self, request: &Request) -> Result<(), EngineError> {
        let Request { op, slot, len, offset, tag } = *request;
        let blocks = &self.blocks;
        let write = op == Op::Write;
        if (offset | u64::from(len)) & blocks.mask != 0
            || len.wrapping_sub(1) >= blocks.most
            || write && !blocks.writable
        {
            return Err(self.refuse(request));
        }
        let Held { pair, buffers, pool, .. } = &mut *self.held;
        let Some(id) = self.flights.next() else { return Ok(()) };
        let address = pool.start(slot, len)?;
        // SAFETY: the slot lies in the pool, which begins at `buffers_at`.
        let at = unsafe { address.offset_from(self.buffers_at) } as usize;
        let (pages, in_page) = (&buffers.pages()[at / PAGE..], at % PAGE);
        // SAFETY: the list of `id` is as long as the longest transfer needs, and no command in flight has this `id`.
        let prps = unsafe { prp::build(pages, in_page, len as usize, || pair.list(id)) };
        let command = Command::transfer(write, blocks.nsid, offset >> blocks.shift, len >> blocks.shift, prps);
        pair.submission.push(command.with_id(id));
        self.flights.start(Flight { tag, slot, len });
        Ok(())
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

    /// Takes completions within `done`'s spare capacity; returns how many.
    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) -> usize {
        let room = done.capacity() - done.len();
        let Held { pair, pool, .. } = &mut *self.held;
        let mut found = 0;
        while found < room {
            let Some(entry) = pair.completion.next() else { break };
            // An identifier that is not in flight is the controller's mistake, and nobody's completion.
            let Some(Flight { tag, slot, len }) = self.flights.end(entry.id) else { continue };
            pool.finish(slot);
            let result = if entry.status == 0 { Ok(len) } else { Err(IoError::Nvme(entry.status)) };
            done.push(Completion { tag, slot, result });
            found += 1;
        }
        pair.completion.release();
        if found > 0 {
            self.waiting.progress();
            self.reaps = self.reaps.wrapping_add(1);
            if self.reaps.is_multiple_of(LOOK_EVERY) {
                self.finished = self.held.controller.look();
            }
        }
        found
    }

    /// Ends what is in flight after the controller's end; once all was handed out, the error that says why.
    #[cold]
    fn give_up(&mut self, end: End, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        if self.reap(done) > 0 {
            return Ok(()); // what had ended before
        }
        let controller = &self.held.controller;
        if self.in_flight() == 0 || !controller.has_stopped() {
            return Err(controller.end_error(end));
        }
        let result = Err(IoError::Os(end.errno()));
        for id in self.flights.ids().into_iter().take(done.capacity() - done.len()) {
            let Some(Flight { tag, slot, .. }) = self.flights.end(id) else { continue };
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

    /// Nothing came for a while: looks after the controller, rings again, and after the time limit aborts what is in
    /// flight and, where that does not help, resets the controller.
    #[cold]
    fn quiet(&mut self, done: &mut Vec<Completion>) -> Result<(), EngineError> {
        self.require_device()?;
        self.finished = self.held.controller.look();
        if self.finished.is_some() || self.in_flight() == 0 {
            return Ok(());
        }
        self.held.pair.ring_if_behind();
        let limits = self.held.controller.limits;
        if self.waiting.quiet_for() < limits.command {
            return Ok(());
        }
        for id in self.flights.ids() {
            self.held.controller.abort(self.held.pair.id, id);
        }
        let deadline = Instant::now() + limits.abort;
        while self.in_flight() > 0 && done.len() < done.capacity() {
            self.reap(done);
            if Instant::now() > deadline || self.held.controller.end().is_some() {
                self.held.controller.reset(End::Late);
                break;
            }
            std::thread::yield_now();
        }
        self.finished = self.held.controller.end();
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
                self.reap(done);
            } else {
                self.quiet(done)?;
                if let Some(end) = self.finished {
                    return if done.len() > already { Ok(()) } else { self.give_up(end, done) };
                }
            }
        }
        self.waiting.end();
        Ok(())
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
            self.quiet(done)?;
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
        let finish = |flights: &mut Flights, id| flights.end(id).into_iter().for_each(|ended| pool.finish(ended.slot));
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
