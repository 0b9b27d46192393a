//! The clock that readings and windows share.

/// `CLOCK_MONOTONIC_RAW` in ns: the time since boot without NTP's corrections, see clock_gettime(2).
pub fn monotonic_raw_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to. The call cannot fail: the clock exists since Linux
    // 2.6.28.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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
