//! What keeps a study from many hosts: rules that hold before anything is asked, and on each host.

use crate::study::text;
use iopj_fleet::job::{Drive, Job};
use iopj_fleet::{JobFolder, serials};
use iopj_host::machine;
use iopj_run::{devices_below, read_study};
use iopj_study::Study;
use std::os::unix::fs::MetadataExt;
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
    Ok(study.program.is_some() || study.why_written()?.is_some())
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

/// Why root may not make the file that is measured, where it would be on another file system than the user's
/// folder that it was meant for.
pub(super) fn elsewhere(folder: &JobFolder, job: &Job, store: &Path) -> Option<String> {
    let owner = folder.owner().filter(|_| job.target.is_none() && job.scratch.is_none())?;
    let device = |place: &Path| place.metadata().ok().map(|found| found.dev());
    let place = store.parent().unwrap_or(store);
    if device(folder.path()).is_some_and(|dev| device(place) == Some(dev)) {
        return None;
    }
    Some(format!(
        "without a target a file is measured, and root makes none in the folder of user {}, but below `{}`, \
         on another file system: name a --target, or a --scratch of root's, or submit without sudo",
        owner.uid,
        place.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another drive was measured than the one that the folder is on.
    #[test]
    fn root_measures_no_file_on_another_file_system_than_the_users_folder() {
        let told = serde_json::json!({
            "format": 2, "version": "1", "campaign": "c-1", "study": "", "destroy_data": false,
            "allow": { "exec": false, "secrets": false, "hosts": false },
        });
        let job: Job = serde_json::from_value(told).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (here, other) = (folder.path().join("run.iopj"), Path::new("/proc/run.iopj"));
        let own = JobFolder::new(folder.path());
        assert_eq!(elsewhere(&own, &job, other), None, "it is written where it was meant to be");
        let users = own.of(Some("1000:1000".parse().unwrap()));
        assert_eq!(elsewhere(&users, &job, &here), None);
        let why = elsewhere(&users, &job, other).unwrap();
        assert!(why.contains("the folder of user 1000, but below `/proc`, on another file system"), "{why}");
        for named in [
            Job { target: Some("/dev/null".into()), ..job.clone() },
            Job { scratch: Some("/proc".into()), ..job },
        ] {
            assert_eq!(elsewhere(&users, &named, other), None);
        }
    }

    #[test]
    fn the_drive_of_a_generic_device_is_its_block_device() {
        assert_eq!(block_device(Path::new("/dev/ng0n1")), Path::new("/dev/nvme0n1"));
        for same in ["/dev/nvme0n1", "/srv/ng0n1", "ng.bin"] {
            assert_eq!(block_device(Path::new(same)), Path::new(same));
        }
    }
}
