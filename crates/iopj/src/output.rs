//! Standard output and standard error: results, and one message per error. A closed pipe is no error.

use iopj_report::render::escape;
use std::io::{self, Write};
use std::process::ExitCode;

/// A usage or set-up error.
pub(crate) const USAGE: u8 = 2;
/// The study found failures.
pub(crate) const FAILURES: u8 = 1;
/// Interrupted by a signal.
pub(crate) const INTERRUPTED: u8 = 130;

/// Prints results. A reader that has seen enough (`| head`) is no error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(anyhow::anyhow!("standard output cannot be written: {error}")),
        Ok(()) => Ok(()),
    }
}

/// Prints a value as JSON.
pub(crate) fn print_json(value: &serde_json::Value) -> anyhow::Result<()> {
    print(&format!("{value:#}\n"))
}

/// Prints a line for the user beside the results.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", escape(text));
}

/// Prints an error in one line. What it quotes from foreign files is escaped for the terminal.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "iopj: {}", escape(&message(error)));
    ExitCode::from(USAGE)
}

/// An error with its causes, except those whose text is already in the message.
fn message(error: &anyhow::Error) -> String {
    let mut message = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    /// The message about a missing program once ended in "No such file or directory" twice.
    #[test]
    fn a_cause_that_a_message_contains_is_not_repeated() {
        let error =
            iopj_lab::image::Program::called("/no/plugin").context("the study names a program").unwrap_err();
        assert_eq!(
            message(&error),
            "the study names a program: `/no/plugin` cannot be read (No such file or directory (os error \
             2)): build it, or name a file that exists"
        );
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::NotFound)).context("it is gone");
        assert_eq!(message(&error), "it is gone: entity not found");
    }
}
