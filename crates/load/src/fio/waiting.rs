//! Waiting for a child that may have to be stopped, and is looked at meanwhile.

use iopj_core::evidence::ProcessEvidence;
use iopj_probe::reap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the stop flag is looked at; the end of the child itself is seen at once.
const POLL_MS: i32 = 50;
/// How long the child may take to end by itself after SIGINT.
const GRACE: Duration = Duration::from_secs(5);

/// Waits for the child: how it ended, what it cost, and whether it was stopped. `look` is called with its
/// number, and says how long it may be until the next time.
pub(super) fn wait(
    child: &Child,
    stop: &AtomicBool,
    tick: &mut dyn FnMut(),
    look: &mut dyn FnMut(u32) -> Duration,
) -> io::Result<(ExitStatus, ProcessEvidence, bool)> {
    let pidfd = pidfd(child);
    // SAFETY: no pointer; the child is not yet waited for, so its id is still its own.
    let signal = |number| unsafe { libc::kill(child.id().cast_signed(), number) };
    let mut ticked_at = Instant::now();
    let mut stopped_at: Option<Instant> = None;
    loop {
        if let Some((status, process)) = reap(child.id())? {
            return Ok((status, process, stopped_at.is_some()));
        }
        match stopped_at {
            None if stop.load(Ordering::Relaxed) => {
                stopped_at = Some(Instant::now());
                signal(libc::SIGINT);
            }
            Some(at) if at.elapsed() >= GRACE => {
                signal(libc::SIGKILL);
            }
            _ => {}
        }
        if ticked_at.elapsed() >= Duration::from_secs(1) {
            ticked_at = Instant::now();
            tick();
        }
        let next_ms = look(child.id()).as_millis().clamp(1, POLL_MS as u128) as i32;
        // Without a descriptor poll only sleeps. A signal that ends it early does no harm.
        let fd = pidfd.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut ready = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: `ready` is one pollfd and outlives the call.
        unsafe { libc::poll(&mut ready, 1, next_ms) };
    }
}

/// A descriptor that becomes readable when the child ends; absent before Linux 5.3.
fn pidfd(child: &Child) -> Option<OwnedFd> {
    // SAFETY: no pointer; the child is not yet waited for, so its id is still its own.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has just given us this descriptor and nobody else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}
