//! QEMU as a child process that cannot outlive the thread that started it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use super::command::{Console, MachineSpec, QEMU};
use super::{RunFolder, VmError};
use crate::image::find;

/// Where QEMU's own messages go, in the run folder.
const MESSAGES: &str = "messages";

/// A running QEMU. Dropped, it is killed and reaped.
pub(super) struct Machine {
    child: Child,
    messages: std::path::PathBuf,
}

impl Machine {
    /// Starts QEMU. It dies with the calling thread (PR_SET_PDEATHSIG(2const)), so the thread that starts it
    /// must be the one that waits for it.
    pub(super) fn start(
        spec: &MachineSpec,
        console: Console,
        folder: &RunFolder,
    ) -> Result<Machine, VmError> {
        let program = find(QEMU).ok_or(VmError::NoQemu)?;
        let messages = folder.path().join(MESSAGES);
        let mut command = Command::new(program);
        command.args(spec.arguments(console)).current_dir(folder.path());
        match console {
            Console::Lines => {
                let file = File::create(&messages).map_err(VmError::at(&messages))?;
                command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file).process_group(0);
            }
            // In a group of its own it could not read the terminal.
            Console::Terminal => {}
        }
        let parent = std::process::id();
        // SAFETY: the closure makes two system calls and allocates nothing, as a child of a process with
        // threads must.
        unsafe {
            command.pre_exec(move || {
                let signal = libc::SIGKILL as libc::c_ulong;
                if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // The parent may have died before the signal was asked for.
                if libc::getppid() as u32 == parent {
                    Ok(())
                } else {
                    Err(io::Error::from_raw_os_error(libc::ESRCH))
                }
            });
        }
        let child = command.spawn().map_err(|source| VmError::Start { source })?;
        let machine = Machine { child, messages };
        folder.note_machine(machine.child.id())?;
        Ok(machine)
    }

    /// Reads what the console has, waiting so long for it; `Some(0)` when it is closed, `None` when nothing
    /// came.
    pub(super) fn read(&mut self, buffer: &mut [u8], wait: Duration) -> io::Result<Option<usize>> {
        let Some(stdout) = &mut self.child.stdout else { return Ok(Some(0)) };
        // SAFETY: the descriptor belongs to the child's pipe, which outlives the borrow.
        let descriptor = unsafe { BorrowedFd::borrow_raw(stdout.as_raw_fd()) };
        if !readable(descriptor, wait)? {
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
            .map(|line| line.strip_prefix(QEMU).map_or(line, |rest| rest.trim_start_matches([':', ' '])))
            .collect();
        lines.join("; ")
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn readable(descriptor: BorrowedFd<'_>, wait: Duration) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, valid for the call.
    let ready = unsafe { libc::poll(&raw mut poll, 1, i32::try_from(wait.as_millis()).unwrap_or(i32::MAX)) };
    if ready >= 0 {
        return Ok(ready > 0);
    }
    match io::Error::last_os_error() {
        error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        error => Err(error),
    }
}

/// QEMU's version as it tells it.
///
/// # Errors
/// [`VmError::NoQemu`], [`VmError::Start`].
pub fn qemu_version() -> Result<String, VmError> {
    let program = find(QEMU).ok_or(VmError::NoQemu)?;
    let output = Command::new(Path::new(&program))
        .arg("--version")
        .output()
        .map_err(|source| VmError::Start { source })?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
}
