//! The barrier where the jobs of a trial meet their runner, so that counters can be read while no I/O is in
//! flight.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

#[derive(Default)]
struct State {
    arrived: usize,
    /// The threads that sleep, or are about to.
    waiting: Vec<Thread>,
}

/// A barrier at which the runner, unlike the jobs, is not counted and does not sleep without limit. A job
/// sleeps once, because its sleeps are counted: no arrival wakes it, and it takes no lock when it is
/// released.
#[derive(Default)]
pub(crate) struct Meeting {
    state: Mutex<State>,
    arrived: Condvar,
    round: AtomicU64,
    dissolved: AtomicBool,
}

impl Meeting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job arrives and sleeps until it is released.
    pub(crate) fn arrive(&self) {
        // The round cannot end before this job is among those who have arrived.
        let round = self.round.load(Ordering::Acquire);
        let mut state = self.state();
        state.arrived += 1;
        state.waiting.push(thread::current());
        drop(state);
        self.arrived.notify_all();
        while self.round.load(Ordering::Acquire) == round && !self.dissolved.load(Ordering::Acquire) {
            thread::park();
        }
    }

    /// The runner waits until `jobs` have arrived and calls `tick` each `interval` meanwhile.
    pub(crate) fn gather(&self, jobs: usize, interval: Duration, tick: &mut dyn FnMut()) {
        let mut state = self.state();
        while state.arrived < jobs {
            let (next, timeout) =
                self.arrived.wait_timeout(state, interval).unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() {
                drop(state);
                tick();
                state = self.state();
            }
        }
    }

    /// The runner lets the jobs go on.
    pub(crate) fn release(&self) {
        let waiting = {
            let mut state = self.state();
            state.arrived = 0;
            std::mem::take(&mut state.waiting)
        };
        self.round.fetch_add(1, Ordering::Release);
        waiting.iter().for_each(Thread::unpark);
    }

    /// Lets all threads go on, now and at every later meeting.
    pub(crate) fn dissolve(&self) {
        self.dissolved.store(true, Ordering::Release);
        let waiting = std::mem::take(&mut self.state().waiting);
        waiting.iter().for_each(Thread::unpark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voluntary_switches() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse().unwrap()
    }

    /// Every arrival woke all jobs that had arrived, 16 times each of 64, and polling looked like sleeping.
    #[test]
    fn a_job_of_many_sleeps_once_a_meeting() {
        const JOBS: usize = 64;
        const MEETINGS: u64 = 8;
        let meeting = Meeting::default();
        let sleeps: u64 = thread::scope(|scope| {
            let job = || {
                let before = voluntary_switches();
                (0..MEETINGS).for_each(|_| meeting.arrive());
                voluntary_switches() - before
            };
            let jobs: Vec<_> = (0..JOBS).map(|_| scope.spawn(job)).collect();
            for _ in 0..MEETINGS {
                meeting.gather(JOBS, Duration::from_secs(1), &mut || {});
                meeting.release();
            }
            jobs.into_iter().map(|job| job.join().unwrap()).sum()
        });
        // Once, and once more where the lock was taken.
        assert!(sleeps <= 2 * JOBS as u64 * MEETINGS, "{sleeps}");
    }

    #[test]
    fn whoever_meets_after_the_end_goes_on() {
        let meeting = Meeting::default();
        thread::scope(|scope| {
            scope.spawn(|| (0..3).for_each(|_| meeting.arrive()));
            meeting.gather(1, Duration::from_secs(1), &mut || {});
            meeting.dissolve();
        });
    }
}
