//! The simulated machine by itself: cores, timers, slices and interrupts.

use super::super::calendar::Event;
use super::super::machine::Machine;
use super::super::*;
use super::free_of_cost;

/// One core with two threads, of which the first is on it.
fn two_threads() -> Machine {
    let mut machine = machine(2, 1);
    assert_eq!(next_thread(&mut machine), Some(0));
    machine
}

/// Interrupts take 800 ns.
fn machine(jobs: u32, cores: u32) -> Machine {
    let path = SimPath { interrupt_ns: 800.0, ..free_of_cost().path };
    let mut machine = Machine::new(&Scenario { jobs, cores, path, ..free_of_cost() }, jobs);
    machine.start();
    machine
}

/// Goes on until a thread acts. An I/O that the drive has ended interrupts its job's core.
fn next_thread(machine: &mut Machine) -> Option<u32> {
    loop {
        match machine.calendar.next()? {
            Event::Ended { core } => {
                if let Some(thread) = machine.ended(core) {
                    return Some(thread);
                }
            }
            Event::Slice { core, slice } => machine.slice_over(core, slice),
            Event::Timer { thread, wait } => machine.timer(thread, wait),
            Event::Done { job, .. } => {
                machine.interrupt(job);
            }
            Event::Handled { .. } => {}
        }
    }
}

#[test]
fn a_timer_of_an_earlier_wait_wakes_nobody() {
    let mut machine = two_threads();
    machine.sleep(0, 1000.0);
    assert_eq!(next_thread(&mut machine), Some(1));
    machine.wake(0);
    machine.sleep(1, f64::INFINITY);
    assert_eq!((next_thread(&mut machine), machine.now()), (Some(0), 0.0));
    machine.sleep(0, 5000.0);
    assert_eq!((next_thread(&mut machine), machine.now()), (Some(0), 5000.0));
}

#[test]
fn a_slice_that_was_cut_short_ends_no_later_one() {
    let mut machine = two_threads();
    // The first waits with the second in the queue, sees something, and sleeps.
    machine.spin(0, false);
    machine.notify(0);
    assert_eq!((next_thread(&mut machine), machine.now()), (Some(0), 64.0));
    machine.sleep(0, 100.0);
    assert_eq!((next_thread(&mut machine), machine.now()), (Some(1), 64.0));
    // The second has its own slice, while the first is in the queue again.
    machine.spin(1, false);
    assert_eq!((next_thread(&mut machine), machine.now()), (Some(0), SLICE_NS + 64.0));
}

#[test]
fn a_thread_that_polls_leaves_its_core_at_once_if_its_slice_was_over_before() {
    let mut machine = two_threads();
    machine.sleep(0, 2.0 * SLICE_NS);
    assert_eq!(next_thread(&mut machine), Some(1));
    machine.spin(1, false);
    assert_eq!((next_thread(&mut machine), machine.now()), (Some(0), 2.0 * SLICE_NS));
    // It has polled all the time, and goes on when it has a core again.
    is_near(machine.used().job, 2.0 * SLICE_NS);
    machine.sleep(0, f64::INFINITY);
    assert_eq!(next_thread(&mut machine), Some(1));
}

#[test]
fn a_thread_is_not_preempted_while_an_interrupt_is_handled() {
    let mut machine = two_threads();
    machine.spin(0, false);
    machine.calendar.enter(SLICE_NS - 100.0, Event::Done { job: 0, started: 0.0 });
    assert_eq!((next_thread(&mut machine), machine.now()), (Some(1), SLICE_NS + 700.0));
    let used = machine.used();
    is_near(used.job, SLICE_NS - 100.0);
    is_near(used.interrupt, 800.0);
}

#[test]
fn a_thread_keeps_its_core_and_its_interrupts() {
    let mut machine = machine(3, 3);
    for thread in 0..3 {
        assert_eq!(next_thread(&mut machine), Some(thread));
        machine.step(thread, 1000.0 * f64::from(thread + 1));
    }
    // The interrupt holds up the last alone.
    machine.calendar.enter(500.0, Event::Done { job: 2, started: 0.0 });
    for (thread, at) in [(0, 1000.0), (1, 2000.0), (2, 3800.0)] {
        assert_eq!((next_thread(&mut machine), machine.now()), (Some(thread), at));
        machine.sleep(thread, f64::INFINITY);
    }
    // Woken while all cores are idle, it is on its own again.
    machine.wake(2);
    machine.calendar.enter(3900.0, Event::Done { job: 0, started: 0.0 });
    assert_eq!(next_thread(&mut machine), Some(2));
    machine.step(2, 1000.0);
    assert_eq!((next_thread(&mut machine), machine.now()), (Some(2), 4800.0));
}

#[track_caller]
fn is_near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
}
