//! The host's clocks: the one that readings and windows share, and wall time.

use crate::meter::{Reading, Value};
use rustix::time::{ClockId, clock_gettime};
use std::time::{SystemTime, UNIX_EPOCH};

/// `CLOCK_MONOTONIC_RAW` in ns: the time since boot without NTP's corrections, see clock_gettime(2).
pub fn monotonic_raw_ns() -> u64 {
    let time = clock_gettime(ClockId::MonotonicRaw);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Wall time in ns since 1970; 0 if the clock is set to before.
fn wall_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64)
}

/// When values were read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTime {
    begin_ns: u64,
    end_ns: u64,
    wall_ns: i64,
}

impl ReadTime {
    /// From `begin_ns` until now.
    pub(crate) fn since(begin_ns: u64) -> Self {
        Self { begin_ns, end_ns: monotonic_raw_ns(), wall_ns: wall_ns() }
    }

    /// This instant.
    pub(crate) fn now() -> Self {
        let now_ns = monotonic_raw_ns();
        Self { begin_ns: now_ns, end_ns: now_ns, wall_ns: wall_ns() }
    }

    /// A value of a meter without a clock of its own.
    pub(crate) fn reading(self, channel: usize, value: Value) -> Reading {
        let Self { begin_ns, end_ns, wall_ns } = self;
        Reading { channel, value, begin_ns, end_ns, wall_ns, own_ns: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_runs_forward_from_boot() {
        let (first, second) = (monotonic_raw_ns(), monotonic_raw_ns());
        assert!(0 < first && first <= second);
    }
}
