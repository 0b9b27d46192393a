//! Programs that are watched: fio by each of its engines is named right, exit codes and outputs are the
//! program's own, and what cannot be watched is refused.

#[path = "../common/mod.rs"]
mod common;
mod engines;
mod life;
mod program;
mod refused;

use iopj_record::watch::WatchRecord;
use iopj_store::Store;
use std::path::Path;
use std::process::Output;

/// Runs `iopj watch` with the words of `line` in `folder`, and a store.
fn watched(folder: &Path, line: &str) -> (Output, WatchRecord) {
    let store = folder.join("watch.iopj");
    let (output, _) = common::output(&mut common::iopj(folder, &format!("watch --store watch.iopj {line}")));
    let record = Store::open(&store).unwrap().watch().unwrap().unwrap();
    std::fs::remove_file(store).unwrap();
    (output, record)
}
