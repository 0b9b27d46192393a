//! Events: those that the device's vectors signal, and those by which the kernel asks for the device back.

use crate::error::EngineError;
use crate::system::Owner;
use rustix::event::{EventfdFlags, PollFd, PollFlags, epoll, eventfd, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A new event (eventfd(2)).
pub(super) fn event() -> Result<OwnedFd, EngineError> {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|errno| {
        let remedy =
            if errno == Errno::MFILE { ": lower numjobs, or raise RLIMIT_NOFILE by `ulimit -n`" } else { "" };
        EngineError::call("eventfd", errno.raw_os_error(), remedy.to_owned())
    })
}

pub(super) fn signal(event: impl AsFd) -> bool {
    rustix::io::write(event, &1u64.to_ne_bytes()) == Ok(size_of::<u64>())
}

/// Waits for one event by epoll(7), edge-triggered: a wake-up costs one system call, because the event's
/// count need not be read.
pub(super) struct Waiter {
    epoll: OwnedFd,
}

impl Waiter {
    pub(super) fn new(event: impl AsFd) -> Result<Waiter, EngineError> {
        let failed = |call| move |errno: Errno| EngineError::failed(call, errno);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("epoll_create1"))?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, event, epoll::EventData::new_u64(0), flags).map_err(failed("epoll_ctl"))?;
        Ok(Waiter { epoll })
    }

    /// Sleeps until the event has been signalled since the last wait, for at most `limit`; one system call.
    pub(super) fn wait(&self, limit: Duration) {
        let mut found = libc::epoll_event { events: 0, u64: 0 };
        let limit = limit.as_millis().clamp(1, 1 << 30) as i32;
        // SAFETY: the descriptor is open, and there is room for one event. An error (a signal) counts as a
        // spurious wake-up.
        unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), &raw mut found, 1, limit) };
    }
}

/// A thread that sleeps until the kernel asks for the device back, so the engines need no system call to
/// know.
pub(super) struct Watch {
    asked: Arc<AtomicBool>,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    owner: Owner,
}

impl Watch {
    pub(super) fn start(events: Vec<OwnedFd>) -> Result<Watch, EngineError> {
        let asked = Arc::new(AtomicBool::new(false));
        let stop = Arc::new(event()?);
        let (flag, end) = (Arc::clone(&asked), Arc::clone(&stop));
        let sleep = move || {
            let all = std::iter::once(end.as_fd()).chain(events.iter().map(AsFd::as_fd));
            let mut fds: Vec<PollFd<'_>> =
                all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            while poll(&mut fds, None).is_err() {}
            if fds[1..].iter().any(|fd| !fd.revents().is_empty()) {
                flag.store(true, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().name("iopj-vfio".to_owned()).spawn(sleep);
        let thread = thread.map_err(|e| EngineError::failed("clone", e))?;
        Ok(Watch { asked, stop, thread: Some(thread), owner: Owner::this_process() })
    }

    /// Becomes true when one of the events is signalled.
    pub(super) fn asked(&self) -> &Arc<AtomicBool> {
        &self.asked
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.owner.is_this_process() {
            return; // a forked child has no such thread, and the event is the parent's
        }
        signal(&self.stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no poll")]
    fn a_watch_sees_its_events_and_ends_without_them() {
        let (quiet, loud) = (event().unwrap(), event().unwrap());
        let hand = loud.try_clone().unwrap();
        let watch = Watch::start(vec![quiet, loud]).unwrap();
        assert!(!watch.asked().load(Ordering::Relaxed));
        assert!(signal(&hand));
        while !watch.asked().load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        drop(watch);
        drop(Watch::start(vec![event().unwrap()]).unwrap());
    }

    #[test]
    fn a_waiter_wakes_once_for_each_signal() {
        let event = event().unwrap();
        let waiter = Waiter::new(&event).unwrap();
        for _ in 0..3 {
            assert!(signal(&event));
            let start = std::time::Instant::now();
            waiter.wait(Duration::from_secs(100));
            assert!(start.elapsed() < Duration::from_secs(100));
        }
        // Nothing new: only the time ends it.
        waiter.wait(Duration::from_millis(1));
    }
}
