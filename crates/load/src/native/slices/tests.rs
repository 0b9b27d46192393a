//! The grid of slices: every I/O once, on the grid, and constant load at a constant rate.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// Jobs that see I/Os at these times, each job's in order, in a window from 0 to the last of them.
fn run(jobs: &[Vec<u64>], begin_ns: u64) -> Vec<Slice> {
    let last_ns = begin_ns + jobs.iter().flatten().max().copied().unwrap_or(0);
    let job = |times: &Vec<u64>| {
        let mut slices = Slices::new();
        slices.start(begin_ns);
        for (before, time) in (0..).zip(times) {
            slices.count_up_to(before);
            slices.at(begin_ns + time);
        }
        slices.count_up_to(times.len() as u64);
        slices
    };
    together(jobs.iter().map(job).collect(), last_ns)
}

fn rates(series: &[Slice]) -> Vec<f64> {
    let begins = std::iter::once(0).chain(series.iter().map(|slice| slice.end_ns));
    series
        .iter()
        .zip(begins)
        .map(|(slice, begin)| slice.ios as f64 * 1e9 / (slice.end_ns - begin) as f64)
        .collect()
}

#[test]
fn four_jobs_at_one_millisecond_no_more_show_848_to_30475_iops_around_a_true_4000() {
    // Each job at depth 1, an I/O a millisecond, the jobs a little apart, for 3.0173 s: 4,000 IOPS.
    let job = |number: u64| (1..=3017).map(|io| io * MS + number * 77_000).collect();
    let series = run(&[0, 1, 2, 3].map(job), 5);
    assert_eq!((series.len(), series.last().map(|slice| slice.end_ns)), (61, Some(3017 * MS + 231_000)));
    let (short, whole) = rates(&series).split_last().map(|(short, whole)| (*short, whole.to_vec())).unwrap();
    assert!(whole.iter().all(|rate| (3920.0..=4080.0).contains(rate)), "{whole:?}");
    assert!((3700.0..=4300.0).contains(&short), "{short}");
}

#[test]
fn the_last_slice_is_kept_with_its_true_length() {
    let series = run(&[vec![10 * MS, 60 * MS, 61 * MS]], 0);
    assert_eq!(series, [Slice { end_ns: 50 * MS, ios: 1 }, Slice { end_ns: 61 * MS, ios: 2 }]);
    // An I/O on the line between two slices belongs to the one that ends there.
    assert_eq!(run(&[vec![50 * MS, 100 * MS]], 9), [50, 100].map(|ms| Slice { end_ns: ms * MS, ios: 1 }));
    assert_eq!(run(&[], 0), []);
}

#[test]
fn slices_without_a_completion_are_empty_and_the_ios_stay_where_they_were_seen() {
    let series = run(&[vec![10 * MS, 20 * MS, 230 * MS], vec![240 * MS]], 0);
    assert_eq!(series.iter().map(|slice| slice.ios).collect::<Vec<_>>(), [2, 0, 0, 0, 2]);
}

#[test]
fn jobs_of_unlike_length_are_joined_on_the_longer_grid() {
    // The first job ends before the grid is coarsened, at 6.4 s; the second one runs for 20 s.
    let series = run(&[vec![60 * MS, 6_000 * MS], vec![60 * MS, 20_000 * MS]], 0);
    assert_eq!(series.len(), 100);
    assert_eq!(series[0], Slice { end_ns: 200 * MS, ios: 2 });
    assert_eq!((series[29].ios, series[99].ios), (1, 1));
}

#[test]
fn a_tally_that_was_reset_is_a_new_one() {
    let mut slices = Slices::new();
    slices.start(3);
    slices.at(50_000 * MS);
    slices.count_up_to(1);
    slices.reset();
    slices.start(7);
    assert_eq!(together(vec![slices], 7 + MS), [Slice { end_ns: MS, ios: 0 }]);
}

#[test]
fn all_jobs_have_the_begin_of_the_first_one() {
    let begin = Begin::default();
    assert_eq!([begin.of(30), begin.of(20), begin.of(40)], [30; 3]);
}

proptest! {
    #[test]
    fn every_io_is_in_one_slice_of_the_grid(
        gaps in prop::collection::vec(prop::collection::vec(0..400 * MS, 0..300), 1..6),
        begin_ns in 1..u64::MAX / 4,
    ) {
        let jobs: Vec<Vec<u64>> = gaps
            .into_iter()
            .map(|gaps| gaps.into_iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect())
            .collect();
        let series = run(&jobs, begin_ns);
        let ios: u64 = series.iter().map(|slice| slice.ios).sum();
        prop_assert_eq!(ios, jobs.iter().flatten().count() as u64);
        let last_ns = jobs.iter().flatten().max().copied().unwrap_or(0);
        let step = series[0].end_ns;
        let (last, whole) = series.split_last().unwrap();
        prop_assert_eq!(last.end_ns, last_ns);
        prop_assert!(series.len() <= MAX_SLICES && (whole.is_empty() || step.is_multiple_of(SLICE_NS)));
        let mut begin = 0;
        for (number, slice) in series.iter().enumerate() {
            prop_assert!(slice.end_ns == (number as u64 + 1) * step || number == whole.len());
            let within = |time: &&u64| (begin < **time || number == 0) && **time <= slice.end_ns;
            prop_assert_eq!(slice.ios, jobs.iter().flatten().filter(within).count() as u64);
            begin = slice.end_ns;
        }
    }

    #[test]
    fn constant_load_has_a_constant_rate(
        jobs in 1..9u64, each_ns in 20_000..2 * MS, length_ms in 100..12_000u64, apart in 0..1000u64,
    ) {
        let ios = (length_ms * MS / each_ns).min(20_000);
        let job = |number: u64| {
            (0..ios).map(|io| io * each_ns + number * each_ns * apart / 1000 / jobs).collect()
        };
        let times: Vec<Vec<u64>> = (0..jobs).map(job).collect();
        let series = run(&times, 1);
        let (_, whole) = series.split_last().unwrap();
        // A job has one I/O more or less than its share of a slice.
        let step_ns = series[0].end_ns as f64;
        let expected = jobs as f64 * step_ns / each_ns as f64;
        for slice in whole {
            let off = (slice.ios as f64 - expected).abs();
            prop_assert!(off <= jobs as f64 + 1e-6, "{} not {expected}", slice.ios);
        }
    }
}
