//! What a trial of the fleet measured: figures as they were asked for, with histograms, series and evidence
//! that agree with them.

use iopj_core::evidence::{
    ControlRun, CpuTimes, DeviceEvidence, EngineEvidence, Finding, OthersEvidence, ProcessEvidence,
    ThreadEvidence,
};
use iopj_core::{
    AboveIdle, CompletionMode, EnergyOutcome, Evidence, Joules, Observed, Scope, Slice, Submission,
    TrialEnergy, Verdict, VerdictKind, Workload,
};
use iopj_record::{Latency, Measurement, histogram};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The window of each trial.
const WINDOW_NS: u64 = 10_000_000_000;
/// Slices of it.
const SLICES: u64 = 20;
/// The logarithm of a latency has this standard deviation over a trial's I/Os.
pub const SIGMA: f64 = 0.25;
/// Latencies that stand for all of a trial.
const POINTS: usize = 300;

/// What a trial is to show.
pub struct Figures {
    /// Mean latency.
    pub mean_ns: f64,
    /// I/Os in flight.
    pub depth: f64,
    /// CPU time of an I/O.
    pub cpu_ns: f64,
    /// Power, where there is a meter.
    pub watts: Option<f64>,
    /// The verdict.
    pub verdict: VerdictKind,
    /// The trial's place in the study.
    pub position: u64,
}

/// Quantiles of the standard normal distribution, as far apart in probability.
static QUANTILES: LazyLock<Vec<f64>> = LazyLock::new(|| {
    // Sums of a bell curve over a fine grid, read off where they pass each probability.
    let grid: Vec<f64> = (-4000..=4000).map(|at| f64::from(at) / 1000.0).collect();
    let total: f64 = grid.iter().map(|z| (-z * z / 2.0).exp()).sum();
    let mut sum = 0.0;
    let mut found = Vec::with_capacity(POINTS);
    for z in grid {
        sum += (-z * z / 2.0).exp() / total;
        while found.len() < POINTS && sum >= (found.len() as f64 + 0.5) / POINTS as f64 {
            found.push(z);
        }
    }
    found
});

/// The measurement of a trial.
pub fn measurement(workload: &Workload, figures: &Figures) -> Measurement {
    let ios = (WINDOW_NS as f64 * figures.depth / figures.mean_ns) as u64;
    let reads = if workload.rw.is_mixed() { ios * u64::from(workload.rwmixread) / 100 } else { ios };
    let mixed = |ios, factor| workload.rw.is_mixed().then(|| latency(figures.mean_ns * factor, ios));
    let energy = figures.watts.map(energy).into_iter().collect();
    Measurement {
        window_ns: WINDOW_NS,
        ios,
        bytes: ios * u64::from(workload.bs),
        reads,
        writes: ios - reads,
        latency: latency(figures.mean_ns, ios),
        read_latency: mixed(reads, 1.1),
        write_latency: mixed(ios - reads, 0.8),
        series: (1..=SLICES).map(|at| Slice { end_ns: at * WINDOW_NS / SLICES, ios: ios / SLICES }).collect(),
        cpu_percent: figures.cpu_ns * ios as f64 / WINDOW_NS as f64 * 100.0,
        context_switches_per_io: 0.5,
        interrupts_per_io: Some(0.4),
        system_calls_per_io: Some(1.0),
        achieved_depth: figures.depth,
        preconditioning: Some("written once".to_owned()),
        evidence: evidence(workload, ios, reads),
        observed: Observed {
            completion: Finding::Seen(CompletionMode::Interrupt),
            submission: Finding::Seen(Submission::Syscall),
            doubt: None,
        },
        verdict: Verdict {
            kind: figures.verdict,
            reasons: vec!["the device interrupted as it was to".to_owned()],
        },
        window_raw_ns: Some([0, WINDOW_NS].map(|ns| figures.position * 12_000_000_000 + ns)),
        power_state: std::array::from_fn(|_| power_state().into()),
        energy,
        ..Measurement::default()
    }
}

fn latency(mean_ns: f64, ios: u64) -> Latency {
    let mut recorded = histogram::new();
    let per_point = ios / POINTS as u64;
    let first = ios - per_point * (POINTS as u64 - 1);
    // The mean of a log-normal distribution is above its median.
    let median_ns = mean_ns * (-SIGMA * SIGMA / 2.0).exp();
    for (at, z) in QUANTILES.iter().enumerate() {
        let count = if at == 0 { first } else { per_point };
        let ns = (median_ns * (SIGMA * z).exp()) as u64;
        recorded.record_n(ns, count).unwrap_or_else(|error| unreachable!("{ns} ns: {error}"));
    }
    histogram::summary(&recorded)
}

fn energy(watts: f64) -> TrialEnergy {
    let seconds = WINDOW_NS as f64 / 1e9;
    let joules = watts * seconds;
    let around = |half: f64| [joules * (1.0 - half), joules * (1.0 + half)];
    let above = joules - 120.0 * seconds;
    let joules = Joules {
        seconds,
        joules,
        random_j: joules * 0.005,
        random_dof: None,
        random_interval: around(0.01),
        interval: Some(around(0.03)),
        above_idle: Some(AboveIdle {
            idle_watts: 120.0,
            joules: above,
            random_interval: [above * 0.98, above * 1.02],
        }),
    };
    TrialEnergy {
        meter: "plug".to_owned(),
        scope: Scope::System,
        channels: vec!["plug".to_owned()],
        estimated: false,
        rules: 1,
        outcome: EnergyOutcome::Complete(joules),
    }
}

fn power_state() -> serde_json::Value {
    serde_json::json!({ "governors": ["performance"], "turbo": true, "smt": "on", "throttle_count": 0,
        "frequency_min_khz": 800_000, "frequency_max_khz": 3_400_000 })
}

fn device(bs: u64, ios: u64, reads: u64) -> DeviceEvidence {
    let settings = ["io_poll", "io_poll_delay", "scheduler", "nomerges", "nr_requests", "wbt_lat_usec"];
    DeviceEvidence {
        name: "nvme0n1".to_owned(),
        reads,
        read_sectors: reads * bs / 512,
        writes: ios - reads,
        write_sectors: (ios - reads) * bs / 512,
        in_queue_ms: 9_000,
        interrupts: Some(ios * 2 / 5),
        vectors: (40..72).map(|vector| format!("{vector} nvme0q{}", vector - 39)).collect(),
        settings: BTreeMap::from(settings.map(|name| (name.to_owned(), "0".to_owned()))).into(),
        ..DeviceEvidence::default()
    }
}

fn evidence(workload: &Workload, ios: u64, reads: u64) -> Evidence {
    let bs = u64::from(workload.bs);
    let thread = |tid| ThreadEvidence {
        tid,
        name: format!("iopj-job-{tid}"),
        cpu_ns: 3_000_000_000,
        voluntary_switches: ios / 2,
        ..ThreadEvidence::default()
    };
    Evidence {
        rules: 9,
        window_ns: WINDOW_NS,
        numjobs: workload.numjobs,
        iodepth: workload.iodepth,
        reads,
        read_bytes: reads * bs,
        writes: ios - reads,
        write_bytes: (ios - reads) * bs,
        latency_sum_ns: WINDOW_NS * u64::from(workload.iodepth),
        devices: vec![device(bs, ios, reads)],
        threads: (1..=2).map(thread).collect(),
        process: ProcessEvidence {
            user_ns: 1_000_000_000,
            system_ns: 2_000_000_000,
            ..ProcessEvidence::default()
        },
        engine: Some(EngineEvidence {
            system_calls: Some(ios),
            submit_calls: ios,
            ..EngineEvidence::default()
        }),
        cpu: CpuTimes { user_ns: 1_100_000_000, idle_ns: 70_000_000_000, cores: 8, ..CpuTimes::default() },
        c_states: ["POLL", "C1", "C1E", "C6"]
            .map(|name| (name.to_owned(), 7_000_000_000))
            .into_iter()
            .collect(),
        others: Some(OthersEvidence {
            over_ns: WINDOW_NS,
            processes_ns: 20_000_000,
            ..OthersEvidence::default()
        }),
        control: Some(ControlRun {
            ios: 1000,
            interrupts: Some(1000),
            device_reads: 1000,
            completions: None,
        }),
        ..Evidence::default()
    }
}
