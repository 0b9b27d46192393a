//! Time, CPU time, sleep, and how crowded the processors are; a test scripts them.

use rustix::thread::{
    ClockId, Timespec, clock_nanosleep_relative, current_timer_slack, set_current_timer_slack,
};
use rustix::time::clock_gettime;
use std::fs;
use std::num::NonZeroU64;

/// What an adaptive engine asks of the system it runs on.
pub trait Clock {
    /// Nanoseconds of a clock that only goes forward.
    fn now_ns(&self) -> u64;

    /// Nanoseconds of CPU time of this thread.
    fn cpu_ns(&self) -> u64;

    /// Sleeps for at least so many nanoseconds, unless a signal comes.
    fn sleep(&self, ns: u64);

    /// Threads that run or could, and processors that this thread may use; `None` where that is not known.
    fn crowding(&self) -> Option<Crowding>;

    /// Joules that the machine has drawn, since whenever; `None` where no meter says so.
    fn joules(&self) -> Option<f64> {
        None
    }

    /// Makes short sleeps of this thread end on time, until [`Clock::keep_usual_time`].
    fn keep_fine_time(&self) -> Option<u64> {
        None
    }

    /// Ends what [`Clock::keep_fine_time`] began; `before` is what that returned.
    fn keep_usual_time(&self, before: u64) {
        let _ = before;
    }
}

/// Threads and processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowding {
    /// Threads of the machine that run or could.
    pub runnable: u32,
    /// Processors that this thread may use.
    pub processors: u32,
}

impl Crowding {
    /// True if threads wait for a processor.
    pub fn is_crowded(self) -> bool {
        self.runnable > self.processors
    }
}

/// The machine's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        ns(clock_gettime(ClockId::Monotonic))
    }

    fn cpu_ns(&self) -> u64 {
        ns(clock_gettime(ClockId::ThreadCPUTime))
    }

    fn sleep(&self, ns: u64) {
        let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        let time = Timespec { tv_sec: seconds as i64, tv_nsec: rest as _ };
        let _ = clock_nanosleep_relative(ClockId::Monotonic, &time);
    }

    fn crowding(&self) -> Option<Crowding> {
        let load = fs::read_to_string("/proc/loadavg").ok()?;
        let processors = rustix::thread::sched_getaffinity(None).ok()?.count();
        Some(Crowding { runnable: runnable(&load)?, processors })
    }

    /// The timer slack of prctl(2), usually 50 us, is set to its least.
    fn keep_fine_time(&self) -> Option<u64> {
        let before = current_timer_slack().ok()?;
        set_current_timer_slack(Some(NonZeroU64::MIN)).ok()?;
        Some(before)
    }

    fn keep_usual_time(&self, before: u64) {
        let _ = set_current_timer_slack(NonZeroU64::new(before));
    }
}

/// The machine's own clock, with a meter: a function that returns the joules that the machine has drawn,
/// since whenever, or `None` while it cannot be read. It is asked ten times a second at the most, by the
/// thread that does the I/O, and only where joules are what is chosen for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Metered<M>(pub M);

impl<M: Fn() -> Option<f64>> Clock for Metered<M> {
    fn now_ns(&self) -> u64 {
        SystemClock.now_ns()
    }

    fn cpu_ns(&self) -> u64 {
        SystemClock.cpu_ns()
    }

    fn sleep(&self, ns: u64) {
        SystemClock.sleep(ns);
    }

    fn crowding(&self) -> Option<Crowding> {
        SystemClock.crowding()
    }

    fn joules(&self) -> Option<f64> {
        (self.0)()
    }

    fn keep_fine_time(&self) -> Option<u64> {
        SystemClock.keep_fine_time()
    }

    fn keep_usual_time(&self, before: u64) {
        SystemClock.keep_usual_time(before);
    }
}

fn ns(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The fourth field of `/proc/loadavg` begins with the runnable threads (proc_loadavg(5)).
fn runnable(load: &str) -> Option<u32> {
    load.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runnable_threads_are_read_from_the_load() {
        assert_eq!(runnable("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(runnable("0.20 0.18"), None);
        let here = SystemClock.crowding().unwrap();
        assert!(here.runnable >= 1 && here.processors >= 1, "{here:?}");
        assert!(!Crowding { runnable: 2, processors: 2 }.is_crowded());
    }

    #[test]
    fn a_sleep_takes_time_and_the_slack_comes_back() {
        let clock = SystemClock;
        let slack = current_timer_slack().unwrap();
        let before = clock.keep_fine_time().unwrap();
        let (began, cpu) = (clock.now_ns(), clock.cpu_ns());
        clock.sleep(1_000_000);
        assert!(clock.now_ns() - began >= 1_000_000 && clock.cpu_ns() >= cpu);
        clock.keep_usual_time(before);
        assert_eq!(current_timer_slack().unwrap(), slack);
    }
}
