//! How an `nvme-user` engine is opened, and the requests that are not ordinary transfers: what it refuses,
//! and commands without a buffer.

use super::command::Command;
use super::engine::{NvmeUser, TransferLimits};
use crate::error::{Cause, EngineError, Refused};
use crate::gate::check_depth;
use crate::obstacle::{Obstacle, not_taken};
use crate::pool::Pool;
use crate::request::{Op, Operation, Request, Transfer};
use crate::target::Target;
use iopj_path::{Sleep, Spin, UserCompletion};

/// How an [`NvmeUser`] is opened.
#[derive(Clone, Copy, Debug)]
pub struct NvmeUserBuilder {
    completion: UserCompletion,
    switches: bool,
    iodepth: u32,
}

impl NvmeUserBuilder {
    pub(super) fn new() -> NvmeUserBuilder {
        NvmeUserBuilder { completion: UserCompletion::Poll(Spin::Tight), switches: false, iodepth: 1 }
    }

    /// How it waits for completions at first.
    #[must_use]
    pub fn completion(self, completion: UserCompletion) -> NvmeUserBuilder {
        NvmeUserBuilder { completion, ..self }
    }

    /// Sleeps until the device interrupts.
    #[must_use]
    pub fn interrupt(self) -> NvmeUserBuilder {
        self.completion(UserCompletion::Interrupt)
    }

    /// Sleeps for half of the mean waiting time, then polls.
    #[must_use]
    pub fn hybrid(self) -> NvmeUserBuilder {
        self.completion(UserCompletion::Hybrid(Sleep::Auto, Spin::Tight))
    }

    /// Gives the queue pair an interrupt vector, so [`NvmeUser::set_completion`] can change to interrupts and
    /// back.
    #[must_use]
    pub fn switches(self) -> NvmeUserBuilder {
        NvmeUserBuilder { switches: true, ..self }
    }

    /// The most requests in flight; 1 unless it is set.
    #[must_use]
    pub fn iodepth(self, iodepth: u32) -> NvmeUserBuilder {
        NvmeUserBuilder { iodepth, ..self }
    }

    /// Opens the engine on a target that was opened by [`Target::open_bypass`].
    ///
    /// # Errors
    /// The kernel's driver has the device; the namespace cannot be used; every queue pair or vector is in
    /// use; the depth is out of range.
    pub fn open(self, target: &Target, pool: &Pool) -> Result<NvmeUser, EngineError> {
        check_depth(self.iodepth)?;
        let Some((controller, namespace)) = target.bypass() else {
            let Obstacle { reason, remedy } = not_taken(target);
            let message = format!("nvme-user cannot work: {reason}; {remedy}");
            return Err(EngineError::unsupported(message));
        };
        let mode = (self.completion, self.switches);
        NvmeUser::open_pair(controller, namespace, target.is_writable(), pool, self.iodepth, mode)
    }
}

impl NvmeUser {
    /// An engine that polls, with depth 1, unless it is told otherwise.
    pub fn builder() -> NvmeUserBuilder {
        NvmeUserBuilder::new()
    }

    /// Whether a request may be taken.
    ///
    /// # Errors
    /// The first fault.
    pub(super) fn check(&self, request: &Request) -> Result<(), EngineError> {
        if let Some(error) = self.ended() {
            return Err(error);
        }
        let op = request.operation.op();
        if let Some(why) = self.lacks(op) {
            return Err(Cause::NoSuchOp { interface: "nvme-user", op, why }.into());
        }
        if self.flights.room() == 0 {
            return Err(Cause::Full { iodepth: self.iodepth }.into());
        }
        let TransferLimits { writable, .. } = self.limits;
        if op.writes() && !writable {
            let address = self.held.controller.address();
            let reading = format!("{address} was opened for reading: open its target for writing");
            return Err(EngineError::unsupported(reading));
        }
        if let Some(Transfer { buffer, len, offset }) = request.operation.transfer() {
            if !buffer.pool().is(&self.pool) {
                return Err(Cause::OtherPool.into());
            }
            let buffer_len = self.pool.buffer_len();
            if *len > buffer_len {
                return Err(Cause::TooLong { len: *len, buffer_len }.into());
            }
            return self.check_blocks(*offset, (*len).into(), self.limits.most.into());
        }
        match &request.operation {
            Operation::WriteZeroes { offset, len } => {
                self.check_blocks(*offset, *len, 1 << (16 + u32::from(self.limits.shift)))
            }
            _ => Ok(()),
        }
    }

    fn check_blocks(&self, offset: u64, len: u64, most: u64) -> Result<(), EngineError> {
        if (offset | len) & self.limits.mask == 0 && (1..=most).contains(&len) {
            return Ok(());
        }
        let (address, block) = (self.held.controller.address(), self.limits.mask + 1);
        Err(EngineError::unsupported(format!(
            "{len} bytes at byte {offset} do not make an NVMe command: {address} takes whole logical blocks \
             of {block} bytes, up to {most} bytes at once; use such a bs"
        )))
    }

    /// Why an operation cannot be done; none if it can.
    pub(super) fn lacks(&self, op: Op) -> Option<&'static str> {
        match op {
            Op::ReadVectored | Op::WriteVectored => Some(": a command's memory is one buffer"),
            Op::Discard => Some(": the driver has no Dataset Management command"),
            _ => None,
        }
    }

    /// Writes a command without a buffer, which was checked.
    pub(super) fn push_rare(&mut self, request: Request) -> Result<(), Refused> {
        let Some(id) = self.flights.free_id() else {
            let message = format!(
                "the pool's {} buffers leave no identifier for a command without a buffer: make it smaller",
                self.pool.count()
            );
            return Err(Refused::new(request, EngineError::unsupported(message)));
        };
        let TransferLimits { nsid, shift, .. } = self.limits;
        let command = match &request.operation {
            Operation::WriteZeroes { offset, len } => {
                Command::write_zeroes(nsid, *offset >> shift, (*len >> shift) as u32)
            }
            _ => Command::flush(nsid),
        };
        self.flights.start(id.into(), request.tag);
        self.held.pair.submission.push(command.with_id(id));
        Ok(())
    }
}
