//! Engines of a thread for calls that do not wait: what is in flight, and what has ended and was not asked
//! for.

use crate::descriptors::{self, File};
use crate::moved::{Moved, Transfer, is_to_be_done_again};
use crate::stats::{self, Reason};
use crate::sys;
use iopj_auto::Way;
use iopj_engine::Op;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::time::{Duration, Instant};

/// The most engines of a queue.
const MOST_ENGINES: usize = 32;
/// How long one of several engines is waited for.
const TURN: Duration = Duration::from_micros(200);

/// The ways of an I/O that nobody waits for. It must not wait itself, as a system call does. And it must end
/// without being polled by its thread, which may be in fallocate(2) and wait there until it has ended.
const WAYS: [Way; 1] = [Way::Interrupt];

/// Engines of one depth by descriptor. What is in flight has a `T` of the caller's.
pub(crate) struct Queue<T> {
    engines: Vec<OnFd>,
    flights: Vec<Option<Flight<T>>>,
    free: Vec<usize>,
    depth: u32,
    /// What has ended: whose, and bytes or an errno negated.
    pub(crate) ended: VecDeque<(T, isize)>,
}

struct OnFd {
    fd: c_int,
    device: u64,
    /// Absent if it could not be opened, or has failed.
    moved: Option<Moved>,
    in_flight: usize,
    has_new: bool,
}

struct Flight<T> {
    whose: T,
    engine: usize,
    fd: c_int,
    file: File,
    op: Op,
    vector: libc::iovec,
    offset: u64,
}

impl<T> Queue<T> {
    pub(crate) fn new(depth: u32) -> Queue<T> {
        let (engines, flights, free, ended) = (Vec::new(), Vec::new(), Vec::new(), VecDeque::new());
        Queue { engines, flights, free, depth, ended }
    }

    /// Transfers in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Counts what the engines have done and not said.
    pub(crate) fn tell(&mut self) {
        self.engines.iter_mut().filter_map(|engine| engine.moved.as_mut()).for_each(Moved::tell);
    }

    /// Queues a transfer of one vector; [`Queue::submit`] hands it to the kernel.
    ///
    /// # Errors
    /// It was not taken.
    ///
    /// # Safety
    /// The program's memory is the kernel's until the transfer ends, as by the interface's own call.
    pub(crate) unsafe fn push(
        &mut self,
        transfer: &Transfer<'_>,
        file: File,
        whose: T,
    ) -> Result<(), Reason> {
        let [vector] = *transfer.vectors else { return Err(Reason::Vectors) };
        let number = self.engine(transfer.fd, file)?;
        let engine = &mut self.engines[number];
        let Some(moved) = &mut engine.moved else { return Err(Reason::NoEngine) };
        let place = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() - 1
        });
        // SAFETY: by this function's condition.
        if let Err(reason) = unsafe { moved.push(transfer, place as u64) } {
            self.free.push(place);
            return Err(reason);
        }
        (engine.in_flight, engine.has_new) = (engine.in_flight + 1, true);
        let Transfer { fd, op, offset, .. } = *transfer;
        self.flights[place] = Some(Flight { whose, engine: number, fd, file, op, vector, offset });
        Ok(())
    }

    /// The engine for a descriptor, which may have failed.
    fn engine(&mut self, fd: c_int, file: File) -> Result<usize, Reason> {
        let known = self.engines.iter().position(|engine| engine.fd == fd);
        match known.map(|known| (known, &self.engines[known])) {
            Some((known, engine)) if engine.device == file.device => return Ok(known),
            Some((_, engine)) if engine.in_flight > 0 => return Err(Reason::Full),
            _ => {}
        }
        let place = match known {
            None if self.engines.len() >= MOST_ENGINES => Some(self.closed().ok_or(Reason::Engines)?),
            known => known,
        };
        let moved = match Moved::open(fd, self.depth, Some(&WAYS)) {
            Ok(moved) => Some(moved),
            Err(Reason::NoEngine) => None,
            Err(reason) => return Err(reason),
        };
        let engine = OnFd { fd, device: file.device, moved, in_flight: 0, has_new: false };
        match place {
            Some(place) => self.engines[place] = engine,
            None => self.engines.push(engine),
        }
        Ok(place.unwrap_or(self.engines.len() - 1))
    }

    /// An engine that has nothing in flight and whose number is closed.
    fn closed(&self) -> Option<usize> {
        let is_closed = |engine: &OnFd| engine.in_flight == 0 && sys::file_status(engine.fd).is_none();
        self.engines.iter().position(is_closed)
    }

    /// Hands what was queued to the kernel.
    pub(crate) fn submit(&mut self) {
        self.each(|engine| std::mem::take(&mut engine.has_new), |moved, _| moved.submit());
    }

    /// Takes what has ended, without waiting.
    pub(crate) fn reap(&mut self) {
        self.each(
            |engine| engine.in_flight > 0,
            |moved, ended| moved.reap(|tag, outcome| ended.push((tag, outcome))),
        );
    }

    /// Waits until something has ended, or until `until`, and takes it.
    pub(crate) fn wait(&mut self, until: Instant) {
        let is_one = self.engines.iter().filter(|engine| engine.in_flight > 0).count() == 1;
        if !is_one {
            self.reap();
        }
        if !self.ended.is_empty() {
            return;
        }
        let end = if is_one { until } else { until.min(Instant::now() + TURN) };
        self.each(
            |engine| engine.in_flight > 0,
            |moved, ended| moved.wait(Some(end), |tag, outcome| ended.push((tag, outcome))),
        );
    }

    /// Waits until nothing is in flight.
    pub(crate) fn drain(&mut self) {
        while self.in_flight() > 0 {
            self.each(
                |engine| engine.in_flight > 0,
                |moved, ended| moved.wait(None, |tag, outcome| ended.push((tag, outcome))),
            );
        }
    }

    /// Does something with each engine of which `is_meant` is true, and takes what has ended. What one that
    /// fails had in flight is done by system calls.
    fn each(
        &mut self,
        mut is_meant: impl FnMut(&mut OnFd) -> bool,
        mut work: impl FnMut(&mut Moved, &mut Vec<(u64, isize)>) -> Result<(), String>,
    ) {
        let mut ended = Vec::new();
        for number in 0..self.engines.len() {
            let engine = &mut self.engines[number];
            if !is_meant(engine) {
                continue;
            }
            let Some(moved) = &mut engine.moved else { continue };
            let worked = work(moved, &mut ended);
            engine.in_flight -= ended.len();
            for (tag, outcome) in ended.drain(..) {
                self.settle(tag as usize, outcome);
            }
            if let Err(error) = worked {
                stats::failed(&error);
                self.give_up(number);
            }
        }
    }

    /// A transfer has ended.
    fn settle(&mut self, place: usize, outcome: isize) {
        let Some(flight) = self.flights.get_mut(place).and_then(Option::take) else { return };
        self.free.push(place);
        let outcome = if is_to_be_done_again(outcome) { flight.again(outcome) } else { outcome };
        self.ended.push_back((flight.whose, outcome));
    }

    fn give_up(&mut self, number: usize) {
        // The kernel has nothing of it when it is dropped.
        drop(self.engines[number].moved.take());
        self.engines[number].in_flight = 0;
        for place in 0..self.flights.len() {
            if self.flights[place].as_ref().is_some_and(|flight| flight.engine == number) {
                self.settle(place, -(libc::ECANCELED as isize));
            }
        }
    }
}

impl<T> Flight<T> {
    /// Does it by a system call, unless the number names another file by now: then `outcome` is its end.
    fn again(&self, outcome: isize) -> isize {
        match descriptors::may_move_now(self.fd, self.op == Op::Read) {
            Ok(file) if file == self.file => {}
            _ => return outcome,
        }
        stats::passed(Reason::Refused);
        // SAFETY: the program's memory is the kernel's until the transfer has ended, which is now.
        unsafe { sys::transfer(self.op, self.fd, &[self.vector], self.offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File as Open, OpenOptions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    /// A block of memory as direct I/O needs it.
    #[repr(align(4096))]
    struct Block([u8; 4096]);

    fn open(path: &Path, reads: bool) -> Open {
        std::fs::write(path, [1; 4096]).unwrap();
        OpenOptions::new().read(true).write(!reads).custom_flags(libc::O_DIRECT).open(path).unwrap()
    }

    #[test]
    fn a_write_is_done_again_only_where_its_number_names_the_same_file() {
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("meant");
        let (meant, others) = (open(&path, false), open(&folder.path().join("other"), false));
        let mut memory = Block([7; 4096]);
        let file = descriptors::file(meant.as_raw_fd()).unwrap();
        let vector = libc::iovec { iov_base: memory.0.as_mut_ptr().cast(), iov_len: 4096 };
        let canceled = -(libc::ECANCELED as isize);
        let again = |fd| {
            let flight = Flight { whose: (), engine: 0, fd, file, op: Op::WriteDsync, vector, offset: 0 };
            flight.again(canceled)
        };
        assert_eq!((again(others.as_raw_fd()), again(-1)), (canceled, canceled));
        let reads = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
        assert_eq!(again(reads.as_raw_fd()), canceled, "not open for writes");
        assert_eq!(std::fs::read(folder.path().join("other")).unwrap(), [1; 4096]);
        assert_eq!(again(meant.as_raw_fd()), 4096);
        assert_eq!(std::fs::read(&path).unwrap(), memory.0);
    }
}
