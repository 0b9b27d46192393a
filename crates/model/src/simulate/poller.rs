//! A thread of the kernel that polls for a job: posts what the drive has ended, hands it what was submitted.

use super::scenario::KernelPoller;
use super::system::System;

pub(super) struct Poller {
    thread: u32,
    job: u32,
    at: Point,
    costs: KernelPoller,
    posting: usize,
}

/// Where it is in its loop: what it does next when it is on a core.
#[derive(Clone, Copy)]
enum Point {
    Look,
    /// The completions that it saw are posted.
    Posted,
    /// The submission that it saw is taken.
    Taken,
}

impl Poller {
    pub(super) fn new(system: &System, job: u32, costs: KernelPoller) -> Poller {
        Poller { thread: system.poller_of(job), job, at: Point::Look, costs, posting: 0 }
    }

    /// What it was doing on its core has ended: it goes on until it works, polls or must wait for a core.
    pub(super) fn act(&mut self, system: &mut System) {
        let ring = &mut system.rings[self.job as usize];
        match self.at {
            Point::Look => {}
            Point::Posted => {
                ring.completed.extend(ring.ended.drain(..self.posting));
                system.machine.wake(self.job);
                system.machine.notify(self.job);
            }
            Point::Taken => {
                if let Some(io) = ring.posted.pop_front() {
                    system.serve(self.job, io);
                }
            }
        }
        self.at = Point::Look;
        if system.machine.must_yield(self.thread) {
            return system.machine.requeue(self.thread);
        }
        let ring = &system.rings[self.job as usize];
        self.posting = ring.ended.len();
        if self.posting > 0 {
            self.at = Point::Posted;
            system.machine.step(self.thread, self.costs.post_ns * self.posting as f64);
        } else if !ring.posted.is_empty() {
            self.at = Point::Taken;
            system.machine.step(self.thread, self.costs.take_ns);
        } else {
            system.machine.spin(self.thread, false);
        }
    }
}
