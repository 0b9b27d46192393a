//! How the target host's clock lies to this one's: exchanges over the control connection, and what a time
//! there is here.

/// How the clocks lay to each other at a moment, from one exchange: asked and answered here, read there in
/// between.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Clock {
    /// The moment, by the target host's clock.
    there_ns: u64,
    /// Its time less this host's.
    pub(super) offset_ns: i64,
    /// How far that may be wrong.
    pub(super) uncertainty_ns: u64,
}

impl Clock {
    pub(super) fn of(sent: u64, there: u64, received: u64) -> Clock {
        let half = received.saturating_sub(sent) / 2;
        let here = sent + half;
        let offset_ns = i64::try_from(i128::from(there) - i128::from(here)).unwrap_or_default();
        Clock { there_ns: there, offset_ns, uncertainty_ns: half }
    }
}

/// All alignments of a run, in their order.
#[derive(Debug, Default)]
pub(super) struct Clocks(Vec<Clock>);

impl Clocks {
    pub(super) fn keep(&mut self, clock: Clock) {
        self.0.push(clock);
    }

    /// The last alignment.
    pub(super) fn last(&self) -> Clock {
        self.0.last().copied().unwrap_or_default()
    }

    /// How far the worst alignment may be wrong.
    pub(super) fn worst_ns(&self) -> u64 {
        self.0.iter().map(|clock| clock.uncertainty_ns).max().unwrap_or_default()
    }

    /// A time of the target host on this host's clock. Between two alignments the clocks part steadily:
    /// `CLOCK_MONOTONIC_RAW` is a quartz that nothing corrects. Before the first and after the last, the
    /// offset is taken as it was there.
    pub(super) fn here(&self, there_ns: u64) -> u64 {
        let after = self.0.partition_point(|clock| clock.there_ns <= there_ns);
        let before = after.checked_sub(1).map(|before| self.0[before]);
        let offset_ns = match (before, self.0.get(after)) {
            (Some(before), Some(next)) => {
                let share = (there_ns - before.there_ns) as f64 / (next.there_ns - before.there_ns) as f64;
                before.offset_ns + ((next.offset_ns - before.offset_ns) as f64 * share).round() as i64
            }
            (Some(one), None) => one.offset_ns,
            (None, one) => one.map_or(0, |one| one.offset_ns),
        };
        there_ns.saturating_add_signed(offset_ns.saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_quickest_exchange_tells_how_far_a_clock_is_off() {
        let clock = |there_ns, offset_ns| Clock { there_ns, offset_ns, uncertainty_ns: 100 };
        assert_eq!(Clock::of(1_000, 5_100, 1_200), clock(5_100, 4_000));
        assert_eq!(Clock::of(5_000, 1_100, 5_200), clock(1_100, -4_000));
    }

    /// One offset for a trial of an hour was off by a tenth of a second at its end.
    #[test]
    fn clocks_that_part_are_followed_between_two_alignments() {
        // The other clock runs 30 ppm fast, and began an hour later.
        let there = |here: u64| here - 3600 * SECOND + here / 1_000_000 * 30;
        let mut clocks = Clocks::default();
        assert_eq!(clocks.here(7), 7);
        for second in [4000, 7600, 7601] {
            let here = second * SECOND;
            clocks.keep(Clock::of(here - 200, there(here), here + 200));
        }
        for second in [4000, 4001, 5800, 7600, 7601] {
            let (here, seen) = (second * SECOND, clocks.here(there(second * SECOND)));
            assert!(here.abs_diff(seen) <= 1, "{second} s: {seen}");
        }
        // Beyond the last alignment the offset stays.
        assert_eq!(clocks.here(there(7601 * SECOND) + SECOND), 7602 * SECOND);
        assert_eq!((clocks.last().uncertainty_ns, clocks.worst_ns()), (200, 200));
        clocks.keep(Clock::of(8000 * SECOND, there(8000 * SECOND) + 500, 8000 * SECOND + 1000));
        assert_eq!(clocks.worst_ns(), 500);
    }

    proptest! {
        /// Exchanges with any delays on either way: a time between them is never off by more than the worse
        /// of the two.
        #[test]
        fn a_time_is_never_off_by_more_than_the_alignments_about_it(
            delays in prop::array::uniform4(0u64..50_000_000),
            ppm in -100i64..100,
            share in 0.0f64..1.0,
        ) {
            let there = |here: u64| (here as i64 + 12_345 + here as i64 / 1_000_000 * ppm) as u64;
            let (mut clocks, ends) = (Clocks::default(), [100 * SECOND, 700 * SECOND]);
            for (here, delay) in ends.into_iter().zip(delays.chunks(2)) {
                clocks.keep(Clock::of(here - delay[0], there(here), here + delay[1]));
            }
            let at = ends[0] + ((ends[1] - ends[0]) as f64 * share) as u64;
            prop_assert!(clocks.here(there(at)).abs_diff(at) <= clocks.worst_ns() + 2);
        }
    }
}
