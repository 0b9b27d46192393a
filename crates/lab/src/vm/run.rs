//! One guest from start to end: its console, its time limit, its output.

use std::io::stdin;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::archive::unpack;
use super::console::Console;
use super::qemu::Qemu;
use super::spec::{Accelerator, ConsoleEnd, MachineSpec, OUT_FILE};
use super::{RunFolder, VmError};

/// How often the stop flag and the clock are checked.
const TICK: Duration = Duration::from_millis(100);
/// How long a guest may take to end after its kernel has given up.
const PANIC_LIMIT: Duration = Duration::from_secs(5);

/// A guest that has ended by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit status of the guest's script.
    pub status: i32,
    /// From QEMU's start to the script's.
    pub boot: Duration,
    /// From QEMU's start to its end.
    pub total: Duration,
}

/// Boots a guest, passes each line of its console to `line`, waits for its end, and unpacks what its script
/// left in `/out` into the existing folder `out`.
///
/// `stop` ends the machine within a tenth of a second. The machine dies with the calling thread. A kernel
/// that panics before the script starts, or is not up within its boot limit, is booted again, up to three
/// times in all; the third boot is not held to the boot limit. A guest that uses up its time limit is not
/// booted again.
///
/// # Errors
/// [`VmError`]: QEMU is missing or refuses the machine; the guest panics, fails to start up, exceeds its time
/// limit, or hands out nothing. No process is left in any case.
pub fn run(
    spec: &MachineSpec,
    folder: &RunFolder,
    out: &Path,
    stop: &AtomicBool,
    line: &mut dyn FnMut(&str),
) -> Result<Ended, VmError> {
    let started = Instant::now();
    let mut console = Console::new(line);
    let mut booted = boot(spec, folder, spec.boot_limit, stop, &mut console);
    // A slow machine has all the time in the last boot.
    for boot_limit in [spec.boot_limit, spec.time_limit] {
        // Once the guest is up, some of the script has run.
        match &booted {
            Err(VmError::Panic { .. } | VmError::Mistranslated(_)) if console.up.is_none() => {}
            Err(VmError::NotUp { limit, .. }) if *limit < spec.time_limit => {
                console.say(&format!("the guest is not up after {} s: it is booted again", limit.as_secs()));
            }
            _ => break,
        }
        console.start_again();
        booted = boot(spec, folder, boot_limit, stop, &mut console);
    }
    booted?;
    let total = started.elapsed();
    let archive = folder.path().join(OUT_FILE);
    let status = unpack(&archive, out).map_err(VmError::at(&archive))?;
    match (status, console.up) {
        (Some(status), Some(boot)) => Ok(Ended { status, boot, total }),
        _ => Err(VmError::NoOutput(console.last_lines())),
    }
}

/// Runs the machine until it is off, at most until its time limit. It must be up within `boot_limit`.
pub(super) fn boot(
    spec: &MachineSpec,
    folder: &RunFolder,
    boot_limit: Duration,
    stop: &AtomicBool,
    console: &mut Console<'_>,
) -> Result<(), VmError> {
    let started = Instant::now();
    let mut qemu = Qemu::start(spec, ConsoleEnd::Lines, folder)?;
    let mut buffer = [0; 4096];
    loop {
        match qemu.read(&mut buffer, TICK).map_err(VmError::Start)? {
            Some(0) => break,
            Some(read) => console.feed(&buffer[..read]),
            None => {}
        }
        if stop.load(Ordering::Relaxed) {
            return Err(VmError::Stopped);
        }
        if let Some((panic, seen)) = &console.panic
            && seen.elapsed() > PANIC_LIMIT
        {
            return Err(panicked(spec, panic, console));
        }
        let is_up = console.up.is_some();
        let limit = if is_up { spec.time_limit } else { boot_limit.min(spec.time_limit) };
        if started.elapsed() > limit {
            console.finish();
            let console = console.last_lines();
            return Err(match is_up {
                true => VmError::TimeLimit { limit, console },
                false => VmError::NotUp { limit, console },
            });
        }
    }
    console.finish();
    let status = qemu.wait().map_err(VmError::Start)?;
    if let Some((panic, _)) = &console.panic {
        return Err(panicked(spec, panic, console));
    }
    if let Some(cause) = &console.failed {
        return Err(VmError::Guest { cause: cause.clone(), console: console.last_lines() });
    }
    if !status.success() {
        return Err(ended_badly(spec, status, qemu.messages(), console.last_lines()));
    }
    Ok(())
}

/// Boots a guest with its console on the user's terminal, until it is off. Ctrl-A X ends it at once.
///
/// # Errors
/// [`VmError`]: QEMU is missing, or refuses the machine and has said so on the terminal.
pub fn interact(spec: &MachineSpec, folder: &RunFolder, stop: &AtomicBool) -> Result<(), VmError> {
    // Declared before QEMU, so it is restored after QEMU is dead.
    let _terminal = Terminal::save();
    let mut qemu = Qemu::start(spec, ConsoleEnd::Terminal, folder)?;
    let status = loop {
        if let Some(status) = qemu.ended().map_err(VmError::Start)? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            return Err(VmError::Stopped);
        }
        std::thread::sleep(TICK);
    };
    if status.success() { Ok(()) } else { Err(ended_badly(spec, status, "see above".to_owned(), Vec::new())) }
}

/// What no processor does is QEMU's fault, under its translator only.
fn panicked(spec: &MachineSpec, panic: &str, console: &Console<'_>) -> VmError {
    match spec.accelerator {
        Accelerator::Tcg { .. } if console.is_mistranslated => VmError::Mistranslated(console.last_lines()),
        _ => VmError::Panic { panic: panic.to_owned(), console: console.last_lines() },
    }
}

/// Why QEMU itself did not end well: it refuses a machine by an exit code, and dies of a signal.
fn ended_badly(spec: &MachineSpec, status: ExitStatus, messages: String, console: Vec<String>) -> VmError {
    if status.signal().is_some() {
        return VmError::Died { status, messages, console };
    }
    VmError::Refused { kernel: spec.kernel.clone(), status, messages, console }
}

/// The terminal's modes, restored when dropped: a killed QEMU leaves it raw.
struct Terminal(Option<Termios>);

impl Terminal {
    fn save() -> Terminal {
        Terminal(tcgetattr(stdin()).ok())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(modes) = &self.0 {
            let _ = tcsetattr(stdin(), OptionalActions::Now, modes);
        }
    }
}
