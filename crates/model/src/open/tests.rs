//! Open loads of a model whose cells a known model made: rates, latencies and overload.

use crate::case::{Case, Observation, Quantity};
use crate::formula::value;
use crate::model::Model;
use crate::open::{Load, OpenError, OpenPrediction, scatter};
use crate::parameter::{Front, Kind, Parameter};
use crate::predict::{Basis, CannotPredict};
use crate::recorded::{Recorded, RecordedIo};
use iopj_core::workload::Rw;
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::BTreeMap;

fn known(parameter: Parameter) -> Option<f64> {
    Some(match parameter {
        Parameter::Service(Kind::RandomRead) => 20_000.0,
        Parameter::Parallelism => 4.0,
        Parameter::Sharpness => 4.0,
        Parameter::Gap => 100.0,
        Parameter::Time(Front::PosixSio) => 2_000.0,
        Parameter::Time(Front::PosixAio | Front::IoUring) => 2_500.0,
        Parameter::Interrupt => 500.0,
        Parameter::Wake => 3_000.0,
        Parameter::Cpu(_) => 2_000.0,
        Parameter::CpuPerWake => 2_500.0,
        Parameter::Gathered => 0.05,
        _ => return None,
    })
}

const PATHS: [&str; 4] = [
    "posix-sio/syscall/interrupt",
    "posix-sio/syscall/poll",
    "io_uring/syscall/interrupt",
    "posix-aio/syscall/interrupt",
];

fn case(path: &str, iodepth: u32) -> Case {
    let path = path.parse().unwrap();
    Case { path, rw: Rw::Randread, rwmixread: 50, bs: 4096, iodepth, numjobs: 1, batch: 1, cores: 4 }
}

fn model() -> Model {
    let mut all = Vec::new();
    for path in PATHS {
        for iodepth in [1, 2, 4, 8, 16] {
            let case = case(path, iodepth);
            for quantity in [Quantity::Iops, Quantity::LatencyMean, Quantity::CpuPerIo] {
                let value = value(&known, &case, quantity).unwrap();
                all.push(Observation { case, quantity, value, variance: 1e-6, replicates: 5 });
            }
        }
    }
    Model::calibrate(&all, BTreeMap::new()).unwrap()
}

fn of(open: &OpenPrediction, quantity: Quantity) -> f64 {
    open.predictions.iter().find(|one| one.quantity == quantity).unwrap().value
}

#[test]
fn a_load_that_a_path_carries_has_the_latency_of_an_idle_drive() {
    let model = model();
    let load = Load { iops: 1_000.0, poisson: false, bursts: None };
    let open = model.open(&case(PATHS[2], 16), load).unwrap();
    assert!(!open.overload && open.overloaded == 0.0);
    assert!((of(&open, Quantity::Iops) / 1_000.0 - 1.0).abs() < 0.01, "{open:?}");
    // Nothing queues: 20 us of the drive, 6 us of software, and the wake-up for the arrival.
    let latency = of(&open, Quantity::LatencyMean);
    assert!((26_000.0..33_000.0).contains(&latency), "{latency}");
    // It sleeps twice for each I/O: until it is due, and until it is complete.
    let cpu = of(&open, Quantity::CpuPerIo);
    assert!((6_000.0..8_500.0).contains(&cpu), "{cpu}");
    // A poller spins until the next one is due.
    let poll = model.open(&case(PATHS[1], 1), load).unwrap();
    assert!((of(&poll, Quantity::CpuPerIo) / 1e6 - 1.0).abs() < 0.05, "{poll:?}");
    let sure = model.better_open([&open, &poll], Quantity::CpuPerIo).unwrap();
    let quicker = model.better_open([&poll, &open], Quantity::LatencyMean).unwrap();
    assert!(sure > 0.99 && quicker > 0.9, "{sure} {quicker}");
    assert_eq!(model.open(&case(PATHS[2], 16), load).unwrap(), open, "there is no luck in it");
    // What simulation and formula say differently of 16 in flight is no matter of a load that has none.
    let one = model.open(&case(PATHS[2], 1), load).unwrap();
    let spread = |open: &OpenPrediction| {
        open.predictions.iter().find(|one| one.quantity == Quantity::CpuPerIo).unwrap().spread
    };
    assert!((spread(&open) / spread(&one) - 1.0).abs() < 0.1, "{open:?} {one:?}");
}

#[test]
fn the_better_value_is_the_likelier_one() {
    let model = model();
    let load = Load { iops: 5_000.0, poisson: true, bursts: None };
    let [a, b] = [PATHS[0], PATHS[2]].map(|path| model.open(&case(path, 8), load).unwrap());
    for quantity in [Quantity::LatencyMean, Quantity::LatencyP99, Quantity::CpuPerIo] {
        let sure = model.better_open([&a, &b], quantity).unwrap();
        assert_eq!(sure > 0.5, of(&a, quantity) < of(&b, quantity), "{quantity}: {sure}");
        let other = model.better_open([&b, &a], quantity).unwrap();
        assert!((sure + other - 1.0).abs() < 1e-9, "{quantity}: {sure} {other}");
    }
}

/// The variance of a prediction's logarithm that no draw of the parameters has.
fn beyond_draws(open: &OpenPrediction, quantity: Quantity) -> f64 {
    let one = open.predictions.iter().find(|one| one.quantity == quantity).unwrap();
    one.spread.powi(2) - scatter(&open.draws[&quantity], one.value.ln())
}

/// What turns on a core leave open widens the intervals of paths that crowd; what simulation and formula say
/// differently those of all others.
#[test]
fn a_lead_is_no_surer_than_what_widens_both_intervals_lets_it_be() {
    let model = model();
    let open = |path: usize, iodepth, numjobs, iops| {
        let case = Case { numjobs, cores: 2, ..case(PATHS[path], iodepth) };
        model.open(&case, Load { iops, poisson: true, bursts: None }).unwrap()
    };
    let [three, four] = [3, 4].map(|numjobs| open(1, 1, numjobs, 10_000.0));
    let sleeps = open(2, 16, 1, 10_000.0);
    let [shallow, deep] = [4, 16].map(|iodepth| open(2, iodepth, 1, 150_000.0));
    for (quantity, of_turns) in [(Quantity::LatencyMean, 0.36), (Quantity::CpuPerIo, 1.0_f64)] {
        for (pair, least) in
            [([&three, &four], 2.0 * of_turns), ([&sleeps, &three], of_turns), ([&shallow, &deep], 0.0)]
        {
            let added: f64 = pair.map(|open| beyond_draws(open, quantity)).iter().sum();
            assert!(added > least.max(2.5 * model.missed(quantity)), "{quantity}: {added} {least}");
            let [a, b] = pair.map(|open| of(open, quantity).ln());
            let sure = model.better_open(pair, quantity).unwrap();
            let most = Normal::standard().cdf((a - b).abs() / added.sqrt());
            assert!((0.5..most).contains(&sure.max(1.0 - sure)), "{quantity}: {sure} {most} {a} {b}");
        }
    }
}

#[test]
fn a_load_beyond_a_path_is_an_overload() {
    let model = model();
    // A drive that does four at once in 20 us does 200,000; one I/O at a time some 38,000.
    let open = |path, iops| model.open(&case(path, 16), Load { iops, poisson: true, bursts: None }).unwrap();
    let one = open(PATHS[0], 60_000.0);
    assert!(one.overload && one.overloaded > 0.9, "{one:?}");
    let most = of(&one, Quantity::Iops);
    assert!((32_000.0..42_000.0).contains(&most), "{most}");
    let many = open(PATHS[2], 60_000.0);
    assert!(!many.overload, "{many:?}");
    let idle = of(&open(PATHS[2], 5_000.0), Quantity::LatencyMean);
    assert!(of(&many, Quantity::LatencyMean) > idle, "arrivals by chance queue");
    assert!(open(PATHS[2], 400_000.0).overload);
}

#[test]
fn bursts_queue_and_pauses_catch_up() {
    let model = model();
    // 2 ms with 80,000 a second, which one I/O at a time cannot do, and then 18 ms without any: 8,000 on
    // average.
    let load = |iops| Load { iops, poisson: false, bursts: Some((2e6, 18e6)) };
    let bursts = model.open(&case(PATHS[0], 16), load(80_000.0)).unwrap();
    assert!(!bursts.overload, "{bursts:?}");
    assert!((of(&bursts, Quantity::Iops) / 8_000.0 - 1.0).abs() < 0.01, "{bursts:?}");
    let even = model.open(&case(PATHS[0], 16), Load { iops: 8_000.0, poisson: false, bursts: None }).unwrap();
    // 160 I/Os of some 27 us each take 4.3 ms; the last was due after 2 ms.
    let [queued, idle] = [&bursts, &even].map(|open| of(open, Quantity::LatencyP99));
    assert!((1.5e6..3.5e6).contains(&queued) && idle < 1e5, "{queued} {idle}");
    let too_much = model.open(&case(PATHS[0], 16), load(800_000.0)).unwrap();
    assert!(too_much.overload, "{too_much:?}");
    let long = Load { bursts: Some((1e10, 1e10)), ..load(80_000.0) };
    let refused = model.open(&case(PATHS[0], 16), long).unwrap_err();
    assert!(matches!(refused, OpenError::LongBursts(800_000)), "{refused}");
}

/// One read of 4 KiB each `gap_ns`, each where the one before ended or not.
fn recorded(ios: u64, gap_ns: u64, is_sequential: bool, at_once: bool) -> Recorded {
    let one = |at: u64| RecordedIo {
        due_ns: at * gap_ns,
        writes: false,
        offset: if is_sequential { at * 4096 } else { at % 2 * (1 << 30) + at * 4096 },
        bytes: 4096,
    };
    Recorded::of((0..ios).map(one), at_once).unwrap()
}

#[test]
fn a_trace_is_replayed() {
    let model = model();
    let trace = recorded(4_000, 100_000, false, false);
    assert_eq!((trace.ios(), trace.words(&model)), (4_000, (Rw::Randread, 100, 4096)));
    let replayed = model.replay(&case(PATHS[2], 16), &trace).unwrap();
    let even =
        model.open(&case(PATHS[2], 16), Load { iops: 10_000.0, poisson: false, bursts: None }).unwrap();
    assert!(!replayed.overload && replayed.overloaded == 0.0, "{replayed:?}");
    for quantity in [Quantity::Iops, Quantity::LatencyMean, Quantity::CpuPerIo] {
        let [trace, even] = [&replayed, &even].map(|open| of(open, quantity));
        assert!((trace / even - 1.0).abs() < 0.02, "{quantity}: {trace} {even}");
    }
    let Basis::Extrapolated(why) = &replayed.predictions[0].basis else { panic!("{replayed:?}") };
    assert_eq!(why[0], "a trace is simulated");
    // Twice what one I/O at a time can do.
    let fast = recorded(4_000, 13_000, false, false);
    let behind = model.replay(&case(PATHS[0], 16), &fast).unwrap();
    assert!(behind.overload && behind.overloaded == 1.0, "{behind:?}");
    assert!(!model.replay(&case(PATHS[2], 16), &fast).unwrap().overload);
    // Two threads share it, each takes the next I/O that the other has not taken, and they keep up.
    let two = Case { numjobs: 2, ..case(PATHS[0], 1) };
    assert!(!model.replay(&two, &recorded(4_000, 16_000, false, false)).unwrap().overload);
    // Without times it is a closed loop.
    let at_once = model.replay(&case(PATHS[2], 16), &recorded(20_000, 0, false, true)).unwrap();
    let closed = model.predict(&case(PATHS[2], 16), Quantity::Iops).unwrap();
    assert!((of(&at_once, Quantity::Iops) / closed.value - 1.0).abs() < 0.2, "{at_once:?} {closed:?}");
    assert!(!at_once.overload);
}

#[test]
fn io_of_a_trace_that_a_model_does_not_know_is_said_to_be() {
    let model = model();
    let why = |open: &OpenPrediction| match &open.predictions[0].basis {
        Basis::Interpolated => Vec::new(),
        Basis::Extrapolated(beyond) => beyond.clone(),
    };
    let sequential = recorded(1_000, 100_000, true, false);
    let replayed = model.replay(&case(PATHS[2], 16), &sequential).unwrap();
    assert_eq!(why(&replayed)[1], "sequential and random I/Os are taken for each other (100 % of all)");
    let large = RecordedIo { due_ns: 0, writes: false, offset: 0, bytes: 65_536 };
    let sizes = [RecordedIo { bytes: 512, ..large }, RecordedIo { due_ns: 1_000_000, ..large }];
    let sizes = Recorded::of(sizes, false).unwrap();
    let bs = sizes.words(&model).2;
    let replayed = model.replay(&Case { bs, ..case(PATHS[2], 16) }, &sizes).unwrap();
    let all = why(&replayed).join("; ");
    assert!(all.contains("bs 65536 is 16 times the most") && all.contains("bs 512 is below"), "{all}");
    let write = Recorded::of([RecordedIo { writes: true, ..large }], false).unwrap();
    let (rw, rwmixread, bs) = write.words(&model);
    assert_eq!((rw, rwmixread, bs), (Rw::Randwrite, 0, 65_536));
    let refused = model.replay(&Case { rw, rwmixread, bs, ..case(PATHS[2], 16) }, &write).unwrap_err();
    assert_eq!(refused, OpenError::Direction("writes"));
    assert!(refused.to_string().starts_with("the trace has writes, and no cell of the model has any"));
    assert_eq!(Recorded::of([], false), None);
}

/// Reads at random places in turn with writes one behind the other.
fn mixed() -> Recorded {
    let one = |at: u64| RecordedIo {
        due_ns: at * 100_000,
        writes: at % 2 == 1,
        offset: if at % 2 == 1 { at / 2 * 16_384 } else { (at * 7919) % 4093 * (1 << 20) },
        bytes: if at % 2 == 1 { 16_384 } else { 4096 },
    };
    Recorded::of((0..4_000).map(one), false).unwrap()
}

#[test]
fn random_reads_and_sequential_writes_of_one_trace_are_replayed() {
    let twice = |parameter| match parameter {
        Parameter::Service(Kind::SequentialWrite) => Some(60_000.0),
        other => known(other),
    };
    let mut all = Vec::new();
    for (rw, bs) in [(Rw::Randread, 4096), (Rw::Write, 16_384)] {
        for iodepth in [1, 4, 16] {
            let case = Case { rw, bs, ..case(PATHS[2], iodepth) };
            for quantity in [Quantity::Iops, Quantity::LatencyMean, Quantity::CpuPerIo] {
                let value = value(&twice, &case, quantity).unwrap();
                all.push(Observation { case, quantity, value, variance: 1e-6, replicates: 5 });
            }
        }
    }
    let model = Model::calibrate(&all, BTreeMap::new()).unwrap();
    let trace = mixed();
    let kinds = trace.kinds(&model);
    assert_eq!(kinds.keys().collect::<Vec<_>>(), [&Kind::RandomRead, &Kind::SequentialWrite]);
    assert!((kinds[&Kind::RandomRead] - 0.5).abs() < 1e-9, "{kinds:?}");
    let (rw, rwmixread, bs) = trace.words(&model);
    assert_eq!((rw, rwmixread, bs), (Rw::Randrw, 50, 16_384));
    let replayed = model.replay(&Case { rw, rwmixread, bs, ..case(PATHS[2], 16) }, &trace).unwrap();
    // Half of the I/Os take 20 us of the drive, half 60; 6 us are the software's.
    let latency = of(&replayed, Quantity::LatencyMean);
    assert!((44_000.0..52_000.0).contains(&latency), "{latency}");
    assert!((of(&replayed, Quantity::Iops) / 10_000.0 - 1.0).abs() < 0.01, "{replayed:?}");
    let Basis::Extrapolated(why) = &replayed.predictions[0].basis else { panic!("{replayed:?}") };
    assert_eq!(why, &["a trace is simulated"]);
}

#[test]
fn the_time_before_a_traces_first_io_is_none_of_its_load() {
    let model = model();
    let at = |lead_ns: u64| {
        let one = |at: u64| RecordedIo {
            due_ns: lead_ns + at * 100_000,
            writes: false,
            offset: at * 7919 % 4093 * (1 << 20),
            bytes: 4096,
        };
        Recorded::of((0..4_000).map(one), false).unwrap()
    };
    let [late, early] = [5_000_000_000, 0].map(|lead| model.replay(&case(PATHS[2], 16), &at(lead)).unwrap());
    assert!((of(&late, Quantity::Iops) / 10_000.0 - 1.0).abs() < 0.01, "{late:?}");
    assert_eq!(late, early);
}

#[test]
fn spinning_threads_take_turns_on_too_few_cores() {
    let model = model();
    let poll = |numjobs| Case { numjobs, cores: 2, ..case(PATHS[1], 1) };
    let two = model.predict(&poll(2), Quantity::Iops).unwrap();
    let simulated = model.closed(&poll(2)).unwrap();
    assert!(
        (of(&simulated, Quantity::Iops) / two.value - 1.0).abs() < 0.05,
        "both hold: {two:?} {simulated:?}"
    );
    assert!(matches!(model.predict(&poll(4), Quantity::Iops), Err(CannotPredict::Crowded { .. })));
    let four = model.closed(&poll(4)).unwrap();
    // Two cores poll as two did, but an I/O may be complete while its job waits for its turn of 3 ms.
    let rate = of(&four, Quantity::Iops) / two.value;
    assert!((0.5..1.05).contains(&rate), "{rate}");
    // One of the I/Os of each turn waits for all of the other's, which doubles the mean (Little's law).
    let mean = of(&four, Quantity::LatencyMean) / of(&four, Quantity::LatencyP50);
    assert!((1.8..2.3).contains(&mean), "{mean}");
    // How they take turns is the kernel's, and known within a factor.
    let rate = four.predictions.iter().find(|one| one.quantity == Quantity::Iops).unwrap();
    assert!(rate.interval[1] > 4.0 * rate.value, "{rate:?}");
    let all: Vec<Quantity> = four.predictions.iter().map(|one| one.quantity).collect();
    assert!(!all.contains(&Quantity::Watts), "no joules were measured");
}

#[test]
fn what_is_not_simulated_is_refused() {
    let model = model();
    let load = Load { iops: 1_000.0, poisson: true, bursts: None };
    assert_eq!(model.open(&case(PATHS[3], 4), load), Err(OpenError::Helpers));
    // A model of a stranger's names as many as it likes, and the simulation never ended.
    let many = Case { numjobs: 1_000_000, ..case(PATHS[0], 4) };
    assert_eq!(model.open(&many, load), Err(OpenError::Jobs(1_000_000)));
    let lacking = model.open(&case("libaio/syscall/interrupt", 4), load).unwrap_err();
    assert!(lacking.to_string().contains("`time:libaio`"), "{lacking}");
    let nothing = Load { iops: 0.0, poisson: true, bursts: None };
    assert!(matches!(model.open(&case(PATHS[0], 1), nothing), Err(OpenError::Simulation(_))));
}
