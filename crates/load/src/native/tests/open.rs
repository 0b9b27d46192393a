use super::super::*;
use super::{AtOnce, allocations, alone, other, run_sim, spec};
use crate::trace::{self, How, Onto};
use hdrhistogram::Histogram;
use iopj_core::Rw;
use iopj_core::{Burst, OpenLoad, RateProcess, WriteSync};
use iopj_engine::AnyEngine;
use iopj_engine::Op;
use iopj_engine::sim::SimOptions;

/// Engines whose first wait takes `first`, each after it `later`.
fn waiting(first: Duration, later: Duration) -> impl Fn(&Pool, u32) -> Result<JobEngine, EngineError> + Sync {
    move |_, depth| other(AtOnce::new(depth, first, later))
}

fn open(rate_iops: u32, length: Length) -> Workload {
    Workload { open: Some(OpenLoad::at(rate_iops)), length, ..Workload::default() }
}

fn run_with(workload: &Workload, pacing: Pacing, open: &OpenEngine<'_>) -> (WindowTotals, OpenTotals) {
    let spec = JobSpec { pacing, ..spec(workload, open) };
    let mut run = run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).unwrap();
    let open = run.open.take().unwrap();
    assert_eq!(run.ios() + open.unissued, open.due, "all are whole");
    (run, open)
}

fn at_least(recorder: &Recorder, ns: u64) -> u64 {
    let mut histogram: Histogram<u64> = iopj_record::histogram::new();
    recorder.add_to(&mut histogram);
    histogram
        .iter_recorded()
        .filter(|bin| bin.value_iterated_to() >= ns)
        .map(|bin| bin.count_at_value())
        .sum()
}

const SECOND_QUARTER: Length = Length::Runtime(Duration::from_millis(250));

/// A drive stalls for 100 ms at the start; at 1,000 I/Os a second 100 are due meanwhile, the last of which
/// wait for almost nothing and the first for all of it: 50 or more wait for 50 ms. From submission one I/O
/// was slow, and so it is for a closed loop, which asks for no other.
#[test]
fn a_stall_counts_for_every_io_that_was_due_in_it() {
    let drive = waiting(Duration::from_millis(100), Duration::ZERO);
    let second = Length::Runtime(Duration::from_secs(1));
    let (run, open) = run_with(&open(1000, second), Pacing::default(), &drive);
    assert_eq!(open.due, 1000);
    let [reads, _] = &run.latency;
    assert!(at_least(reads, 50_000_000) >= 50, "{}", at_least(reads, 50_000_000));
    assert!(open.lag_max_ns >= 98_000_000 && open.lag_sum_ns >= 4_900_000_000, "{}", open.lag_sum_ns);
    assert!(at_least(&open.submission, 99_000_000) >= 1);
    // What waited was issued with what came before it: from submission it took no time.
    assert!(open.submission_sum_ns + open.lag_sum_ns <= run.latency_sum_ns + run.ios());
}

#[test]
fn every_io_that_is_due_is_counted_whatever_the_jobs_do() {
    let mixed = Workload { rw: Rw::Randrw, numjobs: 3, ..open(2000, SECOND_QUARTER) };
    for (iodepth, submit, complete) in [(1, 1, 1), (8, 3, 1), (8, 8, 4)] {
        let workload = Workload {
            iodepth,
            iodepth_batch_submit: submit,
            iodepth_batch_complete_min: complete,
            ramp_time: Duration::from_millis(5),
            ..mixed.clone()
        };
        let run =
            run_sim(&workload, SimOptions { seed: 9, latency_steps: 3, ..SimOptions::default() }).unwrap();
        let open = run.open.as_ref().unwrap();
        assert_eq!((open.due, run.ios() + open.unissued), (1500, 1500));
        assert!(run.last_ns - run.first_ns >= 250_000_000, "the window is not shorter than its time");
    }
}

#[test]
fn a_number_of_ios_ends_an_open_load_too() {
    let workload = Workload { iodepth: 4, numjobs: 2, ..open(20_000, Length::Ios(300)) };
    let run = run_sim(&workload, SimOptions { latency_steps: 2, ..SimOptions::default() }).unwrap();
    let open = run.open.unwrap();
    assert_eq!((open.due, open.unissued, run.issued), (600, 0, [600, 0]));
    // The last of 300 is due after 299 of 50 us.
    assert!(run.last_ns - run.first_ns >= 14_950_000);
}

/// 10 ms an I/O where one is due each ms: in 250 ms and a tenth more, 28 are done at most.
#[test]
fn a_path_that_falls_behind_says_by_how_much() {
    let drive = waiting(Duration::from_millis(10), Duration::from_millis(10));
    let (run, open) = run_with(&open(1000, SECOND_QUARTER), Pacing::default(), &drive);
    assert_eq!(open.due, 250);
    assert!(run.ios() <= 28 && open.unissued >= 222, "{} {}", run.ios(), open.unissued);
    assert!(open.behind_ns >= 200_000_000 && open.behind_ns <= 250_000_000, "{}", open.behind_ns);
}

#[test]
fn blocking_jobs_serve_one_stream() {
    let pacing = Pacing { one_stream: true, spins: false };
    let workload = Workload { numjobs: 4, ..open(500, SECOND_QUARTER) };
    let drive = waiting(Duration::ZERO, Duration::ZERO);
    let (_, open) = run_with(&workload, pacing, &drive);
    assert_eq!((open.due, open.sleeps > 0), (500, true));
}

#[test]
fn a_job_sleeps_or_spins_until_the_next_arrival_as_its_path_does() {
    let drive = waiting(Duration::ZERO, Duration::ZERO);
    let workload = open(100, SECOND_QUARTER);
    let (_, asleep) = run_with(&workload, Pacing::default(), &drive);
    // One until each arrival, less where the machine was late.
    assert!(asleep.sleeps >= 5 && asleep.slept_ns > 0, "{}", asleep.sleeps);
    let (_, awake) = run_with(&workload, Pacing { spins: true, one_stream: false }, &drive);
    assert_eq!((awake.due, awake.sleeps, awake.slept_ns), (25, 0, 0));
}

#[test]
fn the_rate_moves_in_the_window_and_not_in_the_ramp() {
    let [on, off] = [10, 40].map(Duration::from_millis);
    let load = OpenLoad { rate_iops_end: Some(3000), ..OpenLoad::at(1000) };
    let drive = waiting(Duration::ZERO, Duration::ZERO);
    let ramp_time = Duration::from_millis(20);
    let workload = Workload { open: Some(load), ramp_time, ..open(1, SECOND_QUARTER) };
    let (_, moving) = run_with(&workload, Pacing::default(), &drive);
    assert_eq!(moving.due, 500, "2,000 a second on average");
    let load = OpenLoad { burst: Some(Burst { on, off }), ..OpenLoad::at(1000) };
    let workload = Workload { open: Some(load), ..workload };
    let (_, bursts) = run_with(&workload, Pacing::default(), &drive);
    assert_eq!(bursts.due, 50, "five bursts of ten");
}

#[test]
fn nothing_is_allocated_in_a_paced_window() {
    let load = OpenLoad { rate_process: RateProcess::Poisson, ..OpenLoad::at(50_000) };
    let workload = Workload { open: Some(load), iodepth: 8, iodepth_batch_submit: 3, ..Workload::default() };
    let drive = |_: &Pool, depth: u32| other(AtOnce::new(depth, Duration::ZERO, Duration::ZERO));
    let (spec, progress) = (spec(&workload, &drive), Progress::default());
    let mut job = job::open(&spec, 0, &progress, alone()).unwrap();
    static NEVER: AtomicBool = AtomicBool::new(false);
    for limit in [Limit::Ios(100), Limit::Time(Duration::from_millis(20))] {
        let before = allocations();
        job.run(limit, &Begin::default(), [&NEVER; 2]).unwrap();
        job.tally().reset();
        assert_eq!(allocations() - before, 0);
    }
}

#[test]
fn what_pacing_costs_is_measured() {
    let cost =
        |rate, spins| pacer_cpu_ns_per_io(&OpenLoad::at(rate), Pacing { spins, one_stream: false }).unwrap();
    // A sleep takes system calls and a wake-up: some hundred instructions at the very least.
    let [asleep, awake] = [cost(10_000, false), cost(10_000, true)];
    assert!(asleep > 100.0 && asleep < 1e6, "{asleep}");
    assert!(awake > 1.0 && awake < 100_000.0, "{awake}");
}

const TRACE: &str = "fio version 2 iolog\n/d add\n/d open\n/d write 0 8192\n/d wait 20 0\n/d read 4096 4096\n\
                     /d datasync 0 0\n/d trim 8192 4096\n/d wait 40 0\n/d read 0 12288\n/d close\n";

fn replay_of(how: &How) -> Replay {
    let trace = trace::read_from(TRACE.as_bytes(), None, 100).unwrap();
    Replay::new(trace, how, Onto { base: 0, len: 1 << 20, block: 512, max_len: 8192 }).unwrap()
}

fn traced(numjobs: u32) -> Workload {
    let (rw, length) = (Rw::Randrw, Length::WHOLE_TRACE);
    let ramp_time = Duration::from_millis(10);
    Workload { rw, length, bs: 8192, iodepth: 4, numjobs, ramp_time, ..Workload::default() }
}

/// The read of 12 KiB is two: a buffer has 8.
#[test]
fn a_trace_is_replayed_once_by_all_jobs_together_and_anew_after_the_ramp() {
    for how in [How::default(), How { no_stall: true, ..How::default() }] {
        let replay = replay_of(&how);
        for numjobs in [1, 3] {
            let workload = traced(numjobs);
            let open = waiting(Duration::ZERO, Duration::ZERO);
            let spec = JobSpec { replay: Some(&replay), has_pass: true, ..spec(&workload, &open) };
            let run = run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).unwrap();
            let open = run.open.as_ref().unwrap();
            assert_eq!((run.issued, open.issued_bytes, open.whole_bytes), ([3, 1], [16_384, 8192], 24_576));
            assert_eq!((open.due, open.unissued, open.syncs.count(), open.discards), (6, 0, 1, 1));
            let is_timed = !how.no_stall;
            assert_eq!(run.last_ns - run.first_ns >= 40_000_000, is_timed, "{numjobs}");
        }
    }
}

#[test]
fn a_path_without_an_operation_of_the_trace_is_refused_before_it_runs() {
    let (replay, workload) = (replay_of(&How::default()), traced(1));
    let open = |pool: &Pool, depth: u32| Ok(AnyEngine::Null(iopj_engine::Null::open(pool, depth)).into());
    let spec = JobSpec { replay: Some(&replay), ..spec(&workload, &open) };
    let refused = preflight(&spec).unwrap_err().to_string();
    assert!(refused.starts_with("the trace has 1 of the operation flush, which this"), "{refused}");
    assert!(refused.contains(r#"replay_skip = ["flush"]"#), "{refused}");
}

/// A database's log: flushes come on top of the I/Os that are counted.
#[test]
fn sizes_and_flushes_are_done_in_a_closed_loop_and_under_an_open_load() {
    let sizes: iopj_core::BlockSizes = "4k/50:16k/50,8k".parse().unwrap();
    let plain = Workload {
        rw: Rw::Randrw,
        bs: sizes.largest(),
        sizes: Some(sizes),
        fdatasync: 4,
        iodepth: 4,
        length: Length::Ios(400),
        ..Workload::default()
    };
    for load in [None, Some(OpenLoad::at(100_000))] {
        let workload = Workload { open: load, ..plain.clone() };
        let drive = waiting(Duration::ZERO, Duration::ZERO);
        let spec = spec(&workload, &drive);
        let run = run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).unwrap();
        let open = run.open.as_ref().unwrap();
        let [reads, writes] = run.issued;
        assert_eq!((reads + writes, run.ios()), (400, 400));
        assert_eq!((open.syncs.count(), open.issued_bytes[1]), (writes / 4, writes * 8192));
        assert!(open.issued_bytes[0] > reads * 4096 && open.issued_bytes[0] < reads * 16_384);
        assert_eq!(open.whole_bytes, open.issued_bytes.iter().sum::<u64>());
    }
}

/// In a closed loop, beside flushes, under an open load, and in the pass before a window.
#[test]
fn every_write_is_as_durable_as_the_workload_says() {
    let plain = Workload { rw: Rw::Randrw, iodepth: 4, length: Length::Ios(200), ..Workload::default() };
    let kinds =
        [(WriteSync::None, Op::Write), (WriteSync::Dsync, Op::WriteDsync), (WriteSync::Sync, Op::WriteSync)];
    let run_of = |workload: &Workload, writes: Op| {
        let open = |_: &Pool, depth: u32| other(AtOnce::of_writes(depth, writes));
        let spec = JobSpec { has_pass: true, ..spec(workload, &open) };
        run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {})
    };
    for (load, fsync) in [(None, 0), (None, 5), (Some(OpenLoad::at(100_000)), 0)] {
        for (sync, op) in kinds {
            let workload = Workload { open: load, fsync, sync, ..plain.clone() };
            let run = run_of(&workload, op).unwrap();
            assert_eq!((run.ios(), run.issued[1] > 50), (200, true));
            for (_, other) in kinds.iter().filter(|(_, other)| *other != op) {
                assert!(run_of(&workload, *other).is_err(), "{sync} is not {other:?}");
            }
        }
    }
}

#[test]
fn a_durable_write_of_a_trace_is_one() {
    let event = |flags: &str, sector: u32| format!("8,0 1 1 1.000000000 9 Q {flags} {sector} + 8 [fio]\n");
    let text = ["R", "WFS", "FWFS", "WFM"].map(|flags| event(flags, 8)).concat();
    let trace = trace::read_from(text.as_bytes(), None, 100).unwrap();
    let onto = Onto { base: 0, len: 1 << 20, block: 512, max_len: 8192 };
    let replay = Replay::new(trace, &How::default(), onto).unwrap();
    assert_eq!((replay.mapped().written_bytes, replay.mapped().writes()), (3 * 4096, true));
    assert!(replay.mapped().to_string().contains("1 read, 1 flush, 3 durable writes"), "{}", replay.mapped());
    let open = |_: &Pool, depth: u32| other(AtOnce::of_writes(depth, Op::WriteDsync));
    let workload = traced(1);
    let spec = JobSpec { replay: Some(&replay), ..spec(&workload, &open) };
    let run = run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).unwrap();
    let open = run.open.as_ref().unwrap();
    assert_eq!((run.issued, open.issued_bytes, open.durable_writes), ([1, 3], [4096, 3 * 4096], 3));
    assert_eq!(open.syncs.count(), 1);
}

#[test]
fn a_path_that_cannot_flush_is_refused_before_it_runs() {
    let workload = Workload { rw: Rw::Randwrite, fsync: 1, ..Workload::default() };
    let open = |pool: &Pool, depth: u32| Ok(AnyEngine::Null(iopj_engine::Null::open(pool, depth)).into());
    let refused = preflight(&spec(&workload, &open)).unwrap_err().to_string();
    assert!(refused.starts_with("this interface has no fsync: leave fsync and fdatasync out"), "{refused}");
}

/// A window that time ends counted what was never due until the end of time.
#[test]
fn time_ends_a_closed_loop_of_unlike_ios_and_a_trace_without_times() {
    let drive = waiting(Duration::from_millis(1), Duration::from_millis(1));
    let length = Length::Runtime(Duration::from_millis(50));
    let closed = Workload { rw: Rw::Randwrite, fdatasync: 2, length, ..Workload::default() };
    let (run, open) = run_with(&closed, Pacing::default(), &drive);
    assert_eq!((open.unissued, open.behind_ns, open.lag_max_ns), (0, 0, 0));
    // Every third operation is a flush, and each takes a millisecond: 34 writes are possible.
    assert!(run.ios() >= 1 && run.ios() <= 35, "{}", run.ios());
    let replay = replay_of(&How { no_stall: true, ..How::default() });
    let workload = Workload { length, iodepth: 1, ..traced(1) };
    let spec = JobSpec { replay: Some(&replay), ..spec(&workload, &drive) };
    let run = super::super::run(&spec, &AtomicBool::new(false), &mut |_, _| Ok(()), &mut || {}).unwrap();
    assert_eq!(run.open.unwrap().unissued, 0);
}
