//! Writes a long store out of a short one: `multiply FROM TO CELLS REPLICATES`. Its trials are those of
//! `FROM`, path by path, at as many depths, or under as many settings, as there must be. What each measured
//! stays as it is, but all count: a trial that is left out costs nothing to compare.

use iopj_core::VerdictKind;
use iopj_record::{StudyRecord, Trial};
use iopj_store::Store;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, cells, replicates] = &words[..] else {
        return Err("multiply takes FROM TO CELLS REPLICATES".into());
    };
    let (cells, replicates): (u32, u32) = (cells.parse()?, replicates.parse()?);
    let from = Store::open(Path::new(from))?;
    let mut by_path: BTreeMap<String, Vec<Trial>> = BTreeMap::new();
    for trial in from.trials()?.into_iter().filter(|trial| trial.outcome.measurement().is_some()) {
        by_path.entry(trial.path.to_string()).or_default().push(trial);
    }
    let paths: Vec<Vec<Trial>> = by_path.into_values().collect();
    if paths.is_empty() {
        return Err("no trial of FROM was measured".into());
    }
    let planned_trials = u64::from(cells) * u64::from(replicates);
    let mut store = Store::create(Path::new(to), &StudyRecord { planned_trials, ..from.study()? })?;
    for replicate in 0..replicates {
        for cell in 0..cells {
            let (depth, of) = (cell as usize / paths.len(), cell as usize % paths.len());
            let mut trial = paths[of][(depth + replicate as usize) % paths[of].len()].clone();
            match depth % 2 {
                0 => trial.workload.iodepth = 1 + depth as u32,
                _ => drop(trial.settings.insert("part".to_owned(), depth.to_string())),
            }
            if let Some(measurement) = trial.outcome.measurement_mut() {
                measurement.conditions.disturbances.clear();
                measurement.verdict.kind = VerdictKind::Verified;
            }
            trial.replicate = replicate;
            trial.position = u64::from(replicate) * u64::from(cells) + u64::from(cell);
            store.add(&trial)?;
        }
    }
    Ok(())
}
