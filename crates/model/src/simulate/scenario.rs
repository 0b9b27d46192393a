//! What is simulated: the load, the drive, the path and the processors. All times are in ns.

use std::sync::Arc;

/// One simulation. [`simulate`](super::simulate) refuses what makes no sense, by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Threads that do I/O.
    pub jobs: u32,
    /// I/Os that a job keeps in flight under a closed load; the most that it has in flight under an open one.
    pub iodepth: u32,
    /// I/Os that a job submits at most by one call (`iodepth_batch_submit`).
    pub batch_submit: u32,
    /// How I/Os arrive.
    pub arrivals: Arrivals,
    /// What kinds of I/O there are; their shares add up to 1. A trace has its own order of them.
    pub mix: Vec<Class>,
    /// Cores, all alike.
    pub cores: u32,
    /// The drive.
    pub drive: SimDrive,
    /// The path.
    pub path: SimPath,
    /// What the cores draw, if that is known.
    pub power: Option<SimPower>,
    /// I/Os that are measured, after the warm-up.
    pub ios: u64,
    /// I/Os before them, which are not.
    pub warm_up_ios: u64,
    /// Seed of every draw: the same scenario gives the same result.
    pub seed: u64,
}

/// How I/Os arrive.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// A job issues an I/O when one has completed.
    Closed,
    /// I/Os are due at a rate, whatever became of those before.
    Open {
        /// I/Os that each job is due to issue in a second, within bursts if there are any.
        per_job_iops: f64,
        /// Exponential intervals; otherwise even ones, in which jobs take turns.
        poisson: bool,
        /// How long I/Os arrive and how long none does, in turn.
        bursts: Option<(f64, f64)>,
    },
    /// Recorded I/Os, in order. A job with room for one takes the next that no other has taken.
    Trace(Arc<[TraceIo]>),
}

/// An I/O of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceIo {
    /// When it is due, from the trace's begin.
    pub due_ns: f64,
    /// Its kind: an index into [`Scenario::mix`].
    pub class: u32,
}

/// A kind of I/O: an operation and a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// How many of all I/Os are of this kind, from 0 to 1.
    pub share: f64,
    /// How long the drive takes for it: an index into [`SimDrive::service`].
    pub service: u32,
    /// CPU of the job per I/O of this kind beyond the path's, before the drive or the kernel's poller has it.
    pub submit_ns: f64,
}

/// A drive: servers that take I/Os in order of arrival.
#[derive(Clone, Debug, PartialEq)]
pub struct SimDrive {
    /// I/Os that it works on at once.
    pub parallelism: u32,
    /// How long it takes for them, by kind.
    pub service: Vec<Service>,
}

/// How long the drive takes for one kind of I/O, and how much of its rate that takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Times of which each is equally likely: a sample, or as many quantiles of a distribution.
    pub equally_likely_ns: Vec<f64>,
    /// The least time from the start of such an I/O to the start of the next of whatever kind: bytes over the
    /// drive's bandwidth, or the inverse of its most I/Os per second. 0 for no such limit.
    pub least_gap_ns: f64,
}

/// What an I/O costs on a path, and how its completion is awaited.
#[derive(Clone, Debug, PartialEq)]
pub struct SimPath {
    /// How a job waits.
    pub kind: Waiting,
    /// CPU of the job per I/O before the drive, or the kernel's poller, has it.
    pub submit_ns: f64,
    /// CPU of the job per I/O after it sees the completion.
    pub complete_ns: f64,
    /// CPU of the job per I/O after that, which is in no latency of a closed load.
    pub gap_ns: f64,
    /// CPU of the job per call. A call submits a batch, and its cost comes before that of the first I/O; the
    /// one for the last batch waits too. With a kernel's poller, a job that sleeps calls only to wait.
    pub call_ns: f64,
    /// CPU of the completion interrupt, before the job can see the completion.
    pub interrupt_ns: f64,
    /// CPU of the job per sleep and wake-up, between the wake-up and the job's first step.
    pub wake_ns: f64,
    /// Time from the wake-up to that, on a core that was idle: the exit from its sleep state.
    pub wake_delay_ns: f64,
    /// One turn of a loop that polls; must be above 0 where something polls.
    pub spin_ns: f64,
    /// Instructions, if they are known.
    pub instructions: Option<SimInstructions>,
}

/// How a job waits for completions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Waiting {
    /// It sleeps until the drive interrupts.
    Interrupt,
    /// It polls all the time.
    Poll,
    /// It sleeps once after it has submitted, then polls.
    Hybrid(HybridSleep),
    /// A thread of the kernel for each job polls for its submissions all the time, and posts its completions.
    /// The thread never pauses.
    KernelPoller(KernelPoller),
}

/// How long a job sleeps before it polls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HybridSleep {
    /// A share of the drive's mean time for the I/O submitted last.
    Share(f64),
    /// So many ns.
    Fixed(f64),
}

/// The costs of a kernel's thread that polls for submissions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelPoller {
    /// Its CPU per I/O that it hands to the drive.
    pub take_ns: f64,
    /// Its CPU per completion that it posts.
    pub post_ns: f64,
    /// True if it polls the drive too; otherwise the drive interrupts the core that it last ran on.
    pub polls_drive: bool,
    /// True if the job polls for what is posted, without a call; otherwise it calls, sleeps, and is woken.
    pub job_polls: bool,
}

impl Waiting {
    /// True if the job itself polls.
    pub(super) fn job_polls(self) -> bool {
        match self {
            Waiting::Interrupt => false,
            Waiting::Poll | Waiting::Hybrid(_) => true,
            Waiting::KernelPoller(poller) => poller.job_polls,
        }
    }

    /// True if the job makes calls.
    pub(super) fn job_calls(self) -> bool {
        !matches!(self, Waiting::KernelPoller(KernelPoller { job_polls: true, .. }))
    }

    /// The kernel's poller, if there is one.
    pub(super) fn poller(self) -> Option<KernelPoller> {
        match self {
            Waiting::KernelPoller(poller) => Some(poller),
            _ => None,
        }
    }
}

/// Instructions of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimInstructions {
    /// Per I/O, whatever else happens.
    pub per_io: f64,
    /// Per call.
    pub per_call: f64,
    /// Per sleep and wake-up.
    pub per_wake: f64,
    /// Per turn of a loop that polls.
    pub per_spin: f64,
}

/// What the machine draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimPower {
    /// W of the whole machine with all cores idle, none of them deeply.
    pub idle_w: f64,
    /// W more for each core that works.
    pub active_core_w: f64,
    /// W less for each core that has been idle for longer than `deep_after_ns`, from then on.
    pub deep_idle_w: f64,
    /// How long a core is idle before that.
    pub deep_after_ns: f64,
    /// Joules more for each sleep, which ends by waking a core.
    pub wake_joules: f64,
}
