//! The programs of a cluster: run to their end, with what they say where they fail.

use crate::error::FleetError;
use std::io::ErrorKind;
use std::process::{Command, Output};

/// The output of a program that succeeds. `package` is what holds it.
pub(crate) fn output(program: &str, arguments: &[String], package: &str) -> Result<String, FleetError> {
    let output = run(program, arguments, package)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let reason = if last.is_empty() { output.status.to_string() } else { last.to_owned() };
    Err(FleetError::Program { command: shown(program, arguments), reason })
}

/// A program's end, whatever it is.
pub(crate) fn run(program: &str, arguments: &[String], package: &str) -> Result<Output, FleetError> {
    let mut command = Command::new(program);
    command.args(arguments);
    // What the user asks of squeue in general would hide tasks.
    let variables = std::env::vars_os().map(|(name, _)| name);
    variables.filter(|name| name.to_string_lossy().starts_with("SQUEUE_")).for_each(|name| {
        command.env_remove(name);
    });
    command.output().map_err(|error| {
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
