//! Which source is chosen, and what the CSV says of it.

use super::*;
use crate::export;
use crate::trial::StudyRecord;
use iopj_core::EnergyOutcome;
use iopj_core::{AboveIdle, Verdict, Workload};
use std::slice;

fn energy(meter: &str, scope: Scope, joules: Option<f64>) -> TrialEnergy {
    let complete = |joules: f64| Joules {
        seconds: 2.0,
        joules,
        random_j: 1.0,
        random_interval: [joules - 2.0, joules + 2.0],
        above_idle: Some(AboveIdle {
            idle_watts: 30.0,
            joules: joules - 60.0,
            random_interval: [joules - 64.0, joules],
        }),
        ..Joules::default()
    };
    let outcome = joules
        .map_or(EnergyOutcome::Incomplete("gap of 7 s".to_owned()), |j| EnergyOutcome::Complete(complete(j)));
    TrialEnergy {
        meter: meter.to_owned(),
        scope,
        channels: Vec::new(),
        estimated: meter == "model",
        rules: 1,
        outcome,
    }
}

fn trial(energy: Vec<TrialEnergy>) -> Trial {
    let measurement = Measurement {
        window_ns: 2_000_000_000,
        ios: 8_000,
        bytes: 8_000 * 4096,
        reads: 8_000,
        achieved_depth: 1.0,
        verdict: Verdict { kind: VerdictKind::Verified, reasons: Vec::new() },
        energy,
        ..Measurement::default()
    };
    Trial::new("libaio/syscall/interrupt".parse().unwrap(), Workload::default(), measurement.into())
}

fn chosen(sets: &[&[Trial]]) -> Option<String> {
    EnergySource::measured(sets).map(|source| source.to_string())
}

#[test]
fn the_widest_scope_that_all_trials_have_from_one_meter_is_chosen() {
    let (plug, rapl) = (|j| energy("plug", Scope::System, j), |j| energy("rapl", Scope::Package, j));
    let both = trial(vec![rapl(Some(90.0)), plug(Some(100.0))]);
    let gap = trial(vec![rapl(Some(90.0)), plug(None)]);
    let narrow = trial(vec![rapl(Some(90.0))]);
    assert_eq!(chosen(&[&[both.clone(), both.clone()]]).unwrap(), "system by plug");
    // A gap leaves its trial out, and does not narrow the scope; a meter that was mostly dead does.
    assert_eq!(chosen(&[&[both.clone(), both.clone(), gap.clone()]]).unwrap(), "system by plug");
    assert_eq!(chosen(&[&[both.clone(), gap.clone(), gap.clone()]]).unwrap(), "package by rapl");
    assert_eq!(chosen(&[&[both.clone(), both.clone(), narrow.clone()]]).unwrap(), "package by rapl");
    // Two stores have only rapl in common, and a store with another meter nothing.
    assert_eq!(chosen(&[slice::from_ref(&both), &[narrow]]).unwrap(), "package by rapl");
    assert_eq!(
        chosen(&[slice::from_ref(&both), &[trial(vec![energy("pdu", Scope::System, Some(1.0))])]]),
        None
    );
    assert_eq!(
        (chosen(&[&[]]), chosen(&[&[trial(Vec::new())]]), chosen(&[&[gap]])),
        (None, None, Some("package by rapl".into()))
    );
}

/// The target host's meter covered local and remote trials alike, so a remote I/O cost half of its joules.
#[test]
fn joules_of_one_host_are_not_compared_where_there_are_those_of_both() {
    let (there, both) =
        (|j| energy("target.plug", Scope::System, j), |j| energy("host+target", Scope::System, j));
    let local = trial(vec![there(Some(50.0)), both(None)]);
    let remote = trial(vec![energy("plug", Scope::System, Some(60.0)), there(Some(40.0)), both(Some(100.0))]);
    let sum = "system by host+target";
    assert_eq!(chosen(&[&[local.clone(), local.clone(), remote.clone()]]).unwrap(), sum);
    assert_eq!(chosen(&[slice::from_ref(&remote), slice::from_ref(&remote)]).unwrap(), sum);
    assert_eq!(chosen(&[slice::from_ref(&local), slice::from_ref(&remote)]), None);
    // Without a sum there is nothing better.
    let unsummed = trial(vec![there(Some(40.0)), both(None)]);
    assert_eq!(
        chosen(&[slice::from_ref(&local), slice::from_ref(&unsummed)]).unwrap(),
        "system by target.plug"
    );
}

#[test]
fn models_and_refuted_trials_choose_nothing() {
    let mut refuted = trial(vec![energy("plug", Scope::System, Some(1.0))]);
    refuted.outcome.measurement_mut().unwrap().verdict.kind = VerdictKind::Refuted;
    let guess = trial(vec![energy("model", Scope::System, Some(1.0))]);
    let all = [refuted, guess];
    assert_eq!(chosen(&[&all]), None);
    assert_eq!(EnergySource::estimated(&[&all]).unwrap().to_string(), "system by model, est.");
}

#[test]
fn csv_tells_energy_of_one_source_and_why_there_is_none() {
    let study = |emulated: Option<&str>| StudyRecord {
        name: "s".into(),
        target: "t".into(),
        emulated: emulated.map(str::to_owned),
        ..StudyRecord::default()
    };
    let plug = |joules| {
        trial(vec![energy("plug", Scope::System, joules), energy("rapl", Scope::Package, Some(7.0))])
    };
    let trials = [plug(Some(100.0)), plug(Some(80.0)), plug(None)];
    let cells = |study: &StudyRecord, row: usize, names: &[&str]| {
        let mut csv = Vec::new();
        export::csv(study, &trials, &mut csv).unwrap();
        let csv = String::from_utf8(csv).unwrap();
        let rows: Vec<Vec<String>> =
            csv.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect();
        assert!(rows.iter().all(|row| row.len() == rows[0].len()));
        let at = |name: &&str| rows[0].iter().position(|one| one == name).unwrap();
        names.iter().map(|name| rows[1 + row][at(name)].clone()).collect::<Vec<String>>()
    };
    let names = [
        "joules",
        "joules_random_low",
        "joules_low",
        "watts",
        "ios_per_joule",
        "idle_watts",
        "joules_above_idle",
    ];
    assert_eq!(cells(&study(None), 0, &names), ["100", "98", "", "50", "80", "30", "40"]);
    let rest =
        ["ios_per_joule_above_idle", "energy_scope", "energy_meter", "energy_estimated", "energy_incomplete"];
    assert_eq!(cells(&study(None), 0, &rest), ["200", "system", "plug", "false", ""]);
    assert_eq!(
        cells(&study(None), 2, &["joules", "energy_meter", "energy_incomplete"]),
        ["", "plug", "gap of 7 s"]
    );
    assert_eq!(cells(&study(Some("QEMU TCG")), 0, &["joules", "watts", "energy_meter"]), ["", "", ""]);
}
