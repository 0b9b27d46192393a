//! The generator's clock: CLOCK_MONOTONIC in ns, read from the processor's time stamp counter where the
//! kernel itself keeps time by it.
//!
//! `clock_gettime` costs some 80 instructions per read even in the vDSO, a counter read about 10; fio
//! prefers the counter for the same reason (`clocksource=cpu`). The kernel's choice of clock source `tsc`
//! says that the counter is invariant and synchronous over all cores
//! (arch/x86/kernel/tsc.c); under any other source `clock_gettime` is used.

use std::sync::OnceLock;
use std::time::Duration;

/// The least time over which the counter's rate is found: 20 ns of jitter at its ends are 2 ppm.
const BASELINE: Duration = Duration::from_millis(10);

/// A moment on both clocks.
#[derive(Clone, Copy)]
struct Anchor {
    ticks: u64,
    ns: u64,
}

/// A clock for one trial. Its rate is that of the kernel's clock since the process's first trial.
#[derive(Clone, Copy)]
pub(crate) struct Clock {
    anchor: Anchor,
    /// Nanoseconds in 2^32 ticks; 0 if the counter must not be used.
    rate: u64,
}

/// CLOCK_MONOTONIC in ns.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer, and the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The counter, after all that comes before it in the program.
#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has both instructions.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

/// The clock's name, for the provenance.
pub fn name() -> &'static str {
    if counts_ticks() { "tsc" } else { "clock_gettime" }
}

fn counts_ticks() -> bool {
    static TSC: OnceLock<bool> = OnceLock::new();
    let read = || std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    *TSC.get_or_init(|| cfg!(target_arch = "x86_64") && read().is_ok_and(|name| name.trim() == "tsc"))
}

/// One moment on two clocks: the middle of two reads of the outer one, and the read of the inner one between
/// them. It is the tightest of several such pairs, because an interrupt between the reads would shift them.
pub fn moment(outer: impl Fn() -> u64, inner: impl Fn() -> u64) -> (u64, u64) {
    let pair = |_| {
        let (before, between, after) = (outer(), inner(), outer());
        let width = after.wrapping_sub(before);
        (width, (before.wrapping_add(width / 2), between))
    };
    let (_, moment) = (1..16).map(pair).fold(pair(0), Ord::min);
    moment
}

impl Anchor {
    fn now() -> Anchor {
        let (ticks, ns) = moment(ticks, monotonic_ns);
        Anchor { ticks, ns }
    }
}

impl Clock {
    /// A clock from now on. The first call of a process takes 10 ms to find the counter's rate.
    pub(crate) fn new() -> Clock {
        static FIRST: OnceLock<Anchor> = OnceLock::new();
        if !counts_ticks() {
            return Clock { anchor: Anchor { ticks: 0, ns: 0 }, rate: 0 };
        }
        let first = FIRST.get_or_init(Anchor::now);
        let elapsed = Duration::from_nanos(monotonic_ns().saturating_sub(first.ns));
        if elapsed < BASELINE {
            std::thread::sleep(BASELINE - elapsed);
        }
        let anchor = Anchor::now();
        let (ns, ticks) = (anchor.ns - first.ns, anchor.ticks.wrapping_sub(first.ticks));
        Clock { anchor, rate: ((u128::from(ns) << 32) / u128::from(ticks.max(1))) as u64 }
    }

    /// CLOCK_MONOTONIC in ns.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        if self.rate == 0 {
            return monotonic_ns();
        }
        let passed = ticks().wrapping_sub(self.anchor.ticks);
        self.anchor.ns + ((u128::from(passed) * u128::from(self.rate)) >> 32) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_the_kernels() {
        let (clock, begin) = (Clock::new(), monotonic_ns());
        for _ in 0..50 {
            let (before, now, after) = (monotonic_ns(), clock.now_ns(), monotonic_ns());
            // A rate found over 10 ms is good to some ppm, the kernel may turn its clock by 500 ppm, and a
            // busy machine takes its time.
            let slack = 20_000 + after.saturating_sub(begin) / 1000;
            assert!(before <= now + slack && now <= after + slack, "{before} {now} {after}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn the_clock_never_goes_back() {
        let clock = Clock::new();
        let mut last = clock.now_ns();
        for _ in 0..100_000 {
            let now = clock.now_ns();
            assert!(now >= last);
            last = now;
        }
    }
}
