//! How long trials take: by what their workloads say, and by what the trials before them took.

use crate::plan::{Cell, Planned, window};
use crate::steadystate::Declared;
use crate::study::Study;
use iopj_core::{Length, Workload};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What an I/O is taken to last where a window is counted in them.
const IO: Duration = Duration::from_micros(100);

/// The windows and ramps of all trials that a study has at the least, one after the other.
pub(crate) fn span(cells: &[Cell], study: &Study) -> Duration {
    let time = |Workload { length, ramp_time, .. }: &Workload| match length {
        Length::Runtime(time) => *time + *ramp_time,
        Length::Ios(ios) => IO.saturating_mul(u32::try_from(*ios).unwrap_or(u32::MAX)) + *ramp_time,
    };
    let block: Duration = cells.iter().map(|cell| time(&cell.workload)).sum();
    block.saturating_mul(study.replicates.fewest())
}

/// What the trials of a run have taken so far.
pub(crate) struct Pace {
    began: Instant,
    /// The last one of each cell.
    took: BTreeMap<usize, Duration>,
    longest: Duration,
}

impl Pace {
    /// That of a run which begins now.
    pub(crate) fn new() -> Pace {
        Pace { began: Instant::now(), took: BTreeMap::new(), longest: Duration::ZERO }
    }

    /// Keeps what a trial of a cell took.
    pub(crate) fn keep(&mut self, cell: usize, took: Duration) {
        self.took.insert(cell, took);
        self.longest = self.longest.max(took);
    }

    /// The longest that the next trial of a cell may take as far as can be told: its window after the longest ramp that the rule allows, or
    /// what the last one took if that was more. Where the window ends after so many I/Os and the cell was never measured, it is what the
    /// longest trial so far took.
    pub(crate) fn next(&self, (number, cell): (usize, &Cell), rule: &Declared) -> Duration {
        let ramp = rule.longest_ramp(cell.workload.ramp_time);
        let took = self.took.get(&number).copied();
        match window(&cell.workload) {
            Some(least) => (least - cell.workload.ramp_time + ramp).max(took.unwrap_or_default()),
            None => took.unwrap_or(self.longest).max(ramp),
        }
    }

    /// The time for the trials that are left after `done`: by the mean of those so far, or by what the workloads say.
    pub(crate) fn left(&self, cells: &[Cell], left: &[Planned], done: usize) -> Option<Duration> {
        if done > 0 {
            return Some(self.began.elapsed().mul_f64(left.len() as f64 / done as f64));
        }
        left.iter().map(|planned| window(&cells[planned.cell].workload)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;

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
        let rule = Declared::of(&study).unwrap();
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut pace = Pace::new();
        assert_eq!(pace.next((0, &cells[0]), &rule), minutes(25));
        assert_eq!(pace.next((0, &cells[0]), &Declared::off()), minutes(7));
        // What it took beside its ramp and window counts too, if that was more.
        pace.keep(0, minutes(26));
        assert_eq!(pace.next((0, &cells[0]), &rule), minutes(26));
        assert_eq!(span(&cells, &study), minutes(21));
    }

    /// They counted as no time at all.
    #[test]
    fn trials_of_so_many_ios_take_what_the_last_one_took() {
        let (study, cells) = study("ios = 1000\niodepth = [1, 32]");
        let rule = Declared::off();
        let seconds = Duration::from_secs;
        let mut pace = Pace::new();
        assert_eq!(pace.next((0, &cells[0]), &rule), seconds(0));
        assert_eq!(span(&cells, &study), Duration::from_millis(600));
        pace.keep(0, seconds(700));
        // Of the other cell nothing is known but that.
        assert_eq!([0, 1].map(|cell| pace.next((cell, &cells[cell]), &rule)), [seconds(700); 2]);
        pace.keep(1, seconds(5));
        assert_eq!([0, 1].map(|cell| pace.next((cell, &cells[cell]), &rule)), [700, 5].map(seconds));
    }
}
