//! A task of Slurm in a process of its own, so that what it measured outlives it.

use crate::output::note;
use anyhow::Context;
use iopj_fleet::JobFolder;
use iopj_fleet::job::Job;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitCode, ExitStatus};

/// Does the job of a folder. Where it is killed, brings its trials back from the host's scratch, and ends in
/// the same way, for Slurm to record it.
pub(super) fn guarded(folder: &JobFolder, job: &Job, node: &str, task: &str) -> anyhow::Result<ExitCode> {
    let signals = set(&[libc::SIGTERM, libc::SIGCHLD]);
    mask(&signals).context("signals cannot be blocked")?;
    let mut own = Command::new(std::env::current_exe()?);
    own.args(["fleet", "job"]).arg(folder.path()).args(["--node", node, "--task", task]);
    own.args(folder.in_name());
    let none = set(&[]);
    // SAFETY: between fork and exec only sigprocmask is called, which is async-signal-safe.
    unsafe {
        own.pre_exec(move || mask(&none));
    }
    let status = end(&mut own.spawn().context("the job cannot be started")?, &signals)?;
    let Some(signal) = status.signal() else {
        return Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)));
    };
    super::put_back::put_back();
    let store = folder.store_of(job)?;
    let brought = folder.bring_store(&store);
    let stay = |error| note(&format!("the trials stay in `{}`: {error}", store.display()));
    brought.unwrap_or_else(stay);
    mask(&set(&[]))?;
    // SAFETY: both calls take plain numbers.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    Ok(ExitCode::from(u8::MAX))
}

/// Waits for the end of a job, and passes on to it that it is to end.
fn end(job: &mut Child, signals: &libc::sigset_t) -> io::Result<ExitStatus> {
    loop {
        if let Some(status) = job.try_wait()? {
            return Ok(status);
        }
        let mut signal = 0;
        // SAFETY: both point to values of this frame or the caller's, and the set is initialised.
        unsafe { libc::sigwait(signals, &raw mut signal) };
        if signal == libc::SIGTERM {
            // SAFETY: takes plain numbers; the child is not yet waited for, so its number is still its own.
            unsafe { libc::kill(job.id().cast_signed(), signal) };
        }
    }
}

fn set(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: zero is a valid value of the plain struct, and sigemptyset initialises it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

/// Blocks these signals alone.
fn mask(signals: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: the set is initialised, and no old one is asked for.
    match unsafe { libc::sigprocmask(libc::SIG_SETMASK, signals, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
