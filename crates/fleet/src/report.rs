//! What a data set says of a fleet, by kind of machine: winners, outliers, drift, and which policy to roll
//! out to whom. Hosts are the replicates. Reads the data set alone, no store.

mod advice;
mod drift;
mod error;
mod kind;
mod outliers;
mod page;
mod policy;
mod read;
mod text;
mod winners;

pub use advice::{Advice, Saving};
pub use drift::Drift;
pub use error::ReportError;
pub use kind::KindReport;
pub use outliers::Outlier;
pub use page::page;
pub use policy::model;
pub use text::text;
pub use winners::{Mean, PathFigures, WorkloadReport};

use crate::gather::foreign::is_inside;
use crate::gather::{FILE, Manifest, ManifestError, PartRecord};
use crate::table::{Kind, SCHEMA_VERSION, Table};
use iopj_analysis::stats::holm_over_tested;
use read::{Cells, KindTrials};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A fleet.
#[derive(Clone, Debug, Serialize)]
pub struct FleetReport {
    /// The data set.
    pub dataset: PathBuf,
    /// Its generation.
    pub generation: u64,
    /// Stores.
    pub stores: usize,
    /// Hosts; one that was measured with two kernels is of two kinds, and counts once here.
    pub hosts: usize,
    /// Kinds of machines, those with the most hosts first.
    pub kinds: Vec<KindReport>,
}

/// Reads a data set and decides.
///
/// # Errors
/// The folder holds no data set of this schema, or a part cannot be read.
pub fn report(dataset: &Path) -> Result<FleetReport, ReportError> {
    let manifest = manifest(dataset)?;
    // One generation throughout: a gather meanwhile keeps its files.
    let generation = dataset.join("generations").join(manifest.generation.to_string());
    if !is_inside(&generation, dataset) {
        let error = "its generation is not there, or a link leads out of it".to_owned();
        return Err(ReportError::NotADataset { path: dataset.to_owned(), error });
    }
    let mut parts: BTreeMap<Kind, Vec<&PartRecord>> = BTreeMap::new();
    manifest.parts.iter().for_each(|part| parts.entry(part.kind()).or_default().push(part));
    let kinds = parts.iter().map(|(kind, parts)| of_kind(&generation, kind, parts));
    let mut kinds: Vec<KindReport> = kinds.collect::<Result<_, _>>()?;
    correct(&mut kinds);
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.hosts));
    let stores = manifest.stores().count();
    let hosts = kinds.iter().flat_map(|kind| &kind.host_names).collect::<BTreeSet<_>>().len();
    let (dataset, generation) = (dataset.to_owned(), manifest.generation);
    Ok(FleetReport { dataset, generation, stores, hosts, kinds })
}

fn manifest(dataset: &Path) -> Result<Manifest, ReportError> {
    let path = || dataset.to_owned();
    Manifest::read(&dataset.join(FILE)).map_err(|error| match error {
        ManifestError::Schema(found) => ReportError::Schema { path: path(), found, known: SCHEMA_VERSION },
        error => ReportError::NotADataset { path: path(), error: error.to_string() },
    })
}

fn of_kind(folder: &Path, kind: &Kind, parts: &[&PartRecord]) -> Result<KindReport, ReportError> {
    let trials = read::kind(folder, parts)?;
    Ok(KindReport {
        machine: kind.machine.clone(),
        drive: kind.drive.clone(),
        kernel: kind.kernel.clone(),
        hosts: trials.hosts.len(),
        host_names: trials.hosts.names().to_vec(),
        stores: parts.iter().map(|part| part.stores.len()).sum(),
        trials: trials.trials,
        refuted: trials.refuted,
        failed: trials.failed,
        span_ns: trials.span_ns,
        workloads: winners::workloads(&trials),
        outliers: outliers::outliers(&trials),
        drift: drift::drift(&trials),
        observations: policy::observations(&trials),
        provenance: provenance(folder, kind, parts, &trials)?,
    })
}

/// Facts about a kind that a host must share to follow its policy.
fn provenance(
    dataset: &Path,
    kind: &Kind,
    parts: &[&PartRecord],
    trials: &KindTrials,
) -> Result<BTreeMap<String, String>, ReportError> {
    let mut facts = BTreeMap::from([
        ("kernel".to_owned(), kind.kernel.clone()),
        ("devices".to_owned(), "drive".to_owned()),
        ("drive.model".to_owned(), kind.drive.clone()),
        ("store".to_owned(), format!("{} hosts", trials.hosts.len())),
    ]);
    let Some(part) = parts.first() else { return Ok(facts) };
    let path = dataset.join(part.file(Table::Stores));
    let refused = |error| ReportError::Parquet { path: path.clone(), error };
    for batch in read::batches(dataset, (*part, Table::Stores), &["cpu_model"]).map_err(refused)?.take(1) {
        let batch = batch.map_err(|error| refused(error.into()))?;
        if let Some(model) = Cells(&batch).text("cpu_model", 0) {
            facts.insert("cpu_model".to_owned(), model.to_owned());
        }
    }
    Ok(facts)
}

/// Winners and drifts of all kinds are one family of tests each.
fn correct(kinds: &mut [KindReport]) {
    winners::correct(kinds.iter_mut().flat_map(|kind| &mut kind.workloads));
    let p: Vec<Option<f64>> = kinds.iter().map(|kind| kind.drift.as_ref().map(|drift| drift.p)).collect();
    for (kind, corrected) in kinds.iter_mut().zip(holm_over_tested(&p)) {
        if let Some((drift, corrected)) = kind.drift.as_mut().zip(corrected) {
            drift.p = corrected;
        }
    }
}
