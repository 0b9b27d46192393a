//! What others draw in the report's style: the cells of each plot, with the trials that each stands for.

use super::model::Model;
use super::over_axis::{NUMBERS, NumberAxis, runs};
use iopj_analysis::Admission;
use iopj_analysis::winner::Axis;
use iopj_record::{StudyRecord, Trial};

/// A plot: workloads that differ along its axis only, or a single one.
#[derive(Clone, Debug, PartialEq)]
pub struct Plot {
    /// What the workloads have in common.
    pub title: String,
    /// The cells that have a measurement, in the order of their series.
    pub cells: Vec<PlotCell>,
}

/// A series under a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct PlotCell {
    /// The place of its series among [`series`](super::series()).
    pub series: usize,
    /// The value on the axis; none without an axis.
    pub at: Option<u32>,
    /// The positions of the trials that compete; if none does, of those that were not refuted.
    pub positions: Vec<u64>,
    /// One trial or more is verified.
    pub is_verified: bool,
}

/// The plots along an axis of numbers, or without one, a plot for each workload. `None` if the values of the
/// axis are no numbers.
pub fn plots(
    study: &StudyRecord,
    trials: &[Trial],
    axis: Option<Axis>,
    admission: Admission,
) -> Option<Vec<Plot>> {
    let model = Model::new(study, trials, admission);
    let Some(axis) = axis else {
        let each = (0..model.workloads.len()).map(|workload| plot(&model, &[workload], None));
        return Some(each.filter(|plot| !plot.cells.is_empty()).collect());
    };
    let axis = NUMBERS.iter().find(|(of, ..)| *of == axis)?;
    Some(runs(&model, axis.0).iter().map(|run| plot(&model, run, Some(axis))).collect())
}

fn plot(model: &Model<'_>, run: &[usize], axis: Option<&NumberAxis>) -> Plot {
    let without: Vec<Axis> = axis.iter().map(|(axis, ..)| *axis).collect();
    let cells = model.cells.iter().filter(|cell| run.contains(&cell.workload) && !cell.trusted.is_empty());
    let cell = |cell: &super::model::SeriesCell<'_>| PlotCell {
        series: cell.series,
        at: axis.map(|(_, _, number)| number(model.workloads[cell.workload])),
        positions: cell.positions.clone(),
        is_verified: cell.verified + cell.seen > 0,
    };
    Plot { title: model.title(model.workloads[run[0]], &without), cells: cells.map(cell).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_core::{Conditions, Disturbance, OpenLoad, VerdictKind};
    use iopj_record::testing::pairs::{LIBAIO, study, trial};
    use std::time::Duration;

    /// Trials of one path, by position: what each is like, from a plain one at depth 1.
    fn of(changes: &[&dyn Fn(&mut Trial)]) -> Vec<Trial> {
        let one = |(at, change): (usize, &&dyn Fn(&mut Trial))| {
            let mut one = trial(LIBAIO, 1000);
            (one.position, one.replicate) = (at as u64, at as u32);
            change(&mut one);
            one
        };
        changes.iter().enumerate().map(one).collect()
    }

    fn positions(plots: &[Plot]) -> Vec<Vec<&[u64]>> {
        plots.iter().map(|plot| plot.cells.iter().map(|cell| &cell.positions[..]).collect()).collect()
    }

    fn plots_of(trials: &[Trial], axis: Option<Axis>) -> Vec<Plot> {
        plots(&study("6.1"), trials, axis, Admission::default()).unwrap()
    }

    fn unproven(trial: &mut Trial) {
        trial.outcome.measurement_mut().unwrap().verdict.kind = VerdictKind::Unproven;
    }

    fn disturbed(trial: &mut Trial) {
        let disturbances = vec![Disturbance::Throttled { times: 1 }];
        trial.outcome.measurement_mut().unwrap().conditions = Conditions { disturbances, spinner: None };
    }

    fn deep(trial: &mut Trial) {
        trial.workload.iodepth = 4;
    }

    #[test]
    fn a_cell_is_of_the_trials_that_compete_and_only_without_any_of_the_others() {
        let all = of(&[&|_| {}, &disturbed, &unproven, &|one| {
            deep(one);
            unproven(one);
        }]);
        let found = plots_of(&all, Some(Axis::Iodepth));
        assert_eq!(positions(&found), [[&[0_u64][..], &[3]]]);
        let kinds: Vec<(Option<u32>, bool)> =
            found[0].cells.iter().map(|cell| (cell.at, cell.is_verified)).collect();
        assert_eq!(kinds, [(Some(1), true), (Some(4), false)]);
        assert_eq!(positions(&plots_of(&all, None)), [[&[0_u64][..]], [&[3]]]);
    }

    #[test]
    fn workloads_that_differ_in_another_key_are_no_line() {
        let ramp = |one: &mut Trial| one.workload.ramp_time = Duration::from_secs(9);
        let all = of(&[&|_| {}, &deep, &ramp, &|one| {
            deep(one);
            ramp(one);
        }]);
        let found = plots_of(&all, Some(Axis::Iodepth));
        assert_eq!(positions(&found), [[&[0_u64][..], &[1]], [&[2], &[3]]]);
        assert!(plots_of(&all[1..3], Some(Axis::Iodepth)).is_empty());
    }

    #[test]
    fn a_closed_loop_has_no_rate_and_an_axis_of_words_no_plot() {
        let open = |rate: u32| move |one: &mut Trial| one.workload.open = Some(OpenLoad::at(rate));
        let all = of(&[&|_| {}, &open(100), &open(200)]);
        assert_eq!(positions(&plots_of(&all, Some(Axis::RateIops))), [[&[1_u64][..], &[2]]]);
        assert_eq!(plots(&study("6.1"), &all, Some(Axis::Rw), Admission::default()), None);
    }
}
