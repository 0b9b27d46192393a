//! A program watched for the length of a trial: no meters of its own, and no figures meanwhile.

use super::error::WatchError;
use super::life::{Span, lived};
use super::power::Power;
use super::subject::Found;
use super::{WatchStop, WatchView};
use hdrhistogram::Histogram;
use iopj_core::watch::{SeenPath, WatchEvidence, WatchSubject};
use iopj_probe::Reaped;
use iopj_record::watch::WatchInterval;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Counts that rest are scaled up by intervals of this length.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long processes may outlive the program that started them.
const GRACE: Duration = Duration::from_secs(1);

/// What a trial does at the ends of the program's life, and meanwhile.
pub trait TrialWatch {
    /// The program is let go now.
    fn starts(&mut self);
    /// Some time has passed; with its process id, which is also that of its group.
    fn passes(&mut self, program: u32);
    /// The program has just ended.
    fn ended(&mut self);
}

/// What was seen of the program.
pub struct WatchedTrial {
    /// Counts of the window.
    pub evidence: WatchEvidence,
    /// The paths that these show.
    pub paths: Vec<SeenPath>,
    /// What could not be read, and why.
    pub denied: Vec<String>,
    /// How it ended, and its totals.
    pub ended: Option<Reaped>,
    /// Processes that it left behind, by number and name.
    pub left: Vec<(i32, String)>,
    /// Latencies of all disks, as far as they were sampled.
    pub latencies: Histogram<u64>,
}

struct View<'a>(&'a mut dyn TrialWatch);

impl WatchView for View<'_> {
    fn begin(&mut self, _: &WatchSubject) {}
    fn interval(&mut self, _: &WatchSubject, _: &WatchInterval, _: &WatchEvidence) {}
    fn note(&mut self, _: &str) {}
    fn starts(&mut self) {
        self.0.starts();
    }
    fn passes(&mut self, program: u32) {
        self.0.passes(program);
    }
    fn ended(&mut self) {
        self.0.ended();
    }
}

/// Runs a program and watches it until it ends, and what it leaves behind for a second more; with the
/// processes of servers that work for it, and these disks from the beginning.
///
/// # Errors
/// It cannot be started or watched.
pub fn watch_trial(
    command: Command,
    (servers, disks): (&[i32], &[String]),
    watch: &mut dyn TrialWatch,
    interrupted: &AtomicBool,
) -> Result<WatchedTrial, WatchError> {
    let found = Found { disks: disks.to_vec(), ..Found::started(command, servers)? };
    let never = AtomicBool::new(false);
    let stop = WatchStop { now: &never, interrupted };
    let span = Span { length: None, interval: INTERVAL, grace: Some(GRACE) };
    let lived = lived(found, Power::none(), span, &mut View(watch), stop);
    // From now on a daemon that is started is init's, as one from a shell is.
    let _ = rustix::process::set_child_subreaper(None);
    let lived = lived?;
    let name = |pid: i32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        (pid, comm.trim_end().to_owned())
    };
    Ok(WatchedTrial {
        evidence: lived.record.evidence,
        paths: lived.record.paths,
        denied: lived.record.denied,
        ended: lived.ended,
        left: lived.left.into_iter().map(name).collect(),
        latencies: lived.latencies,
    })
}
