//! Models of data that a known model made: what is found again, what is not, and what is refused.

use crate::case::{Case, Observation, Quantity};
use crate::formula::{Values, value};
use crate::model::Model;
use crate::open::Load;
use crate::parameter::{Front, Kind, Parameter, Quantile};
use crate::predict::{Basis, CannotPredict, Prediction};
use crate::score::{against, by_quantity, cross_validate, score};
use iopj_core::workload::Rw;
use std::collections::BTreeMap;

mod on_kernel;

/// The parameters of the known model.
fn known(parameter: Parameter) -> Option<f64> {
    Some(match parameter {
        Parameter::Service(Kind::RandomRead) => 9_000.0,
        Parameter::PerKib(_) => 250.0,
        Parameter::Parallelism => 7.0,
        Parameter::Sharpness => 4.0,
        Parameter::Gap => 200.0,
        Parameter::Gathered => 0.15,
        Parameter::Time(Front::PosixSio) => 1_200.0,
        Parameter::Time(Front::Libaio) => 1_900.0,
        Parameter::Time(Front::IoUring) => 1_500.0,
        Parameter::Interrupt => 700.0,
        Parameter::Wake => 2_600.0,
        Parameter::Cpu(Front::PosixSio) => 1_500.0,
        Parameter::Cpu(_) => 1_900.0,
        Parameter::CpuPerWake => 2_800.0,
        Parameter::CpuPerKib => 90.0,
        Parameter::Tail(Quantile::P99, _) => 1.6,
        Parameter::IdlePower => 60.0,
        Parameter::CorePower => 9.0,
        Parameter::WakeEnergy => 12.0,
        _ => return None,
    })
}

fn case(path: &str, bs: u32, numjobs: u32, iodepth: u32) -> Case {
    let path = path.parse().unwrap();
    Case { path, rw: Rw::Randread, rwmixread: 50, bs, iodepth, numjobs, batch: 1, cores: 8 }
}

const PATHS: [&str; 4] = [
    "posix-sio/syscall/interrupt",
    "posix-sio/syscall/poll",
    "libaio/syscall/interrupt",
    "io_uring/syscall/interrupt",
];

fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for path in PATHS {
        for bs in [4096, 16384] {
            for numjobs in [1, 4] {
                for iodepth in [1, 4, 16] {
                    // One job has one synchronous I/O in flight, whatever iodepth says.
                    if iodepth == 1 || !path.starts_with("posix") {
                        all.push(case(path, bs, numjobs, iodepth));
                    }
                }
            }
        }
    }
    all
}

/// What the known model says of these cases, off by some per cent, the same in every run.
fn observations(cases: &[Case], quantities: &[Quantity], off: f64) -> Vec<Observation> {
    made_by(&known, cases, quantities, off)
}

fn made_by(known: &impl Values, cases: &[Case], quantities: &[Quantity], off: f64) -> Vec<Observation> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64 * 2.0 - 1.0
    };
    let mut all = Vec::new();
    for case in cases {
        for quantity in quantities {
            let Ok(exact) = value(known, case, *quantity) else { continue };
            let value = exact * (off * noise()).exp();
            all.push(Observation {
                case: *case,
                quantity: *quantity,
                value,
                variance: off * off / 3.0,
                replicates: 5,
            });
        }
    }
    all
}

const MEASURED: [Quantity; 6] = [
    Quantity::Iops,
    Quantity::LatencyMean,
    Quantity::LatencyP99,
    Quantity::CpuPerIo,
    Quantity::ContextSwitches,
    Quantity::Watts,
];

fn calibrated() -> Model {
    Model::calibrate(&observations(&cases(), &MEASURED, 0.02), BTreeMap::new()).unwrap()
}

#[test]
fn what_made_the_data_is_found_again() {
    let model = calibrated();
    let found: BTreeMap<Parameter, (f64, f64)> =
        model.parameters().map(|(one, value, spread)| (one, (value, spread))).collect();
    // What single parameters mean apart is known only as far as their spreads say; the sums are known.
    for (parameter, (value, spread)) in &found {
        if let Some(exact) = known(*parameter) {
            let off = (value / exact).ln();
            assert!(off.abs() < 3.0 * spread + 0.01, "{parameter}: {value} +- {spread}, made by {exact}");
        }
    }
    for sharp in [Parameter::Parallelism, Parameter::IdlePower, Parameter::CpuPerWake] {
        let (value, spread) = found[&sharp];
        assert!(
            spread < 0.2 && (value / known(sharp).unwrap()).ln().abs() < 0.2,
            "{sharp}: {value} +- {spread}"
        );
    }
    // A poller's CPU time is all of the time, and says nothing of its work.
    assert!(!found.contains_key(&Parameter::CpuDeviation("posix-sio/syscall/poll".parse().unwrap())));
}

#[test]
fn cells_between_the_measured_ones_are_predicted() {
    let model = calibrated();
    for path in PATHS {
        for (bs, jobs, depth) in [(8192, 2, 1), (4096, 3, 1), (16384, 2, 8)] {
            let case = case(path, bs, jobs, depth);
            for quantity in MEASURED {
                let Ok(exact) = value(&known, &case, quantity) else { continue };
                let said = model.predict(&case, quantity).unwrap();
                let off = (said.value / exact - 1.0).abs();
                assert!(off < 0.05, "{path} {} {quantity}: {} is {exact}", case.workload(), said.value);
                assert!(said.interval[0] < exact && exact < said.interval[1], "{path} {quantity}: {said:?}");
                assert_eq!(said.basis, Basis::Interpolated, "{path} {}", case.workload());
            }
        }
    }
}

#[test]
fn what_lies_outside_is_said_to() {
    let model = calibrated();
    let basis = |case: &Case| match model.predict(case, Quantity::Iops).unwrap().basis {
        Basis::Interpolated => Vec::new(),
        Basis::Extrapolated(beyond) => beyond,
    };
    let far = case("libaio/syscall/interrupt", 65536, 16, 64);
    assert_eq!(
        basis(&far),
        [
            "bs 65536 is 4 times the most, 16384",
            "I/Os in flight 1024 is 16 times the most, 64",
            "I/Os in flight per job 64 is 4 times the most, 16",
            "numjobs 16 is 4 times the most, 4"
        ]
    );
    // Its parts were measured: the way of io_uring, and polling without an interrupt.
    let unseen = case("io_uring/syscall/poll", 4096, 1, 1);
    assert_eq!(basis(&unseen), ["the path was not measured, only its parts"]);
    let exact = value(&known, &unseen, Quantity::LatencyMean).unwrap();
    let said = model.predict(&unseen, Quantity::LatencyMean).unwrap();
    assert!(said.interval[0] < exact && exact < said.interval[1], "{said:?}, made by {exact}");
    let width = |case: &Case| model.predict(case, Quantity::Iops).unwrap().spread;
    assert!(width(&far) > width(&case("libaio/syscall/interrupt", 4096, 1, 4)));
    let lacking =
        model.predict(&case("posix-aio/syscall/interrupt", 4096, 1, 1), Quantity::Iops).unwrap_err();
    assert!(matches!(lacking, CannotPredict::Lacks { lacking: Parameter::Time(Front::PosixAio), .. }));
    assert!(lacking.to_string().contains("`time:posix-aio`: calibrate it by a store with this interface"));
    let crowded = case("posix-sio/syscall/poll", 4096, 9, 1);
    let error = model.predict(&crowded, Quantity::Iops).unwrap_err().to_string();
    assert_eq!(error, "9 threads would spin on 8 cores, and no formula says how they take turns");
    let writes = Case { rw: Rw::Randwrite, ..case("libaio/syscall/interrupt", 4096, 1, 1) };
    assert!(model.predict(&writes, Quantity::Iops).unwrap_err().to_string().contains("(`rw`)"));
}

#[test]
fn reads_and_writes_at_once_are_no_sum_of_both_apart() {
    let both = |parameter| match parameter {
        Parameter::Service(Kind::RandomWrite) => Some(15_000.0),
        other => known(other),
    };
    let of = |rw, jobs| Case { rw, ..case(PATHS[1], 4096, jobs, 1) };
    let apart = [Rw::Randread, Rw::Randwrite].map(|rw| [1, 2, 4].map(|jobs| of(rw, jobs))).concat();
    let basis = |cases: &[Case]| {
        let observations = made_by(&both, cases, &MEASURED[..2], 0.02);
        let model = Model::calibrate(&observations, BTreeMap::new()).unwrap();
        model.predict(&of(Rw::Randrw, 2), Quantity::Iops).unwrap().basis
    };
    let said = "reads and writes at once were not measured".to_owned();
    assert_eq!(basis(&apart), Basis::Extrapolated(vec![said]));
    assert_eq!(basis(&[apart, vec![of(Rw::Randrw, 1)]].concat()), Basis::Interpolated);
}

#[test]
fn without_joules_there_are_none_in_a_prediction() {
    let without = &MEASURED[..5];
    let model = Model::calibrate(&observations(&cases(), without, 0.02), BTreeMap::new()).unwrap();
    let error = model.predict(&cases()[0], Quantity::IosPerJoule).unwrap_err();
    assert!(error.to_string().contains("joules of the whole machine"), "{error}");
    let said = calibrated().predict(&cases()[0], Quantity::IosPerJoule).unwrap();
    let exact = value(&known, &cases()[0], Quantity::IosPerJoule).unwrap();
    assert!((said.value / exact - 1.0).abs() < 0.05, "{said:?}, made by {exact}");
}

#[test]
fn what_cannot_be_explained_decides_nothing() {
    // Watts of a path that sleeps mean nothing without its CPU time, and spoil no model.
    let some = [Quantity::Iops, Quantity::LatencyMean, Quantity::Watts];
    let all = observations(&cases(), &some, 0.02);
    let model = Model::calibrate(&all, BTreeMap::new()).unwrap();
    assert!(model.data < all.len() && model.data > all.len() / 2, "{} of {}", model.data, all.len());
    let sleeps = case(PATHS[0], 4096, 1, 1);
    assert!(model.predict(&sleeps, Quantity::LatencyMean).is_ok());
    assert!(model.predict(&sleeps, Quantity::Watts).unwrap_err().to_string().contains("`cpu:posix-sio`"));
}

#[test]
fn orders_are_as_sure_as_the_data_make_them() {
    let model = calibrated();
    let [interrupt, poll] = [PATHS[0], PATHS[1]].map(|path| case(path, 4096, 1, 1));
    let surely = model.better([&poll, &interrupt], Quantity::LatencyMean).unwrap();
    assert!(surely > 0.95, "{surely}");
    assert!((surely + model.better([&interrupt, &poll], Quantity::LatencyMean).unwrap() - 1.0).abs() < 1e-9);
    assert!((model.better([&poll, &poll], Quantity::Iops).unwrap() - 0.5).abs() < 1e-9);
    // By CPU time the interrupt wins, and a costlier wake-up would turn that: 2.8 us by the time that a poll
    // spins for, some 10 us less the interrupt's own part.
    let turns = model.turns([&interrupt, &poll], Quantity::CpuPerIo);
    let wake = turns.iter().find(|turn| turn.parameter == Parameter::CpuPerWake).unwrap();
    let exact = value(&known, &poll, Quantity::CpuPerIo).unwrap() - 1_500.0;
    assert!(wake.at > wake.now && (wake.at / exact - 1.0).abs() < 0.1, "{wake:?}, made by {exact}");
    assert!(
        turns
            .windows(2)
            .all(|pair| (pair[0].at / pair[0].now).ln().abs() <= (pair[1].at / pair[1].now).ln().abs())
    );
}

#[test]
fn held_back_cells_are_scored() {
    let (scored, lacking) = cross_validate(&observations(&cases(), &MEASURED, 0.02), 5).unwrap();
    assert_eq!(lacking, 0);
    let all = score(scored.iter()).unwrap();
    assert!(all.median < 0.03 && all.n == scored.len(), "{all:?}");
    assert!(all.covered as f64 / all.n as f64 > 0.85, "{all:?}");
    assert!(by_quantity(&scored).len() == MEASURED.len());
    // Data of another machine are far from the model, and the score says so.
    let slower: Vec<Observation> = observations(&cases(), &MEASURED[..1], 0.0)
        .into_iter()
        .map(|one| Observation { value: one.value / 2.0, ..one })
        .collect();
    let (scored, _) = against(&calibrated(), &slower);
    let all = score(scored.iter()).unwrap();
    assert!((all.median - 1.0).abs() < 0.1 && all.covered == 0, "{all:?}");
}

#[test]
fn too_few_cells_make_no_model() {
    let few = observations(&cases()[..2], &MEASURED, 0.02);
    let error = Model::calibrate(&few, BTreeMap::new()).unwrap_err().to_string();
    let cell = |case: &Case| {
        let Case { path, rw, bs, iodepth, .. } = case;
        format!("{path} {rw} of {bs} bytes at iodepth {iodepth}")
    };
    let [one, other] = [0, 1].map(|number| cell(&cases()[number]));
    let lacks =
        format!("needs 3 cells of paths and workloads, and there are 2 ({one}, {other}): measure 1 more");
    assert!(error.contains(&lacks), "{error}");
    let error = Model::calibrate(&observations(&cases()[..1], &MEASURED, 0.02), BTreeMap::new());
    let error = error.unwrap_err().to_string();
    assert!(error.contains(&format!("and there is 1 ({one}): measure 2 more")), "{error}");
    let error = Model::calibrate(&[], BTreeMap::new()).unwrap_err().to_string();
    assert!(error.contains("there is none: measure 3 more"), "{error}");
}

#[test]
fn a_drive_takes_the_place_of_another() {
    let model = calibrated().on(&"read=20us".parse().unwrap());
    let said = model.predict(&case(PATHS[1], 4096, 1, 1), Quantity::LatencyMean).unwrap();
    // 20 us of the drive for 4 KiB, and 1.2 us of software.
    assert!((said.value / 21_200.0 - 1.0).abs() < 0.02, "{said:?}");
    // Its own drive takes 10 us for 4 KiB, and 13 us for 16 KiB: the other takes twice as much of both.
    let large = model.predict(&case(PATHS[1], 16_384, 1, 1), Quantity::LatencyMean).unwrap();
    assert!((large.value / 27_200.0 - 1.0).abs() < 0.02, "{large:?}");
    assert!(matches!(said.basis, Basis::Extrapolated(beyond) if beyond[0].contains("data sheet")));
}

/// The known model with deep idle: 2.5 W less of a core after 8 us.
fn known_deep(parameter: Parameter) -> Option<f64> {
    match parameter {
        Parameter::DeepIdleSaving => Some(2.5),
        Parameter::DeepIdleAfter => Some(8_000.0),
        Parameter::DeepIdleShare => Some(0.85),
        Parameter::WakeEnergy => Some(3.0),
        other => known(other),
    }
}

#[test]
fn what_deep_idle_saves_is_found_again() {
    let measured = [&MEASURED[..], &[Quantity::AwakeCores]].concat();
    let model = Model::calibrate(&made_by(&known_deep, &cases(), &measured, 0.02), BTreeMap::new()).unwrap();
    let found: BTreeMap<Parameter, (f64, f64)> =
        model.parameters().map(|(one, value, spread)| (one, (value, spread))).collect();
    let deep = [Parameter::DeepIdleSaving, Parameter::DeepIdleAfter, Parameter::DeepIdleShare];
    for parameter in deep.into_iter().chain([Parameter::IdlePower, Parameter::CorePower]) {
        let (value, spread) = found[&parameter];
        let off = (value / known_deep(parameter).unwrap()).ln();
        // 90 % of the time within 1.7 of it.
        assert!(off.abs() < 1.7 * spread && spread < 0.5, "{parameter}: {value} +- {spread}");
    }
    for case in [case(PATHS[0], 4096, 2, 1), case(PATHS[3], 16384, 6, 2), case(PATHS[1], 4096, 8, 1)] {
        for quantity in [Quantity::Watts, Quantity::AwakeCores, Quantity::IosPerJoule] {
            let exact = value(&known_deep, &case, quantity).unwrap();
            let said = model.predict(&case, quantity).unwrap();
            // With all cores awake there are no more.
            assert!(said.interval[0] < exact && exact <= said.interval[1], "{said:?}, made by {exact}");
            assert!((said.value / exact - 1.0).abs() < 0.05, "{said:?}, made by {exact}");
        }
    }
    let read = Model::from_toml(&model.to_toml().unwrap()).unwrap();
    let [own, again] = [&model, &read].map(|model| model.predict(&cases()[0], Quantity::Watts).unwrap());
    assert!((own.value / again.value - 1.0).abs() < 1e-9 && own.basis == again.basis);
    // The simulation knows it too: with next to nothing to do, seven cores sleep deeply all the time, and the
    // eighth nearly so.
    let rare = Load { iops: 100.0, poisson: false, bursts: None };
    let open = model.open(&case(PATHS[0], 4096, 1, 1), rare).unwrap();
    let watts = open.predictions.iter().find(|one| one.quantity == Quantity::Watts).unwrap();
    let exact = 60.0 + 2.5 * (8.0 - 0.85 * 8.0);
    assert!((watts.value / exact - 1.0).abs() < 0.03, "{watts:?}, made by {exact}");
}

#[test]
fn no_more_cores_are_awake_than_there_are() {
    let some = [&MEASURED[..2], &MEASURED[3..], &[Quantity::AwakeCores]].concat();
    let cases = [1, 2, 4].map(|jobs| case(PATHS[1], 4096, jobs, 1));
    let cases = [&cases[..], &[1, 4].map(|jobs| case(PATHS[0], 4096, jobs, 1))].concat();
    let model = Model::calibrate(&made_by(&known_deep, &cases, &some, 0.02), BTreeMap::new()).unwrap();
    // Eight jobs spin on eight cores.
    let all = model.predict(&case(PATHS[1], 4096, 8, 1), Quantity::AwakeCores).unwrap();
    assert!(all.value > 7.9 && all.interval[0] < all.value && all.interval[1] <= 8.0, "{all:?}");
    let one = model.predict(&case(PATHS[0], 4096, 1, 1), Quantity::AwakeCores).unwrap();
    let reach = one.interval.map(|end| (end / one.value).ln());
    assert!((reach[0] + reach[1]).abs() < 1e-9 && one.interval[1] < 8.0, "{one:?}");
}

#[test]
fn without_times_in_idle_states_a_model_is_what_it_was() {
    let model = calibrated();
    assert!(model.parameters().all(|(one, ..)| !one.to_string().starts_with("deep_idle")));
    let error = model.predict(&cases()[0], Quantity::AwakeCores).unwrap_err().to_string();
    assert!(error.contains("times in idle states"), "{error}");
    // Times in idle states alone say nothing of what they save.
    let some = [&MEASURED[..5], &[Quantity::AwakeCores]].concat();
    let model = Model::calibrate(&made_by(&known_deep, &cases(), &some, 0.02), BTreeMap::new()).unwrap();
    assert!(model.parameters().all(|(one, ..)| one != Parameter::DeepIdleSaving));
    assert!(model.predict(&cases()[0], Quantity::AwakeCores).is_ok());
}

#[test]
fn a_file_reads_back_and_predicts_the_same() {
    let model = calibrated();
    let text = model.to_toml().unwrap();
    let read = Model::from_toml(&text).unwrap();
    for case in &cases()[..6] {
        for quantity in MEASURED {
            let (one, other) = (model.predict(case, quantity), read.predict(case, quantity));
            let Ok(one) = one else {
                assert!(other.is_err());
                continue;
            };
            let other = other.unwrap();
            assert!((one.value / other.value - 1.0).abs() < 1e-9 && (one.spread - other.spread).abs() < 1e-6);
            assert_eq!(one.basis, other.basis);
        }
    }
    for (from, to, why) in [
        ("version = 1", "version = 2", "version 2"),
        ("value = ", "value = -", "not positive"),
        ("name = \"gap\"", "name = \"gasp\"", "`gasp` is not a parameter"),
        ("correlations = []", "correlations = [2.0]", "not between -1 and 1"),
        ("correlations = []", "correlations = [0.5]", "one correlation for each"),
        ("numjobs = 4", "numjobs = 0", "a count of 0"),
        ("version = 1", "", "missing field `version`"),
    ] {
        let broken = text.replacen(from, to, 1);
        assert_ne!(broken, text, "{from}");
        let error = Model::from_toml(&broken).unwrap_err().to_string();
        assert!(error.contains(why), "{from}: {error}");
    }
}

/// A damaged file once had so many degrees of freedom that Student's distribution was searched for ever.
#[test]
fn endless_degrees_of_freedom_end() {
    let text = calibrated().to_toml().unwrap();
    let many = text.replacen("data = ", "data = 900000000000000", 1);
    let said = Model::from_toml(&many).unwrap().predict(&cases()[0], Quantity::Iops).unwrap();
    assert!(said.interval[0] < said.value && said.value < said.interval[1], "{said:?}");
    let spread = text.find("spread = ").unwrap();
    let line = &text[spread..][..text[spread..].find('\n').unwrap()];
    let error = Model::from_toml(&text.replacen(line, "spread = 1e300", 1)).unwrap_err().to_string();
    assert!(error.contains("beyond all measure"), "{error}");
}

proptest::proptest! {
    /// Whatever a damaged file says, it is a model or one sentence, and a model predicts without panicking.
    #[test]
    fn a_damaged_file_is_refused_or_read(at in 0_usize..4000, byte in 0x20_u8..0x7f) {
        static TEXT: std::sync::OnceLock<String> = std::sync::OnceLock::new();
        let text = TEXT.get_or_init(|| {
            let few = PATHS[..2].iter().flat_map(|path| [1, 4].map(|jobs| case(path, 4096, jobs, 1)));
            let few = observations(&few.collect::<Vec<_>>(), &MEASURED, 0.02);
            Model::calibrate(&few, BTreeMap::new()).unwrap().to_toml().unwrap()
        });
        let mut bytes = text.clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(model) = Model::from_toml(&String::from_utf8(bytes).unwrap()) {
            let _ = model.predict(&case(PATHS[0], 4096, 1, 1), Quantity::LatencyMean);
        }
    }
}
