//! The machine: cores, threads that run on them in turn, sleep and wake, and interrupts. It knows nothing of
//! what threads do.
//!
//! A thread that is on a core calls one of [`step`](Machine::step), [`spin`](Machine::spin),
//! [`sleep`](Machine::sleep) and [`requeue`](Machine::requeue), and is called again when that has ended.

use super::calendar::{Calendar, Event};
use super::scenario::Scenario;
use std::collections::VecDeque;

/// How long a thread has a core while others wait for one: the base slice of Linux's fair scheduler
/// (`sched_base_slice_ns`) on a machine with eight cores or more is 2.8 or 3 ms.
pub const SLICE_NS: f64 = 3e6;

/// What has been used up so far. Times in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    pub(super) job: f64,
    pub(super) poller: f64,
    pub(super) interrupt: f64,
    /// Time that cores were idle beyond the time after which they are so deeply.
    pub(super) deep: f64,
    pub(super) sleeps: u64,
    pub(super) interrupts: u64,
    pub(super) spins: f64,
}

pub(super) struct Machine {
    pub(super) calendar: Calendar,
    used: Used,
    cores: Vec<Core>,
    threads: Vec<Thread>,
    /// Threads that wait for a core.
    queue: VecDeque<u32>,
    idle: usize,
    jobs: u32,
    costs: Costs,
}

struct Costs {
    wake: f64,
    wake_delay: f64,
    spin: f64,
    interrupt: f64,
    deep_after: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Idle,
    /// A step whose end is known.
    Step,
    /// A loop that polls and has seen nothing.
    Spin,
    /// The turn of such a loop that sees something at its end.
    Seeing,
}

#[derive(Clone)]
struct Core {
    mode: Mode,
    thread: u32,
    /// When the step ends, or the turn that sees something.
    end: f64,
    /// Up to when the thread's CPU time is counted, and what interrupts took of it since.
    counted: f64,
    stolen: f64,
    /// When the loop that polls began, put off by the interrupts since.
    spin_begin: f64,
    /// Until when interrupts are handled here.
    interrupted: f64,
    slice: u32,
    slice_end: f64,
    /// The calendar has the end of the slice.
    slice_watched: bool,
    idle_begin: f64,
    deep_counted: f64,
}

#[derive(Clone, Default)]
struct Thread {
    /// The core that it runs on, or ran on last.
    core: u32,
    asleep: bool,
    /// It has been woken, and has not paid for it yet.
    waking: bool,
    /// The number of its latest wait, by which old timers are told.
    wait: u32,
}

impl Machine {
    /// Idle cores and so many threads, of which the first are jobs.
    pub(super) fn new(scenario: &Scenario, threads: u32) -> Machine {
        let path = &scenario.path;
        let core = Core {
            mode: Mode::Idle,
            thread: 0,
            end: 0.0,
            counted: 0.0,
            stolen: 0.0,
            spin_begin: 0.0,
            interrupted: 0.0,
            slice: 0,
            slice_end: 0.0,
            slice_watched: false,
            idle_begin: 0.0,
            deep_counted: 0.0,
        };
        let thread = |at: u32| Thread { core: at % scenario.cores, ..Thread::default() };
        Machine {
            calendar: Calendar::default(),
            used: Used::default(),
            cores: vec![core; scenario.cores as usize],
            threads: (0..threads).map(thread).collect(),
            queue: VecDeque::with_capacity(threads as usize),
            idle: scenario.cores as usize,
            jobs: scenario.jobs,
            costs: Costs {
                wake: path.wake_ns,
                wake_delay: path.wake_delay_ns,
                spin: path.spin_ns,
                interrupt: path.interrupt_ns,
                deep_after: scenario.power.map_or(f64::INFINITY, |power| power.deep_after_ns),
            },
        }
    }

    /// Puts all threads on cores, or into the queue.
    pub(super) fn start(&mut self) {
        for thread in 0..self.threads.len() as u32 {
            match self.idle_core(thread) {
                Some(core) => self.dispatch(core, thread),
                None => self.queue.push_back(thread),
            }
        }
    }

    pub(super) fn now(&self) -> f64 {
        self.calendar.now()
    }

    /// What has been used up until now.
    pub(super) fn used(&mut self) -> Used {
        for core in 0..self.cores.len() {
            match self.cores[core].mode {
                Mode::Idle => self.count_deep(core),
                _ => self.count(core),
            }
        }
        self.used
    }

    /// The thread on a core whose step or spin has ended; `None` if interrupts have put off its end.
    pub(super) fn ended(&mut self, core: u32) -> Option<u32> {
        let at = core as usize;
        if self.cores[at].end > self.now() {
            self.calendar.enter(self.cores[at].end, Event::Ended { core });
            return None;
        }
        self.count(at);
        Some(self.cores[at].thread)
    }

    /// True if the thread's slice is over and others wait.
    pub(super) fn must_yield(&self, thread: u32) -> bool {
        !self.queue.is_empty() && self.now() >= self.core_of(thread).slice_end
    }

    /// The thread works for so long.
    pub(super) fn step(&mut self, thread: u32, ns: f64) {
        let now = self.now();
        self.begin(thread, now, Mode::Step, ns);
    }

    /// The thread polls. It is called at the end of the turn in which it is [notified](Machine::notify), or
    /// of the first if there is something `already`; or when it has a core again after it lost it.
    pub(super) fn spin(&mut self, thread: u32, already: bool) {
        self.threads[thread as usize].wait += 1;
        let core = self.threads[thread as usize].core;
        let state = &mut self.cores[core as usize];
        state.spin_begin = state.interrupted.max(self.calendar.now());
        if already {
            let now = self.now();
            return self.begin(thread, now, Mode::Seeing, self.costs.spin);
        }
        state.mode = Mode::Spin;
        (state.counted, state.stolen) = (state.spin_begin, 0.0);
        if !self.queue.is_empty() {
            self.watch_slice(core);
        }
    }

    /// There is something that the thread sees at the end of the turn, if it polls.
    pub(super) fn notify(&mut self, thread: u32) {
        let now = self.now();
        let core = self.threads[thread as usize].core;
        let state = &mut self.cores[core as usize];
        if state.mode != Mode::Spin || state.thread != thread {
            return;
        }
        let now = state.interrupted.max(now);
        // What the sum of floats is off by makes no turn longer.
        let turns = ((now - state.spin_begin) / self.costs.spin - 1e-6).ceil().max(1.0);
        state.mode = Mode::Seeing;
        state.end = state.spin_begin + turns * self.costs.spin;
        self.calendar.enter(state.end, Event::Ended { core });
    }

    /// The thread sleeps until it is woken, at the latest at a time, which may be infinite.
    pub(super) fn sleep(&mut self, thread: u32, until: f64) {
        let state = &mut self.threads[thread as usize];
        state.asleep = true;
        state.wait += 1;
        let core = state.core;
        self.used.sleeps += 1;
        self.set_timer(thread, until);
        self.release(core);
    }

    /// Ends the wait that the thread has begun last, at a time, which may be infinite.
    pub(super) fn set_timer(&mut self, thread: u32, at: f64) {
        if at.is_finite() {
            let wait = self.threads[thread as usize].wait;
            self.calendar.enter(at, Event::Timer { thread, wait });
        }
    }

    /// A timer has run out.
    pub(super) fn timer(&mut self, thread: u32, wait: u32) {
        if self.threads[thread as usize].wait == wait {
            self.wake(thread);
            self.notify(thread);
        }
    }

    /// Wakes the thread, if it sleeps.
    pub(super) fn wake(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if !state.asleep {
            return;
        }
        (state.asleep, state.waking) = (false, true);
        state.wait += 1;
        match self.idle_core(thread) {
            Some(core) => self.dispatch(core, thread),
            None => self.enqueue(thread),
        }
    }

    /// The thread leaves its core to the next one, and waits for its turn.
    pub(super) fn requeue(&mut self, thread: u32) {
        self.enqueue(thread);
        self.release(self.threads[thread as usize].core);
    }

    /// The slice of what ran on a core is over.
    pub(super) fn slice_over(&mut self, core: u32, slice: u32) {
        let state = &mut self.cores[core as usize];
        if state.slice != slice {
            return;
        }
        if state.interrupted > self.calendar.now() {
            return self.calendar.enter(state.interrupted, Event::Slice { core, slice });
        }
        state.slice_watched = false;
        let thread = state.thread;
        // A step is not cut short.
        if state.mode == Mode::Spin && !self.queue.is_empty() {
            self.count(core as usize);
            self.requeue(thread);
        }
    }

    /// The drive interrupts the core that the thread runs on, or ran on last. Until when that is handled:
    /// after the interrupts before, which one handler handles with this one.
    pub(super) fn interrupt(&mut self, thread: u32) -> f64 {
        let now = self.now();
        let core = self.threads[thread as usize].core as usize;
        if self.cores[core].mode == Mode::Idle {
            self.count_deep(core);
        }
        let (state, ns) = (&mut self.cores[core], self.costs.interrupt);
        self.used.interrupts += u64::from(state.interrupted <= now);
        self.used.interrupt += ns;
        state.interrupted = state.interrupted.max(now) + ns;
        match state.mode {
            Mode::Idle => state.idle_begin = state.interrupted,
            _ => {
                state.end += ns;
                state.spin_begin += ns;
                state.stolen += ns;
            }
        }
        state.interrupted
    }

    fn core_of(&self, thread: u32) -> &Core {
        &self.cores[self.threads[thread as usize].core as usize]
    }

    /// What the thread does from a time on, or from when the interrupts on its core are handled.
    fn begin(&mut self, thread: u32, from: f64, mode: Mode, ns: f64) {
        let core = self.threads[thread as usize].core;
        let state = &mut self.cores[core as usize];
        let from = state.interrupted.max(from);
        (state.mode, state.end) = (mode, from + ns);
        (state.counted, state.stolen) = (from, 0.0);
        self.calendar.enter(state.end, Event::Ended { core });
    }

    /// An idle core for a thread, rather the one that it ran on.
    fn idle_core(&self, thread: u32) -> Option<u32> {
        if self.idle == 0 {
            return None;
        }
        let is_idle = |core: &Core| core.mode == Mode::Idle;
        if is_idle(self.core_of(thread)) {
            return Some(self.threads[thread as usize].core);
        }
        self.cores.iter().position(is_idle).map(|core| core as u32)
    }

    /// A thread gets a core. One that was woken pays for it; on an idle core only after the delay.
    fn dispatch(&mut self, core: u32, thread: u32) {
        let at = core as usize;
        let was_idle = self.cores[at].mode == Mode::Idle;
        if was_idle {
            self.count_deep(at);
            self.idle -= 1;
        }
        let now = self.now();
        let state = &mut self.threads[thread as usize];
        state.core = core;
        let wakes = std::mem::take(&mut state.waking);
        let delay = if wakes && was_idle { self.costs.wake_delay } else { 0.0 };
        let state = &mut self.cores[at];
        state.thread = thread;
        state.slice += 1;
        state.slice_end = now + delay + SLICE_NS;
        state.slice_watched = false;
        self.begin(thread, now + delay, Mode::Step, if wakes { self.costs.wake } else { 0.0 });
    }

    /// A core has no thread any more: the next one gets it, or it is idle.
    fn release(&mut self, core: u32) {
        if let Some(next) = self.queue.pop_front() {
            return self.dispatch(core, next);
        }
        let now = self.now();
        let state = &mut self.cores[core as usize];
        state.mode = Mode::Idle;
        state.slice += 1;
        state.idle_begin = state.interrupted.max(now);
        self.idle += 1;
    }

    fn enqueue(&mut self, thread: u32) {
        self.queue.push_back(thread);
        if self.queue.len() > 1 {
            return; // spinning threads are watched already
        }
        for core in 0..self.cores.len() {
            if self.cores[core].mode == Mode::Spin {
                self.watch_slice(core as u32);
            }
        }
    }

    fn watch_slice(&mut self, core: u32) {
        let state = &mut self.cores[core as usize];
        if !state.slice_watched {
            state.slice_watched = true;
            self.calendar.enter(state.slice_end, Event::Slice { core, slice: state.slice });
        }
    }

    /// Counts the CPU time of the thread on a core until now.
    fn count(&mut self, core: usize) {
        let (now, state) = (self.calendar.now(), &mut self.cores[core]);
        if now < state.counted {
            return; // its step has not begun
        }
        let ns = now - state.counted - state.stolen;
        (state.counted, state.stolen) = (now, 0.0);
        match state.thread < self.jobs {
            true => self.used.job += ns,
            false => self.used.poller += ns,
        }
        if matches!(state.mode, Mode::Spin | Mode::Seeing) {
            self.used.spins += ns / self.costs.spin;
        }
    }

    /// Counts the time that a core was deeply idle until now.
    fn count_deep(&mut self, core: usize) {
        let (now, state) = (self.calendar.now(), &mut self.cores[core]);
        let from = (state.idle_begin + self.costs.deep_after).max(state.deep_counted);
        if now > from {
            self.used.deep += now - from;
            state.deep_counted = now;
        }
    }
}
