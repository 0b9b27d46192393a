//! What the record of a new store says of its drives, and warnings about where it lies.

use crate::error::RunError;
use crate::fabric::FabricSide;
use crate::options::Options;
use crate::target::{Access, Drives, devices_below};
use iopj_engine::Target;
use iopj_engine::target::{FileId, TargetKind};
use iopj_host::machine;
use iopj_load::native;
use iopj_metering::Progress;
use iopj_record::StudyRecord;
use iopj_study::Study;
use std::collections::BTreeMap;
use std::path::Path;

/// What the record of a study says of its drives.
pub(crate) fn of_drives(study: &Study, drives: &Drives) -> Result<StudyRecord, RunError> {
    let (access, here) = (&drives.access, drives.here.as_ref());
    let target = access.target()?;
    let path = target.path();
    let name = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let side = access.side();
    Ok(StudyRecord {
        target: side.map_or_else(name, FabricSide::name),
        file_id: target.file_id().map(FileId::to_string),
        provenance: provenance(drives, target),
        warnings: match side {
            Some(side) => side.warnings().into_iter().chain(warnings_of_own(access, here)).collect(),
            None => warnings(study, target),
        },
        made_target: drives.made.is_some(),
        emulated: machine::emulator().map(str::to_owned).or_else(|| side.and_then(FabricSide::emulated)),
        ..StudyRecord::default()
    })
}

/// What it says of the target that a program is told, and of the disks below it.
pub(crate) fn of_program(target: Option<&Path>, devices: &[String]) -> StudyRecord {
    StudyRecord {
        target: target.map(|path| path.display().to_string()).unwrap_or_default(),
        provenance: machine::facts(devices),
        emulated: machine::emulator().map(str::to_owned),
        ..StudyRecord::default()
    }
}

/// Warnings about the target. Preconditioning writes every block of a device, so no trimmed or unwritten
/// block is left.
fn warnings(study: &Study, target: &Target) -> Vec<String> {
    let is_filled = study.precondition && target.kind() != TargetKind::File;
    if is_filled { Vec::new() } else { target.warnings().to_vec() }
}

/// Warnings about a drive of this host's own beside that of the target host, also that it is no such drive.
fn warnings_of_own(access: &Access, own: Option<&Access>) -> Vec<String> {
    let Some(own) = own else { return Vec::new() };
    let mut warnings = own.target().map(|target| target.warnings().to_vec()).unwrap_or_default();
    let (here, there) = (own.extent(), access.extent());
    if (here.len, here.logical_block) != (there.len, there.logical_block) {
        warnings.push(format!(
            "`{}` of transport `here` has {} bytes in blocks of {}, and the target host's drive {} in blocks \
             of {}: the two are not alike",
            own.path().display(),
            here.len,
            here.logical_block,
            there.len,
            there.logical_block
        ));
    }
    warnings
}

/// What the figures of a study rest on: the machine, the drive, and how it is reached.
fn provenance(drives: &Drives, target: &Target) -> BTreeMap<String, String> {
    let mut provenance = provenance_of(target, drives.access.side(), drives.here.as_ref());
    if drives.made.is_some() {
        // It is made anew by whoever continues, and known by its header.
        provenance.remove("target_inode");
    }
    provenance.insert("generator_clock".to_owned(), native::clock_name().to_owned());
    provenance.extend(drives.access.provenance().clone());
    provenance
}

/// Facts about this machine and its drive. Over fabrics the drive's facts are its own host's: the namespace
/// here has a name and a serial that differ from connection to connection. Those of a drive of this host's
/// `own` beside it begin with `here.`.
pub(crate) fn provenance_of(
    target: &Target,
    side: Option<&FabricSide>,
    own: Option<&Access>,
) -> BTreeMap<String, String> {
    let mut facts = machine::provenance(target);
    if let Some(side) = side {
        facts.retain(|name, _| !name.contains('.') && name != "devices");
        facts.extend(side.provenance());
    }
    if let Some(own) = own.and_then(|own| own.target().ok()) {
        let of_drive = machine::provenance(own).into_iter().filter(|(name, _)| name.contains('.'));
        facts.extend(of_drive.map(|(name, value)| (format!("here.{name}"), value)));
        facts.insert("here.target_bytes".to_owned(), own.data_len().to_string());
    }
    facts
}

/// Warns of a store on the drive under test, and of a file of metrics there.
pub(crate) fn warn_of_shared_disk(
    store: &Path,
    options: &Options,
    target: &Target,
    progress: &mut dyn Progress,
) {
    let metrics = options.metrics.as_deref().map(|file| ("the file of metrics", file, "--metrics"));
    for (what, file, option) in [("the store", store, "--store")].into_iter().chain(metrics) {
        let devices = devices_below(file);
        if let Some(shared) = devices.iter().find(|device| target.devices().contains(device)) {
            progress.note(&format!(
                "warning: {what} {} lies on {shared}, the drive under test; it is written between trials \
                 only; {option} names another place",
                file.display()
            ));
        }
    }
}
