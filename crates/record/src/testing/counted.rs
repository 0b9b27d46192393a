//! Trials whose costs consist of known parts, so every figure that follows from them is known too.

pub use crate::testing::plain::measurement;
use crate::{Latency, StudyRecord, Trial};
use iopj_core::workload::Length;
use iopj_core::{Cost, CostKind, CostProfile, CostSource, FunctionCost, IoPath, Space, Workload};

/// Synchronous calls, completed by interrupt.
pub const INTERRUPT: &str = "posix-sio/syscall/interrupt";
/// Synchronous calls, completed by polling.
pub const POLL: &str = "posix-sio/syscall/poll";
/// Synchronous calls, completed by hybrid polling.
pub const HYBRID: &str = "posix-sio/syscall/hybrid";

/// User-space instructions of an I/O.
pub const USER: u64 = 600;

/// A function with its instructions per I/O, spin, sleep and interrupt. A tenth of the hundredth part of all
/// counts is whole: three tenths of the instructions load, two tenths store.
struct Part(&'static str, Option<&'static str>, Option<&'static str>, [u64; 4]);

const NVME: Option<&str> = Some("nvme");

/// In the kernel 1,520 per I/O, 30 per spin, 1,450 per sleep, 20 per interrupt.
const PARTS: [Part; 13] = [
    Part("submit_bio", None, Some("block/"), [400, 0, 0, 0]),
    Part("blk_mq_submit_bio", None, Some("block/"), [300, 0, 0, 0]),
    Part("blk_poll", None, Some("block/"), [0, 20, 0, 0]),
    Part("nvme_queue_rq", NVME, Some("drivers/nvme/host/"), [200, 0, 0, 0]),
    Part("nvme_poll", NVME, Some("drivers/nvme/host/"), [0, 10, 0, 0]),
    Part("nvme_irq", NVME, Some("drivers/nvme/host/"), [0, 0, 0, 20]),
    Part("ext4_file_read_iter", None, Some("fs/ext4/"), [500, 0, 0, 0]),
    Part("entry_SYSCALL_64", None, Some("arch/x86/"), [90, 0, 0, 0]),
    Part("memset", None, Some("lib/"), [10, 0, 0, 0]),
    Part("", None, None, [20, 0, 0, 0]),
    Part("__schedule", None, Some("kernel/sched/"), [0, 0, 900, 0]),
    Part("psi_task_change", None, Some("kernel/sched/"), [0, 0, 300, 0]),
    Part("update_load_avg", None, Some("kernel/sched/"), [0, 0, 250, 0]),
];

/// A hybrid sleep costs 560 more than another.
const TIMER: [Part; 2] = [
    Part("hrtimer_start_range_ns.part.0", None, Some("kernel/time/"), [0, 0, 500, 0]),
    Part("ktime_get", None, Some("kernel/time/"), [0, 0, 60, 0]),
];

/// Events per I/O.
#[derive(Clone, Copy, Default)]
pub struct Happened {
    /// Calls of the driver's poll function per I/O.
    pub spins: f64,
    /// Voluntary switches per I/O.
    pub sleeps: f64,
    /// Interrupts per I/O.
    pub interrupts: f64,
    /// More instructions per I/O, in `ext4_file_read_iter`.
    pub extra: u64,
}

/// 4 KiB random reads.
pub fn workload(iodepth: u32, ios: u64) -> Workload {
    Workload { iodepth, length: Length::Ios(ios), ..Workload::default() }
}

fn function(part: &Part, counts: [u64; 4], extra: u64) -> FunctionCost {
    let Part(name, module, directory, each) = part;
    let own: u64 = each.iter().zip(counts).map(|(each, count)| each * count).sum();
    let instructions = own + if *name == "ext4_file_read_iter" { extra } else { 0 };
    FunctionCost {
        space: Space::Kernel,
        function: (*name).to_owned(),
        module: module.map(str::to_owned),
        directory: directory.map(str::to_owned),
        cost: Cost {
            calls: if *name == "nvme_poll" { counts[1] } else { 0 },
            instructions,
            loads: instructions * 3 / 10,
            stores: instructions / 5,
            cpu_ns: 0,
        },
    }
}

/// The exact profile of `ios` I/Os on a path.
fn profile(path: IoPath, ios: u64, happened: Happened) -> CostProfile {
    let count = |per_io: f64| (per_io * ios as f64).round() as u64;
    let counts = [ios, count(happened.spins), count(happened.sleeps), count(happened.interrupts)];
    let is_hybrid = path.completion() == iopj_core::CompletionMode::Hybrid;
    let parts = PARTS.iter().chain(TIMER.iter().filter(|_| is_hybrid));
    let mut functions: Vec<FunctionCost> =
        parts.map(|part| function(part, counts, happened.extra * ios)).collect();
    functions.push(FunctionCost {
        space: Space::User,
        function: String::new(),
        module: None,
        directory: None,
        cost: Cost {
            calls: 0,
            instructions: USER * ios,
            loads: USER * ios * 3 / 10,
            stores: USER * ios / 5,
            cpu_ns: 0,
        },
    });
    let kinds = vec![CostKind::Calls, CostKind::Instructions, CostKind::Loads, CostKind::Stores];
    CostProfile::new(CostSource::Exact, kinds, functions)
}

/// A verified native trial with its exact costs. The workload's length is a number of I/Os.
pub fn trial(path: &str, workload: &Workload, replicate: u32, happened: Happened) -> Trial {
    let Length::Ios(ios) = workload.length else { panic!("the length must be a number of I/Os") };
    let mut trial = super::plain::trial(path, workload, replicate, ios);
    let path = trial.path;
    let one = measurement(&mut trial);
    one.latency = Latency { count: ios, mean: 10_000.0, ..Latency::default() };
    one.series.clear();
    (one.context_switches_per_io, one.interrupts_per_io) = (happened.sleeps, Some(happened.interrupts));
    one.evidence.reads = ios;
    one.evidence.process.voluntary_switches = (happened.sleeps * ios as f64).round() as u64;
    one.costs = Some(profile(path, ios, happened));
    trial
}

/// The costs of a trial, mutable.
pub fn costs(trial: &mut Trial) -> &mut CostProfile {
    measurement(trial).costs.as_mut().unwrap()
}

/// Replicates that differ in these events.
pub fn replicates(path: &str, workload: &Workload, happened: &[Happened]) -> Vec<Trial> {
    happened.iter().zip(0..).map(|(happened, at)| trial(path, workload, at, *happened)).collect()
}

/// The three completions, five times each. Interrupt sleeps in half of the I/Os, poll spins 60 times, hybrid
/// always sleeps and spins about 4 times.
pub fn three(workload: &Workload) -> Vec<Trial> {
    let steps = [0.0, 1.0, -1.0, 2.0, -2.0];
    let of = |path, happened: &dyn Fn(f64) -> Happened| replicates(path, workload, &steps.map(happened));
    [
        of(INTERRUPT, &|step| Happened { sleeps: 0.5 + step / 10.0, interrupts: 1.0, ..Happened::default() }),
        of(POLL, &|step| Happened { spins: 60.0 + step, ..Happened::default() }),
        of(HYBRID, &|step| Happened { spins: 4.0 + step, sleeps: 1.0, ..Happened::default() }),
    ]
    .concat()
}

/// The record of a study, on an emulated processor or not.
pub fn study(emulated: bool) -> StudyRecord {
    let emulated = emulated.then(|| "QEMU TCG".into());
    StudyRecord { target: "data".into(), emulated, ..super::plain::study(0) }
}
