//! The record of the study that a new store begins with.

use crate::error::RunError;
use crate::fabric::FabricSide;
use crate::options::Options;
use crate::target::{Access, devices_below};
use iopj_engine::Target;
use iopj_engine::target::{FileId, TargetKind};
use iopj_host::machine;
use iopj_load::native;
use iopj_metering::Progress;
use iopj_metering::energy::Metering;
use iopj_record::{StudyRecord, Unavailable};
use iopj_study::Study;
use std::collections::BTreeMap;
use std::path::Path;

/// The record of a study whose paths are settled and whose target is open.
pub(crate) fn record(
    study: &Study,
    (cells, seed): (usize, u64),
    (access, own): (&Access, Option<&Access>),
    made_target: bool,
    metering: Option<&Metering>,
    unavailable: Vec<Unavailable>,
) -> Result<StudyRecord, RunError> {
    let target = access.target()?;
    let path = target.path();
    let here = || std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let side = access.side();
    Ok(StudyRecord {
        name: study.name.clone(),
        text: study.to_store()?,
        seed,
        planned_trials: cells as u64 * u64::from(study.replicates.fewest()),
        target: side.map_or_else(here, FabricSide::name),
        file_id: target.file_id().map(FileId::to_string),
        provenance: provenance((access, own), (target, made_target), metering),
        warnings: match side {
            Some(side) => side.warnings().into_iter().chain(warnings_of_own(access, own)).collect(),
            None => warnings(study, target),
        },
        made_target,
        unavailable,
        emulated: machine::emulator().map(str::to_owned).or_else(|| side.and_then(FabricSide::emulated)),
        sequential: study.replicates.sequential()?,
        repeats: Vec::new(),
        networks: Vec::new(),
    })
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

/// What the figures of a study rest on: the machine, the drive, how it is reached, and the meters.
fn provenance(
    (access, own): (&Access, Option<&Access>),
    (target, made_target): (&Target, bool),
    metering: Option<&Metering>,
) -> BTreeMap<String, String> {
    let mut provenance = provenance_of(target, access.side(), own);
    if made_target {
        // It is made anew by whoever continues, and known by its header.
        provenance.remove("target_inode");
    }
    provenance.insert("generator_clock".to_owned(), native::clock_name().to_owned());
    provenance.extend(access.provenance().clone());
    provenance.extend(metering.map(Metering::provenance).unwrap_or_default());
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
