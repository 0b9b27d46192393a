//! Manual pages and completions, for packagers.

use crate::args::Cli;
use crate::output::print;
use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;
use std::process::ExitCode;

pub(crate) fn man(folder: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), folder))
        .with_context(|| format!("manual pages cannot be written into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "iopj", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}
