//! What keeps a study from many hosts: rules that hold before anything is asked, and on each host.

use crate::study::text;
use iopj_fleet::job::{Drive, Job};
use iopj_fleet::serials;
use iopj_host::machine;
use iopj_run::{devices_below, read_study};
use iopj_study::Study;
use std::path::{Path, PathBuf};

/// The study of a file that may run on many hosts, and its text.
pub(super) fn study(file: &Path) -> anyhow::Result<(Study, String)> {
    let text = text(file)?;
    let study = read_study(&text, &file.display().to_string())?;
    if study.fabric.is_some() {
        anyhow::bail!(
            "`{}` has [fabric], which names a target host of its own: run it by `iopj run` on its host",
            file.display()
        );
    }
    Ok((study, text))
}

/// Whether a study writes: also to a file, and also by a program, of which that is not known.
pub(super) fn writes(study: &Study) -> anyhow::Result<bool> {
    Ok(study.program.is_some() || iopj_run::writes(study)?.is_some())
}

/// The drives beneath a job's target, or beneath the folder in which iopj makes a file.
pub(super) fn drives(job: &Job, store: &Path) -> Vec<Drive> {
    let place = job.target.as_deref().map_or_else(|| store.to_owned(), block_device);
    let named = |name: String| Drive { serial: machine::drive_serial(&name), name };
    devices_below(&place).into_iter().map(named).collect()
}

/// The block device of a namespace's generic character device (`/dev/nvme0n1` of `/dev/ng0n1`); other paths
/// as they are.
fn block_device(target: &Path) -> PathBuf {
    let name = target.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    match name.strip_prefix("ng") {
        Some(rest) if target.parent() == Some(Path::new("/dev")) => {
            target.with_file_name(format!("nvme{rest}"))
        }
        _ => target.to_owned(),
    }
}

/// Why a job may not run on this host, if it may not.
pub(super) fn refusal(job: &Job, drives: &[Drive]) -> anyhow::Result<Option<String>> {
    let ours = env!("CARGO_PKG_VERSION");
    if job.version != ours {
        let theirs = &job.version;
        return Ok(Some(format!(
            "iopj {theirs} submitted the job, and this is iopj {ours}: use the same on both"
        )));
    }
    if let Some(target) = job.target.as_deref().filter(|target| !target.exists()) {
        return Ok(Some(format!(
            "there is no target `{}` here: name one that every host has",
            target.display()
        )));
    }
    let study = read_study(&job.study, "the study of the campaign")?;
    let listed = job.serials.as_deref();
    Ok(if writes(&study)? { serials::refusal(drives, listed) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drive_of_a_generic_device_is_its_block_device() {
        assert_eq!(block_device(Path::new("/dev/ng0n1")), Path::new("/dev/nvme0n1"));
        for same in ["/dev/nvme0n1", "/srv/ng0n1", "ng.bin"] {
            assert_eq!(block_device(Path::new(same)), Path::new(same));
        }
    }
}
