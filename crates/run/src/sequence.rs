//! A run as one sequence: planned, opened, ready, measured. Each is made from the one before it, and what
//! must be dropped later is a later field. A run, one that is continued, and a dry run are this sequence with
//! three sources. Whether iopj's engines do the I/O or a program does, on a drive of this host or of another,
//! is decided within a step.

use crate::announce::{self, Announced};
use crate::begin::{checked_cells, first_connection, open_meters, random_seed, read_study};
use crate::blocks::{self, Decide};
use crate::context::RunContext;
use crate::error::RunError;
use crate::fabric::{FabricSide, check_options};
use crate::locks::Locker;
use crate::new_store::{self, provenance_of};
use crate::pace::{self, RunTime};
use crate::target::{Access, Drives, OpenTarget, TargetSpec};
use crate::tools::Tools;
use crate::trial::TrialRunner;
use crate::trials::{Summary, Trials};
use crate::{continued, limits, paths};
use iopj_core::Transport;
use iopj_host::machine;
use iopj_host::settings::DeviceLocks;
use iopj_metering::energy::{FarHost, Metering, Meters};
use iopj_metering::unix_ns;
use iopj_record::{StudyRecord, Unavailable};
use iopj_store::Store;
use iopj_study::plan::{self, Cell, LeftOut};
use iopj_study::{SteadyStateKeys, Study};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a run is made from.
pub(crate) enum Source {
    /// A study, from its beginning.
    Study(Study),
    /// A store, of which the missing trials are measured.
    Store(PathBuf),
    /// A study that is only looked at: nothing is locked, made, set or taken, and no other host is asked.
    Look(Study),
}

/// What a run that is continued has already.
struct Kept {
    record: StudyRecord,
    store: Store,
}

impl Kept {
    /// Opens the store, and puts back what dead runs left changed. What the store's study may do was asked
    /// when it began, and is asked again.
    fn open(
        path: &Path,
        locker: &mut Locker,
        context: &mut RunContext<'_>,
    ) -> Result<(Study, Kept), RunError> {
        let store = Store::open_for_run(path)?;
        store.check_all()?;
        locker.put_back_left_behind(context.progress)?;
        let record = store.study()?;
        let study = read_study(&record.text, &path.display().to_string())?;
        study.check_allowed(context.options.allow)?;
        study.check_tokens()?;
        if study.program.is_none() && study.precondition {
            continued::check_reads(&store.trials()?)?;
        }
        Ok((study, Kept { record, store }))
    }
}

/// A run whose study is read and whose tools are found. Nothing is open yet but a store that is continued.
pub(crate) struct Planned {
    pub(crate) study: Study,
    /// The cells of which every path works: what the study asks for at most.
    pub(crate) cells: Vec<Cell>,
    tools: Tools,
    kept: Option<Kept>,
    is_look: bool,
    locker: Locker,
}

impl Planned {
    pub(crate) fn of(source: Source, context: &mut RunContext<'_>) -> Result<Planned, RunError> {
        let mut locker = Locker::new(&context.host).allowing(context.options.drives.as_ref());
        let is_look = matches!(source, Source::Look(_));
        let (study, kept) = match source {
            Source::Study(study) | Source::Look(study) => {
                study.check_allowed(context.options.allow)?;
                if !is_look && study.program.is_none() {
                    locker.put_back_left_behind(context.progress)?;
                }
                (study, None)
            }
            Source::Store(path) => {
                let (study, kept) = Kept::open(&path, &mut locker, context)?;
                (study, Some(kept))
            }
        };
        let (cells, tools) = if study.program.is_some() {
            let target = match &kept {
                None => context.options.target.clone(),
                Some(Kept { record, .. }) => {
                    Some(&record.target).filter(|it| !it.is_empty()).map(PathBuf::from)
                }
            };
            let tools = Tools::of_program(&study, target, context)?;
            (checked_cells(&study)?, tools)
        } else {
            let cells = checked_cells(&study)?;
            let nothing = BTreeMap::new();
            let known = kept.as_ref().map_or(&nothing, |kept| &kept.record.provenance);
            let tools = Tools::find(&study, &cells, known, context)?;
            (cells, tools)
        };
        Ok(Planned { study, cells, tools, kept, is_look, locker })
    }

    /// Locks and opens what the run works on, and its meters.
    pub(crate) fn open(self, context: &mut RunContext<'_>) -> Result<Opened, RunError> {
        if self.tools.program.is_some() { self.open_program(context) } else { self.open_drives(context) }
    }

    /// A program opens its target itself; only the disks below that are locked.
    fn open_program(mut self, context: &mut RunContext<'_>) -> Result<Opened, RunError> {
        let program = self.tools.program.as_ref();
        let devices = program.map(|program| program.devices()).unwrap_or_default();
        let spec = TargetSpec::of_program(program.and_then(|program| program.target.as_deref()));
        let locks = match (self.is_look, context.options.wait) {
            (true, _) => DeviceLocks::none(),
            (false, Some(limit)) => self.locker.wait_for(&devices, limit, context.progress, context.stop)?,
            (false, None) => self.locker.take(&devices, context.progress)?,
        };
        let store_path = self.store_path(context)?;
        let meters = self.open_meters(None, context)?;
        self.compare_machines(&machine::facts(&devices), context)?;
        let access = Access::of_program(&context.host, &locks, devices, spec)?;
        let may_change = self.may_change(&locks);
        let drives = Drives { access, here: None, made: None, _locks: Some(locks) };
        Ok(Opened { planned: self, store_path, meters, may_change, is_said: false, would_make: None, drives })
    }

    fn open_drives(mut self, context: &mut RunContext<'_>) -> Result<Opened, RunError> {
        let here = if self.is_look { None } else { self.open_here(context)? };
        let mut side = FabricSide::start(&self.study, context.options, &context.host, context.stop)?;
        // Over fabrics on both hosts, before anything is exported or connected; else once the drive is free.
        let far = side.as_ref().map(|side| self.open_meters(Some(side), context)).transpose()?;
        let over_fabrics = first_connection(&self.study, side.as_mut(), context)?;
        let (mut store_path, mut spec) = self.place(over_fabrics.clone(), context)?;
        let mut waited = None;
        if !self.is_look {
            waited = spec.wait(&mut self.locker, context.options.wait, context.progress, context.stop)?;
        }
        if waited.is_some() && self.kept.is_none() {
            // The run that it waited for may have begun after this one, and have taken the name.
            (store_path, spec) = self.place(over_fabrics, context)?;
        }
        let meters = match far {
            Some(meters) => meters,
            None => self.open_meters(None, context)?,
        };
        if self.is_look {
            return self.look(store_path, spec, meters, context);
        }
        let is_said = self.kept.is_none() && spec.is_made();
        if is_said {
            self.say_before_the_file_is_made(&meters, context)?;
        }
        let OpenTarget { spec, target, locks, made } =
            spec.open(&mut self.locker, waited, context.progress, context.stop)?;
        self.compare_machines(&provenance_of(&target, side.as_ref(), here.as_ref()), context)?;
        let access = Access::new(&context.host, &locks, target, spec, self.tools.taking)?.with_fabric(side);
        if let Some(kept) = &self.kept
            && self.cells.iter().any(|cell| cell.path.auto().is_some())
        {
            continued::check_sides(&kept.store.trials()?, &self.cells, access.may_take())?;
        }
        let may_change = self.may_change(&locks);
        let locks = self.study.fabric.is_none().then_some(locks);
        let drives = Drives { access, here, made, _locks: locks };
        Ok(Opened { planned: self, store_path, meters, may_change, is_said, would_make: None, drives })
    }

    /// The target as a dry run needs it. What stands in for a file that would be made has no name.
    fn look(
        self,
        store_path: PathBuf,
        spec: TargetSpec,
        meters: Meters,
        context: &mut RunContext<'_>,
    ) -> Result<Opened, RunError> {
        let (spec, target, would_make) = spec.look()?;
        let locks = DeviceLocks::none();
        let access = Access::new(&context.host, &locks, target, spec, self.tools.taking)?;
        let may_change = self.may_change(&locks);
        let drives = Drives { access: access.planned(would_make), here: None, made: None, _locks: None };
        Ok(Opened { planned: self, store_path, meters, may_change, is_said: true, would_make, drives })
    }

    /// Whether settings may be changed; for a dry run, whether the run might.
    fn may_change(&self, locks: &Arc<DeviceLocks>) -> bool {
        if self.is_look { rustix::process::geteuid().is_root() } else { locks.is_effective() }
    }

    fn open_meters(
        &self,
        far: Option<&FabricSide>,
        context: &mut RunContext<'_>,
    ) -> Result<Meters, RunError> {
        open_meters(&self.study, &self.cells, far.map(|side| side as &dyn FarHost), context)
    }

    /// The machine and the drive of a run that is continued must be those of its store.
    fn compare_machines(
        &mut self,
        facts: &BTreeMap<String, String>,
        context: &mut RunContext<'_>,
    ) -> Result<(), RunError> {
        let Some(Kept { record, store }) = &mut self.kept else { return Ok(()) };
        continued::compare_machines(record, facts, store, context.progress)
    }

    fn store_path(&self, context: &RunContext<'_>) -> Result<PathBuf, RunError> {
        match &self.kept {
            Some(kept) => Ok(kept.store.path().to_owned()),
            None => Ok(iopj_store::new_path(&self.study.name, context.options.store.as_deref())?),
        }
    }

    /// The store and the target, which over fabrics is known already.
    fn place(
        &self,
        over_fabrics: Option<TargetSpec>,
        context: &RunContext<'_>,
    ) -> Result<(PathBuf, TargetSpec), RunError> {
        if self.kept.is_none() {
            self.study.file_size()?;
        }
        let path = self.store_path(context)?;
        let (study, options) = (&self.study, context.options);
        let spec = match (over_fabrics, &self.kept) {
            (Some(spec), _) => spec,
            (None, Some(kept)) => TargetSpec::of_record(study, options, &kept.record, &path)?,
            (None, None) => TargetSpec::new(study, options, &path)?,
        };
        Ok((path, spec))
    }

    /// The drive of this host beside the target host's, in a study over fabrics that has one: before anything
    /// is asked there.
    fn open_here(&mut self, context: &mut RunContext<'_>) -> Result<Option<Access>, RunError> {
        let (study, options) = (&self.study, context.options);
        let Some(keys) = &study.fabric else { return Ok(None) };
        let Some(device) = &keys.here else { return Ok(None) };
        check_options(study, keys, options, study.why_written()?.is_some())?;
        let spec = TargetSpec::here(study, options, device)?;
        let waited = spec.wait(&mut self.locker, options.wait, context.progress, context.stop)?;
        let OpenTarget { spec, target, locks, .. } =
            spec.open(&mut self.locker, waited, context.progress, context.stop)?;
        let mut access = Access::new(&context.host, &locks, target, spec, None)?;
        access.watch_alone(Transport::Here);
        Ok(Some(access))
    }

    /// Says what the run will do, as it is found on a file without a name in the place of the one that it
    /// makes.
    fn say_before_the_file_is_made(
        &self,
        meters: &Meters,
        context: &mut RunContext<'_>,
    ) -> Result<(), RunError> {
        let (store, spec) = self.place(None, context)?;
        let (spec, stand_in, made) = spec.look()?;
        let path = spec.path().to_owned();
        let locks = DeviceLocks::none();
        let access = Access::new(&context.host, &locks, stand_in, spec, self.tools.taking)?;
        let mut study = self.study.clone();
        paths::settle(&mut study, &mut access.planned(made), self.tools.needs(), context.stop)?;
        let (cells, _) = plan::cells(&study, &[])?;
        let schedule = meters.schedule(&study, pace::span(&cells, &study))?;
        let times = RunTime::of_study(&study, &cells, Some(&schedule))?;
        let (study, cells, store, target) = (&study, &cells[..], store.as_path(), path.as_path());
        context.progress.note(&Announced { study, cells, times, store, target, made }.in_words());
        Ok(())
    }
}

/// A run whose drives are locked and open, and whose meters are read.
pub(crate) struct Opened {
    planned: Planned,
    store_path: PathBuf,
    meters: Meters,
    may_change: bool,
    /// What the run does has been said.
    is_said: bool,
    /// The size of the file that a run would make which is only looked at.
    would_make: Option<u64>,
    drives: Drives,
}

impl Opened {
    /// Settles the paths, and checks that every cell works here.
    pub(crate) fn ready(mut self, context: &mut RunContext<'_>) -> Result<Ready, RunError> {
        let unavailable = self.settle(context)?;
        // In reverse: what comes first is dropped last.
        let Opened { mut drives, would_make, is_said, may_change, meters, store_path, planned } = self;
        let Planned { mut study, tools, kept, is_look, .. } = planned;
        let seed = match &kept {
            Some(kept) => kept.record.seed,
            None if is_look => study.seed.unwrap_or_default(),
            None => *study.seed.insert(study.seed.map_or_else(random_seed, Ok)?),
        };
        let (cells, left_out) = plan::cells(&study, &[])?;
        if tools.program.is_none() {
            let (own, others): (Vec<&Cell>, Vec<&Cell>) = cells.iter().partition(|cell| cell.is_here());
            limits::check_cells(others, &mut drives.access, tools.needs())?;
            if let Some(here) = &mut drives.here {
                limits::check_cells(own, here, tools.needs())?;
            }
        }
        limits::check_settings(&cells, may_change, drives.access.may_take())?;
        if tools.program.is_none() {
            limits::check_corunner(&cells, tools.profiler.is_some(), machine::emulator())?;
        }
        let metering = Metering::new(meters, &study, pace::span(&cells, &study), context.progress)?;
        let kept = kept.map(|kept| kept.store);
        Ok(Ready {
            study,
            seed,
            tools,
            cells,
            left_out,
            unavailable,
            store_path,
            is_said,
            would_make,
            kept,
            metering,
            drives,
        })
    }

    /// Takes the paths that do not work out of a new run's study; those of one that is continued are settled.
    fn settle(&mut self, context: &mut RunContext<'_>) -> Result<Vec<Unavailable>, RunError> {
        let Planned { study, tools, kept, is_look, .. } = &mut self.planned;
        if kept.is_some() || tools.program.is_some() {
            return Ok(Vec::new());
        }
        let unavailable = paths::settle(study, &mut self.drives.access, tools.needs(), context.stop)?;
        if !unavailable.is_empty() && !*is_look {
            context.progress.unavailable(&unavailable);
        }
        if let Some(here) = &mut self.drives.here {
            paths::check_here(study, here, tools.needs(), context.stop)?;
        }
        Ok(unavailable)
    }
}

/// A run that lacks only its trials, and the store if it is new.
pub(crate) struct Ready {
    pub(crate) study: Study,
    seed: u64,
    tools: Tools,
    pub(crate) cells: Vec<Cell>,
    /// Combinations that are no cells.
    pub(crate) left_out: LeftOut,
    /// Paths that do not work on the target.
    pub(crate) unavailable: Vec<Unavailable>,
    pub(crate) store_path: PathBuf,
    is_said: bool,
    pub(crate) would_make: Option<u64>,
    /// The store of a run that is continued.
    kept: Option<Store>,
    pub(crate) metering: Option<Metering>,
    pub(crate) drives: Drives,
}

impl Ready {
    /// Measures the trials that the store lacks. `decide` looks at them where their number is decided while
    /// the run goes on.
    pub(crate) fn measure(
        mut self,
        decide: Decide,
        context: &mut RunContext<'_>,
    ) -> Result<Summary, RunError> {
        let store = match self.kept.take() {
            Some(mut store) => {
                store.add_event(unix_ns(), "resumed", "")?;
                blocks::repeat(&mut store, &self.study, self.cells.len(), &context.options.again)?;
                store
            }
            None => self.new_store(context)?,
        };
        for (count, why) in self.left_out.reasons() {
            context.progress.note(&format!("{count} combinations left out: {why}"));
        }
        let Ready { drives, metering, cells, tools, seed, study, .. } = self;
        let rule = if tools.program.is_some() { SteadyStateKeys::off() } else { study.steadystate()? };
        let runner = TrialRunner::new(&context.host, tools, seed, rule, context.stop);
        Trials { runner, study, cells, store, decide, metering, drives }.run(context.progress)
    }

    /// Says what begins, and makes its store.
    fn new_store(&mut self, context: &mut RunContext<'_>) -> Result<Store, RunError> {
        let record = self.record()?;
        self.say_what_begins(&record, context)?;
        let store = Store::create(&self.store_path, &record)?;
        if self.tools.program.is_none() {
            for access in self.drives.all() {
                let (target, options) = (access.target()?, context.options);
                new_store::warn_of_shared_disk(&self.store_path, options, target, context.progress);
            }
        }
        Ok(store)
    }

    fn record(&self) -> Result<StudyRecord, RunError> {
        let planned = self.cells.len() as u64 * u64::from(self.study.replicates.fewest());
        let record = match &self.tools.program {
            Some(program) => new_store::of_program(program.target.as_deref(), self.drives.access.devices()),
            None => new_store::of_drives(&self.study, &self.drives)?,
        };
        let mut provenance = record.provenance;
        provenance.extend(self.metering.as_ref().map(Metering::provenance).unwrap_or_default());
        provenance.extend(self.tools.adaptive.provenance());
        Ok(StudyRecord {
            name: self.study.name.clone(),
            text: self.study.to_store()?,
            seed: self.seed,
            planned_trials: planned,
            provenance,
            warnings: record.warnings.into_iter().chain(self.tools.adaptive.warnings()).collect(),
            unavailable: self.unavailable.clone(),
            sequential: self.study.replicates.sequential()?,
            ..record
        })
    }

    /// The time of the fewest and of the most blocks.
    pub(crate) fn times(&self) -> Result<[RunTime; 2], RunError> {
        Ok(RunTime::of_study(&self.study, &self.cells, self.metering.as_ref().map(Metering::schedule))?)
    }

    /// Says what the run will do, unless that was said before its file was made; how many blocks it may have;
    /// and what the target's figures suffer from.
    fn say_what_begins(&self, record: &StudyRecord, context: &mut RunContext<'_>) -> Result<(), RunError> {
        let Ready { study, cells, .. } = self;
        let (store, target, times) = (self.store_path.as_path(), self.drives.access.path(), self.times()?);
        if self.tools.program.is_some() {
            context.progress.note(&announce::of_program(study, cells, store));
        } else if !self.is_said {
            let announced = Announced { study, cells, times, store, target, made: None };
            context.progress.note(&announced.in_words());
        }
        if let Some(estimate) = blocks::estimate(study, cells, times.map(|time| time.all())) {
            context.progress.note(&estimate);
        }
        for warning in &record.warnings {
            context.progress.note(&format!("warning: {warning}"));
        }
        Ok(())
    }
}
