//! Two hosts: what an I/O costs on either, and how it goes with interrupts over depth.

use super::costs::{Happened, measurement, study, trial, workload};
use super::{means, near, question, squeezed};
use iopj_analysis::explain::{BothHosts, Explanation, HostsRow, explain};
use iopj_core::evidence::{CpuTimes, DeviceEvidence};
use iopj_core::fabric::{NicEvidence, TargetHostEvidence, VectorEvidence};
use iopj_core::{Cost, CostKind, CostProfile, CostSource, FabricEvidence, FunctionCost, Space, VerdictKind};
use iopj_papers::published::COSTS;
use iopj_record::{StudyRecord, Trial};
use iopj_report::explanation;

const PATH: &str = "libaio/syscall/interrupt";
const IOS: u64 = 1000;

fn function(space: Space, directory: &str, instructions: u64) -> FunctionCost {
    let cost =
        Cost { instructions, loads: instructions * 3 / 10, stores: instructions / 5, ..Cost::default() };
    let directory = (!directory.is_empty()).then(|| directory.to_owned());
    FunctionCost { space, function: "f".to_owned(), module: None, directory, cost }
}

fn nics(interrupts: u64) -> Vec<NicEvidence> {
    let vector = VectorEvidence { name: "24 eth0".to_owned(), interrupts };
    vec![NicEvidence { vectors: Some(vec![vector]), ..NicEvidence::default() }]
}

/// A trial over TCP whose target host executes 2,000 instructions an I/O in nvmet and 1,200 an interrupt of
/// its drive, of which there are so many in a thousand I/Os.
fn remote(iodepth: u32, replicate: u32, interrupts: u64) -> Trial {
    let mut trial = trial(PATH, &workload(iodepth, IOS), replicate, Happened::default());
    trial.settings.insert("transport".to_owned(), "tcp".to_owned());
    let one = measurement(&mut trial);
    let kinds = vec![CostKind::Calls, CostKind::Instructions, CostKind::Loads, CostKind::Stores];
    let functions = vec![
        function(Space::Kernel, "drivers/nvme/target/", 2000 * IOS),
        function(Space::Kernel, "drivers/nvme/host/", 1200 * interrupts),
        function(Space::User, "", 10 * IOS),
    ];
    one.target_costs = Some(CostProfile::new(CostSource::Exact, kinds, functions));
    let drive = DeviceEvidence { interrupts: Some(interrupts), ..DeviceEvidence::default() };
    let target = TargetHostEvidence {
        cpu: CpuTimes { system_ns: 9_000_000, idle_ns: 1_000_000, cores: 1, ..CpuTimes::default() },
        context_switches: 2 * IOS + interrupts,
        devices: vec![drive],
        nics: nics(interrupts / 2),
        ..TargetHostEvidence::default()
    };
    one.evidence.cpu = CpuTimes { user_ns: 3_000_000, softirq_ns: 500_000, cores: 8, ..CpuTimes::default() };
    one.evidence.fabric = Some(Box::new(FabricEvidence {
        context_switches: 3 * IOS,
        nics: nics(IOS / 4),
        target: Some(target),
        ..FabricEvidence::default()
    }));
    trial
}

/// An Arm's instructions were tested against an x86's.
#[test]
fn what_the_target_host_did_alone_is_compared_with_nothing_of_the_host() {
    let mut trials: Vec<Trial> = (0..3).map(|replicate| remote(1, replicate, IOS)).collect();
    for replicate in 0..3 {
        let mut alone = trial(PATH, &workload(1, IOS), replicate, Happened::default());
        alone.settings.insert("transport".to_owned(), "local".to_owned());
        trials.push(alone);
    }
    let found = explained(&arm(), &trials);
    let columns: Vec<usize> = found.blocks.iter().map(|block| block.columns.len()).collect();
    assert_eq!(columns, [1, 1]);
    assert!(found.blocks.iter().all(|block| block.differences.is_empty()));
}

/// Depth 1, 4 and 16, five times each: one, a half and an eighth of an interrupt for each I/O, and a little
/// more in each block.
fn sweep() -> Vec<Trial> {
    let depths = [(1, 1000), (4, 500), (16, 125)];
    let of =
        |(depth, interrupts): (u32, u64)| (0..5).map(move |at| remote(depth, at, interrupts + u64::from(at)));
    depths.into_iter().flat_map(of).collect()
}

fn arm() -> StudyRecord {
    let mut study = study(true);
    let facts = [("architecture", "x86_64"), ("target_host.architecture", "aarch64")];
    study.provenance.extend(facts.map(|(name, value)| (name.to_owned(), value.to_owned())));
    study
}

fn explained(study: &StudyRecord, trials: &[Trial]) -> Explanation {
    explain(study, trials, &question(&[]), &COSTS).unwrap()
}

fn both(explanation: &Explanation, block: usize) -> &BothHosts {
    explanation.blocks[block].hosts.as_ref().unwrap()
}

/// The means of a row's first column, of the host and of the target host.
fn row(rows: &[HostsRow], name: &str) -> [Option<f64>; 2] {
    let row = rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{name} in {rows:?}"));
    row.figures[0].map(|figure| figure.map(|figure| (figure.mean * 1e6).round() / 1e6))
}

#[test]
fn both_hosts_stand_side_by_side_per_io_of_the_host() {
    let found = explained(&arm(), &sweep());
    let hosts = both(&found, 0);
    assert_eq!(hosts.columns, [0]);
    let events = |name| row(&hosts.events, name);
    // In blocks 0 to 4 the drive interrupted 1,000 to 1,004 times.
    assert_eq!(events("kernel_instructions"), [Some(1520.0), Some(2000.0 + 1200.0 * 1.002)]);
    assert_eq!(events("user_instructions"), [Some(600.0), Some(10.0)]);
    assert_eq!(events("kernel_stores"), [Some(304.0), Some(400.0 + 240.0 * 1.002)]);
    assert_eq!(events("context_switches"), [Some(3.0), Some(3.002)]);
    assert_eq!(events("card_interrupts"), [Some(0.25), Some(0.5008)]);
    assert_eq!(events("drive_interrupts"), [None, Some(1.002)]);
    let figure =
        hosts.events.iter().find(|row| row.name == "drive_interrupts").unwrap().figures[0][1].unwrap();
    assert_eq!(figure.n, 5);
    near(figure.stddev.unwrap(), 0.001 * 2.5f64.sqrt());
    let directory = |name| row(&hosts.directories[0].rows, name);
    assert_eq!(directory("drivers/nvme/target/"), [Some(0.0), Some(2000.0)]);
    assert_eq!(directory("drivers/nvme/host/"), [Some(200.0), Some(1202.4)]);
    assert_eq!(directory("block/"), [Some(700.0), Some(0.0)]);
    let names: Vec<&str> = hosts.directories[0].rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!((names[0], *names.last().unwrap()), ("drivers/nvme/target/", "unknown"));
    // The host's own tables are as ever.
    let kernel = found.blocks[0].totals.iter().find(|row| row.name == "kernel_instructions").unwrap();
    assert_eq!(means(&kernel.figures), [1520.0]);
}

#[test]
fn times_are_shown_only_of_real_machines() {
    let times = |emulated: bool| {
        let found = explained(&study(emulated), &sweep());
        let names = |name: &&HostsRow| name.name.ends_with("cpu_ns");
        both(&found, 0).events.iter().filter(names).cloned().collect::<Vec<_>>()
    };
    assert_eq!(times(true), []);
    let times = times(false);
    assert_eq!(row(&times, "user_cpu_ns"), [Some(3000.0), Some(0.0)]);
    assert_eq!(row(&times, "system_cpu_ns"), [Some(0.0), Some(9000.0)]);
    assert_eq!(row(&times, "softirq_cpu_ns"), [Some(500.0), Some(0.0)]);
}

#[test]
fn the_targets_instructions_go_with_the_interrupts_of_its_drive() {
    let found = explained(&arm(), &sweep());
    let [path] = &found.over_depth[..] else { panic!("{:?}", found.over_depth) };
    let depths: Vec<u32> = path.rows.iter().map(|at| at.iodepth).collect();
    assert_eq!((depths, path.workload.iodepth), (vec![1, 4, 16], 1));
    let last = &path.rows[2];
    let each: f64 = (0..5).map(|at| 1000.0 / f64::from(125 + at)).sum::<f64>() / 5.0;
    near(last.ios_per_drive_interrupt.unwrap().mean, each);
    assert_eq!(last.ios_per_card_interrupt[0].unwrap().mean, 4.0);
    near(last.instructions[1].unwrap().mean, 2010.0 + 1200.0 * 0.127);
    near(last.instructions[0].unwrap().mean, 2120.0);
    let fit = path.fit.unwrap();
    assert_eq!(fit.runs, 15);
    near(fit.fixed.estimate, 2010.0);
    near(fit.per_interrupt.estimate, 1200.0);
}

#[test]
fn one_depth_makes_no_sweep_and_constant_interrupts_no_line() {
    let one: Vec<Trial> = (0..5).map(|at| remote(1, at, 1000)).collect();
    assert_eq!(explained(&arm(), &one).over_depth, []);
    let flat: Vec<Trial> = (0..5).flat_map(|at| [1, 4].map(|depth| remote(depth, at, 1000))).collect();
    let found = explained(&arm(), &flat);
    assert!(found.over_depth[0].fit.is_none() && found.over_depth[0].rows.len() == 2);
    // Refuted trials took another path.
    let mut refuted = sweep();
    refuted.iter_mut().for_each(|one| measurement(one).verdict.kind = VerdictKind::Refuted);
    assert_eq!(explained(&arm(), &refuted).over_depth, []);
}

#[test]
fn a_target_host_that_was_not_counted_the_same_way_has_no_costs() {
    let mut trials = sweep();
    for trial in &mut trials {
        let costs = measurement(trial).target_costs.as_mut().unwrap();
        costs.source = CostSource::Sampled(vec!["cpu-clock".to_owned()]);
    }
    let found = explained(&arm(), &trials);
    let hosts = both(&found, 0);
    assert_eq!(row(&hosts.events, "kernel_instructions"), [Some(1520.0), None]);
    assert_eq!(row(&hosts.events, "context_switches"), [Some(3.0), Some(3.002)]);
    assert_eq!(found.over_depth, []);
    // Nothing of two hosts in a study of one.
    let local = trial(PATH, &workload(1, IOS), 0, Happened::default());
    let found = explained(&study(true), &[local]);
    assert!(found.blocks[0].hosts.is_none() && found.processors.is_none());
    let json = serde_json::to_value(&found).unwrap();
    assert!(json.get("over_depth").is_none() && json["blocks"][0].get("hosts").is_none());
}

#[test]
fn the_text_names_both_processors_where_they_differ() {
    let whole = explanation(&explained(&arm(), &sweep()));
    assert!(whole.lines().all(|line| line.chars().count() <= 120), "{whole}");
    let text = squeezed(&whole);
    assert!(text.contains("the host is x86_64, the target host aarch64"), "{text}");
    assert!(text.contains("A host x86_64 A target aarch64"), "{text}");
    assert!(text.contains("drive interrupts - 1.00 ± 0.00"), "{text}");
    assert!(text.contains("over depth: libaio/syscall/interrupt transport=tcp"), "{text}");
    let line = "target: instructions per I/O = 2,010 ± ";
    assert!(text.contains(line) && text.contains("+ 1,200 ± "), "{text}");
    let mut alike = arm();
    alike.provenance.insert("target_host.architecture".to_owned(), "x86_64".to_owned());
    let text = squeezed(&explanation(&explained(&alike, &sweep())));
    assert!(text.contains("A host A target") && !text.contains("x86_64"), "{text}");
}
