//! Programs that tasks run: steps with their time, and captured output.

use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};
use std::time::Instant;

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
    let word = if result.is_ok() { "done" } else { "failed" };
    println!("<== {name}: {word} in {:.1} s", start.elapsed().as_secs_f64());
    result
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
