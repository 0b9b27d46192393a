//! What the tests of campaigns share: studies, and what a campaign's folder says of its hosts.

use crate::common::{LoopDevice, Undo, mounted, tool};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The longest wait for anything here.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A study of so many trials, each of this length; it reads a file that iopj makes.
pub(crate) fn study(trials: u32, runtime: &str) -> String {
    format!(
        r#"name = "fleet"
paths = "posix-sio/syscall/interrupt"
replicates = {trials}
size = "4m"
meters = "none"

[[workload]]
rw = "randread"
bs = "4k"
iodepth = 1
numjobs = 1
ramp_time = "0s"
runtime = "{runtime}"
"#
    )
}

/// A folder that every user may look into.
pub(crate) fn open_folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("iopj-fleet-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A small drive with a file system, mounted at `at`.
pub(crate) struct Disk {
    _mounted: Undo,
    device: LoopDevice,
}

impl Disk {
    pub(crate) fn mounted(at: &Path) -> Disk {
        let image = at.with_extension("img");
        tool(&format!("truncate -s 24M {}", image.display()));
        tool(&format!("mkfs.ext4 -q {}", image.display()));
        let device = LoopDevice::new(&image, "");
        Disk { _mounted: mounted(device.node(), at), device }
    }

    /// The kernel's name.
    pub(crate) fn name(&self) -> &str {
        self.device.node().trim_start_matches("/dev/")
    }
}

/// The record of a host in a campaign's folder; `Null` if there is none.
pub(crate) fn record(campaign: &Path, host: &str) -> Value {
    json(&campaign.join("hosts").join(format!("{host}.json")))
}

/// A file as JSON; `Null` if there is none.
pub(crate) fn json(path: &Path) -> Value {
    fs::read(path).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap())
}

/// Waits for something that must come.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a store holds at least so many trials.
#[track_caller]
pub(crate) fn until_done(store: &Path, trials: usize) {
    until("a trial", || {
        let store = iopj_store::Store::open(store).ok()?;
        (store.positions().ok()?.len() >= trials).then_some(())
    });
}

/// The process of a job by its state, once it runs.
#[track_caller]
pub(crate) fn process(state: &Path) -> i32 {
    until("a process", || {
        let state = json(state);
        (state["phase"] == "running").then(|| state["process"]["pid"].as_i64()).flatten()
    }) as i32
}

pub(crate) fn signal(pid: i32, signal: libc::c_int) {
    // SAFETY: takes no pointer; the process is one that this test started.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "process {pid}");
}

/// The trials of a store.
pub(crate) fn trials(store: &Path) -> usize {
    iopj_store::Store::open(store).unwrap().positions().unwrap().len()
}

/// Waits for a child's end.
#[track_caller]
pub(crate) fn end(child: &mut Child) -> ExitStatus {
    until("a process's end", || child.try_wait().unwrap())
}

/// Where a campaign of the folder `name` fetches a host's store to.
pub(crate) fn fetched(campaign: &Path, host: &str) -> PathBuf {
    campaign.join("stores").join(format!("{host}.iopj"))
}
