//! A thread that does I/O: submits what it may, waits as its path does, completes what it sees.

use super::scenario::{HybridSleep, Scenario, Waiting};
use super::stream::{Stream, Ticket};
use super::system::{Io, System};

pub(super) struct Job {
    thread: u32,
    at: Point,
    stream: Stream,
    in_flight: u32,
    /// When the batch began, and what it still has room for.
    batch: f64,
    batch_left: u32,
    /// The job has made a call since then.
    called: bool,
    submitting: Io,
    completing: usize,
    /// How long it sleeps before it polls, if it has not since it last submitted.
    sleep_first: Option<f64>,
}

/// Where a job is in its loop: what it does next when it is on a core.
#[derive(Clone, Copy)]
enum Point {
    Batch,
    Submit,
    /// An I/O is submitted.
    Submitted,
    Wait,
    /// It has slept.
    Woken,
    Spin,
    /// It has polled.
    Polled,
    Complete,
    /// Completions are seen to the end of their latency.
    Completed,
}

impl Job {
    pub(super) fn new(scenario: &Scenario, thread: u32, ticket: &Ticket) -> Job {
        Job {
            thread,
            at: Point::Batch,
            stream: Stream::new(scenario, thread, ticket),
            in_flight: 0,
            batch: 0.0,
            batch_left: 0,
            called: false,
            submitting: Io { class: 0, started: 0.0 },
            completing: 0,
            sleep_first: None,
        }
    }

    /// What the job was doing on its core has ended: it goes on until it works, polls, sleeps or must wait
    /// for a core.
    pub(super) fn act(&mut self, system: &mut System) {
        loop {
            self.at = match self.at {
                Point::Submitted => self.submitted(system),
                Point::Completed => match self.completed(system) {
                    Some(next) => next,
                    None => return,
                },
                Point::Woken => self.woken(system),
                Point::Polled => self.polled(system),
                _ if system.machine.must_yield(self.thread) => return system.machine.requeue(self.thread),
                Point::Batch => self.begin_batch(system),
                Point::Submit => return self.submit(system),
                Point::Complete => return self.complete(system),
                Point::Spin => return self.spin(system),
                Point::Wait => match self.wait(system) {
                    Some(next) => next,
                    None => return,
                },
            }
        }
    }

    /// True if an I/O that is due by a time may be submitted.
    fn may_submit(&self, system: &System, by: f64) -> bool {
        self.in_flight < system.iodepth && self.stream.due() <= by
    }

    /// When the next I/O may be submitted, if no other completes.
    fn next_due(&self, system: &System) -> f64 {
        if self.in_flight < system.iodepth { self.stream.due() } else { f64::INFINITY }
    }

    fn sees_completions(&self, system: &System) -> bool {
        !system.rings[self.thread as usize].completed.is_empty()
    }

    fn begin_batch(&mut self, system: &mut System) -> Point {
        self.batch = system.machine.now();
        self.batch_left = system.batch_submit.min(system.iodepth - self.in_flight);
        if self.stream.is_closed() {
            system.tally.start(self.batch, self.batch_left, self.batch);
        }
        self.called = false;
        if self.may_submit(system, self.batch) { Point::Submit } else { Point::Wait }
    }

    /// Works on one I/O, and first on the call for the batch.
    fn submit(&mut self, system: &mut System) {
        let mut started = self.batch;
        if !self.stream.is_closed() {
            let now = system.machine.now();
            started = self.stream.due();
            system.tally.start(now, 1, started);
            system.tally.late(now - started);
        }
        self.submitting = Io { class: self.stream.take(), started };
        self.in_flight += 1;
        self.batch_left -= 1;
        let mut work = system.submit_ns[self.submitting.class as usize];
        if !self.called && system.path.kind.poller().is_none() {
            work += self.call(system);
        }
        self.at = Point::Submitted;
        system.machine.step(self.thread, work);
    }

    fn call(&mut self, system: &mut System) -> f64 {
        self.called = true;
        system.tally.call();
        system.path.call_ns
    }

    fn submitted(&mut self, system: &mut System) -> Point {
        match system.path.kind {
            Waiting::KernelPoller(_) => {
                system.rings[self.thread as usize].posted.push_back(self.submitting);
                system.machine.notify(system.poller_of(self.thread));
            }
            Waiting::Interrupt | Waiting::Poll => system.serve(self.thread, self.submitting),
            Waiting::Hybrid(sleep) => {
                self.sleep_first = Some(match sleep {
                    HybridSleep::Share(share) => share * system.drive.mean_ns(self.submitting.class),
                    HybridSleep::Fixed(ns) => ns,
                });
                system.serve(self.thread, self.submitting);
            }
        }
        if self.batch_left > 0 && self.may_submit(system, self.batch) {
            Point::Submit
        } else if self.may_submit(system, system.machine.now()) {
            Point::Batch
        } else {
            Point::Wait
        }
    }

    /// What comes next if there is something to do; otherwise the wait, or the call for it, begins.
    fn wait(&mut self, system: &mut System) -> Option<Point> {
        let (sees, polls) = (self.sees_completions(system), system.path.kind.job_polls());
        if sees && !polls {
            return Some(Point::Complete);
        }
        if self.may_submit(system, system.machine.now()) {
            return Some(Point::Batch);
        }
        if !self.called && system.path.kind.job_calls() {
            let work = self.call(system);
            system.machine.step(self.thread, work);
            return None;
        }
        let due = self.next_due(system);
        let sleep_until = match system.path.kind {
            _ if !polls => due,
            Waiting::Hybrid(_) if self.in_flight == 0 => due,
            Waiting::Hybrid(_) if !sees => match self.sleep_first.take() {
                Some(ns) => due.min(system.machine.now() + ns),
                None => return Some(Point::Spin),
            },
            _ => return Some(Point::Spin),
        };
        self.at = Point::Woken;
        system.machine.sleep(self.thread, sleep_until);
        None
    }

    fn woken(&self, system: &System) -> Point {
        match system.path.kind.job_polls() {
            false if self.sees_completions(system) => Point::Complete,
            true if !self.may_submit(system, system.machine.now()) => Point::Spin,
            _ => Point::Batch,
        }
    }

    fn spin(&mut self, system: &mut System) {
        let sees = self.sees_completions(system);
        let due = self.next_due(system);
        self.at = Point::Polled;
        system.machine.spin(self.thread, sees);
        if !sees {
            system.machine.set_timer(self.thread, due);
        }
    }

    /// It has polled, or has its core back before it saw anything.
    fn polled(&self, system: &System) -> Point {
        if self.sees_completions(system) {
            Point::Complete
        } else if self.may_submit(system, system.machine.now()) {
            Point::Batch
        } else {
            Point::Spin
        }
    }

    fn complete(&mut self, system: &mut System) {
        self.completing = system.rings[self.thread as usize].completed.len();
        self.at = Point::Completed;
        system.machine.step(self.thread, system.path.complete_ns * self.completing as f64);
    }

    /// What comes next, unless work after the completions comes before it.
    fn completed(&mut self, system: &mut System) -> Option<Point> {
        let now = system.machine.now();
        for started in system.rings[self.thread as usize].completed.drain(..self.completing) {
            system.tally.complete(now, started);
        }
        self.in_flight -= self.completing as u32;
        system.tally.batch_ended(&mut system.machine);
        if system.path.gap_ns == 0.0 {
            return Some(Point::Batch);
        }
        self.at = Point::Batch;
        system.machine.step(self.thread, system.path.gap_ns * self.completing as f64);
        None
    }
}
