//! When a run rests and plays its load pattern: decided before each trial, and foreseen for trials to come.

use super::rest::RestTimes;
use super::settle;
use iopj_meter::Pattern;
use iopj_study::plan::Planned;
use iopj_study::{Study, StudyError};
use std::time::Duration;

/// Readings of an idle stretch, and its least length.
const IDLE_READINGS: u32 = 10;
const SHORTEST_IDLE: Duration = Duration::from_secs(2);
/// Time for the machine to settle before an idle stretch begins.
const SETTLE: Duration = Duration::from_millis(500);
/// The longest wait for a machine to settle, in stretches over which power is to be flat. Noise may need
/// four.
const STRETCHES_TO_SETTLE: u32 = 6;
/// The upper bound of that wait: a study has three rests or more.
const LONGEST_TO_SETTLE: Duration = Duration::from_secs(10 * 60);
/// The trials take at least this many times as long as the wait, so a short study stays short.
const TRIALS_TO_SETTLE: u32 = 6;
/// Within a block too, idle stretches and load patterns are no farther apart.
pub(super) const EVERY: Duration = Duration::from_secs(30 * 60);

/// Between two idle stretches the trials get at least this many times the time that the last one took.
const TRIALS_TO_IDLE: u32 = 4;

/// The longest wait for power to be flat, if the study names none: a share of the time of its trials, and
/// enough to see it. It is never longer than the trials.
fn settle_limit(span: Duration, slowest: Duration) -> Duration {
    let share = (span / TRIALS_TO_SETTLE).max(settle::sees(slowest)).min(span);
    (settle::stretch(slowest) * STRETCHES_TO_SETTLE).min(LONGEST_TO_SETTLE).min(share)
}

/// How long the machine is left alone for meters of which the slowest has this interval.
fn idle(study: &Study, span: Duration, slowest: Duration) -> Result<RestTimes, StudyError> {
    Ok(RestTimes {
        settle: SETTLE.max(slowest),
        settle_limit: study.settle_limit()?.unwrap_or_else(|| settle_limit(span, slowest)),
        look_every: settle::stretch(slowest) / settle::LOOKS,
        length: study.idle()?.unwrap_or((slowest * IDLE_READINGS).max(SHORTEST_IDLE)),
    })
}

/// Where in the order of trials one is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GroupPosition {
    /// It is the first of a block or of a class of workloads.
    First {
        /// An idle stretch is wanted here in any case.
        is_due: bool,
    },
    /// It follows another one of its block and class.
    Within,
}

/// The positions of trials in their order. An idle stretch is due when the middle block begins, so a study of
/// two blocks or more has three. `classes` holds the class of each cell.
pub fn positions(trials: &[Planned], classes: &[usize]) -> Vec<GroupPosition> {
    let changes = |number: usize, of: &dyn Fn(&Planned) -> usize| {
        number > 0 && of(&trials[number]) != of(&trials[number - 1])
    };
    let begins = |number: usize| changes(number, &|planned| planned.replicate as usize);
    let blocks = (0..trials.len()).filter(|at| begins(*at)).count();
    let mut before = 0;
    let position = |number: usize| {
        if begins(number) {
            before += 1;
            return GroupPosition::First { is_due: before - 1 == blocks / 2 };
        }
        // Before the first trial, and before the first one of each class, the target may have been written
        // for hours.
        if number == 0 || changes(number, &|planned| classes[planned.cell]) {
            return GroupPosition::First { is_due: false };
        }
        GroupPosition::Within
    };
    (0..trials.len()).map(position).collect()
}

/// How a run rests and plays its load pattern.
pub struct Schedule {
    /// How long the stretches of rest are.
    pub idle: RestTimes,
    /// Within a block too, idle stretches and load patterns are no farther apart.
    pub every: Duration,
    /// The load pattern to play, where a meter has a clock of its own or a log is to be attached.
    pub pattern: Option<Pattern>,
    /// Whether idle stretches are needed; an estimate needs none.
    pub rests: bool,
    /// What it takes to see whether power is flat; nothing if no meter reads along.
    pub sees: Duration,
}

/// How long ago something happened, and what the last rest took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past {
    pub rested: Duration,
    pub rest_took: Duration,
    pub played: Duration,
}

/// What is due before a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    pub play: bool,
    pub rest: bool,
}

/// The time of idle stretches and of load patterns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aside {
    pub idle: Duration,
    pub patterns: Duration,
}

impl Schedule {
    /// Of a run of `span`: for meters that are read, of which the slowest has this interval, and for the
    /// slowest that has a clock of its own.
    ///
    /// # Errors
    /// A time of the study cannot be read.
    pub fn new(
        study: &Study,
        span: Duration,
        read: Option<Duration>,
        own_clock: Option<Duration>,
    ) -> Result<Schedule, StudyError> {
        let slowest = read.max(own_clock).unwrap_or_default();
        Ok(Schedule {
            idle: idle(study, span, slowest)?,
            every: EVERY,
            pattern: own_clock.map(|interval| Pattern::design(interval.as_nanos() as u64)),
            rests: read.is_some() || own_clock.is_some(),
            sees: read.map_or(Duration::ZERO, |_| settle::sees(slowest)),
        })
    }

    /// What is due before a trial that takes at most `next`. Where a block or class begins, the machine rests
    /// if it is time for that or if it is due there. Anywhere, it rests and plays the load pattern if the
    /// last ones would be too long ago when the trial ends.
    pub fn due(&self, position: GroupPosition, next: Duration, past: Past) -> Due {
        let late = |since: Duration| since + next > self.every;
        let is_time = past.rested >= self.idle.length.max(past.rest_took) * TRIALS_TO_IDLE;
        let begins = match position {
            GroupPosition::Within => false,
            GroupPosition::First { is_due } => is_due || is_time,
        };
        Due { play: late(past.played), rest: begins || late(past.rested) }
    }

    /// What rests and patterns take before the first of a run's trials, each with the time that it takes,
    /// between them, and after the last.
    pub fn of_run(&self, trials: impl Iterator<Item = (GroupPosition, Duration)>) -> Aside {
        let (rest, pattern) = (self.rest_time(Duration::ZERO), self.pattern_time());
        let begun = self.left(trials, Past { rest_took: rest, ..Past::default() });
        Aside { idle: begun.idle + rest, patterns: begun.patterns + pattern }
    }

    /// The same between the trials that are left and after the last.
    pub fn left(&self, trials: impl Iterator<Item = (GroupPosition, Duration)>, mut past: Past) -> Aside {
        let (rest, pattern) = (self.rest_time(past.rest_took), self.pattern_time());
        let mut aside = Aside { idle: rest, patterns: pattern };
        for (position, takes) in trials {
            let due = self.due(position, takes, past);
            if due.play {
                (aside.patterns, past.played) = (aside.patterns + pattern, Duration::ZERO);
            }
            if due.rest {
                (aside.idle, past.rested) = (aside.idle + rest, Duration::ZERO);
                past.played += rest;
            }
            (past.rested, past.played) = (past.rested + takes, past.played + takes);
        }
        aside
    }

    /// What a rest takes: as long as the last one, or until it can be seen that power is flat.
    fn rest_time(&self, last: Duration) -> Duration {
        match (self.rests, last) {
            (false, _) => Duration::ZERO,
            (true, Duration::ZERO) => {
                let settles = self.idle.settle.max(self.sees.min(self.idle.settle_limit));
                settles + self.idle.length
            }
            (true, last) => last,
        }
    }

    fn pattern_time(&self) -> Duration {
        let ns = self.pattern.as_ref().map_or(0, |pattern| pattern.end_ns() - pattern.begin_ns());
        Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Vec<Planned> {
        let planned = |(number, (cell, replicate)): (usize, (usize, u32))| Planned {
            cell,
            replicate,
            position: number as u64,
        };
        [(0, 0), (1, 0), (2, 0), (2, 1), (0, 1), (1, 1)].into_iter().enumerate().map(planned).collect()
    }

    #[test]
    fn a_trial_begins_a_block_a_class_or_nothing() {
        let [first, due] = [false, true].map(|is_due| GroupPosition::First { is_due });
        let within = GroupPosition::Within;
        assert_eq!(positions(&order(), &[0, 0, 0]), [first, within, within, due, within, within]);
        // The target is written before the first one of each class.
        assert_eq!(positions(&order(), &[0, 0, 4]), [first, within, first, due, first, within]);
    }

    /// The time that was left did not count them.
    #[test]
    fn idle_stretches_and_patterns_to_come_are_foreseen() {
        let seconds = Duration::from_secs;
        let schedule = |every: Duration| Schedule {
            idle: RestTimes {
                settle: seconds(1),
                settle_limit: seconds(60),
                look_every: seconds(1),
                length: seconds(2),
            },
            every,
            pattern: Some(Pattern::played(0, &[1_000_000_000, 2_000_000_000], 7_000_000_000).unwrap()),
            rests: true,
            sees: seconds(10),
        };
        let trials = || positions(&order(), &[0; 3]).into_iter().map(|position| (position, seconds(5)));
        // Before, in the middle and after; the pattern before and after.
        let aside = Aside { idle: 3 * seconds(12), patterns: 2 * seconds(7) };
        assert_eq!(schedule(seconds(1800)).of_run(trials()), aside);
        // Within a block too, once the last ones are too long ago; rests that took long are expected to
        // again.
        let past = Past { rest_took: seconds(20), ..Past::default() };
        let aside = Aside { idle: 4 * seconds(20), patterns: 4 * seconds(7) };
        assert_eq!(schedule(seconds(12)).left(trials(), past), aside);
        let estimate = Schedule { rests: false, pattern: None, ..schedule(seconds(1800)) };
        assert_eq!(estimate.of_run(trials()), Aside::default());
    }
}
