//! What the threads of a simulation share: machine, drive, rings and counts.

use super::calendar::Event;
use super::drive::Drive;
use super::machine::Machine;
use super::scenario::{Scenario, SimPath, Waiting};
use super::tally::Tally;
use std::collections::VecDeque;

pub(super) struct System {
    pub(super) machine: Machine,
    pub(super) drive: Drive,
    pub(super) rings: Vec<Ring>,
    pub(super) tally: Tally,
    pub(super) path: SimPath,
    /// What submitting an I/O of each class takes of the job.
    pub(super) submit_ns: Vec<f64>,
    pub(super) iodepth: u32,
    pub(super) batch_submit: u32,
    jobs: u32,
}

/// An I/O that a job submits.
#[derive(Clone, Copy)]
pub(super) struct Io {
    pub(super) class: u32,
    /// When its latency began.
    pub(super) started: f64,
}

/// What a job shares with the kernel. Completions are told by when the latency of their I/O began.
#[derive(Default)]
pub(super) struct Ring {
    /// Submitted, and not yet taken by the kernel's poller.
    pub(super) posted: VecDeque<Io>,
    /// Ended by the drive, and not yet posted by the kernel's poller.
    pub(super) ended: Vec<f64>,
    /// For the job to see.
    pub(super) completed: Vec<f64>,
}

impl System {
    pub(super) fn new(scenario: &Scenario) -> System {
        let jobs = scenario.jobs;
        let threads = if scenario.path.kind.poller().is_some() { 2 * jobs } else { jobs };
        System {
            machine: Machine::new(scenario, threads),
            drive: Drive::new(scenario),
            rings: (0..jobs).map(|_| Ring::default()).collect(),
            tally: Tally::new(scenario),
            path: scenario.path.clone(),
            submit_ns: scenario.mix.iter().map(|class| scenario.path.submit_ns + class.submit_ns).collect(),
            iodepth: scenario.iodepth,
            batch_submit: scenario.batch_submit,
            jobs,
        }
    }

    /// The thread of the kernel that polls for a job.
    pub(super) fn poller_of(&self, job: u32) -> u32 {
        self.jobs + job
    }

    /// The drive gets an I/O of a job.
    pub(super) fn serve(&mut self, job: u32, io: Io) {
        let end = self.drive.serve(self.machine.now(), io.class);
        self.machine.calendar.enter(end, Event::Done { job, started: io.started });
    }

    /// The drive has ended an I/O.
    pub(super) fn done(&mut self, job: u32, started: f64) {
        let interrupted = match self.path.kind {
            Waiting::Interrupt => job,
            Waiting::KernelPoller(poller) if !poller.polls_drive => self.poller_of(job),
            Waiting::Poll | Waiting::Hybrid(_) | Waiting::KernelPoller(_) => return self.show(job, started),
        };
        let until = self.machine.interrupt(interrupted);
        self.machine.calendar.enter(until, Event::Handled { job, started });
    }

    /// Who waits for it can see that an I/O has ended.
    pub(super) fn show(&mut self, job: u32, started: f64) {
        let ring = &mut self.rings[job as usize];
        match self.path.kind {
            Waiting::KernelPoller(_) => {
                ring.ended.push(started);
                self.machine.notify(self.poller_of(job));
            }
            Waiting::Interrupt => {
                ring.completed.push(started);
                self.machine.wake(job);
            }
            Waiting::Poll | Waiting::Hybrid(_) => {
                ring.completed.push(started);
                self.machine.notify(job);
            }
        }
    }
}
