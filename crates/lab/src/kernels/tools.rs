//! The host's programs that fetching needs, and how they are run.

use super::KernelError;
use crate::host_tools::{self, Tool, find};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Every program that fetching needs.
const TOOLS: [Tool; 3] = [("apt-get", "apt"), ("dpkg-deb", "dpkg"), ("depmod", "kmod")];

/// The programs that fetching kernels needs and that are not installed, each with the package that holds it
/// in Debian and Ubuntu.
pub fn missing_tools() -> Vec<(&'static str, &'static str)> {
    host_tools::missing(&TOOLS)
}

/// Fails if any of `tools` is missing, and names all that are.
pub(super) fn require(tools: &[&str]) -> Result<(), KernelError> {
    let missing: Vec<_> = missing_tools().into_iter().filter(|(tool, _)| tools.contains(tool)).collect();
    if missing.is_empty() { Ok(()) } else { Err(KernelError::MissingTools(missing)) }
}

/// A command that asks nothing and speaks English, which we parse.
pub(super) fn command(tool: &str) -> Command {
    let mut command = Command::new(find(tool).unwrap_or_else(|| PathBuf::from(tool)));
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    command
}

/// Runs a command to its end and returns what it wrote.
pub(super) fn output(tool: &'static str, what: &str, command: &mut Command) -> Result<Output, KernelError> {
    command.output().map_err(|error| KernelError::Tool {
        tool,
        what: what.to_owned(),
        complaint: error.to_string(),
    })
}

/// Runs a command that must succeed.
pub(super) fn run(tool: &'static str, what: &str, command: &mut Command) -> Result<(), KernelError> {
    let output = output(tool, what, command)?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = first_line(&output).unwrap_or_else(|| output.status.to_string());
    Err(KernelError::Tool { tool, what: what.to_owned(), complaint })
}

fn first_line(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named_with_their_packages() {
        let tools = [("sh", "dash"), ("iopj-no-such-tool", "iopj-no-such-package")];
        assert_eq!(host_tools::missing(&tools), tools[1..]);
        assert_eq!(
            KernelError::MissingTools(TOOLS.to_vec()).to_string(),
            "the lab's kernels need apt-get, dpkg-deb, depmod: install apt, dpkg, kmod; --kernel IMAGE \
             --modules DIR needs only kmod"
        );
    }

    #[test]
    fn a_failing_program_is_quoted() {
        run("sh", "nothing", command("sh").args(["-c", "exit 0"])).unwrap();
        let message =
            run("sh", "the file", command("sh").args(["-c", "echo; echo it broke >&2; exit 3"])).unwrap_err();
        assert!(message.to_string().starts_with("sh failed on the file: it broke;"), "{message}");
        let silent = run("sh", "the file", command("sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(silent.contains("exit status: 3"), "{silent}");
    }
}
