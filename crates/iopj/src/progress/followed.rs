//! A run that others can follow: the user's view of it, and metrics, which are renewed between trials only.

use crate::args::PublishArgs;
use crate::metrics::Publisher;
use iopj_analysis::run_so_far::{BegunTrial, CellNames, RunSoFar};
use iopj_core::energy::TrialEnergy;
use iopj_core::watch::WatchPower;
use iopj_metering::Progress;
use iopj_metering::metrics::{MetricsError, Scrapes};
use iopj_record::{Outcome, Trial, Unavailable};
use iopj_report::{Label, run_metrics};
use iopj_study::plan::Cell;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// The view of a run, with whom else it is published to.
pub(crate) struct Followed {
    view: Box<dyn Progress>,
    publisher: Option<Publisher>,
    run: RunSoFar,
    /// Scrapes up to the beginning of the trial at hand, and when that was.
    before: Option<(Scrapes, Instant)>,
    /// Those that came while trials ran, and how long these ran.
    within: (Scrapes, Duration),
    /// It has been said that the file cannot be written.
    has_warned: bool,
}

impl Followed {
    pub(super) fn new(view: Box<dyn Progress>) -> Followed {
        Followed {
            view,
            publisher: None,
            run: RunSoFar::default(),
            before: None,
            within: (Scrapes::default(), Duration::ZERO),
            has_warned: false,
        }
    }

    /// Publishes the run of a study from now on, if the options ask for it.
    pub(crate) fn publish(&mut self, args: &PublishArgs, study: &str) -> Result<(), MetricsError> {
        self.run = RunSoFar { study: study.to_owned(), began_s: now_s(), ..RunSoFar::default() };
        self.publisher = Publisher::new(args, &run_metrics(&self.run), &self.label())?;
        if let Some(says) = self.publisher.as_ref().and_then(Publisher::says) {
            self.view.note(&says);
        }
        Ok(())
    }

    /// Whether a trial has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.run.trial.is_some()
    }

    /// The run has ended, with these trials in its store. A file keeps the last figures.
    pub(crate) fn finish(mut self, trials: &[Trial]) {
        self.run.finish(trials);
        self.renew();
        let (Scrapes { count, cpu }, time) = self.within;
        if count > 0 {
            let (ms, share) = (1e3 * cpu.as_secs_f64(), 100.0 * cpu.div_duration_f64(time));
            self.view.note(&format!(
                "metrics were asked for {count} times while trials ran: {ms:.1} ms of CPU time, {share:.4} % \
                 of a core, which no trial's CPU time includes"
            ));
        }
    }

    fn renew(&mut self) {
        let Some(publisher) = &self.publisher else { return };
        if let Err(error) = publisher.set(run_metrics(&self.run), &self.label())
            && !std::mem::replace(&mut self.has_warned, true)
        {
            self.view.note(&format!("warning: {error}"));
        }
    }

    /// What tells the metrics of runs apart.
    fn label(&self) -> Label {
        ("study", self.run.study.clone())
    }

    fn scrapes(&self) -> Scrapes {
        self.publisher.as_ref().map(Publisher::scrapes).unwrap_or_default()
    }
}

/// However a run ends, who reads its last figures sees that it has ended.
impl Drop for Followed {
    fn drop(&mut self) {
        if !self.run.has_ended {
            self.run.finish(&[]);
            self.renew();
        }
    }
}

impl Progress for Followed {
    fn note(&mut self, text: &str) {
        self.view.note(text);
    }

    fn unavailable(&mut self, paths: &[Unavailable]) {
        self.view.unavailable(paths);
    }

    fn file(&mut self, path: &Path, done: u64, size: u64) {
        self.view.file(path, done, size);
    }

    fn trial(&mut self, number: u64, of: u64, cell: &Cell, left: Option<Duration>) {
        let begun = BegunTrial { number, cell: names(cell), at_s: now_s() };
        self.run.begin(begun, of, left.map(|left| left.as_secs_f64()));
        self.renew();
        self.view.trial(number, of, cell, left);
        self.before = Some((self.scrapes(), Instant::now()));
    }

    fn ended(&mut self, outcome: &Outcome) {
        if let Some((before, began)) = self.before.take() {
            let (now, (within, time)) = (self.scrapes(), &mut self.within);
            within.count += now.count - before.count;
            within.cpu += now.cpu.saturating_sub(before.cpu);
            *time += began.elapsed();
        }
        self.run.end(outcome, now_s());
        self.renew();
        self.view.ended(outcome);
    }

    fn tick(&mut self) {
        self.view.tick();
    }

    fn follows_meters(&self) -> bool {
        self.publisher.is_some()
    }

    fn energy(&mut self, cell: &Cell, ios: u64, energy: &[TrialEnergy]) {
        self.run.energy(&names(cell), ios, energy);
    }

    fn power(&mut self, power: &[WatchPower]) {
        self.run.power = power.to_vec();
        self.renew();
    }
}

fn names(cell: &Cell) -> CellNames {
    CellNames::new(cell.path, &cell.workload, cell.generator, &cell.settings_by_name())
}

fn now_s() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::events::Events;
    use super::*;

    /// What ended by an error between its last trial and its report went on for ever for who reads the file.
    #[test]
    fn a_run_that_does_not_get_to_its_report_has_ended_in_its_file_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.prom");
        let active = || {
            let text = std::fs::read_to_string(&file).unwrap();
            text.lines()
                .find_map(|line| line.strip_prefix("iopj_run_active{study=\"s\"} ")?.parse::<u8>().ok())
        };
        let mut run = Followed::new(Box::new(Events::default()));
        run.publish(&PublishArgs { listen: None, metrics: Some(file.clone()) }, "s").unwrap();
        assert_eq!(active(), Some(1));
        drop(run);
        assert_eq!(active(), Some(0));
    }
}
