//! One trial: its settings are made, the I/O is done by the generator, the evidence judged.

use crate::access::Access;
use crate::counting::{self, Did, Pass, Passed};
use crate::energy;
use crate::fio::{self, Filename, Fio, FioWatch, Phase};
use crate::native::{self, JobSpec, Moment};
use crate::plan::{Cell, Planned};
use crate::power::PowerState;
use crate::profile::Profiler;
use crate::settings::Host;
use crate::steadystate::Declared;
use crate::study::{Study, StudyError};
use iopj_core::evidence::{ControlRun, Finding};
use iopj_core::{CostProfile, Evidence, IoPath, RingThread, Workload};
use iopj_engine::target::Descriptor;
use iopj_engine::{Engine, EngineError, KernelCpus, PciAddress, Pool, Target};
use iopj_meter::monotonic_raw_ns;
use iopj_probe::{Edge, Probe, Snapshot, Who, marker};
use iopj_store::{Generator, Latency, Measurement, histogram};
use std::cell::{OnceCell, RefCell};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// What all trials of a run share.
pub(crate) struct Stage<'a> {
    pub(crate) host: &'a Host,
    pub(crate) fio: Option<&'a Fio>,
    pub(crate) profiler: Option<&'a Profiler>,
    pub(crate) seed: u64,
    pub(crate) steadystate: Declared,
    pub(crate) stop: &'a AtomicBool,
    /// Whether completions can be counted one by one, once it was asked.
    pub(crate) can_count: OnceCell<Result<(), String>>,
}

/// A measurement and the clock at its window's ends (`CLOCK_MONOTONIC`, ns).
pub(crate) struct Measured {
    pub(crate) measurement: Measurement,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// When the trial's load went on and off, its ramp included: `CLOCK_MONOTONIC_RAW`.
    pub(crate) load_raw_ns: Vec<u64>,
    /// Why there is no profile although one was asked for.
    pub(crate) unprofiled: Option<String>,
}

/// A window as either generator reports it.
struct Window {
    /// When load went on and off, the ramp included, and the window's begin and end: `CLOCK_MONOTONIC_RAW`.
    load_raw_ns: Vec<u64>,
    window_raw_ns: [u64; 2],
    first_ns: u64,
    last_ns: u64,
    window_ns: u64,
    issued: [u64; 2],
    bytes: u64,
    short_ios: u64,
    latency_sum_ns: u64,
    all: Latency,
    reads: Latency,
    writes: Latency,
    series: Vec<iopj_store::Slice>,
    fio: Option<serde_json::Value>,
}

impl Window {
    fn of_native(run: native::Run, cell: &Cell, load_raw_ns: Vec<u64>, window_raw_ns: [u64; 2]) -> Window {
        Window {
            load_raw_ns,
            window_raw_ns,
            first_ns: run.first_ns,
            last_ns: run.last_ns,
            window_ns: run.last_ns - run.first_ns,
            issued: run.issued,
            bytes: run.all.count * u64::from(cell.workload.bs),
            short_ios: run.short_ios,
            latency_sum_ns: run.latency_sum_ns,
            all: run.all,
            reads: run.reads,
            writes: run.writes,
            series: run.series,
            fio: None,
        }
    }

    /// Adds what the generator knows to what was counted.
    fn put_into(&self, evidence: &mut Evidence, workload: &Workload) {
        evidence.window_ns = self.window_ns;
        evidence.numjobs = workload.numjobs;
        evidence.iodepth = workload.iodepth;
        let bs = u64::from(workload.bs);
        let [reads, writes] = self.issued;
        (evidence.reads, evidence.read_bytes) = (reads, reads * bs);
        (evidence.writes, evidence.write_bytes) = (writes, writes * bs);
        evidence.latency_sum_ns = self.latency_sum_ns;
        evidence.allowed_cpus = match &workload.cpus_allowed[..] {
            [] => Some(native::cpus::allowed().len() as u32).filter(|cpus| (1..evidence.cpu.cores).contains(cpus)),
            named => Some(named.len() as u32),
        };
    }

    /// `ends_ns` are the window's on `CLOCK_MONOTONIC`.
    fn of_fio(
        result: &fio::FioResult,
        cell: &Cell,
        load_raw_ns: Vec<u64>,
        window_raw_ns: [u64; 2],
        ends_ns: [u64; 2],
    ) -> Window {
        let (reads, writes, all) = fio_latencies(result);
        Window {
            load_raw_ns,
            window_raw_ns,
            first_ns: ends_ns[0],
            last_ns: ends_ns[1],
            window_ns: result.window_ns,
            issued: [result.reads.ios, result.writes.ios],
            bytes: result.reads.bytes + result.writes.bytes,
            short_ios: result.reads.short_ios + result.writes.short_ios,
            latency_sum_ns: (all.mean * all.count as f64) as u64,
            all,
            reads,
            writes,
            series: Vec::new(),
            fio: Some(fio_words(result, cell)),
        }
    }
}

impl<'a> Stage<'a> {
    /// What the trials of `study` share: fio and the profiler where there are any.
    ///
    /// # Errors
    /// The study's rule for the ramp's end cannot be read.
    pub(crate) fn new(
        host: &'a Host,
        (fio, profiler): (Option<&'a Fio>, Option<&'a Profiler>),
        study: &Study,
        seed: u64,
        stop: &'a AtomicBool,
    ) -> Result<Stage<'a>, StudyError> {
        let steadystate = Declared::of(study)?;
        Ok(Stage { host, fio, profiler, seed, steadystate, stop, can_count: OnceCell::new() })
    }
}

impl Stage<'_> {
    /// Runs a cell once.
    ///
    /// # Errors
    /// What failed: a set-up, an I/O, a counter that cannot be read.
    pub(crate) fn measure(
        &self,
        access: &Access<'_>,
        cell: &Cell,
        planned: Planned,
        control: Option<ControlRun>,
        preconditioning: Option<String>,
        tick: &mut dyn FnMut(),
    ) -> Result<Measured, String> {
        let devices = access.devices();
        let before = PowerState::read(self.host, devices);
        marker::announce(planned.position as u32);
        let seed = trial_seed(self.seed, planned);
        let (window, mut evidence) = self.generate(access, cell, seed, tick)?;
        let (costs, unprofiled) = self.profile();
        let after = PowerState::read(self.host, devices);
        evidence.control = control;
        (evidence.throttles, evidence.power_changes) = (before.throttles_until(&after), before.changes_until(&after));
        window.put_into(&mut evidence, &cell.workload);
        let (observed, verdict) = iopj_probe::assess(&cell.path, &evidence);
        let per_io = |count: u64| count as f64 / evidence.ios().max(1) as f64;
        let interrupts: Option<u64> = evidence.devices.iter().map(|device| device.interrupts).sum();
        let mixed = cell.workload.rw.is_mixed();
        let measurement = Measurement {
            window_ns: window.window_ns,
            ios: window.all.count,
            bytes: window.bytes,
            reads: window.reads.count,
            writes: window.writes.count,
            short_ios: window.short_ios,
            latency: window.all,
            read_latency: mixed.then_some(window.reads),
            write_latency: mixed.then_some(window.writes),
            series: window.series,
            cpu_percent: 100.0 * cpu_ns(&evidence) as f64 / window.window_ns.max(1) as f64,
            context_switches_per_io: per_io(
                evidence.process.voluntary_switches + evidence.process.involuntary_switches,
            ),
            interrupts_per_io: interrupts.filter(|_| !evidence.devices.is_empty()).map(per_io),
            system_calls_per_io: evidence.engine.as_ref().and_then(|engine| engine.system_calls).map(per_io),
            achieved_depth: window.latency_sum_ns as f64 / window.window_ns.max(1) as f64,
            preconditioning: preconditioning.filter(|_| cell.workload.rw.writes()),
            conditions: iopj_probe::conditions(&evidence),
            evidence,
            observed,
            verdict,
            power_state: [power_json(&before), power_json(&after)],
            fio: window.fio,
            costs,
            window_raw_ns: Some(window.window_raw_ns),
            energy: Vec::new(),
        };
        let Window { first_ns, last_ns, load_raw_ns, .. } = window;
        Ok(Measured { measurement, first_ns, last_ns, load_raw_ns, unprofiled })
    }

    /// Has the generator do the I/O of a trial.
    fn generate(
        &self,
        access: &Access<'_>,
        cell: &Cell,
        seed: u64,
        tick: &mut dyn FnMut(),
    ) -> Result<(Window, Evidence), String> {
        let tick = &mut || {
            self.profiler.inspect(|profiler| profiler.tick());
            tick();
        };
        let done = match (cell.generator, self.fio) {
            (Generator::Native, _) => self.native(access, cell, seed, tick),
            (Generator::Fio, Some(fio)) => self.fio(fio, access, cell, seed, tick),
            (Generator::Fio, None) => Err("fio is not there".to_owned()),
        };
        // A trial that failed has left its window open.
        let ended = self.end_samples();
        done.and_then(|done| ended.map(|()| done))
    }

    fn native(
        &self,
        access: &Access<'_>,
        cell: &Cell,
        seed: u64,
        tick: &mut dyn FnMut(),
    ) -> Result<(Window, Evidence), String> {
        let (target, probe) = (access.target()?, access.probe()?);
        let can_count = self.can_count(&cell.path, probe);
        let open = open_engine(cell, target);
        let has_pass = can_count.is_ok() && !cell.path.is_bypass();
        let steadystate = self.steadystate.rule(cell.workload.ramp_time);
        let spec = JobSpec { steadystate, has_pass, ..JobSpec::of_trial(&cell.workload, target, seed, &open) };
        let passed = RefCell::new((None, None));
        let snapshots = RefCell::new(Vec::with_capacity(2));
        let mut bracket = |moment, jobs: &[i32]| {
            let own = energy::own_threads();
            let who = Who::ThisProcess { jobs, own: &own };
            let snapshot = |edge| probe.snapshot(who, edge).map_err(|error| error.to_string());
            let mut snapshots = snapshots.borrow_mut();
            let (pass, passed) = &mut *passed.borrow_mut();
            match moment {
                Moment::Pass => {
                    *pass = Some((Pass::begin(probe, snapshot(Edge::Begin)?), monotonic_raw_ns()));
                    Ok(())
                }
                Moment::Window => {
                    *passed = pass.take().map(|(pass, began_raw_ns): (Pass, u64)| (pass.end(), began_raw_ns));
                    // The drive is asked for its counts outside of what is counted here.
                    let counted = access.counted()?;
                    snapshots.push((snapshot(Edge::Begin)?, counted));
                    self.begin_samples()
                }
                Moment::End => {
                    self.end_samples()?;
                    let last = snapshot(Edge::End)?;
                    snapshots.push((last, access.counted()?));
                    Ok(())
                }
            }
        };
        let begin_ns = monotonic_raw_ns();
        let run = native::run(&spec, self.stop, &mut bracket, tick)?;
        let window_raw_ns = [run.first_ns, run.last_ns].map(energy::raw_ns);
        let (_, passed) = passed.into_inner();
        // Before a window without a ramp the jobs wait for each other.
        let has_ramp = spec.steadystate.is_some() || !cell.workload.ramp_time.is_zero();
        let without_ramp = passed.as_ref().map_or(window_raw_ns[0], |(_, began_raw_ns)| *began_raw_ns);
        let begin_ns = if has_ramp { begin_ns } else { without_ramp };
        let counting = passed.map(|(passed, _)| passed).ok_or(can_count.err());
        let evidence = evidence_of(&snapshots.into_inner(), &run, counting)?;
        let load_raw_ns = vec![begin_ns, window_raw_ns[1]];
        Ok((Window::of_native(run, cell, load_raw_ns, window_raw_ns), evidence))
    }

    /// fio for the ramp, for the pass in which completions are counted, and measured. The drive's counters bracket the life of the measured process, whose I/O is all of
    /// the window. CPU time, context switches and energy are those of its jobs, which are watched from outside; where their begin
    /// was not seen, those of its life, that holds some 0.15 s and 200 switches of fio's start.
    fn fio(
        &self,
        fio: &Fio,
        access: &Access<'_>,
        cell: &Cell,
        seed: u64,
        tick: &mut dyn FnMut(),
    ) -> Result<(Window, Evidence), String> {
        let (extent, checked) = (access.extent(), FioTarget::of(access, &cell.path)?);
        let mut run = |phase, look: &mut dyn FnMut(u32) -> Duration| {
            let (path, workload, filename) = (cell.path, &cell.workload, checked.filename());
            let job = fio::Job { path, workload, filename, offset: extent.offset, size: extent.len, seed, phase };
            fio.run(&job, self.stop, tick, look).map_err(|error| error.to_string())
        };
        let probe = access.probe()?;
        let snapshot = |edge| probe.snapshot(Who::Child, edge).map_err(|error| error.to_string());
        let mut load_raw_ns = Vec::with_capacity(4);
        if !cell.workload.ramp_time.is_zero() {
            load_raw_ns.push(monotonic_raw_ns());
            run(Phase::Ramp, &mut |_| Duration::MAX)?;
            load_raw_ns.push(monotonic_raw_ns());
        }
        let completions = match self.can_count(&cell.path, probe) {
            _ if cell.path.is_bypass() => None,
            Err(reason) => Some(Finding::Unclear(reason)),
            Ok(()) => Some(counting::pass_of_fio(probe, &cell.workload, |extent, look| {
                load_raw_ns.push(monotonic_raw_ns());
                let (result, process) = run(Phase::Pass(extent), look)?;
                load_raw_ns.push(monotonic_raw_ns());
                Ok((result.reads.ios + result.writes.ios, process))
            })),
        };
        // One that failed has no end.
        load_raw_ns.truncate(load_raw_ns.len() / 2 * 2);
        let counted = access.counted()?;
        let before = snapshot(Edge::Begin)?;
        self.begin_samples()?;
        let mut watch = FioWatch::new(probe, &cell.path, &cell.workload);
        let first_ns = native::monotonic_ns();
        marker::begin();
        let result = run(Phase::Measured, &mut |child| watch.look(child));
        marker::end();
        let (result, process) = result?;
        let last_ns = native::monotonic_ns();
        self.end_samples()?;
        let mut evidence = Evidence { process, ..before.until(&snapshot(Edge::End)?) };
        add_counted(&mut evidence, counted, access.counted()?);
        if result.total_errors > 0 {
            return Err(format!("fio counts {} failed I/Os", result.total_errors));
        }
        evidence.completions = completions;
        let (evidence, ends_ns) = cut_to_jobs(watch, evidence, [first_ns, last_ns], result.window_ns);
        let window_raw_ns = ends_ns.map(energy::raw_ns);
        load_raw_ns.extend([energy::raw_ns(first_ns), window_raw_ns[1]]);
        Ok((Window::of_fio(&result, cell, load_raw_ns, window_raw_ns, [first_ns, last_ns]), evidence))
    }
}

impl Stage<'_> {
    /// Whether the completions of a path can be counted one by one, asked for once in a run. Nobody counts those of bypass.
    fn can_count(&self, path: &IoPath, probe: &Probe) -> Result<(), String> {
        if path.is_bypass() {
            return Ok(());
        }
        self.can_count.get_or_init(|| counting::check(probe)).clone()
    }

    fn begin_samples(&self) -> Result<(), String> {
        self.profiler.map_or(Ok(()), Profiler::begin)
    }

    fn end_samples(&self) -> Result<(), String> {
        self.profiler.map_or(Ok(()), Profiler::end)
    }

    /// The profile of the window that has just ended, or why there is none although one was asked for.
    fn profile(&self) -> (Option<CostProfile>, Option<String>) {
        match self.profiler.map(Profiler::profile) {
            None => (None, None),
            Some(Ok(profile)) => (Some(profile), None),
            Some(Err(reason)) => (None, Some(reason)),
        }
    }
}

/// A snapshot, and the reads and writes that the drive had counted by then, where it is asked.
type Counted = (Snapshot, Option<[u64; 2]>);

/// The evidence of a window of ours between two snapshots, with what was counted in the pass before it, or why nothing was.
fn evidence_of(
    snapshots: &[Counted],
    run: &native::Run,
    counting: Result<Passed, Option<String>>,
) -> Result<Evidence, String> {
    let [(first, counted), (last, counted_last)] = snapshots else {
        return Err("the window was not bracketed".to_owned());
    };
    let did = Did::Native { ios: run.pass_ios, engine: &run.engine };
    let mut evidence = Evidence {
        engine: Some(run.engine.clone()),
        steadystate: run.steadystate,
        completions: match counting {
            Ok(passed) => Some(passed.evidence(first, did)),
            Err(reason) => reason.map(Finding::Unclear),
        },
        ..first.until(last)
    };
    add_counted(&mut evidence, *counted, *counted_last);
    Ok(evidence)
}

/// The evidence and the ends of the window in which fio's jobs ran, which took `window_ns`; where their begin was not seen, those of its life.
fn cut_to_jobs(watch: FioWatch<'_>, evidence: Evidence, life_ns: [u64; 2], window_ns: u64) -> (Evidence, [u64; 2]) {
    let Some(watched) = watch.finish(window_ns) else { return (evidence, life_ns) };
    let begin_ns = watched.begin_ns.clamp(life_ns[0], life_ns[1]);
    let ends_ns = [begin_ns, begin_ns.saturating_add(window_ns).min(life_ns[1])];
    (watched.put_into(evidence), ends_ns)
}

/// How the jobs of a cell open their engines. Submission pollers share the processors of `cpus_allowed` one after the other.
pub(crate) fn open_engine<'a>(
    cell: &'a Cell,
    target: &'a Target,
) -> impl Fn(&Rc<Pool>, u32) -> Result<Box<dyn Engine>, EngineError> + Sync + 'a {
    let (allowed, next) = (&cell.workload.cpus_allowed, AtomicUsize::new(0));
    move |pool, depth| {
        let poller = allowed.get(next.fetch_add(1, Ordering::Relaxed) % allowed.len().max(1)).copied();
        let cpus = KernelCpus { poller, workers: allowed.clone() };
        iopj_engine::open_on(cell.path, target, pool, depth, &cpus)
    }
}

/// What fio is given to open.
enum FioTarget {
    /// The very file that was checked, whatever stands under its name by now: held open, and its name by that.
    Checked { _held: Descriptor, name: PathBuf },
    /// A namespace of a drive that was taken, for SPDK.
    Namespace { address: PciAddress, nsid: u32 },
}

impl FioTarget {
    fn of(access: &Access<'_>, path: &IoPath) -> Result<FioTarget, String> {
        if let (IoPath::Spdk, Some((address, nsid))) = (path, access.namespace()) {
            return Ok(FioTarget::Namespace { address, nsid });
        }
        let held = access.target()?.reopen().map_err(|error| error.to_string())?;
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

/// Adds what a drive has counted itself between two moments, in the place of what the kernel has counted of it.
fn add_counted(evidence: &mut Evidence, first: Option<[u64; 2]>, last: Option<[u64; 2]>) {
    if let ([device], Some(first), Some(last)) = (&mut evidence.devices[..], first, last) {
        device.reads = last[0].saturating_sub(first[0]);
        device.writes = last[1].saturating_sub(first[1]);
        (device.read_sectors, device.write_sectors) = (0, 0);
        device.by_log = true;
    }
}

/// The seed of a trial's offsets, another for each: a later path must not find an earlier one's blocks in a cache.
fn trial_seed(study: u64, planned: Planned) -> u64 {
    study.rotate_left(17) ^ planned.position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// CPU time of all threads that did or served I/O. A submission poller outside of the process
/// (kernels before 5.12) is not in the process' total.
fn cpu_ns(evidence: &Evidence) -> u64 {
    let outside =
        evidence.threads.iter().filter(|thread| RingThread::of(&thread.name) == Some(RingThread::KernelPoller));
    evidence.process.user_ns + evidence.process.system_ns + outside.map(|thread| thread.cpu_ns).sum::<u64>()
}

fn power_json(power: &PowerState) -> serde_json::Value {
    serde_json::to_value(power).unwrap_or_default()
}

fn fio_words(result: &fio::FioResult, cell: &Cell) -> serde_json::Value {
    serde_json::json!({
        "version": result.fio_version,
        "usr_cpu": result.usr_cpu,
        "sys_cpu": result.sys_cpu,
        "ctx": result.ctx,
        "note": fio::note(&cell.path),
    })
}

/// Reads, writes and both, in the store's form.
pub(crate) fn fio_latencies(result: &fio::FioResult) -> (Latency, Latency, Latency) {
    let convert = |direction: &fio::Direction| {
        let Some(latency) = &direction.latency else { return (Latency::default(), histogram::new()) };
        let mut bins = histogram::new();
        for bin in latency.histogram.iter_recorded() {
            bins.saturating_record_n(bin.value_iterated_to(), bin.count_at_value());
        }
        let mut summary = histogram::summary(&bins);
        (summary.count, summary.mean, summary.stddev) = (direction.ios, latency.mean_ns, latency.stddev_ns);
        (summary.min, summary.max) = (latency.min_ns, latency.max_ns);
        if let Some(percentiles) = &latency.percentiles {
            (summary.p50, summary.p95) = (percentiles.p50_ns, percentiles.p95_ns);
            (summary.p99, summary.p99_9) = (percentiles.p99_ns, percentiles.p99_9_ns);
        }
        (summary, bins)
    };
    let ((reads, mut bins), (writes, write_bins)) = (convert(&result.reads), convert(&result.writes));
    let all = match (reads.count, writes.count) {
        (_, 0) => reads.clone(),
        (0, _) => writes.clone(),
        (read, write) => {
            // Both have the same bounds, so nothing can be out of range.
            let _ = bins.add(&write_bins);
            let mut all = histogram::summary(&bins);
            all.count = read + write;
            all.mean = (reads.mean * read as f64 + writes.mean * write as f64) / all.count as f64;
            (all.min, all.max) = (reads.min.min(writes.min), reads.max.max(writes.max));
            all
        }
    };
    (reads, writes, all)
}
