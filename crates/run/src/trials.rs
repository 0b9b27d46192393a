//! The trials of a run, one after the other: settings, measurement, store, and everything put back.

use crate::blocks::{Blocks, Decide};
use crate::control;
use crate::error::{RunError, TrialError};
use crate::fabric::{FabricSide, Far, Measure};
use crate::pace::Pace;
use crate::precondition::{self, Class, Preconditioning, hardest};
use crate::schedule::Schedule;
use crate::target::{Access, Drives};
use crate::trial::{Measured, TrialRunner};
use iopj_core::evidence::ControlRun;
use iopj_core::{AutoPath, CompletionMode, IoPath, Setting, VerdictKind};
use iopj_host::settings::SettingsError;
use iopj_metering::energy::{FarHost, Metering, MeteringContext, recompute};
use iopj_metering::{Progress, unix_ns};
use iopj_record::{Outcome, Trial};
use iopj_store::{Store, StoreError};
use iopj_study::Study;
use iopj_study::plan::{Cell, Planned};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The store.
    pub store: PathBuf,
    /// Trials that failed in this run.
    pub failed: u64,
    /// Trials that are still missing.
    pub missing: u64,
    /// Ctrl-C ended it.
    pub interrupted: bool,
}

/// A run that is set up. Its fields are in the order in which they are dropped.
pub(crate) struct Trials<'a> {
    pub(crate) runner: TrialRunner<'a>,
    pub(crate) study: Study,
    pub(crate) cells: Vec<Cell>,
    pub(crate) store: Store,
    pub(crate) decide: Decide,
    pub(crate) metering: Option<Metering>,
    pub(crate) drives: Drives,
}

impl Trials<'_> {
    /// Measures the missing trials and puts the settings back.
    pub(crate) fn run(mut self, progress: &mut dyn Progress) -> Result<Summary, RunError> {
        if let Some(made) = &mut self.drives.made {
            made.keep = true; // for --resume, until the study is complete
        }
        let mut schedule = self.schedule(progress)?;
        // Before the first write.
        let len = self.drives.access.extent().len;
        if let Some(text) = precondition::announcement(&self.study, &self.cells, schedule.left(), len) {
            progress.note(&text);
        }
        let result = self.measure(&mut schedule, progress);
        let restored: Vec<_> = self.drives.all_mut().map(Access::leave).collect();
        for access in self.drives.all() {
            for warning in access.settings.warnings() {
                progress.note(&format!("warning: {warning}"));
                self.store.add_event(unix_ns(), "lost", warning)?;
            }
        }
        for change in restored.iter().flatten().flatten() {
            self.store.add_event(
                unix_ns(),
                "restored",
                &format!("{}: {} -> {}", change.file.display(), change.from, change.to),
            )?;
        }
        let mut failed: Vec<SettingsError> = restored.into_iter().filter_map(Result::err).collect();
        let last = failed.pop();
        failed.iter().for_each(|error| progress.note(&format!("warning: {error}")));
        let summary = result?;
        last.map_or(Ok(()), Err)?;
        if let Some(made) = &mut self.drives.made {
            made.keep = summary.missing > 0;
        }
        Ok(summary)
    }

    fn schedule(&mut self, progress: &mut dyn Progress) -> Result<Schedule, RunError> {
        let (study, store) = (&self.study, &mut self.store);
        let classes = precondition::classes(study, &self.cells);
        let blocks = Blocks::of(study, &classes, self.runner.seed, self.decide, store)?;
        Schedule::new(blocks, classes, Pace::new(&self.runner.steadystate), store, progress)
    }

    fn measure(&mut self, schedule: &mut Schedule, progress: &mut dyn Progress) -> Result<Summary, RunError> {
        self.drives.access.begin()?;
        self.drives.here.as_mut().map_or(Ok(()), Access::begin)?;
        let control = if schedule.left().is_empty() { None } else { self.control(progress)? };
        let (mut preconditioning, mut failed, mut last_ns) = (Preconditioning::default(), 0, None);
        if self.is_stopped() {
            return Ok(self.summary(schedule, failed));
        }
        let mut metering = self.begin_metering(schedule, progress)?;
        while let Some((planned, place)) = schedule.next() {
            if self.is_stopped() || !self.prepare(&mut preconditioning, planned, progress)? {
                break;
            }
            if let Some(metering) = &mut metering {
                let next = schedule.expected(planned.cell, &self.cells[planned.cell]);
                metering.before_trial(place, next, &mut self.context(progress))?;
                if self.is_stopped() {
                    break; // the rest was cut short
                }
            }
            let (number, of) = schedule.number();
            let left = schedule.time_left(&self.cells, metering.as_ref());
            progress.trial(number, of, &self.cells[planned.cell], left);
            let found = preconditioning.found(Class::of(&self.cells[planned.cell].workload));
            let began = Instant::now();
            let done = self.trial(planned, control, found, &mut last_ns, progress);
            let (trial, load_ns, unprofiled) = self.end_meters_on_error(done, &mut metering, progress)?;
            if self.is_stopped() {
                break; // the trial at hand was cut short
            }
            if trial.outcome.measurement().is_some() {
                schedule.took(planned.cell, &self.cells[planned.cell], began.elapsed());
            }
            if let Some(metering) = &mut metering {
                metering.keep(trial.position, load_ns, &mut self.context(progress))?;
            }
            let outcome = self.keep(trial, unprofiled, progress)?.outcome;
            self.show(planned.cell, &outcome, metering.as_mut(), progress);
            failed += u64::from(outcome.measurement().is_none());
            schedule.advance(&mut self.store, progress)?;
        }
        let summary = self.summary(schedule, failed);
        self.end_metering(metering, summary.interrupted, progress).map(|()| summary)
    }

    fn is_stopped(&self) -> bool {
        self.runner.stop.load(Ordering::Relaxed)
    }

    /// The end of the meters, and the joules of all trials; also of those whose meters had been read by a run
    /// that was killed before it computed them, where nothing is left to measure.
    fn end_metering(
        &mut self,
        metering: Option<Metering>,
        interrupted: bool,
        progress: &mut dyn Progress,
    ) -> Result<(), RunError> {
        if let Some(metering) = metering {
            return Ok(metering.end(interrupted, &mut self.context(progress))?);
        }
        if self.store.has_pending_energy()? {
            recompute(&mut self.store)?.iter().for_each(|note| progress.note(&format!("warning: {note}")));
        }
        Ok(())
    }

    /// How the run stands: so many trials have failed.
    fn summary(&self, schedule: &Schedule, failed: u64) -> Summary {
        let store = self.store.path().to_owned();
        Summary { store, failed, missing: schedule.left().len() as u64, interrupted: self.is_stopped() }
    }

    fn context<'c>(&'c mut self, progress: &'c mut dyn Progress) -> MeteringContext<'c> {
        let far = self.drives.access.side().map(|side| side as &dyn FarHost);
        MeteringContext { store: &mut self.store, progress, stop: self.runner.stop, far }
    }

    /// Keeps the new changes of settings as events.
    fn note_changes(&mut self) -> Result<(), RunError> {
        let of_here = self.drives.here.as_mut().map(Access::new_changes).unwrap_or_default();
        for change in self.drives.access.new_changes().into_iter().chain(of_here) {
            let detail = format!("{}: {} -> {}", change.file, change.old, change.new);
            self.store.add_event(unix_ns(), "set", &detail)?;
        }
        Ok(())
    }

    fn begin_metering(
        &mut self,
        schedule: &Schedule,
        progress: &mut dyn Progress,
    ) -> Result<Option<Metering>, RunError> {
        let mut metering = self.metering.take().filter(|_| !schedule.left().is_empty());
        if let Some(metering) = &mut metering {
            metering.begin(&mut self.context(progress))?;
        }
        Ok(metering)
    }

    /// Adds a trial to the store, as failed if its figures cannot be kept.
    fn keep(
        &mut self,
        trial: Trial,
        unprofiled: Option<String>,
        progress: &mut dyn Progress,
    ) -> Result<Trial, RunError> {
        if let Some(reason) = unprofiled {
            progress.note(&format!("warning: {reason}"));
            self.store.add_event(unix_ns(), "unprofiled", &format!("trial {}: {reason}", trial.position))?;
        }
        match self.store.add(&trial) {
            Err(error @ StoreError::Unkeepable { .. }) => {
                let failed = Trial { outcome: Outcome::Failed(error.to_string()), ..trial };
                self.store.add(&failed)?;
                Ok(failed)
            }
            added => added.map(|()| trial).map_err(RunError::from),
        }
    }

    /// Runs one trial. Returns it, when it loaded the machine, and why it has no profile if one was asked
    /// for. `last_ns` is the end of the previous window, for the gap between the two.
    fn trial(
        &mut self,
        planned: Planned,
        control: Option<ControlRun>,
        preconditioning: Option<String>,
        last_ns: &mut Option<u64>,
        progress: &mut dyn Progress,
    ) -> Result<(Trial, Vec<u64>, Option<String>), RunError> {
        let started_unix_ns = unix_ns();
        let (measured, settings_ns) = self.measured(planned, control, preconditioning, progress);
        let cell = &self.cells[planned.cell];
        let (outcome, gap_ns, load_ns, unprofiled) = match measured {
            Ok(Measured { measurement, clock_ns, load_raw_ns, unprofiled }) => {
                let plain_ns = cell.workload.ramp_time.as_nanos() as u64;
                let ramp_ns = measurement.evidence.steadystate.map_or(plain_ns, |state| state.ramp_ns);
                let before = last_ns.zip(clock_ns);
                let gap_ns =
                    before.map(|(last, [first, _])| first.saturating_sub(last + ramp_ns + settings_ns));
                *last_ns = clock_ns.map(|[_, last]| last);
                (Outcome::Measured(Box::new(measurement)), gap_ns, load_raw_ns, unprofiled)
            }
            Err(error)
                if self.drives.access.side().is_some_and(FabricSide::has_no_agent)
                    && !self.runner.stop.load(Ordering::Relaxed) =>
            {
                return Err(RunError::NoTargetHost(error, self.store.path().to_owned()));
            }
            Err(error) => {
                *last_ns = None;
                (Outcome::Failed(error.to_string()), None, Vec::new(), None)
            }
        };
        let trial = Trial {
            path: cell.path,
            workload: cell.workload.clone(),
            settings: cell.settings_by_name(),
            generator: cell.generator,
            replicate: planned.replicate,
            position: planned.position,
            started_unix_ns,
            gap_ns,
            outcome,
        };
        self.note_changes()?;
        self.drives.access.disconnect()?;
        if let Some(here) = &mut self.drives.here {
            here.settings.restore()?;
        }
        Ok((trial, load_ns, unprofiled))
    }

    /// Shows how a trial of a cell has ended and, to who follows the run, what the meters know by now.
    fn show(
        &self,
        cell: usize,
        outcome: &Outcome,
        metering: Option<&mut Metering>,
        progress: &mut dyn Progress,
    ) {
        progress.ended(outcome);
        let Some(metering) = metering.filter(|_| progress.follows_meters()) else { return };
        // The joules of a refuted trial are not its path's.
        let measured = outcome.measurement();
        if let Some(measured) = measured.filter(|one| one.verdict.kind != VerdictKind::Refuted) {
            metering.wait_for(cell, measured);
        }
        let (power, known) = metering.so_far();
        for (trial, energy) in known {
            progress.energy(&self.cells[trial.cell], trial.ios, &energy);
        }
        progress.power(&power);
    }

    /// What was done. If the run cannot go on, its meters are ended, so that the trials before have their
    /// joules.
    fn end_meters_on_error<T>(
        &mut self,
        done: Result<T, RunError>,
        metering: &mut Option<Metering>,
        progress: &mut dyn Progress,
    ) -> Result<T, RunError> {
        if done.is_err()
            && let Some(metering) = metering.take()
            && let Err(other) = metering.end(true, &mut self.context(progress))
        {
            progress.note(&format!("warning: {other}"));
        }
        done
    }

    /// Measures one trial, here or on the target host, and the time that setting it up took.
    fn measured(
        &mut self,
        planned: Planned,
        control: Option<ControlRun>,
        preconditioning: Option<String>,
        progress: &mut dyn Progress,
    ) -> (Result<Measured, TrialError>, u64) {
        let (cell, runner, began) = (&self.cells[planned.cell], &self.runner, Instant::now());
        let far = cell.fabric.as_ref().filter(|fabric| fabric.transport.is_on_target());
        if let (Some(_), Some(side)) = (far, self.drives.access.side_mut()) {
            let Planned { position, replicate, .. } = planned;
            let (cell, seed) = (cell.clone(), runner.seed);
            let measure = Measure { cell, seed, position, replicate, steadystate: runner.steadystate };
            let here = |Far { measurement, load_raw_ns }| Measured {
                measurement,
                clock_ns: None,
                load_raw_ns,
                unprofiled: None,
            };
            let again = side.agent_again(runner.stop);
            let done = again.and_then(|()| side.measure_there(measure, runner.stop));
            return (done.map(here), 0);
        }
        let (access, connected) = match (&cell.fabric, &mut self.drives.here) {
            (Some(fabric), Some(here)) if cell.is_here() => (here, self.drives.access.stand_aside(fabric)),
            (Some(fabric), _) => {
                let connected = self.drives.access.connect(fabric, runner.stop);
                runner.forget_ways();
                (&mut self.drives.access, connected)
            }
            (None, _) => (&mut self.drives.access, Ok(())),
        };
        // Over fabrics each connection has its own interrupts.
        let control = match (&connected, &cell.fabric) {
            (Ok(()), Some(_)) => control_run(access, runner.stop).ok(),
            _ => control,
        };
        let set =
            connected.and_then(|()| access.reach(cell.path)).and_then(|()| Ok(make_settings(access, cell)?));
        let settings_ns = began.elapsed().as_nanos() as u64;
        let measured = set.and_then(|()| {
            let tick = &mut || {
                access.watch();
                runner.take_said().iter().for_each(|text| progress.note(text));
                progress.tick();
            };
            runner.measure(access, cell, planned, control, preconditioning, tick)
        });
        (access.unbroken(measured), settings_ns)
    }

    fn control(&mut self, progress: &mut dyn Progress) -> Result<Option<ControlRun>, RunError> {
        if self.study.program.is_some() {
            return Ok(None); // nothing was asked of a program, so there is nothing to compare
        }
        match control_run(&self.drives.access, self.runner.stop) {
            Ok(control) => {
                let detail = serde_json::to_string(&control).unwrap_or_default();
                self.store.add_event(unix_ns(), "control", &detail)?;
                Ok(Some(control))
            }
            Err(error) => {
                progress.note(&format!(
                    "warning: the control run failed, so no polled path can be verified: {error}"
                ));
                Ok(None)
            }
        }
    }

    /// What comes before a trial and is none of it: the network by itself before a block, and the target's
    /// state; false if it was stopped.
    fn prepare(
        &mut self,
        done: &mut Preconditioning,
        planned: Planned,
        progress: &mut dyn Progress,
    ) -> Result<bool, RunError> {
        let (block, stop) = (planned.replicate, self.runner.stop);
        let measured = self.drives.access.side_mut().map(|side| side.baselines(block, stop)).transpose()?;
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        for baseline in measured.unwrap_or_default() {
            if let Some(why) = &baseline.failure {
                progress.note(&format!("warning: the network by itself ({}): {why}", baseline.transport));
            }
            self.store.add_network(&baseline)?;
        }
        self.precondition(done, planned, progress)
    }

    /// Brings the target to the state of a trial's class, if it is in another; false if it was stopped. The
    /// smallest writes of a class are the hardest on a drive, so they bring it to its steady state.
    fn precondition(
        &mut self,
        done: &mut Preconditioning,
        planned: Planned,
        progress: &mut dyn Progress,
    ) -> Result<bool, RunError> {
        let class = Class::of(&self.cells[planned.cell].workload);
        if self.study.precondition && done.is_due(class) {
            let of_class =
                self.cells.iter().map(|cell| &cell.workload).filter(|workload| Class::of(workload) == class);
            let Some(smallest) = of_class.map(hardest).min_by_key(|workload| workload.bs) else {
                return Ok(false);
            };
            progress
                .note(&format!("preconditioning for {class}: writing the target until it is in their state"));
            let target = self.drives.access.reach_kernel()?;
            let stop = self.runner.stop;
            match done.bring(target, class, smallest, stop, &mut || progress.tick()) {
                Ok(words) => self.store.add_event(unix_ns(), "preconditioned", words)?,
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(false),
                Err(error) => return Err(RunError::Refused(format!("preconditioning failed: {error}"))),
            }
        }
        Ok(true)
    }
}

/// The settings of a cell, and the poll delay that its path needs. A device that is taken has no queue in the
/// kernel, so it has no settings of one.
pub(crate) fn needed_settings(access: &Access, cell: &Cell) -> Vec<(Setting, String)> {
    let has_place = |setting: &Setting| !(access.takes(&cell.path) && setting.is_of_queue());
    let own = cell.settings.iter().filter(|(setting, _)| has_place(setting));
    let mut needed: Vec<(Setting, String)> = own.map(|(setting, value)| (*setting, value.clone())).collect();
    let of_study = cell.settings.contains_key(&Setting::IoPollDelay);
    // Of several kinds of jobs all that need one need the same.
    let kinds = cell.kinds().into_iter().filter(|kind| !access.takes(&kind.path));
    let wanted = kinds.filter_map(|kind| Some((kind.path, poll_delay(kind.path)?))).next();
    let Some((path, delay)) = wanted.filter(|_| !of_study) else { return needed };
    let delay = delay.to_string();
    match access.settings.current(Setting::IoPollDelay) {
        Ok(now) if now.iter().all(|(_, value)| *value == delay) => {}
        // A device without the attribute polls all the time, and only hybrid polling needs more.
        Err(_) if path.completion() == CompletionMode::Poll || path.ring().is_some() => {}
        Err(_) if matches!(path, IoPath::Auto(_)) => {}
        _ => needed.push((Setting::IoPollDelay, delay)),
    }
    needed
}

/// The poll delay that a path needs; of one that chooses, that of the rings that it may poll.
fn poll_delay(path: IoPath) -> Option<i64> {
    match path {
        IoPath::Auto(AutoPath::Pinned(_)) => path.io_poll_delay(),
        IoPath::Auto(_) => Some(-1),
        other => other.io_poll_delay(),
    }
}

pub(crate) fn make_settings(access: &mut Access, cell: &Cell) -> Result<(), SettingsError> {
    let needed = needed_settings(access, cell);
    needed.iter().try_for_each(|(setting, value)| access.settings.set(*setting, value))
}

/// The control run on a target. Where the kernel does not count its reads, the drive does.
pub(crate) fn control_run(access: &Access, stop: &AtomicBool) -> Result<ControlRun, TrialError> {
    let first = access.counted()?;
    let control = control::run(access.target()?, access.probe()?, stop)?;
    let device_reads = match (first, access.counted()?) {
        (Some(first), Some(last)) => last[0].saturating_sub(first[0]),
        _ => control.device_reads,
    };
    Ok(ControlRun { device_reads, ..control })
}
