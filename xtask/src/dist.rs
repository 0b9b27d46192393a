//! `cargo xtask dist`: the release binary with its man pages and completions, its size and its start-up time.

use crate::options::Options;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Largest size of the release binary, in bytes.
const SIZE_LIMIT: u64 = 20_000_000;
/// Runs of `iopj --help` whose median is printed.
const HELP_RUNS: usize = 20;
/// Shells with completions, and the names of their files.
const SHELLS: &[(&str, &str)] = &[("bash", "iopj.bash"), ("zsh", "_iopj"), ("fish", "iopj.fish")];

pub(crate) fn run(workspace: &Workspace, options: Options) -> Result<()> {
    options.end()?;
    let binary = workspace.release_binary()?;
    let size = fs::metadata(&binary).with_context(|| format!("{} is missing", binary.display()))?.len();
    println!("size: {:.1} MB, limit {:.0} MB", size as f64 / 1e6, SIZE_LIMIT as f64 / 1e6);
    println!("iopj --help: {:.1} ms, median of {HELP_RUNS} runs", help_time(&binary)?.as_secs_f64() * 1e3);
    if size > SIZE_LIMIT {
        bail!("the release binary has {size} bytes, at most {SIZE_LIMIT} are allowed");
    }
    let folder = workspace.target.join("dist");
    fs::create_dir_all(folder.join("man"))?;
    fs::create_dir_all(folder.join("completions"))?;
    fs::copy(&binary, folder.join("iopj"))?;
    shell::output(Command::new(&binary).arg("man").arg(folder.join("man")))?;
    for (shell_name, file) in SHELLS {
        let script = shell::output(Command::new(&binary).args(["completions", shell_name]))?;
        fs::write(folder.join("completions").join(file), script)?;
    }
    println!("{}: iopj, man pages, completions", folder.display());
    Ok(())
}

fn help_time(binary: &Path) -> Result<Duration> {
    let mut times = Vec::with_capacity(HELP_RUNS);
    for _ in 0..HELP_RUNS {
        let start = Instant::now();
        let text = shell::output(Command::new(binary).arg("--help"))?;
        times.push(start.elapsed());
        if text.is_empty() {
            bail!("`iopj --help` prints nothing");
        }
    }
    times.sort_unstable();
    Ok(times[HELP_RUNS / 2])
}
