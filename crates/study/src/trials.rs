//! The trials of a run, one after the other: settings, measurement, store, and everything put back.

use crate::access::Access;
use crate::blocks::{Blocks, Decide};
use crate::control;
use crate::energy::{Hands, Metering, Place};
use crate::plan::{Cell, Planned, window};
use crate::precondition::{self, Class, Preconditioning};
use crate::runner::{Progress, RunError, Summary, unix_ns};
use crate::settings::{Setting, Settings, SettingsError};
use crate::setup::MadeFile;
use crate::study::Study;
use crate::trial::{Measured, Stage};
use iopj_core::Completion;
use iopj_core::evidence::ControlRun;
use iopj_store::{Outcome, Store, StoreError, Trial};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A run that is set up.
pub(crate) struct Trials<'a> {
    pub(crate) stage: Stage<'a>,
    pub(crate) study: &'a Study,
    pub(crate) cells: Vec<Cell>,
    pub(crate) store: Store,
    pub(crate) made: Option<MadeFile>,
    pub(crate) access: Access<'a>,
    pub(crate) metering: Option<Metering>,
    pub(crate) decide: Decide,
}

impl Trials<'_> {
    /// Measures what is missing, puts the settings back, and tells how it ended.
    pub(crate) fn run(mut self, progress: &mut dyn Progress) -> Result<Summary, RunError> {
        if let Some(made) = &mut self.made {
            made.keep = true; // for --resume, until the study is complete
        }
        let mut blocks = Blocks::of(self.study, &self.classes(), self.stage.seed, self.decide, &self.store)?;
        let missing = blocks.missing(&mut self.store, progress)?;
        let result = self.measure(missing, &mut blocks, progress);
        let restored = self.access.leave();
        for warning in self.access.settings.warnings() {
            progress.note(&format!("warning: {warning}"));
            self.store.add_event(unix_ns(), "lost", warning)?;
        }
        for change in restored.as_deref().unwrap_or_default() {
            self.store.add_event(
                unix_ns(),
                "restored",
                &format!("{}: {} -> {}", change.file.display(), change.from, change.to),
            )?;
        }
        let summary = result?;
        restored?;
        if let Some(made) = &mut self.made {
            made.keep = summary.missing > 0;
        }
        Ok(summary)
    }

    fn measure(
        &mut self,
        mut missing: Vec<Planned>,
        blocks: &mut Blocks,
        progress: &mut dyn Progress,
    ) -> Result<Summary, RunError> {
        let stop = self.stage.stop;
        let mut summary = Summary {
            store: self.store.path().to_owned(),
            failed: 0,
            missing: missing.len() as u64,
            interrupted: false,
        };
        self.access.begin().map_err(RunError::Usage)?;
        let control = if missing.is_empty() { None } else { self.control(progress)? };
        let mut preconditioning = Preconditioning::default();
        if stop.load(Ordering::Relaxed) {
            return Ok(Summary { interrupted: true, ..summary });
        }
        let mut metering = self.begin_metering(&missing, progress)?;
        let started = Instant::now();
        let mut last_ns = None;
        let mut number = 0;
        while let Some(&planned) = missing.get(number).filter(|_| !stop.load(Ordering::Relaxed)) {
            let Some(prepared) = self.precondition(&mut preconditioning, planned, progress)? else { break };
            if let Some(metering) = &mut metering {
                let hands = &mut Hands { store: &mut self.store, progress, stop };
                let next = window(&self.cells[planned.cell].workload).unwrap_or_default();
                metering.before_trial(place(&missing, number), next, hands)?;
            }
            let left = time_left(&self.cells, &missing[number..], number, started);
            let of = blocks.planned();
            progress.trial(of - summary.missing + 1, of, &self.cells[planned.cell], left);
            let changes_before = self.access.settings.changes().len();
            let (trial, load_ns, unprofiled) = self.trial(planned, control, Some(prepared), &mut last_ns, progress);
            self.note_changes(changes_before)?;
            if stop.load(Ordering::Relaxed) {
                break; // the trial at hand was cut short
            }
            if let Some(metering) = &mut metering {
                let hands = &mut Hands { store: &mut self.store, progress, stop };
                metering.keep(trial.position, load_ns, hands)?;
            }
            let outcome = self.keep(trial, unprofiled, progress)?.outcome;
            progress.ended(&outcome);
            summary.missing -= 1;
            summary.failed += u64::from(outcome.measurement().is_none());
            number += 1;
            if number == missing.len() {
                missing.extend(blocks.more(&mut self.store, progress)?);
                summary.missing = (missing.len() - number) as u64;
            }
        }
        summary.interrupted = stop.load(Ordering::Relaxed);
        if let Some(metering) = metering {
            let hands = &mut Hands { store: &mut self.store, progress, stop };
            metering.end(summary.interrupted, hands)?;
        }
        Ok(summary)
    }

    /// Keeps the changes of settings but the first `before` as events.
    fn note_changes(&mut self, before: usize) -> Result<(), RunError> {
        for change in &self.access.settings.changes()[before..] {
            let detail = format!("{}: {} -> {}", change.file, change.old, change.new);
            self.store.add_event(unix_ns(), "set", &detail)?;
        }
        Ok(())
    }

    fn begin_metering(
        &mut self,
        missing: &[Planned],
        progress: &mut dyn Progress,
    ) -> Result<Option<Metering>, RunError> {
        let mut metering = self.metering.take().filter(|_| !missing.is_empty());
        if let Some(metering) = &mut metering {
            metering.begin(&mut Hands { store: &mut self.store, progress, stop: self.stage.stop })?;
        }
        Ok(metering)
    }

    /// Adds a trial to the store; one whose figures cannot be kept is kept as failed.
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

    /// One trial, when it loaded the machine, and why it has no profile if one was asked for. `last_ns` is the end of the window before, for the
    /// gap between the two.
    fn trial(
        &mut self,
        planned: Planned,
        control: Option<ControlRun>,
        preconditioning: Option<String>,
        last_ns: &mut Option<u64>,
        progress: &mut dyn Progress,
    ) -> (Trial, Vec<u64>, Option<String>) {
        let cell = &self.cells[planned.cell];
        let started_unix_ns = unix_ns();
        let setting_up = Instant::now();
        let set = self.access.reach(cell.path).and_then(|()| make_settings(&mut self.access.settings, cell));
        let settings_ns = setting_up.elapsed().as_nanos() as u64;
        let stage = &self.stage;
        let measured = set.and_then(|()| {
            stage.measure(&self.access, cell, planned, control, preconditioning, &mut || progress.tick())
        });
        let (outcome, gap_ns, load_ns, unprofiled) = match measured {
            Ok(Measured { measurement, first_ns, last_ns: end, load_raw_ns, unprofiled }) => {
                let plain_ns = cell.workload.ramp_time.as_nanos() as u64;
                let ramp_ns = measurement.evidence.steadystate.map_or(plain_ns, |state| state.ramp_ns);
                let gap_ns = last_ns.map(|last| first_ns.saturating_sub(last + ramp_ns + settings_ns));
                *last_ns = Some(end);
                (Outcome::Measured(Box::new(measurement)), gap_ns, load_raw_ns, unprofiled)
            }
            Err(error) => {
                *last_ns = None;
                (Outcome::Failed(error), None, Vec::new(), None)
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
        (trial, load_ns, unprofiled)
    }

    fn control(&mut self, progress: &mut dyn Progress) -> Result<Option<ControlRun>, RunError> {
        match control_run(&self.access, self.stage.stop) {
            Ok(control) => {
                let detail = serde_json::to_string(&control).unwrap_or_default();
                self.store.add_event(unix_ns(), "control", &detail)?;
                Ok(Some(control))
            }
            Err(error) => {
                progress
                    .note(&format!("warning: the control run failed, so that no polled path can be verified: {error}"));
                Ok(None)
            }
        }
    }

    /// The classes of the cells by which the target is preconditioned; all one where it is not.
    fn classes(&self) -> Vec<usize> {
        let class = |cell: &Cell| if self.study.precondition { Class::of(&cell.workload) as usize } else { 0 };
        self.cells.iter().map(class).collect()
    }

    /// Brings the target to the state of a trial's class, where it is not there yet, and tells what was done; `None` if it was stopped. The
    /// smallest writes of a class are the hardest on a drive, so they are what it is brought to a steady state with.
    fn precondition(
        &mut self,
        done: &mut Preconditioning,
        planned: Planned,
        progress: &mut dyn Progress,
    ) -> Result<Option<String>, RunError> {
        let class = Class::of(&self.cells[planned.cell].workload);
        if self.study.precondition && done.is_due(class) {
            let of_class = self.cells.iter().map(|cell| &cell.workload).filter(|workload| Class::of(workload) == class);
            let Some(smallest) = of_class.min_by_key(|workload| workload.bs) else { return Ok(None) };
            progress.note(&format!("preconditioning for {class}: writing the target until it is in their state"));
            let target = self.access.reach_kernel().map_err(RunError::Usage)?;
            let stop = self.stage.stop;
            match done.bring(target, (class, smallest), stop, &mut || progress.tick()) {
                Ok(words) => self.store.add_event(unix_ns(), "preconditioned", words)?,
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(None),
                Err(error) => return Err(RunError::Usage(format!("preconditioning failed: {error}"))),
            }
        }
        Ok(Some(done.words(class).unwrap_or_else(|| precondition::NONE.to_owned())))
    }
}

/// Where in the order a trial stands. An idle stretch is due at the middle block's begin, so that a study of two blocks or more has three.
fn place(missing: &[Planned], number: usize) -> Place {
    if number == 0 {
        return Place::First;
    }
    let begins = |number: usize| number > 0 && missing[number].replicate != missing[number - 1].replicate;
    if !begins(number) {
        return Place::Within;
    }
    let blocks = (0..missing.len()).filter(|at| begins(*at)).count();
    let before = (0..number).filter(|at| begins(*at)).count();
    Place::Begins { is_due: before == blocks / 2 }
}

/// Makes the settings of a cell, and the poll delay that its path needs. A device that was taken has no queue in the kernel,
/// and so no settings of one.
fn make_settings(settings: &mut Settings<'_>, cell: &Cell) -> Result<(), String> {
    let text = |error: SettingsError| error.to_string();
    let has_place = |setting: &Setting| !(cell.path.is_bypass() && setting.is_of_queue());
    for (setting, value) in cell.settings.iter().filter(|(setting, _)| has_place(setting)) {
        settings.set(*setting, value).map_err(text)?;
    }
    let of_study = cell.settings.contains_key(&Setting::IoPollDelay);
    let Some(delay) = cell.path.io_poll_delay().filter(|_| !of_study) else { return Ok(()) };
    let delay = delay.to_string();
    match settings.current(Setting::IoPollDelay) {
        Ok(now) if now.iter().all(|(_, value)| *value == delay) => Ok(()),
        // A device without the attribute polls all the time, and only hybrid polling needs more.
        Err(_) if cell.path.completion() == Completion::Poll || cell.path.ring().is_some() => Ok(()),
        _ => settings.set(Setting::IoPollDelay, &delay).map_err(text),
    }
}

/// The mean time of the trials so far, or what the workloads say, for the trials that are left.
fn time_left(cells: &[Cell], left: &[Planned], done: usize, started: Instant) -> Option<Duration> {
    if done > 0 {
        return Some(started.elapsed().mul_f64(left.len() as f64 / done as f64));
    }
    left.iter().map(|planned| window(&cells[planned.cell].workload)).sum()
}

/// The control run on a target. Where the kernel counts none of its reads the drive does.
fn control_run(access: &Access<'_>, stop: &AtomicBool) -> Result<ControlRun, String> {
    let first = access.counted()?;
    let control = control::run(access.target()?, access.probe()?, stop)?;
    let device_reads = match (first, access.counted()?) {
        (Some(first), Some(last)) => last[0].saturating_sub(first[0]),
        _ => control.device_reads,
    };
    Ok(ControlRun { device_reads, ..control })
}
