//! The admin queue of a controller: one command at a time, waited for by polling.

use super::command::Command;
use super::device::{Device, PAGE};
use super::dma::DmaMemory;
use super::queue::{Doorbells, PairLayout, QueuePair, ShadowPages};
use super::registers::{ACQ, AQA, ASQ, Capabilities, ControllerEnd, health};
use crate::error::EngineError;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Commands that the admin queues have room for; one is in flight at a time.
const DEPTH: u32 = 15;

/// A page of data of an admin command.
pub(crate) type PageData = [u8; PAGE];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AdminFailure {
    /// The controller's status: code in bits 0 to 7, type in bits 8 to 10.
    Status(u16),
    /// It did not answer, and why. Its answer may still come, so the controller must be reset.
    Ended(ControllerEnd),
}

/// Everything that serves the admin queue, under one lock.
pub(super) struct Admin {
    device: Arc<dyn Device>,
    queue: QueuePair,
    next_id: u16,
    /// A page for the data of commands.
    data: DmaMemory,
    /// Numbers of I/O queue pairs that are not in use, the smallest last.
    pub(super) free_pairs: Vec<u16>,
    pub(super) shadow: Option<ShadowPages>,
    /// Memory that the controller uses as its own: its buffer, and the list of the buffer's parts.
    pub(super) host_memory: Option<[DmaMemory; 2]>,
    /// An event for each vector, once interrupts are wanted.
    pub(super) events: Vec<Arc<OwnedFd>>,
}

impl Admin {
    /// Makes the admin queues and writes their addresses to the stopped controller.
    pub(super) fn new(device: &Arc<dyn Device>, capabilities: Capabilities) -> Result<Admin, EngineError> {
        let doorbells = Doorbells { stride: capabilities.stride(), shadow: None };
        let shape = PairLayout::least(DEPTH);
        let queue = QueuePair::new(device, 0, shape, doorbells)?;
        let (submission, completion) = queue.addresses();
        device.write32(AQA, (shape.completions - 1) << 16 | (shape.submissions - 1));
        device.write64(ASQ, submission);
        device.write64(ACQ, completion);
        Ok(Admin {
            device: Arc::clone(device),
            queue,
            next_id: 0,
            data: DmaMemory::new(device, PAGE)?,
            free_pairs: Vec::new(),
            shadow: None,
            host_memory: None,
            events: Vec::new(),
        })
    }

    /// Does one command within `limit`; returns dword 0 of its completion.
    pub(super) fn execute(&mut self, command: Command, limit: Duration) -> Result<u32, AdminFailure> {
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.queue.submission.push(command.with_id(id));
        self.queue.submission.ring();
        let start = Instant::now();
        loop {
            while let Some(entry) = self.queue.completion.next() {
                self.queue.completion.release();
                if entry.id == id {
                    return if entry.status == 0 {
                        Ok(entry.result)
                    } else {
                        Err(AdminFailure::Status(entry.status))
                    };
                }
            }
            match (health(&*self.device), start.elapsed()) {
                (Some(end), _) => return Err(AdminFailure::Ended(end)),
                (None, time) if time > limit => return Err(AdminFailure::Ended(ControllerEnd::Late)),
                // Most answers come within microseconds; a slow one is polled for less often.
                (None, time) if time > Duration::from_millis(1) => {
                    std::thread::sleep(Duration::from_micros(100));
                }
                (None, _) => std::thread::yield_now(),
            }
        }
    }

    /// Does a command that takes a page of data; `command` gets the address of the page.
    pub(super) fn send_page(
        &mut self,
        command: impl FnOnce(u64) -> Command,
        data: &PageData,
        limit: Duration,
    ) -> Result<u32, AdminFailure> {
        let page = self.data.at(0, PAGE);
        // SAFETY: as in `receive_page`; both are a page long and do not overlap.
        unsafe { page.copy_from_nonoverlapping(NonNull::from(data).cast(), PAGE) };
        self.execute(command(self.data.mapping().address(0)), limit)
    }

    /// Does a command that returns a page of data; `command` gets the address of the page.
    pub(super) fn receive_page(
        &mut self,
        command: impl FnOnce(u64) -> Command,
        limit: Duration,
    ) -> Result<Box<PageData>, AdminFailure> {
        let page = self.data.at(0, PAGE);
        // SAFETY: the page is ours, and no command in flight writes it: there is one at a time, and after one
        // that was given up the controller is reset.
        unsafe { page.write_bytes(0, PAGE) };
        self.execute(command(self.data.mapping().address(0)), limit)?;
        let mut data = Box::new([0; PAGE]);
        // SAFETY: the command is complete, so the device writes no more; both are a page long and do not
        // overlap.
        unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), data.as_mut_ptr(), PAGE) };
        Ok(data)
    }
}
