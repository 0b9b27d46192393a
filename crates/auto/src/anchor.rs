//! How far what ways draw is from what is believed of them, where a meter says it: slowly, for a meter is
//! coarse.

use crate::way::Way;

/// How much a reading counts of a way that was read before, and of one that was not.
const WEIGHT: f64 = 0.25;
const FIRST_WEIGHT: f64 = 0.7;
/// How much of what a reading changes of a way is held to be due to what all ways have in common, such as
/// other programs.
const IN_COMMON: f64 = 0.8;
/// How long a reading of a way holds that is not taken any more: it may have been other programs that drew
/// so much. Each time that it is forgotten, the next one holds twice as long.
const HOLDS_NS: u64 = 10_000_000_000;
const MOST_DOUBLED: u32 = 10;
/// Of what is drawn between two readings, the part that one way must be believed to draw.
const NEARLY_ALL: f64 = 0.9;

/// What a meter has shown of each way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anchors {
    reads: [Option<Read>; Way::COUNT],
    /// The end of the latest epoch.
    now_ns: u64,
    before: Option<Reading>,
    since: Stretch,
}

/// What was read of a way.
#[derive(Clone, Copy, Debug)]
struct Read {
    /// The logarithm of what it draws over what is believed.
    log: f64,
    at_ns: u64,
    /// How often it was forgotten before.
    forgotten: u32,
}

/// What a meter said.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at_ns: u64,
    joules: f64,
    /// The meter had just gone on. Many go on once a second.
    is_fresh: bool,
}

/// The epochs since a reading.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    ns: u64,
    /// By way, the joules that are believed.
    believed: [f64; Way::COUNT],
    /// There were I/Os of which nothing is believed.
    is_partial: bool,
}

impl Anchors {
    /// What is believed of a way is to be multiplied by this. Of one that was not read, it is what the others
    /// have in common, as far as that may be believed: errors of all and of one are held to be equally
    /// likely.
    pub(crate) fn factor(&self, way: Way) -> f64 {
        self.log(way).exp()
    }

    /// The same of any way.
    pub(crate) fn factor_in_common(&self) -> f64 {
        self.in_common().exp()
    }

    fn log(&self, way: Way) -> f64 {
        self.known(way).unwrap_or_else(|| self.in_common())
    }

    fn in_common(&self) -> f64 {
        let known = Way::ALL.into_iter().filter_map(|way| self.known(way));
        let (sum, count) = known.fold((0.0, 1u32), |(sum, count), log| (sum + log, count + 1));
        sum / f64::from(count)
    }

    /// What was read of a way and holds still.
    fn known(&self, way: Way) -> Option<f64> {
        let holds = |read: &Read| {
            self.now_ns.saturating_sub(read.at_ns) < HOLDS_NS << read.forgotten.min(MOST_DOUBLED)
        };
        self.reads[way.index()].filter(holds).map(|read| read.log)
    }

    /// I/Os went a way, and are believed to have drawn so much.
    pub(crate) fn add(&mut self, way: Way, joules: Option<f64>) {
        self.since.believed[way.index()] += joules.unwrap_or(0.0);
        self.since.is_partial |= joules.is_none();
    }

    /// An epoch is over. If the meter was read at its end, and one way drew nearly everything since the last
    /// reading, its power is compared with what was believed. Joules cannot be: some of the time lies between
    /// epochs.
    pub(crate) fn end_epoch(&mut self, elapsed_ns: u64, now_ns: u64, joules: Option<f64>) {
        self.since.ns += elapsed_ns;
        self.now_ns = now_ns;
        let Some(joules) = joules else { return };
        let reading = Reading { at_ns: now_ns, joules, is_fresh: true };
        match self.before {
            None => self.begin(Reading { is_fresh: false, ..reading }),
            // It has not gone on.
            Some(before) if joules == before.joules => {}
            Some(before) => {
                if before.is_fresh
                    && let Some((way, believed)) = self.since.nearly_alone()
                {
                    let drawn = (joules - before.joules) / now_ns.saturating_sub(before.at_ns) as f64;
                    self.note(way, (drawn / believed).ln());
                }
                self.begin(reading);
            }
        }
    }

    fn begin(&mut self, reading: Reading) {
        (self.before, self.since) = (Some(reading), Stretch::default());
    }

    /// A way was read, and what it drew is off by this logarithm.
    fn note(&mut self, way: Way, off: f64) {
        if !off.is_finite() {
            return;
        }
        let (log, is_known) = (self.log(way), self.known(way).is_some());
        let off = if is_known { WEIGHT } else { FIRST_WEIGHT } * off;
        if is_known {
            self.reads.iter_mut().flatten().for_each(|read| read.log += IN_COMMON * off);
        }
        let before = self.reads[way.index()].map_or(0, |read| read.forgotten + u32::from(!is_known));
        let forgotten = before.min(MOST_DOUBLED);
        self.reads[way.index()] = Some(Read { log: log + off, at_ns: self.now_ns, forgotten });
    }
}

impl Stretch {
    /// The way that drew nearly all, and the joules that all drew in a nanosecond, as believed.
    fn nearly_alone(&self) -> Option<(Way, f64)> {
        let total: f64 = self.believed.iter().sum();
        let is_it = |way: &Way| self.believed[way.index()] >= NEARLY_ALL * total;
        let way = Way::ALL.into_iter().find(is_it)?;
        (!self.is_partial && total > 0.0 && self.ns > 0).then_some((way, total / self.ns as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A meter, and what is believed of 100 ms.
    struct Script {
        anchors: Anchors,
        now_ns: u64,
        joules: f64,
    }

    impl Script {
        fn new() -> Script {
            Script { anchors: Anchors::default(), now_ns: 0, joules: 1e6 }
        }

        /// For 100 ms a way draws so many watts, of which one is believed.
        fn pass(&mut self, way: Way, watts: f64, is_read: bool) {
            let believed = 0.1 * self.anchors.factor(way);
            self.now_ns += 100_000_000;
            self.joules += 0.1 * watts;
            self.anchors.add(way, Some(believed));
            self.anchors.end_epoch(100_000_000, self.now_ns, is_read.then_some(self.joules));
        }

        fn read(&mut self, way: Way, watts: f64, times: u32) {
            (0..times).for_each(|_| self.pass(way, watts, true));
        }

        fn factors(&self, ways: [Way; 2]) -> [f64; 2] {
            ways.map(|way| self.anchors.factor(way))
        }
    }

    const WAYS: [Way; 2] = [Way::Interrupt, Way::Poll];

    #[track_caller]
    fn near(found: [f64; 2], expected: [f64; 2]) {
        assert!(
            found.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-6),
            "{found:?} {expected:?}"
        );
    }

    #[test]
    fn a_way_that_draws_more_than_believed_is_found_out_and_others_may_have_half_of_that_in_common() {
        let mut script = Script::new();
        near(script.factors(WAYS), [1.0, 1.0]);
        // The first reading says nothing of what was before, nor the second of when the meter goes on.
        script.read(Way::Interrupt, 1.5, 2);
        near(script.factors(WAYS), [1.0, 1.0]);
        script.read(Way::Interrupt, 1.5, 1);
        let first = FIRST_WEIGHT * 1.5_f64.ln();
        near(script.factors(WAYS), [first, first / 2.0].map(f64::exp));
        script.read(Way::Interrupt, 1.5, 60);
        near(script.factors(WAYS), [1.5, 1.5_f64.sqrt()]);
        script.read(Way::Poll, 0.8, 1);
        let log = 1.5_f64.ln() / 2.0;
        let poll = log + FIRST_WEIGHT * (0.8_f64.ln() - log);
        near(script.factors(WAYS), [1.5, poll.exp()]);
        near(script.factors([Way::Sqpoll; 2]), [((1.5_f64.ln() + poll) / 3.0).exp(); 2]);
        near([script.anchors.factor_in_common(); 2], script.factors([Way::Sqpoll; 2]));
    }

    #[test]
    fn what_changes_later_moves_slowly_and_most_of_it_for_all_that_were_read() {
        let mut script = Script::new();
        script.read(Way::Poll, 1.0, 3);
        script.read(Way::Interrupt, 1.0, 1);
        script.read(Way::Interrupt, 2.0, 1);
        near(script.factors(WAYS), [WEIGHT, WEIGHT * IN_COMMON].map(|share| 2.0_f64.powf(share)));
        script.read(Way::Interrupt, 2.0, 60);
        near(script.factors(WAYS), [2.0, 2.0_f64.powf(IN_COMMON)]);
    }

    #[test]
    fn what_other_programs_drew_is_forgotten_and_later_each_time() {
        let mut script = Script::new();
        script.read(Way::Interrupt, 2.0, 60);
        near(script.factors(WAYS), [2.0, 2.0_f64.sqrt()]);
        // They ended, and it is not taken any more.
        script.read(Way::Poll, 1.0, 60);
        assert!(script.anchors.known(Way::Interrupt).is_some());
        script.read(Way::Poll, 1.0, 40);
        near(script.factors(WAYS), [1.0, 1.0]);
        for seconds in [20, 40] {
            script.read(Way::Interrupt, 2.0, 1);
            script.read(Way::Poll, 1.0, 10 * seconds - 10);
            assert!(script.anchors.known(Way::Interrupt).is_some());
            script.read(Way::Poll, 1.0, 10);
            assert!(script.anchors.known(Way::Interrupt).is_none());
        }
    }

    #[test]
    fn a_meter_that_goes_on_once_a_second_says_the_same() {
        let mut script = Script::new();
        for number in 0..640 {
            let joules = 1e6 + f64::from(number / 10) * 1.5;
            script.now_ns += 100_000_000;
            let believed = 0.1 * script.anchors.factor(Way::Poll);
            script.anchors.add(Way::Poll, Some(believed));
            script.anchors.end_epoch(100_000_000, script.now_ns, Some(joules));
        }
        near(script.factors([Way::Poll; 2]), [1.5; 2]);
    }

    #[test]
    fn what_two_ways_drew_or_nobody_knows_says_nothing() {
        let mut script = Script::new();
        script.read(Way::Interrupt, 1.0, 2);
        script.pass(Way::Interrupt, 3.0, false);
        script.read(Way::Poll, 3.0, 1);
        near(script.factors(WAYS), [1.0, 1.0]);
        script.anchors.add(Way::Poll, None);
        script.read(Way::Poll, 3.0, 1);
        near(script.factors(WAYS), [1.0, 1.0]);
        // A meter that began anew says nothing once.
        script.joules = 0.0;
        script.read(Way::Poll, 3.0, 1);
        near(script.factors(WAYS), [1.0, 1.0]);
        script.read(Way::Poll, 3.0, 60);
        near(script.factors(WAYS), [3.0_f64.sqrt(), 3.0]);
        // One that is not read teaches nothing.
        let mut script = Script::new();
        (0..9).for_each(|_| script.pass(Way::Poll, 3.0, false));
        near(script.factors(WAYS), [1.0, 1.0]);
    }
}
