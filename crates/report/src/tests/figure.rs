//! A program's figure of constructed trials, through metrics, tables, winner maps, comparisons, advice and
//! their texts.

use iopj_analysis::compare::compare_within;
use iopj_analysis::figure::METRICS;
use iopj_analysis::figure::*;
use iopj_analysis::metric::Metric;
use iopj_analysis::winner::{Axis, Decision, WinnerQuestion, default_metric, winner_maps};
use iopj_analysis::{Admission, advise, workload_tables};
use iopj_core::{Scope, VerdictKind};
use iopj_record::EnergySource;
use iopj_record::testing::cells::measurement_of as measurement;
use iopj_record::testing::energy::give;
use iopj_record::testing::pairs::{study, trials};
use iopj_record::{Measurement, ProgramWindow, Trial};

/// Trials that report so many transactions per second, on half a core, with 100 J at the plug.
fn of_program(name: &str, transactions: &[f64]) -> Vec<Trial> {
    let ios: Vec<u64> = transactions.iter().map(|_| 5000).collect();
    let mut trials = trials(&format!("program:{name}"), &ios);
    for (trial, figure) in trials.iter_mut().zip(transactions) {
        trial.workload.told = Some(vec!["numjobs".to_owned()]);
        let one = measurement(trial);
        one.verdict.kind = VerdictKind::Seen;
        one.cpu_percent = 50.0;
        let (name, unit) = ("transactions".to_owned(), "1/s".to_owned());
        one.program =
            Some(Box::new(ProgramWindow { figure: *figure, name, unit, ..ProgramWindow::default() }));
        give(trial, "plug", Scope::System, 100.0);
    }
    trials
}

fn both() -> Vec<Trial> {
    [of_program("sync", &[200.0, 202.0, 198.0]), of_program("io_uring", &[300.0, 304.0, 296.0])].concat()
}

#[test]
fn a_rate_is_of_every_second_and_a_total_of_the_whole_window() {
    let source = EnergySource { scope: Scope::System, meter: "plug".to_owned(), estimated: false };
    let mut trial = of_program("sync", &[200.0]).remove(0);
    let one = measurement(&mut trial);
    let of = |one: &Measurement| METRICS.map(|(_, metric)| metric.value(one, Some(&source)));
    let seconds = one.window_ns as f64 / 1e9;
    // The joules are those of two seconds.
    assert_eq!(of(one), [Some(200.0), Some(400.0), Some(4.0)]);
    one.program.as_mut().unwrap().unit = "rows".to_owned();
    assert_eq!(of(one), [Some(200.0), Some(400.0 / seconds), Some(2.0)]);
    assert!(METRICS.iter().all(|(_, metric)| metric.more_is_better() && metric.is_time()));
    // What its disks did not do has no figure.
    (one.ios, one.latency.count) = (0, 0);
    let lacking =
        [Metric::ContextSwitchesPerIo, Metric::LatencyMean, Metric::LatencyP99, Metric::SleepsPerIo];
    assert_eq!(lacking.map(|metric| metric.value(one, None)), [None; 4]);
    assert!(Admission::default().admit(&trial).is_ok(), "it may find all of its data in memory");
    measurement(&mut trial).program = None;
    assert!(Admission::default().admit(&trial).is_err());
}

#[test]
fn the_best_variant_is_decided_by_the_figure() {
    let (study, all) = (study("6.1"), both());
    assert_eq!(default_metric(&study, &all, Admission::default()), Metric::Figure);
    let question = WinnerQuestion::new(Metric::FigurePerJoule, Axis::Numjobs, Axis::Iodepth).unwrap();
    let maps = winner_maps(&all, &question);
    let cell = maps[0].cells.values().next().unwrap();
    assert_eq!(
        (cell.decision(), cell.ranking[0].path.to_string()),
        (Decision::Wins, "program:io_uring".into())
    );
    let text = crate::winners(&study, &all, &question);
    assert!(text.contains("transactions per joule (1/J), "), "{text}");
    let text = crate::report(&study, &all, Admission::default());
    for part in [
        "By transactions program:io_uring wins: 300",
        "transactions/CPU s",
        "transactions/J",
        "6 trials seen, 0 failed",
        "numjobs 1",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let rows = &workload_tables(&study, &all, Admission::default())[0].rows;
    assert_eq!(rows[0].path.to_string(), "program:io_uring");
    assert!((rows[1].slower.unwrap() - 0.5).abs() < 1e-9);
}

#[test]
fn variants_are_compared_by_the_figure_first_and_no_advice_is_given() {
    let (study, all) = (study("6.1"), both());
    let by = "path=program:sync,program:io_uring";
    let compared = compare_within(&study, all.clone(), by, &[], Admission::default()).unwrap();
    assert_eq!(compared.metrics[..3], METRICS.map(|(_, metric)| metric));
    let text = crate::comparison(&compared);
    assert!(text.contains("transactions per CPU second, 1/CPU s") && text.contains("+50.0 %"), "{text}");
    let question = advise::AdviseQuestion::default();
    let refused = advise::advise(&study, &all, &question).unwrap_err().to_string();
    assert!(refused.contains("--metric transactions_per_joule"), "{refused}");
}

#[test]
fn a_programs_metrics_have_its_own_words() {
    let figure = |name: &str, unit: &str| FigureName { name: name.to_owned(), unit: unit.to_owned() };
    let tps = figure("transactions", "1/s");
    assert_eq!(tps.metric("transactions"), Some(Metric::Figure));
    assert_eq!(tps.metric("transactions_per_joule"), Some(Metric::FigurePerJoule));
    assert_eq!((tps.metric("transactions_per"), tps.metric("iops")), (None, None));
    let words = |metric| (title(metric, Some(&tps)), unit(metric, Some(&tps)));
    let pair = |title: &str, unit: &str| (title.to_owned(), unit.to_owned());
    assert_eq!(words(Metric::Figure), pair("transactions", "1/s"));
    assert_eq!(words(Metric::FigurePerCpu), pair("transactions per CPU second", "1/CPU s"));
    assert_eq!(words(Metric::FigurePerJoule), pair("transactions per joule", "1/J"));
    assert_eq!(words(Metric::Iops), pair("IOPS", "I/Os per second"));
    assert_eq!(unit(Metric::FigurePerJoule, Some(&figure("rows", "MB/s"))), "MB/J");
    assert_eq!(unit(Metric::FigurePerJoule, Some(&figure("rows", "rows"))), "rows/J");
    assert_eq!(title(Metric::FigurePerJoule, None), "figure per joule");
}
