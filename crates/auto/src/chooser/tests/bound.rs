//! Bounds of latency, and ways that are not what bursts show.

use super::super::*;
use super::*;
use crate::key::Direction;
use crate::policy::{Aim, Figures, Policy};
use crate::seen::Timed;

#[test]
fn over_the_bound_the_next_way_is_taken_at_once_and_one_that_keeps_it_again_is_found() {
    let known = knows(vec![figures(Way::Interrupt, 10_000.0), figures(Way::Poll, 12_000.0)]);
    let mut run = Run::new(chooser(Policy { bound_p99_ns: Some(15_000), ..known }, &KERNEL));
    run.epoch(|_| (10_000, 1));
    run.epoch(|way| if way == Way::Interrupt { (16_000, 1) } else { (12_000, 1) });
    assert_eq!(run.chooser.route(read()), Way::Poll);
    let why = Why::OverBound { p99_ns: 16_000, bound_ns: 15_000 };
    assert_eq!(run.log().iter().map(|one| &one.why).collect::<Vec<_>>(), [&why]);
    // It is faster on the average again, but is not taken before it was seen within the bound.
    run.epochs(3, |way| if way == Way::Interrupt { (16_000, 1) } else { (14_000, 1) });
    assert_eq!(run.chooser.route(read()), Way::Poll);
    run.log();
    // Each is seen before it is known that none keeps it; then the fastest is taken, and nothing changes.
    run.epochs(200, |way| if way == Way::Sio { (18_000, 1) } else { (20_000, 1) });
    assert_eq!(run.chooser.route(read()), Way::Sio, "every way is over the bound");
    let tried = [Way::Sio, Way::Interrupt, Way::Sio];
    assert_eq!(run.log().iter().map(|one| one.to).collect::<Vec<_>>(), tried);
    run.epochs(200, |way| if way == Way::Interrupt { (14_000, 1) } else { (20_000, 1) });
    assert_eq!(run.chooser.route(read()), Way::Interrupt, "bursts show that it keeps it");
}

#[test]
fn a_policys_word_that_a_way_breaks_the_bound_is_put_to_the_test() {
    let over = Figures { p99_ns: Some(30_000.0), cpu_ns: Some(3_000.0), ..figures(Way::Interrupt, 10_000.0) };
    let within = Figures { p99_ns: Some(12_000.0), cpu_ns: Some(5_000.0), ..figures(Way::Poll, 10_000.0) };
    let policy = Policy { bound_p99_ns: Some(15_000), aim: Aim::Cpu, ..knows(vec![over, within]) };
    let world: World = |way| (14_000, if way == Way::Poll { 5_000 } else { 3_000 });
    let mut estimates = Estimates::of(&policy);
    let burst = |estimates: &mut Estimates| {
        let estimate = estimates.get_mut(read(), Band::ONE, Way::Interrupt);
        estimate.forgive(15_000, Some(2));
        estimate.is_within(Some(15_000))
    };
    assert_eq!([(); 4].map(|()| burst(&mut estimates)), [false, false, false, true]);
    let mut run = Run::new(chooser(policy, &[Way::Interrupt, Way::Poll]));
    run.timed_in_burst = 2;
    run.epochs(800, world);
    assert_eq!(run.chooser.route(read()), Way::Interrupt);
}

#[test]
fn where_no_way_keeps_the_bound_the_fastest_is_taken() {
    let policy = Policy { bound_p99_ns: Some(5_000), ..with_aim(Aim::Cpu) };
    let mut run = Run::new(chooser(policy, &KERNEL));
    run.epochs(400, |way| match way {
        Way::Poll => (10_000, 10_000),
        Way::Interrupt => (10_200, 2_000),
        _ => (11_000, 1_000),
    });
    assert_eq!(run.chooser.route(read()), Way::Poll, "the bound comes before the CPU time");
}

#[test]
fn each_breach_doubles_how_much_a_way_must_show_before_it_is_taken_again() {
    let mut estimate = Estimate { p99_ns: Some(9.0), ..Estimate::default() };
    let mut needed = |breaches| {
        (estimate.p99_ns, estimate.breaches) = (Some(9.0), breaches);
        (1..).find(|_| {
            estimate.forgive(5, Some(1));
            estimate.p99_ns.is_none()
        })
    };
    assert_eq!([0, 1, 2, 10].map(&mut needed), [8, 16, 32, 8192].map(Some));
    estimate.p99_ns = Some(9.0);
    for within in [Some(8191), None, Some(8191)] {
        estimate.forgive(5, within);
    }
    assert_eq!(estimate.p99_ns, Some(9.0), "one over the bound, and it begins anew");
}

#[test]
fn a_way_that_broke_the_bound_is_taken_again_when_bursts_keep_it() {
    let known = knows(vec![figures(Way::Poll, 10_000.0), figures(Way::Interrupt, 14_000.0)]);
    let policy = Policy { bound_p99_ns: Some(15_000), ..known };
    let mut run = Run::new(chooser(policy, &[Way::Interrupt, Way::Poll]));
    run.timed_in_burst = 10;
    run.epoch(|way| if way == Way::Poll { (20_000, 1) } else { (14_000, 1) });
    run.epochs(200, |way| if way == Way::Poll { (20_000, 1) } else { (14_000, 1) });
    assert_eq!((run.chooser.route(read()), run.log().len()), (Way::Interrupt, 1), "bursts break it too");
    run.epochs(200, |way| if way == Way::Poll { (10_000, 1) } else { (14_000, 1) });
    assert_eq!(run.log().iter().map(|one| one.to).collect::<Vec<_>>(), [Way::Poll]);
}

#[test]
fn a_bound_that_one_of_two_kinds_breaks_moves_both_where_they_go_together() {
    let (write, bound_ns) = (Kind::new(Direction::Write, 64 << 10), 15_000);
    let policy = Policy { bound_p99_ns: Some(bound_ns), ..with_aim(Aim::Cpu) };
    let mut run = Run::new(chooser_at(2, policy, &KERNEL));
    run.in_flight = 2;
    let mix = [(read(), 3), (write, 1)];
    let world: World = |way| if way == Way::Poll { (9_000, 2_000) } else { (9_000, 4_000) };
    (0..400).for_each(|_| run.mixed_epoch(&mix, world));
    while run.chooser.burst.is_some() {
        run.mixed_epoch(&mix, world);
    }
    let routes = |run: &Run| [read(), write].map(|kind| run.chooser.route(kind));
    assert_eq!(routes(&run), [Way::Poll; 2]);
    run.log();
    let mut ios = [0; KINDS];
    (ios[read().index()], ios[write.index()]) = (1536, 512);
    let one = |kind, latency_ns| Timed { kind, way: Way::Poll, in_flight: 2, latency_ns };
    let timed = [vec![one(read(), 9_000); 150], vec![one(write, 20_000); 50]].concat();
    let (now_ns, elapsed_ns, cpu_ns) = (run.now_ns + 10_000_000, 10_000_000, 2048 * 2_000);
    run.chooser.plan();
    run.chooser.epoch(&Seen {
        now_ns,
        elapsed_ns,
        cpu_ns,
        ios: &ios,
        timed: &timed,
        crowding: None,
        joules: None,
    });
    assert_eq!(routes(&run), [Way::Interrupt; 2]);
    assert_eq!(run.log()[0].why, Why::OverBound { p99_ns: 20_000, bound_ns });
    // It costs less, but is not taken while bursts see it over the bound.
    let world: World = |way| if way == Way::Poll { (20_000, 2_000) } else { (9_000, 4_000) };
    (0..100).for_each(|_| run.mixed_epoch(&mix, world));
    while run.chooser.burst.is_some() {
        run.mixed_epoch(&mix, world);
    }
    assert_eq!(routes(&run), [Way::Interrupt; 2]);
}

#[test]
fn a_way_that_is_better_in_bursts_alone_is_tried_ever_more_seldom() {
    let mut run = Run::new(chooser_at(8, Policy::default(), &[Way::Interrupt, Way::Sqpoll]));
    run.in_flight = 8;
    let burst: World = |way| (if way == Way::Sqpoll { 80_000 } else { 100_000 }, 1);
    let epoch: World = |way| (if way == Way::Sqpoll { 130_000 } else { 100_000 }, 1);
    for _ in 0..20_000 {
        let explores = run.chooser.burst.is_some();
        run.epoch(if explores { burst } else { epoch });
    }
    let log = run.log();
    let taken: Vec<u64> = log.iter().map(|one| one.ios).collect();
    assert_eq!(log[0].to, Way::Sqpoll, "bursts show it to be better");
    assert!((4..=20).contains(&log.len()), "{taken:?}");
    // Each rest is twice as long as the one before, so all that is lost adds up to little.
    let rests: Vec<u64> = taken.iter().copied().skip(2).step_by(2).collect();
    assert!(rests.windows(2).all(|pair| 2 * pair[1] > 3 * pair[0]), "{rests:?}");
}
