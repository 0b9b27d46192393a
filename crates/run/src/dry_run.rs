//! What a run would do, found by the steps of the run itself up to its first change: no store and no named
//! file is made, nothing is locked, set, taken or written, and no other host is asked.

use crate::begin::open_meters;
use crate::context::RunContext;
use crate::error::RunError;
use crate::fabric::{check_options, target_name};
use crate::limits;
use crate::options::Options;
use crate::pace::{self, RunTime};
use crate::precondition;
use crate::sequence::{Planned, Ready, Source};
use crate::target::TargetSpec;
use crate::trials::needed_settings;
use iopj_core::{IoPath, Length, Setting, Transport, Workload};
use iopj_engine::PciAddress;
use iopj_engine::target::{TakePlan, plan_taking};
use iopj_fabric::Destination;
use iopj_host::settings::{Change, DeviceLocks, SettingsError};
use iopj_metering::Progress;
use iopj_metering::energy::Metering;
use iopj_probe::Nics;
use iopj_record::Unavailable;
use iopj_study::plan::{self, Cell, LeftOut};
use iopj_study::{Fabric, Study};
use std::path::{Path, PathBuf};
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
    /// The drive of this host that it would overwrite beside one of another.
    pub overwritten_here: Option<PathBuf>,
    /// What it would read and write.
    pub bytes: PlannedBytes,
    /// The settings that it would change.
    pub changes: Vec<Change>,
    /// Settings that it could not change, with the reason: their trials would fail.
    pub unchangeable: Vec<String>,
    /// Over fabrics, what it would do on the target host and with its drive, one line each.
    pub fabric: Vec<String>,
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
    study: Study,
    options: &Options,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<RunPlan, RunError> {
    let mut context = RunContext::new(options, progress, stop);
    let planned = Planned::of(Source::Look(study), &mut context)?;
    match &planned.study.fabric {
        Some(keys) if planned.study.program.is_none() => over_fabrics(&planned.study, keys, &mut context),
        _ => on_this_host(planned.open(&mut context)?.ready(&mut context)?, options),
    }
}

/// What a run that is ready would do. What a program reads and writes is its own to know.
fn on_this_host(ready: Ready, options: &Options) -> Result<RunPlan, RunError> {
    let (study, access) = (&ready.study, &ready.drives.access);
    let foresee = |(setting, value): (Setting, String)| access.settings.foresee(setting, &value);
    let needed = ready.cells.iter().flat_map(|cell| needed_settings(access, cell));
    let (changes, unchangeable) = changes(needed.map(foresee));
    let is_program = study.program.is_some();
    let takes = |_: &PciAddress| ready.cells.iter().any(|cell| access.takes(&cell.path));
    let taken = options.take_device.filter(|address| !is_program && takes(address));
    let (made, len) = (ready.would_make.unwrap_or(0), access.extent().len);
    Ok(RunPlan {
        study: study.name.clone(),
        target: access.path().to_owned(),
        overwritten: access.overwritten().map(ToOwned::to_owned),
        taken: taken.map(|address| plan_taking(address, options.i_know_no_iommu)).transpose()?,
        replicates: [study.replicates.fewest(), study.replicates.most()],
        times: ready.times()?,
        meters: ready.metering.as_ref().map(Metering::names).unwrap_or_default(),
        bytes: if is_program { PlannedBytes::default() } else { bytes(study, &ready.cells, made, len) },
        changes,
        unchangeable,
        fabric: Vec::new(),
        overwritten_here: None,
        store: ready.store_path,
        cells: ready.cells,
        left_out: ready.left_out,
        unavailable: ready.unavailable,
    })
}

/// What a run over fabrics would do, as far as it shows without the target host, which is not asked.
fn over_fabrics(study: &Study, keys: &Fabric, context: &mut RunContext<'_>) -> Result<RunPlan, RunError> {
    let writes = study.why_written()?.is_some();
    check_options(study, keys, context.options, writes)?;
    keys.target_host.as_deref().map(str::parse::<Destination>).transpose()?;
    let of_host = |here| TargetSpec::here(study, context.options, here)?.look();
    let here = keys.here.as_deref().map(of_host).transpose()?;
    let made = if keys.folder.is_some() { study.file_size()? } else { 0 };
    let store = iopj_store::new_path(&study.name, context.options.store.as_deref())?;
    let kernel: Vec<IoPath> = IoPath::all().into_iter().filter(|path| !path.is_bypass()).collect();
    let (cells, left_out) = plan::cells(study, &kernel)?;
    limits::check_settings(&cells, rustix::process::geteuid().is_root(), false)?;
    let meters = open_meters(study, &cells, None, context)?;
    let metering = Metering::new(meters, study, pace::span(&cells, study), context.progress)?;
    let times = RunTime::of_study(study, &cells, metering.as_ref().map(Metering::schedule))?;
    let mut settings = context.host.settings(&[], &DeviceLocks::none());
    let nics = keys.address()?.map(Nics::towards).transpose()?;
    settings.may_change_nics(&nics.as_ref().map(Nics::names).unwrap_or_default());
    let of_host = cells.iter().filter_map(|cell| cell.fabric.as_ref()).flat_map(|cell| &cell.host);
    let (changes, unchangeable) = changes(of_host.map(|(setting, value)| settings.foresee(*setting, value)));
    Ok(RunPlan {
        study: study.name.clone(),
        store,
        target: target_name(keys).into(),
        overwritten: (writes && keys.folder.is_none()).then(|| target_name(keys).into()),
        taken: None,
        left_out,
        unavailable: Vec::new(),
        replicates: [study.replicates.fewest(), study.replicates.most()],
        times,
        meters: metering.as_ref().map(Metering::names).unwrap_or_default(),
        bytes: bytes(study, &cells, made, 0),
        changes,
        unchangeable,
        fabric: on_both_hosts(keys, &cells, writes),
        overwritten_here: here.and_then(|(spec, ..)| spec.overwritten().map(ToOwned::to_owned)),
        cells,
    })
}

/// What a run would do on the target host and with its drive, and with a drive of this host.
fn on_both_hosts(keys: &Fabric, cells: &[Cell], writes: bool) -> Vec<String> {
    let host = keys.target_host.as_deref().unwrap_or_default();
    let mut lines = Vec::new();
    let mut add = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for cell in cells {
        let Some(fabric) = &cell.fabric else { continue };
        let transport = fabric.transport;
        let place = keys.address.as_deref().unwrap_or_default();
        add(match (transport, &keys.nqn) {
            (Transport::Local, _) => format!("local: iopj on {host} does the I/O on the drive itself"),
            (Transport::Here, _) => {
                let drive = keys.here.as_deref().unwrap_or(Path::new("")).display();
                let loses = if writes { ", which will be overwritten" } else { "" };
                format!("here: this host does the I/O on its own {drive}{loses}")
            }
            (Transport::Loop, _) => {
                format!("loop: iopj on {host} exports the drive to itself and does the I/O")
            }
            (_, Some(nqn)) => format!("{transport}: connected to {nqn} at {place} port {}", keys.port),
            _ => format!("{transport}: {host} exports the drive at {place} port {}", keys.port),
        });
        for (setting, value) in &fabric.target {
            add(format!("{setting} = {value} on {host}, put back at the end"));
        }
        for (setting, value) in &cell.settings {
            add(format!("{setting} = {value} on the drive as it is seen, put back at the end"));
        }
    }
    if keys.baseline {
        add(format!(
            "the network by itself before each block: something on {host} listens for the moment of each test"
        ));
    }
    add("the target host was not asked: its drive, its settings, its meters and which paths work show when \
         the run begins"
        .to_owned());
    lines
}

/// The bytes of a run's fewest blocks, where a file of `made` bytes is made and the target has `len`.
fn bytes(study: &Study, cells: &[Cell], made: u64, len: u64) -> PlannedBytes {
    let blocks = study.replicates.fewest();
    let mut bytes = PlannedBytes { made, ..PlannedBytes::default() };
    for Cell { workload, .. } in cells {
        match known(workload) {
            Some([read, written]) => {
                bytes.read = bytes.read.saturating_add(read.saturating_mul(blocks.into()));
                bytes.written = bytes.written.saturating_add(written.saturating_mul(blocks.into()));
            }
            None => {
                bytes.unknown[0] += u64::from(blocks) * u64::from(workload.reads());
                bytes.unknown[1] += u64::from(blocks) * u64::from(workload.writes());
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
    if workload.trace.is_some() {
        return None;
    }
    let all = ios.saturating_mul(u64::from(workload.numjobs)).saturating_mul(u64::from(workload.bs));
    let reads = match (workload.rw.reads(), workload.rw.writes()) {
        (true, true) => (u128::from(all) * u128::from(workload.rwmixread) / 100) as u64,
        (true, false) => all,
        _ => 0,
    };
    Some([reads, all - reads])
}

/// The changes of settings, each once, and why others cannot be made.
fn changes(foreseen: impl Iterator<Item = Result<Vec<Change>, SettingsError>>) -> (Vec<Change>, Vec<String>) {
    let (mut changes, mut failed): (Vec<Change>, Vec<String>) = (Vec::new(), Vec::new());
    for due in foreseen {
        match due {
            Ok(due) => due.into_iter().for_each(|change| {
                if !changes.contains(&change) {
                    changes.push(change);
                }
            }),
            Err(error) => {
                let error = error.to_string();
                if !failed.contains(&error) {
                    failed.push(error);
                }
            }
        }
    }
    (changes, failed)
}
