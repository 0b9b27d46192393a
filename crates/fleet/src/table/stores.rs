//! The table of stores: machine, drive, kernel and study.

use super::column::Cell::{Count, Flag, Text, Time};
use super::column::Column;
use super::contents::{Contents, cpus, drives, fact, host};
use iopj_core::VerdictKind;
use iopj_record::Trial;

pub(super) fn columns<'a>() -> Vec<Column<&'a Contents>> {
    vec![
        Column::key("store", Text(|c| Some(c.id.clone()))),
        Column::new("host", Text(|c| host(&c.study))),
        Column::new("study", Text(|c| Some(c.study.name.clone()))),
        Column::new("study_text", Text(|c| Some(c.study.text.clone()))),
        Column::new("seed", Count(|c| Some(c.study.seed))),
        Column::new("target", Text(|c| Some(c.study.target.clone()))),
        Column::new("began", Time(Contents::began_unix_ns_of)),
        Column::new("began_unix_ns", Count(Contents::began_unix_ns_of)),
        Column::new("iopj_version", Text(|c| fact(&c.study, "iopj_version"))),
        Column::new("architecture", Text(|c| fact(&c.study, "architecture"))),
        Column::new("cpu_model", Text(|c| fact(&c.study, "cpu_model"))),
        Column::new("cpus", Count(|c| cpus(&c.study))),
        Column::new("memory_bytes", Count(memory_bytes)),
        Column::new("virtual_machine", Flag(|c| Some(fact(&c.study, "virtual_machine").is_some()))),
        Column::new("emulated", Text(|c| c.study.emulated.clone())),
        Column::new("kernel_release", Text(|c| fact(&c.study, "kernel"))),
        Column::new("kernel_build", Text(|c| fact(&c.study, "kernel_build"))),
        Column::new("drive_model", Text(|c| drives(&c.study, "model"))),
        Column::new("drive_firmware", Text(|c| drives(&c.study, "firmware"))),
        Column::new("drive_serial", Text(|c| drives(&c.study, "serial"))),
        Column::new("drive_driver", Text(|c| drives(&c.study, "driver"))),
        Column::new("drive_bytes", Count(drive_bytes)),
        Column::new("target_bytes", Count(|c| fact(&c.study, "target_bytes")?.parse().ok())),
        Column::new("planned_trials", Count(|c| Some(c.study.planned_trials))),
        Column::new("trials", Count(|c| Some(c.trials.len() as u64))),
        Column::new("failed_trials", Count(|c| counted(c, |trial| trial.outcome.measurement().is_none()))),
        Column::new("verified_trials", Count(|c| counted(c, |trial| is(trial, VerdictKind::Verified)))),
        Column::new("refuted_trials", Count(|c| counted(c, |trial| is(trial, VerdictKind::Refuted)))),
        Column::new("unproven_trials", Count(|c| counted(c, |trial| is(trial, VerdictKind::Unproven)))),
        Column::new("unavailable", Text(|c| serde_json::to_string(&c.study.unavailable).ok())),
        Column::new("provenance", Text(|c| serde_json::to_string(&c.study.provenance).ok())),
    ]
}

impl Contents {
    fn began_unix_ns_of(contents: &&Contents) -> Option<u64> {
        contents.began_unix_ns()
    }
}

fn counted(contents: &Contents, is_meant: impl Fn(&Trial) -> bool) -> Option<u64> {
    Some(contents.trials.iter().filter(|trial| is_meant(trial)).count() as u64)
}

fn is(trial: &Trial, verdict: VerdictKind) -> bool {
    trial.outcome.measurement().is_some_and(|one| one.verdict.kind == verdict)
}

/// `/proc/meminfo` writes kB and means KiB.
fn memory_bytes(contents: &&Contents) -> Option<u64> {
    let kib: u64 = fact(&contents.study, "memory")?.split(' ').next()?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The size of all drives together. The kernel counts sectors of 512 bytes.
fn drive_bytes(contents: &&Contents) -> Option<u64> {
    let sectors = drives(&contents.study, "sectors")?;
    let sum: Option<u64> = sectors.split(", ").map(|one| one.parse::<u64>().ok()).sum();
    sum?.checked_mul(512)
}
