//! A co-runner of constructed trials with known rounds, through metrics, tables, winner maps, comparisons and
//! their texts.

use iopj_analysis::compare::compare_within;
use iopj_analysis::metric::Metric;
use iopj_analysis::testing::compare;
use iopj_analysis::winner::{Axis, WinnerQuestion, winner_maps};
use iopj_analysis::{Admission, workload_tables};
use iopj_core::{Corunner, CorunnerKind, Scope};
use iopj_record::testing::cells::measurement_of as measurement;
use iopj_record::testing::energy::give;
use iopj_record::testing::pairs::{LIBAIO, URING, study, trials};
use iopj_record::{CorunnerWindow, EnergySource, Trial};

/// Trials of one second on two processors whose co-runner, of 1,000 rounds/s alone, does so many rounds; at
/// the plug 100 J.
fn beside(path: &str, iops: &[u64], rounds: u64) -> Vec<Trial> {
    let mut trials = trials(path, iops);
    for trial in &mut trials {
        trial.workload.corunner = Some(Corunner::of(CorunnerKind::Spin));
        measurement(trial).corunner = Some(CorunnerWindow {
            kind: CorunnerKind::Spin,
            cpus: vec![0, 1],
            nice: 19,
            over_ns: 1_000_000_000,
            rounds,
            cpu_ns: 1,
            alone_over_ns: 1_000_000_000,
            alone_rounds: 1_000,
            alone_cpu_ns: 2_000_000_000,
        });
        give(trial, "plug", Scope::System, 100.0);
    }
    trials
}

/// Interrupts leave three quarters of the processors, polling a tenth.
fn both() -> Vec<Trial> {
    [beside(LIBAIO, &[1000, 1010, 990], 750), beside("posix-sio/syscall/poll", &[1000, 1011, 989], 100)]
        .concat()
}

/// Co-runners of two priorities are not one.
#[test]
fn another_niceness_is_another_workload() {
    let mut nicer = both();
    for trial in &mut nicer {
        trial.workload.corunner.as_mut().unwrap().nice = 0;
    }
    let question = WinnerQuestion::new(Metric::CorunnerPerS, Axis::Iodepth, Axis::Corunner).unwrap();
    let maps = winner_maps(&[both(), nicer].concat(), &question);
    assert_eq!(maps.len(), 2);
    assert!(maps.iter().all(|map| map.cells.values().all(|cell| cell.ranking[0].summary.n == 3)));
}

fn plug() -> EnergySource {
    EnergySource { scope: Scope::System, meter: "plug".to_owned(), estimated: false }
}

#[test]
fn what_a_freed_core_is_worth_is_a_metric() {
    let mut trial = beside(LIBAIO, &[1000], 750).remove(0);
    let one = measurement(&mut trial);
    let of = |metric: Metric| metric.value(one, Some(&plug()));
    // A quarter of two processors over a second, for 1,000 I/Os.
    let metrics = [Metric::CorunnerPerS, Metric::CorunnerLossPerIo, Metric::CorunnerPerJoule];
    assert_eq!(metrics.map(of), [Some(750.0), Some(500_000.0), Some(7.5)]);
    assert_eq!(Metric::CorunnerPerJoule.value(one, None), None);
    assert_eq!(metrics.map(Metric::more_is_better), [true, false, true]);
    for metric in metrics {
        assert!(metric.is_time() && metric.as_str().parse() == Ok(metric), "{metric}");
    }
    one.corunner = None;
    assert_eq!(metrics.map(|metric| metric.value(one, Some(&plug()))), [None; 3]);
}

#[test]
fn tables_show_it_where_there_is_one() {
    let csv = crate::csv(&workload_tables(&study("6.1"), &both(), Admission::default()));
    let heading: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let line = csv.lines().find(|line| line.starts_with(LIBAIO)).unwrap();
    let of = |name: &str| line.split(',').nth(heading.iter().position(|one| *one == name).unwrap()).unwrap();
    let names = ["corunner", "corunner_cpus", "corunner_nice", "corunner_per_s", "corunner_per_joule"];
    assert_eq!(names.map(of), ["spin", "", "19", "750", "7.5"]);
    let mean: f64 = of("corunner_loss_ns_per_io").parse().unwrap();
    assert!((mean - 500_033.0).abs() < 1.0, "{mean}");
}

#[test]
fn the_path_that_leaves_most_wins_by_it() {
    for metric in [Metric::CorunnerPerJoule, Metric::CorunnerLossPerIo] {
        let question = WinnerQuestion::new(metric, Axis::Iodepth, Axis::Corunner).unwrap();
        let maps = winner_maps(&both(), &question);
        let [map] = &maps[..] else { panic!("one map") };
        let cell = map.cells.values().next().unwrap();
        assert_eq!(cell.ranking[0].path.to_string(), LIBAIO, "{metric}");
        let text = crate::winners(&study("6.1"), &both(), &question);
        assert!(text.contains("spin") && text.contains("B wins"), "{text}");
    }
}

#[test]
fn with_and_without_are_compared_in_one_study() {
    let mut without = trials(URING, &[1000, 1010, 990]);
    let mut with = beside(URING, &[900, 910, 890], 500);
    for (replicate, trial) in without.iter_mut().chain(&mut with).enumerate() {
        trial.replicate = (replicate % 3) as u32;
    }
    let all = [without, with.clone()].concat();
    let found = compare_within(&study("6.1"), all, "corunner=none,spin", &[], Admission::default()).unwrap();
    assert_eq!((found.only_before.len(), found.only_after.len()), (0, 0));
    let iops = found.changes.iter().find(|change| change.metric == Metric::Iops).unwrap();
    assert!(iops.ratio.is_some_and(|ratio| (ratio - 0.9).abs() < 1e-3), "{:?}", iops.ratio);
    // Its own figures need it on both sides.
    assert!(!found.metrics.contains(&Metric::CorunnerPerS));
    let faster = beside(URING, &[900, 910, 890], 600);
    let of = (&study("6.1"), &with[..]);
    let found = compare(of, (&study("6.1"), &faster[..]), Admission::default());
    for metric in [Metric::CorunnerPerS, Metric::CorunnerPerJoule] {
        let change = found.changes.iter().find(|change| change.metric == metric).unwrap();
        assert!(change.ratio.is_some_and(|ratio| (ratio - 1.2).abs() < 1e-9), "{metric}: {:?}", change.ratio);
    }
}
