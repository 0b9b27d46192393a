//! The program's array of events: what has ended is taken to it, from the owner's queue and from the kernel.

use crate::context::{Context, Event};
use crate::state::State;
use std::ffi::{c_int, c_long};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// io_getevents of libaio.
pub(crate) type GetEvents =
    unsafe extern "C-unwind" fn(usize, c_long, c_long, *mut Event, *mut libc::timespec) -> c_int;

/// How long signals are held off at a time, and how long a busy queue is left alone.
pub(crate) const SLICE: Duration = Duration::from_millis(10);
pub(crate) const SHORT: Duration = Duration::from_micros(100);
/// How long a thread is waited for that does not answer. By then the drive has done what it was given.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// What one look found.
pub(crate) enum Look {
    /// Enough, or the time is over.
    Done,
    /// Everything that is left is the kernel's.
    Kernel,
    /// A while has passed.
    Waited,
    /// What is in flight is another thread's, which was asked for it.
    OfOthers,
}

/// The program's array of events.
pub(crate) struct Events {
    pub(crate) real: GetEvents,
    pub(crate) id: usize,
    pub(crate) to: *mut Event,
    pub(crate) most: usize,
    pub(crate) count: usize,
}

impl Events {
    /// Takes what there is, and waits for a while if that is not enough.
    pub(crate) fn look(
        &mut self,
        context: &Arc<Context>,
        state: &mut State,
        least: usize,
        until: Option<Instant>,
    ) -> Look {
        let is_owner = context.owner.is(&state.owner);
        self.take(context);
        if is_owner && context.is_moved.load(Ordering::SeqCst) > 0 {
            let is_alone = !context.is_in_kernel() && !context.is_shared();
            let end = Instant::now() + if is_alone { SLICE } else { SHORT };
            let owned = state.owned(context);
            match self.count < least {
                true => owned.queue.wait(until.map_or(end, |until| until.min(end))),
                false => owned.queue.reap(),
            }
            owned.publish();
            self.take(context);
        }
        if context.is_in_kernel() && self.count < self.most {
            self.ask_kernel(context);
        }
        if is_owner {
            context.see(self.count);
        }
        if self.count >= least.max(1) {
            return Look::Done;
        }
        if context.is_moved.load(Ordering::SeqCst) == 0 {
            return if least == 0 && self.count > 0 { Look::Done } else { Look::Kernel };
        }
        if least == 0 || until.is_some_and(|until| Instant::now() >= until) {
            return Look::Done;
        }
        if is_owner {
            return Look::Waited;
        }
        context.owner.ask();
        Look::OfOthers
    }

    /// Takes what has ended and was moved.
    pub(crate) fn take(&mut self, context: &Context) {
        let mut ready = context.ready();
        let before = self.count;
        while self.count < self.most
            && let Some(event) = ready.pop_front()
        {
            // SAFETY: there is room for `most` events.
            unsafe { self.to.add(self.count).write(event) };
            self.count += 1;
        }
        context.withdraw(self.count - before);
    }

    /// Takes what has ended of the kernel's, without waiting.
    fn ask_kernel(&mut self, context: &Context) {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let room = (self.most - self.count) as c_long;
        // SAFETY: there is room for so many events.
        let found = unsafe { (self.real)(self.id, 0, room, self.to.add(self.count), &raw mut now) };
        self.count_kernel(context, found);
    }

    /// Waits for the rest in the kernel.
    ///
    /// # Safety
    /// `limit` is null or a time.
    pub(crate) unsafe fn wait_in_kernel(
        &mut self,
        context: &Context,
        least: usize,
        until: Option<Instant>,
        limit: *mut libc::timespec,
    ) -> c_int {
        let mut left = until.map(left_until);
        let limit = left.as_mut().map_or(limit, std::ptr::from_mut);
        let (least, room) = (least.saturating_sub(self.count), self.most - self.count);
        // SAFETY: there is room for so many events; by this function's condition.
        let found =
            unsafe { (self.real)(self.id, least as c_long, room as c_long, self.to.add(self.count), limit) };
        let before = self.count;
        self.count_kernel(context, found);
        if !context.is_shared() {
            context.see(self.count - before);
        }
        if found < 0 && self.count == 0 { found } else { self.count as c_int }
    }

    fn count_kernel(&mut self, context: &Context, found: c_int) {
        let found = found.max(0) as usize;
        self.count += found;
        context.take_from_kernel(found);
    }
}

/// When a time is over; `None` if it is no time.
pub(crate) fn deadline(time: &libc::timespec) -> Option<Instant> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let ns = u32::try_from(time.tv_nsec).ok().filter(|ns| *ns < 1_000_000_000)?;
    let far = Duration::from_secs(1 << 32);
    Instant::now().checked_add(Duration::new(seconds, ns).min(far))
}

/// What is left of a time.
pub(crate) fn left_until(until: Instant) -> libc::timespec {
    let left = until.saturating_duration_since(Instant::now());
    libc::timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_over_later_and_a_wrong_one_is_none() {
        let time = |tv_sec, tv_nsec| deadline(&libc::timespec { tv_sec, tv_nsec });
        assert!(time(1, 5).unwrap() > Instant::now());
        assert!(time(i64::MAX, 0).is_some(), "very late");
        for (seconds, ns) in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(time(seconds, ns), None);
        }
        let left = left_until(Instant::now() + Duration::from_secs(100));
        assert!((98..100).contains(&left.tv_sec) && (0..1_000_000_000).contains(&left.tv_nsec));
        assert_eq!((left_until(Instant::now()).tv_sec, left_until(Instant::now()).tv_nsec), (0, 0));
    }
}
