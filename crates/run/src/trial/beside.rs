//! The co-runner of a trial: it runs alone first, then beside the ramp and the window, and ends with the
//! trial.

use super::window::Window;
use iopj_core::{Corunner, Evidence, Workload};
use iopj_load::corunner::{self, CorunnerError, Done, Reading, Running};
use iopj_meter::monotonic_raw_ns;
use iopj_record::CorunnerWindow;
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

/// What works beside a trial's I/O; nothing, for most.
pub(super) struct Beside(Option<Beginning>);

struct Beginning {
    corunner: Corunner,
    running: Running,
    /// When it began to work: `CLOCK_MONOTONIC_RAW`.
    began_raw_ns: u64,
    alone: Done,
    /// The window's begin and end.
    marks: RefCell<Vec<Reading>>,
}

impl Beside {
    /// Starts the co-runner of a workload, if it has one, and measures its own rate. It is measured before
    /// each trial, so the trial's frequencies and settings hold for both.
    ///
    /// # Errors
    /// It cannot start.
    pub(super) fn start(workload: &Workload, stop: &AtomicBool) -> Result<Beside, CorunnerError> {
        let Some(corunner) = workload.corunner.clone() else { return Ok(Beside(None)) };
        let cpus = corunner::processors(&corunner, &workload.cpus_allowed);
        let began_raw_ns = monotonic_raw_ns();
        let running = corunner::start(&corunner, &cpus)?;
        let alone = running.alone(stop);
        Ok(Beside(Some(Beginning { corunner, running, began_raw_ns, alone, marks: RefCell::default() })))
    }

    /// Marks an end of the window.
    pub(super) fn mark(&self) {
        if let Some(Beginning { running, marks, .. }) = &self.0 {
            marks.borrow_mut().push(running.reading());
        }
    }

    /// Marks the window's ends by whether jobs run that are watched from outside.
    pub(super) fn follow(&self, is_running: bool) {
        let marked = self.0.as_ref().map_or(0, |beginning| beginning.marks.borrow().len());
        if marked == usize::from(!is_running) {
            self.mark();
        }
    }

    /// Ends the co-runner, and adds what it did.
    pub(super) fn put_into(self, window: Window, evidence: Evidence) -> (Window, Evidence) {
        let Some(Beginning { corunner, running, began_raw_ns, alone, marks }) = self.0 else {
            return (window, evidence);
        };
        // It was at work from its start on, through all ramps and passes.
        let load_raw_ns = vec![began_raw_ns, window.window_raw_ns[1]];
        let marks = marks.into_inner();
        let done = match &marks[..] {
            [first, last] => first.until(last),
            _ => return (Window { load_raw_ns, ..window }, evidence),
        };
        let did = CorunnerWindow {
            kind: corunner.kind,
            cpus: running.cpus().to_vec(),
            nice: corunner.nice,
            over_ns: done.over_ns,
            rounds: done.rounds,
            cpu_ns: done.cpu_ns,
            alone_over_ns: alone.over_ns,
            alone_rounds: alone.rounds,
            alone_cpu_ns: alone.cpu_ns,
        };
        let evidence = Evidence { corunner_ns: Some(done.cpu_ns), ..evidence };
        (Window { corunner: Some(did), load_raw_ns, ..window }, evidence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::CorunnerKind;
    use iopj_metering::energy::own_threads;

    #[test]
    fn its_threads_are_the_runs_own_until_it_ends() {
        let nothing = Beside::start(&Workload::default(), &AtomicBool::new(false)).unwrap();
        assert!(nothing.0.is_none());
        let corunner = Some(Corunner::of(CorunnerKind::Spin));
        let workload = Workload { corunner, ..Workload::default() };
        let beside = Beside::start(&workload, &AtomicBool::new(true)).unwrap();
        let threads = beside.0.as_ref().unwrap().running.cpus().len();
        // Meters of other tests may come and go.
        assert!(own_threads().len() > threads);
        // Jobs that are watched from outside begin once and end once.
        for is_running in [false, true, true, false, false] {
            beside.follow(is_running);
        }
        assert_eq!(beside.0.as_ref().unwrap().marks.borrow().len(), 2);
    }
}
