//! A discrete-event simulation of a drive, an I/O path, the scheduler and arrivals.
//!
//! **A job** works in a loop: it submits what it may, one I/O after the other, in batches of at most
//! `batch_submit` with a call for each; waits until it sees completions; works on all that it sees, and then
//! on what is in no latency; and begins again. It may submit until `iodepth` I/Os are in flight, under an
//! open load those alone that are due.
//!
//! **The drive** takes I/Os in order of arrival, one on each of its servers at a time, and draws each one's
//! time from the distribution of its kind.
//!
//! **A completion** interrupts the core on which the job ran last, and takes time of whatever runs there; or
//! it is seen at the end of a turn of a loop that polls. A job with nothing to do sleeps, until it is woken
//! or until the next I/O is due, or polls; or it sleeps for a while and then polls.
//!
//! **Threads** without a core wait in one queue, first come, first served. A thread that was woken takes the
//! core that it ran on if that is idle, or the first idle one, or waits: it does not push others aside. Linux
//! protects a slice once it has begun since 6.6 (`RUN_TO_PARITY` in kernel/sched/features.h), if not from
//! threads that have had less than their share; before, one that had slept mostly did push others aside. A
//! thread has its core until it sleeps. When others wait, it leaves it once it has had it for [`SLICE_NS`]:
//! at once if it polls and has seen nothing, else between two steps of its loop. So one that polls makes
//! others wait. A switch without a sleep costs nothing.
//!
//! Not simulated are other work on the machine, caches, the memory's bandwidth, frequencies, and threads that
//! block for a job, as those of POSIX AIO do.
//!
//! Its tests compare it with formulas of queueing, which apply where the path costs nothing, or cores abound.

mod calendar;
mod check;
mod drive;
mod job;
mod machine;
mod poller;
mod scenario;
mod service;
mod stream;
mod system;
mod tally;
#[cfg(test)]
mod tests;

pub use check::SimError;
pub use machine::SLICE_NS;
pub use scenario::{
    Arrivals, Class, HybridSleep, KernelPoller, Scenario, Service, SimDrive, SimInstructions, SimPath,
    SimPower, TraceIo, Waiting,
};
pub(crate) use tally::PARTS;
pub use tally::{CpuPerIo, Lag, Simulated};

use calendar::Event;
use job::Job;
use poller::Poller;
use stream::Ticket;
use system::System;

/// The longest simulated time, some hundred days: beyond it, floats of ns are not exact to the ns.
const LONGEST_NS: f64 = (1u64 << 53) as f64;

/// Simulates a scenario. The same scenario gives the same result, whatever the machine.
pub fn simulate(scenario: &Scenario) -> Result<Simulated, SimError> {
    check::check(scenario)?;
    let mut system = System::new(scenario);
    let ticket = Ticket::default();
    let mut jobs: Vec<Job> = (0..scenario.jobs).map(|thread| Job::new(scenario, thread, &ticket)).collect();
    let costs = scenario.path.kind.poller();
    let poller = |(job, costs)| Poller::new(&system, job, costs);
    let mut pollers: Vec<Poller> = (0..scenario.jobs).zip(costs.into_iter().cycle()).map(poller).collect();
    system.machine.start();
    while !system.tally.is_done() {
        match system.machine.calendar.next().filter(|_| system.machine.now() <= LONGEST_NS) {
            None => return Err(SimError::TooLong),
            Some(Event::Ended { core }) => match system.machine.ended(core) {
                Some(thread) if thread < scenario.jobs => jobs[thread as usize].act(&mut system),
                Some(thread) => pollers[(thread - scenario.jobs) as usize].act(&mut system),
                None => {}
            },
            Some(Event::Slice { core, slice }) => system.machine.slice_over(core, slice),
            Some(Event::Timer { thread, wait }) => system.machine.timer(thread, wait),
            Some(Event::Done { job, started }) => system.done(job, started),
            Some(Event::Handled { job, started }) => system.show(job, started),
        }
    }
    system.tally.finish(scenario).ok_or(SimError::NoTime)
}
