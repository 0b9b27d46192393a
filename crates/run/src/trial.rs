//! One trial: its settings are made, the I/O is done by the generator, the evidence judged. What fio does
//! stands in `by_fio`.

use crate::access::Access;
use crate::energy;
use crate::profile::Profiler;
use iopj_core::evidence::{ControlRun, Finding};
use iopj_core::{CostProfile, Evidence, IoPath, RingThread, Workload};
use iopj_engine::{Engine, EngineError, KernelCpus, Pool, Target};
use iopj_host::machine;
use iopj_host::power::PowerState;
use iopj_host::settings::Host;
use iopj_load::fio::Fio;
use iopj_load::native::{self, JobSpec, Moment};
use iopj_load::pass::{self, Did, Pass, Passed};
use iopj_meter::monotonic_raw_ns;
use iopj_probe::{Edge, Probe, Snapshot, Who, marker};
use iopj_store::{Generator, Latency, Measurement, histogram};
use iopj_study::Declared;
use iopj_study::plan::{Cell, Planned};
use iopj_study::{Study, StudyError};
use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
pub(crate) struct Window {
    /// When load went on and off, the ramp included, and the window's begin and end: `CLOCK_MONOTONIC_RAW`.
    pub(crate) load_raw_ns: Vec<u64>,
    pub(crate) window_raw_ns: [u64; 2],
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) window_ns: u64,
    pub(crate) issued: [u64; 2],
    pub(crate) bytes: u64,
    pub(crate) short_ios: u64,
    pub(crate) latency_sum_ns: u64,
    pub(crate) all: Latency,
    pub(crate) reads: Latency,
    pub(crate) writes: Latency,
    pub(crate) series: Vec<iopj_core::Slice>,
    pub(crate) fio: Option<serde_json::Value>,
    /// Why there are no samples of it.
    pub(crate) unsampled: Option<String>,
}

impl Window {
    fn of_native(run: native::Run, cell: &Cell, load_raw_ns: Vec<u64>, window_raw_ns: [u64; 2]) -> Window {
        let [reads, writes, all] = native_latencies(&run);
        Window {
            load_raw_ns,
            window_raw_ns,
            first_ns: run.first_ns,
            last_ns: run.last_ns,
            window_ns: run.last_ns - run.first_ns,
            issued: run.issued,
            bytes: all.count * u64::from(cell.workload.bs),
            short_ios: run.short_ios,
            latency_sum_ns: run.latency_sum_ns,
            all,
            reads,
            writes,
            series: run.series,
            fio: None,
            unsampled: None,
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
            [] => Some(native::cpus::allowed().len() as u32)
                .filter(|cpus| (1..evidence.cpu.cores).contains(cpus)),
            named => Some(named.len() as u32),
        };
    }
}

/// Latencies of reads, of writes and of both, in the store's form.
fn native_latencies(run: &native::Run) -> [Latency; 3] {
    let [reads, writes] = run.latency.each_ref().map(|recorder| {
        let mut histogram = histogram::new();
        recorder.add_to(&mut histogram);
        histogram
    });
    let mut both = reads.clone();
    // Both have the same bounds, so nothing can be out of range.
    let _ = both.add(&writes);
    let mut all = histogram::summary(&both);
    if all.count > 0 {
        // Exact where the histogram rounds.
        all.mean = run.latency_sum_ns as f64 / all.count as f64;
        (all.min, all.max) = (run.min_ns, run.max_ns);
    }
    [histogram::summary(&reads), histogram::summary(&writes), all]
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
        let declared = study.steadystate()?;
        // Under emulation a rate means nothing.
        let steadystate = machine::emulator().map_or(declared, |_| Declared::off());
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
        let (mut window, mut evidence) = self.generate(access, cell, seed, tick)?;
        let (costs, unprofiled) = self.profile(window.unsampled.take());
        let after = PowerState::read(self.host, devices);
        evidence.control = control;
        (evidence.throttles, evidence.power_changes) =
            (before.throttles_until(&after), before.changes_until(&after));
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
            preconditioning,
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
        let spec =
            JobSpec { steadystate, has_pass, ..JobSpec::of_trial(&cell.workload, target, seed, &open) };
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
        let mut evidence = evidence_of(&snapshots.into_inner(), &run, counting)?;
        if let [device] = &mut evidence.devices[..] {
            device.settings.extend(access.set_up());
        }
        let load_raw_ns = vec![begin_ns, window_raw_ns[1]];
        Ok((Window::of_native(run, cell, load_raw_ns, window_raw_ns), evidence))
    }
}

impl Stage<'_> {
    /// Whether the completions of a path can be counted one by one, asked for once in a run. Nobody counts
    /// those of bypass.
    pub(crate) fn can_count(&self, path: &IoPath, probe: &Probe) -> Result<(), String> {
        if path.is_bypass() {
            return Ok(());
        }
        self.can_count.get_or_init(|| pass::check(probe)).clone()
    }

    pub(crate) fn begin_samples(&self) -> Result<(), String> {
        self.profiler.map_or(Ok(()), Profiler::begin)
    }

    pub(crate) fn end_samples(&self) -> Result<(), String> {
        self.profiler.map_or(Ok(()), Profiler::end)
    }

    /// The profile of the window that has just ended, or why there is none although one was asked for;
    /// `unsampled` is such a reason.
    fn profile(&self, unsampled: Option<String>) -> (Option<CostProfile>, Option<String>) {
        match (self.profiler, unsampled) {
            (None, _) => (None, None),
            (Some(_), Some(reason)) => (None, Some(reason)),
            (Some(profiler), None) => match profiler.profile() {
                Ok(profile) => (Some(profile), None),
                Err(reason) => (None, Some(reason)),
            },
        }
    }
}

/// A snapshot, and the reads and writes that the drive had counted by then, where it is asked.
type Counted = (Snapshot, Option<[u64; 2]>);

/// The evidence of a window of ours between two snapshots, with what was counted in the pass before it, or
/// why nothing was.
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

/// How the jobs of a cell open their engines. Submission pollers share the processors of `cpus_allowed` one
/// after the other.
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

/// Adds what a drive has counted itself between two moments, in the place of what the kernel has counted of
/// it.
pub(crate) fn add_counted(evidence: &mut Evidence, first: Option<[u64; 2]>, last: Option<[u64; 2]>) {
    if let ([device], Some(first), Some(last)) = (&mut evidence.devices[..], first, last) {
        device.reads = last[0].saturating_sub(first[0]);
        device.writes = last[1].saturating_sub(first[1]);
        (device.read_sectors, device.write_sectors) = (0, 0);
        device.by_log = true;
    }
}

/// The seed of a trial's offsets, another for each: a later path must not find an earlier one's blocks in a
/// cache.
fn trial_seed(study: u64, planned: Planned) -> u64 {
    study.rotate_left(17) ^ planned.position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// CPU time of all threads that did or served I/O. A submission poller outside of the process
/// (kernels before 5.12) is not in the process' total.
fn cpu_ns(evidence: &Evidence) -> u64 {
    let outside = evidence
        .threads
        .iter()
        .filter(|thread| RingThread::of(&thread.name) == Some(RingThread::KernelPoller));
    evidence.process.user_ns + evidence.process.system_ns + outside.map(|thread| thread.cpu_ns).sum::<u64>()
}

fn power_json(power: &PowerState) -> serde_json::Value {
    serde_json::to_value(power).unwrap_or_default()
}
