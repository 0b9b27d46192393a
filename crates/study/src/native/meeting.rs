//! The point where the jobs of a trial meet their runner, so that counters can be read while no I/O
//! is in flight.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
struct State {
    arrived: usize,
    round: u64,
    dissolved: bool,
}

/// A barrier at which the runner, unlike the jobs, neither counts nor sleeps without limit.
#[derive(Default)]
pub(crate) struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

impl Meeting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job arrives and sleeps until it is released.
    pub(crate) fn arrive(&self) {
        let mut state = self.state();
        let round = state.round;
        state.arrived += 1;
        self.changed.notify_all();
        while state.round == round && !state.dissolved {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The runner waits until `jobs` have arrived and calls `tick` at every interval meanwhile.
    pub(crate) fn gather(&self, jobs: usize, interval: Duration, tick: &mut dyn FnMut()) {
        let mut state = self.state();
        while state.arrived < jobs {
            let (next, timeout) = self.changed.wait_timeout(state, interval).unwrap_or_else(PoisonError::into_inner);
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
        let mut state = self.state();
        state.arrived = 0;
        state.round += 1;
        self.changed.notify_all();
    }

    /// Lets everybody go on, now and at every later meeting.
    pub(crate) fn dissolve(&self) {
        self.state().dissolved = true;
        self.changed.notify_all();
    }
}
