//! The instructions of an I/O that the adaptive engine adds to those of the engine that it picks, counted
//! with the bench `routed` of `iopj-auto`.

use super::{Cost, callgrind, empty_folder, write_file};
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// I/Os of the shorter and the longer run: some ten epochs lie between them.
const IOS: [u64; 2] = [5_000, 25_000];
/// The most instructions that an I/O may cost beyond those of the engine alone.
pub(super) const LIMIT: f64 = 25.0;

/// What the bench does by the adaptive engine, what by the engine alone, and at which depth.
const CASES: &[(&str, &str, u32)] = &[
    ("ring-pinned", "ring", 32),
    ("ring-follow", "ring", 32),
    ("ring-bounded", "ring", 32),
    ("ring-pinned-mixed", "ring-mixed", 32),
    ("ring-pinned", "ring", 1),
    ("ring-follow", "ring", 1),
    ("ring-bounded", "ring", 1),
    ("sio-pinned", "sio", 1),
    ("sio-follow", "sio", 1),
    ("sio-bounded", "sio", 1),
    ("user-pinned", "user", 32),
    ("user-follow", "user", 32),
    ("user-bounded", "user", 32),
];
/// The functions that are counted, and within them those that are not.
const COUNTED: &[&str] = &["*counted_reads*", "*uncounted_work*"];

/// Counts every case and prints the table; returns the names of the cases over their limit.
pub(super) fn count(workspace: &Workspace) -> Result<Vec<String>> {
    let folder = empty_folder(workspace, "instructions-routed")?;
    let bench = Bench { program: workspace.benches()?.routed, file: folder.join("data"), folder };
    write_file(&bench.file)?;
    println!(
        "{:<17} {:<10} {:>7} {:>7} {:>7} {:>11} {:>6}",
        "routed", "over", "iodepth", "alone", "added", "clock reads", "limit"
    );
    let (mut over, mut known) = (Vec::new(), None);
    for (what, engine, iodepth) in CASES {
        let alone = match known {
            Some((of, alone)) if of == (engine, iodepth) => alone,
            _ => bench.cost(engine, *iodepth, f64::INFINITY)?.program,
        };
        known = Some(((engine, iodepth), alone));
        let Cost { program, clock_reads } = bench.cost(what, *iodepth, alone + LIMIT)?;
        let added = program - alone;
        println!(
            "{what:<17} {engine:<10} {iodepth:>7} {alone:>7.1} {added:>7.1} {clock_reads:>11.3} {LIMIT:>6}"
        );
        if added > LIMIT {
            over.push(format!("{what} at depth {iodepth}"));
        }
    }
    println!(
        "user-space instructions per I/O of the adaptive engine beyond those of the engine alone, without \
         clock reads"
    );
    fs::remove_dir_all(bench.folder)?;
    Ok(over)
}

/// The built bench, and where it works.
struct Bench {
    program: PathBuf,
    folder: PathBuf,
    file: PathBuf,
}

impl Bench {
    /// The cost of an I/O, which is counted again if its instructions are more than `most`.
    fn cost(&self, what: &str, iodepth: u32, most: f64) -> Result<Cost> {
        let [short, long] = IOS;
        let count = || Ok([self.profile(what, iodepth, short)?, self.profile(what, iodepth, long)?]);
        Cost::of(long - short, |cost| cost.program > most, count)
    }

    fn profile(&self, what: &str, iodepth: u32, ios: u64) -> Result<callgrind::Profile> {
        let (program, file) = (self.program.display().to_string(), self.file.display().to_string());
        let command = [program, what.to_owned(), file, iodepth.to_string(), ios.to_string()];
        let profile = callgrind::profile(&command, COUNTED, &self.folder.join("callgrind.out"));
        profile.with_context(|| format!("{what}, depth {iodepth}"))
    }
}
