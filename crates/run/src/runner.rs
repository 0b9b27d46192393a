//! Runs a study: opens what it needs, checks all that can be checked, and hands over to the trials.

use crate::access::{Access, Named};
use crate::blocks::{self, Decide};
use crate::energy::Metering;
use crate::pace;
use crate::setup::{self, MadeFile};
use crate::trial::Stage;
use crate::trials::Trials;
use iopj_engine::target::{FileId, TargetError, TargetKind};
use iopj_engine::{PciAddress, Target};
use iopj_host::machine;
use iopj_host::settings::{DeviceLocks, Host, SettingsError};
use iopj_probe::ProbeError;
use iopj_store::{Outcome, Store, StoreError, StudyRecord, Trial, Unavailable};
use iopj_study::plan::{self, Cell};
use iopj_study::{Study, StudyError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

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
    /// The controller that is taken from its driver for the paths of kernel bypass.
    pub take_device: Option<PciAddress>,
    /// Take it even if no IOMMU keeps it out of foreign memory.
    pub i_know_no_iommu: bool,
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

/// Runs a study from its beginning. `decide` looks at its trials where their number is decided while it runs.
///
/// # Errors
/// [`RunError`]; nothing is left behind then but finished trials.
pub fn run(
    mut study: Study,
    options: &Options,
    decide: Decide,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Summary, RunError> {
    let host = Host::new();
    restore_left_behind(&host, progress)?;
    let fio = setup::find_fio(&study, options)?;
    let profiler = setup::profiler(&study, progress)?;
    setup::check_taking(&study, options)?;
    setup::check_limits(&plan::cells(&study, &iopj_core::IoPath::all())?.0)?;
    study.file_size()?;
    let store_path = store_path(&study, options)?;
    if options.target.is_none() && options.destroy_data.is_some() {
        return Err(RunError::Usage("--destroy-data needs the same device as --target".to_owned()));
    }
    let place = Place { named: options.target.as_deref(), data: &data_path(&store_path), id: None };
    let (target, made, locks) = place.open(&host, &study, options, progress, stop)?;
    let named = place.named_again(&target, &study, options)?;
    let mut access = Access::new(&host, &locks, target, named)?;
    let unavailable = setup::settle_paths(&mut study, &mut access, fio.as_ref(), options, stop)?;
    if !unavailable.is_empty() {
        progress.unavailable(&unavailable);
    }
    let cells = setup::cells(&study, progress)?;
    setup::check_cells(&cells, &mut access, fio.as_ref())?;
    let seed = study.seed.map_or_else(random_seed, Ok)?;
    study.seed = Some(seed);
    check_settings(&cells, &locks)?;
    let metering = Metering::start(&study, pace::span(&cells, &study), options, progress)?;
    let target = access.target().map_err(RunError::Usage)?;
    let record = StudyRecord {
        name: study.name.clone(),
        text: study.to_toml()?,
        seed,
        planned_trials: cells.len() as u64 * u64::from(study.replicates.fewest()),
        target: absolute(target.path()).display().to_string(),
        file_id: target.file_id().map(FileId::to_string),
        provenance: provenance(&access, target, metering.as_ref()),
        warnings: warnings(&study, target),
        made_target: made.is_some(),
        unavailable,
        emulated: machine::emulator().map(str::to_owned),
        sequential: study.replicates.sequential()?,
    };
    if let Some(estimate) = blocks::estimate(&study, &cells) {
        progress.note(&estimate);
    }
    for warning in &record.warnings {
        progress.note(&format!("warning: {warning}"));
    }
    let store = Store::create(&store_path, &record)?;
    warn_of_shared_disk(&store_path, target, progress);
    let stage = Stage::new(&host, (fio.as_ref(), profiler.as_ref()), &study, seed, stop)?;
    Trials { stage, study: &study, cells, store, made, access, metering, decide }.run(progress)
}

/// What to know about the target. Preconditioning writes every block of a device, so that none is left that
/// was trimmed or never written.
fn warnings(study: &Study, target: &Target) -> Vec<String> {
    let is_filled = study.precondition && target.kind() != TargetKind::File;
    if is_filled { Vec::new() } else { target.warnings().to_vec() }
}

/// What the figures of a study stand on: the machine, the drive's access and the meters.
fn provenance(access: &Access<'_>, target: &Target, metering: Option<&Metering>) -> BTreeMap<String, String> {
    let mut provenance = machine::provenance(target);
    provenance.extend(access.provenance().clone());
    provenance.extend(metering.map(Metering::provenance).unwrap_or_default());
    provenance
}

/// Continues a run: only the trials that are missing.
///
/// # Errors
/// [`RunError`]; the finished trials stay.
pub fn resume(
    store_path: &Path,
    options: &Options,
    decide: Decide,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Summary, RunError> {
    let host = Host::new();
    let mut store = Store::open_for_run(store_path)?;
    restore_left_behind(&host, progress)?;
    let record = store.study()?;
    let study = Study::parse(&record.text, &store_path.display().to_string())?;
    if study.precondition {
        check_reads(&store.trials()?)?;
    }
    setup::check_taking(&study, options)?;
    let fio = setup::find_fio(&study, options)?;
    let profiler = setup::profiler(&study, progress)?;
    let id: Option<FileId> = record.file_id.as_deref().and_then(|text| text.parse().ok());
    let named = (!record.made_target).then(|| PathBuf::from(&record.target));
    let place = Place { named: named.as_deref(), data: &data_path(store_path), id: id.as_ref() };
    let (target, made, locks) = place.open(&host, &study, options, progress, stop)?;
    compare_machines(&record, &target, &mut store, progress)?;
    let named = place.named_again(&target, &study, options)?;
    let mut access = Access::new(&host, &locks, target, named)?;
    let cells = setup::cells(&study, progress)?;
    setup::check_cells(&cells, &mut access, fio.as_ref())?;
    check_settings(&cells, &locks)?;
    let metering = Metering::start(&study, pace::span(&cells, &study), options, progress)?;
    store.add_event(unix_ns(), "resumed", "")?;
    let stage = Stage::new(&host, (fio.as_ref(), profiler.as_ref()), &study, record.seed, stop)?;
    Trials { stage, study: &study, cells, store, made, access, metering, decide }.run(progress)
}

/// Where a run finds its target: one that the user has named, or a file that is made beside the store.
struct Place<'a> {
    named: Option<&'a Path>,
    data: &'a Path,
    /// The identity of a file that an earlier run made.
    id: Option<&'a FileId>,
}

impl Place<'_> {
    /// Opens the target, makes it if need be, and locks its drives: before the file is written, which would
    /// disturb a run that is under way on the same drive.
    fn open(
        &self,
        host: &Host,
        study: &Study,
        options: &Options,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<(Target, Option<MadeFile>, DeviceLocks), RunError> {
        let writes = setup::writes(study)?;
        if let Some(path) = self.named {
            let target = setup::open_target(path, writes, options, self.id)?;
            let locks = host.lock(target.devices())?;
            return Ok((target, None, locks));
        }
        let locks = host.lock(&setup::devices_below(setup::folder_of(self.data)))?;
        let (made, id) = match self.id.filter(|_| self.data.exists()) {
            Some(id) => (MadeFile::of_earlier_run(self.data.to_owned()), *id),
            None => setup::make_target(self.data, self.id.copied(), study, progress, stop)?,
        };
        Ok((setup::open_target(self.data, writes, options, Some(&id))?, Some(made), locks))
    }

    /// What is needed to open the target once more.
    fn named_again<'o>(
        &self,
        target: &Target,
        study: &Study,
        options: &'o Options,
    ) -> Result<Named<'o>, RunError> {
        let id = if self.named.is_some() { self.id } else { target.file_id() };
        Ok(Named { path: target.path().to_owned(), writes: setup::writes(study)?, options, id: id.copied() })
    }
}

/// The file that is made beside a store.
fn data_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-data");
    name.into()
}

/// Refuses to go on with another drive, and notes another kernel.
fn compare_machines(
    record: &StudyRecord,
    target: &Target,
    store: &mut Store,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    for (name, now) in machine::provenance(target) {
        let Some(before) = record.provenance.get(&name).filter(|before| **before != now) else { continue };
        if name == "target_bytes" || name.ends_with(".serial") || name.ends_with(".model") {
            return Err(RunError::Usage(format!(
                "the store's trials were measured where {name} was {before}, and here it is {now}: continue \
                 on the same drive, or start a new store"
            )));
        }
        if name == "kernel" || name == "cpu_model" {
            let change = format!("{name} has changed from {before} to {now} since the first trials");
            progress.note(&format!("warning: {change}"));
            store.add_event(unix_ns(), "changed", &change)?;
        }
    }
    Ok(())
}

/// Refuses to go on where reads took the target as it was, as they did in earlier versions: the rest would
/// find it filled.
fn check_reads(trials: &[Trial]) -> Result<(), RunError> {
    let as_found = |trial: &&Trial| {
        let measured = trial.outcome.measurement();
        !trial.workload.rw.writes()
            && measured.is_some_and(|measurement| measurement.preconditioning.is_none())
    };
    match trials.iter().find(as_found) {
        None => Ok(()),
        Some(Trial { position, .. }) => Err(RunError::Usage(format!(
            "trial {position} of the store read a target that was not preconditioned, as earlier versions \
             of iopj did it, and those that are missing would read one that is: start a new store"
        ))),
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
        Err(SettingsError::NeedsRoot { .. }) => {
            progress.note(
                "note: whether a dead run has left settings changed can only root see; `iopj restore` as \
                 root puts them back",
            );
            return Ok(());
        }
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
        progress.note(&format!(
            "warning: {} could not be put back: {}",
            failed.file.display(),
            failed.reason
        ));
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
                let name = if number == 1 {
                    format!("{}.iopj", study.name)
                } else {
                    format!("{}-{number}.iopj", study.name)
                };
                Some(PathBuf::from(name)).filter(|path| !path.exists())
            };
            let name = (1..10_000).find_map(free);
            name.ok_or_else(|| {
                RunError::Usage("10,000 stores of this name exist: name another by --store".to_owned())
            })
        }
    }
}

fn warn_of_shared_disk(store: &Path, target: &Target, progress: &mut dyn Progress) {
    let devices = setup::devices_below(store);
    if let Some(shared) = devices.iter().find(|device| target.devices().contains(device)) {
        progress.note(&format!(
            "warning: the store {} lies on {shared}, the drive under test; it is written between trials \
             only; --store names another place",
            store.display()
        ));
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

pub(crate) fn unix_ns() -> u64 {
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
    Err(RunError::Usage(
        "no random seed can be had from the kernel: give one by `seed` in the study".to_owned(),
    ))
}
