//! Why a program cannot be watched.

use iopj_probe::ProbeError;
use iopj_store::StoreError;
use std::io;
use std::path::PathBuf;

/// Why a program cannot be watched, with the remedy.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum WatchError {
    /// There is no such program.
    #[error("there is no program `{0}`: name a file, or a program in one of the folders of PATH")]
    NoProgram(String),
    /// This user may not run it, or it is no program.
    #[error("the program `{name}` cannot be started: {error}; name one that you can run by itself")]
    NotStarted { name: String, error: io::Error },
    /// There is no such process.
    #[error("there is no process {0}: name one that runs (`ps -e` lists them)")]
    NoProcess(i32),
    /// The process is another user's.
    #[error(
        "process {pid} ({name}) is not yours to watch: run as root or as its user, or grant CAP_SYS_PTRACE, \
         CAP_DAC_READ_SEARCH and CAP_PERFMON"
    )]
    NotYours { pid: i32, name: String },
    /// It would watch itself.
    #[error("process {0} is this iopj itself: name another process")]
    Itself(i32),
    /// There is no such control group.
    #[error(
        "there is no control group `{0}`: name its folder, such as /sys/fs/cgroup/system.slice/x.service \
         (`systemd-cgls` lists them)"
    )]
    NoCgroup(PathBuf),
    /// The file is missing, or no block device.
    #[error("`{path}` is not a block device ({why}): name one, such as /dev/nvme0n1 (`lsblk` lists them)")]
    NoDevice { path: PathBuf, why: String },
    /// The kernel has no counters of it.
    #[error("`{0}` has no disk with counters in /sys/block below it: name another device")]
    NoDisk(PathBuf),
    /// The operating system refused a pipe, a thread or a descriptor.
    #[error("the watch cannot be set up: {0}; end other programs, or raise the limits (`ulimit -a`)")]
    SetUp(io::Error),
    /// A counter of the operating system.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has no place.
    #[error("{0}")]
    Refused(String),
    /// The meters.
    #[error("{0}")]
    Meters(String),
}
