//! The pace of a job under an open load or a trace: what is due, and how the job passes the time until then.

use super::arrivals::{Arrivals, SharedArrivals};
use super::clock::Clock;
use super::sizes::write;
use crate::trace::Op;
use crate::trace::{Cursor, Piece, Replay};
use iopj_core::{CompletionMode, IoPath, RingSubmission, Way, WriteSync};
use iopj_engine::{Buffer, Operation, Transfer};
use rustix::thread::{ClockId, Timespec};
use std::num::NonZeroU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How the jobs of a path keep an open load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pacing {
    /// Nothing in flight, a job spins until the next arrival instead of sleeping, as it does for a
    /// completion.
    pub spins: bool,
    /// All jobs serve one stream of arrivals: each can have one I/O in flight, and blocks meanwhile.
    pub one_stream: bool,
}

impl Pacing {
    /// That of a path. Where the job spins for completions (polled queues, and a submission poller without
    /// waits in the kernel) it has no reason to sleep between arrivals. A synchronous call has nothing to
    /// spin on: its thread waits for work asleep.
    /// An adaptive engine that takes one way alone waits as that does; if it chooses, its job sleeps.
    pub fn of(path: &IoPath) -> Pacing {
        let pinned = path.auto().and_then(|auto| auto.pinned()).map(Way::path);
        let path = pinned.as_ref().unwrap_or(path);
        let waits_by_spinning = match path.ring() {
            Some(ring) => matches!(ring.submission, RingSubmission::Sqpoll { kernel_wait: false }),
            None => false,
        };
        let polls = path.completion() == CompletionMode::Poll;
        let one_stream = path.is_synchronous();
        Pacing { spins: !one_stream && (polls || waits_by_spinning), one_stream }
    }
}

/// Lets this thread's timers expire when they are due, not up to 50 us later (`PR_SET_TIMERSLACK`). Where
/// that is refused, the lag shows it.
pub(super) fn without_timer_slack() {
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Where a job's arrivals come from.
pub(super) enum Stream<'a> {
    Own(Box<Arrivals>),
    Shared(&'a SharedArrivals),
    Trace(SharedReplay<'a>, Cursor<'a>),
    /// Each as soon as it can be issued: a closed loop.
    Closed,
}

/// A trace that several jobs replay, each record once.
pub(super) struct SharedReplay<'a> {
    replay: &'a Replay,
    /// The begin of the run for which the trace was started.
    begin_ns: &'a Mutex<u64>,
}

impl<'a> SharedReplay<'a> {
    pub(super) fn new(replay: &'a Replay, begin_ns: &'a Mutex<u64>) -> SharedReplay<'a> {
        SharedReplay { replay, begin_ns }
    }

    /// This job's part of the run that begins at `begin_ns`; the first job starts the trace anew, while no
    /// other takes part.
    fn start(&self, begin_ns: u64) -> Cursor<'a> {
        let mut begun = self.begin_ns.lock().unwrap_or_else(PoisonError::into_inner);
        if *begun != begin_ns {
            *begun = begin_ns;
            self.replay.restart();
        }
        self.replay.cursor()
    }
}

impl Stream<'_> {
    fn start(&mut self, begin_ns: u64, window: Option<Duration>) {
        match self {
            Stream::Own(arrivals) => arrivals.start(window),
            Stream::Shared(shared) => shared.start(begin_ns, window),
            Stream::Trace(shared, cursor) => *cursor = shared.start(begin_ns),
            Stream::Closed => {}
        }
    }

    /// True if nothing is due at a time of its own.
    fn is_timeless(&self) -> bool {
        match self {
            Stream::Trace(shared, _) => shared.replay.mapped().span_ns.is_none(),
            Stream::Closed => true,
            Stream::Own(_) | Stream::Shared(_) => false,
        }
    }

    /// When the next I/O is due, in ns from the start, and what it does if a trace says so; none if there are
    /// no more.
    #[inline]
    fn next(&mut self) -> Option<(u64, Option<Piece>)> {
        match self {
            Stream::Own(arrivals) => Some((arrivals.next_ns(), None)),
            Stream::Shared(shared) => Some((shared.next_ns(), None)),
            Stream::Trace(_, cursor) => cursor.next().map(|piece| (piece.due_ns, Some(piece))),
            Stream::Closed => Some((0, None)),
        }
    }
}

/// When an I/O was due, and when it was issued, in ticks.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    pub(super) due: u64,
    pub(super) issued: u64,
    /// What it does, and how many bytes a whole one moves.
    pub(super) op: Op,
    pub(super) len: u32,
}

/// An arrival that was taken from the stream and is not issued yet.
#[derive(Clone, Copy)]
struct Taken {
    /// In ticks.
    due: u64,
    piece: Option<Piece>,
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
    /// The buffers of I/Os that have none, which keep their place among `iodepth`.
    kept: Vec<Buffer>,
    /// Whether writes that are drawn are durable.
    sync: WriteSync,
    /// Nothing is due at a time of its own: it is due when it can be issued.
    pub(super) is_timeless: bool,
    begin_ns: u64,
    /// One moment on two clocks.
    moment: (Instant, u64),
    taken: Option<Taken>,
    /// End of the time in which I/Os are due, in ticks; `u64::MAX` where their number is the limit.
    pub(super) end: u64,
    /// It was said how far behind the job was then.
    is_told: bool,
}

impl<'a> Pace<'a> {
    pub(super) fn new(stream: Stream<'a>, spins: bool, iodepth: u32, sync: WriteSync) -> Pace<'a> {
        Pace {
            sync,
            is_window: false,
            flights: vec![Flight { due: 0, issued: 0, op: Op::Read, len: 0 }; iodepth as usize],
            free: (0..iodepth).collect(),
            kept: Vec::with_capacity(iodepth as usize),
            is_timeless: stream.is_timeless(),
            spins,
            stream,
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
            return taken.due;
        }
        let (due, piece) = match self.stream.next() {
            Some((next_ns, piece)) => {
                let ticks = clock.ticks_at(self.begin_ns.saturating_add(next_ns));
                (if ticks < self.end { ticks } else { u64::MAX }, piece)
            }
            None => (u64::MAX, None),
        };
        self.taken = Some(Taken { due, piece });
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

    /// Issues what is due, which is what a trace says, or else `drawn`: the number by which its completion
    /// will be known, the flight, and where it goes.
    #[inline]
    pub(super) fn take_off(
        &mut self,
        issued: u64,
        drawn: impl FnOnce() -> Piece,
    ) -> Option<(u32, Flight, Piece)> {
        let taken = self.taken.take()?;
        let piece = taken.piece.unwrap_or_else(drawn);
        let due = if self.is_timeless { issued } else { taken.due };
        let flight = Flight { due, issued, op: piece.op, len: piece.len };
        let number = self.free.pop()?;
        self.flights[number as usize] = flight;
        Some((number, flight, piece))
    }

    /// Issues what follows from what came before, and is due at once.
    pub(super) fn take_off_at_once(&mut self, now: u64, piece: Piece) -> Option<(u32, Flight, Piece)> {
        let flight = Flight { due: now, issued: now, op: piece.op, len: piece.len };
        let number = self.free.pop()?;
        self.flights[number as usize] = flight;
        Some((number, flight, piece))
    }

    /// What an engine is asked for. The buffer of an operation that has none is kept until it is complete.
    #[inline]
    pub(super) fn operation(&mut self, piece: Piece, buffer: Buffer) -> Operation {
        let Piece { op, offset, len, .. } = piece;
        match op {
            Op::Read => Operation::Read(Transfer { buffer, len, offset }),
            Op::Write => write(self.sync, Transfer { buffer, len, offset }),
            Op::WriteDsync => Operation::WriteDsync(Transfer { buffer, len, offset }),
            rare => {
                self.kept.push(buffer);
                match rare {
                    Op::Discard => Operation::Discard { offset, len: len.into() },
                    Op::Fsync => Operation::Fsync,
                    _ => Operation::Flush,
                }
            }
        }
    }

    /// The buffer that an operation without one gives back.
    pub(super) fn give_back(&mut self) -> Option<Buffer> {
        self.kept.pop()
    }

    /// The I/O of this number is complete.
    #[inline]
    pub(super) fn land(&mut self, number: u64) -> Option<Flight> {
        // There is room: all numbers were here once.
        if self.free.len() < self.free.capacity() {
            self.free.push(number as u32);
        }
        self.flights.get(number as usize).copied()
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
