//! QEMU as a child process that cannot outlive the thread that started it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use super::spec::{ConsoleEnd, MachineSpec};
use super::wire::own_network;
use super::{RunFolder, VmError};
use crate::arch::Arch;
use crate::host_tools::find;

/// Where QEMU's own messages go, in the run folder.
const MESSAGES: &str = "messages";

/// A running QEMU. Dropped, it is killed and reaped.
pub(super) struct Qemu {
    child: Child,
    /// The program's name, with which its messages begin.
    name: &'static str,
    messages: std::path::PathBuf,
}

impl Qemu {
    /// Starts QEMU. It dies with the calling thread (PR_SET_PDEATHSIG(2const)), so that thread must wait for
    /// it.
    pub(super) fn start(
        spec: &MachineSpec,
        console: ConsoleEnd,
        folder: &RunFolder,
    ) -> Result<Qemu, VmError> {
        let program = program(spec.arch)?;
        let messages = folder.path().join(MESSAGES);
        let mut command = Command::new(program);
        command.args(spec.arguments(console)).current_dir(folder.path());
        match console {
            ConsoleEnd::Lines => {
                let file = File::create(&messages).map_err(VmError::at(&messages))?;
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).process_group(0);
            }
            // In a group of its own it could not read the terminal.
            ConsoleEnd::Terminal => {}
        }
        let parent: Pid = getpid();
        let has_wire = spec.wire.is_some();
        // SAFETY: the closure makes a few system calls and allocates nothing, as a child of a process with
        // threads must.
        unsafe {
            command.pre_exec(move || {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                // The parent may have died before the signal was asked for.
                if getppid() != Some(parent) {
                    return Err(Errno::SRCH.into());
                }
                if has_wire { own_network() } else { Ok(()) }
            });
        }
        let child = command.spawn().map_err(VmError::Start)?;
        let qemu = Qemu { child, name: spec.arch.qemu().0, messages };
        folder.note_machine(qemu.child.id())?;
        Ok(qemu)
    }

    /// Reads from the console, waiting at most so long; `Some(0)` when it is closed, `None` when nothing
    /// came.
    pub(super) fn read(&mut self, buffer: &mut [u8], wait: Duration) -> io::Result<Option<usize>> {
        let Some(stdout) = &mut self.child.stdout else { return Ok(Some(0)) };
        if !readable(stdout.as_fd(), wait)? {
            return Ok(None);
        }
        io::Read::read(stdout, buffer).map(Some)
    }

    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    pub(super) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// What QEMU said, without its name before each line.
    pub(super) fn messages(&self) -> String {
        let text = std::fs::read_to_string(&self.messages).unwrap_or_default();
        let lines: Vec<&str> = text
            .lines()
            .map(|line| line.strip_prefix(self.name).map_or(line, |rest| rest.trim_start_matches([':', ' '])))
            .collect();
        lines.join("; ")
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the descriptor can be read; false if it cannot in time.
fn readable(descriptor: BorrowedFd<'_>, wait: Duration) -> io::Result<bool> {
    let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    match poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&wait)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn program(arch: Arch) -> Result<PathBuf, VmError> {
    let (name, package) = arch.qemu();
    find(name).ok_or(VmError::NoQemu { name, package })
}

/// The first line of `--version` of the QEMU for this processor.
///
/// # Errors
/// [`VmError::NoQemu`], [`VmError::Start`].
pub fn qemu_version(arch: Arch) -> Result<String, VmError> {
    let output = Command::new(program(arch)?).arg("--version").output().map_err(VmError::Start)?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}
