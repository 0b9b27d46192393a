//! How long trials take: estimated from their workloads and from earlier trials.

use crate::precondition;
use crate::trial::PROOF;
use iopj_core::{Length, Workload};
use iopj_load::corunner;
use iopj_metering::energy::{Schedule, positions};
use iopj_study::plan::{self, Cell, Planned, window};
use iopj_study::{SteadyStateKeys, Study, StudyError};
use std::collections::BTreeMap;
use std::time::Duration;

/// The assumed length of an I/O, where a window ends after a number of I/Os.
const IO: Duration = Duration::from_micros(100);

/// What a trial takes beside its ramp and its window: engines and buffers, the pass, the counters, the store.
const SET_UP: Duration = Duration::from_millis(350);

/// How long a run takes, by what it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// The ramps, where each is as short as it may be.
    pub ramps: Duration,
    /// The measured windows.
    pub windows: Duration,
    /// What the trials take beside them.
    pub set_up: Duration,
    /// Idle stretches, with the time for power to be flat.
    pub idle: Duration,
    /// Load patterns.
    pub patterns: Duration,
}

impl RunTime {
    /// All of it.
    pub fn all(&self) -> Duration {
        self.ramps + self.windows + self.set_up + self.idle + self.patterns
    }

    /// The time of a trial of this workload, as far as it is known before it was measured.
    fn of_trial(workload: &Workload, rule: &SteadyStateKeys) -> RunTime {
        let windows = match workload.length {
            Length::Runtime(time) => time,
            // How long a trace lasts is in the trace.
            Length::WHOLE_TRACE => Duration::ZERO,
            Length::Ios(ios) => IO.saturating_mul(u32::try_from(ios).unwrap_or(u32::MAX)),
        };
        let ramps = rule.rule(workload.ramp_time).map_or(workload.ramp_time, |rule| rule.ramp[0]);
        let beside = workload.corunner.as_ref().map_or(Duration::ZERO, |_| corunner::BEFORE);
        // Of several kinds of jobs, each does I/O alone first.
        let alone = match workload.beside.len() {
            0 => Duration::ZERO,
            beside => (SET_UP + PROOF).saturating_mul(1 + beside as u32),
        };
        RunTime { ramps, windows, set_up: SET_UP + beside + alone, ..RunTime::default() }
    }

    /// The time of a study with the fewest and with the most blocks: of its trials in their order, and of the
    /// rests and patterns around them.
    ///
    /// # Errors
    /// Its keys about steady states cannot be read.
    pub(crate) fn of_study(
        study: &Study,
        cells: &[Cell],
        schedule: Option<&Schedule>,
    ) -> Result<[RunTime; 2], StudyError> {
        let (rule, classes) = (study.steadystate()?, precondition::classes(study, cells));
        let of_cell: Vec<RunTime> =
            cells.iter().map(|cell| RunTime::of_trial(&cell.workload, &rule)).collect();
        let of_blocks = |blocks: u32| {
            let order = plan::order(&classes, blocks, study.seed.unwrap_or_default());
            let times = || order.iter().map(|planned| of_cell[planned.cell]);
            let trials = positions(&order, &classes).into_iter().zip(times().map(|time| time.all()));
            let aside = schedule.map(|schedule| schedule.of_run(trials)).unwrap_or_default();
            RunTime {
                ramps: times().map(|time| time.ramps).sum(),
                windows: times().map(|time| time.windows).sum(),
                set_up: times().map(|time| time.set_up).sum(),
                idle: aside.idle,
                patterns: aside.patterns,
            }
        };
        Ok([study.replicates.fewest(), study.replicates.most()].map(of_blocks))
    }
}

/// The windows and ramps of the fewest trials that a study can have, one after the other.
pub(crate) fn span(cells: &[Cell], study: &Study) -> Duration {
    let of_cell = |cell: &Cell| {
        let time = RunTime::of_trial(&cell.workload, &SteadyStateKeys::off());
        time.ramps + time.windows
    };
    cells.iter().map(of_cell).sum::<Duration>().saturating_mul(study.replicates.fewest())
}

/// The time that the trials of a run took so far.
pub(crate) struct Pace {
    rule: SteadyStateKeys,
    /// The latest trial of each cell.
    took: BTreeMap<usize, Duration>,
    longest: Duration,
    /// What all of them took, and what was expected before.
    all: Duration,
    expected: Duration,
}

impl Pace {
    /// For a run that begins now, whose ramps have this rule.
    pub(crate) fn new(rule: &SteadyStateKeys) -> Pace {
        let [longest, all, expected] = [Duration::ZERO; 3];
        Pace { rule: *rule, took: BTreeMap::new(), longest, all, expected }
    }

    /// Keeps the time that a trial of a cell took.
    pub(crate) fn keep(&mut self, number: usize, cell: &Cell, took: Duration) {
        self.took.insert(number, took);
        self.longest = self.longest.max(took);
        self.all += took;
        self.expected += RunTime::of_trial(&cell.workload, &self.rule).all();
    }

    /// An upper estimate for the next trial of a cell: one and a half times its latest trial. Before its
    /// first trial, the window after the longest ramp that the rule allows, or, where the window ends after a
    /// number of I/Os, the longest trial so far.
    pub(crate) fn next(&self, number: usize, cell: &Cell) -> Duration {
        let ramp = self.rule.longest_ramp(cell.workload.ramp_time);
        let most = window(&cell.workload).map(|least| least - cell.workload.ramp_time + ramp);
        match (self.took.get(&number).copied(), most) {
            (Some(took), most) => (took + took / 2).min(most.unwrap_or(Duration::MAX).max(took)),
            (None, Some(most)) => most,
            (None, None) => self.longest.max(ramp),
        }
    }

    /// The time of each of the trials that are left: as long as the latest of its cell, or as expected,
    /// corrected by what the trials so far took. `None` if nothing is known, because a number of I/Os ends
    /// the windows.
    pub(crate) fn left(&self, cells: &[Cell], left: &[Planned]) -> Option<Vec<Duration>> {
        let ratio = if self.expected.is_zero() { 1.0 } else { self.all.div_duration_f64(self.expected) };
        let is_known = |planned: &Planned| window(&cells[planned.cell].workload).is_some();
        if self.took.is_empty() && !left.iter().all(is_known) {
            return None;
        }
        let of = |planned: &Planned| match self.took.get(&planned.cell) {
            Some(took) => *took,
            None => RunTime::of_trial(&cells[planned.cell].workload, &self.rule).all().mul_f64(ratio),
        };
        Some(left.iter().map(of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut pace = Pace::new(&rule);
        assert_eq!(pace.next(0, &cells[0]), minutes(25));
        assert_eq!(Pace::new(&SteadyStateKeys::off()).next(0, &cells[0]), minutes(7));
        // What it took beside its ramp and window counts too, if that was more.
        pace.keep(0, &cells[0], minutes(26));
        assert_eq!(pace.next(0, &cells[0]), minutes(26));
        assert_eq!(span(&cells, &study), minutes(21));
    }

    /// A cell whose ramp was short each time was still taken to have the longest one, so that the machine
    /// rested before each trial.
    #[test]
    fn a_cell_that_was_measured_takes_what_it_took_and_half_as_much_again() {
        let (study, cells) = study("ramp_time = \"2m\"\nruntime = \"6m\"");
        let rule = study.steadystate().unwrap();
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let mut pace = Pace::new(&rule);
        pace.keep(0, &cells[0], minutes(8));
        assert_eq!(pace.next(0, &cells[0]), minutes(12));
        // A ramp that no rule makes longer leaves nothing to add.
        let pace = Pace { rule: SteadyStateKeys::off(), ..pace };
        assert_eq!(pace.next(0, &cells[0]), minutes(8));
    }

    /// All trials were expected to take the mean of those so far.
    #[test]
    fn the_time_that_is_left_is_each_cells_own() {
        let (study, cells) = study("runtime = \"10s\"\n[[workload]]\nruntime = \"100s\"");
        let left = |pace: &Pace, order: &[usize]| -> Vec<f64> {
            let planned = |cell: &usize| Planned { cell: *cell, replicate: 0, position: 0 };
            let left: Vec<Planned> = order.iter().map(planned).collect();
            pace.left(&cells, &left).unwrap().iter().map(Duration::as_secs_f64).collect()
        };
        let mut pace = Pace::new(&study.steadystate().unwrap());
        assert_eq!(left(&pace, &[0, 1]), [10.35, 100.35]);
        pace.keep(0, &cells[0], Duration::from_secs_f64(2.0 * 10.35));
        assert_eq!(left(&pace, &[0, 1]), [20.7, 200.7]);
        pace.keep(1, &cells[1], Duration::from_secs(101));
        assert_eq!(left(&pace, &[0, 1, 1]), [20.7, 101.0, 101.0]);
    }

    /// They counted as no time at all.
    #[test]
    fn trials_of_so_many_ios_take_what_the_last_one_took() {
        let (study, cells) = study("ios = 1000\niodepth = [1, 32]");
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(&SteadyStateKeys::off());
        assert_eq!(pace.next(0, &cells[0]), seconds(0));
        let first = Planned { cell: 0, replicate: 0, position: 0 };
        assert_eq!(pace.left(&cells, &[first]), None);
        assert_eq!(span(&cells, &study), Duration::from_millis(600));
        pace.keep(0, &cells[0], seconds(700));
        // Of the other cell nothing is known but that.
        assert_eq!([0, 1].map(|cell| pace.next(cell, &cells[cell])), [seconds(1050), seconds(700)]);
        pace.keep(1, &cells[1], seconds(6));
        assert_eq!([0, 1].map(|cell| pace.next(cell, &cells[cell])), [1050, 9].map(seconds));
    }

    /// The studies of two hosts say how long they take.
    #[test]
    fn the_sweeps_over_fabrics_take_two_hours_or_a_night() {
        let of = |name: &str| {
            let path = format!("{}/../../studies/{name}.toml", env!("CARGO_MANIFEST_DIR"));
            let study = Study::parse(&std::fs::read_to_string(path).unwrap(), name).unwrap();
            let cells = plan::cells(&study, &[]).unwrap().0;
            let [time, _] = RunTime::of_study(&study, &cells, None).unwrap();
            (cells.len(), (time.all().as_secs_f64() / 60.0).round())
        };
        let day = ["fabric", "fabric-depth", "fabric-writes"].map(of);
        assert_eq!(day, [(24, 37.0), (24, 37.0), (12, 18.0)]);
        let night = ["fabric-overnight", "fabric-depth-overnight", "fabric-writes-overnight"].map(of);
        assert_eq!(night, [(88, 296.0), (64, 215.0), (24, 81.0)]);
    }
}
