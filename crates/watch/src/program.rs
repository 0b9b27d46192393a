//! A program that is started to be watched: it waits before its `execve` until its counters are open. Its
//! standard input and outputs are its own, and nothing here ever ends it.

use super::error::WatchError;
use iopj_probe::Reaped;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, set_child_subreaper, waitid};
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::Duration;

/// A child of this process.
#[derive(Debug)]
pub(super) struct Program {
    pid: u32,
    name: String,
    gate: Option<PipeWriter>,
    starting: Option<JoinHandle<io::Result<Child>>>,
    exit: Option<OwnedFd>,
}

impl Program {
    /// Forks; the child waits. Descendants whose parents end become children of this process, so that they
    /// are found and waited for.
    pub(super) fn fork(mut command: Command) -> Result<Program, WatchError> {
        let name = command.get_program().to_string_lossy().into_owned();
        // Where it is refused, such descendants are followed for as long as they were seen before.
        let _ = set_child_subreaper(Some(rustix::process::getpid()));
        let (mut ready, ready_out) = io::pipe().map_err(WatchError::SetUp)?;
        let (gate_in, gate) = io::pipe().map_err(WatchError::SetUp)?;
        let (ready_fd, gate_fd, own_gate) = (ready_out.as_raw_fd(), gate_in.as_raw_fd(), gate.as_raw_fd());
        let wait = move || {
            // SAFETY: the descriptors are copies of pipes that the parent holds open until the child runs its
            // program; the last one is closed only here, in the child, so that the end of the parent is seen.
            let (ready, gate) = unsafe {
                rustix::io::close(own_gate);
                (BorrowedFd::borrow_raw(ready_fd), BorrowedFd::borrow_raw(gate_fd))
            };
            rustix::io::write(ready, &std::process::id().to_ne_bytes())?;
            let mut byte = [0];
            match rustix::io::read(gate, &mut byte)? {
                0 => Err(io::ErrorKind::BrokenPipe.into()),
                _ => Ok(()),
            }
        };
        // SAFETY: between fork and exec the closure makes system calls only; it allocates nothing and takes
        // no lock.
        unsafe { command.pre_exec(wait) };
        let start = move || {
            let started = command.spawn();
            drop((ready_out, gate_in));
            started
        };
        let starting = std::thread::Builder::new()
            .name("iopj-start".to_owned())
            .spawn(start)
            .map_err(WatchError::SetUp)?;
        let mut pid = [0; 4];
        if ready.read_exact(&mut pid).is_err() {
            let why =
                starting.join().ok().and_then(Result::err).unwrap_or_else(|| io::ErrorKind::Other.into());
            return Err(WatchError::SetUp(why));
        }
        let pid = u32::from_ne_bytes(pid);
        let exit = pid_of(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Ok(Program { pid, name, gate: Some(gate), starting: Some(starting), exit })
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the child run its program.
    pub(super) fn run(&mut self) -> Result<(), WatchError> {
        if let Some(mut gate) = self.gate.take() {
            gate.write_all(&[1]).map_err(WatchError::SetUp)?;
        }
        let started = self.starting.take().map(JoinHandle::join);
        let error = match started {
            Some(Ok(Err(error))) => error,
            _ => return Ok(()),
        };
        match error.kind() {
            io::ErrorKind::NotFound => Err(WatchError::NoProgram(self.name.clone())),
            _ => Err(WatchError::NotStarted { name: self.name.clone(), error }),
        }
    }

    /// Waits for its end at most so long; true if it has ended. It stays to be read and reaped.
    pub(super) fn wait(&self, limit: Duration) -> bool {
        if self.has_ended() {
            return true;
        }
        match &self.exit {
            Some(exit) => {
                let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
                // A signal ends the wait early, which does no harm.
                let _ = poll(&mut [PollFd::from_borrowed_fd(exit.as_fd(), PollFlags::IN)], Some(&limit));
            }
            None => std::thread::sleep(limit.min(Duration::from_millis(20))),
        }
        self.has_ended()
    }

    fn has_ended(&self) -> bool {
        let Some(pid) = pid_of(self.pid) else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(pid), options) {
            Ok(status) => status.is_some(),
            Err(error) => error != rustix::io::Errno::INTR,
        }
    }

    /// How it ended, and its totals with those of the children that it waited for.
    pub(super) fn reap(&self) -> Option<Reaped> {
        iopj_probe::reap(self.pid).ok().flatten()
    }
}

impl Drop for Program {
    /// A child that still waits is let go: it ends by itself, because nobody holds its gate.
    fn drop(&mut self) {
        drop(self.gate.take());
        if let Some(starting) = self.starting.take() {
            let _ = starting.join();
        }
    }
}

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(pid.cast_signed())
}
