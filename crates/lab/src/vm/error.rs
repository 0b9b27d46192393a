//! Why a machine does not start or a guest does not end well, each reason with its remedy.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Signal;

use crate::image::ImageError;

/// Why a machine does not start or a guest does not end well.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum VmError {
    /// There is no QEMU.
    #[error("`{name}` is not installed: install the package {package}")]
    NoQemu { name: &'static str, package: &'static str },
    /// QEMU cannot be started or watched.
    #[error("QEMU cannot be run: {0}; install it again")]
    Start(#[source] io::Error),
    /// QEMU ended by itself, not because of the guest.
    #[error(
        "QEMU could not run kernel `{kernel}` ({status}): {said}; fix what it names, or give another \
         kernel image{lines}",
        said = if messages.is_empty() { "it did not say why" } else { messages },
        lines = shown(console)
    )]
    Refused { kernel: PathBuf, status: ExitStatus, messages: String, console: Vec<String> },
    /// A signal ended QEMU: a fault of its own, or somebody's.
    #[error(
        "QEMU died ({status}{said}): {remedy}{lines}",
        said = if messages.is_empty() { String::new() } else { format!("; {messages}") },
        remedy = after_death(*status),
        lines = shown(console)
    )]
    Died { status: ExitStatus, messages: String, console: Vec<String> },
    /// The guest's script did not start in time.
    #[error(
        "the guest did not start up within {} s: try again, or allow it more time{}",
        limit.as_secs(), shown(console)
    )]
    NotUp { limit: Duration, console: Vec<String> },
    /// The guest did not end in time.
    #[error(
        "the guest did not end within {} s: look at its last lines, or allow it more time{}",
        limit.as_secs(), shown(console)
    )]
    TimeLimit { limit: Duration, console: Vec<String> },
    /// The guest's kernel panicked or oopsed.
    #[error("the guest's kernel gave up ({panic}): try another kernel, or more memory{}", shown(console))]
    Panic { panic: String, console: Vec<String> },
    /// The guest's kernel met what no processor does: a breakpoint that it had removed, because QEMU's
    /// translator ran code from before a patch, or flags that do not exist. The last lines of its console.
    #[error(
        "QEMU's translator went wrong (the guest's kernel hit a breakpoint that it had removed, or saw flags \
         that no processor has): try again, or use a newer QEMU{}",
        shown(.0)
    )]
    Mistranslated(Vec<String>),
    /// The guest could not start up or hand out its results.
    #[error("the guest failed at {cause}{}", shown(console))]
    Guest {
        /// The stage and what was wrong.
        cause: String,
        console: Vec<String>,
    },
    /// The guest ended without handing anything out; the last lines of its console.
    #[error(
        "the guest ended without handing out its results: it was switched off before its script ended{}",
        shown(.0)
    )]
    NoOutput(Vec<String>),
    /// The caller's stop flag was set.
    #[error("the guest was stopped")]
    Stopped,
    /// The control socket.
    #[error("QEMU's control socket: {0}")]
    Qmp(String),
    /// A file of the machine's folder.
    #[error("`{path}`: {source}")]
    File { path: PathBuf, source: io::Error },
    /// The initramfs cannot be made.
    #[error(transparent)]
    Image(#[from] ImageError),
}

impl VmError {
    pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> VmError {
        let path = path.to_path_buf();
        move |source| VmError::File { path: path.clone(), source }
    }
}

/// What to do once a signal has ended QEMU.
fn after_death(status: ExitStatus) -> &'static str {
    match status.signal() {
        Some(signal) if signal == Signal::KILL.as_raw() => {
            "if nobody killed it, this machine ran out of memory (see `dmesg`): free some, and try again"
        }
        _ => "try again, or use a newer QEMU",
    }
}

/// The console's lines under a message.
fn shown(console: &[String]) -> String {
    if console.is_empty() {
        return String::new();
    }
    format!("\nthe guest's last lines:\n  {}", console.join("\n  "))
}
