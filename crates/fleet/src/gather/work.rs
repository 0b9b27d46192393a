//! The parts of a generation, written by two threads.

use super::GatherError;
use super::generation::{Generations, Next};
use super::manifest::{PartRecord, StoreRecord};
use super::parallel::parallel;
use super::part::PartWriter;
use super::plan::{Job, Read};
use super::scan::Problem;
use crate::table::Contents;
use iopj_store::Store;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the jobs came to.
#[derive(Default)]
pub(super) struct Done {
    pub(super) parts: Vec<PartRecord>,
    pub(super) added: usize,
    pub(super) replaced: usize,
    pub(super) problems: Vec<Problem>,
}

/// Writes all parts.
pub(super) fn work(
    from: &Generations,
    next: &Next,
    jobs: &[Job],
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Done, GatherError> {
    let all = jobs.iter().map(|job| job.read.len()).sum();
    let read = AtomicUsize::new(0);
    let step = || progress(read.fetch_add(1, Ordering::Relaxed) + 1, all);
    let mut whole = Done::default();
    for done in parallel(jobs, |job| write(from, next, job, &step)) {
        let done = done?;
        whole.parts.extend(done.parts);
        whole.problems.extend(done.problems);
        whole.added += done.added;
        whole.replaced += done.replaced;
    }
    Ok(whole)
}

/// Writes one part. A store that cannot be read is a problem; what was known of it stays.
fn write(from: &Generations, next: &Next, job: &Job, step: &dyn Fn()) -> Result<Done, GatherError> {
    let part = PartRecord {
        name: format!("part-{}-{}.parquet", next.manifest.generation, job.number),
        machine: job.kind.machine.clone(),
        drive: job.kind.drive.clone(),
        kernel: job.kind.kernel.clone(),
        stores: Vec::new(),
        sums: BTreeMap::new(),
    };
    let mut writer = PartWriter::create(next, part)?;
    let mut done = Done::default();
    for carried in &job.carried {
        writer.copy(from, carried)?;
    }
    for Read { store, old } in &job.read {
        match read(store) {
            Ok(contents) => {
                writer.add(&contents, store)?;
                match old.is_empty() {
                    false => done.replaced += 1,
                    true => done.added += 1,
                }
            }
            Err(reason) => {
                done.problems.push(Problem { file: store.file.clone(), reason });
                old.iter().try_for_each(|old| writer.copy(from, old))?;
            }
        }
        step();
    }
    done.parts.extend(writer.finish()?);
    Ok(done)
}

/// Reads a store, if it still is the one that was found.
fn read(store: &StoreRecord) -> Result<Contents, String> {
    let contents = Store::open_at_rest(&store.file).and_then(|open| Contents::read(&open));
    match contents {
        Ok(contents) if contents.id == store.id => Ok(contents),
        Ok(_) => Err(format!("`{}` was replaced meanwhile: gather again", store.file.display())),
        Err(error) => Err(error.to_string()),
    }
}
