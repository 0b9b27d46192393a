//! Runs a study: sets up, measures trial after trial, keeps each, and puts everything back.

use crate::plan::{self, Cell, Planned};
use crate::precondition;
use crate::settings::{DeviceLocks, Host, Setting, Settings, SettingsError};
use crate::setup::{self, MadeFile};
use crate::study::{Study, StudyError};
use crate::trial::{Measured, Stage};
use crate::{control, machine};
use iopj_core::evidence::ControlRun;
use iopj_core::workload::Length;
use iopj_core::{Completion, Workload};
use iopj_engine::Target;
use iopj_engine::target::{FileId, TargetError};
use iopj_probe::{Probe, ProbeError};
use iopj_store::{Outcome, Store, StoreError, StudyRecord, Trial, Unavailable};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// What the command line says beside the study.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The target; without one a file is made.
    pub target: Option<PathBuf>,
    /// The device that may be overwritten.
    pub destroy_data: Option<PathBuf>,
    /// Overwrite a device even if it carries a known signature.
    pub i_know: bool,
    /// The study may run the programs that it names.
    pub allow_exec: bool,
    /// The store; without one the study's name in the current folder.
    pub store: Option<PathBuf>,
}

/// What the user is told while a study runs.
pub trait Progress {
    /// Something to know: a warning, a setting put back.
    fn note(&mut self, text: &str);
    /// Paths of the study that do not work on the target; the study goes on without them.
    fn unavailable(&mut self, paths: &[Unavailable]);
    /// A file is being made: bytes so far, bytes in all.
    fn file(&mut self, path: &Path, done: u64, size: u64);
    /// A trial begins: its number from 1, how many there are, what it is, and the time left if known.
    fn trial(&mut self, number: u64, of: u64, cell: &Cell, left: Option<Duration>);
    /// A trial has ended.
    fn ended(&mut self, outcome: &Outcome);
    /// A second has passed.
    fn tick(&mut self);
}

/// Why a run did not take place, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The study, the target or the machine does not allow it.
    #[error("{0}")]
    Usage(String),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Ctrl-C before the first trial.
    #[error("interrupted before the first trial: nothing was kept")]
    Interrupted,
}

impl From<StudyError> for RunError {
    fn from(error: StudyError) -> RunError {
        RunError::Usage(error.to_string())
    }
}

impl From<TargetError> for RunError {
    fn from(error: TargetError) -> RunError {
        RunError::Usage(error.to_string())
    }
}

impl From<SettingsError> for RunError {
    fn from(error: SettingsError) -> RunError {
        RunError::Usage(error.to_string())
    }
}

impl From<ProbeError> for RunError {
    fn from(error: ProbeError) -> RunError {
        RunError::Usage(error.to_string())
    }
}

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

/// Runs a study from its beginning.
///
/// # Errors
/// [`RunError`]; nothing is left behind then but finished trials.
pub fn run(
    mut study: Study,
    options: &Options,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Summary, RunError> {
    let host = Host::new();
    restore_left_behind(&host, progress)?;
    let fio = setup::find_fio(&study, options)?;
    let writes = setup::writes(&study)?;
    plan::cells(&study, &iopj_core::IoPath::all())?;
    let store_path = store_path(&study, options)?;
    let (target, made) = match &options.target {
        Some(path) => (setup::open_target(path, writes, options, None)?, None),
        None if options.destroy_data.is_some() => {
            return Err(RunError::Usage("--destroy-data needs the same device as --target".to_owned()));
        }
        None => {
            let path = store_path.with_extension("iopj-data");
            let (made, id) = setup::make_target(&path, &study, progress, stop)?;
            (setup::open_target(&path, writes, options, Some(&id))?, Some(made))
        }
    };
    let unavailable = setup::settle_paths(&mut study, &target)?;
    if !unavailable.is_empty() {
        progress.unavailable(&unavailable);
    }
    let cells = setup::cells(&study, progress)?;
    setup::check_cells(&cells, &target, fio.as_ref())?;
    let seed = study.seed.map_or_else(random_seed, Ok)?;
    study.seed = Some(seed);
    let locks = host.lock(target.devices())?;
    check_settings(&cells, &locks)?;
    let probe = Probe::new(target.devices())?;
    let record = StudyRecord {
        name: study.name.clone(),
        text: study.to_toml()?,
        seed,
        planned_trials: cells.len() as u64 * u64::from(study.replicates),
        target: absolute(target.path()).display().to_string(),
        file_id: target.file_id().map(FileId::to_string),
        provenance: machine::provenance(&target),
        warnings: target.warnings().to_vec(),
        unavailable,
    };
    for warning in &record.warnings {
        progress.note(&format!("warning: {warning}"));
    }
    let store = Store::create(&store_path, &record)?;
    warn_of_shared_disk(&store_path, &target, progress);
    let stage = Stage { target: &target, probe: &probe, host: &host, fio: fio.as_ref(), seed, stop };
    Run { stage, study: &study, cells, store, made, locks: &locks }.go(progress)
}

/// Continues a run: only the trials that are missing.
///
/// # Errors
/// [`RunError`]; the finished trials stay.
pub fn resume(
    store_path: &Path,
    options: &Options,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Summary, RunError> {
    let host = Host::new();
    let mut store = Store::open_for_run(store_path)?;
    restore_left_behind(&host, progress)?;
    let mut record = store.study()?;
    let study = Study::parse(&record.text, &store_path.display().to_string())?;
    let fio = setup::find_fio(&study, options)?;
    let id: Option<FileId> = record.file_id.as_deref().and_then(|text| text.parse().ok());
    let path = PathBuf::from(&record.target);
    let mut made = None;
    let mut id_now = id;
    if id.is_some() && !path.exists() {
        let (file, new) = setup::make_target(&path, &study, progress, stop)?;
        (made, id_now) = (Some(file), Some(new));
        record.file_id = Some(new.to_string());
    } else if id.is_some() && path == absolute(store_path).with_extension("iopj-data") {
        made = Some(MadeFile::of_earlier_run(path.clone()));
    }
    let target = setup::open_target(&path, setup::writes(&study)?, options, id_now.as_ref())?;
    let cells = setup::cells(&study, progress)?;
    setup::check_cells(&cells, &target, fio.as_ref())?;
    let locks = host.lock(target.devices())?;
    check_settings(&cells, &locks)?;
    let probe = Probe::new(target.devices())?;
    store.update_study(&record)?;
    store.add_event(unix_ns(), "resumed", "")?;
    let stage = Stage { target: &target, probe: &probe, host: &host, fio: fio.as_ref(), seed: record.seed, stop };
    Run { stage, study: &study, cells, store, made, locks: &locks }.go(progress)
}

/// A run that is set up.
struct Run<'a> {
    stage: Stage<'a>,
    study: &'a Study,
    cells: Vec<Cell>,
    store: Store,
    made: Option<MadeFile>,
    locks: &'a DeviceLocks,
}

impl Run<'_> {
    fn go(mut self, progress: &mut dyn Progress) -> Result<Summary, RunError> {
        if let Some(made) = &mut self.made {
            made.keep = true; // for --resume, until the study is complete
        }
        let plan = plan::order(self.cells.len(), self.study.replicates, self.stage.seed);
        let done: HashSet<u64> = self.store.trials()?.iter().map(|trial| trial.position).collect();
        let missing: Vec<Planned> = plan.iter().filter(|planned| !done.contains(&planned.position)).copied().collect();
        let devices = self.stage.target.devices();
        let mut settings = self.stage.host.settings(devices, self.locks);
        let result = self.measure(&missing, plan.len() as u64, &mut settings, progress);
        let restored = settings.restore();
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
        missing: &[Planned],
        of: u64,
        settings: &mut Settings<'_>,
        progress: &mut dyn Progress,
    ) -> Result<Summary, RunError> {
        let stop = self.stage.stop;
        let mut summary = Summary {
            store: self.store.path().to_owned(),
            failed: 0,
            missing: missing.len() as u64,
            interrupted: false,
        };
        let control = if missing.is_empty() { None } else { self.control(progress)? };
        let preconditioning = self.precondition(missing, progress)?;
        let started = Instant::now();
        let mut last_ns: Option<u64> = None;
        for (number, planned) in missing.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let cell = self.cells[planned.cell].clone();
            progress.trial(
                of - summary.missing + 1,
                of,
                &cell,
                time_left(&self.cells, &missing[number..], number, started),
            );
            let started_unix_ns = unix_ns();
            let setting_up = Instant::now();
            let changes_before = settings.changes().len();
            let set = make_settings(settings, &cell);
            let settings_ns = setting_up.elapsed().as_nanos() as u64;
            let measured = set.and_then(|()| {
                self.stage.measure(&cell, *planned, control, preconditioning.clone(), &mut || progress.tick())
            });
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let ramp_ns = cell.workload.ramp_time.as_nanos() as u64;
            let (outcome, first_ns) = match measured {
                Ok(Measured { measurement, first_ns, last_ns: end }) => {
                    let gap_ns = last_ns.map(|last| first_ns.saturating_sub(last + ramp_ns + settings_ns));
                    last_ns = Some(end);
                    (Outcome::Measured(Box::new(measurement)), gap_ns)
                }
                Err(error) => {
                    last_ns = None;
                    summary.failed += 1;
                    (Outcome::Failed(error), None)
                }
            };
            progress.ended(&outcome);
            self.store.add(&Trial {
                path: cell.path,
                workload: cell.workload.clone(),
                settings: cell.settings_by_name(),
                generator: cell.generator,
                replicate: planned.replicate,
                position: planned.position,
                started_unix_ns,
                gap_ns: first_ns,
                outcome,
            })?;
            for change in &settings.changes()[changes_before..] {
                let detail = format!("{}: {} -> {}", change.file, change.old, change.new);
                self.store.add_event(unix_ns(), "set", &detail)?;
            }
            summary.missing -= 1;
        }
        summary.interrupted = stop.load(Ordering::Relaxed);
        Ok(summary)
    }

    fn control(&mut self, progress: &mut dyn Progress) -> Result<Option<ControlRun>, RunError> {
        match control::run(self.stage.target, self.stage.probe, self.stage.stop) {
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

    /// Preconditions once for the random writes that are still to be measured, or says that nothing was done.
    fn precondition(&mut self, missing: &[Planned], progress: &mut dyn Progress) -> Result<Option<String>, RunError> {
        let random_writes = |workload: &&Workload| workload.rw.writes() && workload.rw.is_random();
        let first = missing.iter().map(|planned| &self.cells[planned.cell].workload).find(random_writes);
        match first {
            Some(workload) if self.study.precondition => {
                progress.note(
                    "preconditioning: writing the target twice, then rounds of random writes until they are steady",
                );
                let done = precondition::run(self.stage.target, workload, self.stage.stop, &mut || progress.tick());
                let done = done.map_err(|error| match self.stage.stop.load(Ordering::Relaxed) {
                    true => RunError::Interrupted,
                    false => RunError::Usage(format!("preconditioning failed: {error}")),
                })?;
                self.store.add_event(unix_ns(), "preconditioned", &done)?;
                Ok(Some(done))
            }
            _ => Ok(Some(precondition::NONE.to_owned())),
        }
    }
}

/// Makes the settings of a cell, and the poll delay that its path needs.
fn make_settings(settings: &mut Settings<'_>, cell: &Cell) -> Result<(), String> {
    let text = |error: SettingsError| error.to_string();
    for (setting, value) in &cell.settings {
        settings.set(*setting, value).map_err(text)?;
    }
    let Some(delay) = cell.path.io_poll_delay() else { return Ok(()) };
    let delay = delay.to_string();
    match settings.current(Setting::IoPollDelay) {
        Ok(now) if now.iter().all(|(_, value)| *value == delay) => Ok(()),
        // A device without the attribute polls all the time, and only hybrid polling needs more.
        Err(_) if cell.path.completion() == Completion::Poll || cell.path.ring().is_some() => Ok(()),
        _ => settings.set(Setting::IoPollDelay, &delay).map_err(text),
    }
}

fn check_settings(cells: &[Cell], locks: &DeviceLocks) -> Result<(), RunError> {
    match cells.iter().find_map(|cell| cell.settings.keys().next()) {
        Some(setting) if !locks.is_effective() => Err(RunError::Usage(format!(
            "the study changes `{setting}`, which only root may: run as root, or leave [settings] out"
        ))),
        _ => Ok(()),
    }
}

/// Puts back what dead runs have left. Without root nothing can be put back, and nothing is changed either.
fn restore_left_behind(host: &Host, progress: &mut dyn Progress) -> Result<(), RunError> {
    let report = match host.restore_left_behind() {
        Err(SettingsError::NeedsRoot { .. }) => return Ok(()),
        report => report?,
    };
    for change in &report.restored {
        progress.note(&format!(
            "put back after a run that had died: {}: {} -> {}",
            change.file.display(),
            change.from,
            change.to
        ));
    }
    for note in &report.notes {
        progress.note(note);
    }
    for failed in &report.failed {
        progress.note(&format!("warning: {} could not be put back: {}", failed.file.display(), failed.reason));
    }
    Ok(())
}

fn store_path(study: &Study, options: &Options) -> Result<PathBuf, RunError> {
    match &options.store {
        Some(path) if path.exists() => Err(StoreError::Exists(path.clone()).into()),
        Some(path) if !setup::folder_of(path).is_dir() => Err(RunError::Usage(format!(
            "the store `{}` cannot be made, for `{}` is no folder: make it, or name another place by --store",
            path.display(),
            setup::folder_of(path).display()
        ))),
        Some(path) => Ok(path.clone()),
        None => {
            let free = |number: u32| {
                let name =
                    if number == 1 { format!("{}.iopj", study.name) } else { format!("{}-{number}.iopj", study.name) };
                Some(PathBuf::from(name)).filter(|path| !path.exists())
            };
            let name = (1..10_000).find_map(free);
            name.ok_or_else(|| RunError::Usage("10,000 stores of this name exist: name another by --store".to_owned()))
        }
    }
}

fn warn_of_shared_disk(store: &Path, target: &Target, progress: &mut dyn Progress) {
    use std::os::unix::fs::MetadataExt;
    let Ok(metadata) = std::fs::metadata(store) else { return };
    let devices = iopj_engine::target::leaf_devices(Path::new("/sys"), metadata.dev()).unwrap_or_default();
    if let Some(shared) = devices.iter().find(|device| target.devices().contains(device)) {
        progress.note(&format!(
            "warning: the store {} lies on {shared}, the drive under test; it is written between trials only; --store names another place",
            store.display()
        ));
    }
}

/// The mean time of the trials so far, or what the workloads say, for the trials that are left.
fn time_left(cells: &[Cell], left: &[Planned], done: usize, started: Instant) -> Option<Duration> {
    if done > 0 {
        return Some(started.elapsed().mul_f64(left.len() as f64 / done as f64));
    }
    let window = |workload: &Workload| match workload.length {
        Length::Runtime(time) => Some(time + workload.ramp_time),
        Length::Ios(_) => None,
    };
    left.iter().map(|planned| window(&cells[planned.cell].workload)).sum()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn unix_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
}

/// A seed of 63 bits, which TOML can hold.
fn random_seed() -> Result<u64, RunError> {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is ours and as long as said.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == bytes.len() as isize {
        return Ok(u64::from_ne_bytes(bytes) >> 1);
    }
    Err(RunError::Usage("no random seed can be had from the kernel: give one by `seed` in the study".to_owned()))
}
