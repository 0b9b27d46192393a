//! The study that would decide, as a file for `iopj run`: the store's own study with other workloads.

use crate::output::write_new;
use anyhow::anyhow;
use iopj_analysis::advise::next::{NextStudy, NextTable};
use iopj_record::StudyRecord;
use iopj_study::{Axis, Replicates, Study, WorkloadMatrix};
use std::path::Path;

/// Writes the study into a file that does not exist.
pub(super) fn write(record: &StudyRecord, next: &NextStudy, file: &Path) -> anyhow::Result<()> {
    write_new("--write-study", file, &text(record, next)?)
}

fn text(record: &StudyRecord, next: &NextStudy) -> anyhow::Result<String> {
    let tables: Vec<WorkloadMatrix> = next.tables.iter().map(table).collect();
    let mut paths: Vec<String> =
        next.tables.iter().flat_map(|table| &table.paths).map(ToString::to_string).collect();
    paths.sort();
    paths.dedup();
    let mut generators: Vec<String> =
        next.tables.iter().map(|table| table.generator.as_str().to_owned()).collect();
    generators.sort();
    generators.dedup();
    let name = format!("{}-next", record.name);
    // What another program measured has no study of ours.
    let plain = "name = \"next\"\npaths = \"available\"\n[[workload]]\nrw = \"randread\"\n";
    let own = Study::parse(&record.text, "the store's study");
    let mut study = own.or_else(|_| Study::parse(plain, "a study")).map_err(|why| anyhow!("{why}"))?;
    // A name that cannot name a store stays as it is.
    let _ = study.rename(&name, "the store");
    study.paths = Axis::Many(paths);
    study.generator = Axis::Many(generators);
    study.replicates = Replicates::Blocks(next.replicates);
    study.seed = None;
    study.workloads = tables;
    let toml = study.to_toml().map_err(|why| anyhow!("{why}"))?;
    Study::parse(&toml, "the next study").map_err(|why| anyhow!("{why}"))?;
    Ok(format!("# {}\n{toml}", next.why))
}

/// A table of a study.
fn table(NextTable { workload, paths, rates, .. }: &NextTable) -> WorkloadMatrix {
    WorkloadMatrix {
        paths: Some(Axis::Many(paths.iter().map(ToString::to_string).collect())),
        rate_iops: (!rates.is_empty()).then(|| Axis::Many(rates.clone())),
        ..WorkloadMatrix::of(workload)
    }
}
