//! A run that goes on as families of metrics.

use super::openmetrics::{Family, Labels};
use iopj_analysis::run_so_far::{CellNames, LatestTrial, RunSoFar};
use iopj_core::watch::WatchPower;

/// The families of a run.
pub fn run_metrics(run: &RunSoFar) -> Vec<Family> {
    let mut families = of_progress(run);
    families.extend(of_trials(run));
    families.extend(of_latest(run));
    families.push(of_energy(run));
    families.push(of_power(&run.power));
    families
}

fn one(value: f64) -> Vec<(Labels, f64)> {
    vec![(Vec::new(), value)]
}

fn maybe(value: Option<f64>) -> Vec<(Labels, f64)> {
    value.map(one).unwrap_or_default()
}

fn names(cell: &CellNames) -> Labels {
    let CellNames { path, workload, generator, settings } = cell;
    let mut labels =
        vec![("path", path.clone()), ("workload", workload.clone()), ("generator", (*generator).to_owned())];
    if !settings.is_empty() {
        labels.push(("settings", settings.clone()));
    }
    labels
}

fn of_progress(run: &RunSoFar) -> Vec<Family> {
    let count = |index: usize| maybe(run.trials.map(|trials| trials[index] as f64));
    let trial = run.trial.as_ref().filter(|_| !run.has_ended);
    let current = trial.map(|trial| {
        Family::info("iopj_run_trial", "The cell of the trial that runs, or ran last.", names(&trial.cell))
    });
    let mut families = vec![
        Family::info("iopj_run", "The study that runs.", Vec::new()),
        Family::gauge("iopj_run_active", "1 while the run goes on, 0 once it has ended.", {
            one(f64::from(u8::from(!run.has_ended)))
        }),
        Family::gauge("iopj_run_begin_timestamp_seconds", "When the run began.", one(run.began_s)),
        Family::gauge("iopj_run_trials_planned", "Trials of the study.", count(0)),
        Family::gauge("iopj_run_trials_done", "Trials that have ended.", count(1)),
        Family::gauge(
            "iopj_run_trial_begin_timestamp_seconds",
            "When the trial began that runs.",
            maybe(trial.map(|trial| trial.at_s)),
        ),
        Family::gauge(
            "iopj_run_end_timestamp_seconds",
            "When the run will have ended, as estimated when its trial began.",
            maybe(run.ends_s),
        ),
    ];
    families.extend(current);
    families
}

fn of_trials(run: &RunSoFar) -> Vec<Family> {
    let path = |path: &String| ("path", path.clone());
    let verdicts = run
        .verdicts
        .iter()
        .map(|((of, verdict), count)| (vec![path(of), ("verdict", (*verdict).to_owned())], *count as f64));
    let disturbed = run.disturbed.iter().map(|(of, count)| (vec![path(of)], *count as f64));
    vec![
        Family::counter(
            "iopj_run_trials",
            "Trials that this process has ended, by verdict, or failed.",
            verdicts.collect(),
        ),
        Family::counter(
            "iopj_run_disturbed_trials",
            "Trials that something else disturbed.",
            disturbed.collect(),
        ),
    ]
}

/// The latest figures of each cell.
fn of_latest(run: &RunSoFar) -> Vec<Family> {
    let each = |value: fn(&LatestTrial) -> Option<f64>| -> Vec<(Labels, f64)> {
        run.latest.iter().filter_map(|(cell, latest)| Some((names(cell), value(latest)?))).collect()
    };
    let quantiles = run.latest.iter().flat_map(|(cell, latest)| {
        let of = |latency: &iopj_record::Latency| {
            [("0.5", latency.p50), ("0.95", latency.p95), ("0.99", latency.p99), ("0.999", latency.p99_9)]
        };
        let known = latest.latency.as_ref().map(of).into_iter().flatten();
        known.map(|(quantile, ns)| {
            let mut labels = names(cell);
            labels.push(("quantile", quantile.to_owned()));
            (labels, ns as f64 / 1e9)
        })
    });
    vec![
        Family::gauge(
            "iopj_trial_end_timestamp_seconds",
            "When the cell's latest trial ended that was not refuted; the figures are of it.",
            each(|latest| Some(latest.at_s)),
        ),
        Family::gauge("iopj_trial_iops", "I/Os per second.", each(|latest| Some(latest.iops))),
        Family::gauge(
            "iopj_trial_bytes_per_second",
            "Bytes moved per second.",
            each(|latest| Some(latest.bytes_per_s)),
        ),
        Family::summary("iopj_trial_latency_seconds", "Latency percentiles.", quantiles.collect()),
        Family::gauge(
            "iopj_trial_mean_latency_seconds",
            "Mean latency.",
            each(|latest| latest.latency.as_ref().map(|latency| latency.mean / 1e9)),
        ),
        Family::gauge(
            "iopj_trial_cpu_cores",
            "Cores that the threads kept busy which did I/O, with the kernel's helpers.",
            each(|latest| Some(latest.cores)),
        ),
        Family::gauge(
            "iopj_trial_context_switches_per_io",
            "Context switches of these threads per I/O.",
            each(|latest| latest.switches_per_io),
        ),
        Family::gauge(
            "iopj_trial_disturbed",
            "1 if something else disturbed the trial.",
            each(|latest| Some(f64::from(u8::from(latest.is_disturbed)))),
        ),
    ]
}

fn of_energy(run: &RunSoFar) -> Family {
    let samples = run.latest.iter().flat_map(|(cell, latest)| {
        latest.energy.iter().map(move |energy| {
            let mut labels = names(cell);
            labels.push(("meter", energy.meter.clone()));
            labels.push(("scope", energy.scope.to_owned()));
            labels.push(("estimated", energy.estimated.to_string()));
            (labels, energy.joules)
        })
    });
    Family::gauge(
        "iopj_trial_joules_per_io",
        "Energy per I/O, of the cell's latest trial whose window the meters have read.",
        samples.collect(),
    )
}

/// The power of a run, or of a watch: in one scrape of both, a family has one help.
pub(super) fn of_power(power: &[WatchPower]) -> Family {
    let samples = power.iter().map(|power| {
        let labels = vec![
            ("meter", power.meter.clone()),
            ("channel", power.channel.clone()),
            ("scope", power.scope.to_string()),
        ];
        (labels, power.watts)
    });
    Family::gauge(
        "iopj_power_watts",
        "Power of each channel of a meter: a run's latest, a watch's mean.",
        samples.collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openmetrics::{assert_well_formed, openmetrics};
    use iopj_analysis::testing::runs::{begun, cell, energy, measured};
    use iopj_core::VerdictKind;
    use iopj_core::energy::Scope;
    use iopj_core::watch::WatchPower;

    fn run() -> RunSoFar {
        let mut run = RunSoFar { study: "quick".to_owned(), began_s: 99.0, ..RunSoFar::default() };
        for (number, iodepth) in [(1, 1), (2, 4)] {
            run.begin(begun(number, iodepth), 3, Some(20.0));
            run.end(&measured(1000, VerdictKind::Verified), 101.0);
            run.energy(&cell(iodepth), 1000, &energy(5.0));
        }
        let (meter, channel) = ("rapl".to_owned(), "package-0".to_owned());
        run.power = vec![WatchPower { meter, channel, scope: Scope::Package, watts: 5.5, over_s: 0.1 }];
        run
    }

    fn published(run: &RunSoFar) -> String {
        openmetrics(&run_metrics(run), &("study", run.study.clone()))
    }

    #[test]
    fn a_run_has_its_progress_its_verdicts_and_its_latest_figures() {
        let mut run = run();
        let text = published(&run);
        let cell = "study=\"quick\",path=\"io_uring/syscall/interrupt\",\
                    workload=\"randread 4k iodepth 4 numjobs 1\",generator=\"native\"";
        for line in [
            "iopj_run_info{study=\"quick\"} 1",
            "iopj_run_active{study=\"quick\"} 1",
            "iopj_run_trials_planned{study=\"quick\"} 3",
            "iopj_run_trials_done{study=\"quick\"} 2",
            "iopj_run_end_timestamp_seconds{study=\"quick\"} 120",
            &format!("iopj_run_trial_info{{{cell}}} 1"),
            "iopj_run_trials_total{study=\"quick\",path=\"io_uring/syscall/interrupt\",verdict=\"verified\"} 2",
            "iopj_run_disturbed_trials_total{study=\"quick\",path=\"io_uring/syscall/interrupt\"} 0",
            &format!("iopj_trial_iops{{{cell}}} 1000"),
            &format!("iopj_trial_latency_seconds{{{cell},quantile=\"0.99\"}} 0.00025"),
            &format!(
                "iopj_trial_joules_per_io{{{cell},meter=\"rapl\",scope=\"package\",estimated=\"false\"}} 0.005"
            ),
            "iopj_power_watts{study=\"quick\",meter=\"rapl\",channel=\"package-0\",scope=\"package\"} 5.5",
        ] {
            assert!(text.lines().any(|found| found == line), "`{line}` is missing in: {text}");
        }
        run.finish(&[]);
        let text = published(&run);
        assert!(
            text.contains("iopj_run_active{study=\"quick\"} 0\n") && !text.contains("iopj_run_trial_info"),
            "{text}"
        );
        assert!(!text.contains("iopj_run_end_timestamp_seconds"), "{text}");
    }

    #[test]
    fn families_are_well_formed_also_before_the_first_trial() {
        assert_well_formed(&run_metrics(&run()));
        assert_well_formed(&run_metrics(&RunSoFar::default()));
        assert!(published(&RunSoFar::default()).contains("iopj_run_active{study=\"\"} 1\n"));
    }
}
