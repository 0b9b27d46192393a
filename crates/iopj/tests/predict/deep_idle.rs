//! Power with deep idle: a machine with known parameters, whose trials have joules and times in idle states.

use super::common::folder;
use super::fixture::{study, trials, workloads};
use super::{printed, rows, value};
use iopj_core::{EnergyOutcome, Joules, Scope, TrialEnergy};
use iopj_model::{Case, Front, Kind, Parameter, Quantity, formula};
use iopj_store::Store;
use std::path::Path;

/// A machine of eight cores whose idle cores save 2 W after 15 us.
fn machine(parameter: Parameter) -> Option<f64> {
    Some(match parameter {
        Parameter::Service(Kind::RandomRead) => 40_000.0,
        Parameter::Parallelism => 16.0,
        Parameter::Sharpness => 3.0,
        Parameter::Gathered => 0.1,
        Parameter::Time(Front::Libaio) | Parameter::Cpu(Front::Libaio) => 4_000.0,
        Parameter::Time(_) | Parameter::Cpu(_) => 2_000.0,
        Parameter::Interrupt => 1_000.0,
        Parameter::Wake | Parameter::CpuPerWake => 3_000.0,
        Parameter::IdlePower => 40.0,
        Parameter::CorePower => 6.0,
        Parameter::WakeEnergy => 3.0,
        Parameter::DeepIdleSaving => 2.0,
        Parameter::DeepIdleAfter => 15_000.0,
        Parameter::DeepIdleShare => 0.9,
        _ => return None,
    })
}

/// Trials of that machine with joules, and with these idle states, of which `C6` is deep.
fn slept(path: &Path, states: &[&str]) {
    let paths = ["libaio/syscall/interrupt", "io_uring/syscall/interrupt", "io_uring/syscall/poll"];
    let mut trials = trials(&paths, &workloads(&[1, 4, 16], &[1, 2, 4], &[4096]), 2);
    for trial in &mut trials {
        let one = trial.outcome.measurement_mut().unwrap();
        let case = Case::of(trial.path, &trial.workload, 8).unwrap();
        // Replicates lie 1 % apart.
        let off = 0.995 + 0.01 * f64::from(trial.replicate);
        let of = |quantity| formula::value(&machine, &case, quantity).unwrap() * off;
        one.ios = of(Quantity::Iops) as u64;
        one.latency.mean = of(Quantity::LatencyMean);
        (one.latency.p50, one.latency.p99, one.latency.p99_9) = (0, 0, 0);
        one.cpu_percent = one.iops() * formula::value(&machine, &case, Quantity::CpuPerIo).unwrap() * 1e-7;
        one.context_switches_per_io =
            formula::value(&machine, &case, Quantity::ContextSwitches).unwrap_or(0.0);
        one.evidence.window_ns = one.window_ns;
        one.evidence.cpu.cores = 8;
        let deep_ns = ((8.0 - of(Quantity::AwakeCores)) * one.window_ns as f64) as u64;
        let time = |name: &&str| ((*name).to_owned(), if *name == "C6" { deep_ns } else { 1_000_000 });
        one.evidence.c_states = states.iter().map(time).collect();
        let joules = of(Quantity::Watts);
        one.energy = vec![TrialEnergy {
            meter: "plug".to_owned(),
            scope: Scope::System,
            channels: vec!["plug".to_owned()],
            estimated: false,
            rules: 1,
            outcome: EnergyOutcome::Complete(Joules { seconds: 1.0, joules, ..Joules::default() }),
        }];
    }
    let mut store = Store::create(path, &study("fixed")).unwrap();
    trials.iter().for_each(|trial| store.add(trial).unwrap());
}

#[test]
fn what_deep_idle_saves_is_told_by_joules_and_times_in_idle_states() {
    let folder = &*folder();
    slept(&folder.join("deep.iopj"), &["POLL", "C1", "C1E", "C6"]);
    slept(&folder.join("shallow.iopj"), &["POLL", "C1", "C1E"]);
    slept(&folder.join("none.iopj"), &[]);
    let case = "--path io_uring/syscall/interrupt --iodepth 2 --numjobs 6";
    let deep = printed(folder, &format!("predict deep.iopj {case}"));
    let parameters = deep["model"]["parameters"].as_array().unwrap();
    for parameter in [Parameter::DeepIdleSaving, Parameter::DeepIdleAfter, Parameter::DeepIdleShare] {
        let own = parameters.iter().find(|one| one["name"] == parameter.to_string()).unwrap();
        let [value, spread] = ["value", "spread"].map(|key| own[key].as_f64().unwrap());
        let off = (value / machine(parameter).unwrap()).ln();
        assert!(off.abs() < 1.7 * spread && spread < 0.5, "{parameter}: {value} +- {spread}");
    }
    let [row] = rows(&deep) else { panic!("{deep}") };
    let asked: Case = serde_json::from_value(row["case"].clone()).unwrap();
    for quantity in [Quantity::Watts, Quantity::AwakeCores, Quantity::IosPerJoule] {
        let exact = formula::value(&machine, &asked, quantity).unwrap();
        let all = row["quantities"].as_array().unwrap();
        let own = all.iter().find(|one| one["quantity"] == quantity.to_string()).unwrap();
        let [low, high] = [0, 1].map(|end| own["interval"][end].as_f64().unwrap());
        assert!(low < exact && exact < high && high / low < 1.5, "{own}, made by {exact}");
    }
    // Without deep states the model has no part of them: it is the same as without any times.
    let [shallow, none] =
        ["shallow", "none"].map(|name| printed(folder, &format!("predict {name}.iopj {case}")));
    assert_eq!(
        (&shallow["groups"], &shallow["model"]["parameters"]),
        (&none["groups"], &none["model"]["parameters"])
    );
    assert!(!shallow.to_string().contains("deep_idle") && value(&rows(&none)[0], "watts").is_some());
}
