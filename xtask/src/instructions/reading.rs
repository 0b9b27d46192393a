//! How the instructions grow by which iopj reads a store: twice the cells may cost little more than twice as
//! many.

use super::empty_folder;
use crate::binaries::TESTS;
use crate::shell;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Cells of the smaller and the larger store. What grows with the square of them is most of the cost by then:
/// of a report of 0.2.0 the instructions grew by 3.6 from 400 to 800.
const CELLS: [u32; 2] = [1200, 2400];
/// The most instructions of the larger over those of the smaller.
const LIMIT: f64 = 2.3;
/// What reads a store. Builds and tests go on beside the study, so its trials may be disturbed, or prove
/// nothing.
const COMMANDS: [&[&str]; 6] = [
    &["report", "--with-unproven"],
    &["report", "--json", "--with-unproven"],
    &["winners", "--axes", "iodepth,bs", "--with-unproven"],
    &["compare", "--with-unproven"],
    &["export", "--csv"],
    &["export", "--json"],
];

/// Counts every command on both stores and prints the table; returns the commands over the limit.
pub(super) fn count(workspace: &Workspace) -> Result<Vec<String>> {
    let iopj = workspace.release_binary()?;
    // All that the tests build, or cargo would build the crates again that they share.
    shell::step("what makes long stores", &mut workspace.cargo(&format!("{TESTS} --no-run")))?;
    let folder = empty_folder(workspace, "instructions-reading")?;
    let measured = folder.join("measured.iopj");
    let mut run = Command::new(&iopj);
    run.current_dir(&folder).args(["run", "--runtime", "50ms", "--ramp-time", "0s", "--size", "64M"]);
    run.args(["--replicates", "2", "--meters", "none", "--wait=30m", "--store"]).arg(&measured);
    shell::step("a study to make them of", &mut run)?;
    let stores = CELLS.map(|cells| folder.join(format!("{cells}.iopj")));
    for (cells, store) in CELLS.iter().zip(&stores) {
        let mut multiply = Command::new(workspace.target.join("debug/examples/multiply"));
        multiply.arg(&measured).arg(store).args([&cells.to_string(), "1"]);
        shell::step(&format!("a store of {cells} cells"), &mut multiply)?;
    }
    let [few, many] = CELLS.map(|cells| format!("{cells} cells"));
    println!("{:<42} {few:>14} {many:>14} {:>6} {:>6}", "command", "ratio", "limit");
    let mut over = Vec::new();
    for words in COMMANDS {
        let counted = |store: &Path| instructions(&iopj, words, store, &folder.join("cachegrind.out"));
        let [few, many] = [counted(&stores[0])?, counted(&stores[1])?];
        let (name, ratio) = (words.join(" "), many as f64 / few as f64);
        println!("{name:<42} {few:>14} {many:>14} {ratio:>6.2} {LIMIT:>6}");
        if ratio > LIMIT {
            over.push(format!("iopj {name} of twice the cells"));
        }
    }
    println!("user-space instructions by valgrind --tool=cachegrind");
    fs::remove_dir_all(folder)?;
    Ok(over)
}

/// The instructions of one command on a store, or on two where it compares.
fn instructions(iopj: &Path, words: &[&str], store: &Path, out: &Path) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--quiet", "--tool=cachegrind", "--cache-sim=no"]);
    valgrind.arg(format!("--cachegrind-out-file={}", out.display())).arg(iopj).args(words).arg(store);
    if words[0] == "compare" {
        valgrind.arg(store);
    }
    shell::output(&mut valgrind)?;
    let text = fs::read_to_string(out).with_context(|| out.display().to_string())?;
    fs::remove_file(out)?;
    total(&text).with_context(|| format!("cachegrind's output on `iopj {}` has no total", words.join(" ")))
}

/// The total of cachegrind's output (valgrind manual, "Cachegrind's file format").
fn total(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("summary:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_last_line_of_cachegrind() {
        let text = "desc: I1 cache:\ncmd: iopj report\nevents: Ir\nfl=???\nfn=main\n0 30\nsummary: 1060\n";
        assert_eq!((total(text), total("events: Ir\n")), (Some(1060), None));
    }
}
