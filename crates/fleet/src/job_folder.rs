//! The folder of a host's job: its files, and where its store is written.

use crate::error::FleetError;
use crate::files;
use crate::job::{FORMAT, Job, Phase, State};
use crate::owner::{AsOwner, Owner, own_folder, trusted};
use crate::process::{Process, boot_id};
use crate::transfer;
use iopj_core::files::open_regular;
use iopj_store::Store;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

const DESCRIPTION: &str = "job.json";
const STATE: &str = "state.json";
const STORE: &str = "run.iopj";
const LOG: &str = "log";
const LOCK: &str = "lock";
/// Where root writes the store of a job in another user's folder, unless the job has a scratch.
const ROOTS_FOLDER: &str = "/var/lib/iopj-fleet";
/// How often the campaign had been cancelled when this job was.
const CANCELS: &str = "cancels";

/// The folder of a job on its host.
#[derive(Clone, Debug)]
pub struct JobFolder {
    folder: PathBuf,
    owner: Option<Owner>,
}

impl JobFolder {
    /// The job in this folder.
    pub fn new(folder: &Path) -> JobFolder {
        JobFolder { folder: folder.to_owned(), owner: None }
    }

    /// The folder, with its files read and written in the name of `owner`, if there is one.
    pub fn of(self, owner: Option<Owner>) -> JobFolder {
        JobFolder { owner, ..self }
    }

    /// In whose name its files are read and written.
    pub fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// The option by which another process of the job learns in whose name it acts.
    pub fn in_name(&self) -> Vec<String> {
        self.owner().map_or(Vec::new(), |owner| vec!["--owner".to_owned(), owner.to_string()])
    }

    fn enter(&self) -> Result<Option<AsOwner>, FleetError> {
        Owner::enter_if(self.owner())
    }

    /// What it is told.
    ///
    /// # Errors
    /// There is no job, or one of another iopj.
    pub fn job(&self) -> Result<Job, FleetError> {
        let _inside = self.enter()?;
        let path = self.folder.join(DESCRIPTION);
        known(files::read_json_of(&path, &trusted(self.owner()))?, &path)
    }

    /// A description in a file of its own, which a pod is given behind a link.
    ///
    /// # Errors
    /// As for [`JobFolder::job`].
    pub fn description(path: &Path) -> Result<Job, FleetError> {
        let file = open_regular(path).map_err(FleetError::io("read", path))?;
        known(Some(files::value_of(file, path)?), path)
    }

    /// Tells it, making the folder.
    ///
    /// # Errors
    /// [`FleetError::Io`].
    pub fn tell(&self, job: &Job) -> Result<(), FleetError> {
        let _inside = self.enter()?;
        files::make_folder(&self.folder)?;
        files::write_json(&self.folder.join(DESCRIPTION), job)
    }

    /// Its state as it was last written; `None` before it first began.
    ///
    /// # Errors
    /// The file is no state.
    pub fn written(&self) -> Result<Option<State>, FleetError> {
        let _inside = self.enter()?;
        files::read_json(&self.folder.join(STATE))
    }

    /// Its state as it is seen on its own host: one whose process is gone was killed.
    ///
    /// # Errors
    /// As for [`JobFolder::written`].
    pub fn state(&self) -> Result<Option<State>, FleetError> {
        let is_alive = |state: &State| state.process.as_ref().is_some_and(Process::is_alive);
        let first = self.written()?;
        if first.as_ref().is_none_or(|state| state.phase != Phase::Running || is_alive(state)) {
            return Ok(first);
        }
        // It may have ended between the reading and the look at its process.
        Ok(self.written()?.map(|state| match state.phase {
            Phase::Running if !is_alive(&state) => state.became(Phase::Killed, Some(self.why_gone(&state))),
            _ => state,
        }))
    }

    fn why_gone(&self, state: &State) -> String {
        if state.process.as_ref().is_some_and(|process| process.boot != boot_id()) {
            return "the host restarted while it ran".to_owned();
        }
        "its process is gone without a word: it was killed".to_owned()
    }

    /// Writes its state.
    ///
    /// # Errors
    /// [`FleetError::Io`].
    pub fn write(&self, state: &State) -> Result<(), FleetError> {
        let _inside = self.enter()?;
        files::write_json(&self.folder.join(STATE), state)
    }

    /// Refuses a folder, or the one above it, that is a link: as root, a task writes there in folders of the
    /// user who submitted it.
    ///
    /// # Errors
    /// One of them is a link.
    pub fn refuse_links(&self) -> Result<(), FleetError> {
        let places = [Some(self.folder.as_path()), self.folder.parent()];
        let names = [STATE, LOCK, STORE].map(|name| self.folder.join(name));
        for place in places.into_iter().flatten().chain(names.iter().map(PathBuf::as_path)) {
            if place.is_symlink() {
                return Err(FleetError::Refused(format!(
                    "`{}` is a symbolic link, and a task follows none: remove it, and submit again",
                    place.display()
                )));
            }
        }
        Ok(())
    }

    /// The right to do the job and to write its state, which one process has at a time; `None` if another has
    /// it.
    ///
    /// # Errors
    /// [`FleetError::Io`].
    pub fn lock(&self) -> Result<Option<File>, FleetError> {
        let _inside = self.enter()?;
        let path = self.folder.join(LOCK);
        let file = files::open(&path, File::options().create(true).truncate(false).write(true));
        let file = file.map_err(FleetError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(FleetError::io("lock", &path)(error)),
        }
    }

    /// Keeps how often its campaign was cancelled: a start that knows of fewer is too late.
    ///
    /// # Errors
    /// [`FleetError::Io`].
    pub fn cancel(&self, number: u64) -> Result<(), FleetError> {
        let _inside = self.enter()?;
        files::write_json(&self.folder.join(CANCELS), &number)
    }

    /// Whether the job was cancelled after so many cancels of its campaign.
    ///
    /// # Errors
    /// [`FleetError::Io`], or [`FleetError::Form`].
    pub fn is_cancelled_after(&self, number: u64) -> Result<bool, FleetError> {
        let _inside = self.enter()?;
        Ok(files::read_json::<u64>(&self.folder.join(CANCELS))?.is_some_and(|here| here > number))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// What it prints.
    pub fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// Opens it, to be written on.
    ///
    /// # Errors
    /// [`FleetError::Io`].
    pub fn open_log(&self) -> Result<File, FleetError> {
        let _inside = self.enter()?;
        let log = self.log();
        files::open(&log, File::options().create(true).append(true)).map_err(FleetError::io("write", &log))
    }

    /// Its store, which is fetched from here.
    pub fn store(&self) -> PathBuf {
        self.folder.join(STORE)
    }

    /// The store that it writes: its own, or one on the host's scratch, in a folder that bears the host's
    /// name: a scratch that hosts share by mistake has a store for each. Root writes none in another user's
    /// folder: SQLite opens its files by name, so they are where nobody else can change a name.
    ///
    /// # Errors
    /// The folder there cannot be made, or others can change names there.
    pub fn store_of(&self, job: &Job) -> Result<PathBuf, FleetError> {
        let name = self.folder.file_name().unwrap_or_default();
        let folder = match (self.owner(), &job.scratch) {
            (None, None) => self.folder.clone(),
            (None, Some(scratch)) => {
                own_folder(scratch, &Path::new(&files::name_of(&job.campaign)).join(name))?
            }
            (Some(owner), scratch) => {
                let base = scratch.as_deref().unwrap_or(Path::new(ROOTS_FOLDER));
                let user = PathBuf::from(format!("user-{}", owner.uid));
                own_folder(base, &user.join(files::name_of(&job.campaign)).join(name))?
            }
        };
        Ok(folder.join(STORE))
    }

    /// Takes its store to where the job writes it, if that one has fewer trials or is not there.
    ///
    /// # Errors
    /// The store there cannot be read, which may hold what this one lacks; or there is no room.
    pub fn lend_store(&self, written: &Path) -> Result<(), FleetError> {
        if written == self.store() {
            return Ok(());
        }
        let trials = |store: &Path| Ok::<_, FleetError>(Store::open(store)?.positions()?.len());
        let there = if written.exists() { Some(trials(written)?) } else { None };
        let inside = self.enter()?;
        if trials(&self.store()).ok() <= there {
            return Ok(());
        }
        let bytes = Store::whole(&self.store())?;
        drop(inside);
        // A log that is left of another store would be taken for this one's.
        for log in ["-wal", "-shm"] {
            let mut name = written.as_os_str().to_owned();
            name.push(log);
            let _ = fs::remove_file(name);
        }
        transfer::put(&bytes, written)
    }

    /// Brings a store that is written elsewhere to this folder; does nothing if it is written here. Root's is
    /// then there no more: the user could not remove it.
    ///
    /// # Errors
    /// The store is damaged, or there is no room.
    pub fn bring_store(&self, written: &Path) -> Result<(), FleetError> {
        if written == self.store() {
            return Ok(());
        }
        if written.exists() {
            let bytes = Store::whole(written)?;
            let inside = self.enter()?;
            transfer::put(&bytes, &self.store())?;
            drop(inside);
        }
        if self.owner.is_some() {
            let _ = fs::remove_file(written);
            // They stay while the file is there that the study reads.
            for folder in written.ancestors().skip(1).take(2) {
                let _ = fs::remove_dir(folder);
            }
        }
        Ok(())
    }
}

/// A job of this iopj.
fn known(job: Option<Job>, path: &Path) -> Result<Job, FleetError> {
    let job = job.ok_or_else(|| {
        FleetError::Refused(format!(
            "there is no job `{}`: `iopj fleet submit` writes it; is this folder on a file system that this \
             host has too?",
            path.display()
        ))
    })?;
    if job.format != FORMAT {
        let (theirs, format) = (&job.version, job.format);
        return Err(FleetError::Refused(format!(
            "`{}` is of iopj {theirs} (format {format}), and this iopj knows format {FORMAT}: use the same \
             iopj on both sides",
            path.display()
        )));
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// Root looked for links before it wrote, and the user put one there in between.
    #[test]
    fn a_link_leads_root_nowhere_where_the_user_could_not_go() {
        if !files::is_root() {
            return;
        }
        let folder = files::own_folder();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("roots")).unwrap();
        fs::create_dir(at("theirs")).unwrap();
        chown(at("theirs"), Some(65_532), Some(65_532)).unwrap();
        let owner = Owner::called_by(Some([65_532, 65_532]), &at("theirs")).unwrap();
        let job = JobFolder::new(&at("theirs/n1")).of(owner);
        let state = State::now(Phase::Running, None);
        fs::create_dir(at("theirs/n1")).unwrap();
        chown(at("theirs/n1"), Some(65_532), Some(65_532)).unwrap();
        job.write(&state).unwrap();
        assert_eq!(job.written().unwrap(), Some(state.clone()));
        for _ in 0..2 {
            drop(Store::create(&at("store"), &Default::default()).unwrap());
            job.bring_store(&at("store")).unwrap();
            assert!(!at("store").exists(), "the user could not remove it");
        }
        drop(Store::create(&at("store"), &Default::default()).unwrap());
        fs::rename(at("theirs/n1"), at("theirs/n2")).unwrap();
        symlink(at("roots"), at("theirs/n1")).unwrap();
        for refused in [job.write(&state), job.lock().map(drop), job.cancel(1), job.bring_store(&at("store"))]
        {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("Permission denied"), "{error}");
        }
        assert_eq!(fs::read_dir(at("roots")).unwrap().count(), 0);
        // Nor does a name.
        let store = job.store_of(&told("../../c", &at("roots/scratch"))).unwrap();
        assert!(store.ends_with("scratch/user-65532/%2e%2e%2f%2e%2e%2fc/n1/run.iopj"), "{}", store.display());
    }

    fn told(campaign: &str, scratch: &Path) -> Job {
        let told = serde_json::json!({
            "format": FORMAT, "version": "1", "campaign": campaign, "study": "", "destroy_data": false,
            "allow": { "exec": false, "secrets": false, "hosts": false }, "scratch": scratch,
        });
        serde_json::from_value(told).unwrap()
    }

    /// A store that another user had put there was resumed, and its programs run as root.
    #[test]
    fn a_folder_on_the_scratch_that_somebody_else_could_have_filled_is_refused() {
        let folder = files::own_folder();
        let at = |name: &str| folder.path().join(name);
        let (job, own) = (JobFolder::new(&at("n1")), told("c-1", folder.path()));
        assert_eq!(job.store_of(&own).unwrap(), at("c-1/n1/run.iopj"));
        fs::create_dir(at("c-2")).unwrap();
        fs::set_permissions(at("c-2"), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = |campaign: &str| {
            let error = job.store_of(&told(campaign, folder.path())).unwrap_err().to_string();
            assert!(error.contains(&format!("`{}`", at(campaign).display())), "{error}");
        };
        refused("c-2");
        symlink(at("c-1"), at("c-3")).unwrap();
        refused("c-3");
        if files::is_root() {
            fs::create_dir(at("c-4")).unwrap();
            chown(at("c-4"), Some(65_532), Some(65_532)).unwrap();
            refused("c-4");
        }
        assert!(!at("c-2/n1").exists());
    }

    /// Whoever could write a job's description, or lay it there first, had root do what it says.
    #[test]
    fn a_job_that_somebody_else_could_have_described_is_refused() {
        let folder = files::own_folder();
        let job = JobFolder::new(folder.path());
        job.tell(&told("c-1", folder.path())).unwrap();
        assert_eq!(job.job().unwrap().campaign, "c-1");
        let description = folder.path().join(DESCRIPTION);
        let refused = |why: &str| {
            let error = job.job().unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{}`", description.display())) && error.contains(why),
                "{error}"
            );
        };
        fs::set_permissions(&description, fs::Permissions::from_mode(0o664)).unwrap();
        refused("can be written by other users, who could have said in it what is run here");
        if files::is_root() {
            job.tell(&told("c-1", folder.path())).unwrap();
            chown(&description, Some(65_532), None).unwrap();
            refused("belongs to user 65532");
            let theirs = job.clone().of(Some("65532:65532".parse().unwrap()));
            assert_eq!(theirs.job().unwrap().campaign, "c-1", "they called sudo");
        }
        fs::remove_file(&description).unwrap();
        symlink("/dev/zero", &description).unwrap();
        refused("it is a symbolic link, not a file");
    }

    #[test]
    fn a_running_job_whose_process_is_gone_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let files = JobFolder::new(folder.path());
        assert_eq!(files.state().unwrap(), None);
        let own = Process::of(std::process::id()).unwrap();
        let alive = State { process: Some(own.clone()), ..State::now(Phase::Running, None) };
        files.write(&alive).unwrap();
        assert_eq!(files.state().unwrap().unwrap().phase, Phase::Running);
        let later = Process { start: own.start + 1, ..own.clone() };
        files.write(&State { process: Some(later), ..alive.clone() }).unwrap();
        let state = files.state().unwrap().unwrap();
        assert_eq!((state.phase, state.began_ms), (Phase::Killed, None));
        let before = Process { boot: "another".to_owned(), ..own };
        files.write(&State { process: Some(before), ..alive }).unwrap();
        assert!(files.state().unwrap().unwrap().reason.unwrap().contains("restarted"));
    }

    /// A campaign that went on elsewhere was resumed from what an earlier task had left.
    #[test]
    fn of_two_copies_of_a_store_the_one_with_more_trials_counts() {
        let folder = tempfile::tempdir().unwrap();
        let (job, written) = (JobFolder::new(folder.path()), folder.path().join("written"));
        let trials = |store: &Path| Store::open(store).unwrap().positions().unwrap().len();
        let filled = |at: &Path, trials: u32| {
            let _ = fs::remove_file(at);
            let mut store = Store::create(at, &Default::default()).unwrap();
            for replicate in 0..trials {
                let outcome = iopj_record::Outcome::Failed("it broke".to_owned());
                let path = "posix-sio/syscall/poll".parse().unwrap();
                let trial = iopj_record::Trial::new(path, Default::default(), outcome);
                store.add(&iopj_record::Trial { replicate, position: replicate.into(), ..trial }).unwrap();
            }
        };
        job.lend_store(&written).unwrap();
        assert!(!written.exists(), "there is none to lend");
        for (here, there, then) in [(1, 2, 2), (2, 1, 2), (3, 3, 3)] {
            filled(&job.store(), here);
            filled(&written, there);
            job.lend_store(&written).unwrap();
            assert_eq!((trials(&job.store()), trials(&written)), (here as usize, then));
        }
        fs::write(&written, "no store").unwrap();
        let error = job.lend_store(&written).unwrap_err().to_string();
        assert!(error.contains("is not an iopj store"), "{error}");
        assert_eq!(fs::read(&written).unwrap(), b"no store", "it may hold what the other lacks");
        fs::remove_file(&written).unwrap();
        job.lend_store(&written).unwrap();
        assert_eq!(trials(&written), 3);
    }

    #[test]
    fn a_start_is_too_late_that_knows_of_fewer_cancels() {
        let folder = tempfile::tempdir().unwrap();
        let files = JobFolder::new(folder.path());
        assert!(!files.is_cancelled_after(0).unwrap());
        files.cancel(2).unwrap();
        assert_eq!([1, 2, 3].map(|known| files.is_cancelled_after(known).unwrap()), [true, false, false]);
    }
}
