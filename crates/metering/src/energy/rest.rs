//! What the runner does between trials for the meters' sake: nothing, for a stated time, or the load pattern.

use iopj_load::native::cpus;
use iopj_meter::{Pattern, monotonic_raw_ns};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often the stop flag is looked at and the user's view is renewed.
const SLICE_NS: u64 = 100_000_000;

/// Sleeps until a raw time; false if it was stopped.
fn sleep_until(raw_ns: u64, stop: &AtomicBool, tick: &mut dyn FnMut()) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left_ns = raw_ns.saturating_sub(monotonic_raw_ns());
        if left_ns == 0 {
            return true;
        }
        std::thread::sleep(Duration::from_nanos(left_ns.min(SLICE_NS)));
        tick();
    }
}

/// How long the machine is left alone.
pub struct RestTimes {
    /// Before it is asked whether it has settled.
    pub(crate) settle: Duration,
    /// The longest wait for it to settle.
    pub(crate) settle_limit: Duration,
    /// How often it is asked until then.
    pub(crate) look_every: Duration,
    /// Once it has settled.
    pub(crate) length: Duration,
}

impl RestTimes {
    /// Leaves the machine alone until it `has_settled`, then for the idle stretch. Returns the start and end
    /// of that stretch and whether it had settled; `None` if it was stopped.
    pub(crate) fn pass(
        &self,
        has_settled: &mut dyn FnMut() -> bool,
        stop: &AtomicBool,
        tick: &mut dyn FnMut(),
    ) -> Option<(Vec<u64>, bool)> {
        let ns = |time: Duration| time.as_nanos() as u64;
        let came_ns = monotonic_raw_ns();
        let mut settled = sleep_until(came_ns + ns(self.settle), stop, tick) && has_settled();
        while !settled && monotonic_raw_ns() < came_ns + ns(self.settle_limit) {
            if !sleep_until(monotonic_raw_ns() + ns(self.look_every), stop, tick) {
                return None;
            }
            settled = has_settled();
        }
        let begin_ns = monotonic_raw_ns();
        let passed = sleep_until(begin_ns + ns(self.length), stop, tick);
        passed.then(|| (vec![begin_ns, monotonic_raw_ns()], settled))
    }
}

/// Plays a load pattern on every processor that this process may use, and returns its times as played: begin,
/// edges, end. `None` if it was stopped.
pub(crate) fn play(pattern: &Pattern, stop: &AtomicBool, tick: &mut dyn FnMut()) -> Option<Vec<u64>> {
    let load = Load::default();
    std::thread::scope(|scope| {
        for cpu in cpus::allowed() {
            let load = &load;
            // One that cannot be started makes the load smaller, and no edge later.
            let _ = std::thread::Builder::new()
                .name("iopj-load".to_owned())
                .spawn_scoped(scope, move || load.work(cpu));
        }
        let begin_ns = monotonic_raw_ns();
        let at = |pattern_ns: i64| begin_ns + (pattern_ns - pattern.begin_ns()).max(0) as u64;
        let mut times = vec![begin_ns];
        for (number, edge_ns) in pattern.edges_ns().iter().enumerate() {
            if !sleep_until(at(*edge_ns), stop, tick) {
                load.switch(Phase::Over);
                return None;
            }
            load.switch(if number % 2 == 0 { Phase::On } else { Phase::Off });
            times.push(monotonic_raw_ns());
        }
        let whole = sleep_until(at(pattern.end_ns()), stop, tick);
        load.switch(Phase::Over);
        times.push(monotonic_raw_ns());
        whole.then_some(times)
    })
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Phase {
    On,
    #[default]
    Off,
    Over,
}

/// Threads that keep processors busy while the phase is on.
#[derive(Default)]
struct Load {
    phase: Mutex<Phase>,
    changed: Condvar,
    is_on: AtomicBool,
}

impl Load {
    fn switch(&self, phase: Phase) {
        self.is_on.store(phase == Phase::On, Ordering::Relaxed);
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_all();
    }

    fn work(&self, cpu: u32) {
        // Where it may not be kept there the scheduler spreads the threads as well.
        let _ = cpus::keep_to(&[cpu]);
        loop {
            let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
            while *phase == Phase::Off {
                phase = self.changed.wait(phase).unwrap_or_else(PoisonError::into_inner);
            }
            if *phase == Phase::Over {
                return;
            }
            drop(phase);
            let mut value = 1_u64;
            while self.is_on.load(Ordering::Relaxed) {
                for _ in 0..1000 {
                    value =
                        std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_played_in_full_and_its_edges_are_returned() {
        let edges = [10_000_000, 30_000_000, 40_000_000, 60_000_000];
        let pattern = Pattern::played(0, &edges, 70_000_000).unwrap();
        let mut ticks = 0;
        let times = play(&pattern, &AtomicBool::new(false), &mut || ticks += 1).unwrap();
        assert_eq!(times.len(), 6);
        assert!(
            times.iter().zip([0, 10, 30, 40, 60, 70]).all(|(at, ms)| at - times[0] >= ms * 1_000_000),
            "{times:?}"
        );
        assert!(ticks >= 1);
        Pattern::played(times[0], &times[1..5], times[5]).unwrap();
    }

    #[test]
    fn an_idle_stretch_begins_after_the_machine_has_settled() {
        let ms = Duration::from_millis;
        let idle = RestTimes { settle: ms(20), settle_limit: ms(60_000), look_every: ms(10), length: ms(30) };
        let (before_ns, mut asked) = (monotonic_raw_ns(), Vec::new());
        let mut third = || {
            asked.push(monotonic_raw_ns());
            asked.len() == 3
        };
        let (times, settled) = idle.pass(&mut third, &AtomicBool::new(false), &mut || {}).unwrap();
        assert!(settled && asked.len() == 3 && asked[0] - before_ns >= 20_000_000, "{asked:?}");
        assert!(times[0] >= asked[2] && times[1] - times[0] >= 30_000_000, "{times:?}");
    }

    #[test]
    fn what_never_settles_is_waited_for_up_to_the_limit() {
        let ms = Duration::from_millis;
        let idle = RestTimes { settle: ms(10), settle_limit: ms(50), look_every: ms(10), length: ms(10) };
        let before_ns = monotonic_raw_ns();
        let (times, settled) = idle.pass(&mut || false, &AtomicBool::new(false), &mut || {}).unwrap();
        assert!(
            !settled && times[0] - before_ns >= 50_000_000 && times[1] - times[0] >= 10_000_000,
            "{times:?}"
        );
    }

    #[test]
    fn what_is_stopped_ends_without_a_mark() {
        let stop = AtomicBool::new(true);
        let minute = Duration::from_secs(60);
        let idle =
            RestTimes { settle: Duration::ZERO, settle_limit: minute, look_every: minute, length: minute };
        assert_eq!(idle.pass(&mut || true, &stop, &mut || {}), None);
        assert_eq!(idle.pass(&mut || false, &stop, &mut || {}), None);
        assert_eq!(play(&Pattern::design(1_000_000_000), &stop, &mut || {}), None);
    }
}
