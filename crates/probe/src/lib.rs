//! Operating-system counters around a trial, and what they prove about the I/O path.
//!
//! [`Probe`] reads the counters, two [`Snapshot`]s give the [`Evidence`](iopj_core::Evidence) of the window
//! between them, [`observe()`] says what the evidence shows, [`judge()`] compares that with the path asked
//! for. Thresholds and their reasons are in `docs/verdicts.md`. Finding the disks under a target, timing the
//! window and counting its I/Os are left to the caller.

mod child;
mod comparison;
mod completion_by_counts;
mod completion_by_interrupts;
mod completions;
mod conditions;
mod cpu;
mod device;
mod doubt;
mod error;
mod idle;
mod interrupts;
mod judge;
mod kernel;
pub mod marker;
mod nic;
mod observe;
mod others;
mod over_tcp;
mod perf;
mod quantities;
mod remedy;
mod root;
mod routes;
mod routes_of_taken;
pub mod sampling;
mod snapshot;
pub mod sources;
mod submission;
mod symbols;
mod taken;
mod threads;
mod vectors;
pub mod watch;

pub use child::{ChildJobs, ChildWatch, JobThreads, Watched};
pub use completion_by_counts::{
    AGREEMENT, COUNTED_SHARE, FEW_SLEEPS, HYBRID_AGREEMENT, HYBRID_TIMERS, MIXED_SHARE, POLL_TIMERS,
    STRAY_TIMERS, TIMER_ROUNDS, of_pass,
};
pub use completion_by_interrupts::{
    ALL_SHARE, CONTROL_INTERRUPTS, INTERRUPT_SHARE, NO_INTERRUPT, STRAY_INTERRUPTS, STRAY_SHARE,
};
pub use completions::{CompletionCounters, CompletionsError, HeldCounters, Waiting};
pub use conditions::{
    BUSY_SHARE, DISTURBED_CORES, DISTURBED_SHARE, STARVED_SHARE, TICKS_DEVIATIONS, TICKS_SLACK_NS, WAKE_NS,
    conditions,
};
pub use cpu::{Reaped, reap};
pub use doubt::{FOREIGN_SHARE, REMNANT_SHARE, SLACK_BYTES, SLACK_IOS};
pub use error::{ProbeError, SymbolsError};
pub use judge::{assess, judge};
pub use kernel::irq_time_sampled;
pub use nic::{NicSample, Nics};
pub use observe::observe;
pub use over_tcp::TCP_POLLED_SHARE;
pub use perf::EventsError;
pub use quantities::{
    HYBRID_SLEEPS, MAIN_SLEEPS_PER_S, MISSING_SHARE, POLL_BUSY, POLL_SLEEPS, START_SLEEPS, summary,
};
pub use remedy::Remedy;
pub use snapshot::{Edge, Probe, Snapshot, Who};
pub use submission::{KERNEL_SHARE, KNOWN_SHARE, SQPOLL_WAKEUPS, START_KERNEL_NS};
pub use symbols::{Symbol, Symbols};

/// Version of the rules by which evidence is collected, observed and judged; it changes with every
/// predicate or threshold, so stored evidence shows by which rules it was judged.
pub const RULES: u32 = 11;
