//! Waiting for a child that is observed meanwhile and may have to be stopped.

use iopj_core::evidence::ProcessEvidence;
use iopj_probe::reap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the stop flag is checked; the end of the child itself is seen at once.
const POLL: Duration = Duration::from_millis(50);
/// How long the child may take to end by itself after SIGINT.
const GRACE: Duration = Duration::from_secs(5);

/// Waits for the child. Returns how it ended, what it cost, and whether it was stopped. Calls `look` with the
/// child's id, again after the time that it returns.
pub(super) fn wait(
    child: &Child,
    stop: &AtomicBool,
    tick: &mut dyn FnMut(),
    look: &mut dyn FnMut(u32) -> Duration,
) -> io::Result<(ExitStatus, ProcessEvidence, bool)> {
    // The child is not yet waited for, so its id is still its own.
    let pid = Pid::from_child(child);
    // A descriptor that becomes readable when the child ends; there is none before Linux 5.3.
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
    let mut ticked_at = Instant::now();
    let mut stopped_at: Option<Instant> = None;
    loop {
        if let Some(ended) = reap(child.id())? {
            return Ok((ended.status, ended.totals, stopped_at.is_some()));
        }
        match stopped_at {
            None if stop.load(Ordering::Relaxed) => {
                stopped_at = Some(Instant::now());
                let _ = kill_process(pid, Signal::INT);
            }
            Some(at) if at.elapsed() >= GRACE => {
                let _ = kill_process(pid, Signal::KILL);
            }
            _ => {}
        }
        if ticked_at.elapsed() >= Duration::from_secs(1) {
            ticked_at = Instant::now();
            tick();
        }
        let next = look(child.id()).clamp(Duration::from_millis(1), POLL);
        let next = Timespec { tv_sec: 0, tv_nsec: next.subsec_nanos().into() };
        // Without a descriptor poll only sleeps. A signal that ends it early does no harm.
        let mut ends: Vec<PollFd<'_>> = pidfd.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let _ = poll(&mut ends, Some(&next));
    }
}
