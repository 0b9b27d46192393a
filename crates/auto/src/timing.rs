//! How often I/Os are timed, threads counted, and idle engines closed; how long a poller goes on.

use crate::seen::LEAST_TIMED;

/// With a bound of latency, the longest time of an epoch in ns: so long at most is a way taken whose 99th
/// percentile is over the bound, once two of its I/Os were seen over it.
pub const BOUND_GRACE_NS: u64 = 1_000_000_000;
/// An engine that no route leads to is closed after this time.
pub(crate) const IDLE_NS: u64 = 5_000_000_000;
/// A kernel thread that polls for submissions goes on for this time after the last one. By default it is a
/// second, in which it costs more than what is learnt by a burst is worth.
pub(crate) const POLLER_IDLE_MS: u32 = 10;
/// How often the threads that want to run are counted.
pub(crate) const CROWDING_EVERY_NS: u64 = 100_000_000;
/// I/Os that are timed in a second, at most.
const TIMED_PER_SECOND: u64 = 4_096;
/// The same while a bound of latency is near.
const TIMED_PER_SECOND_NEAR: u64 = 16_384;
/// Of how many I/Os one is timed while no rate is known.
pub(crate) const TIMED_AT_FIRST: u32 = 16;
/// Of how many I/Os one is timed at most often, and with a bound that is near: two clock reads are dear
/// beside the rest.
const TIMED_OFTEN: u32 = 64;
pub(crate) const TIMED_OFTEN_NEAR: u32 = 4;
/// I/Os that are timed in a second with a bound that is not near, if one in [`TIMED_OFTEN`] is fewer: enough
/// for a percentile before an epoch must end.
const TIMED_PER_SECOND_AT_LEAST: u64 = 128;
const _: () = assert!(TIMED_PER_SECOND_AT_LEAST * BOUND_GRACE_NS / 1_000_000_000 > LEAST_TIMED as u64);
/// Of how many I/Os of a burst one is timed.
pub(crate) const TIMED_IN_BURST: u32 = 4;

/// A bound of latency, while an epoch is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// There is none.
    None,
    /// No timed I/O of the epoch before took more than half of it.
    Far,
    /// One did.
    Near,
}

/// One of how many I/Os is timed at the rate of an epoch.
pub(crate) fn timed_every(ios: u32, elapsed_ns: u64, bound: Bound) -> u32 {
    let rate = u64::from(ios) * 1_000_000_000 / elapsed_ns.max(1);
    let often = rate.div_ceil(TIMED_PER_SECOND);
    let every = match bound {
        Bound::None => often.max(TIMED_OFTEN.into()),
        Bound::Far => (rate / TIMED_PER_SECOND_AT_LEAST).clamp(1, TIMED_OFTEN.into()).max(often),
        // Few I/Os in a second: each is timed, or a percentile would come too late.
        Bound::Near if rate <= TIMED_PER_SECOND => 1,
        Bound::Near => rate.div_ceil(TIMED_PER_SECOND_NEAR).max(TIMED_OFTEN_NEAR.into()),
    };
    every.min(1 << 20) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_ios_is_timed_by_rate_and_by_how_near_the_bound_is() {
        let every = |per_second: u32, bound| timed_every(per_second, 1_000_000_000, bound);
        assert_eq!([100, 10_000, 1_000_000].map(|rate| every(rate, Bound::None)), [64, 64, 245]);
        let far = [100, 1_000, 10_000, 100_000, 1_000_000].map(|rate| every(rate, Bound::Far));
        assert_eq!(far, [1, 7, 64, 64, 245]);
        let near = [100, 4_096, 4_097, 100_000, 1_000_000].map(|rate| every(rate, Bound::Near));
        assert_eq!(near, [1, 1, 4, 7, 62]);
    }
}
