//! A trial of a program that does its own I/O: its life is the window, and what was seen of it is the
//! verdict.

use super::commands::{self, Capture};
use super::{Measured, TrialRunner, power_json};
use crate::error::TrialError;
use crate::own_program::{OwnProgram, servers};
use crate::program_error::ProgramError;
use crate::target::Access;
use iopj_core::evidence::{DeviceEvidence, OthersEvidence, ProcessEvidence};
use iopj_core::watch::{Certainty, ProgramCounts, SeenPath, WatchEvidence};
use iopj_core::{Evidence, Observed, Verdict, VerdictKind};
use iopj_host::power::PowerState;
use iopj_load::native::monotonic_ns;
use iopj_load::program::Output;
use iopj_meter::monotonic_raw_ns;
use iopj_metering::energy;
use iopj_probe::{Edge, Probe, ProbeError, Snapshot, Who};
use iopj_record::{Measurement, ProgramWindow, histogram};
use iopj_study::Variant;
use iopj_study::plan::Cell;
use iopj_watch::{TrialWatch, WatchedTrial, watch_trial};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a sector, as the kernel counts them.
const SECTOR: u64 = 512;

/// The life of a program, as its trial follows it.
struct Life<'a> {
    probe: &'a Probe,
    stop: &'a AtomicBool,
    tick: &'a mut dyn FnMut(),
    /// Says something to the user.
    say: &'a dyn Fn(String),
    name: &'a str,
    edges: Vec<(u64, Result<Snapshot, ProbeError>)>,
    asked: bool,
}

impl TrialWatch for Life<'_> {
    fn starts(&mut self) {
        let snapshot = self.probe.snapshot(Who::Child, Edge::Begin);
        self.edges.push((monotonic_ns(), snapshot));
    }

    fn passes(&mut self, program: u32) {
        (self.tick)();
        if self.stop.load(Ordering::Relaxed) && self.edges.len() == 1 && !self.asked {
            self.asked = true;
            commands::end_group(program);
            (self.say)(format!(
                "interrupted: `{}` and its process group {program} were asked to end (SIGTERM), and are \
                 waited for; a second Ctrl-C leaves them as they are",
                self.name
            ));
        }
    }

    fn ended(&mut self) {
        let at = monotonic_ns();
        self.edges.push((at, self.probe.snapshot(Who::Child, Edge::End)));
    }
}

/// What a program did between its start and its end.
struct Ran {
    watched: WatchedTrial,
    usage: ProcessEvidence,
    ends_ns: [u64; 2],
    evidence: Evidence,
    servers: Vec<i32>,
    figure: f64,
}

impl TrialRunner<'_> {
    /// A trial of a program.
    pub(super) fn by_program(
        &self,
        own: &OwnProgram,
        access: &Access,
        cell: &Cell,
        tick: &mut dyn FnMut(),
    ) -> Result<Measured, TrialError> {
        let variant = own.keys.variant(cell.path).ok_or(ProgramError::NoProgram)?;
        let devices = access.devices();
        let before = PowerState::read(&self.host, devices);
        let begin_raw_ns = monotonic_raw_ns();
        let words = |command: &[String]| own.words(command, &cell.workload);
        if !variant.before.is_empty() {
            commands::run(&words(&variant.before), Some(self.stop), tick)?;
        }
        let ran = self.ran(own, variant, access, cell, tick);
        // Whatever came of it, and to its end.
        let after = match &variant.after[..] {
            [] => Ok(()),
            after => commands::run(&words(after), None, tick),
        };
        let ran = ran?;
        after?;
        let power = PowerState::read(&self.host, devices);
        let mut evidence = evidence_of(&ran);
        (evidence.throttles, evidence.power_changes) =
            (before.throttles_until(&power), before.changes_until(&power));
        let measurement = measurement(own, cell, ran, evidence);
        let clock_ns = measurement.0;
        let measurement = Measurement {
            power_state: [power_json(&before), power_json(&power)].map(Into::into),
            ..measurement.1
        };
        let load_raw_ns = vec![begin_raw_ns, monotonic_raw_ns()];
        Ok(Measured { measurement, clock_ns: Some(clock_ns), load_raw_ns, unprofiled: None })
    }

    /// Runs the program itself.
    fn ran(
        &self,
        own: &OwnProgram,
        variant: &Variant,
        access: &Access,
        cell: &Cell,
        tick: &mut dyn FnMut(),
    ) -> Result<Ran, TrialError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ProgramError::Interrupted.into());
        }
        let (words, servers) = (own.words(&variant.command, &cell.workload), servers(&own.keys.watch)?);
        let name = words.first().map(String::as_str).unwrap_or_default();
        let mut command = commands::command(&words);
        let start = |error| ProgramError::Start { name: name.to_owned(), error };
        let capture = Capture::of(&mut command).map_err(start)?;
        let say = |text| self.said.borrow_mut().push(text);
        let (probe, stop) = (access.probe()?, self.stop);
        let mut life = Life { probe, stop, tick, say: &say, name, edges: Vec::new(), asked: false };
        let watched = watch_trial(command, (&servers, access.devices()), &mut life, self.stop);
        let edges = life.edges;
        let outputs = capture.finish();
        let watched = watched.map_err(ProgramError::from)?;
        let usage = checked(name, &watched, &outputs, self.stop)?;
        let [(first_ns, first), (last_ns, last)] =
            <[_; 2]>::try_from(edges).map_err(|_| TrialError::NotBracketed("program"))?;
        let (evidence, figure) =
            (first?.until(&last?), own.figure.find(&outputs[0]).map_err(ProgramError::from)?);
        Ok(Ran { watched, usage, ends_ns: [first_ns, last_ns], evidence, servers, figure })
    }

    /// What is to be said to the user since the last call.
    pub(crate) fn take_said(&self) -> Vec<String> {
        self.said.take()
    }
}

/// The totals of a program that ended well and left nothing behind.
fn checked(
    name: &str,
    watched: &WatchedTrial,
    [output, errors]: &[Output; 2],
    stop: &AtomicBool,
) -> Result<ProcessEvidence, ProgramError> {
    if stop.load(Ordering::Relaxed) {
        return Err(ProgramError::Interrupted);
    }
    let ended = watched.ended.as_ref().ok_or(ProgramError::NoProgram)?;
    commands::succeeded(name, ended.status, output, errors)?;
    if !watched.left.is_empty() {
        let list = watched.left.iter().map(|(pid, name)| format!("{pid} {}", name.escape_debug()));
        let list = list.collect::<Vec<_>>().join(", ");
        return Err(ProgramError::LeftBehind { name: name.to_owned(), list });
    }
    Ok(ended.totals)
}

/// The evidence of the window: of the disks that were seen, and with what servers did as the program's own.
fn evidence_of(ran: &Ran) -> Evidence {
    let watch = &ran.watched.evidence;
    let devices: Vec<_> = watch.devices.iter().map(|device| device.counts.clone()).collect();
    let sum = |count: fn(&DeviceEvidence) -> u64| devices.iter().map(count).sum::<u64>();
    let [user_ns, system_ns] = cpu_ns(ran);
    let own_ns = ran.usage.user_ns + ran.usage.system_ns;
    let servers_ns = (user_ns + system_ns).saturating_sub(own_ns);
    let others = ran.evidence.others.clone().map(|others| without(others, servers_ns, &ran.servers));
    Evidence {
        window_ns: ran.ends_ns[1] - ran.ends_ns[0],
        reads: sum(|device| device.reads),
        writes: sum(|device| device.writes),
        read_bytes: sum(|device| device.read_sectors) * SECTOR,
        write_bytes: sum(|device| device.write_sectors) * SECTOR,
        latency_sum_ns: watch.devices.iter().map(|disk| disk.read_ms + disk.write_ms).sum::<u64>()
            * 1_000_000,
        process: ProcessEvidence { user_ns, system_ns, ..ran.usage },
        devices,
        others,
        ..ran.evidence.clone()
    }
}

/// CPU time of the program and its servers, in user space and in the kernel.
fn cpu_ns(ran: &Ran) -> [u64; 2] {
    match &ran.watched.evidence.program {
        Some(counts) if !ran.servers.is_empty() => counts.cpu().map(|ns| ns as u64),
        _ => [ran.usage.user_ns, ran.usage.system_ns],
    }
}

/// What other processes did, less what servers did for the program.
fn without(others: OthersEvidence, servers_ns: u64, servers: &[i32]) -> OthersEvidence {
    let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let names: BTreeSet<String> =
        servers.iter().filter_map(name).map(|name| name.trim_end().to_owned()).collect();
    let processes_ns = others.processes_ns.saturating_sub(servers_ns);
    let busiest = others.busiest.into_iter().filter(|busy| !names.contains(&busy.name)).collect();
    OthersEvidence { processes_ns, busiest, ..others }
}

/// The measurement, and the ends of its window on `CLOCK_MONOTONIC`.
fn measurement(own: &OwnProgram, cell: &Cell, ran: Ran, evidence: Evidence) -> ([u64; 2], Measurement) {
    let Ran { watched, usage, ends_ns, servers, figure, .. } = ran;
    let WatchedTrial { evidence: watch, paths, denied, latencies, .. } = watched;
    let ios = evidence.ios();
    let per_io = |count: f64| (ios > 0).then(|| count / ios as f64);
    let counts = watch.program.as_ref();
    let switches = match counts {
        Some(counts) if !servers.is_empty() => counts.switches,
        _ => usage.voluntary_switches + usage.involuntary_switches,
    };
    let interrupts: Option<u64> = evidence.devices.iter().map(|device| device.interrupts).sum();
    let calls = watch.estimates.as_ref().map(|estimates| estimates.all_calls);
    let cpu = evidence.process.user_ns + evidence.process.system_ns;
    let window_ns = evidence.window_ns;
    let keys = &own.keys.figure;
    let measurement = Measurement {
        window_ns,
        ios,
        bytes: evidence.bytes(),
        reads: evidence.reads,
        writes: evidence.writes,
        latency: histogram::summary(&latencies),
        cpu_percent: 100.0 * cpu as f64 / window_ns.max(1) as f64,
        context_switches_per_io: per_io(switches as f64).unwrap_or_default(),
        interrupts_per_io: interrupts
            .filter(|_| !evidence.devices.is_empty())
            .and_then(|all| per_io(all as f64)),
        system_calls_per_io: calls.and_then(per_io),
        achieved_depth: evidence.latency_sum_ns as f64 / window_ns.max(1) as f64,
        conditions: iopj_probe::conditions(&cell.path, &evidence),
        observed: Observed::default(),
        verdict: verdict(&watch, counts, &paths, &denied),
        window_raw_ns: Some(ends_ns.map(energy::raw_ns)),
        program: Some(Box::new(ProgramWindow {
            figure,
            name: keys.name.clone(),
            unit: keys.unit.clone(),
            paths,
            denied,
            watch,
        })),
        evidence,
        ..Measurement::default()
    };
    (ends_ns, measurement)
}

/// What was seen of the program, in words.
fn verdict(
    watch: &WatchEvidence,
    counts: Option<&ProgramCounts>,
    paths: &[SeenPath],
    denied: &[String],
) -> Verdict {
    let share = |path: &SeenPath| {
        format!("{:.0} % {} ({}): {}", 100.0 * path.share, path.name(), certainty(path), path.why)
    };
    let mut reasons: Vec<String> = paths.iter().map(share).collect();
    if paths.is_empty() {
        reasons.push(match counts {
            Some(counts) if watch.device_ios() == 0 && counts.whole_disk_bytes.is_none() => {
                "no I/O was seen".to_owned()
            }
            _ => "it was not seen which interface its I/O took".to_owned(),
        });
    }
    reasons.extend(denied.iter().cloned());
    Verdict { kind: VerdictKind::Seen, reasons }
}

fn certainty(path: &SeenPath) -> &'static str {
    match path.certainty {
        Certainty::Proven => "proven",
        Certainty::Inferred => "inferred",
    }
}
