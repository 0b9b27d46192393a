//! How an engine waits for completions: by polling, by an interrupt, or by a sleep and then polling.

use super::irq::Waiter;
use super::queue::CompletionQueue;
use crate::error::EngineError;
use iopj_path::{Sleep, Spin, UserCompletion};
use rustix::thread::{
    ClockId, Timespec, clock_nanosleep_relative, current_timer_slack, set_current_timer_slack,
};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Empty polls between two looks at the clock: some microseconds, or with PAUSE some tens to hundreds. Under
/// Miri each costs more than a look.
const POLLS_PER_LOOK: u32 = if cfg!(miri) { 64 } else { 4096 };
/// The same while there is a deadline.
const POLLS_PER_DEADLINE: u32 = 64;
/// Quiet time between two looks at the controller: long compared with an I/O, short for a user.
const LOOK_AFTER: Duration = Duration::from_millis(1);
/// The longest sleep without a look at the controller while waiting for an interrupt.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

enum Mode {
    Poll,
    Interrupt(Waiter),
    Hybrid(Hybrid),
}

struct Hybrid {
    fixed: Option<Duration>,
    _slack: TimerSlack,
    /// Mean time of a wait that was not answered at once, in which the latest counts one eighth. The thread
    /// sleeps half of it, as the kernel did for synchronous I/O until 6.3 (block/blk-mq.c,
    /// `blk_mq_poll_nsecs`). At depth 1 a wait is an I/O's service time; at higher depths it is the time to
    /// the next completion, so the drive always has work.
    mean_ns: u64,
    began: Option<Instant>,
}

impl Hybrid {
    fn sleep_time(&self) -> Duration {
        self.fixed.unwrap_or_else(|| Duration::from_nanos(self.mean_ns / 2))
    }
}

/// Keeps the thread's timer slack at its least until dropped: with the usual 50 us a sleep of a few us would
/// take far longer.
struct TimerSlack(Option<NonZeroU64>);

impl TimerSlack {
    fn least() -> TimerSlack {
        let before = current_timer_slack().ok().and_then(NonZeroU64::new);
        let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        TimerSlack(before)
    }
}

impl Drop for TimerSlack {
    fn drop(&mut self) {
        // The engine is not `Send`, so this is the thread whose slack was changed.
        let _ = set_current_timer_slack(self.0);
    }
}

/// How an engine waits, its counts, and when to look at the controller next.
pub(super) struct Waiting {
    mode: Mode,
    spin: Spin,
    /// When the controller was looked at last, or the first look was put off; absent after a completion.
    looked: Option<Instant>,
    pub(super) system_calls: u64,
    /// Of these, sleeps before polling.
    pub(super) sleeps: u64,
    pub(super) empty_polls: u64,
    /// A hybrid wait sleeps once.
    may_sleep: bool,
}

impl Waiting {
    /// Waiting without any resource of its own.
    pub(super) fn polling() -> Waiting {
        Waiting {
            mode: Mode::Poll,
            spin: Spin::Tight,
            looked: None,
            system_calls: 0,
            sleeps: 0,
            empty_polls: 0,
            may_sleep: false,
        }
    }

    /// From now on waits by `mode`; `event` is what the queue pair's vector signals.
    pub(super) fn change(
        &mut self,
        mode: UserCompletion,
        event: Option<&Arc<OwnedFd>>,
    ) -> Result<(), EngineError> {
        if mode == UserCompletion::Interrupt && event.is_none() {
            return Err(EngineError::unsupported("the queue pair has no interrupt vector: poll instead"));
        }
        // First, because it gives back the thread's timer slack, which the next one may change again.
        self.mode = Mode::Poll;
        self.may_sleep = false;
        let hybrid = |fixed| {
            let _slack = TimerSlack::least();
            Mode::Hybrid(Hybrid { fixed, _slack, mean_ns: 0, began: None })
        };
        (self.mode, self.spin) = match mode {
            UserCompletion::Interrupt => (
                event.map_or(Ok(Mode::Poll), |event| Waiter::new(&**event).map(Mode::Interrupt))?,
                Spin::Tight,
            ),
            UserCompletion::Poll(spin) => (Mode::Poll, spin),
            UserCompletion::Hybrid(Sleep::Auto, spin) => (hybrid(None), spin),
            UserCompletion::Hybrid(Sleep::Fixed(us), spin) => {
                (hybrid(Some(Duration::from_micros(us.get().into()))), spin)
            }
        };
        Ok(())
    }

    /// Makes an event that somebody else waits for unreadable again; one system call.
    pub(super) fn read_event(&mut self, event: Option<&OwnedFd>) {
        if let Some(event) = event {
            self.system_calls += 1;
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }

    /// A completion was taken.
    #[inline]
    pub(super) fn progress(&mut self) {
        self.looked = None;
    }

    /// A wait starts, and no completion is ready.
    #[inline]
    pub(super) fn begin(&mut self) {
        if let Mode::Hybrid(hybrid) = &mut self.mode {
            hybrid.began = Some(Instant::now());
            self.may_sleep = true;
        }
    }

    #[inline]
    pub(super) fn end(&mut self) {
        if let Mode::Hybrid(hybrid) = &mut self.mode
            && let Some(began) = hybrid.began.take()
        {
            let took_ns = began.elapsed().as_nanos() as u64;
            hybrid.mean_ns = hybrid.mean_ns - hybrid.mean_ns / 8 + took_ns / 8;
        }
    }

    /// Waits until an entry may be ready, or the deadline is over, by a millisecond at the most where it
    /// sleeps; false after a while without one, when it is time to look at the controller.
    #[inline]
    pub(super) fn until_ready(&mut self, queue: &CompletionQueue, until: Option<Instant>) -> bool {
        if queue.is_ready() {
            return true;
        }
        let left = until.map_or(LONGEST_SLEEP, |until| until.saturating_duration_since(Instant::now()));
        match &mut self.mode {
            Mode::Interrupt(waiter) => {
                self.system_calls += 1;
                waiter.wait(left.min(LONGEST_SLEEP));
                return queue.is_ready() || !self.is_quiet();
            }
            Mode::Hybrid(hybrid) if std::mem::take(&mut self.may_sleep) => {
                let time = hybrid.sleep_time().min(left);
                if !time.is_zero() {
                    self.system_calls += 1;
                    self.sleeps += 1;
                    sleep(time);
                }
            }
            Mode::Hybrid(_) | Mode::Poll => {}
        }
        let most = if until.is_some() { POLLS_PER_DEADLINE } else { POLLS_PER_LOOK };
        loop {
            let empty = match self.spin {
                Spin::Tight => polls::<false>(queue, most),
                Spin::Pause => polls::<true>(queue, most),
            };
            self.empty_polls += u64::from(empty);
            if empty < most || until.is_some_and(|until| Instant::now() >= until) {
                return true;
            }
            if self.is_quiet() {
                return false;
            }
        }
    }

    /// Counts a poll that found nothing; true if it may be time to look at the controller.
    #[inline]
    pub(super) fn is_look_due(&mut self) -> bool {
        self.empty_polls += 1;
        self.empty_polls.is_multiple_of(POLLS_PER_LOOK.into())
    }

    /// Reads the clock; true if nothing has come for so long that it is time to look at the controller.
    #[cold]
    pub(super) fn is_quiet(&mut self) -> bool {
        let now = Instant::now();
        let looked = self.looked.get_or_insert(now);
        let due = now.duration_since(*looked) >= LOOK_AFTER;
        if due {
            *looked = now;
        }
        due
    }
}

/// Polls until an entry is ready, at most `most` times; returns how many polls found none.
#[inline]
fn polls<const PAUSE: bool>(queue: &CompletionQueue, most: u32) -> u32 {
    for empty in 0..most {
        if queue.is_ready() {
            return empty;
        }
        if PAUSE {
            std::hint::spin_loop();
        }
    }
    most
}

/// Sleeps by clock_nanosleep(2), which a signal may cut short.
fn sleep(time: Duration) {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let _ = clock_nanosleep_relative(ClockId::Monotonic, &time);
}
