//! Events: those that the device's vectors signal, and those by which the kernel asks for the device back.

use crate::engine::{EngineError, last_errno};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A new event (eventfd(2)).
pub(super) fn event() -> Result<OwnedFd, EngineError> {
    // SAFETY: takes no memory of ours.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        let remedy = if last_errno() == libc::EMFILE {
            ": lower numjobs, or raise RLIMIT_NOFILE by `ulimit -n`"
        } else {
            ""
        };
        return Err(EngineError::call("eventfd", last_errno(), remedy.to_owned()));
    }
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Waits for one event by epoll(7), edge-triggered: a wake-up costs one system call, for the event's count
/// need not be read.
pub(super) struct Waiter {
    epoll: OwnedFd,
}

impl Waiter {
    pub(super) fn new(event: RawFd) -> Result<Waiter, EngineError> {
        // SAFETY: takes no memory of ours.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(EngineError::last("epoll_create1"));
        }
        // SAFETY: the descriptor is new and ours.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let mut interest = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: 0 };
        // SAFETY: both descriptors are open, and `interest` is a whole `struct epoll_event`.
        if unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, event, &raw mut interest) } < 0 {
            return Err(EngineError::last("epoll_ctl"));
        }
        Ok(Waiter { epoll })
    }

    /// Sleeps until the event was signalled since the last wait, for at most `limit`; one system call.
    pub(super) fn wait(&self, limit: Duration) {
        let mut found = libc::epoll_event { events: 0, u64: 0 };
        let limit = limit.as_millis().clamp(1, 1 << 30) as i32;
        // SAFETY: the descriptor is open, and there is room for one event. An error (a signal) is as a
        // spurious wake-up.
        unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), &raw mut found, 1, limit) };
    }
}

/// A thread that sleeps until the kernel asks for the device back, so that who measures needs no system call
/// to know.
pub(super) struct Watch {
    asked: Arc<AtomicBool>,
    stop: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches for any of `events`.
    pub(super) fn start(events: Vec<OwnedFd>) -> Result<Watch, EngineError> {
        let asked = Arc::new(AtomicBool::new(false));
        let stop = event()?;
        let (flag, stop_fd) = (Arc::clone(&asked), stop.as_raw_fd());
        let sleep = move || {
            let mut fds: Vec<libc::pollfd> = std::iter::once(stop_fd)
                .chain(events.iter().map(AsRawFd::as_raw_fd))
                .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
                .collect();
            // SAFETY: `fds` has as many entries as are said; `stop_fd` is open until this thread was joined.
            while unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) } < 0 {}
            if fds[1..].iter().any(|fd| fd.revents != 0) {
                flag.store(true, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().name("iopj-vfio".to_owned()).spawn(sleep);
        let thread =
            thread.map_err(|e| EngineError::call("clone", e.raw_os_error().unwrap_or(0), String::new()))?;
        Ok(Watch { asked, stop, thread: Some(thread) })
    }

    /// Becomes true when one of the events is signalled.
    pub(super) fn asked(&self) -> &Arc<AtomicBool> {
        &self.asked
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let one = 1u64;
        // SAFETY: the descriptor is open and 8 bytes are read from `one`.
        unsafe { libc::write(self.stop.as_raw_fd(), (&raw const one).cast(), 8) };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(event: &OwnedFd) {
        let one = 1u64;
        // SAFETY: the descriptor is open and 8 bytes are read from `one`.
        assert_eq!(unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) }, 8);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no poll")]
    fn a_watch_sees_its_events_and_ends_without_them() {
        let (quiet, loud) = (event().unwrap(), event().unwrap());
        let hand = loud.try_clone().unwrap();
        let watch = Watch::start(vec![quiet, loud]).unwrap();
        assert!(!watch.asked().load(Ordering::Relaxed));
        signal(&hand);
        while !watch.asked().load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        drop(watch);
        drop(Watch::start(vec![event().unwrap()]).unwrap());
    }

    #[test]
    fn a_waiter_wakes_once_for_each_signal() {
        let event = event().unwrap();
        let waiter = Waiter::new(event.as_raw_fd()).unwrap();
        for _ in 0..3 {
            signal(&event);
            let start = std::time::Instant::now();
            waiter.wait(Duration::from_secs(100));
            assert!(start.elapsed() < Duration::from_secs(100));
        }
        // Nothing new: only the time ends it.
        waiter.wait(Duration::from_millis(1));
    }
}
