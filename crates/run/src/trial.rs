//! One trial: the generator does the I/O, and the evidence is judged.

mod beside;
mod by_fio;
mod by_kinds;
mod by_native;
mod by_program;
mod commands;
mod window;

use crate::error::TrialError;
use crate::profile::Profiler;
use crate::program_error::ProgramError;
use crate::target::Access;
use crate::tools::Tools;
use crate::traces::Traces;
use beside::Beside;
pub(crate) use by_kinds::PROOF;
use by_kinds::Proof;
use iopj_core::evidence::ControlRun;
use iopj_core::{CostProfile, Evidence, Generator, OpenLoad, RingThread};
use iopj_host::machine;
use iopj_host::power::PowerState;
use iopj_host::settings::Host;
use iopj_load::native::Pacing;
use iopj_load::pass;
use iopj_probe::sampling::SamplingError;
use iopj_probe::{CompletionsError, Probe, marker};
use iopj_record::Measurement;
use iopj_study::SteadyStateKeys;
use iopj_study::plan::{Cell, Planned};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use window::Window;

/// Runs the trials of a study, one at a time.
pub(crate) struct TrialRunner<'a> {
    host: Host,
    tools: Tools,
    pub(crate) seed: u64,
    pub(crate) steadystate: SteadyStateKeys,
    pub(crate) stop: &'a AtomicBool,
    /// Whether completions can be counted one by one; found once.
    can_count: OnceCell<Result<(), CompletionsError>>,
    /// What pacing takes by itself under each open load so far.
    pacers: RefCell<HashMap<(OpenLoad, Pacing), f64>>,
    traces: Traces,
    /// What is to be said to the user.
    said: RefCell<Vec<String>>,
}

/// A trial's place in the order of its study, and the seed of its offsets.
#[derive(Clone, Copy)]
struct TrialId {
    position: u64,
    seed: u64,
}

/// A measurement and the clock at its window's ends (`CLOCK_MONOTONIC`, ns).
pub(crate) struct Measured {
    pub(crate) measurement: Measurement,
    /// `None` where another host measured, by another clock.
    pub(crate) clock_ns: Option<[u64; 2]>,
    /// When the trial's load went on and off, its ramp included: `CLOCK_MONOTONIC_RAW`.
    pub(crate) load_raw_ns: Vec<u64>,
    /// Why there is no profile, if one was asked for.
    pub(crate) unprofiled: Option<String>,
}

impl<'a> TrialRunner<'a> {
    /// For trials by our own jobs, by fio or of a program, as the tools say; with a rule for the ramp's end.
    pub(crate) fn new(
        host: &Host,
        tools: Tools,
        seed: u64,
        declared: SteadyStateKeys,
        stop: &'a AtomicBool,
    ) -> TrialRunner<'a> {
        // Under emulation a rate means nothing.
        let steadystate = machine::emulator().map_or(declared, |_| SteadyStateKeys::off());
        TrialRunner {
            host: host.clone(),
            tools,
            seed,
            steadystate,
            stop,
            can_count: OnceCell::new(),
            pacers: RefCell::default(),
            traces: Traces::default(),
            said: RefCell::default(),
        }
    }

    /// The target is reached by another connection from now on.
    pub(crate) fn forget_ways(&self) {
        self.tools.adaptive.forget_ways();
    }
}

impl TrialRunner<'_> {
    /// Runs a cell once.
    ///
    /// # Errors
    /// Set-up or an I/O failed, or a counter cannot be read.
    pub(crate) fn measure(
        &self,
        access: &Access,
        cell: &Cell,
        planned: Planned,
        control: Option<ControlRun>,
        preconditioning: Option<String>,
        tick: &mut dyn FnMut(),
    ) -> Result<Measured, TrialError> {
        marker::announce(planned.position as u32);
        if let Some(program) = &self.tools.program {
            return self.by_program(program, access, cell, tick);
        }
        let before = PowerState::read(&self.host, access.devices());
        let trial = TrialId { position: planned.position, seed: trial_seed(self.seed, planned) };
        let proofs = self.proofs(access, cell, control.as_ref(), trial, tick)?;
        let (mut window, mut evidence) = self.generate(access, cell, &proofs, trial, tick)?;
        evidence.fabric = access.fabric_evidence().map(Box::new);
        let (costs, unprofiled) = self.profile(window.unsampled.take());
        let after = PowerState::read(&self.host, access.devices());
        (evidence.control, evidence.throttles, evidence.power_changes) =
            (control, before.throttles_until(&after), before.changes_until(&after));
        window.put_into(&mut evidence, &cell.workload);
        let kinds = by_kinds::windows(cell, proofs, std::mem::take(&mut window.kinds));
        let (observed, verdict) = match kinds.first() {
            None => iopj_probe::assess(&cell.path, &evidence),
            Some(own) => (own.observed.clone(), by_kinds::verdict(&kinds)),
        };
        let clock_ns = Some([window.first_ns, window.last_ns]);
        let load_raw_ns = std::mem::take(&mut window.load_raw_ns);
        let measurement = Measurement {
            preconditioning,
            conditions: iopj_probe::conditions(&cell.path, &evidence),
            observed,
            verdict,
            power_state: [power_json(&before), power_json(&after)].map(Into::into),
            costs,
            kinds,
            ..figures(window, evidence, cell.workload.rw.is_mixed())
        };
        Ok(Measured { measurement, clock_ns, load_raw_ns, unprofiled })
    }

    /// Lets the generator do the I/O of a trial.
    fn generate(
        &self,
        access: &Access,
        cell: &Cell,
        proofs: &[Proof],
        trial: TrialId,
        tick: &mut dyn FnMut(),
    ) -> Result<(Window, Evidence), TrialError> {
        let tick = &mut || {
            if let Some(profiler) = &self.tools.profiler {
                profiler.tick();
            }
            tick();
        };
        let beside = Beside::start(&cell.workload, self.stop)?;
        let done = match (cell.generator, self.tools.fio.as_ref()) {
            (Generator::Native, _) if !proofs.is_empty() => {
                self.by_kinds(access, cell, &beside, proofs, trial, tick)
            }
            (Generator::Native, _) => self.by_native(access, cell, Some(&beside), trial, tick),
            (Generator::Fio, Some(fio)) => self.by_fio(fio, access, cell, &beside, trial, tick),
            (Generator::Fio, None) => Err(TrialError::NoFio),
            (Generator::Program, _) => Err(ProgramError::NoProgram.into()),
        };
        let done = done.map(|(window, evidence)| beside.put_into(window, evidence));
        // A trial that failed has left its window open.
        let ended = self.end_samples();
        done.and_then(|done| Ok(ended.map(|()| done)?))
    }

    /// Whether the completions of a trial can be counted one by one; tried once per run. Those of a drive
    /// that is taken are not counted.
    fn can_count(&self, is_taken: bool, probe: &Probe) -> Result<(), &CompletionsError> {
        if is_taken {
            return Ok(());
        }
        self.can_count.get_or_init(|| pass::check(probe)).as_ref().copied()
    }

    fn begin_samples(&self) -> Result<(), SamplingError> {
        self.tools.profiler.as_ref().map_or(Ok(()), Profiler::begin)
    }

    fn end_samples(&self) -> Result<(), SamplingError> {
        self.tools.profiler.as_ref().map_or(Ok(()), Profiler::end)
    }

    /// The profile of the window that has just ended, or why there is none if one was asked for; `unsampled`
    /// is such a reason.
    fn profile(&self, unsampled: Option<String>) -> (Option<CostProfile>, Option<String>) {
        match (self.tools.profiler.as_ref(), unsampled) {
            (None, _) => (None, None),
            (Some(_), Some(reason)) => (None, Some(reason)),
            (Some(profiler), None) => match profiler.profile() {
                Ok(profile) => (Some(profile), None),
                Err(reason) => (None, Some(reason.to_string())),
            },
        }
    }
}

/// What a window measured.
fn figures(window: Window, evidence: Evidence, mixed: bool) -> Measurement {
    let per_io = |count: u64| count as f64 / evidence.ios().max(1) as f64;
    let interrupts: Option<u64> = evidence.devices.iter().map(|device| device.interrupts).sum();
    let latencies = window.latencies;
    Measurement {
        window_ns: window.window_ns,
        ios: latencies.all.count,
        bytes: window.bytes,
        reads: latencies.reads.count,
        writes: latencies.writes.count,
        short_ios: window.short_ios,
        latency: latencies.all,
        read_latency: mixed.then_some(latencies.reads),
        write_latency: mixed.then_some(latencies.writes),
        series: window.series,
        cpu_percent: 100.0 * cpu_ns(&evidence) as f64 / window.window_ns.max(1) as f64,
        context_switches_per_io: per_io(
            evidence.process.voluntary_switches + evidence.process.involuntary_switches,
        ),
        interrupts_per_io: interrupts.filter(|_| !evidence.devices.is_empty()).map(per_io),
        system_calls_per_io: evidence.engine.as_ref().and_then(|engine| engine.system_calls).map(per_io),
        achieved_depth: window.latency_sum_ns as f64 / window.window_ns.max(1) as f64,
        evidence,
        fio: window.fio,
        window_raw_ns: Some(window.window_raw_ns),
        open: window.open,
        corunner: window.corunner,
        ..Measurement::default()
    }
}

/// The seed of a trial's offsets. Each trial has another, so a later path does not find an earlier one's
/// blocks in a cache.
fn trial_seed(study: u64, planned: Planned) -> u64 {
    study.rotate_left(17) ^ planned.position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// CPU time of all threads that did or served I/O. Before Linux 5.12 a submission poller is outside of the
/// process, so its time is added.
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
