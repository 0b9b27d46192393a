//! A run whose generator is a program: as any run, but that iopj opens no target and tries no path.

use crate::adaptive::Adaptive;
use crate::announce;
use crate::begin::{open_meters, random_seed};
use crate::blocks::{self, Decide};
use crate::continued;
use crate::error::RunError;
use crate::limits;
use crate::locks::Locker;
use crate::options::Options;
use crate::own_program::OwnProgram;
use crate::pace::{self, RunTime};
use crate::target::{Access, TargetSpec, devices_below};
use crate::trial::TrialRunner;
use crate::trials::{Summary, Trials};
use iopj_host::machine;
use iopj_host::settings::{DeviceLocks, Host};
use iopj_metering::energy::{Metering, Meters};
use iopj_metering::{Progress, unix_ns};
use iopj_record::StudyRecord;
use iopj_store::Store;
use iopj_study::Study;
use iopj_study::plan::{self, Cell};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A run that lacks only its store.
pub(crate) struct ProgramSetUp {
    pub(crate) own: OwnProgram,
    pub(crate) cells: Vec<Cell>,
    pub(crate) metering: Option<Metering>,
    pub(crate) access: Access,
}

impl ProgramSetUp {
    /// Checks that the cells of a study work here.
    pub(crate) fn new(
        study: &Study,
        own: OwnProgram,
        meters: Meters,
        (host, locks): (&Host, &Arc<DeviceLocks>),
        may_change: bool,
        progress: &mut dyn Progress,
    ) -> Result<ProgramSetUp, RunError> {
        let (cells, _) = plan::cells(study, &[])?;
        limits::check_settings(&cells, may_change, false)?;
        let metering = Metering::new(meters, study, pace::span(&cells, study), progress)?;
        let spec = TargetSpec::of_program(own.target.as_deref());
        let access = Access::of_program(host, locks, own.devices(), spec)?;
        Ok(ProgramSetUp { own, cells, metering, access })
    }

    fn measure(
        self,
        (study, store): (&Study, Store),
        (host, seed): (&Host, u64),
        decide: Decide,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Summary, RunError> {
        let ProgramSetUp { own, cells, metering, access } = self;
        let adaptive = Adaptive::default();
        let runner = TrialRunner::of_program((host, &adaptive), &own, seed, stop);
        let (made, here) = (None, None);
        Trials { runner, study, cells, store, made, access, here, metering, decide }.run(progress)
    }
}

impl OwnProgram {
    /// The disks below the target that it is told.
    pub(crate) fn devices(&self) -> Vec<String> {
        self.target.as_deref().map(devices_below).unwrap_or_default()
    }
}

/// Runs a study from its beginning.
pub(crate) fn run(
    mut study: Study,
    options: &Options,
    decide: Decide,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Summary, RunError> {
    let host = Host::new();
    let own = own_program(&study, options.target.clone(), options)?;
    let cells = checked_cells(&study)?;
    let mut locker = Locker::new(&host).allowing(options.drives.as_ref());
    let locks = lock(&mut locker, &own, options, progress, stop)?;
    let store_path = iopj_store::new_path(&study.name, options.store.as_deref())?;
    let meters = open_meters((&study, &cells), None, options, progress, stop)?;
    let seed = study.seed.map_or_else(random_seed, Ok)?;
    study.seed = Some(seed);
    let places = (&host, &locks);
    let set_up = ProgramSetUp::new(&study, own, meters, places, locks.is_effective(), progress)?;
    let record = record(&study, &set_up, seed)?;
    progress.note(&announce::of_program(&study, &set_up.cells, &store_path));
    let schedule = set_up.metering.as_ref().map(Metering::schedule);
    let times = RunTime::of_study(&study, &set_up.cells, schedule)?;
    if let Some(estimate) = blocks::estimate(&study, &set_up.cells, times.map(|time| time.all())) {
        progress.note(&estimate);
    }
    let store = Store::create(&store_path, &record)?;
    set_up.measure((&study, store), (&host, seed), decide, progress, stop)
}

/// Continues a run.
pub(crate) fn resume(
    (study, record, mut store): (Study, StudyRecord, Store),
    options: &Options,
    decide: Decide,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Summary, RunError> {
    let host = Host::new();
    let target = Some(PathBuf::from(&record.target)).filter(|path| !path.as_os_str().is_empty());
    let own = own_program(&study, target, options)?;
    let cells = checked_cells(&study)?;
    let mut locker = Locker::new(&host).allowing(options.drives.as_ref());
    let locks = lock(&mut locker, &own, options, progress, stop)?;
    let meters = open_meters((&study, &cells), None, options, progress, stop)?;
    continued::compare_machines(&record, &machine::facts(&own.devices()), &mut store, progress)?;
    let places = (&host, &locks);
    let set_up = ProgramSetUp::new(&study, own, meters, places, locks.is_effective(), progress)?;
    store.add_event(unix_ns(), "resumed", "")?;
    blocks::repeat(&mut store, &study, set_up.cells.len(), &options.again)?;
    set_up.measure((&study, store), (&host, record.seed), decide, progress, stop)
}

/// The program of a study, with the target that it is told.
pub(crate) fn own_program(
    study: &Study,
    target: Option<PathBuf>,
    options: &Options,
) -> Result<OwnProgram, RunError> {
    match &study.program {
        Some(keys) => OwnProgram::of(keys, target, options),
        None => RunError::refuse("the study has no [program]"),
    }
}

fn checked_cells(study: &Study) -> Result<Vec<Cell>, RunError> {
    let (cells, _) = plan::cells(study, &[])?;
    limits::check_numbers(&cells)?;
    Ok(cells)
}

/// Locks the disks below the target, once they are free if the run may wait for that.
fn lock(
    locker: &mut Locker,
    own: &OwnProgram,
    options: &Options,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Arc<DeviceLocks>, RunError> {
    match options.wait {
        Some(limit) => locker.wait_for(&own.devices(), limit, progress, stop),
        None => locker.take(&own.devices(), progress),
    }
}

/// The record of the study.
fn record(study: &Study, set_up: &ProgramSetUp, seed: u64) -> Result<StudyRecord, RunError> {
    let mut provenance = machine::facts(set_up.access.devices());
    provenance.extend(set_up.metering.as_ref().map(Metering::provenance).unwrap_or_default());
    Ok(StudyRecord {
        name: study.name.clone(),
        text: study.to_store()?,
        seed,
        planned_trials: set_up.cells.len() as u64 * u64::from(study.replicates.fewest()),
        target: set_up.own.target.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
        provenance,
        emulated: machine::emulator().map(str::to_owned),
        sequential: study.replicates.sequential()?,
        ..StudyRecord::default()
    })
}
