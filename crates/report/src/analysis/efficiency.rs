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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::paper_tables;
    use iopj_core::{Rw, Scope, VerdictKind, Workload};
    use iopj_record::testing::cells::{Measured, cell as trials_of, judge, measurement_of, workload};
    use iopj_record::testing::energy::give;
    use iopj_record::testing::pairs::study;

    /// A cell of three replicates of 2 s with these IOPS and W.
    fn made(path: &str, (iodepth, numjobs): (u32, u32), iops: f64, watts: f64) -> Vec<Trial> {
        let workload = Workload { iodepth, ..workload(Rw::Randread, numjobs) };
        let mut trials = trials_of(path, &workload, Measured { iops, ..Measured::default() }, &[0.0; 3]);
        trials.iter_mut().for_each(|trial| give(trial, "plug", Scope::System, 2.0 * watts));
        trials
    }

    const SPDK: &str = "spdk/doorbell/poll";
    const URING: &str = "io_uring/syscall/interrupt";

    fn store() -> Vec<Trial> {
        [
            made(SPDK, (1, 1), 150_000.0, 60.0),
            made(SPDK, (16, 1), 550_000.0, 61.0),
            made(URING, (1, 1), 78_000.0, 50.0),
            made(URING, (1, 8), 400_000.0, 80.0),
        ]
        .concat()
    }

    fn tables(trials: &[Trial]) -> Vec<EfficiencyTable> {
        efficiency_tables(trials, &EnergySource::measured(&[trials]).unwrap(), Admission::default())
    }

    #[test]
    fn what_the_papers_draw_comes_out_over_depth_and_over_threads() {
        let [depth, threads] = &tables(&store())[..] else { panic!() };
        assert_eq!(
            (depth.axis, &depth.values, threads.axis, &threads.values),
            ("iodepth", &vec![1, 16], "numjobs", &vec![1, 8])
        );
        let near = |cell: &Option<EfficiencyCell>, expected: [f64; 3]| {
            let cell = cell.unwrap();
            let figures = [cell.iops, cell.watts, cell.ios_per_joule];
            assert!(figures.iter().zip(expected).all(|(a, b)| (a / b - 1.0).abs() < 1e-9), "{cell:?}");
            assert_eq!(cell.replicates, 3);
        };
        assert_eq!(depth.rows.iter().map(|row| row.path.to_string()).collect::<Vec<_>>(), [SPDK, URING]);
        near(&depth.rows[0].cells[0], [150_000.0, 60.0, 2500.0]);
        near(&depth.rows[0].cells[1], [550_000.0, 61.0, 550_000.0 / 61.0]);
        assert!(depth.rows[1].cells[1].is_none(), "io_uring was not run at depth 16");
        near(&threads.rows[1].cells[1], [400_000.0, 80.0, 5000.0]);
        let text = paper_tables(&study("6.1"), &store(), None, Admission::default());
        let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "(system by plug)",
            "path figure iodepth 1 iodepth 16",
            "spdk/doorbell/poll IOPS 150,000 550,000",
            "spdk/doorbell/poll W 60.00 61.00",
            "spdk/doorbell/poll IO/J 2,500 9,016",
            "io_uring/syscall/interrupt IO/J 1,560 -",
        ] {
            assert!(squeezed.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn refuted_trials_and_single_workloads_are_in_no_table_and_what_lacks_is_said() {
        let mut trials = store();
        judge(&mut trials[3..6], VerdictKind::Refuted);
        let left = tables(&trials);
        assert_eq!(left.iter().map(|table| table.axis).collect::<Vec<_>>(), ["numjobs"]);
        let words = "not measured: the store lacks energy over depth or over threads";
        assert!(paper_tables(&study("6.1"), &trials[..3], None, Admission::default()).contains(words));
        trials.iter_mut().for_each(|trial| measurement_of(trial).energy.clear());
        let text = paper_tables(&study("6.1"), &trials, None, Admission::default());
        assert!(text.contains(words) && !text.contains("NaN"), "{text}");
    }
}
