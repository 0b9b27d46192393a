//! What a run would do, found by the steps of the run itself up to its first change: no store and no named
//! file is made, nothing is locked, set, taken or written.

use crate::energy::Metering;
use crate::error::RunError;
use crate::options::Options;
use crate::pace::RunTime;
use crate::paths;
use crate::precondition;
use crate::progress::Progress;
use crate::runner::{SetUp, Tools, all_cells, open_meters, place};
use crate::target::Access;
use crate::trials::needed_settings;
use iopj_core::{Length, Workload};
use iopj_engine::target::{TakePlan, plan_taking};
use iopj_host::settings::{Change, DeviceLocks, Host};
use iopj_store::Unavailable;
use iopj_study::Study;
use iopj_study::plan::{self, Cell, LeftOut};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// What a run would do.
#[derive(Debug)]
pub struct RunPlan {
    /// The study's name.
    pub study: String,
    /// The store that it would make.
    pub store: PathBuf,
    /// Its target.
    pub target: PathBuf,
    /// The device that it would overwrite.
    pub overwritten: Option<PathBuf>,
    /// The drive that it would take from its driver.
    pub taken: Option<TakePlan>,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// Combinations that are no cells.
    pub left_out: LeftOut,
    /// Paths that do not work on the target.
    pub unavailable: Vec<Unavailable>,
    /// The least and the greatest number of replicates, each a block of all cells.
    pub replicates: [u32; 2],
    /// The time of both.
    pub times: [RunTime; 2],
    /// The meters.
    pub meters: Vec<String>,
    /// What it would read and write.
    pub bytes: PlannedBytes,
    /// The settings that it would change.
    pub changes: Vec<Change>,
    /// Settings that it could not change, with the reason: their trials would fail.
    pub unchangeable: Vec<String>,
}

/// What the least number of replicates reads and writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedBytes {
    /// The file that is made.
    pub made: u64,
    /// Reads of trials that end after a number of I/Os.
    pub read: u64,
    /// Their writes.
    pub written: u64,
    /// Trials that read, or write, as much as they can in their time.
    pub unknown: [u64; 2],
    /// What preconditioning writes, in words.
    pub preconditioning: Option<String>,
}

/// What [`crate::run`] would do with a study. The meters are read once. A file without a name takes the place
/// of one that would be made.
///
/// # Errors
/// Whatever would refuse the run before its first trial, as far as it shows without a change.
pub fn dry_run(
    mut study: Study,
    options: &Options,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<RunPlan, RunError> {
    let (host, locks) = (Host::new(), DeviceLocks::none());
    let tools = Tools::find(&study, options, progress)?;
    let all = all_cells(&study)?;
    if study.fabric.is_some() {
        return RunError::refuse(
            "--dry-run looks at a drive of this host, and the study's [fabric] names one of another: leave \
             it out",
        );
    }
    let (store, spec) = place(&study, options, None)?;
    let meters = open_meters((&study, &all), options, progress, stop)?;
    drop(all);
    let (spec, target, made) = spec.look()?;
    let (path, overwritten) = (spec.path().to_owned(), spec.overwritten().map(ToOwned::to_owned));
    let mut access = Access::new(&host, &locks, target, spec, tools.taking)?.planned(made);
    let unavailable = paths::settle(&mut study, &mut access, tools.fio.as_ref(), stop)?;
    let is_root = rustix::process::geteuid().is_root();
    let set_up = SetUp::new(&study, &tools, meters, (None, access), is_root, progress)?;
    let SetUp { cells, access, metering, left_out, .. } = &set_up;
    let replicates = [study.replicates.fewest(), study.replicates.most()];
    let schedule = metering.as_ref().map(Metering::schedule);
    let times = RunTime::of_study(&study, cells, schedule)?;
    let (changes, unchangeable) = changes(cells, access);
    let takes = options.take_device.filter(|_| cells.iter().any(|cell| cell.path.is_bypass()));
    Ok(RunPlan {
        store,
        target: path,
        overwritten,
        taken: takes.map(|address| plan_taking(address, options.i_know_no_iommu)).transpose()?,
        left_out: *left_out,
        unavailable,
        replicates,
        times,
        meters: metering.as_ref().map(Metering::names).unwrap_or_default(),
        bytes: bytes(&study, cells, (made.unwrap_or(0), access.extent().len)),
        changes,
        unchangeable,
        cells: cells.clone(),
        study: study.name.clone(),
    })
}

/// The bytes of a run's fewest blocks, where a file of `made` bytes is made and the target has `len`.
fn bytes(study: &Study, cells: &[Cell], (made, len): (u64, u64)) -> PlannedBytes {
    let blocks = study.replicates.fewest();
    let mut bytes = PlannedBytes { made, ..PlannedBytes::default() };
    for Cell { workload, .. } in cells {
        match known(workload) {
            Some([read, written]) => {
                bytes.read = bytes.read.saturating_add(read.saturating_mul(blocks.into()));
                bytes.written = bytes.written.saturating_add(written.saturating_mul(blocks.into()));
            }
            None => {
                bytes.unknown[0] += u64::from(blocks) * u64::from(workload.rw.reads());
                bytes.unknown[1] += u64::from(blocks) * u64::from(workload.rw.writes());
            }
        }
    }
    let order = plan::order(&precondition::classes(study, cells), blocks, study.seed.unwrap_or_default());
    bytes.preconditioning = precondition::announcement(study, cells, &order, len);
    bytes
}

/// What a window of this workload reads and writes; `None` if only time ends it.
fn known(workload: &Workload) -> Option<[u64; 2]> {
    let Length::Ios(ios) = workload.length else { return None };
    let all = ios.saturating_mul(u64::from(workload.numjobs)).saturating_mul(u64::from(workload.bs));
    let reads = match (workload.rw.reads(), workload.rw.writes()) {
        (true, true) => (u128::from(all) * u128::from(workload.rwmixread) / 100) as u64,
        (true, false) => all,
        _ => 0,
    };
    Some([reads, all - reads])
}

/// The settings that the trials change, each change once, and those that cannot be changed here.
fn changes(cells: &[Cell], access: &Access<'_>) -> (Vec<Change>, Vec<String>) {
    let (mut changes, mut failed): (Vec<Change>, Vec<String>) = (Vec::new(), Vec::new());
    for cell in cells {
        for (setting, value) in needed_settings(&access.settings, cell) {
            match access.settings.foresee(setting, &value) {
                Ok(due) => {
                    due.into_iter().for_each(|change| {
                        if !changes.contains(&change) {
                            changes.push(change);
                        }
                    });
                }
                Err(error) => {
                    let error = error.to_string();
                    if !failed.contains(&error) {
                        failed.push(error);
                    }
                }
            }
        }
    }
    (changes, failed)
}
