//! `iopj policy simulate`: what decides, on simulated machines; with a store, on a drive that was recorded,
//! and with a trace, under a program that was.

use super::derive::drives;
use crate::args::{Competing, SimulateArgs};
use crate::opened::open;
use crate::output::{FAILURES, note, print, print_json};
use anyhow::anyhow;
use iopj_auto::Direction;
use iopj_auto::evaluate::{Latencies, Question, Recorded, Trace, TraceIo, evaluate_all};
use iopj_core::Generator;
use iopj_core::path::{CompletionMode, Submission};
use iopj_load::trace::{self, Op};
use iopj_model::Case;
use iopj_record::{Measurement, Trial, histogram};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

/// What latencies must have in common to be one drive's: path, generator, settings, and random offsets or
/// not.
type Circumstances = (String, Generator, BTreeMap<String, String>, bool);

/// Exit code 1 if a threshold is not kept.
pub(super) fn simulate(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let recorded = args.latencies.as_deref().map(|store| recorded(store, &args.competing)).transpose()?;
    let trace = args.read_iolog.as_deref().map(traced).transpose()?;
    let evaluation = evaluate_all(&Question { seed: args.seed, cells: args.cells, recorded, trace });
    if args.json {
        print_json(&json!(evaluation))?;
    } else {
        print(&evaluation.to_string())?;
    }
    Ok(if evaluation.holds() { ExitCode::SUCCESS } else { ExitCode::from(FAILURES) })
}

/// The drive of a store, by what its trials recorded on one path that waits for interrupts: that on which
/// most was.
fn recorded(store: &Path, competing: &Competing) -> anyhow::Result<Recorded> {
    let (name, opened) = (store.display(), open(store)?);
    let study = opened.study()?;
    if let Some(emulator) = &study.emulated {
        return Err(anyhow!(
            "--latencies: {name}: times mean nothing under {emulator}: name a store of a real machine"
        ));
    }
    let trials = opened.trials()?;
    let admission = competing.admission().of(&study);
    let mut found: BTreeMap<Circumstances, Vec<Latencies>> = BTreeMap::new();
    for trial in &trials {
        if let Ok(measurement) = admission.admit(trial)
            && let Some(one) = latencies(trial, measurement)
        {
            let (path, settings) = (trial.path.to_string(), trial.settings.clone());
            let circumstances = (path, trial.generator, settings, trial.workload.rw.is_random());
            found.entry(circumstances).or_default().push(one);
        }
    }
    let count =
        |all: &[Latencies]| -> u64 { all.iter().flat_map(|one| &one.counted).map(|(_, count)| count).sum() };
    let most = found.into_iter().max_by_key(|(_, all)| count(all));
    let nothing = || {
        let why = admission.why_none_competes(&trials).map_or(String::new(), |why| format!(" ({why})"));
        anyhow!(
            "--latencies: {name} has no latencies of one job that waits for interrupts, with one size and up \
             to 128 in flight, so no drive can be simulated{why}: measure some by `iopj run --path io_uring \
             --iodepth 1,2,4,8,16,32`"
        )
    };
    let ((path, _, settings, _), all) = most.ok_or_else(nothing)?;
    let settings: String = settings.iter().map(|(key, value)| format!(", {key} {value}")).collect();
    let drive = drives(&study.provenance).unwrap_or_else(|| study.target.clone());
    Recorded::of(format!("{drive} of {name} on {path}{settings}"), all).ok_or_else(nothing)
}

/// The latencies of a trial that shows a drive alone: one job, one kind of request, a closed loop.
fn latencies(trial: &Trial, measurement: &Measurement) -> Option<Latencies> {
    let (path, workload) = (trial.path, &trial.workload);
    let case = Case::of(path, workload, measurement.evidence.cpu.cores.max(1)).ok()?;
    let is_plain = case.numjobs == 1 && case.batch == 1 && !case.rw.is_mixed();
    let interrupts =
        path.completion() == CompletionMode::Interrupt && path.submission() != Submission::Sqpoll;
    let recorded = histogram::decode(&measurement.latency.histogram).filter(|all| !all.is_empty())?;
    (is_plain && interrupts).then(|| Latencies {
        direction: if case.rw.writes() { Direction::Write } else { Direction::Read },
        bytes: case.bs,
        in_flight: case.depth(),
        cpu_ns: measurement.cpu_percent / 100.0 * 1e9 / measurement.iops(),
        counted: recorded
            .iter_recorded()
            .map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
            .collect(),
    })
}

/// The reads and writes of a trace.
fn traced(file: &Path) -> anyhow::Result<Trace> {
    let trace = trace::read(file, None).map_err(|error| anyhow!("--read-iolog: {error}"))?;
    let direction = |op: Op| if op.is_write() { Direction::Write } else { Direction::Read };
    let moves = trace.records.iter().filter(|record| record.op.transfers());
    let ios: Vec<TraceIo> = moves
        .map(|one| TraceIo { due_ns: one.at_ns, direction: direction(one.op), bytes: one.len })
        .collect();
    let others = trace.records.len() - ios.len();
    if others > 0 {
        note(&format!("{}: {others} records that move no bytes are left out", file.display()));
    }
    Trace::of(file.display().to_string(), &ios).ok_or_else(|| {
        anyhow!("--read-iolog: {} has no read and no write: name a trace that has some", file.display())
    })
}
