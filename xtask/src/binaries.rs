//! The workspace's test binaries: cargo builds all of them at once, and they run without it. cargo would wait
//! for whatever builds in the same folder beside them.

use crate::results::Results;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::available_parallelism;
use std::time::Instant;

/// The features are those of clippy and the documentation, so nothing is built twice.
pub(crate) const TESTS: &str = "test --workspace --all-features";

/// A test binary.
#[derive(Debug, PartialEq)]
pub(crate) struct Binary {
    /// The name of a crate, or of an integration test.
    pub(crate) name: String,
    /// Made of a folder `tests`, not of a crate's own unit tests.
    pub(crate) is_integration: bool,
    /// The crate's folder, in which cargo would run it.
    folder: PathBuf,
    /// The source, below that folder.
    source: String,
    executable: PathBuf,
}

/// Builds all test binaries.
///
/// # Errors
/// cargo's own.
pub(crate) fn build(workspace: &Workspace) -> Result<Vec<Binary>> {
    shell::timed("build of the tests", || {
        let words = format!("{TESTS} --no-run --message-format=json-render-diagnostics");
        let output = workspace.cargo(&words).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "cargo ends with {}", output.status);
        let mut binaries = named(&String::from_utf8(output.stdout)?);
        ensure!(!binaries.is_empty(), "cargo names no test binary");
        binaries.sort_by(|one, other| {
            let key = |of: &Binary| (of.folder.clone(), of.is_integration, of.name.clone());
            key(one).cmp(&key(other))
        });
        Ok(binaries)
    })
}

/// The test binaries that the messages of cargo name.
pub(crate) fn named(messages: &str) -> Vec<Binary> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter_map(|message| binary(&message)).collect()
}

fn binary(message: &Value) -> Option<Binary> {
    let target = &message["target"];
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
    let source = Path::new(target["src_path"].as_str()?);
    let executable = message["executable"].as_str()?;
    let is_test = message["profile"]["test"].as_bool()?;
    is_test.then(|| Binary {
        name: target["name"].as_str().unwrap_or_default().to_owned(),
        is_integration: target["kind"][0] == "test",
        folder: folder.to_owned(),
        source: source.strip_prefix(folder).unwrap_or(source).display().to_string(),
        executable: executable.into(),
    })
}

/// Runs them one after the other, whatever fails, with these words of libtest's and variables. Their output
/// is printed and read.
pub(crate) fn run(binaries: &[&Binary], words: &[&str], variables: &[(&str, PathBuf)]) -> Results {
    let (start, mut results) = (Instant::now(), new_results());
    for binary in binaries {
        let kind = if binary.is_integration { "" } else { "unittests " };
        let title = format!("     Running {kind}{} ({})", binary.source, binary.executable.display());
        println!("{title}");
        results.see(&title, start.elapsed());
        let mut command = Command::new(&binary.executable);
        command.current_dir(&binary.folder).arg("--show-output").args(words).envs(variables.iter().cloned());
        match read(command, &mut results, start) {
            Ok(status) => results.end_binary(status.success()),
            Err(error) => {
                println!("{error:#}");
                results.end_binary(false);
            }
        }
    }
    results
}

/// Runs a `cargo test` that is given `--show-output`.
///
/// # Errors
/// The command cannot be started.
pub(crate) fn run_cargo(command: Command) -> Result<Results> {
    let mut results = new_results();
    let status = read(command, &mut results, Instant::now())?;
    results.end(status.success());
    Ok(results)
}

fn new_results() -> Results {
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|text| text.parse().ok());
    Results::new(threads.or(available_parallelism().ok().map(Into::into)).unwrap_or(1))
}

/// Runs a command, prints its output and reads it into `results`.
fn read(mut command: Command, results: &mut Results, start: Instant) -> Result<ExitStatus> {
    let (reader, writer) = std::io::pipe()?;
    // cargo names binaries on stderr, libtest prints results on stdout: one pipe keeps their order.
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child =
        command.spawn().with_context(|| format!("{:?} cannot be started", command.get_program()))?;
    // Its ends of the pipe would keep the pipe open.
    drop(command);
    for line in BufReader::new(reader).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        results.see(&line, start.elapsed());
        println!("{line}");
    }
    let status = child.wait()?;
    if let Some(signal) = status.signal() {
        println!("it was ended by signal {signal}");
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_told_from_what_else_was_built() {
        let message = |target: &str, test: bool, executable: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/r/crates/a/Cargo.toml\",\"target\":\
                 {target},\"profile\":{{\"test\":{test}}},\"executable\":{executable}}}\n"
            )
        };
        let library = r#"{"kind":["lib"],"name":"iopj_a","src_path":"/r/crates/a/src/lib.rs"}"#;
        let integration = r#"{"kind":["test"],"name":"b","src_path":"/r/crates/a/tests/b/main.rs"}"#;
        let program = r#"{"kind":["bin"],"name":"a","src_path":"/r/crates/a/src/main.rs"}"#;
        let messages = message(library, false, "null")
            + &message(library, true, "\"/t/debug/deps/iopj_a-1\"")
            + &message(integration, true, "\"/t/debug/deps/b-2\"")
            + &message(program, false, "\"/t/debug/a\"")
            + "no message\n";
        let binary = |name: &str, is_integration, source: &str, executable: &str| Binary {
            name: name.into(),
            is_integration,
            folder: "/r/crates/a".into(),
            source: source.into(),
            executable: executable.into(),
        };
        let all = [
            binary("iopj_a", false, "src/lib.rs", "/t/debug/deps/iopj_a-1"),
            binary("b", true, "tests/b/main.rs", "/t/debug/deps/b-2"),
        ];
        assert_eq!(named(&messages), all);
    }
}
