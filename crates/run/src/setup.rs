//! From a study and the command line to something that can run: the target, the paths that work on
//! it, the cells, and every check that can be made before anything is measured.

use crate::access::{self, Access, Extent};
use crate::profile::Profiler;
use crate::programs;
use crate::runner::{Options, Progress, RunError};
use crate::trial;
use iopj_core::Setting;
use iopj_core::{IoPath, format_bytes};
use iopj_engine::check::Availability;
use iopj_engine::target::{FileId, TargetKind, WritePermission, make_file, make_file_as, plan_taking};
use iopj_engine::{MAX_IODEPTH, Target};
use iopj_host::machine;
use iopj_load::fio::Fio;
use iopj_load::native::{self, JobSpec};
use iopj_store::{Generator, Unavailable};
use iopj_study::plan::{self, Cell};
use iopj_study::{Axis, Study, parse_paths};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The most jobs that a trial may have.
const MAX_NUMJOBS: u32 = 4096;

/// A file that this run has made; removed when it is dropped, unless it is kept.
#[derive(Debug)]
pub(crate) struct MadeFile {
    path: PathBuf,
    pub(crate) keep: bool,
}

impl MadeFile {
    /// A file that an earlier run of the same study made and kept.
    pub(crate) fn of_earlier_run(path: PathBuf) -> MadeFile {
        MadeFile { path, keep: true }
    }
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        if !self.keep {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn usage<T>(message: impl Into<String>) -> Result<T, RunError> {
    Err(RunError::Usage(message.into()))
}

/// The folder that holds `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The disks below a path, as far as they can be told: a device's own, or those of a file's file system.
pub(crate) fn devices_below(path: &Path) -> Vec<String> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let Ok(metadata) = std::fs::metadata(path).or_else(|_| std::fs::metadata(folder_of(path))) else {
        return Vec::new();
    };
    let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    iopj_engine::target::leaf_devices(Path::new("/sys"), device).unwrap_or_default()
}

/// Why the study writes its target, where it does.
pub(crate) fn writes(study: &Study) -> Result<Option<&'static str>, RunError> {
    for matrix in &study.workloads {
        if matrix.workloads()?.iter().any(|workload| workload.rw.writes()) {
            return Ok(Some("the study writes"));
        }
    }
    Ok(study.precondition.then_some("the study has `precondition = true`, which writes the whole target"))
}

/// Opens the target that was named, for writing only if the study writes.
pub(crate) fn open_target(
    path: &Path,
    writes: Option<&str>,
    options: &Options,
    id: Option<&FileId>,
) -> Result<Target, RunError> {
    if let (Some(device), None) = (&options.destroy_data, writes) {
        return usage(format!(
            "--destroy-data names {}, but the study writes nothing: leave the option out",
            device.display()
        ));
    }
    let target = match (&options.destroy_data, writes) {
        (_, None) => Target::open(path),
        (Some(device), Some(_)) => {
            Target::open_for_writing(path, WritePermission::DestroyData { device, i_know: options.i_know })
        }
        (None, Some(why)) => {
            let target = Target::open(path)?;
            let (Some(own), TargetKind::File) = (id.or(target.file_id()).copied(), target.kind()) else {
                let remedy = match (options.target.is_some(), target.kind()) {
                    (true, _) => {
                        "leave --target out, or name a whole device to be overwritten by --destroy-data as \
                         well"
                    }
                    // Whoever resumes names the store alone.
                    (false, TargetKind::File) => "start a new store without --target",
                    (false, _) => "name it by --destroy-data again if it may be overwritten",
                };
                return usage(format!(
                    "{why}, and {} is not a file that iopj made: {remedy}",
                    path.display()
                ));
            };
            Target::open_for_writing(path, WritePermission::OwnFile { id: &own })
        }
    }?;
    if let (Some(id), Some(own)) = (id, target.file_id())
        && id != own
    {
        return usage(format!(
            "{} is not the file that the store names: its id is {own}, not {id}",
            path.display()
        ));
    }
    Ok(target)
}

/// Makes the file that a study without a target runs on, in the folder of its store.
pub(crate) fn make_target(
    path: &Path,
    known: Option<FileId>,
    study: &Study,
    progress: &mut dyn Progress,
    stop: &AtomicBool,
) -> Result<(MadeFile, FileId), RunError> {
    let size = study.file_size()?;
    // One that is whole and in no store: its run died before it made the store.
    if let Ok(left) = Target::open(path)
        && let (None, Some(id), true) = (known, left.file_id(), left.data_len() == size)
    {
        return Ok((MadeFile { path: path.to_owned(), keep: false }, *id));
    }
    let mut report = |done: u64| {
        progress.file(path, done, size);
        !stop.load(Ordering::Relaxed)
    };
    let made = match known {
        Some(id) => make_file_as(id, path, size, &mut report).map(|()| id),
        None => make_file(path, size, &mut report),
    };
    let id = made.map_err(|error| match stop.load(Ordering::Relaxed) {
        true => RunError::Interrupted,
        false => error.into(),
    })?;
    Ok((MadeFile { path: path.to_owned(), keep: false }, id))
}

/// Refuses to take a drive that the study has no use for, or that may not be taken: before the target is
/// opened, for that holds a drive which is written.
pub(crate) fn check_taking(study: &Study, options: &Options) -> Result<(), RunError> {
    let Some(address) = options.take_device else { return Ok(()) };
    let mut all = study.workloads.iter().map(|matrix| matrix.paths.as_ref().unwrap_or(&study.paths));
    let may_bypass = |paths: &Axis<String>| {
        Ok::<bool, RunError>(parse_paths(paths)?.is_none_or(|paths| paths.iter().any(IoPath::is_bypass)))
    };
    if all.try_fold(false, |found, paths| may_bypass(paths).map(|may| found | may))? {
        plan_taking(address, options.i_know_no_iommu)?;
        return Ok(());
    }
    usage(format!(
        "--take-device names {address}, but the study has no path of kernel bypass (nvme-user, spdk): leave \
         the option out"
    ))
}

/// The paths that a study names; where it says `available` all, those of kernel bypass only where a drive is
/// named for them.
fn named_paths(paths: &Axis<String>, options: &Options) -> Result<Vec<IoPath>, RunError> {
    let available =
        || IoPath::all().into_iter().filter(|path| options.take_device.is_some() || !path.is_bypass());
    Ok(parse_paths(paths)?.unwrap_or_else(|| available().collect()))
}

/// Takes the paths that do not work on the target out of the study, and names those that do where it says
/// `available`.
pub(crate) fn settle_paths(
    study: &mut Study,
    access: &mut Access<'_>,
    fio: Option<&Fio>,
    options: &Options,
    stop: &AtomicBool,
) -> Result<Vec<Unavailable>, RunError> {
    let mut asked = Vec::new();
    for paths in study.workloads.iter().map(|matrix| matrix.paths.as_ref().unwrap_or(&study.paths)) {
        asked.extend(named_paths(paths, options)?);
    }
    asked.extend(named_paths(&study.paths, options)?);
    let states = access::availabilities(access, fio, asked, stop)?;
    let mut unavailable: Vec<Unavailable> = Vec::new();
    let mut works = |path: IoPath| match states.get(&path) {
        Some(Availability::Available { .. }) => true,
        Some(Availability::Unavailable { reason, remedy }) => {
            if !unavailable.iter().any(|other| other.path == path) {
                unavailable.push(Unavailable { path, reason: reason.clone(), remedy: remedy.clone() });
            }
            false
        }
        None => false,
    };
    let mut settle = |paths: &Axis<String>| -> Result<Axis<String>, RunError> {
        let paths = named_paths(paths, options)?;
        Ok(Axis::Many(paths.into_iter().filter(|path| works(*path)).map(|path| path.to_string()).collect()))
    };
    study.paths = settle(&study.paths)?;
    for matrix in &mut study.workloads {
        if let Some(paths) = &matrix.paths {
            matrix.paths = Some(settle(paths)?);
        }
    }
    let none = |paths: &Axis<String>| matches!(paths, Axis::Many(paths) if paths.is_empty());
    study.workloads.retain(|matrix| !none(matrix.paths.as_ref().unwrap_or(&study.paths)));
    if study.workloads.is_empty() {
        let target = access.path().display();
        return usage(format!("none of the study's paths works on {target}: {}", reasons(&unavailable)));
    }
    if none(&study.paths) {
        // Every remaining workload has paths of its own.
        study.paths = study.workloads[0].paths.clone().unwrap_or_else(|| study.paths.clone());
    }
    Ok(unavailable)
}

/// Why paths do not work, each reason once behind the paths that have it.
fn reasons(unavailable: &[Unavailable]) -> String {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for Unavailable { path, reason, remedy } in unavailable {
        let why = if remedy.is_empty() { reason.clone() } else { format!("{reason} (remedy: {remedy})") };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, paths)) => paths.push(path.to_string()),
            None => reasons.push((why, vec![path.to_string()])),
        }
    }
    reasons.iter().map(|(why, paths)| format!("{}: {why}", paths.join(", "))).collect::<Vec<_>>().join("; ")
}

/// The fio to use, if the study uses one.
pub(crate) fn find_fio(study: &Study, options: &Options) -> Result<Option<Fio>, RunError> {
    let named = study.fio.clone().unwrap_or_default();
    if let Some(program) =
        named.program.as_ref().or(named.spdk_plugin.as_ref()).filter(|_| !options.allow_exec)
    {
        return usage(programs::not_allowed(program));
    }
    if !study.generators()?.contains(&Generator::Fio) {
        return Ok(None);
    }
    let fio = match named.program {
        Some(program) => Fio::at(program),
        None => Fio::find(),
    };
    let fio = fio.map_err(|error| RunError::Usage(error.to_string()))?;
    Ok(Some(match named.spdk_plugin {
        Some(plugin) => fio.with_spdk_plugin(plugin),
        None => fio,
    }))
}

/// What samples the trials, if the study asks for profiles.
pub(crate) fn profiler(study: &Study, progress: &mut dyn Progress) -> Result<Option<Profiler>, RunError> {
    if !study.profile {
        return Ok(None);
    }
    let profiler = Profiler::new().map_err(|error| {
        RunError::Usage(format!("the study asks for profiles, but there can be none: {error}"))
    })?;
    progress.note(&profiler.describe());
    Ok(Some(profiler))
}

/// Holds a study's numbers against their limits, before a target is opened or made.
pub(crate) fn check_limits(cells: &[Cell]) -> Result<(), RunError> {
    for workload in cells.iter().map(|cell| &cell.workload) {
        if workload.iodepth > MAX_IODEPTH {
            return usage(format!(
                "iodepth {} is beyond the limit of {MAX_IODEPTH} (io_uring's own): lower it",
                workload.iodepth
            ));
        }
        if workload.numjobs > MAX_NUMJOBS {
            return usage(format!(
                "numjobs {} is beyond the limit of {MAX_NUMJOBS}: lower it",
                workload.numjobs
            ));
        }
        if workload.iodepth_batch_submit > workload.iodepth
            || workload.iodepth_batch_complete_min > workload.iodepth
        {
            return usage(format!(
                "a batch is larger than iodepth {}: lower the batch, or raise iodepth",
                workload.iodepth
            ));
        }
    }
    Ok(())
}

/// Holds every cell against the target and the machine: sizes, limits, memory, engines; those last that need
/// the device taken. Leaves the target on the kernel's side.
pub(crate) fn check_cells(
    cells: &[Cell],
    access: &mut Access<'_>,
    fio: Option<&Fio>,
) -> Result<(), RunError> {
    // A ring has no word for the delay, though the kernel may let it rule there too: the study may set it and
    // see.
    let own_delay = |cell: &&Cell| {
        let is_set = cell.settings.contains_key(&Setting::IoPollDelay);
        is_set && cell.path.ring().is_none() && cell.path.io_poll_delay().is_some()
    };
    if let Some(cell) = cells.iter().find(own_delay) {
        return usage(format!(
            "the setting io_poll_delay contradicts {}, which sets it itself: leave the setting out, and \
             write a fixed sleep as posix-sio/syscall/hybrid:50us",
            cell.path
        ));
    }
    let mut opened = HashSet::new();
    let mut cells: Vec<&Cell> = cells.iter().collect();
    cells.sort_by_key(|cell| cell.path.is_bypass());
    for cell in cells {
        check_fit(cell, access.path(), &access.extent())?;
        if (&cell.generator, &cell.path) == (&Generator::Native, &IoPath::Spdk) {
            return usage(format!("{} is run by fio's plugin alone: set generator = \"fio\"", cell.path));
        }
        if let (Generator::Fio, Some(fio)) = (cell.generator, fio) {
            fio.supports(&cell.path).map_err(|error| RunError::Usage(error.to_string()))?;
            continue;
        }
        let workload = &cell.workload;
        if !opened.insert((cell.path, workload.bs, workload.iodepth, workload.numjobs)) {
            continue;
        }
        access.reach(cell.path).map_err(RunError::Usage)?;
        let target = access.target().map_err(RunError::Usage)?;
        check_transfer(cell, target)?;
        let open = trial::open_engine(cell, target);
        let spec = JobSpec { is_trial: false, ..JobSpec::of_trial(workload, target, 0, &open) };
        native::preflight(&spec).map_err(|error| {
            let jobs =
                if workload.numjobs > 1 { format!(" in {} jobs", workload.numjobs) } else { String::new() };
            RunError::Usage(format!(
                "{} cannot be set up at iodepth {}{jobs}: {error}",
                cell.path, workload.iodepth
            ))
        })?;
    }
    access.reach_kernel().map(drop).map_err(RunError::Usage)
}

/// Without the kernel nobody splits an I/O that is longer than the drive takes.
fn check_transfer(cell: &Cell, target: &Target) -> Result<(), RunError> {
    let Some(most) = target.controller().map(|controller| controller.identity().max_transfer_bytes) else {
        return Ok(());
    };
    if cell.workload.bs <= most {
        return Ok(());
    }
    usage(format!(
        "bs {} is more than the {} that {} takes in a command: lower bs for {}",
        format_bytes(cell.workload.bs.into()),
        format_bytes(most.into()),
        target.path().display(),
        cell.path
    ))
}

fn check_fit(cell: &Cell, path: &Path, extent: &Extent) -> Result<(), RunError> {
    let workload = &cell.workload;
    let (bs, len) = (u64::from(workload.bs), extent.len);
    let (name, block) = (path.display(), extent.logical_block);
    let size = |bytes| format_bytes(bytes);
    if !workload.bs.is_multiple_of(block) {
        return usage(format!(
            "bs {} is not a multiple of {name}'s logical block of {block} bytes: choose a multiple of it",
            size(bs)
        ));
    }
    let needed = bs.saturating_mul(if workload.rw.is_random() { 1 } else { workload.numjobs.into() });
    if len < needed {
        return usage(format!(
            "{name} holds {len} bytes, which is less than {needed}: one block of {} for each job's region; \
             lower bs or numjobs, or name a larger target",
            size(bs)
        ));
    }
    if extent.kind == TargetKind::File && !len.is_multiple_of(bs) {
        return usage(format!(
            "{name} holds {len} bytes, which is not a multiple of bs {}: lengthen or cut the file, or \
             choose another bs",
            size(bs)
        ));
    }
    if let Some(cpu) = native::cpus::forbidden(&workload.cpus_allowed) {
        return usage(format!("cpus_allowed names cpu {cpu}, which this process may not use: leave it out"));
    }
    let buffers = bs.next_multiple_of(4096) * u64::from(workload.iodepth) * u64::from(workload.numjobs);
    if let Some(memory) = machine::available_memory().filter(|memory| buffers > memory / 2) {
        return usage(format!(
            "buffers of {} (bs x iodepth x numjobs) are more than half of the {} of memory available: lower \
             one of the three",
            size(buffers),
            size(memory >> 20 << 20)
        ));
    }
    Ok(())
}

/// The cells of a study whose paths are settled.
pub(crate) fn cells(study: &Study, progress: &mut dyn Progress) -> Result<Vec<Cell>, RunError> {
    let (cells, left_out) = plan::cells(study, &[])?;
    if left_out > 0 {
        progress.note(&format!(
            "{left_out} combinations left out: posix-sio is synchronous and has no iodepth above 1"
        ));
    }
    Ok(cells)
}
