//! A host's job: what it is told, the files of its folder, and the state that it records.

use crate::error::FleetError;
use crate::files;
use iopj_core::Allow;
use iopj_store::Store;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub use crate::process::{Process, boot_id};

/// Why a job did not begin.
pub const TOO_LATE: &str = "cancelled before it began";
/// The version of these files.
pub const FORMAT: u32 = 2;
const DESCRIPTION: &str = "job.json";
const STATE: &str = "state.json";
const STORE: &str = "run.iopj";
const LOG: &str = "log";
const LOCK: &str = "lock";
/// How often the campaign had been cancelled when this job was.
const CANCELS: &str = "cancels";

/// What a host's job is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of the iopj that submits.
    pub version: String,
    /// The campaign's id.
    pub campaign: String,
    /// The text of the study.
    pub study: String,
    /// The target; without one iopj makes a file beside the store.
    pub target: Option<PathBuf>,
    /// The serial numbers of the drives that may be written.
    pub serials: Option<Vec<String>>,
    /// The target is a device, and is overwritten.
    pub destroy_data: bool,
    /// What the study may do.
    pub allow: Allow,
    /// How long to wait for another run on the same drive, in ms.
    pub wait_ms: Option<u64>,
    /// The folder of leases that this job shares with others, where it does.
    pub leases: Option<PathBuf>,
    /// A folder of the host's own for the store and for what iopj makes beside it.
    pub scratch: Option<PathBuf>,
    /// How long the job stays after its end, for its store to be fetched from within, in ms.
    pub hold_ms: Option<u64>,
}

/// A drive beneath a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    /// The kernel's name.
    pub name: String,
    /// Its serial number, or what else tells it from others.
    pub serial: Option<String>,
}

/// What has become of a host's job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It has not begun.
    Waiting,
    /// It runs.
    Running,
    /// The study was measured.
    Ok,
    /// The study was measured, and trials failed.
    Failures,
    /// It was refused, for the reason beside it, and has not begun.
    Refused,
    /// It was killed, or its host died, or an error ended it.
    Killed,
    /// It was ended by a signal, and put everything back; or it was cancelled before it began.
    Cancelled,
    /// The host cannot be reached.
    Lost,
}

impl Phase {
    /// The study was measured to its end.
    pub fn is_complete(self) -> bool {
        matches!(self, Phase::Ok | Phase::Failures)
    }

    /// Nothing goes on there, as far as it is known.
    pub fn is_over(self) -> bool {
        !matches!(self, Phase::Waiting | Phase::Running)
    }

    /// As the user reads it.
    pub fn word(self) -> &'static str {
        match self {
            Phase::Waiting => "waiting",
            Phase::Running => "running",
            Phase::Ok => "ok",
            Phase::Failures => "failures",
            Phase::Refused => "refused",
            Phase::Killed => "killed",
            Phase::Cancelled => "cancelled",
            Phase::Lost => "lost",
        }
    }
}

/// The state of a host's job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// What has become of it.
    pub phase: Phase,
    /// Why.
    pub reason: Option<String>,
    /// Since when, in ms since 1970.
    pub since_ms: u64,
    /// When it began, in ms since 1970.
    pub began_ms: Option<u64>,
    /// Its process, in the boot in which it runs; `None` until the host says it.
    pub process: Option<Process>,
    /// The boot of its host when it began.
    pub boot: Option<String>,
    /// The drives beneath its target.
    #[serde(default)]
    pub drives: Vec<Drive>,
    /// Trials that are in its store.
    pub done: u64,
    /// Trials that were planned.
    pub planned: u64,
    /// The scheduler's name of its task.
    pub task: Option<String>,
    /// What was there when the store was fetched.
    pub fetched: Option<Fetched>,
}

impl State {
    /// A state that begins now.
    pub fn now(phase: Phase, reason: Option<String>) -> State {
        State {
            phase,
            reason,
            since_ms: files::now_ms(),
            began_ms: None,
            process: None,
            boot: None,
            drives: Vec::new(),
            done: 0,
            planned: 0,
            task: None,
            fetched: None,
        }
    }

    /// The same job in another phase.
    pub fn became(&self, phase: Phase, reason: Option<String>) -> State {
        State { phase, reason, since_ms: files::now_ms(), ..self.clone() }
    }

    /// It began, or may have begun, and its end is not known.
    pub fn may_run(&self) -> bool {
        self.phase == Phase::Running || (self.phase == Phase::Lost && self.began_ms.is_some())
    }

    /// What tells its drives from those of other hosts.
    pub fn drive_keys(&self) -> Vec<String> {
        drive_keys(&self.drives, self.boot.as_deref().unwrap_or_default())
    }

    /// The same state with the trials that are in the store now.
    pub fn counted(self, store: &Path) -> State {
        let counts = || {
            let store = Store::open(store).ok()?;
            Some((store.positions().ok()?.len() as u64, store.study().ok()?.planned_trials))
        };
        match counts() {
            Some((done, planned)) => State { done, planned, ..self },
            None => self,
        }
    }

    /// What is there to be fetched now.
    pub fn as_fetched(&self) -> Fetched {
        Fetched { phase: self.phase, done: self.done }
    }

    /// Whether its store was fetched as it is now.
    pub fn is_fetched(&self) -> bool {
        self.fetched == Some(self.as_fetched())
    }
}

/// What a host's store was when it was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fetched {
    /// What had become of the job.
    pub phase: Phase,
    /// Trials in the store.
    pub done: u64,
}

/// What a host answers when it is asked about a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// The version of the iopj there.
    pub version: String,
    /// The boot: two names with the same one are one machine.
    pub boot: String,
    /// The drives beneath the target.
    pub drives: Vec<Drive>,
    /// Why the job would be refused, if it would.
    pub refusal: Option<String>,
    /// The job's state; `None` before it first began.
    pub state: Option<State>,
}

impl Look {
    /// What tells its drives from those of other hosts: a drive without a serial number is its host's own.
    pub fn drive_keys(&self) -> Vec<String> {
        drive_keys(&self.drives, &self.boot)
    }

    /// The job runs there.
    pub fn is_running(&self) -> bool {
        self.state.as_ref().is_some_and(|state| !state.phase.is_over())
    }

    /// The state of a job that is about to be started: it may run from now on.
    pub fn being_started(&self) -> State {
        let began = State::now(Phase::Running, Some("being started".to_owned()));
        let (done, planned) = self.state.as_ref().map_or((0, 0), |state| (state.done, state.planned));
        State {
            began_ms: Some(began.since_ms),
            boot: Some(self.boot.clone()),
            drives: self.drives.clone(),
            done,
            planned,
            ..began
        }
    }
}

fn drive_keys(drives: &[Drive], boot: &str) -> Vec<String> {
    drives.iter().map(|drive| drive_key(drive, boot)).collect()
}

/// What tells a drive from others: its serial number, or the machine and its name.
pub fn drive_key(drive: &Drive, boot: &str) -> String {
    drive.serial.clone().unwrap_or_else(|| format!("{}.{boot}", drive.name))
}

/// The folder of a job on its host.
#[derive(Clone, Debug)]
pub struct JobFolder {
    folder: PathBuf,
}

impl JobFolder {
    /// The job in this folder.
    pub fn new(folder: &Path) -> JobFolder {
        JobFolder { folder: folder.to_owned() }
    }

    /// What it is told.
    ///
    /// # Errors
    /// There is no job, or one of another iopj.
    pub fn job(&self) -> Result<Job, FleetError> {
        JobFolder::description(&self.folder.join(DESCRIPTION))
    }

    /// A description in a file of its own.
    ///
    /// # Errors
    /// As for [`JobFolder::job`].
    pub fn description(path: &Path) -> Result<Job, FleetError> {
        let job: Job = files::read_json(path)?.ok_or_else(|| {
            FleetError::Refused(format!(
                "there is no job `{}`: `iopj fleet submit` writes it; is this folder on a file system that \
                 this host has too?",
                path.display()
            ))
        })?;
        if job.format != FORMAT {
            let (theirs, format) = (&job.version, job.format);
            return Err(FleetError::Refused(format!(
                "`{}` is of iopj {theirs} (format {format}), and this iopj knows format {FORMAT}: use the \
                 same iopj on both sides",
                path.display()
            )));
        }
        Ok(job)
    }

    /// Tells it, making the folder.
    ///
    /// # Errors
    /// [`FleetError::Io`].
    pub fn tell(&self, job: &Job) -> Result<(), FleetError> {
        files::make_folder(&self.folder)?;
        files::write_json(&self.folder.join(DESCRIPTION), job)
    }

    /// Its state as it was last written; `None` before it first began.
    ///
    /// # Errors
    /// The file is no state.
    pub fn written(&self) -> Result<Option<State>, FleetError> {
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
        files::write_json(&self.folder.join(STATE), state)
    }

    /// Refuses a folder, or the one above it, that is a link: as root, a task writes there in folders of the
    /// user who submitted it.
    ///
    /// # Errors
    /// It is one.
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
        let path = self.folder.join(LOCK);
        let no_link = OFlags::NOFOLLOW.bits().cast_signed();
        let file = File::options().create(true).truncate(false).write(true).custom_flags(no_link).open(&path);
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
        files::write_json(&self.folder.join(CANCELS), &number)
    }

    /// Whether it was cancelled after so many cancels of its campaign.
    ///
    /// # Errors
    /// [`FleetError::Io`], or [`FleetError::Form`].
    pub fn is_cancelled_after(&self, number: u64) -> Result<bool, FleetError> {
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

    /// Its store, which is fetched from here.
    pub fn store(&self) -> PathBuf {
        self.folder.join(STORE)
    }

    /// The store that it writes: its own, or one on the host's scratch, in a folder that bears the host's
    /// name: a scratch that hosts share by mistake has a store for each.
    ///
    /// # Errors
    /// The folder there cannot be made.
    pub fn store_of(&self, job: &Job) -> Result<PathBuf, FleetError> {
        let Some(scratch) = &job.scratch else { return Ok(self.store()) };
        let folder = scratch.join(&job.campaign).join(self.folder.file_name().unwrap_or_default());
        files::make_folder(&folder)?;
        Ok(folder.join(STORE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_start_is_too_late_that_knows_of_fewer_cancels() {
        let folder = tempfile::tempdir().unwrap();
        let files = JobFolder::new(folder.path());
        assert!(!files.is_cancelled_after(0).unwrap());
        files.cancel(2).unwrap();
        assert_eq!([1, 2, 3].map(|known| files.is_cancelled_after(known).unwrap()), [true, false, false]);
    }

    #[test]
    fn a_host_that_is_lost_may_run_a_job_only_if_one_began_and_its_end_is_not_known() {
        let running = State { began_ms: Some(1), ..State::now(Phase::Running, None) };
        assert!(running.may_run() && running.became(Phase::Lost, None).may_run());
        assert!(State::now(Phase::Running, None).may_run(), "it is being started");
        assert!(!State::now(Phase::Lost, None).may_run(), "it was never reached");
        for over in [Phase::Ok, Phase::Failures, Phase::Refused, Phase::Killed, Phase::Cancelled] {
            assert!(!running.became(over, None).may_run(), "{over:?}");
        }
    }

    #[test]
    fn a_drive_without_a_serial_is_its_machines_own() {
        let look = |boot: &str, serial: Option<&str>| Look {
            version: String::new(),
            boot: boot.to_owned(),
            drives: vec![Drive { name: "sda".to_owned(), serial: serial.map(str::to_owned) }],
            refusal: None,
            state: None,
        };
        assert_eq!(look("a", Some("S1")).drive_keys(), look("b", Some("S1")).drive_keys());
        assert_ne!(look("a", None).drive_keys(), look("b", None).drive_keys());
    }
}
