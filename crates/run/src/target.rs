//! The target of a run: which one it is, how it may be opened, and the file that is made where none is named.

pub(crate) mod access;
mod bypass;
mod drives;
mod over;

pub(crate) use access::{Access, Extent};
pub(crate) use bypass::Taking;
pub(crate) use drives::Drives;

use crate::error::{RunError, TrialError};
use crate::fabric::OpenDrive;
use crate::locks::Locker;
use crate::options::Options;
use iopj_engine::Target;
use iopj_engine::target::{
    FileId, TargetKind, WritePermission, make_file, make_file_as, make_stand_in, remove_file_made_as,
};
use iopj_host::settings::DeviceLocks;
use iopj_metering::Progress;
use iopj_record::StudyRecord;
use iopj_study::Study;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A file that this run has made; removed when it is dropped, unless it is kept.
#[derive(Debug)]
pub(crate) struct MadeFile {
    path: PathBuf,
    /// The id in its header: what has another by then is somebody else's.
    id: FileId,
    pub(crate) keep: bool,
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        if !self.keep {
            let _ = remove_file_made_as(self.id, &self.path);
        }
    }
}

/// Which target a run has, and what may be done to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetSpec {
    path: PathBuf,
    /// The size of the file that iopj makes there; `None` for a target that the user named.
    made_bytes: Option<u64>,
    /// The id in the header of the file, where it is known.
    id: Option<FileId>,
    /// Why it is written, where it is.
    writes: Option<&'static str>,
    /// The device that may be overwritten.
    destroy_data: Option<PathBuf>,
    /// Overwrite it even if it carries a known signature.
    i_know: bool,
    /// `--target` names it, in this very call.
    is_option: bool,
}

/// A target that is open, with its drives locked.
pub(crate) struct OpenTarget {
    pub(crate) spec: TargetSpec,
    pub(crate) target: Target,
    pub(crate) made: Option<MadeFile>,
    pub(crate) locks: Arc<DeviceLocks>,
}

impl TargetSpec {
    /// The target of a new run: the one of the command line, or a file beside the store.
    pub(crate) fn new(study: &Study, options: &Options, store: &Path) -> Result<TargetSpec, RunError> {
        if options.target.is_none() && !options.destroy_data.is_empty() {
            return RunError::refuse("--destroy-data needs the same device as --target");
        }
        TargetSpec::of(study, options, options.target.clone(), store, None)
    }

    /// The target of a run that is continued, as the store's record names it.
    pub(crate) fn of_record(
        study: &Study,
        options: &Options,
        record: &StudyRecord,
        store: &Path,
    ) -> Result<TargetSpec, RunError> {
        let id = record.file_id.as_deref().and_then(|text| text.parse().ok());
        let named = (!record.made_target).then(|| PathBuf::from(&record.target));
        TargetSpec::of(study, options, named, store, id)
    }

    /// A target that is only read.
    pub(crate) fn for_reading(path: &Path) -> TargetSpec {
        TargetSpec { path: path.to_owned(), is_option: true, ..TargetSpec::default() }
    }

    /// What a program is told as its target, if anything; iopj opens nothing there.
    pub(crate) fn of_program(path: Option<&Path>) -> TargetSpec {
        TargetSpec {
            path: path.unwrap_or(Path::new("")).to_owned(),
            is_option: true,
            ..TargetSpec::default()
        }
    }

    /// The drive of the target host, as the host asks for it, or the file that was made there instead.
    pub(crate) fn on_target_host(open: &OpenDrive, made: Option<&(PathBuf, FileId)>) -> TargetSpec {
        let writes = open.writes.then_some(Study::WRITES);
        let spec = TargetSpec { writes, i_know: open.i_know, is_option: true, ..TargetSpec::default() };
        match made {
            Some((path, id)) => TargetSpec { path: path.clone(), id: Some(*id), ..spec },
            None => spec.at(&open.device),
        }
    }

    /// The namespace over fabrics that a study's drive is seen as, or the file of this identity on it. What
    /// is written to it has been named on the target host, or was made there.
    pub(crate) fn over_fabrics(
        study: &Study,
        options: &Options,
        device: &Path,
        made: Option<FileId>,
    ) -> Result<TargetSpec, RunError> {
        let spec = TargetSpec {
            id: made,
            writes: study.why_written()?,
            i_know: options.i_know,
            is_option: true,
            ..TargetSpec::default()
        };
        Ok(spec.at(device))
    }

    /// The drive of this host like that of a study over fabrics. That it may be written has been checked.
    pub(crate) fn here(study: &Study, options: &Options, device: &Path) -> Result<TargetSpec, RunError> {
        let (writes, i_know) = (study.why_written()?, options.i_know);
        let spec = TargetSpec { writes, i_know, is_option: true, ..TargetSpec::default() };
        Ok(spec.at(device))
    }

    /// The same target under another name.
    pub(crate) fn at(&self, device: &Path) -> TargetSpec {
        let destroy_data = self.writes.map(|_| device.to_owned());
        TargetSpec { path: device.to_owned(), destroy_data, ..self.clone() }
    }

    fn of(
        study: &Study,
        options: &Options,
        named: Option<PathBuf>,
        store: &Path,
        id: Option<FileId>,
    ) -> Result<TargetSpec, RunError> {
        let writes = study.why_written()?;
        let destroy_data = match (&options.destroy_data[..], writes) {
            ([], _) => None,
            ([device, ..], None) => {
                return RunError::refuse(format!(
                    "--destroy-data names {}, but the study writes nothing: leave the option out",
                    device.display()
                ));
            }
            ([device], Some(_)) => Some(device.clone()),
            ([_, other, ..], Some(_)) => {
                return RunError::refuse(format!(
                    "--destroy-data also names {}, but a study has one target: name that alone",
                    other.display()
                ));
            }
        };
        let made_bytes = if named.is_some() { None } else { Some(study.file_size()?) };
        Ok(TargetSpec {
            path: named.unwrap_or_else(|| data_path(store)),
            made_bytes,
            id,
            writes,
            destroy_data,
            i_know: options.i_know,
            is_option: options.target.is_some(),
        })
    }

    /// Whether the run makes it, a file.
    pub(crate) fn is_made(&self) -> bool {
        self.made_bytes.is_some()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The device that the run may overwrite.
    pub(crate) fn overwritten(&self) -> Option<&Path> {
        self.destroy_data.as_deref()
    }

    pub(crate) fn is_written(&self) -> bool {
        self.writes.is_some()
    }

    /// Nobody has a loop device on a file that is to be made.
    fn keep_loops_off(&self, locker: &mut Locker) {
        if self.made_bytes.is_none() {
            locker.with_file(&self.path);
        }
    }

    /// Locks the target's drives once they are free, if the run may wait for that: before anything is opened
    /// for long or made.
    pub(crate) fn wait(
        &self,
        locker: &mut Locker,
        limit: Option<Duration>,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Option<Arc<DeviceLocks>>, RunError> {
        let Some(limit) = limit else { return Ok(None) };
        self.keep_loops_off(locker);
        let devices = match self.made_bytes {
            None => Target::open(&self.path)?.devices().to_vec(),
            Some(_) => devices_below(folder_of(&self.path)),
        };
        locker.wait_for(&devices, limit, progress, stop).map(Some)
    }

    /// Opens the target, makes it if need be, and locks its drives unless they are locked: before the file is
    /// written, which would disturb another run on the same drive.
    pub(crate) fn open(
        mut self,
        locker: &mut Locker,
        locks: Option<Arc<DeviceLocks>>,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<OpenTarget, RunError> {
        self.keep_loops_off(locker);
        // A file that was made is removed, if the target does not open, before its locks go.
        let (locks, made) = match self.made_bytes {
            None => (locks, None),
            Some(size) => {
                let devices = devices_below(folder_of(&self.path));
                // Another drive may be mounted there since it was waited for.
                locker.check(&devices)?;
                let locks = match locks {
                    Some(locks) => locks,
                    None => locker.take(&devices, progress)?,
                };
                let made = self.find_or_make(size, progress, stop)?;
                (Some(locks), Some(made))
            }
        };
        let target = self.open_again()?;
        locker.check(target.devices())?;
        let locks = match locks {
            Some(locks) => locks,
            None => locker.take(target.devices(), progress)?,
        };
        self.path = target.path().to_owned();
        Ok(OpenTarget { spec: self, target, made, locks })
    }

    /// Opens the target through the kernel, for writing only if the study writes.
    pub(crate) fn open_again(&self) -> Result<Target, TrialError> {
        let target = match (&self.destroy_data, self.writes) {
            (_, None) => Target::open(&self.path)?,
            (Some(device), Some(_)) => {
                let permission = WritePermission::DestroyData { device, i_know: self.i_know };
                Target::open_for_writing(&self.path, permission)?
            }
            (None, Some(why)) => {
                let id = self.own_id(&Target::open(&self.path)?, why)?;
                Target::open_for_writing(&self.path, WritePermission::OwnFile { id: &id })?
            }
        };
        match (self.id, target.file_id().copied()) {
            // Over fabrics a made file is seen as a drive.
            (Some(id), None) if target.kind() == TargetKind::BlockDevice => Ok(target.of_exported_file(&id)?),
            (Some(id), Some(found)) if id != found => {
                Err(TrialError::OtherFile { path: self.path.clone(), found, id })
            }
            _ => Ok(target),
        }
    }

    /// The id of the file that iopj made and may write.
    fn own_id(&self, target: &Target, why: &'static str) -> Result<FileId, TrialError> {
        match (self.id.or(target.file_id().copied()), target.kind()) {
            (Some(id), TargetKind::File) => Ok(id),
            (_, kind) => Err(self.not_ours(why, kind)),
        }
    }

    /// The target as a plan needs it, opened for reading, and the bytes of the file that a run would make.
    /// What stands in for that file has no name and is gone with it.
    pub(crate) fn look(mut self) -> Result<(TargetSpec, Target, Option<u64>), RunError> {
        if let Some(size) = self.made_bytes {
            if let Some(mut found) = self.find(size)? {
                found.keep = true;
                let target = Target::open(&self.path)?;
                return Ok((self, target, None));
            }
            let target = make_stand_in(&self.path, size)?;
            return Ok((self, target, Some(size)));
        }
        let target = Target::open(&self.path)?;
        match (&self.destroy_data, self.writes) {
            (Some(device), Some(_)) => Target::check_destroy(&self.path, device, self.i_know)?,
            (None, Some(why)) => drop(self.own_id(&target, why)?),
            (_, None) => {}
        }
        Ok((self, target, None))
    }

    fn not_ours(&self, why: &'static str, kind: TargetKind) -> TrialError {
        let remedy = match (self.is_option, kind) {
            (true, _) => {
                "leave --target out, or name a whole device to be overwritten by --destroy-data as well"
            }
            // A run that is continued names the store alone.
            (false, TargetKind::File) => "start a new store without --target",
            (false, _) => "name it by --destroy-data again if it may be overwritten",
        };
        TrialError::NotOurs { why, path: self.path.clone(), remedy }
    }

    /// The file of an earlier run of the study, if there is one.
    fn find(&mut self, size: u64) -> Result<Option<MadeFile>, RunError> {
        if let Some(id) = self.id.filter(|_| self.path.exists()) {
            return Ok(Some(MadeFile { path: self.path.clone(), id, keep: true }));
        }
        // A whole one that is in no store: its run died before it made the store.
        if let (None, Ok(left)) = (self.id, Target::open(&self.path))
            && let (Some(id), true) = (left.file_id(), left.data_len() == size)
        {
            let id = *id;
            self.id = Some(id);
            return Ok(Some(MadeFile { path: self.path.clone(), id, keep: false }));
        }
        if self.id.is_none() && self.path.symlink_metadata().is_ok() {
            return RunError::refuse(format!(
                "`{}` already exists, and is not the file that this study makes: remove it, or name another \
                 store by --store",
                self.path.display()
            ));
        }
        Ok(None)
    }

    /// The file of an earlier run of the study, or a new one.
    fn find_or_make(
        &mut self,
        size: u64,
        progress: &mut dyn Progress,
        stop: &AtomicBool,
    ) -> Result<MadeFile, RunError> {
        if let Some(found) = self.find(size)? {
            return Ok(found);
        }
        let path = &self.path;
        let mut report = |done: u64| {
            progress.file(path, done, size);
            !stop.load(Ordering::Relaxed)
        };
        let id = match self.id {
            Some(id) => make_file_as(id, path, size, &mut report).map(|()| id),
            None => make_file(path, size, &mut report),
        };
        let id = id.map_err(|error| match stop.load(Ordering::Relaxed) {
            true => RunError::Interrupted,
            false => error.into(),
        })?;
        self.id = Some(id);
        // Only now: a file that was there before is not ours, and dropping this removes it.
        Ok(MadeFile { path: self.path.clone(), id, keep: false })
    }
}

/// The file that is made beside a store.
fn data_path(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push("-data");
    name.into()
}

/// The folder that holds `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The disks below a path, as far as they are known: a device's own, or those of a file's file system.
pub fn devices_below(path: &Path) -> Vec<String> {
    use std::os::unix::fs::{FileTypeExt, MetadataExt};
    let Ok(metadata) = std::fs::metadata(path).or_else(|_| std::fs::metadata(folder_of(path))) else {
        return Vec::new();
    };
    let device = if metadata.file_type().is_block_device() { metadata.rdev() } else { metadata.dev() };
    iopj_engine::target::leaf_devices(Path::new("/sys"), device).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plan of a run that may destroy data looked at nothing that forbids it.
    #[test]
    fn a_plan_checks_what_a_run_would_overwrite() {
        let folder = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("data");
        make_file(&path, 4096, &mut |_| true).unwrap();
        let spec = || TargetSpec {
            writes: Some("the study writes"),
            destroy_data: Some(path.clone()),
            ..TargetSpec::for_reading(&path)
        };
        let run = spec().open_again().unwrap_err().to_string();
        let plan = spec().look().err().map(|error| error.to_string());
        assert_eq!(plan, Some(run));
    }
}
