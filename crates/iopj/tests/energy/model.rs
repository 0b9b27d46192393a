//! A model from a store with a real meter, and a study that has only the model.

use crate::common::{Random, alone, folder, iopj, output, refusal};
use crate::{OPTIONS, QUICK, prepare, succeeded, trials};
use iopj_core::evidence::{CpuTimes, Finding, ProcessEvidence};
use iopj_core::path::{CompletionMode, Submission};
use iopj_core::{
    EnergyOutcome, Evidence, Joules, Observed, Scope, TrialEnergy, Verdict, VerdictKind, Workload,
};
use iopj_record::{Measurement, StudyRecord, Trial, histogram};
use iopj_store::Store;
use std::path::Path;

const WINDOW_S: f64 = 10.0;
const TRIALS: u64 = 60;

/// The law of power that the model must find: idle, per core in user space, per core in the kernel, per
/// I/O/s.
fn law_watts(trial: &Measurement) -> f64 {
    let seconds = trial.window_ns as f64 * 1e-9;
    let rate = |ns: u64| ns as f64 * 1e-9 / seconds;
    20.0 + 30.0 * rate(trial.cpu().user_ns)
        + 12.0 * rate(trial.cpu().system_ns)
        + 5e-5 * trial.ios as f64 / seconds
}

/// The `model name` of this machine, which studies keep if it has one.
fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(": ")?.1.trim().to_owned())
}

/// The idle states of this machine's first core.
fn idle_states() -> Vec<String> {
    let Ok(states) = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cpuidle") else { return Vec::new() };
    let name = |state: std::fs::DirEntry| std::fs::read_to_string(state.path().join("name")).ok();
    states.flatten().filter_map(name).map(|name| name.trim().to_owned()).collect()
}

fn cores() -> f64 {
    std::fs::read_dir("/sys/bus/cpu/devices").unwrap().count() as f64
}

/// The operating system's counts, at random.
fn counted(up_to: &mut impl FnMut(f64) -> u64) -> Evidence {
    let cpu = CpuTimes {
        user_ns: up_to(1e10),
        system_ns: up_to(1e10),
        irq_ns: up_to(1e9),
        softirq_ns: up_to(1e9),
        ..CpuTimes::default()
    };
    Evidence {
        window_ns: (WINDOW_S * 1e9) as u64,
        process: ProcessEvidence { voluntary_switches: up_to(1e6), ..ProcessEvidence::default() },
        cpu,
        // Of all cores together.
        c_states: idle_states().into_iter().map(|name| (name, up_to(1e10 * cores()))).collect(),
        ..Evidence::default()
    }
}

/// A trial in which every count varies independently.
fn trial(position: u64) -> Trial {
    let mut random = Random(position + 1);
    let mut up_to = |most: f64| (random.next() as f64 / u64::MAX as f64 * most) as u64;
    let evidence = counted(&mut up_to);
    let ios = up_to(1e6);
    let mut measurement = Measurement {
        window_ns: evidence.window_ns,
        ios,
        bytes: up_to(1e10),
        reads: ios,
        latency: histogram::summary(&histogram::new()),
        cpu_percent: 1.0,
        context_switches_per_io: 1.0,
        achieved_depth: 1.0,
        evidence,
        observed: Observed {
            completion: Finding::Seen(CompletionMode::Interrupt),
            submission: Finding::Seen(Submission::Syscall),
            doubt: None,
        },
        verdict: Verdict { kind: VerdictKind::Verified, reasons: Vec::new() },
        ..Measurement::default()
    };
    // This store's meter follows the law, with some noise.
    let joules = WINDOW_S * law_watts(&measurement) + up_to(10.0) as f64 - 5.0;
    measurement.energy.push(by_the_plug(joules));
    let path = "io_uring/syscall/interrupt".parse().unwrap();
    let first = Trial::new(path, Workload::default(), measurement.into());
    Trial { replicate: position as u32, position, ..first }
}

fn by_the_plug(joules: f64) -> TrialEnergy {
    let outcome = EnergyOutcome::Complete(Joules {
        seconds: WINDOW_S,
        joules,
        random_j: 1.0,
        random_interval: [joules - 2.0, joules + 2.0],
        ..Joules::default()
    });
    TrialEnergy {
        meter: "plug".to_owned(),
        scope: Scope::System,
        channels: Vec::new(),
        estimated: false,
        rules: 1,
        outcome,
    }
}

/// The store of a study with a plug.
fn metered(folder: &Path) {
    let record = StudyRecord {
        name: "lab".to_owned(),
        text: QUICK.to_owned(),
        planned_trials: TRIALS,
        provenance: cpu_model().map(|model| ("cpu_model".to_owned(), model)).into_iter().collect(),
        ..StudyRecord::default()
    };
    let mut store = Store::create(&folder.join("lab.iopj"), &record).unwrap();
    for position in 0..TRIALS {
        store.add(&trial(position)).unwrap();
    }
}

/// The output of a command that must succeed.
fn printed(folder: &Path, line: &str) -> String {
    let output = iopj(folder, line).output().unwrap();
    succeeded(&output);
    // Tables are wrapped: join the words by single spaces.
    String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_fitted_model_gives_estimates_that_say_so_and_rank_nothing() {
    let _alone = alone();
    let folder = &*folder();
    metered(folder);
    let fitted = printed(folder, "meter fit lab.iopj -o model.toml");
    assert!(fitted.contains("model.toml: a model of system power"), "{fitted}");
    let model = std::fs::read_to_string(folder.join("model.toml")).unwrap();
    assert!(model.contains("source = \"study `lab`, meter `plug`, scope system\""), "{model}");
    for state in idle_states() {
        assert!(model.contains(&format!("[coefficients.\"c_state:{state}\"]")), "{model}");
    }
    prepare(folder, &format!("{QUICK}\n[meters.guess]\nkind = \"model\"\nfile = \"model.toml\"\n"));
    let run = format!("run study.toml {OPTIONS} --iodepth 1 --runtime 1s --replicates 3");
    succeeded(&output(&mut iopj(folder, &run)).0);
    let trials = trials(folder);
    assert_eq!(trials.len(), 6);
    for trial in &trials {
        let measurement = trial.outcome.measurement().unwrap();
        let [energy] = &measurement.energy[..] else { panic!("{trial:?}") };
        assert_eq!((energy.meter.as_str(), energy.scope, energy.estimated), ("guess", Scope::System, true));
        let EnergyOutcome::Complete(joules) = &energy.outcome else { panic!("{energy:?}") };
        let (estimate, truth) = (joules.watts(), law_watts(measurement));
        eprintln!("{}: est. {estimate:.2} W, the law's {truth:.2} W", trial.path);
        // The noise is 0.3 W per trial; three intervals miss it once in a million.
        let half = (joules.random_interval[1] - joules.joules) / joules.seconds;
        assert!(
            (estimate - truth).abs() < 3.0 * half && half < 5.0,
            "{estimate} W ± {half} W, the law's {truth} W"
        );
    }
    let report = printed(folder, "report e.iopj");
    assert!(report.contains("energy: system by guess, est."), "{report}");
    assert!(
        report
            .contains("est.: estimated by a model, not measured, and in no winner map, claim or comparison"),
        "{report}"
    );
    let winners = printed(folder, "winners e.iopj --metric watts");
    assert!(winners.contains("no competing trial measured energy"), "{winners}");
    let compared = printed(folder, "compare e.iopj e.iopj --with-unproven");
    assert!(compared.contains("energy (W, IO/J, B/J): not measured"), "{compared}");
    let messages = refusal(folder, "meter fit e.iopj -o again.toml");
    assert!(messages.contains("has no trial with joules of a real meter"), "{messages}");
}
