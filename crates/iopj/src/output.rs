//! Standard output and error: results, one message for an error, and no complaint about a closed pipe.

use iopj_report::render::escape;
use std::io::{self, Write};
use std::process::ExitCode;

/// Usage or set-up.
pub(crate) const USAGE: u8 = 2;
/// The study found failures.
pub(crate) const FAILURES: u8 = 1;
/// Ended by Ctrl-C.
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

/// Tells an error in one line; what it quotes of a foreign file cannot steer the terminal.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "iopj: {}", escape(&format!("{error:#}")));
    ExitCode::from(USAGE)
}
