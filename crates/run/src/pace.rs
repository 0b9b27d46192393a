//! How long trials take: estimated from their workloads and from earlier trials.

use iopj_core::{Length, Workload};
use iopj_study::SteadyStateKeys;
use iopj_study::Study;
use iopj_study::plan::{Cell, Planned, window};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The assumed length of an I/O, where a window ends after a number of I/Os.
const IO: Duration = Duration::from_micros(100);

/// The windows and ramps of the fewest trials that a study can have, one after the other.
pub(crate) fn span(cells: &[Cell], study: &Study) -> Duration {
    let time = |Workload { length, ramp_time, .. }: &Workload| match length {
        Length::Runtime(time) => *time + *ramp_time,
        Length::Ios(ios) => IO.saturating_mul(u32::try_from(*ios).unwrap_or(u32::MAX)) + *ramp_time,
    };
    let block: Duration = cells.iter().map(|cell| time(&cell.workload)).sum();
    block.saturating_mul(study.replicates.fewest())
}

/// The time that the trials of a run took so far.
pub(crate) struct Pace {
    began: Instant,
    /// The latest trial of each cell.
    took: BTreeMap<usize, Duration>,
    longest: Duration,
    /// Time that was spent on no trial.
    aside: Duration,
}

impl Pace {
    /// For a run that begins now.
    pub(crate) fn new() -> Pace {
        Pace { began: Instant::now(), took: BTreeMap::new(), longest: Duration::ZERO, aside: Duration::ZERO }
    }

    /// Keeps the time that a trial of a cell took.
    pub(crate) fn keep(&mut self, cell: usize, took: Duration) {
        self.took.insert(cell, took);
        self.longest = self.longest.max(took);
    }

    /// Leaves a long step that does not come before every trial out of the mean.
    pub(crate) fn leave_out(&mut self, took: Duration) {
        self.aside += took;
    }

    /// An upper estimate for the next trial of a cell: one and a half times its latest trial. Before its
    /// first trial, the window after the longest ramp that the rule allows, or, where the window ends after a
    /// number of I/Os, the longest trial so far.
    pub(crate) fn next(&self, (number, cell): (usize, &Cell), rule: &SteadyStateKeys) -> Duration {
        let ramp = rule.longest_ramp(cell.workload.ramp_time);
        let most = window(&cell.workload).map(|least| least - cell.workload.ramp_time + ramp);
        match (self.took.get(&number).copied(), most) {
            (Some(took), most) => (took + took / 2).min(most.unwrap_or(Duration::MAX).max(took)),
            (None, Some(most)) => most,
            (None, None) => self.longest.max(ramp),
        }
    }

    /// The time for the trials left after `done`, and for nothing else: from the mean so far, or from the
    /// workloads.
    pub(crate) fn left(&self, cells: &[Cell], left: &[Planned], done: usize) -> Option<Duration> {
        if done > 0 {
            let so_far = self.began.elapsed().saturating_sub(self.aside);
            return Some(so_far.mul_f64(left.len() as f64 / done as f64));
        }
        left.iter().map(|planned| window(&cells[planned.cell].workload)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_study::plan;

    fn study(workload: &str) -> (Study, Vec<Cell>) {
        let text = format!(
            "name = \"t\"\npaths = \"libaio/syscall/interrupt\"\nreplicates = 3\n{}[[workload]]\n{workload}",
            "steadystate = \"iops_slope:2%\"\n"
        );
        let study = Study::parse(&text, "t").unwrap();
        let cells = plan::cells(&study, &[]).unwrap().0;
        (study, cells)
    }

    /// The plain ramp was counted, and the rule may make it ten times as long.
    #[test]
    fn the_next_trial_may_have_the_longest_ramp_that_the_rule_allows() {
        let (study, cells) = study("ramp_time = \"2m\"\nruntime = \"5m\"");
        let rule = study.steadystate().unwrap();
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut pace = Pace::new();
        assert_eq!(pace.next((0, &cells[0]), &rule), minutes(25));
        assert_eq!(pace.next((0, &cells[0]), &SteadyStateKeys::off()), minutes(7));
        // What it took beside its ramp and window counts too, if that was more.
        pace.keep(0, minutes(26));
        assert_eq!(pace.next((0, &cells[0]), &rule), minutes(26));
        assert_eq!(span(&cells, &study), minutes(21));
    }

    /// A cell whose ramp was short each time was still taken to have the longest one, so that the machine
    /// rested before each trial.
    #[test]
    fn a_cell_that_was_measured_takes_what_it_took_and_half_as_much_again() {
        let (study, cells) = study("ramp_time = \"2m\"\nruntime = \"6m\"");
        let rule = study.steadystate().unwrap();
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut pace = Pace::new();
        pace.keep(0, minutes(8));
        assert_eq!(pace.next((0, &cells[0]), &rule), minutes(12));
        // A ramp that no rule makes longer leaves nothing to add.
        assert_eq!(pace.next((0, &cells[0]), &SteadyStateKeys::off()), minutes(8));
    }

    #[test]
    fn what_was_no_trial_is_left_out_of_the_time_that_is_left() {
        let (_, cells) = study("ramp_time = \"2m\"\nruntime = \"5m\"");
        let planned = Planned { cell: 0, replicate: 0, position: 0 };
        let hour = Duration::from_secs(3600);
        let mut pace = Pace { began: Instant::now() - hour, ..Pace::new() };
        let left = |pace: &Pace| pace.left(&cells, &[planned; 2], 1).unwrap();
        assert!(left(&pace) >= 2 * hour);
        pace.leave_out(hour / 2);
        assert!((hour..2 * hour).contains(&left(&pace)));
    }

    /// They counted as no time at all.
    #[test]
    fn trials_of_so_many_ios_take_what_the_last_one_took() {
        let (study, cells) = study("ios = 1000\niodepth = [1, 32]");
        let rule = SteadyStateKeys::off();
        let seconds = Duration::from_secs;
        let mut pace = Pace::new();
        assert_eq!(pace.next((0, &cells[0]), &rule), seconds(0));
        assert_eq!(span(&cells, &study), Duration::from_millis(600));
        pace.keep(0, seconds(700));
        // Of the other cell nothing is known but that.
        assert_eq!([0, 1].map(|cell| pace.next((cell, &cells[cell]), &rule)), [seconds(1050), seconds(700)]);
        pace.keep(1, seconds(6));
        assert_eq!([0, 1].map(|cell| pace.next((cell, &cells[cell]), &rule)), [1050, 9].map(seconds));
    }
}
