//! Decisions on samples with a known answer, each next to an open one.

use super::*;

const PATHS: [&str; 3] =
    ["posix-sio/syscall/interrupt", "libaio/syscall/interrupt", "io_uring/syscall/interrupt"];
/// Noise of six blocks, different in each path, with mean zero.
const NOISE: [[f64; 6]; 3] =
    [[1.0, -1.0, 0.5, -0.5, 0.2, -0.2], [-0.4, 0.6, -0.8, 0.3, 0.9, -0.6], [0.1, 0.7, -0.9, 0.8, -0.3, -0.4]];
/// Three looks.
const SEQUENTIAL: Sequential = Sequential { min: 4, max: 6, until: 0.02 };

fn path(place: usize) -> IoPath {
    PATHS[place].parse().unwrap()
}

/// A workload whose paths have these means and `noise` times the noise.
fn workload(means: &[f64], noise: f64) -> BTreeMap<IoPath, Sample> {
    let sample = |place: usize, mean: f64| {
        NOISE[place].iter().zip(0..).map(|(one, at)| (at, mean + noise * one)).collect()
    };
    means.iter().enumerate().map(|(place, mean)| (path(place), sample(place, *mean))).collect()
}

fn state(samples: BTreeMap<IoPath, Sample>) -> (Decision, Vec<IoPath>) {
    decisions(&[(Metric::Iops, samples)], SEQUENTIAL.looks(), SEQUENTIAL.until).remove(0)
}

#[test]
fn a_path_that_is_ahead_of_every_other_wins() {
    assert_eq!(state(workload(&[100.0, 110.0, 105.0], 1.0)), (Decision::Wins, vec![path(1)]));
    assert_eq!(state(workload(&[100.0, 110.0, 105.0], 30.0)).0, Decision::Undecided);
}

#[test]
fn paths_within_the_share_are_equal() {
    let leaders = vec![path(1), path(0)];
    // The third is worse and need not be equivalent.
    assert_eq!(state(workload(&[100.0, 100.1, 90.0], 0.3)), (Decision::Equal, leaders));
    // Neither significantly different nor within 2 %.
    assert_eq!(state(workload(&[100.0, 102.0, 90.0], 5.0)).0, Decision::Undecided);
    // The third is within the noise of the best, and not equivalent to it.
    let mut samples = workload(&[100.0, 100.1], 0.1);
    samples.extend(workload(&[0.0, 0.0, 99.0], 4.0).split_off(&path(2)));
    assert_eq!(state(samples), (Decision::Undecided, vec![path(1), path(0), path(2)]));
}

#[test]
fn a_workload_without_two_paths_or_two_blocks_is_not_decided() {
    assert_eq!(state(BTreeMap::new()), (Decision::Empty, Vec::new()));
    assert_eq!(state(workload(&[100.0], 1.0)), (Decision::Alone, vec![path(0)]));
    let single = |place, value| (path(place), vec![(0, value)]);
    assert_eq!(state(BTreeMap::from([single(0, 100.0), single(1, 200.0)])).0, Decision::Undecided);
}

#[test]
fn the_level_is_shared_between_looks_and_workloads() {
    let samples = workload(&[100.0, 101.3], 1.0);
    let with = |max, others: usize| {
        let all = [vec![samples.clone()], vec![workload(&[100.0, 100.0], 9.0); others]].concat();
        let all: Vec<Examined> = all.into_iter().map(|samples| (Metric::Iops, samples)).collect();
        decisions(&all, Sequential { max, ..SEQUENTIAL }.looks(), 1e-9).remove(0).0
    };
    // One look at one workload: p = 0.0482. With two looks, or two workloads, that is too high.
    assert_eq!(
        [with(4, 0), with(5, 0), with(4, 1)],
        [Decision::Wins, Decision::Undecided, Decision::Undecided]
    );
}

/// The look after a repeat was made at the level of those before it.
#[test]
fn a_repeat_of_blocks_is_a_look_too() {
    let trials: Vec<Trial> = workload(&[100.0, 101.3], 1.0)
        .into_iter()
        .flat_map(|(path, sample)| sample.into_iter().map(move |one| (path, one)))
        .map(|(path, (replicate, value))| {
            let iops = (value * 1000.0).round() as u64;
            Trial { replicate, ..iopj_record::testing::pairs::trial(&path.to_string(), iops) }
        })
        .collect();
    let sequential = Some(Sequential { min: 6, max: 6, until: 1e-9 });
    let once = StudyRecord { sequential, ..StudyRecord::default() };
    let repeat = iopj_record::Repeat { block: 6, replaces: 9, trials: 2, done: 2, replaced: 2, batch: 0 };
    let twice = StudyRecord { repeats: vec![repeat], ..once.clone() };
    // p = 0.0482 at one look.
    assert_eq!([look(&once, &trials).0, look(&twice, &trials).0], [0, 1]);
}

/// Under an open load every path that keeps up does the same number of I/Os, which decides nothing.
#[test]
fn an_open_load_is_decided_by_mean_latency_and_a_closed_one_by_ios() {
    let trials = |is_open: bool| -> Vec<Trial> {
        let trial = |path: IoPath, replicate: u32, latency_ns: f64| {
            let mut trial = iopj_record::testing::pairs::trial(&path.to_string(), 40_000);
            trial.replicate = replicate;
            trial.workload.open = is_open.then(|| iopj_core::OpenLoad::at(40_000));
            trial.outcome.measurement_mut().unwrap().latency.mean = latency_ns;
            trial
        };
        let of = |(path, sample): (IoPath, Sample)| {
            sample.into_iter().map(move |(at, ns)| trial(path, at, 1000.0 * ns)).collect::<Vec<_>>()
        };
        workload(&[100.0, 80.0, 90.0], 1.0).into_iter().flat_map(of).collect()
    };
    let study = StudyRecord { sequential: Some(SEQUENTIAL), ..StudyRecord::default() };
    let (open, says) = look(&study, &trials(true));
    assert_eq!((open, says.as_str()), (0, "no decision is open in 1 workloads: 1 where one path wins"));
    let (open, says) = look(&study, &trials(false));
    assert!(open == 0 && says.contains("equal within 2 %"), "the same I/Os: {says}");
    let decided = decide(&study, &trials(true), &SEQUENTIAL);
    assert_eq!(decided, [Decision::Wins]);
    let best = |examined: Examined| decisions(&[examined], 1, 0.02).remove(0).1;
    let samples = workload(&[100.0, 80.0, 90.0], 1.0);
    assert_eq!(best((Metric::LatencyMean, samples.clone())), [path(1)], "less is better");
    assert_eq!(best((Metric::Iops, samples)), [path(0)]);
    let mut of_auto = trials(true);
    let pinned = IoPath::Auto(iopj_core::AutoPath::Pinned(iopj_core::Way::Sio));
    of_auto.iter_mut().filter(|trial| trial.path == path(0)).for_each(|trial| trial.path = pinned);
    of_auto.iter_mut().filter(|trial| trial.path == path(1)).for_each(|trial| {
        trial.path = IoPath::Auto(iopj_core::AutoPath::Random);
    });
    assert_eq!(decide(&study, &of_auto, &SEQUENTIAL), [Decision::Alone], "nobody deploys the others");
    let both: Vec<Trial> = [trials(true), trials(false)].concat();
    assert_eq!(metrics(&both), [Metric::Iops, Metric::LatencyMean]);
}
