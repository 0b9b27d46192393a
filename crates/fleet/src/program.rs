//! The programs of a cluster: run to their end, with what they say where they fail, and never without end.

use crate::error::FleetError;
use iopj_fabric::{Ended, ended};
use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// How long one may take: longer than Kubernetes is told to wait for the end of pods.
const LIMIT: Duration = Duration::from_secs(240);
/// The most that is read of its output, in bytes: kubectl says some KiB a pod.
const LONGEST: u64 = 256 << 20;

/// For a program that nobody stops.
pub(crate) static NEVER: AtomicBool = AtomicBool::new(false);

/// The output of a program that succeeds. `package` is what holds it. Once `stop` is set, it is ended.
pub(crate) fn output(
    program: &str,
    arguments: &[String],
    package: &str,
    stop: &AtomicBool,
) -> Result<String, FleetError> {
    let ended = run(program, arguments, package, stop)?;
    let reason = match ended.cut_short {
        None if ended.status.success() => {
            return Ok(String::from_utf8_lossy(&ended.output).trim().to_owned());
        }
        None if ended.said.is_empty() => ended.status.to_string(),
        None => ended.said,
        Some(why) => why.to_string(),
    };
    Err(FleetError::Program { command: shown(program, arguments), reason })
}

/// A program's end, whatever it is.
pub(crate) fn run(
    program: &str,
    arguments: &[String],
    package: &str,
    stop: &AtomicBool,
) -> Result<Ended, FleetError> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // What the user asks of squeue in general would hide tasks.
    let variables = std::env::vars_os().map(|(name, _)| name);
    variables.filter(|name| name.to_string_lossy().starts_with("SQUEUE_")).for_each(|name| {
        command.env_remove(name);
    });
    command.spawn().and_then(|child| ended(child, LIMIT, LONGEST, stop)).map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => format!("there is no `{program}` here: install {package}"),
            _ => error.to_string(),
        };
        FleetError::Program { command: shown(program, arguments), reason }
    })
}

fn shown(program: &str, arguments: &[String]) -> String {
    let first = arguments.first().map_or(String::new(), |argument| format!(" {argument}"));
    format!("{program}{first}")
}

/// Words as arguments.
pub(crate) fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}
