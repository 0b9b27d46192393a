//! The papers' figures of performance, power and efficiency as tables from any store with a meter: IOPS, W
//! and IO/J of each path over depth or over threads. Means over replicates, which the papers draw but do not
//! print.

use super::admission::Admission;
use super::grouping::{TrialSetup, ascending, grouped, paths};
use super::metric::Metric;
use super::stats;
use super::winner::Axis;
use iopj_core::IoPath;
use iopj_record::{EnergySource, Measurement, Trial};
use serde::Serialize;

/// The paths of a workload along an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EfficiencyTable {
    /// What the cells share except the axis.
    pub setting: TrialSetup,
    /// `iodepth` or `numjobs`.
    pub axis: &'static str,
    /// Its values, ascending.
    pub values: Vec<u32>,
    /// One row per path, in the order in which they first appear.
    pub rows: Vec<EfficiencyRow>,
}

/// One path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EfficiencyRow {
    /// The path.
    pub path: IoPath,
    /// A cell for each value; absent if no trial with energy competes.
    pub cells: Vec<Option<EfficiencyCell>>,
}

/// Means over the replicates that have energy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EfficiencyCell {
    /// Replicates.
    pub replicates: usize,
    /// I/Os per second.
    pub iops: f64,
    /// Power in W.
    pub watts: f64,
    /// I/Os per joule.
    pub ios_per_joule: f64,
}

/// Tables over depth, then over threads, of the workloads that were measured at two values or more. Energy is
/// that of `source`. Trials without energy are left out, as are those that do not compete.
pub fn efficiency_tables(
    trials: &[Trial],
    source: &EnergySource,
    admission: Admission,
) -> Vec<EfficiencyTable> {
    [Axis::Iodepth, Axis::Numjobs]
        .into_iter()
        .flat_map(|axis| over(axis, trials, (source, admission)))
        .collect()
}

/// The source of energy, and which trials compete.
type Of<'a> = (&'a EnergySource, Admission);

fn over(axis: Axis, trials: &[Trial], of: Of<'_>) -> Vec<EfficiencyTable> {
    let keyed = trials.iter().map(|trial| {
        let mut setup = TrialSetup::of(trial);
        axis.clear(&mut setup.workload);
        (setup, trial)
    });
    grouped(keyed).into_iter().filter_map(|(setting, trials)| table(setting, axis, &trials, of)).collect()
}

/// The trial's value on the axis.
fn place(axis: Axis, trial: &Trial) -> u32 {
    if axis == Axis::Iodepth { trial.workload.iodepth } else { trial.workload.numjobs }
}

fn table(
    setting: TrialSetup,
    axis: Axis,
    trials: &[&Trial],
    (source, admission): Of<'_>,
) -> Option<EfficiencyTable> {
    let has_energy = |trial: &&Trial| admission.admit(trial).is_ok_and(|one| source.joules(one).is_some());
    let trials: Vec<&Trial> = trials.iter().copied().filter(has_energy).collect();
    let values = ascending(trials.iter().map(|trial| place(axis, trial)));
    let row = |path: IoPath| {
        let of =
            |value: u32| trials.iter().filter(move |trial| trial.path == path && place(axis, trial) == value);
        EfficiencyRow {
            path,
            cells: values.iter().map(|value| cell(of(*value), (source, admission))).collect(),
        }
    };
    let rows = paths(&trials).into_iter().map(row).collect();
    (values.len() > 1).then(|| EfficiencyTable { setting, axis: axis.as_str(), values: values.clone(), rows })
}

fn cell<'t>(
    trials: impl Iterator<Item = &'t &'t Trial>,
    (source, admission): Of<'_>,
) -> Option<EfficiencyCell> {
    let measured: Vec<&Measurement> = trials.filter_map(|trial| admission.admit(trial).ok()).collect();
    let whole = |metric: Metric| {
        let values: Option<Vec<f64>> = measured.iter().map(|one| metric.value(one, Some(source))).collect();
        values.filter(|values| !values.is_empty()).map(|values| stats::mean(&values))
    };
    let (watts, ios_per_joule) = (whole(Metric::Watts)?, whole(Metric::IosPerJoule)?);
    Some(EfficiencyCell {
        replicates: measured.len(),
        iops: mean(&measured, Measurement::iops),
        watts,
        ios_per_joule,
    })
}

/// The mean of a figure over at least one measurement.
pub fn mean(measured: &[&Measurement], figure: impl Fn(&Measurement) -> f64) -> f64 {
    measured.iter().map(|measurement| figure(measurement)).sum::<f64>() / measured.len() as f64
}
