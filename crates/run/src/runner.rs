//! Runs a study: each step takes what the one before it made, up to the first trial.

use crate::adaptive::Adaptive;
use crate::announce::Announced;
use crate::begin::{open_meters, random_seed};
use crate::blocks::{self, Decide};
use crate::error::{RunError, TrialError};
use crate::fabric::{FabricSide, check_options};
use crate::locks::Locker;
use crate::new_store::provenance_of;
use crate::options::Options;
use crate::own_program::figure_of;
use crate::pace::{self, RunTime};
use crate::profile::Profiler;
use crate::target::{Access, MadeFile, OpenTarget, Taking, TargetSpec};
use crate::trial::TrialRunner;
use crate::trials::{Summary, Trials};
use crate::{continued, limits, new_store, paths, program_run, programs};
use iopj_core::{IoPath, Transport};
use iopj_host::machine;
use iopj_host::settings::{DeviceLocks, Host};
use iopj_load::fio::Fio;
use iopj_metering::energy::{self, FarHost, Metering, Meters};
use iopj_metering::{Progress, unix_ns};
use iopj_record::StudyRecord;
use iopj_store::Store;
use iopj_study::plan::{self, Cell, LeftOut};
use iopj_study::{Study, StudyError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Reads a study file's text as [`Study::parse`] does, and checks what its meters' tables say. No meter is
/// opened.
///
/// # Errors
/// What is wrong, with the remedy.
pub fn read_study(text: &str, source: &str) -> Result<Study, StudyError> {
    let study = Study::parse(text, source)?;
    energy::meter_specs(study.meters.as_ref(), source)?;
    let there = study.fabric.as_ref().and_then(|fabric| fabric.meters.as_ref());
    energy::target_meter_specs(there, source)?;
    study.program.as_ref().map_or(Ok(()), |program| figure_of(program).map(drop))?;
    Ok(study)
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
    study.check_allowed(options.allow)?;
    if study.program.is_some() {
        return program_run::run(study, options, decide, progress, stop);
    }
    let host = Host::new();
    let mut locker = Locker::new(&host).allowing(options.drives.as_ref());
    locker.put_back_left_behind(progress)?;
    let all = all_cells(&study)?;
    let tools = Tools::find((&study, &all), options, &BTreeMap::new(), progress)?;
    let mut here = open_here((&study, options), &host, &mut locker, progress, stop)?;
    let mut side = FabricSide::start(&study, options, &host, stop)?;
    let opened = open_first(&study, side.as_ref(), &all, options, progress, stop)?;
    let over_fabrics = first_connection(&study, options, &mut side, progress)?;
    let (mut store_path, mut spec) = place(&study, options, over_fabrics.clone())?;
    let waited = spec.wait(&mut locker, options.wait, progress, stop)?;
    if waited.is_some() {
        // The run that it waited for may have begun after this one, and have taken the name.
        (store_path, spec) = place(&study, options, over_fabrics)?;
    }
    let meters = opened.map_or_else(|| open_meters((&study, &all), None, options, progress, stop), Ok)?;
    drop(all);
    let is_made = spec.is_made();
    if is_made {
        say_before_the_file_is_made((&study, options), (&host, &tools), &meters, progress, stop)?;
    }
    // A made file goes before its locks: what is bound last is dropped first.
    let OpenTarget { spec, target, locks, made } = spec.open((&mut locker, waited), progress, stop)?;
    let mut access = Access::new(&host, &locks, target, spec, tools.taking)?.with_fabric(side);
    let unavailable = paths::settle(&mut study, &mut access, tools.engines(), stop)?;
    if !unavailable.is_empty() {
        progress.unavailable(&unavailable);
    }
    here.as_mut().map_or(Ok(()), |here| paths::check_here(&study, here, tools.engines(), stop))?;
    let seed = study.seed.map_or_else(random_seed, Ok)?;
    study.seed = Some(seed);
    let may_change = locks.is_effective();
    // Over fabrics the drive has another name at each connection, and so another lock.
    let _locks = study.fabric.is_none().then_some(locks);
    let set_up = SetUp::new(&study, &tools, meters, (made, access, here), may_change, progress)?;
    let SetUp { cells, access, here, made, metering, .. } = &set_up;
    let (planned, drives) = ((cells.len(), seed), (access, here.as_ref()));
    let mut record =
        new_store::record(&study, planned, drives, made.is_some(), metering.as_ref(), unavailable)?;
    record.provenance.extend(tools.adaptive.provenance());
    record.warnings.extend(tools.adaptive.warnings());
    say_what_begins(&set_up, (&store_path, &record), is_made, progress)?;
    let store = Store::create(&store_path, &record)?;
    for access in [Some(&set_up.access), set_up.here.as_ref()].into_iter().flatten() {
        new_store::warn_of_shared_disk(&store_path, options, access.target()?, progress);
    }
    set_up.measure(store, (&host, seed), decide, progress, stop)
}

/// Continues a run: only the trials that are missing, and the blocks that are measured again.
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
    store.check_all()?;
    let mut locker = Locker::new(&host).allowing(options.drives.as_ref());
    locker.put_back_left_behind(progress)?;
    let record = store.study()?;
    let study = read_study(&record.text, &store_path.display().to_string())?;
    study.check_allowed(options.allow)?;
    study.check_tokens()?;
    if study.program.is_some() {
        return program_run::resume((study, record, store), options, decide, progress, stop);
    }
    if study.precondition {
        continued::check_reads(&store.trials()?)?;
    }
    let all = all_cells(&study)?;
    let tools = Tools::find((&study, &all), options, &record.provenance, progress)?;
    let here = open_here((&study, options), &host, &mut locker, progress, stop)?;
    let mut side = FabricSide::start(&study, options, &host, stop)?;
    let opened = open_first(&study, side.as_ref(), &all, options, progress, stop)?;
    let spec = match first_connection(&study, options, &mut side, progress)? {
        Some(spec) => spec,
        None => TargetSpec::of_record(&study, options, &record, store_path)?,
    };
    let waited = spec.wait(&mut locker, options.wait, progress, stop)?;
    let meters = opened.map_or_else(|| open_meters((&study, &all), None, options, progress, stop), Ok)?;
    // A made file goes before its locks: what is bound last is dropped first.
    let OpenTarget { spec, target, locks, made } = spec.open((&mut locker, waited), progress, stop)?;
    let facts = provenance_of(&target, side.as_ref(), here.as_ref());
    continued::compare_machines(&record, &facts, &mut store, progress)?;
    let access = Access::new(&host, &locks, target, spec, tools.taking)?.with_fabric(side);
    if all.iter().any(|cell| cell.path.auto().is_some()) {
        continued::check_sides(&store.trials()?, &all, access.may_take())?;
    }
    let may_change = locks.is_effective();
    let _locks = study.fabric.is_none().then_some(locks);
    let set_up = SetUp::new(&study, &tools, meters, (made, access, here), may_change, progress)?;
    store.add_event(unix_ns(), "resumed", "")?;
    blocks::repeat(&mut store, &study, set_up.cells.len(), &options.again)?;
    set_up.measure(store, (&host, record.seed), decide, progress, stop)
}

/// The drive of this host beside the target host's, in a study over fabrics that has one: before anything is
/// asked there.
fn open_here<'a>(
    (study, options): (&Study, &Options),
    host: &Host,
    locker: &mut Locker,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Option<Access>, RunError> {
    let Some(keys) = &study.fabric else { return Ok(None) };
    let Some(device) = &keys.here else { return Ok(None) };
    check_options(study, keys, options, study.why_written()?.is_some())?;
    let spec = TargetSpec::here(study, options, device)?;
    let waited = spec.wait(locker, options.wait, progress, stop)?;
    let OpenTarget { spec, target, locks, .. } = spec.open((locker, waited), progress, stop)?;
    let mut access = Access::new(host, &locks, target, spec, None)?;
    access.watch_alone(Transport::Here);
    Ok(Some(access))
}

/// The cells of a study of which every path works. Their numbers are within their limits.
pub(crate) fn all_cells(study: &Study) -> Result<Vec<Cell>, RunError> {
    let (cells, _) = plan::cells(study, &IoPath::all())?;
    limits::check_numbers(&cells)?;
    Ok(cells)
}

/// The store of a new run and its target, which over fabrics is known already.
pub(crate) fn place(
    study: &Study,
    options: &Options,
    over_fabrics: Option<TargetSpec>,
) -> Result<(PathBuf, TargetSpec), RunError> {
    study.file_size()?;
    let store_path = iopj_store::new_path(&study.name, options.store.as_deref())?;
    let spec = match over_fabrics {
        Some(spec) => spec,
        None => TargetSpec::new(study, options, &store_path)?,
    };
    Ok((store_path, spec))
}

/// Says what the run will do, unless that was said before its file was made; how many blocks it may have; and
/// what the target's figures suffer from.
fn say_what_begins(
    set_up: &SetUp<'_>,
    (store, record): (&Path, &StudyRecord),
    is_said: bool,
    progress: &mut dyn Progress,
) -> Result<(), RunError> {
    let SetUp { study, cells, access, metering, .. } = set_up;
    let times = RunTime::of_study(study, cells, metering.as_ref().map(Metering::schedule))?;
    if !is_said {
        let target = access.path();
        let announced = Announced { study, cells, times, store, target, made: None };
        progress.note(&announced.in_words());
    }
    let estimate = blocks::estimate(study, cells, times.map(|time| time.all()));
    estimate.iter().for_each(|estimate| progress.note(estimate));
    for warning in &record.warnings {
        progress.note(&format!("warning: {warning}"));
    }
    Ok(())
}

/// Says what the run will do, as it is found on a file without a name in the place of the one that it makes.
fn say_before_the_file_is_made(
    (study, options): (&Study, &Options),
    (host, tools): (&Host, &Tools),
    meters: &Meters,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<(), RunError> {
    let (store, spec) = place(study, options, None)?;
    let (spec, stand_in, made) = spec.look()?;
    let path = spec.path().to_owned();
    let locks = DeviceLocks::none();
    let mut access = Access::new(&host, &locks, stand_in, spec, tools.taking)?.planned(made);
    let mut study = study.clone();
    paths::settle(&mut study, &mut access, tools.engines(), stop)?;
    let (cells, _) = plan::cells(&study, &[])?;
    let schedule = meters.schedule(&study, pace::span(&cells, &study))?;
    let times = RunTime::of_study(&study, &cells, Some(&schedule))?;
    let (study, cells, store, target) = (&study, &cells[..], store.as_path(), path.as_path());
    progress.note(&Announced { study, cells, times, store, target, made }.in_words());
    Ok(())
}

/// The drive of a study over fabrics, connected by the first of its transports that works.
fn first_connection(
    study: &Study,
    options: &Options,
    side: &mut Option<FabricSide>,
    progress: &mut dyn Progress,
) -> Result<Option<TargetSpec>, RunError> {
    let (Some(fabric), Some(side)) = (&study.fabric, side) else { return Ok(None) };
    let (mut failures, mut tried) = (Vec::new(), Vec::new());
    // The last failure is the run's own; those before it are said.
    let mut note = |failures: &[(Transport, TrialError)]| {
        failures
            .iter()
            .for_each(|(transport, error)| progress.note(&format!("warning: {transport}: {error}")));
    };
    for cell in fabric.cells()?.into_iter().filter(|cell| cell.transport.is_remote()) {
        if tried.contains(&cell.transport) {
            continue;
        }
        tried.push(cell.transport);
        match side.connect(&cell) {
            Ok(device) => {
                note(&failures);
                side.may_be_waited_for();
                return Ok(Some(TargetSpec::over_fabrics(study, options, &device, side.made())?));
            }
            Err(error) => failures.push((cell.transport, error)),
        }
    }
    let last = failures.pop();
    note(&failures);
    Err(last.map_or_else(
        || RunError::Refused("[fabric] has no transport over a wire".to_owned()),
        |(_, error)| error.into(),
    ))
}

/// The meters of a study over fabrics, on both hosts: before anything is exported or connected. Others are
/// opened once their drive is free.
fn open_first(
    study: &Study,
    side: Option<&FabricSide>,
    cells: &[Cell],
    options: &Options,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<Option<Meters>, RunError> {
    let open = |side| open_meters((study, cells), Some(side as &dyn FarHost), options, &mut *progress, stop);
    side.map(open).transpose()
}

/// What a run uses besides its engines, and what the user allows it.
pub(crate) struct Tools {
    pub(crate) fio: Option<Fio>,
    profiler: Option<Profiler>,
    pub(crate) taking: Option<Taking>,
    pub(crate) adaptive: Adaptive,
}

impl Tools {
    /// Finds what the study needs, and refuses a drive to take that it has no use for. Policies that are
    /// `known`, by the facts of a store that is continued, are not read anew.
    pub(crate) fn find(
        (study, cells): (&Study, &[Cell]),
        options: &Options,
        known: &BTreeMap<String, String>,
        progress: &mut dyn Progress,
    ) -> Result<Tools, RunError> {
        let fio = programs::find_fio(study)?;
        let profiler = Profiler::of(study, progress)?;
        let taking = Taking::of(options);
        taking.map_or(Ok(()), |taking| taking.check(study))?;
        let adaptive = Adaptive::of(cells, known, options.anyway)?;
        Ok(Tools { fio, profiler, taking, adaptive })
    }

    /// What engines need besides their target.
    pub(crate) fn engines(&self) -> (Option<&Fio>, &Adaptive) {
        (self.fio.as_ref(), &self.adaptive)
    }
}

/// A run that lacks only its store. Dropped in this order: the made file goes after what has it open.
pub(crate) struct SetUp<'a> {
    study: &'a Study,
    tools: &'a Tools,
    pub(crate) metering: Option<Metering>,
    pub(crate) cells: Vec<Cell>,
    /// Combinations that are no cells.
    pub(crate) left_out: LeftOut,
    pub(crate) access: Access,
    /// A drive of this host beside the target host's.
    here: Option<Access>,
    made: Option<MadeFile>,
}

impl<'a> SetUp<'a> {
    /// Checks that the cells of a study whose paths are settled work here.
    pub(crate) fn new(
        study: &'a Study,
        tools: &'a Tools,
        meters: Meters,
        (made, mut access, mut here): (Option<MadeFile>, Access, Option<Access>),
        may_change: bool,
        progress: &mut dyn Progress,
    ) -> Result<SetUp<'a>, RunError> {
        let (cells, left_out) = plan::cells(study, &[])?;
        let (own, others): (Vec<&Cell>, Vec<&Cell>) = cells.iter().partition(|cell| cell.is_here());
        limits::check_cells(others, &mut access, tools.engines())?;
        if let Some(here) = &mut here {
            limits::check_cells(own, here, tools.engines())?;
        }
        limits::check_settings(&cells, may_change, access.may_take())?;
        limits::check_corunner(&cells, tools.profiler.is_some(), machine::emulator())?;
        let metering = Metering::new(meters, study, pace::span(&cells, study), progress)?;
        Ok(SetUp { study, tools, metering, cells, left_out, access, here, made })
    }

    /// Measures the trials that the store lacks.
    fn measure(
        self,
        store: Store,
        (host, seed): (&Host, u64),
        decide: Decide,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Summary, RunError> {
        // What is bound last is dropped first.
        let SetUp { study, tools, made, here, access, cells, metering, left_out } = self;
        for (count, why) in left_out.reasons() {
            progress.note(&format!("{count} combinations left out: {why}"));
        }
        let runner = TrialRunner::new(host, tools.engines(), tools.profiler.as_ref(), study, seed, stop)?;
        Trials { runner, study, cells, store, made, access, here, metering, decide }.run(progress)
    }
}
