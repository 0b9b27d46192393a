//! A trial by fio. The ramp, the pass in which completions are counted, and the measured run are one fio
//! process each.

use super::beside::Beside;
use super::window::{Window, add_counted};
use super::{TrialId, TrialRunner};
use crate::error::TrialError;
use crate::target::Access;
use iopj_core::Slice;
use iopj_core::evidence::{Completions, Finding, ProcessEvidence, SteadyState};
use iopj_core::{Evidence, IoPath, Length, OpenLoad, Workload};
use iopj_engine::PciAddress;
use iopj_engine::target::Descriptor;
use iopj_host::machine;
use iopj_load::fio::json::FioProgress;
use iopj_load::fio::{self, Filename, Fio, FioError, FioOutput, FioWatch, Phase};
use iopj_load::latencies;
use iopj_load::native;
use iopj_load::pass;
use iopj_meter::monotonic_raw_ns;
use iopj_metering::energy;
use iopj_probe::{Edge, Probe, Watched, Who, marker};
use iopj_record::{Latency, LatencyFrom, OpenWindow};
use iopj_study::plan::Cell;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

impl Window {
    /// `ends_ns` are the window's on `CLOCK_MONOTONIC`.
    fn of_fio(
        result: &FioOutput,
        cell: &Cell,
        load_raw_ns: Vec<u64>,
        window_raw_ns: [u64; 2],
        ends_ns: [u64; 2],
    ) -> Window {
        let latencies = latencies::of_fio(result);
        let syncs =
            result.syncs.as_ref().map(|syncs| (syncs.histogram.len(), latencies::of_fio_syncs(syncs)));
        let (syncs, sync) = syncs.map_or((0, None), |(count, latency)| (count, Some(latency)));
        let workload = &cell.workload;
        Window {
            load_raw_ns,
            window_raw_ns,
            first_ns: ends_ns[0],
            last_ns: ends_ns[1],
            window_ns: result.window_ns,
            issued: [result.reads.ios, result.writes.ios],
            bytes: result.reads.bytes + result.writes.bytes,
            issued_bytes: workload.sizes.as_ref().map(|_| [result.reads.bytes, result.writes.bytes]),
            durable_writes: 0,
            syncs,
            discards: 0,
            short_ios: result.reads.short_ios + result.writes.short_ios,
            latency_sum_ns: (latencies.all.mean * latencies.all.count as f64) as u64,
            latencies,
            series: slices(&result.series),
            kinds: Vec::new(),
            unsampled: None,
            corunner: None,
            fio: Some(fio_words(result, cell)),
            open: open_window(workload, result, sync),
        }
    }
}

impl TrialRunner<'_> {
    /// A trial by fio: the ramp, the pass in which completions are counted, the measured run.
    pub(super) fn by_fio(
        &self,
        fio: &Fio,
        access: &Access,
        cell: &Cell,
        beside: &Beside,
        TrialId { position, seed }: TrialId,
        tick: &mut dyn FnMut(),
    ) -> Result<(Window, Evidence), TrialError> {
        let extent = access.extent();
        let target = FioTarget::of(access, &cell.path)?;
        let trial =
            ByFio { runner: self, fio, cell, beside, target, region: [extent.offset, extent.len], seed };
        let mut load_raw_ns = Vec::with_capacity(6);
        let steadystate = trial.ramp(&mut load_raw_ns, tick)?;
        let probe = access.probe()?;
        let completions = trial.completions(probe, &mut load_raw_ns, tick);
        // A pass that failed has no end.
        load_raw_ns.truncate(load_raw_ns.len() / 2 * 2);
        let counted = access.begin_window(position)?;
        let (mut window, mut evidence) = trial.measured(probe, tick)?;
        add_counted(&mut evidence, counted, access.end_window()?);
        (evidence.completions, evidence.steadystate) = (completions, steadystate);
        window.load_raw_ns.splice(..0, load_raw_ns);
        Ok((window, evidence))
    }
}

/// What became of an open load that fio kept, and the latency of its flushes. fio does not say what was due,
/// so it is behind if it did fewer I/Os than its rate by a hundredth, and by more than chance explains: four
/// standard deviations of a Poisson count.
fn open_window(workload: &Workload, result: &FioOutput, sync: Option<Latency>) -> Option<OpenWindow> {
    if workload.open.is_none() && sync.is_none() {
        return None;
    }
    let is_behind = |load: &OpenLoad| {
        let due = load.mean_rate() * f64::from(workload.numjobs) * result.window_ns as f64 / 1e9;
        let slack = f64::max(0.01 * due, 4.0 * due.sqrt());
        ((result.reads.ios + result.writes.ios) as f64) < due - slack
    };
    Some(OpenWindow {
        overload: workload.open.as_ref().is_some_and(is_behind),
        latency_from: LatencyFrom::Submission,
        sync,
        ..OpenWindow::default()
    })
}

/// A trial whose I/O is fio's.
struct ByFio<'a> {
    runner: &'a TrialRunner<'a>,
    fio: &'a Fio,
    cell: &'a Cell,
    beside: &'a Beside,
    target: FioTarget,
    /// Offset and length in bytes.
    region: [u64; 2],
    seed: u64,
}

impl ByFio<'_> {
    fn job<'j>(&'j self, workload: &'j Workload, phase: Phase) -> fio::FioJob<'j> {
        let (path, filename, [offset, size]) = (self.cell.path, self.target.filename(), self.region);
        fio::FioJob { path, workload, filename, offset, size, seed: self.seed, phase, status_interval: None }
    }

    fn run(
        &self,
        job: &fio::FioJob<'_>,
        tick: &mut dyn FnMut(),
        look: &mut dyn FnMut(u32) -> Duration,
    ) -> Result<(FioOutput, ProcessEvidence), FioError> {
        self.fio.run(job, self.runner.stop, tick, look)
    }

    /// The ramp, and what came of the rule for its end. The rule is off where fio cannot report its progress.
    fn ramp(
        &self,
        load_raw_ns: &mut Vec<u64>,
        tick: &mut dyn FnMut(),
    ) -> Result<Option<SteadyState>, TrialError> {
        let plain = &self.cell.workload;
        let rule = self.runner.steadystate.rule(plain.ramp_time).filter(|_| can_say_how_far(plain));
        let ramp_time = rule.map_or(plain.ramp_time, |rule| rule.ramp[1]);
        if ramp_time.is_zero() {
            return Ok(None);
        }
        let workload = Workload { ramp_time, ..plain.clone() };
        let job = self.job(&workload, Phase::Ramp);
        load_raw_ns.push(monotonic_raw_ns());
        let steadystate = match rule {
            None => self.run(&job, tick, &mut |_| Duration::MAX).map(|_| None)?,
            Some(rule) => {
                let state = self.fio.ramp(&job, rule, self.runner.stop, tick);
                Some(state?)
            }
        };
        load_raw_ns.push(monotonic_raw_ns());
        Ok(steadystate)
    }

    /// The pass in which completions are counted.
    fn completions(
        &self,
        probe: &Probe,
        load_raw_ns: &mut Vec<u64>,
        tick: &mut dyn FnMut(),
    ) -> Option<Finding<Completions>> {
        let cell = self.cell;
        match self.runner.can_count(cell.path.is_bypass(), probe) {
            _ if cell.path.is_bypass() => None,
            Err(error) => Some(Finding::Unclear(error.to_string())),
            Ok(()) => Some(pass::pass_of_fio(probe, &cell.workload, |extent, look| {
                load_raw_ns.push(monotonic_raw_ns());
                // A closed loop, as in the native generator.
                let closed = Workload { open: None, ..cell.workload.clone() };
                let job = self.job(&closed, Phase::Pass(extent));
                let (result, process) = self.run(&job, tick, look)?;
                load_raw_ns.push(monotonic_raw_ns());
                Ok((result.reads.ios + result.writes.ios, process))
            })),
        }
    }

    /// The measured run. The drive's counters and exact counts of instructions bracket the life of the
    /// process: all of its I/O is the window's. CPU time, context switches, samples and energy are those of
    /// its jobs, which are watched from outside. If their begin was not seen, they are those of its life,
    /// which includes some 0.15 s and 200 switches of fio's start, and there are no samples.
    fn measured(&self, probe: &Probe, tick: &mut dyn FnMut()) -> Result<(Window, Evidence), TrialError> {
        let (runner, cell) = (self.runner, self.cell);
        let snapshot = |edge| probe.snapshot(Who::Child, edge);
        let before = snapshot(Edge::Begin)?;
        let mut watch = FioWatch::new(probe, &cell.path, &cell.workload);
        let mut samples = Samples::Awaited;
        // Under emulation times mean nothing, and instructions may be counted.
        let status_interval = status_interval(&cell.workload).filter(|_| machine::emulator().is_none());
        let job = fio::FioJob { status_interval, ..self.job(&cell.workload, Phase::Measured) };
        let first_ns = native::monotonic_ns();
        marker::begin();
        let result = self.run(&job, tick, &mut |child| {
            let next = watch.look(child);
            samples.follow(watch.is_running(), || runner.begin_samples(), || runner.end_samples());
            self.beside.follow(watch.is_running());
            next
        });
        self.beside.follow(false);
        marker::end();
        samples.follow(false, || Ok(()), || runner.end_samples());
        let (result, process) = result?;
        let last_ns = native::monotonic_ns();
        let evidence = Evidence { process, ..before.until(&snapshot(Edge::End)?) };
        if result.total_errors > 0 {
            return Err(TrialError::FailedIos(result.total_errors));
        }
        let watched = watch.finish(result.window_ns);
        let unsampled = samples.lack(watched.is_some());
        let (evidence, ends_ns) = cut_to_jobs(watched, evidence, [first_ns, last_ns], result.window_ns);
        let window_raw_ns = ends_ns.map(energy::raw_ns);
        let load_raw_ns = vec![energy::raw_ns(first_ns), window_raw_ns[1]];
        let window = Window::of_fio(&result, cell, load_raw_ns, window_raw_ns, [first_ns, last_ns]);
        Ok((Window { unsampled, ..window }, evidence))
    }
}

/// Samples of the time in which fio's jobs run.
enum Samples {
    Awaited,
    Begun,
    Ended,
    Failed(String),
}

impl Samples {
    fn follow<E: ToString>(
        &mut self,
        is_running: bool,
        begin: impl FnOnce() -> Result<(), E>,
        end: impl FnOnce() -> Result<(), E>,
    ) {
        let (step, then) = match (&self, is_running) {
            (Samples::Awaited, true) => (begin(), Samples::Begun),
            (Samples::Begun, false) => (end(), Samples::Ended),
            _ => return,
        };
        *self = step.map_or_else(|error| Samples::Failed(error.to_string()), |()| then);
    }

    /// Why there are no samples; samples of a part of the window do not count.
    fn lack(self, is_whole: bool) -> Option<String> {
        match self {
            Samples::Failed(error) => Some(error),
            Samples::Ended if is_whole => None,
            _ => Some(
                "there is no profile: the start and end of fio's jobs were not seen; use a longer runtime"
                    .to_owned(),
            ),
        }
    }
}

/// The shortest interval of fio's reports of its progress.
const STATUS: Duration = Duration::from_millis(200);
/// Slices of a window.
const SLICES: u32 = 20;
/// The square of a trial's jobs over its processors, up to which fio can report its progress: each job
/// answers in turn, which takes a round of the scheduler per job. 64 spinning jobs on 2 processors took 3 s
/// per report, and fio ended that much later; after 5 s it fails.
const MOST_WAITING: u64 = 256;

/// Whether fio can report the progress of these jobs without delay.
fn can_say_how_far(workload: &Workload) -> bool {
    let cpus = match workload.cpus_allowed.len() {
        0 => native::cpus::allowed().len(),
        named => named,
    };
    u64::from(workload.numjobs).pow(2) <= MOST_WAITING * cpus as u64
}

/// How often fio reports its progress in the window. A window of unknown length would have no limit of
/// reports.
fn status_interval(workload: &Workload) -> Option<Duration> {
    match workload.length {
        Length::Runtime(runtime) if can_say_how_far(workload) => Some((runtime / SLICES).max(STATUS)),
        _ => None,
    }
}

/// I/Os over time, from fio's reports of its progress.
fn slices(series: &[FioProgress]) -> Vec<Slice> {
    let mut slices: Vec<Slice> = Vec::with_capacity(series.len());
    let mut last = FioProgress::default();
    for done in series.iter().filter(|done| done.window_ns > 0) {
        let ios = done.ios.saturating_sub(last.ios);
        if done.window_ns > last.window_ns {
            slices.push(Slice { end_ns: done.window_ns, ios });
        } else if let Some(slice) = slices.last_mut() {
            slice.ios += ios;
        }
        last = FioProgress { window_ns: last.window_ns.max(done.window_ns), ios: last.ios.max(done.ios) };
    }
    // A report at the end alone says nothing about time.
    if slices.len() < 2 { Vec::new() } else { slices }
}

/// The evidence and the ends of the window of `window_ns` in which fio's jobs ran; those of its life if the
/// jobs were not seen.
fn cut_to_jobs(
    watched: Option<Watched>,
    evidence: Evidence,
    life_ns: [u64; 2],
    window_ns: u64,
) -> (Evidence, [u64; 2]) {
    let Some(watched) = watched else { return (evidence, life_ns) };
    let begin_ns = watched.begin_ns.clamp(life_ns[0], life_ns[1]);
    let ends_ns = [begin_ns, begin_ns.saturating_add(window_ns).min(life_ns[1])];
    (watched.put_into(evidence), ends_ns)
}

/// What fio opens.
enum FioTarget {
    /// The very file that was checked, whatever has its name by now: it is held open, and named by its
    /// descriptor.
    Checked { _held: Descriptor, name: PathBuf },
    /// A namespace of a drive that is taken, for SPDK.
    Namespace { address: PciAddress, nsid: u32 },
}

impl FioTarget {
    fn of(access: &Access, path: &IoPath) -> Result<FioTarget, TrialError> {
        if let (IoPath::Spdk, Some((address, nsid))) = (path, access.namespace()) {
            return Ok(FioTarget::Namespace { address, nsid });
        }
        let held = access.target()?.reopen()?;
        let name = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), held.as_raw_fd()));
        Ok(FioTarget::Checked { _held: held, name })
    }

    fn filename(&self) -> Filename<'_> {
        match self {
            FioTarget::Checked { name, .. } => Filename::File(name),
            FioTarget::Namespace { address, nsid } => Filename::Namespace { address: *address, nsid: *nsid },
        }
    }
}

fn fio_words(result: &FioOutput, cell: &Cell) -> serde_json::Value {
    serde_json::json!({
        "version": result.fio_version,
        "usr_cpu": result.usr_cpu,
        "sys_cpu": result.sys_cpu,
        "ctx": result.ctx,
        "note": fio::note(&cell.path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fio_said_becomes_slices() {
        let series = |of: &[(u64, u64)]| {
            of.iter()
                .map(|(window_ns, ios)| FioProgress { window_ns: *window_ns, ios: *ios })
                .collect::<Vec<_>>()
        };
        let slices = |of: &[(u64, u64)]| {
            slices(&series(of)).iter().map(|slice| (slice.end_ns, slice.ios)).collect::<Vec<_>>()
        };
        // The first report comes before a ms is over, the last two within one ms.
        assert_eq!(
            slices(&[(0, 12), (100, 412), (201, 800), (300, 1200), (300, 1203)]),
            [(100, 412), (201, 388), (300, 403)]
        );
        assert_eq!(slices(&[(300, 1200)]), []);
        assert_eq!(slices(&[]), []);
    }

    /// fio's start was in the samples of its trials.
    #[test]
    fn samples_are_taken_while_jobs_run() {
        let follow = |running: &[bool], begun: Result<(), String>| {
            let (mut samples, calls) = (Samples::Awaited, std::cell::RefCell::new(Vec::new()));
            for (at, is_running) in running.iter().enumerate() {
                let call = |what: &'static str| calls.borrow_mut().push((at, what));
                let begin = || {
                    call("begin");
                    begun.clone()
                };
                samples.follow(*is_running, begin, || {
                    call("end");
                    Ok(())
                });
            }
            (calls.into_inner(), samples)
        };
        let seen = [false, false, true, true, false, false];
        let (calls, whole) = follow(&seen, Ok(()));
        assert_eq!((calls, whole.lack(true)), (vec![(2, "begin"), (4, "end")], None));
        let is_unseen =
            |samples: Samples, is_whole| samples.lack(is_whole).is_some_and(|why| why.contains("not seen"));
        assert!(is_unseen(follow(&seen, Ok(())).1, false), "a part of the window passed for all of it");
        let (calls, none) = follow(&[false, false], Ok(()));
        assert!(calls.is_empty() && is_unseen(none, true));
        let (calls, failed) = follow(&[true, true, false], Err("no counter".to_owned()));
        assert_eq!((calls, failed.lack(true)), (vec![(0, "begin")], Some("no counter".to_owned())));
    }

    #[test]
    fn jobs_that_would_hold_fio_up_are_not_asked() {
        let workload = |numjobs, cpus: u32| Workload {
            numjobs,
            cpus_allowed: (0..cpus).collect(),
            ..Workload::default()
        };
        for (numjobs, cpus, can) in [
            (1, 1, true),
            (16, 1, true),
            (17, 1, false),
            (64, 2, false),
            (32, 4, true),
            (64, 16, true),
            (4096, 256, false),
        ] {
            assert_eq!(can_say_how_far(&workload(numjobs, cpus)), can, "{numjobs} jobs on {cpus}");
        }
        let of = |length| {
            status_interval(&Workload { length, ..workload(1, 1) }).map(|interval| interval.as_millis())
        };
        let seconds = |seconds| of(Length::Runtime(Duration::from_secs(seconds)));
        assert_eq!([seconds(1), seconds(10), of(Length::Ios(7))], [Some(200), Some(500), None]);
    }
}
