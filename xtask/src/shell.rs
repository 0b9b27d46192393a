//! Programs that tasks run: steps with their time, and captured output.

use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether this runs in CI (`CI=true`), where nothing may be skipped.
pub(crate) fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}

/// Runs `command` as a named step and prints how long it took.
///
/// # Errors
/// The program cannot be started, or fails.
pub(crate) fn step(name: &str, command: &mut Command) -> Result<()> {
    timed(name, || {
        let status = command.status().with_context(|| format!("`{}` cannot be started", text(command)))?;
        if !status.success() {
            bail!("`{}` failed: {status}", text(command));
        }
        Ok(())
    })
}

/// Does `work` as a named step and prints how long it took.
pub(crate) fn timed<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("==> {name}");
    let start = Instant::now();
    let result = work().with_context(|| name.to_owned());
    let (word, took) = (if result.is_ok() { "done" } else { "failed" }, start.elapsed());
    println!("<== {name}: {word} in {:.1} s", took.as_secs_f64());
    lock_steps().push((name.to_owned(), took));
    result
}

/// The steps that have ended, in that order, with the time of each.
static STEPS: Mutex<Vec<(String, Duration)>> = Mutex::new(Vec::new());

fn lock_steps() -> MutexGuard<'static, Vec<(String, Duration)>> {
    // Whatever panicked while it held the lock, a list of ended steps is whole.
    STEPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was left out, each with what it needs.
static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lock_skipped() -> MutexGuard<'static, Vec<String>> {
    // Whatever panicked while it held the lock, a list of reasons is whole.
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves something out, and says what it needs.
pub(crate) fn skip(what: String) {
    println!("skipped: {what}");
    lock_skipped().push(what);
}

/// All that was left out so far.
pub(crate) fn skipped() -> Vec<String> {
    lock_skipped().clone()
}

/// A line for each step that has ended and took a second or more.
pub(crate) fn steps() -> Vec<String> {
    let steps = lock_steps();
    let long = steps.iter().filter(|(_, took)| took.as_secs() > 0);
    long.map(|(name, took)| format!("{:7.1} s  {name}", took.as_secs_f64())).collect()
}

/// What `command` prints on stdout; its stderr is shown only if it fails.
///
/// # Errors
/// The program cannot be started, fails, or prints something other than text.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("`{}` cannot be started", text(command)))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr);
        bail!("`{}` failed ({}): {}", text(command), output.status, reason.trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Whether `command` runs and succeeds.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The command as it would be typed.
fn text(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
