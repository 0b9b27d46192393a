//! Energy of constructed trials with known joules, through metrics, tables, winner maps, comparisons and
//! their texts.

use iopj_analysis::Admission;
use iopj_analysis::energy::*;
use iopj_analysis::metric::Metric;
use iopj_analysis::testing::compare;
use iopj_analysis::winner::{Axis, WinnerQuestion, winner_maps};
use iopj_analysis::{WorkloadTable, workload_tables};
use iopj_core::{EnergyOutcome, Rw};
use iopj_core::{Joules, Scope, VerdictKind};
use iopj_papers::claims::{ClaimContext, decide};
use iopj_record::StudyRecord;
use iopj_record::testing::cells::{Measured, cell, judge, measurement_of as measurement, workload};
use iopj_record::testing::energy::{give, give_outcome};
use iopj_record::testing::pairs::study;
use iopj_record::{EnergySource, Measurement, Trial};
use statrs::distribution::{ContinuousCDF, StudentsT};

fn joules(trial: &mut Trial) -> &mut Joules {
    let EnergyOutcome::Complete(joules) = &mut measurement(trial).energy[0].outcome else { panic!() };
    joules
}

/// Three replicates of 1,000 IOPS, so 2,000 I/Os, with these joules at the plug.
fn replicates(path: &str, joules: [f64; 3]) -> Vec<Trial> {
    let measured = Measured { mean_us: 10.0, iops: 1000.0, ..Measured::default() };
    let mut trials = cell(path, &workload(Rw::Randread, 1), measured, &[0.0; 3]);
    for (trial, joules) in trials.iter_mut().zip(joules) {
        give(trial, "plug", Scope::System, joules);
    }
    trials
}

fn plug() -> EnergySource {
    EnergySource { scope: Scope::System, meter: "plug".to_owned(), estimated: false }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6 * b.abs().max(1.0)
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const SIO: &str = "posix-sio/syscall/interrupt";
const POLL: &str = "posix-sio/syscall/poll";

#[test]
fn metrics_are_those_of_the_source_alone() {
    let mut trial = replicates(SIO, [100.0; 3]).remove(0);
    give(&mut trial, "rapl", Scope::Package, 50.0);
    let one = measurement(&mut trial);
    let of = |metric: Metric, source: &EnergySource| metric.value(one, Some(source)).unwrap();
    let metrics = [
        Metric::Joules,
        Metric::Watts,
        Metric::IosPerJoule,
        Metric::BytesPerJoule,
        Metric::WattsAboveIdle,
        Metric::IosPerJouleAboveIdle,
    ];
    assert_eq!(metrics.map(|metric| of(metric, &plug())), [100.0, 50.0, 20.0, 81_920.0, 20.0, 50.0]);
    let rapl = EnergySource { scope: Scope::Package, meter: "rapl".to_owned(), estimated: false };
    assert_eq!((of(Metric::Watts, &rapl), of(Metric::IosPerJoule, &rapl)), (25.0, 40.0));
    // 50 J are less than the idle machine takes.
    assert_eq!(
        (of(Metric::WattsAboveIdle, &rapl), Metric::IosPerJouleAboveIdle.value(one, Some(&rapl))),
        (-5.0, None)
    );
    for metric in metrics {
        assert_eq!(metric.value(one, None), None, "{metric}");
        assert!(metric.is_energy() && metric.is_time(), "{metric}");
        assert_eq!(metric.as_str().parse(), Ok(metric));
    }
    // The work of a co-runner and the figure of a program per joule are those of other kinds.
    assert_eq!(Metric::ALL.iter().filter(|metric| metric.is_energy()).count(), metrics.len() + 2);
}

#[test]
fn replicates_tell_the_random_part_and_the_meter_the_common_one() {
    let mut trials = replicates(SIO, [98.0, 100.0, 102.0]);
    let energy = |trials: &[Trial]| {
        let measured: Vec<&Measurement> =
            trials.iter().filter_map(|trial| trial.outcome.measurement()).collect();
        CellEnergy::of(&measured, &plug()).unwrap()
    };
    // Student's quantile at two degrees of freedom is 4.302653; the standard deviation is 2 J, or 1 W.
    let random = 4.302_652_73 / 3f64.sqrt();
    let watts = energy(&trials).watts.unwrap();
    assert!(watts.mean == 50.0 && near(watts.random, random) && watts.combined.is_none(), "{watts:?}");
    let per_joule = energy(&trials).ios_per_joule.unwrap();
    // The standard deviation of 20.408, 20 and 19.608 is 0.40016.
    assert!(near(per_joule.mean, (2000.0 / 98.0 + 20.0 + 2000.0 / 102.0) / 3.0), "{per_joule:?}");
    assert!((per_joule.random - 0.400_16 * random).abs() < 1e-4, "{per_joule:?}");
    // A meter known to 4 % that reads 100 J without noise: all replicates share the error.
    for trial in &mut trials {
        let joules = joules(trial);
        (joules.joules, joules.random_j, joules.interval) = (100.0, 0.0, Some([96.0, 104.0]));
    }
    let watts = energy(&trials).watts.unwrap();
    assert!(watts.random == 0.0 && near(watts.combined.unwrap(), 2.0), "{watts:?}");
    assert!(near(energy(&trials).ios_per_joule.unwrap().combined.unwrap(), 0.8));
    // Random and common parts add in squares, with more degrees of freedom than the random part alone has.
    // The standard deviation is 1 W, the common interval 4 W.
    for (trial, value) in trials.iter_mut().zip([98.0, 100.0, 102.0]) {
        let joules = joules(trial);
        (joules.joules, joules.interval) = (value, Some([0.92 * value, 1.08 * value]));
    }
    let (u, common) = (1.0 / 3f64.sqrt(), 4.0 / 1.959_963_984_540_054);
    let dof = 2.0 * (u.hypot(common) / u).powi(4);
    let factor = StudentsT::new(0.0, 1.0, dof).unwrap().inverse_cdf(0.975);
    let watts = energy(&trials).watts.unwrap();
    assert!((watts.combined.unwrap() - factor * u.hypot(common)).abs() < 1e-3, "{watts:?}");
    assert!(near(watts.random, random) && watts.combined.unwrap() > watts.random);
}

#[test]
fn one_replicate_has_the_interval_of_its_readings() {
    let trials = replicates(SIO, [100.0; 3]);
    let one = CellEnergy::of(&[trials[0].outcome.measurement().unwrap()], &plug()).unwrap();
    assert!(near(one.watts.unwrap().random, 0.5) && near(one.ios_per_joule.unwrap().random, 0.2), "{one:?}");
}

#[test]
fn every_table_gains_watts_and_ios_per_joule_with_the_source_in_its_heading() {
    let mut trials = [replicates(SIO, [98.0, 100.0, 102.0]), replicates(POLL, [80.0; 3])].concat();
    let text = squeezed(&crate::report(&study("6.1"), &trials, Admission::default()));
    assert!(text.contains("numjobs 1, 2s, 3 replicates, energy: system by plug path verdict IOPS"), "{text}");
    assert!(text.contains("slower W \u{b1} IO/J \u{b1} "), "{text}");
    assert!(text.contains("0 50.00 2.5 20.01 0.99 ") && text.contains("0 40.00 0 25.00 0 "), "{text}");
    assert!(
        text.contains("the meter declares no accuracy")
            && !text.contains("est.")
            && !text.contains("incomplete")
    );
    for trial in &mut trials {
        let joules = joules(trial);
        joules.interval = Some([0.96 * joules.joules, 1.04 * joules.joules]);
    }
    let text = squeezed(&crate::report(&study("6.1"), &trials, Admission::default()));
    assert!(text.contains("W \u{b1} \u{b1} all IO/J \u{b1} \u{b1} all "), "{text}");
    assert!(text.contains("\u{b1} all holds the meter's declared accuracy too"), "{text}");
}

#[test]
fn incomplete_trials_are_counted_and_named_and_leave_the_scope_as_it_is() {
    let mut trials = [replicates(SIO, [100.0; 3]), replicates(POLL, [80.0, 81.0, 82.0])].concat();
    measurement(&mut trials[5]).energy.clear();
    give_outcome(
        &mut trials[5],
        "plug",
        Scope::System,
        EnergyOutcome::Incomplete("no reading for 7 s\u{1b}".to_owned()),
    );
    for trial in &mut trials {
        give(trial, "rapl", Scope::Package, 10.0);
    }
    let text = squeezed(&crate::report(&study("6.1"), &trials, Admission::default()));
    assert!(text.contains("energy: system by plug") && !text.contains("rapl"), "{text}");
    let says = "energy incomplete: no joules from plug in 1 of 6 trials: no reading for 7 s\\u{1b} \
                posix-sio/syscall/poll, randread 4k iodepth 1 numjobs 1, replicate 3";
    assert!(text.contains(says), "{text}");
    let question = WinnerQuestion::new(Metric::IosPerJoule, Axis::Iodepth, Axis::Numjobs).unwrap();
    let map = winner_maps(&trials, &question).remove(0);
    let cell = map.cells.values().next().unwrap();
    assert_eq!((cell.ranking[0].path.to_string().as_str(), cell.ranking[0].summary.n), (POLL, 2));
    assert_eq!((map.left_out().energy_incomplete, map.left_out().total(), map.source), (1, 2, Some(plug())));
    let text = crate::winners(&study("6.1"), &trials, &question);
    assert!(text.starts_with("I/Os per joule (IO/J), system by plug, more is better: "), "{text}");
    assert!(
        text.contains("2 trials are left out: 1 energy incomplete, 1 without a partner in their block")
            && text.contains("no reading for 7 s"),
        "{text}"
    );
}

/// The page said that no meter took part, above a figure of its readings; the terminal and the tables said
/// nothing.
#[test]
fn a_meter_that_has_joules_of_no_trial_says_why_everywhere() {
    let mut trials = replicates(SIO, [100.0; 3]);
    for trial in &mut trials {
        measurement(trial).energy.clear();
        let short = "the measured window is too short".to_owned();
        give_outcome(trial, "plug", Scope::System, EnergyOutcome::Incomplete(short));
    }
    let says = "no joules from plug in 3 of 3 trials: the measured window is too short";
    let study = study("6.1");
    let text = squeezed(&crate::report(&study, &trials, Admission::default()));
    assert!(text.ends_with(&format!("energy incomplete: {says}")) && !text.contains("IO/J"), "{text}");
    let question = WinnerQuestion::new(Metric::IosPerJoule, Axis::Iodepth, Axis::Numjobs).unwrap();
    let text = squeezed(&crate::winners(&study, &trials, &question));
    assert!(text.contains(says) && !text.contains("no competing trial measured energy"), "{text}");
    let claims = decide(&trials, &ClaimContext::of(&study, &trials, Admission::default()));
    let text = squeezed(&crate::claims(&claims, false));
    assert_eq!(text.matches(&format!("energy: {says}")).count(), 1, "{text}");
    let page = crate::html::page(&study, &trials, &[], Admission::default());
    assert!(page.contains(&format!("<li>{says}.</li>")) && !page.contains("no meter took part"), "{page}");
    let csv = crate::csv(&workload_tables(&study, &trials, Admission::default()));
    let row = csv.lines().nth(1).unwrap();
    assert!(row.ends_with(",plug,false,the measured window is too short"), "{csv}");
    let mut csv = Vec::new();
    iopj_record::export::csv(&study, &trials, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(
        csv.lines().nth(1).unwrap().ends_with(",system,plug,false,the measured window is too short"),
        "{csv}"
    );
    let latex = crate::latex(&workload_tables(&study, &trials, Admission::default()));
    assert!(!latex.contains("IO/J") && !latex.contains("% energy"), "{latex}");
}

#[test]
fn estimates_are_shown_as_such_and_rank_nothing() {
    let mut trials = replicates(SIO, [100.0; 3]);
    for trial in &mut trials {
        measurement(trial).energy.clear();
        give(trial, "model", Scope::System, 100.0);
    }
    let text = squeezed(&crate::report(&study("6.1"), &trials, Admission::default()));
    assert!(
        text.contains("energy: system by model, est. ") && text.contains("est. 50.00 0 est. 20.00 0"),
        "{text}"
    );
    let latex = crate::latex(&workload_tables(&study("6.1"), &trials, Admission::default()));
    assert!(latex.contains("est. 50.00") && latex.contains("% energy: system by model, est."), "{latex}");
    let csv = crate::csv(&workload_tables(&study("6.1"), &trials, Admission::default()));
    assert!(csv.lines().nth(1).unwrap().ends_with(",system,model,true,"), "{csv}");
    let question = WinnerQuestion::new(Metric::Watts, Axis::Iodepth, Axis::Numjobs).unwrap();
    let text = crate::winners(&study("6.1"), &trials, &question);
    assert!(text.contains("no competing trial measured energy"), "{text}");
    let study = study("6.1");
    let comparison = compare((&study, &trials), (&study, &trials), Admission::default());
    assert!(
        comparison.energy.is_none() && comparison.changes.iter().all(|change| !change.metric.is_energy())
    );
    let page = crate::html::page(&study, &trials, &[], Admission::default());
    assert!(
        page.contains("no meter took part") && !page.contains("over-joule") && !page.contains("IO/J</th>")
    );
}

#[test]
fn exports_hold_the_means_and_their_intervals() {
    let mut trials = replicates(SIO, [98.0, 100.0, 102.0]);
    trials.extend(replicates(POLL, [80.0; 3]));
    for trial in &mut trials[3..] {
        measurement(trial).energy.clear();
    }
    let tables: Vec<WorkloadTable> = workload_tables(&study("6.1"), &trials, Admission::default());
    let csv = crate::csv(&tables);
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let of = |row: usize, name: &str| lines[row][lines[0].iter().position(|one| *one == name).unwrap()];
    assert!(lines.iter().all(|line| line.len() == lines[0].len()));
    let with = if of(1, "path") == SIO { (1, 2) } else { (2, 1) };
    assert_eq!(
        (of(with.0, "joules"), of(with.0, "watts"), of(with.0, "energy_meter")),
        ("100", "50", "plug")
    );
    assert!(
        of(with.0, "watts_plus_minus").starts_with("2.484") && of(with.0, "watts_plus_minus_all").is_empty()
    );
    assert_eq!(
        (of(with.1, "watts"), of(with.1, "energy_meter"), of(with.1, "energy_incomplete")),
        ("", "", "")
    );
    let latex = crate::latex(&tables);
    assert!(
        latex.contains("& W & $\\pm$ & $\\pm$ all & IO/J &") && latex.contains("& 50.00 & 2.48 & -- & 20.01"),
        "{latex}"
    );
}

#[test]
fn two_stores_are_compared_by_the_meter_that_they_share() {
    let (before, mut after) = (replicates(SIO, [99.0, 100.0, 101.0]), replicates(SIO, [79.0, 80.0, 81.0]));
    let study = study("6.1");
    let comparison = compare((&study, &before), (&study, &after), Admission::default());
    let change = |metric: Metric| comparison.changes.iter().find(|change| change.metric == metric).unwrap();
    let watts = change(Metric::Watts);
    assert!(
        near(watts.ratio.unwrap(), 0.8) && watts.outcome == iopj_analysis::compare::ChangeOutcome::Better,
        "{watts:?}"
    );
    assert_eq!(change(Metric::IosPerJoule).outcome, iopj_analysis::compare::ChangeOutcome::Better);
    let text = crate::comparison(&comparison);
    assert!(text.contains("energy (W, IO/J): system by plug; a gain"), "{text}");
    assert!(squeezed(&text).contains("power, W 50.00 40.00 -20.0 %"), "{text}");
    for trial in &mut after {
        measurement(trial).energy[0].meter = "pdu".to_owned();
    }
    let comparison = compare((&study, &before), (&study, &after), Admission::default());
    assert!(
        comparison.energy.is_none() && comparison.changes.iter().all(|change| !change.metric.is_energy())
    );
    let text = squeezed(&crate::comparison(&comparison));
    assert!(
        text.contains("no meter and scope in common: system by plug before, system by pdu after"),
        "{text}"
    );
}

#[test]
fn of_an_emulated_store_no_energy_is_shown() {
    let trials = replicates(SIO, [97.0, 100.0, 103.0]);
    let study = StudyRecord { emulated: Some("QEMU TCG".to_owned()), ..study("6.1") };
    let texts = [
        crate::report(&study, &trials, Admission::default()),
        crate::csv(&workload_tables(&study, &trials, Admission::default())),
        crate::latex(&workload_tables(&study, &trials, Admission::default())),
        crate::html::page(&study, &trials, &[], Admission::default()),
    ];
    for text in texts {
        assert!(!text.contains("plug") && !text.contains("I/Os per joule, IO/J"), "{text}");
    }
    let question = WinnerQuestion::new(Metric::IosPerJoule, Axis::Iodepth, Axis::Numjobs).unwrap();
    assert!(question.admits(&study).unwrap_err().to_string().contains("times mean nothing"));
}

#[test]
fn refuted_trials_neither_choose_the_source_nor_count_as_incomplete() {
    let mut trials = [replicates(SIO, [100.0; 3]), replicates(POLL, [80.0; 3])].concat();
    for trial in &mut trials[3..] {
        measurement(trial).energy.clear();
    }
    judge(&mut trials[3..], VerdictKind::Refuted);
    assert_eq!((EnergySource::shown(&trials).unwrap(), lacks(&trials)), (plug(), Vec::new()));
}

#[test]
fn a_scope_without_joules_is_named_where_its_meter_has_others() {
    let mut trials = replicates(SIO, [100.0; 3]);
    let why = EnergyOutcome::Incomplete("no reading".to_owned());
    for trial in &mut trials {
        give(trial, "rapl", Scope::Package, 50.0);
        give_outcome(trial, "rapl", Scope::Dram, why.clone());
    }
    let said = |trials: &[Trial]| lacks(trials).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(said(&trials), ["no joules for dram from rapl in 3 of 3 trials: no reading"]);
    // Winners by the package, or by the plug, lack nothing.
    let rapl = |scope| EnergySource { scope, meter: "rapl".to_owned(), estimated: false };
    assert_eq!(lacks_of(&trials, Some(&plug())), []);
    assert_eq!(lacks_of(&trials, Some(&rapl(Scope::Package))), []);
    assert_eq!(lacks_of(&trials, Some(&rapl(Scope::Dram))).len(), 1);
    let question = WinnerQuestion::new(Metric::IosPerJoule, Axis::Iodepth, Axis::Numjobs).unwrap();
    assert!(!crate::winners(&study("6.1"), &trials, &question).contains("energy incomplete"));
    // All scopes for one reason are the meter.
    measurement(&mut trials[1]).energy.retain(|energy| energy.meter == "plug");
    let reasons = [
        "no joules from rapl in 1 of 3 trials: the meter took no part",
        "no joules for dram from rapl in 2 of 3 trials: no reading",
    ];
    assert_eq!(said(&trials), reasons);
    // A run that was killed has not computed any yet.
    for trial in &mut trials {
        measurement(trial).energy.iter_mut().for_each(|energy| energy.outcome = EnergyOutcome::Pending);
    }
    let pending = "trials: pending until the run ends, or `iopj run --resume` ends it";
    assert!(said(&trials).iter().any(|said| said.ends_with(pending)), "{:?}", said(&trials));
}
