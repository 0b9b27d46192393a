//! A host's job: what it is told, and the state that it records.

use crate::files;
use iopj_core::Allow;
use iopj_store::Store;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

pub use crate::process::{Process, boot_id};

/// Why a job did not begin.
pub const TOO_LATE: &str = "cancelled before it began";
/// The version of these files.
pub const FORMAT: u32 = 2;

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

#[cfg(test)]
mod tests {
    use super::*;

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
