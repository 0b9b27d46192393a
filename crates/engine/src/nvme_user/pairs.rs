//! The queue pairs of a controller: laid out and made for an engine, or for one flush, and deleted again.

use super::admin::{Admin, AdminFailure};
use super::command::Command;
use super::controller::Controller;
use super::device::PAGE;
use super::dma::DmaMapping;
use super::irq;
use super::prp::{self, Prepared};
use super::queue::{Doorbells, MOST_ENTRIES, PairLayout, QueuePair, Release};
use super::registers::ControllerEnd;
use crate::error::EngineError;
use crate::pool::Pool;
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The least number of entries of a queue, if the drive allows as many. In a long queue the completion
/// doorbell rings seldom, and a shadow doorbell seldom wraps around, which needs a write to the register.
const ENTRIES: u32 = 256;

/// The second PRP entries of commands of more than a page, prepared for each buffer; empty if a list needs
/// more than one page.
pub(super) fn prepare(pair: &QueuePair, buffers: &DmaMapping, pool: &Pool) -> Box<[Prepared]> {
    let prepared = (0..pool.count()).map(|buffer| {
        let at = pool.offset(buffer);
        let list = || pair.list(buffer as u16);
        // SAFETY: the list is as long as the longest transfer needs, and no command is in flight yet;
        // prepared lists are not written again.
        unsafe { Prepared::new(&buffers.pages()[at / PAGE..], at % PAGE, pool.buffer_len() as usize, list) }
    });
    prepared.collect::<Option<_>>().unwrap_or_default()
}

pub(super) fn layout(pool: &Pool, iodepth: u32, interrupts: bool) -> PairLayout {
    let least = iodepth + 1;
    PairLayout {
        depth: iodepth,
        submissions: least.max(ENTRIES),
        completions: (2 * least).max(ENTRIES),
        // A drive that interrupts learns at once what was taken: some hold back the next interrupt until
        // then.
        release: if interrupts { Release::AtOnce } else { Release::Seldom },
        lists: pool.count(),
        list_len: prp::list_len(pool.buffer_len() as usize),
    }
}

impl Controller {
    /// Makes everything that was written to a namespace durable, by a queue pair of its own; waits for it.
    ///
    /// # Errors
    /// Every queue pair is in use; the controller fails the command, or does not end it in time and is reset.
    pub fn flush(&self, nsid: u32) -> Result<(), EngineError> {
        let (pair, _) = self.create_pair(PairLayout::least(1), false)?;
        let mut pair = ManuallyDrop::new(pair);
        pair.submission.push(Command::flush(nsid).with_id(0));
        pair.submission.ring();
        let start = Instant::now();
        let status = loop {
            if let Some(entry) = pair.completion.next() {
                break Some(entry.status);
            }
            if start.elapsed() > self.limits.command || self.look().is_some() {
                break None;
            }
            std::thread::sleep(Duration::from_micros(20));
        };
        let id = pair.id;
        if status.is_none() {
            self.reset(ControllerEnd::Late);
        }
        if self.delete_pair(id) {
            drop(ManuallyDrop::into_inner(pair)); // the controller has forgotten the queues
        }
        match status {
            Some(0) => Ok(()),
            Some(status) => Err(self.refused("a flush", status)),
            None => Err(self.end_error(self.end().unwrap_or(ControllerEnd::Late))),
        }
    }

    /// Signals the event of a pair that interrupts from now on, or does not.
    pub(super) fn arm_pair(&self, id: u16, event: Option<&OwnedFd>) -> Result<(), EngineError> {
        self.device().arm_one(id - 1, event)
    }

    /// A queue pair of its own for the caller and, where it interrupts, the event that it signals.
    pub(super) fn create_pair(
        &self,
        shape: PairLayout,
        interrupts: bool,
    ) -> Result<(QueuePair, Option<Arc<OwnedFd>>), EngineError> {
        let most = self.capabilities.most_entries().min(MOST_ENTRIES);
        if shape.depth >= most {
            let (address, entries, depth) = (self.address(), shape.depth + 1, most - 1);
            return Err(EngineError::unsupported(format!(
                "a queue of {entries} entries is more than the {most} that {address} has (CAP.MQES): lower \
                 iodepth to {depth}"
            )));
        }
        let shape = shape.within(most);
        let mut admin = self.serving()?;
        let Some(id) = admin.free_pairs.pop() else {
            let pairs = self.identity().queue_pairs;
            return Err(EngineError::unsupported(format!(
                "{} grants {pairs} I/O queue pairs and all are in use: lower numjobs to {pairs}",
                self.address()
            )));
        };
        let pair = self.create_numbered(&mut admin, id, shape, interrupts);
        if pair.is_err() {
            admin.free_pairs.push(id);
        }
        pair
    }

    fn create_numbered(
        &self,
        admin: &mut Admin,
        id: u16,
        shape: PairLayout,
        interrupts: bool,
    ) -> Result<(QueuePair, Option<Arc<OwnedFd>>), EngineError> {
        // The admin queue polls, so the first vector is the first pair's.
        let vector = interrupts.then_some(id - 1);
        let event = vector.map(|vector| self.event(admin, vector)).transpose()?;
        let doorbells = Doorbells { stride: self.capabilities.stride(), shadow: admin.shadow.as_ref() };
        let pair = QueuePair::new(self.device(), id, shape, doorbells)?;
        let (submission, completion) = pair.addresses();
        let pair = ManuallyDrop::new(pair); // until the controller is known not to use its memory
        let limit = self.limits.command;
        let made = admin
            .execute(Command::create_completion_queue(id, shape.completions, completion, vector), limit)
            .and_then(|_| {
                let made =
                    admin.execute(Command::create_submission_queue(id, shape.submissions, submission), limit);
                if let Err(AdminFailure::Status(_)) = made {
                    admin
                        .execute(Command::delete_completion_queue(id), limit)
                        .map_err(|_| AdminFailure::Ended(ControllerEnd::Late))?;
                }
                made
            });
        let made = made.map_err(|failure| self.failed("a queue pair", failure, admin));
        match made {
            Ok(_) => Ok((ManuallyDrop::into_inner(pair), event)),
            Err(error) => {
                // A refusal means that the controller has no such queue; any other failure has reset it.
                if self.end().is_none() || self.has_stopped() {
                    drop(ManuallyDrop::into_inner(pair));
                }
                Err(error)
            }
        }
    }

    /// The event of a vector; arms all vectors at the first call, because older kernels cannot add one later.
    fn event(&self, admin: &mut Admin, vector: u16) -> Result<Arc<OwnedFd>, EngineError> {
        if admin.events.is_empty() {
            let count = self.identity().vectors.min(self.identity().queue_pairs);
            let events = (0..count).map(|_| irq::event().map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
            self.device().arm(&events)?;
            admin.events = events;
        }
        admin.events.get(usize::from(vector)).cloned().ok_or_else(|| {
            let vectors = self.identity().vectors;
            EngineError::unsupported(format!(
                "{} has {vectors} interrupt vectors and all are in use: lower numjobs to {vectors}, or poll",
                self.address()
            ))
        })
    }

    /// Deletes a queue pair; true if the controller no longer uses its memory. One that does not delete it is
    /// reset.
    pub(super) fn delete_pair(&self, id: u16) -> bool {
        let mut admin = self.admin();
        if self.end().is_none() {
            let limit = self.limits.command;
            let deleted = admin
                .execute(Command::delete_submission_queue(id), limit)
                .and_then(|_| admin.execute(Command::delete_completion_queue(id), limit));
            if deleted.is_ok() {
                admin.free_pairs.push(id);
                return true;
            }
            self.stop(ControllerEnd::Closed);
        }
        self.has_stopped()
    }

    /// Aborts a command; its queue shows whether it comes back.
    pub(super) fn abort(&self, queue: u16, command: u16) {
        let mut admin = self.admin();
        if self.end().is_none()
            && let Err(failure) = admin.execute(Command::abort(queue, command), self.limits.abort)
        {
            let _ = self.failed("an abort", failure, &mut admin);
        }
    }
}
