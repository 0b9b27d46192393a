//! The generator's clock: the processor's counter of time where the kernel itself keeps time by it, else
//! CLOCK_MONOTONIC in ns.
//!
//! `clock_gettime` costs some 80 instructions per read even in the vDSO, a counter read about 5; fio prefers
//! the counter for the same reason (`clocksource=cpu`). The kernel's choice of clock source `tsc` says that
//! the counter is invariant and synchronous over all cores (arch/x86/kernel/tsc.c); on Arm the clock source
//! `arch_sys_counter` is the architecture's own counter. Under any other source `clock_gettime` is used.

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
    /// Nanoseconds in 2^32 ticks.
    rate: u64,
    /// A tick is one of the processor's counter, not a nanosecond.
    is_counter: bool,
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
fn counter() -> u64 {
    // SAFETY: every x86-64 processor has both instructions.
    unsafe {
        std::arch::x86_64::_mm_lfence();
        std::arch::x86_64::_rdtsc()
    }
}

/// The counter, after all that comes before it in the program.
#[cfg(target_arch = "aarch64")]
#[inline]
fn counter() -> u64 {
    let ticks;
    // SAFETY: the instructions touch no memory, and Linux lets programs read the register
    // (arch/arm64/kernel/arch_timer.c).
    unsafe {
        std::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags))
    };
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn counter() -> u64 {
    0
}

/// The kernel's clock source that is the counter.
const SOURCE: Option<&str> = if cfg!(target_arch = "x86_64") {
    Some("tsc")
} else if cfg!(target_arch = "aarch64") {
    Some("arch_sys_counter")
} else {
    None
};

#[cold]
fn slow_now() -> u64 {
    monotonic_ns()
}

/// The clock's name, for the provenance.
pub fn name() -> &'static str {
    if has_counter() { SOURCE.unwrap_or("clock_gettime") } else { "clock_gettime" }
}

fn has_counter() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let read = || std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    *HAS.get_or_init(|| SOURCE.is_some_and(|source| read().is_ok_and(|name| name.trim() == source)))
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
        let (ticks, ns) = moment(counter, monotonic_ns);
        Anchor { ticks, ns }
    }
}

impl Clock {
    /// A clock from now on. The first call of a process takes 10 ms to find the counter's rate.
    pub(crate) fn new() -> Clock {
        static FIRST: OnceLock<Anchor> = OnceLock::new();
        if !has_counter() {
            return Clock { anchor: Anchor { ticks: 0, ns: 0 }, rate: 1 << 32, is_counter: false };
        }
        let first = FIRST.get_or_init(Anchor::now);
        let elapsed = Duration::from_nanos(monotonic_ns().saturating_sub(first.ns));
        if elapsed < BASELINE {
            std::thread::sleep(BASELINE - elapsed);
        }
        let anchor = Anchor::now();
        let (ns, ticks) = (anchor.ns - first.ns, anchor.ticks.wrapping_sub(first.ticks));
        let rate = ((u128::from(ns) << 32) / u128::from(ticks.max(1))) as u64;
        Clock { anchor, rate: rate.max(1), is_counter: true }
    }

    /// Now, in ticks, which differences are measured in.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if self.is_counter { counter() } else { slow_now() }
    }

    /// The nanoseconds from one moment in ticks to a later one.
    #[inline]
    pub(crate) fn ns_between(&self, from: u64, to: u64) -> u64 {
        ((u128::from(to.wrapping_sub(from)) * u128::from(self.rate)) >> 32) as u64
    }

    /// CLOCK_MONOTONIC in ns at a moment in ticks, not before the clock's begin.
    pub(crate) fn ns_at(&self, ticks: u64) -> u64 {
        self.anchor.ns + self.ns_between(self.anchor.ticks, ticks.max(self.anchor.ticks))
    }

    /// The moment in ticks of CLOCK_MONOTONIC in ns; the last one there is where it is beyond.
    pub(crate) fn ticks_at(&self, ns: u64) -> u64 {
        let passed = (u128::from(ns.saturating_sub(self.anchor.ns)) << 32) / u128::from(self.rate);
        u64::try_from(passed).map_or(u64::MAX, |passed| self.anchor.ticks.saturating_add(passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_agrees_with_the_kernels() {
        let (clock, begin) = (Clock::new(), monotonic_ns());
        for _ in 0..50 {
            let (before, now, after) = (monotonic_ns(), clock.ns_at(clock.now()), monotonic_ns());
            // A rate found over 10 ms is good to some ppm, the kernel may turn its clock by 500 ppm, and a
            // busy machine takes its time.
            let slack = 20_000 + after.saturating_sub(begin) / 1000;
            assert!(before <= now + slack && now <= after + slack, "{before} {now} {after}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn moments_are_the_same_in_ticks_and_in_nanoseconds() {
        let clock = Clock::new();
        let now = clock.now();
        for later_ns in [0, 1, 1000, 1_000_000_000, 3_600_000_000_000] {
            let at_ns = clock.ns_at(now) + later_ns;
            let back = clock.ns_at(clock.ticks_at(at_ns));
            // A tick is some nanoseconds at the most, and rounded down.
            assert!(at_ns - back <= 100, "{at_ns} {back}");
        }
        assert!(clock.ticks_at(u64::MAX) > now);
        let fallback = Clock { anchor: Anchor { ticks: 0, ns: 0 }, rate: 1 << 32, is_counter: false };
        assert_eq!((fallback.ns_at(12_345), fallback.ticks_at(12_345)), (12_345, 12_345));
        assert_eq!(fallback.ns_between(100, 350), 250);
    }

    #[test]
    fn the_clock_never_goes_back() {
        let clock = Clock::new();
        let mut last = clock.ns_at(clock.now());
        for _ in 0..100_000 {
            let now = clock.ns_at(clock.now());
            assert!(now >= last);
            last = now;
        }
    }
}
