//! The pace of a job under an open load: what is due, and how the job passes the time until then.

use super::arrivals::{Arrivals, SharedArrivals};
use super::clock::Clock;
use iopj_core::{CompletionMode, IoPath, RingSubmission};
use rustix::thread::{ClockId, Timespec};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

/// How the jobs of a path keep an open load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pacing {
    /// Nothing in flight, a job spins until the next arrival instead of sleeping, as it does for a completion.
    pub spins: bool,
    /// All jobs serve one stream of arrivals: each can have one I/O in flight, and blocks meanwhile.
    pub one_stream: bool,
}

impl Pacing {
    /// That of a path. Where the job spins for completions (polled queues, and a submission poller without
    /// waits in the kernel) it has no reason to sleep between arrivals. A synchronous call has nothing to spin
    /// on: its thread waits for work asleep.
    pub fn of(path: &IoPath) -> Pacing {
        let waits_by_spinning = match path.ring() {
            Some(ring) => matches!(ring.submission, RingSubmission::Sqpoll { kernel_wait: false }),
            None => false,
        };
        let polls = path.completion() == CompletionMode::Poll;
        let one_stream = path.is_synchronous();
        Pacing { spins: !one_stream && (polls || waits_by_spinning), one_stream }
    }
}

/// Lets this thread's timers expire when they are due, not up to 50 us later (`PR_SET_TIMERSLACK`). Where that
/// is refused, the lag shows it.
pub(super) fn without_timer_slack() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Where a job's arrivals come from.
pub(super) enum Stream<'a> {
    Own(Box<Arrivals>),
    Shared(&'a SharedArrivals),
}

impl Stream<'_> {
    fn start(&mut self, begin_ns: u64, window: Option<Duration>) {
        match self {
            Stream::Own(arrivals) => arrivals.start(window),
            Stream::Shared(shared) => shared.start(begin_ns, window),
        }
    }

    fn next_ns(&mut self) -> u64 {
        match self {
            Stream::Own(arrivals) => arrivals.next_ns(),
            Stream::Shared(shared) => shared.next_ns(),
        }
    }
}

/// When an I/O was due, and when it was issued, in ticks.
#[derive(Clone, Copy, Default)]
pub(super) struct Flight {
    pub(super) due: u64,
    pub(super) issued: u64,
}

/// The pace of one job.
pub(super) struct Pace<'a> {
    stream: Stream<'a>,
    spins: bool,
    /// The run is the window's, in which the rate may move.
    pub(super) is_window: bool,
    /// By the number that is the I/O's tag; the free numbers.
    flights: Vec<Flight>,
    free: Vec<u32>,
    begin_ns: u64,
    /// One moment on two clocks.
    moment: (Instant, u64),
    /// The arrival that was taken from the stream and is not issued yet, in ticks.
    taken: Option<u64>,
    /// End of the time in which I/Os are due, in ticks; `u64::MAX` where their number is the limit.
    pub(super) end: u64,
    /// It was said how far behind the job was then.
    is_told: bool,
}

impl<'a> Pace<'a> {
    pub(super) fn new(stream: Stream<'a>, spins: bool, iodepth: u32) -> Pace<'a> {
        Pace {
            stream,
            spins,
            is_window: false,
            flights: vec![Flight::default(); iodepth as usize],
            free: (0..iodepth).collect(),
            begin_ns: 0,
            moment: (Instant::now(), 0),
            taken: None,
            end: u64::MAX,
            is_told: false,
        }
    }

    /// Begins a run at `begin_ns`, with arrivals for `time` if that is limited.
    pub(super) fn start(&mut self, clock: &Clock, begin_ns: u64, time: Option<Duration>) {
        self.begin_ns = begin_ns;
        self.moment = (Instant::now(), clock.now());
        (self.taken, self.is_told) = (None, false);
        let end = time.map(|time| begin_ns.saturating_add(time.as_nanos() as u64));
        self.end = end.map_or(u64::MAX, |end| clock.ticks_at(end));
        self.stream.start(begin_ns, time.filter(|_| self.is_window));
    }

    /// When the next I/O is due, in ticks; `u64::MAX` if no more are in this run. From a shared stream it is
    /// this job's from now on, so only a job that could issue it may ask.
    #[inline]
    pub(super) fn due(&mut self, clock: &Clock) -> u64 {
        if let Some(taken) = self.taken {
            return taken;
        }
        let next_ns = self.stream.next_ns();
        let ticks = clock.ticks_at(self.begin_ns.saturating_add(next_ns));
        let due = if ticks < self.end { ticks } else { u64::MAX };
        self.taken = Some(due);
        due
    }

    /// Once, when the time is over: for how long the oldest I/O that is not issued had been due by then, in
    /// ticks.
    #[inline]
    pub(super) fn behind(&mut self, clock: &Clock, now: u64) -> Option<u64> {
        if now < self.end || self.is_told {
            return None;
        }
        self.is_told = true;
        let due = self.due(clock);
        Some(self.end.saturating_sub(due))
    }

    /// Issues what is due: the number by which its completion will be known.
    #[inline]
    pub(super) fn take_off(&mut self, issued: u64) -> Option<(u32, Flight)> {
        let flight = Flight { due: self.taken.take()?, issued };
        let number = self.free.pop()?;
        self.flights[number as usize] = flight;
        Some((number, flight))
    }

    /// The I/O of this number is complete.
    #[inline]
    pub(super) fn land(&mut self, number: u64) -> Flight {
        // There is room: all numbers were here once.
        if self.free.len() < self.free.capacity() {
            self.free.push(number as u32);
        }
        self.flights.get(number as usize).copied().unwrap_or_default()
    }

    /// How many I/Os were due and not issued when the time was over.
    pub(super) fn unissued(&mut self, clock: &Clock) -> u64 {
        let mut unissued = 0;
        while self.due(clock) < u64::MAX {
            self.taken = None;
            unissued += 1;
        }
        unissued
    }

    /// The time limit of a wait until a moment in ticks.
    #[inline]
    pub(super) fn instant(&self, clock: &Clock, ticks: u64) -> Instant {
        let (instant, at) = self.moment;
        instant + Duration::from_nanos(clock.ns_between(at, ticks.max(at)))
    }

    /// Passes the time until a moment in ticks as the path does; the time slept in ns, if it slept.
    pub(super) fn idle_until(&self, clock: &Clock, ticks: u64) -> Option<u64> {
        if self.spins {
            while clock.now() < ticks {
                std::hint::spin_loop();
            }
            return None;
        }
        let begin = clock.now();
        let until_ns = clock.ns_at(ticks);
        let until = Timespec {
            tv_sec: (until_ns / 1_000_000_000) as i64,
            tv_nsec: (until_ns % 1_000_000_000) as i64,
        };
        // A signal ends the sleep early; the caller looks again.
        let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until);
        Some(clock.ns_between(begin, clock.now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_passes_the_time_as_it_waits_for_completions() {
        let of = |path: &str| {
            let Pacing { spins, one_stream } = Pacing::of(&path.parse().unwrap());
            (spins, one_stream)
        };
        for path in ["libaio/syscall/interrupt", "io_uring/syscall/interrupt", "io_uring/syscall/hybrid"] {
            assert_eq!(of(path), (false, false), "{path}");
        }
        for path in ["io_uring/syscall/poll", "io_uring/sqpoll/interrupt", "nvme-user/doorbell/poll"] {
            assert_eq!(of(path), (true, false), "{path}");
        }
        for path in ["posix-sio/syscall/interrupt", "posix-sio/syscall/poll"] {
            assert_eq!(of(path), (false, true), "{path}");
        }
        assert_eq!(of("nvme-user/doorbell/interrupt"), (false, false));
    }
}
