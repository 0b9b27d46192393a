//! What a store holds: the study, its trials, and what each trial measured.

use crate::corunner_window::CorunnerWindow;
use crate::kind_window::KindWindow;
use crate::latency::Latency;
use crate::open_window::OpenWindow;
use crate::program_window::ProgramWindow;
use crate::rate::per_second;
use crate::repeat;
use crate::repeat::Repeat;
use crate::shared_value::SharedValue;
use iopj_core::evidence::CpuTimes;
use iopj_core::fabric::NetworkBaseline;
use iopj_core::{
    Conditions, CostProfile, Evidence, Generator, IoPath, Observed, Sequential, Slice, TrialEnergy, Verdict,
    Workload,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The study as planned, with its provenance. Written once, when the store is made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StudyRecord {
    /// The study's name.
    pub name: String,
    /// The study as TOML, with what the command line changed.
    pub text: String,
    /// The seed that orders the trials and draws the offsets.
    pub seed: u64,
    /// Trials in the plan.
    pub planned_trials: u64,
    /// The target as it was named.
    pub target: String,
    /// The id in the header of a file that iopj made as the target.
    pub file_id: Option<String>,
    /// iopj made the target for this study and removes it when the study is complete.
    #[serde(default)]
    pub made_target: bool,
    /// Machine, kernel, drive, versions: names and values.
    pub provenance: BTreeMap<String, String>,
    /// What to know about the target, such as unwritten blocks.
    pub warnings: Vec<String>,
    /// Paths of the study that this machine does not offer for the target.
    pub unavailable: Vec<Unavailable>,
    /// What emulated the processor, such as `QEMU TCG`: then no time means anything, and only counts,
    /// verdicts and orderings are results.
    #[serde(default)]
    pub emulated: Option<String>,
    /// What decided how many blocks there are, if that was not fixed in advance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential: Option<Sequential>,
    /// The blocks that were measured again, or are to be. In a table of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeats: Vec<Repeat>,
    /// The network between the two hosts by itself, in the order of its measurements. In a table of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkBaseline>,
}

impl StudyRecord {
    /// How often the trials may have been looked at to decide whether there are enough of them, also after
    /// blocks were measured again: multiply every p-value by it. 1 if their number was fixed in advance.
    pub fn looks(&self) -> u32 {
        let with_repeats = |looks: u32| looks.saturating_add(repeat::batches(&self.repeats));
        self.sequential.map_or(1, |sequential| with_repeats(sequential.looks()))
    }

    /// True if the trials of this replicate count.
    pub fn is_in_force(&self, replicate: u32) -> bool {
        repeat::is_in_force(&self.repeats, replicate)
    }

    /// The replicate that replaces this one.
    pub fn replaced_by(&self, replicate: u32) -> Option<u32> {
        let repeat = self.repeats.iter().find(|repeat| repeat.replaces == replicate && repeat.is_whole());
        repeat.map(|repeat| repeat.block)
    }

    /// Trials that others replace, and trials of repeats that are not whole: neither count.
    pub fn out_of_force(&self) -> [u64; 2] {
        let replaced = self.repeats.iter().filter(|repeat| repeat.is_whole()).map(|repeat| repeat.replaced);
        let waiting = self.repeats.iter().filter(|repeat| !repeat.is_whole()).map(|repeat| repeat.done);
        [replaced.sum(), waiting.sum()]
    }
}

/// A path that the study asked for and that does not work here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// The path.
    pub path: IoPath,
    /// Why it does not work.
    pub reason: String,
    /// What would make it work.
    pub remedy: String,
}

/// One trial: a path, a workload, settings, a replicate, measured once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The I/O path that was asked for.
    pub path: IoPath,
    /// The workload.
    pub workload: Workload,
    /// The study's settings while it ran, by name.
    pub settings: BTreeMap<String, String>,
    /// What issued the I/O.
    pub generator: Generator,
    /// The replicate, from 0; each is one block with every cell once.
    pub replicate: u32,
    /// Position in the study's order, from 0.
    pub position: u64,
    /// Wall time of the start in ns since 1970.
    pub started_unix_ns: u64,
    /// Time from the end of the previous trial's window to the start of this one's in ns, on one clock,
    /// without ramp and settings; absent for a run's first trial.
    pub gap_ns: Option<u64>,
    /// The outcome.
    pub outcome: Outcome,
}

impl Trial {
    /// A study's first trial, by iopj's own loop and without settings.
    pub fn new(path: IoPath, workload: Workload, outcome: Outcome) -> Trial {
        Trial {
            path,
            workload,
            settings: BTreeMap::new(),
            generator: Generator::Native,
            replicate: 0,
            position: 0,
            started_unix_ns: 0,
            gap_ns: None,
            outcome,
        }
    }
}

/// The outcome of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was measured.
    Measured(Box<Measurement>),
    /// Why it failed. The first I/O that fails ends a trial, as in fio; the text counts the failed ones by
    /// error.
    Failed(String),
}

impl Outcome {
    /// The measurement, if there is one.
    pub fn measurement(&self) -> Option<&Measurement> {
        match self {
            Outcome::Measured(measurement) => Some(measurement),
            Outcome::Failed(_) => None,
        }
    }

    /// The measurement, to be changed.
    pub fn measurement_mut(&mut self) -> Option<&mut Measurement> {
        match self {
            Outcome::Measured(measurement) => Some(measurement),
            Outcome::Failed(_) => None,
        }
    }
}

impl From<Measurement> for Outcome {
    fn from(measurement: Measurement) -> Outcome {
        Outcome::Measured(Box::new(measurement))
    }
}

/// What one trial measured over its window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Length of the window in ns.
    pub window_ns: u64,
    /// I/Os that moved all their bytes.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Reads among `ios`.
    pub reads: u64,
    /// Writes among `ios`.
    pub writes: u64,
    /// I/Os that moved fewer bytes than asked for.
    pub short_ios: u64,
    /// Latency of all I/Os.
    pub latency: Latency,
    /// Latency of the reads of a mixed workload.
    pub read_latency: Option<Latency>,
    /// Latency of the writes of a mixed workload.
    pub write_latency: Option<Latency>,
    /// I/Os over time.
    #[serde(default)]
    pub series: Vec<Slice>,
    /// CPU use of the threads that did I/O, kernel helpers included, in per cent of one core.
    pub cpu_percent: f64,
    /// Voluntary and involuntary context switches of those threads per I/O.
    pub context_switches_per_io: f64,
    /// Interrupts of the target's own vectors per I/O; absent if they cannot be told apart.
    pub interrupts_per_io: Option<f64>,
    /// System calls of the engine per I/O; absent if fio did the I/O.
    pub system_calls_per_io: Option<f64>,
    /// Mean I/Os in flight: latency by I/Os over the window (Little's law).
    pub achieved_depth: f64,
    /// How the target was preconditioned; for workloads that write, also that it was not.
    pub preconditioning: Option<String>,
    /// The raw evidence.
    pub evidence: Evidence,
    /// What it shows.
    pub observed: Observed,
    /// The observation compared with the path asked for.
    pub verdict: Verdict,
    /// What disturbed the trial. It changes no verdict, but a disturbed trial is not ranked.
    #[serde(default)]
    pub conditions: Conditions,
    /// The machine's power state at the start and at the end, as JSON.
    pub power_state: [SharedValue; 2],
    /// fio's own numbers if it was the generator: version, `usr_cpu`, `sys_cpu`, `ctx`.
    pub fio: Option<serde_json::Value>,
    /// Instructions, loads and stores by function, if they were counted or sampled.
    #[serde(default)]
    pub costs: Option<CostProfile>,
    /// The same of the target host over its own window, less what it executes when it rests.
    #[serde(default)]
    pub target_costs: Option<CostProfile>,
    /// Start and end of the window, `CLOCK_MONOTONIC_RAW` in ns, for meters that are read out afterwards.
    #[serde(default)]
    pub window_raw_ns: Option<[u64; 2]>,
    /// Energy by meter and scope.
    #[serde(default)]
    pub energy: Vec<TrialEnergy>,
    /// What became of the load, if it was open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open: Option<OpenWindow>,
    /// What a co-runner got done, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corunner: Option<CorunnerWindow>,
    /// What each kind of jobs did, that of the workload itself first; empty where there is one kind. I/Os,
    /// bytes, rate and latency of the trial are those of the first; counts, CPU time and energy are of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<KindWindow>,
    /// What a program reported and what was seen of it, if one did its own I/O. Its I/Os are then those of
    /// the disks that it uses, and latencies are of these, sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Box<ProgramWindow>>,
}

impl Measurement {
    /// I/Os per second.
    pub fn iops(&self) -> f64 {
        per_second(self.ios, self.window_ns)
    }

    /// Megabytes (10^6) per second.
    pub fn mb_per_s(&self) -> f64 {
        per_second(self.bytes, self.window_ns) / 1e6
    }

    /// The latencies; `None` where none of a program's I/Os was sampled.
    pub fn known_latency(&self) -> Option<&Latency> {
        (self.program.is_none() || self.latency.count > 0).then_some(&self.latency)
    }

    /// Context switches per I/O; `None` where a program's disks did no I/O.
    pub fn known_switches_per_io(&self) -> Option<f64> {
        (self.program.is_none() || self.ios > 0).then_some(self.context_switches_per_io)
    }

    /// What its co-runner lost to each I/O, in ns of CPU time; `None` without one.
    pub fn corunner_loss_ns_per_io(&self) -> Option<f64> {
        self.corunner.as_ref()?.loss_ns_per_io(self.window_ns, self.ios)
    }

    /// CPU time of all cores by kind over the window.
    pub fn cpu(&self) -> &CpuTimes {
        &self.evidence.cpu
    }

    /// The first number that is infinite or NaN, by name, and its value. JSON has no word for either.
    pub fn not_finite(&self) -> Option<(String, f64)> {
        let figures = [
            ("cpu_percent", Some(self.cpu_percent)),
            ("context_switches_per_io", Some(self.context_switches_per_io)),
            ("interrupts_per_io", self.interrupts_per_io),
            ("system_calls_per_io", self.system_calls_per_io),
            ("achieved_depth", Some(self.achieved_depth)),
            ("figure", self.program.as_ref().map(|program| program.figure)),
        ];
        let latencies = [
            ("latency_ns", Some(&self.latency)),
            ("read_latency_ns", self.read_latency.as_ref()),
            ("write_latency_ns", self.write_latency.as_ref()),
        ];
        let of_latencies = latencies.into_iter().flat_map(|(name, latency)| {
            [("mean", latency.map(|l| l.mean)), ("stddev", latency.map(|l| l.stddev))]
                .map(|(figure, value)| (format!("{name} {figure}"), value))
        });
        let all = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(of_latencies);
        all.filter_map(|(name, value)| Some((name, value?))).find(|(_, value)| !value.is_finite())
    }
}
