//! Checks of a study's cells before anything is measured: numbers, sizes, memory, engines, settings.

use crate::engines::{Needs, open_engine};
use crate::error::RunError;
use crate::target::{Access, Extent};
use crate::traces::Traces;
use iopj_core::{BlockSizes, Generator, IoPath, Setting, Workload, format_bytes};
use iopj_engine::target::TargetKind;
use iopj_engine::{MAX_IODEPTH, Target};
use iopj_host::machine;
use iopj_load::corunner;
use iopj_load::fio::{self, Fio};
use iopj_load::native::{self, JobSpec};
use iopj_study::plan::Cell;
use std::collections::HashSet;
use std::path::Path;

/// The most jobs that a trial may have.
const MAX_NUMJOBS: u32 = 4096;

/// Checks a study's numbers against their limits, before a target is opened or made.
pub(crate) fn check_numbers(cells: &[Cell]) -> Result<(), RunError> {
    for Cell { workload, generator, .. } in cells.iter().flat_map(Cell::kinds) {
        let (workload, generator) = (&workload, &generator);
        if *generator == Generator::Native {
            native::check_offsets(workload).or_else(|error| RunError::refuse(error.to_string()))?;
        }
        if workload.iodepth > MAX_IODEPTH {
            return RunError::refuse(format!(
                "iodepth {} is beyond the limit of {MAX_IODEPTH} (io_uring's own): lower it",
                workload.iodepth
            ));
        }
        if workload.numjobs > MAX_NUMJOBS {
            return RunError::refuse(format!(
                "numjobs {} is beyond the limit of {MAX_NUMJOBS}: lower it",
                workload.numjobs
            ));
        }
        if workload.iodepth_batch_submit > workload.iodepth
            || workload.iodepth_batch_complete_min > workload.iodepth
        {
            return RunError::refuse(format!(
                "a batch is larger than iodepth {}: lower the batch, or raise iodepth",
                workload.iodepth
            ));
        }
    }
    Ok(())
}

/// Checks that every cell fits the target and the machine: sizes, limits, memory, engines. Cells that need
/// the device taken come last. Leaves the target on the kernel's side.
pub(crate) fn check_cells(
    mut cells: Vec<&Cell>,
    access: &mut Access,
    needs: Needs<'_>,
) -> Result<(), RunError> {
    cells.iter().try_for_each(|cell| check_beside(cell, access.may_take()))?;
    let (mut opened, traces) = (HashSet::new(), Traces::default());
    cells.sort_by_key(|cell| access.takes(&cell.path));
    for cell in &cells.into_iter().flat_map(Cell::kinds).collect::<Vec<_>>() {
        check_delay(cell)?;
        check_fit(cell, access.path(), &access.extent())?;
        if (&cell.generator, &cell.path) == (&Generator::Native, &IoPath::Spdk) {
            return RunError::refuse(format!(
                "{} is run by fio's plugin alone: set generator = \"fio\"",
                cell.path
            ));
        }
        if let (Generator::Fio, Some(fio)) = (cell.generator, needs.fio) {
            check_fio(cell, fio)?;
            continue;
        }
        let workload = &cell.workload;
        let Workload { bs, iodepth, numjobs, fsync, fdatasync, .. } = workload;
        let flushes = (*fsync > 0, *fdatasync > 0);
        if !opened.insert((cell.path, bs, iodepth, numjobs, flushes, &workload.trace)) {
            continue;
        }
        if access.takes(&cell.path) && access.is_planned() {
            continue;
        }
        access.reach(cell.path)?;
        let target = access.target()?;
        check_transfer(cell, target)?;
        let open = open_engine(cell, target, needs.adaptive, 0);
        let len = access.extent().len;
        let spec = JobSpec { len, ..JobSpec::on(workload, target, 0, &open) };
        let replay = traces.replay(workload, target, &spec)?;
        let spec = JobSpec { replay: replay.as_deref(), ..spec };
        native::preflight(&spec).map_err(|error| {
            let jobs =
                if workload.numjobs > 1 { format!(" in {} jobs", workload.numjobs) } else { String::new() };
            RunError::Refused(format!(
                "{} cannot be set up at iodepth {}{jobs}: {error}",
                cell.path, workload.iodepth
            ))
        })?;
    }
    access.reach_kernel()?;
    Ok(())
}

/// Refuses a poll delay that the study sets against the path's own. A path of a ring does not name the delay,
/// though some kernels apply it there too: the study may set it.
fn check_delay(cell: &Cell) -> Result<(), RunError> {
    let is_set = cell.settings.contains_key(&Setting::IoPollDelay);
    if !is_set || cell.path.ring().is_some() || cell.path.io_poll_delay().is_none() {
        return Ok(());
    }
    RunError::refuse(format!(
        "the setting io_poll_delay contradicts {}, which sets it itself: leave the setting out, and write a \
         fixed sleep as posix-sio/syscall/hybrid:50us",
        cell.path
    ))
}

/// Refuses jobs of several kinds that cannot be measured together.
fn check_beside(cell: &Cell, may_take: bool) -> Result<(), RunError> {
    let Some(jobs) = cell.workload.beside.first() else { return Ok(()) };
    let refuse = |why: String| RunError::refuse(format!("`beside` ({jobs}): {why}"));
    if cell.generator == Generator::Fio {
        return refuse("fio runs jobs of one kind for iopj: leave generator = \"fio\" out".to_owned());
    }
    if cell.fabric.is_some() {
        return refuse(
            "what several kinds of jobs do on two hosts is not told apart: measure them on a drive of this \
             host, without [fabric]"
                .to_owned(),
        );
    }
    if let Some(kind) = cell.kinds().into_iter().find(|kind| kind.path.is_bypass_on(may_take)) {
        return refuse(format!(
            "{} takes the whole drive, and the jobs beside could not reach it: name a path of the kernel{}",
            kind.path,
            if kind.path.is_bypass() { "" } else { ", or leave --take-device out" }
        ));
    }
    let wants = |kind: &Cell| kind.path.io_poll_delay().map(|delay| (kind.path, delay));
    let mut delays = cell.kinds().into_iter().filter_map(|kind| wants(&kind));
    if let Some((path, delay)) = delays.next()
        && let Some((other, another)) = delays.find(|(_, another)| *another != delay)
    {
        return refuse(format!(
            "{path} needs the disk's io_poll_delay to be {delay}, and {other} needs {another}: take paths \
             that agree"
        ));
    }
    Ok(())
}

/// Refuses what fio cannot do.
fn check_fio(cell: &Cell, fio: &Fio) -> Result<(), RunError> {
    fio.supports(&cell.path)?;
    cell.workload.open.as_ref().map_or(Ok(()), fio::rate::check)?;
    fio::sizes::check(&cell.path, &cell.workload)?;
    if cell.workload.trace.is_some() {
        return RunError::refuse("fio replays no trace for iopj: leave generator = \"fio\" out");
    }
    Ok(())
}

/// Refuses an I/O longer than one command of the drive: without the kernel nothing splits it.
fn check_transfer(cell: &Cell, target: &Target) -> Result<(), RunError> {
    let Some(most) = target.controller().map(|controller| controller.identity().max_transfer_bytes) else {
        return Ok(());
    };
    if cell.workload.bs <= most {
        return Ok(());
    }
    RunError::refuse(format!(
        "bs {} is more than the {} that {} takes in a command: lower bs for {}",
        format_bytes(cell.workload.bs.into()),
        format_bytes(most.into()),
        target.path().display(),
        cell.path
    ))
}

fn check_fit(cell: &Cell, path: &Path, extent: &Extent) -> Result<(), RunError> {
    let workload = &cell.workload;
    // A trace is put on the target, and says what does not fit.
    if workload.trace.is_none() {
        check_size(cell, path, extent)?;
    }
    if let Some(cpu) = native::cpus::forbidden(&workload.cpus_allowed) {
        return RunError::refuse(format!(
            "cpus_allowed names cpu {cpu}, which this process may not use: leave it out"
        ));
    }
    if let Some(corunner) = &workload.corunner {
        corunner::check(corunner, &workload.cpus_allowed)
            .or_else(|error| RunError::refuse(error.to_string()))?;
    }
    let buffers = u64::from(workload.bs).next_multiple_of(4096)
        * u64::from(workload.iodepth)
        * u64::from(workload.numjobs);
    if let Some(memory) = machine::available_memory().filter(|memory| buffers > memory / 2) {
        return RunError::refuse(format!(
            "buffers of {} (bs x iodepth x numjobs) are more than half of the {} of memory available: lower \
             one of the three",
            format_bytes(buffers),
            format_bytes(memory >> 20 << 20)
        ));
    }
    Ok(())
}

/// Refuses I/Os that the target does not hold.
fn check_size(cell: &Cell, path: &Path, extent: &Extent) -> Result<(), RunError> {
    let workload = &cell.workload;
    let (bs, len) = (u64::from(workload.bs), extent.len);
    let (name, block) = (path.display(), extent.logical_block);
    let size = |bytes| format_bytes(bytes);
    if !workload.bs.is_multiple_of(block) {
        return RunError::refuse(format!(
            "bs {} is not a multiple of {name}'s logical block of {block} bytes: choose a multiple of it",
            size(bs)
        ));
    }
    let mut sizes = workload.sizes.iter().flat_map(BlockSizes::all);
    if let Some(odd) = sizes.find(|size| !size.is_multiple_of(block)) {
        return RunError::refuse(format!(
            "bssplit: {} is not a multiple of {name}'s logical block of {block} bytes",
            size(odd.into())
        ));
    }
    let needed = bs.saturating_mul(if workload.rw.is_random() { 1 } else { workload.numjobs.into() });
    if len < needed {
        return RunError::refuse(format!(
            "{name} holds {len} bytes, which is less than {needed}: one block of {} for each job's region; \
             lower bs or numjobs, or name a larger target",
            size(bs)
        ));
    }
    if extent.kind == TargetKind::File && !len.is_multiple_of(bs) {
        return RunError::refuse(format!(
            "{name} holds {len} bytes, which is not a multiple of bs {}: lengthen or cut the file, or \
             choose another bs",
            size(bs)
        ));
    }
    Ok(())
}

/// Refuses a co-runner where instructions are counted, by a profile or under emulation: its own would count
/// as the I/O's.
pub(crate) fn check_corunner(cells: &[Cell], profiles: bool, emulator: Option<&str>) -> Result<(), RunError> {
    let Some(corunner) = cells.iter().find_map(|cell| cell.workload.corunner.as_ref()) else { return Ok(()) };
    let (who, remedy) = match (profiles, emulator) {
        (true, _) => ("a profile".to_owned(), "leave out the profile, or write corunner = \"none\""),
        (_, Some(emulator)) => (format!("the profiler of {emulator}"), "write corunner = \"none\""),
        _ => return Ok(()),
    };
    RunError::refuse(format!(
        "{who} would count the instructions of the co-runner `{}` as the I/O's: {remedy}",
        corunner.kind
    ))
}

/// Refuses settings that this run may not change, or cannot. `may_take` if it may take the drive.
pub(crate) fn check_settings(cells: &[Cell], may_change: bool, may_take: bool) -> Result<(), RunError> {
    let of_controller =
        |cell: &Cell| cell.settings.keys().copied().find(|setting| setting.is_of_controller());
    let past_the_kernel = cells.iter().filter(|cell| cell.path.is_bypass_on(may_take));
    if let Some((path, setting)) =
        past_the_kernel.filter_map(|cell| Some((cell.path, of_controller(cell)?))).next()
    {
        return Err(RunError::Refused(format!(
            "the study changes `{setting}` with the path {path}, for which the kernel does not have the \
             drive, and only the kernel passes commands on: measure the one or the other"
        )));
    }
    match cells.iter().find_map(|cell| cell.settings.keys().next()) {
        Some(setting) if !may_change => Err(RunError::Refused(format!(
            "the study changes `{setting}`, which only root may: run as root, or leave [settings] out"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_study::plan;

    #[test]
    fn a_co_runner_is_refused_where_instructions_are_counted() {
        let text = "name = \"s\"\npaths = [\"libaio/syscall/interrupt\"]\n[[workload]]\ncorunner = \
                    [\"none\", \"memory\"]\n";
        let study = iopj_study::Study::parse(text, "s.toml").unwrap();
        let (cells, _) = plan::cells(&study, &[]).unwrap();
        let refused = |cells: &[Cell], profiles, emulator| {
            check_corunner(cells, profiles, emulator).err().map(|error| error.to_string())
        };
        assert_eq!(refused(&cells, false, None), None);
        let plain = cells.iter().filter(|cell| cell.workload.corunner.is_none()).cloned();
        assert_eq!(refused(&plain.collect::<Vec<_>>(), true, Some("QEMU TCG")), None);
        let message = refused(&cells, true, None).unwrap();
        assert!(message.starts_with("a profile would count the instructions of the co-runner `memory`"));
        let message = refused(&cells, false, Some("QEMU TCG")).unwrap();
        assert!(message.starts_with("the profiler of QEMU TCG would count the instructions"), "{message}");
    }

    #[test]
    fn a_drive_that_the_kernel_does_not_have_gets_no_features() {
        let refused = |paths: &str, settings: &str| {
            let text = format!(
                "name = \"s\"\npaths = [{paths}]\n[settings]\n{settings}\n[[workload]]\nrw = \
                 \"randread\"\n"
            );
            let study = iopj_study::Study::parse(&text, "s.toml").unwrap();
            let (cells, _) = plan::cells(&study, &IoPath::all()).unwrap();
            check_settings(&cells, true, true).err().map(|error| error.to_string())
        };
        let (kernel, both) =
            ("\"libaio/syscall/interrupt\"", "\"libaio/syscall/interrupt\", \"nvme-user/doorbell/poll\"");
        assert_eq!(refused(kernel, "nvme_power_state = 1"), None);
        assert_eq!(refused(both, "nomerges = 2"), None);
        let message = refused(both, "nvme_power_state = [0, 1]").unwrap();
        assert!(message.contains("`nvme_power_state` with the path nvme-user/doorbell/poll"), "{message}");
        let message = refused("\"auto\"", "nvme_power_state = 1").unwrap();
        assert!(message.contains("`nvme_power_state` with the path auto, for which the kernel"), "{message}");
    }
}
