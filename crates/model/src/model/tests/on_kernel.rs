//! What another kernel makes of a model that a known one made.

use super::*;
use crate::kernel::{Change, Kernel};

#[test]
fn another_kernel_changes_what_the_software_takes() {
    let model = calibrated();
    let [interrupt, poll] = [PATHS[0], PATHS[1]].map(|path| case(path, 4096, 1, 1));
    let changes = [(interrupt.path, 1.5), (poll.path, 1.0)];
    let change = |ratio| Change { ratio, kernel_ratio: ratio, spread: 0.01, kernel_spread: 0.01 };
    let changes = changes.map(|(path, ratio)| (path, change(ratio)));
    let without = [(case(PATHS[2], 4096, 1, 1).path, "LAB has no exact counts of it".to_owned())];
    let kernel = Kernel { name: "7.0".to_owned(), changes: changes.into(), without: without.into() };
    let other = model.on_kernel(kernel);
    let of = |model: &Model, case, quantity| model.predict(case, quantity).unwrap();
    // Half as much again of 1.2 us, 0.7 us and 2.6 us, beside 10 us of the drive.
    let [was, is] = [&model, &other].map(|model| of(model, &interrupt, Quantity::LatencyMean));
    assert!((is.value / (was.value + 0.5 * 4_500.0) - 1.0).abs() < 0.02, "{was:?} {is:?}");
    let [was_cpu, is_cpu] = [&model, &other].map(|model| of(model, &interrupt, Quantity::CpuPerIo));
    assert!((is_cpu.value / was_cpu.value - 1.5).abs() < 0.01, "{was_cpu:?} {is_cpu:?}");
    assert!(is.spread > was.spread && is_cpu.spread > was_cpu.spread + 0.1, "{is:?} {is_cpu:?}");
    assert_eq!(is.basis, Basis::Extrapolated(vec!["the kernel is 7.0".to_owned()]));
    // What does not change is a little less sure.
    let [was, is] = [&model, &other].map(|model| of(model, &poll, Quantity::LatencyMean));
    assert!((is.value / was.value - 1.0).abs() < 1e-12 && is.spread > was.spread);
    let sure = |model: &Model| model.better([&poll, &interrupt], Quantity::LatencyMean).unwrap();
    assert!(sure(&other) > 0.9 && sure(&model) > 0.9);
    // The simulation takes it too.
    let load = Load { iops: 1_000.0, poisson: true, bursts: None };
    let [was, is] = [&model, &other].map(|model| model.open(&interrupt, load).unwrap().predictions);
    let cpu = |all: &[Prediction]| all.iter().find(|one| one.quantity == Quantity::CpuPerIo).unwrap().clone();
    let ratio = cpu(&is).value / cpu(&was).value;
    assert!((1.4..1.6).contains(&ratio), "{ratio}");
    assert!(cpu(&is).spread > cpu(&was).spread + 0.05, "{:?} {:?}", cpu(&is), cpu(&was));
    for (path, why) in [(PATHS[2], "LAB has no exact counts of it"), (PATHS[3], "neither store has it")] {
        let error = other.predict(&case(path, 4096, 1, 1), Quantity::Iops).unwrap_err().to_string();
        assert_eq!(error, format!("what 7.0 changes is not known of it: {why}"));
    }
}

#[test]
fn what_the_kernel_alone_takes_changes_as_its_own_instructions_do() {
    let with_instructions = |parameter| match parameter {
        Parameter::Instructions(_) => Some(5_000.0),
        Parameter::InstructionsPerWake => Some(3_000.0),
        Parameter::InstructionsPerSpin => Some(2_000.0),
        other => known(other),
    };
    let measured = [&MEASURED[..], &[Quantity::Instructions]].concat();
    let observations = made_by(&with_instructions, &cases(), &measured, 0.02);
    let model = Model::calibrate(&observations, BTreeMap::new()).unwrap();
    let case = case(PATHS[0], 4096, 1, 1);
    let on = |ratio, kernel_ratio| {
        let change = Change { ratio, kernel_ratio, spread: 0.0, kernel_spread: 0.0 };
        model.on_kernel(Kernel { changes: [(case.path, change)].into(), ..Kernel::default() })
    };
    let other = on(1.2, 1.5);
    let of = |model: &Model, quantity| model.predict(&case, quantity).unwrap();
    let value = |parameter| model.get(parameter).unwrap();
    let front = Front::PosixSio;
    let [deviation, of_cpu] =
        [Parameter::Deviation(case.path), Parameter::CpuDeviation(case.path)].map(value);
    let per_kib = 4.0 * value(Parameter::CpuPerKib);
    let kernels = [
        deviation * (value(Parameter::Interrupt) + value(Parameter::Wake)),
        value(Parameter::CpuPerWake) + of_cpu * per_kib,
        value(Parameter::InstructionsPerWake),
    ];
    let shared = [
        deviation * value(Parameter::Time(front)),
        of_cpu * value(Parameter::Cpu(front)),
        value(Parameter::Instructions(front)),
    ];
    let quantities = [Quantity::LatencyMean, Quantity::CpuPerIo, Quantity::Instructions];
    for (quantity, (kernels, shared)) in quantities.into_iter().zip(kernels.into_iter().zip(shared)) {
        let [was, is] = [&model, &other].map(|model| of(model, quantity));
        let added = 0.2 * shared + 0.5 * kernels;
        assert!(((is.value - was.value) / added - 1.0).abs() < 0.01, "{quantity}: {was:?} {is:?} {added}");
        // An instruction that came may last twice as long, and more of the kernel's came.
        let diluted = of(&on(1.2, 1.2), quantity);
        assert!(is.spread > diluted.spread + 0.005, "{quantity}: {is:?} {diluted:?}");
    }
    // The simulation takes it too: it sleeps twice for each I/O, until it is due and until it is complete.
    let load = Load { iops: 1_000.0, poisson: false, bursts: None };
    let cpu = |model: &Model| {
        let all = model.open(&case, load).unwrap().predictions;
        all.iter().find(|one| one.quantity == Quantity::CpuPerIo).unwrap().value
    };
    let added = 0.2 * shared[1] + 0.5 * (kernels[1] + value(Parameter::CpuPerWake));
    assert!(((cpu(&other) - cpu(&model)) / added - 1.0).abs() < 0.1, "{} {}", cpu(&model), cpu(&other));
}
