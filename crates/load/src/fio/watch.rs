//! Watches fio's jobs from outside, from their begin to their end.

use crate::native::monotonic_ns;
use iopj_core::{IoPath, Length, Workload};
use iopj_probe::{ChildJobs, ChildWatch, JobThreads, Probe, Watched};
use std::time::Duration;

/// A watch of the measured fio of one trial.
pub struct FioWatch<'a> {
    probe: &'a Probe,
    jobs: ChildJobs,
    watch: Option<ChildWatch<'a>>,
    /// A file could not be read, so nothing is known.
    has_failed: bool,
}

impl<'a> FioWatch<'a> {
    /// A watch that has seen nothing yet.
    pub fn new(probe: &'a Probe, path: &IoPath, workload: &Workload) -> FioWatch<'a> {
        let threads = match path {
            IoPath::Spdk => JobThreads::Unseen,
            _ => JobThreads::AfterFirst,
        };
        let runtime = match workload.length {
            Length::Runtime(runtime) => Some(runtime),
            Length::Ios(_) => None,
        };
        let jobs = ChildJobs { count: workload.numjobs, threads, runtime };
        FioWatch { probe, jobs, watch: None, has_failed: false }
    }

    /// Looks at fio, whose process id is `child`. Returns after how long to look again.
    pub fn look(&mut self, child: u32) -> Duration {
        if self.has_failed {
            return Duration::MAX;
        }
        let watch = self.watch.get_or_insert_with(|| ChildWatch::new(self.probe, child, self.jobs));
        self.has_failed = watch.look(monotonic_ns()).is_err();
        watch.next(monotonic_ns())
    }

    /// The jobs have begun, and not yet ended, as far as it was seen.
    pub fn is_running(&self) -> bool {
        !self.has_failed && self.watch.as_ref().is_some_and(ChildWatch::is_running)
    }

    /// What was seen, of jobs that ran for `window_ns`.
    pub fn finish(self, window_ns: u64) -> Option<Watched> {
        self.watch.filter(|_| !self.has_failed)?.finish(window_ns)
    }
}
