//! What another kernel changes: the instructions that the lab counted on it over those that it counted on the
//! kernel that the model was calibrated on.

use anyhow::{Context, anyhow};
use iopj_analysis::explain::{
    ExplainOptions, FitOutcome, Fitted, Measure, Regressor, Unvaried, WorkloadCosts, explain,
};
use iopj_core::path::Submission;
use iopj_core::{Generator, IoPath, Rw, Workload};
use iopj_model::formula::Waiting;
use iopj_model::{Change, Kernel, Model};
use iopj_papers::published::COSTS;
use iopj_store::Store;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A workload, and what issues it.
type Place = (Rw, u8, u32, u32, u32, Generator);
/// The instructions of an I/O on a path, or why they are not known, by settings.
type Counts = BTreeMap<(IoPath, BTreeMap<String, String>, Place), Result<Level, String>>;

/// Sleeps per I/O by which two counts may differ.
const SLEEPS: f64 = 0.1;

/// Instructions of an I/O.
#[derive(Clone, Copy)]
struct Level {
    /// Those of the kernel.
    instructions: f64,
    /// Their standard error.
    error: f64,
    /// Those of user space.
    user: f64,
    /// Spins that they contain, because the counts do not tell them apart.
    spins: f64,
    /// Sleeps that they contain.
    sleeps: f64,
    /// Those of a sleep, if they are known.
    per_sleep: Option<f64>,
}

/// The counts of a store, and the kernel that they are of.
struct Counted {
    store: String,
    kernel: String,
    /// Absent in a store that does not say.
    architecture: Option<String>,
    counts: Counts,
}

/// What a store's kernel changes from that of another store, which must be the model's.
///
/// # Errors
/// A store has no exact counts, or is of another processor, or the first one's kernel is not the model's.
pub(super) fn changed(model: &Model, [from, to]: [&Path; 2]) -> anyhow::Result<Kernel> {
    let (from, to) = (counted("--from-kernel", from)?, counted("--kernel", to)?);
    refuse_others(model, &from, &to)?;
    let own = model.provenance.get("kernel").map_or("", String::as_str);
    let mut kernel = Kernel {
        name: format!("Linux {}, by instructions counted in {}", to.kernel, to.store),
        ..Kernel::default()
    };
    if !own.is_empty() && own != from.kernel {
        kernel.name += &format!(" over those of Linux {}", from.kernel);
    }
    let paths: BTreeSet<IoPath> = from.counts.keys().chain(to.counts.keys()).map(|key| key.0).collect();
    for path in paths {
        match change(path, &from, &to) {
            Ok(change) => _ = kernel.changes.insert(path, change),
            Err(why) => _ = kernel.without.insert(path, why),
        }
    }
    Ok(kernel)
}

/// Refuses counts of another processor, and counts whose ratio is not to the model's kernel.
fn refuse_others(model: &Model, from: &Counted, to: &Counted) -> anyhow::Result<()> {
    let own = model.provenance.get("kernel").map_or("", String::as_str);
    if !own.is_empty() && series(own) != series(&from.kernel) {
        return Err(anyhow!(
            "--from-kernel: {} counted Linux {}, and the model was calibrated on Linux {own}: name a store \
             of its series",
            from.store,
            from.kernel
        ));
    }
    let architectures = [model.provenance.get("architecture"), from.architecture.as_ref()];
    if let Some(known) = architectures.into_iter().flatten().next() {
        for (option, store) in [("--from-kernel", from), ("--kernel", to)] {
            if let Some(other) = store.architecture.as_ref().filter(|one| *one != known) {
                return Err(anyhow!(
                    "{option}: {} counted on {other}, whose instructions say nothing of {known}: name a \
                     store of the lab with --arch {known}",
                    store.store
                ));
            }
        }
    }
    Ok(())
}

/// The first two numbers of a release.
fn series(release: &str) -> Vec<&str> {
    release.split(['.', '-', '+']).take(2).collect()
}

/// The logarithm of a ratio over one workload.
#[derive(Clone, Copy)]
struct Ratio {
    log: f64,
    variance: f64,
}

/// The mean of the logarithms of a path's ratios over the workloads that both stores have.
fn change(path: IoPath, from: &Counted, to: &Counted) -> Result<Change, String> {
    if path.submission() == Submission::Sqpoll {
        return Err("the kernel's thread spins, so its instructions say nothing of an I/O".to_owned());
    }
    for store in [from, to] {
        if !store.counts.keys().any(|key| key.0 == path) {
            return Err(format!("{} has no exact counts of it", store.store));
        }
    }
    let mut all: Vec<[Ratio; 2]> = Vec::new();
    let mut why = format!("{} and {} have no workload of it in common", from.store, to.store);
    for (key, old) in from.counts.iter().filter(|(key, _)| key.0 == path) {
        let Some(new) = to.counts.get(key) else { continue };
        match ratios([(from, old), (to, new)]) {
            Ok(both) => all.push(both),
            Err(other) => why = other,
        }
    }
    if all.is_empty() {
        return Err(why);
    }
    let [(ratio, spread), (kernel_ratio, kernel_spread)] =
        [0, 1].map(|at| mean(&all.iter().map(|both| both[at]).collect::<Vec<Ratio>>()));
    Ok(Change { ratio, kernel_ratio, spread, kernel_spread })
}

/// The mean of ratios, and the standard deviation of its logarithm.
fn mean(ratios: &[Ratio]) -> (f64, f64) {
    let n = ratios.len() as f64;
    let mean = |of: fn(&Ratio) -> f64| ratios.iter().map(of).sum::<f64>() / n;
    let (log, of_counts) = (mean(|one| one.log), mean(|one| one.variance) / n);
    // The model has one change for all workloads.
    let apart = ratios.iter().map(|one| (one.log - log).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (log.exp(), (of_counts + apart).sqrt())
}

/// The new instructions over the old ones, and the kernel's alone. Those of user space stay: no kernel
/// changes the program.
fn ratios([old, new]: [(&Counted, &Result<Level, String>); 2]) -> Result<[Ratio; 2], String> {
    let level = |(store, level): (&Counted, &Result<Level, String>)| {
        level.clone().map_err(|why| format!("in {} {why}", store.store))
    };
    let (old, new) = (level(old)?, level(new)?);
    if (old.spins - new.spins).abs() > Regressor::Spins.least_range() {
        return Err(format!(
            "it spins {:.1} and {:.1} times an I/O, and the trials do not tell what a spin takes: count more \
             replicates",
            old.spins, new.spins
        ));
    }
    let missing = old.sleeps - new.sleeps;
    let of_sleeps = match new.per_sleep {
        Some(each) => missing * each,
        None if missing.abs() <= SLEEPS => 0.0,
        None => {
            return Err(format!(
                "it sleeps {:.2} and {:.2} times an I/O, and the trials do not tell what a sleep takes: \
                 count more replicates",
                old.sleeps, new.sleeps
            ));
        }
    };
    let new = Level { instructions: (new.instructions + of_sleeps).max(1.0), ..new };
    let of = |user: f64| {
        let [was, is] = [old, new].map(|level| level.instructions + user);
        Ratio { log: (is / was).ln(), variance: (old.error / was).powi(2) + (new.error / is).powi(2) }
    };
    Ok([of(old.user), of(0.0)])
}

/// The counts of a store.
fn counted(option: &str, path: &Path) -> anyhow::Result<Counted> {
    let store = Store::open(path).context(option.to_owned())?;
    let (study, trials) = (store.study()?, store.trials()?);
    let name = path.display().to_string();
    let none = || {
        anyhow!(
            "{option}: {name} has no exact counts: make them with `iopj lab run STUDY --exact --kernel \
             SERIES`"
        )
    };
    let explanation = explain(&study, &trials, &ExplainOptions::default(), &COSTS).map_err(|_| none())?;
    let mut counts = Counts::new();
    for block in &explanation.blocks {
        for (at, column) in block.columns.iter().enumerate().filter(|(_, column)| !column.refuted) {
            if let Some(level) = level(block, at) {
                counts.insert((column.path, column.settings.clone(), place(block)), level);
            }
        }
    }
    if counts.is_empty() {
        return Err(none());
    }
    let kernel =
        study.provenance.get("kernel").cloned().unwrap_or_else(|| "of an unknown release".to_owned());
    let architecture = study.provenance.get("architecture").cloned();
    Ok(Counted { store: name, kernel, architecture, counts })
}

fn place(block: &WorkloadCosts) -> Place {
    let Workload { rw, rwmixread, bs, iodepth, numjobs, .. } = block.workload;
    (rw, rwmixread, bs, iodepth, numjobs, block.generator)
}

/// The instructions of an I/O in a column, the kernel's by its own fit or, where that does not tell its
/// spins, by that of its interface; `None` where none were counted exactly.
fn level(block: &WorkloadCosts, column: usize) -> Option<Result<Level, String>> {
    let path = block.columns[column].path;
    let user = block.totals.iter().find(|row| row.name == "user_instructions");
    let user = user.and_then(|row| row.figures.get(column)?.as_ref()).map_or(0.0, |figure| figure.mean);
    let fits = block.fits.iter().filter(|fit| fit.measure == Measure::Instructions);
    let fits = fits.filter(|fit| fit.columns.contains(&column));
    let all: Vec<Result<Level, String>> = fits.map(|fit| of_fit(path, fit, (column, user))).collect();
    let known = all.iter().filter_map(|one| one.as_ref().ok());
    match known.min_by(|a, b| a.spins.total_cmp(&b.spins)) {
        Some(level) => Some(Ok(*level)),
        None => all.into_iter().next(),
    }
}

/// What a fit says of a column, whose user space takes so many instructions.
fn of_fit(path: IoPath, fit: &Fitted, (column, user): (usize, f64)) -> Result<Level, String> {
    let parts = match &fit.outcome {
        FitOutcome::Parts(parts) => parts,
        FitOutcome::TooFewRuns { needed } => {
            return Err(format!(
                "it has {} trials, and {needed} are needed: count more replicates",
                fit.runs
            ));
        }
        FitOutcome::Collinear { .. } => {
            return Err("its spins and sleeps rise and fall together: count more replicates".to_owned());
        }
    };
    let at = fit.columns.iter().position(|one| *one == column).unwrap_or(0);
    let (Some(fixed), Some(sleeps)) = (parts.fixed.get(at), parts.fixed_sleeps.get(at)) else {
        return Err("its parts are not known".to_owned());
    };
    let spins = match fit.left_out.iter().find(|left| left.regressor == Regressor::Spins) {
        None => 0.0,
        Some(Unvaried { range: Some((least, most)), .. }) => f64::midpoint(*least, *most),
        Some(_) if Waiting::of(path) == Waiting::Sleeps => 0.0,
        Some(_) => return Err("its spins were not counted".to_owned()),
    };
    if fixed.estimate.is_nan() || fixed.estimate < 1.0 {
        return Err("the kernel has no instructions of it".to_owned());
    }
    Ok(Level {
        instructions: fixed.estimate,
        error: fixed.error.unwrap_or(0.0),
        user,
        spins,
        sleeps: *sleeps,
        per_sleep: parts.per_sleep.map(|part| part.estimate),
    })
}
