//! `iopj restore`: settings that a dead run left changed.

use crate::args::RestoreArgs;
use crate::output::{FAILURES, print, print_json};
use iopj_host::settings::Host;
use std::process::ExitCode;

pub(crate) fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let report = Host::new().restore_left_behind()?;
    if args.json {
        print_json(&serde_json::to_value(&report)?)?;
    } else {
        let restored =
            report.restored.iter().map(|c| format!("put back: {}: {} -> {}", c.file.display(), c.from, c.to));
        let left =
            report.left_alone.iter().map(|l| format!("left alone: {}: {}", l.journal.display(), l.reason));
        let failed =
            report.failed.iter().map(|f| format!("not put back: {}: {}", f.file.display(), f.reason));
        let mut lines: Vec<String> =
            restored.chain(report.notes.iter().cloned()).chain(left).chain(failed).collect();
        if lines.is_empty() {
            lines.push("nothing to put back".to_owned());
        }
        print(&(lines.join("\n") + "\n"))?;
    }
    Ok(if report.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAILURES) })
}
