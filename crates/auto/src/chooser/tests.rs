//! The chooser over ways of known latency and CPU time.

mod bound;

use super::*;
use crate::clock::Crowding;
use crate::key::Direction;
use crate::policy::{Aim, Cell, Figures, Policy};
use crate::seen::Timed;
use proptest::prelude::*;

pub(super) const KERNEL: [Way; 3] = [Way::Interrupt, Way::Poll, Way::Sio];

/// What an I/O takes and costs on a way, in ns.
pub(super) type World = fn(Way) -> (u64, u64);

pub(super) fn poll_is_fast(way: Way) -> (u64, u64) {
    match way {
        Way::Poll | Way::UserPoll => (6_000, 6_000),
        Way::Sio => (10_500, 2_500),
        _ => (10_000, 3_000),
    }
}

pub(super) fn read() -> Kind {
    Kind::new(Direction::Read, 4096)
}

pub(super) fn chooser(policy: Policy, ways: &[Way]) -> Chooser {
    chooser_at(1, policy, ways)
}

pub(super) fn chooser_at(iodepth: u32, policy: Policy, ways: &[Way]) -> Chooser {
    policy.check().unwrap();
    Chooser::new(Choice {
        policy,
        ways: ways.to_vec(),
        is_bypass: ways[0].is_bypass(),
        rule: Rule::Follow,
        iodepth,
        seed: 1,
        epochs: Epochs::default(),
    })
}

pub(super) struct Run {
    pub(super) chooser: Chooser,
    pub(super) now_ns: u64,
    pub(super) in_flight: u32,
    pub(super) crowding: Option<Crowding>,
    /// I/Os of a burst that are timed.
    pub(super) timed_in_burst: u32,
}

impl Run {
    pub(super) fn new(chooser: Chooser) -> Run {
        Run { chooser, now_ns: 0, in_flight: 1, crowding: None, timed_in_burst: 200 }
    }

    /// One epoch of reads of 4 KiB.
    pub(super) fn epoch(&mut self, world: World) {
        self.mixed_epoch(&[(read(), 1)], world);
    }

    /// One epoch of kinds in these shares.
    pub(super) fn mixed_epoch(&mut self, kinds: &[(Kind, u32)], world: World) {
        let plan = self.chooser.plan();
        let (mut ios, mut timed) = ([0; KINDS], Vec::new());
        let (mut elapsed_ns, mut cpu_ns) = (0, 0);
        let shares: u32 = kinds.iter().map(|(_, share)| share).sum();
        for (kind, share) in kinds {
            let count = plan.ios * share / shares;
            let way = self.chooser.route(*kind);
            let (latency_ns, cpu) = world(way);
            ios[kind.index()] = count;
            elapsed_ns += u64::from(count) * latency_ns / u64::from(self.in_flight);
            cpu_ns += u64::from(count) * cpu;
            let one = Timed { kind: *kind, way, in_flight: self.in_flight, latency_ns };
            let most = if plan.explores { self.timed_in_burst } else { 200 };
            timed.extend((0..count.min(most)).map(|_| one));
        }
        self.now_ns += elapsed_ns;
        let (now_ns, crowding) = (self.now_ns, self.crowding);
        self.chooser.epoch(&Seen {
            now_ns,
            elapsed_ns,
            cpu_ns,
            ios: &ios,
            timed: &timed,
            crowding,
            joules: None,
        });
    }

    pub(super) fn epochs(&mut self, count: u32, world: World) {
        (0..count).for_each(|_| self.epoch(world));
    }

    pub(super) fn log(&mut self) -> Vec<Decision> {
        self.chooser.drain_log().collect()
    }
}

pub(super) fn with_aim(aim: Aim) -> Policy {
    Policy { aim, ..Policy::default() }
}

pub(super) fn figures(way: Way, mean_ns: f64) -> Figures {
    Figures { mean_ns: Some(mean_ns), ..Figures::unknown(way) }
}

pub(super) fn knows(ways: Vec<Figures>) -> Policy {
    let cell = Cell { op: Direction::Read, size: 4096, in_flight: 1, ways };
    Policy { cells: vec![cell], ..Policy::default() }
}

#[test]
fn without_a_policy_interrupts_come_first_and_the_better_way_is_found() {
    let mut run = Run::new(chooser(Policy::default(), &KERNEL));
    assert_eq!(run.chooser.route(read()), Way::Interrupt);
    run.epochs(100, poll_is_fast);
    assert_eq!(run.chooser.route(read()), Way::Poll);
    let log = run.log();
    let [only] = &log[..] else { panic!("{log:?}") };
    assert_eq!((only.from, only.to, only.kind), (Way::Interrupt, Way::Poll, Some(read())));
    let cost = Why::Better { aim: Aim::Latency, from: Some(10_000.0), to: 6_000.0 };
    assert_eq!(only.why, cost);
}

#[test]
fn the_aim_decides_what_is_better() {
    let mut run = Run::new(chooser(with_aim(Aim::Cpu), &KERNEL));
    run.epochs(100, poll_is_fast);
    assert_eq!(run.chooser.route(read()), Way::Sio, "which costs the least CPU time");
    run.in_flight = 4;
    run.epochs(2, poll_is_fast);
    let last = run.log().pop().unwrap();
    assert_eq!(last.to, Way::Interrupt, "with several in flight there is no Sio");
    assert_eq!((last.why, last.band), (Why::InFlight { from: Band::ONE }, Band::of(4)));
}

#[test]
fn no_more_than_the_share_explores() {
    for share in [0.0, 0.01, 0.05] {
        let policy = Policy { exploration: share, ..Policy::default() };
        let mut run = Run::new(chooser(policy, &KERNEL));
        run.epochs(200, |_| (10_000, 10_000));
        let counts = run.chooser.counts();
        let total: u64 = counts.by_way.iter().sum();
        assert!(counts.explored as f64 <= share * total as f64, "{share}: {counts:?}");
        assert_eq!(counts.explored > 0, share > 0.0);
        assert_eq!(counts.switches, 0, "nothing is better");
    }
}

#[test]
fn a_gain_of_noise_or_of_one_epoch_changes_nothing() {
    fn nearly_equal(way: Way) -> (u64, u64) {
        if way == Way::Poll { (9_910, 1) } else { (10_000, 1) }
    }
    let mut run = Run::new(chooser(knows(vec![figures(Way::Interrupt, 10_000.0)]), &KERNEL));
    run.epochs(200, nearly_equal);
    assert!(run.chooser.counts().by_way[Way::Poll.index()] > 0, "it was tried");
    assert_eq!((run.chooser.route(read()), run.log().len()), (Way::Interrupt, 0));
    // Interrupts are slow for one epoch, and again two epochs later: never twice running.
    let both = vec![figures(Way::Interrupt, 10_000.0), figures(Way::Poll, 10_500.0)];
    let policy = Policy { exploration: 0.0, ..knows(both) };
    let mut run = Run::new(chooser(policy, &KERNEL));
    for _ in 0..5 {
        run.epoch(|way| if way == Way::Interrupt { (15_000, 1) } else { (10_500, 1) });
        run.epochs(8, |way| if way == Way::Interrupt { (8_000, 1) } else { (10_500, 1) });
    }
    assert_eq!((run.chooser.route(read()), run.log()), (Way::Interrupt, vec![]));
    run.epochs(3, |way| if way == Way::Interrupt { (15_000, 1) } else { (10_500, 1) });
    assert_eq!(run.chooser.route(read()), Way::Poll);
}

#[test]
fn a_small_gain_takes_the_more_epochs_the_smaller_it_is() {
    let (usual, none) = (Policy::default().hysteresis, 0.0);
    for (hysteresis, poll_ns, epochs) in [
        (usual, 9_000.0, 2),
        (usual, 9_700.0, 3),
        (usual, 9_795.0, 4),
        (usual, 9_895.0, 8),
        (none, 9_999.0, 2),
    ] {
        let both = vec![figures(Way::Interrupt, 10_000.0), figures(Way::Poll, poll_ns)];
        let policy = Policy { exploration: 0.0, hysteresis, ..knows(both) };
        let mut run = Run::new(chooser(policy, &KERNEL));
        run.chooser.routes = [Way::Interrupt; KINDS];
        run.epochs(epochs - 1, |_| (10_000, 1));
        assert_eq!(run.chooser.route(read()), Way::Interrupt, "{poll_ns}");
        run.epoch(|_| (10_000, 1));
        assert_eq!(run.chooser.route(read()), Way::Poll, "{poll_ns}");
    }
}

#[test]
fn an_epoch_is_short_while_the_route_is_new_or_another_way_is_better() {
    let policy = Policy { exploration: 0.0, ..knows(vec![figures(Way::Interrupt, 10_000.0)]) };
    let mut run = Run::new(chooser(policy, &KERNEL));
    assert_eq!((run.chooser.plan().ios, run.chooser.plan().ns), (BURST_IOS, 0));
    run.epoch(|_| (10_000, 1));
    assert_eq!(run.chooser.plan().ns, EPOCH_NS);
    run.epochs(2, |_| (10_000, 1));
    run.chooser.rivals[read().index()] = Some((Way::Poll, 0.01));
    assert_eq!((run.chooser.plan().ios, run.chooser.plan().ns), (EPOCH_IOS, 0));
}

#[test]
fn a_way_that_was_not_measured_is_tried_though_its_poller_goes_on() {
    // A try costs 10 ms of the poller's time: as much as 0.3 % of a million I/Os of 3 us.
    let cell = |way, mean_ns, cpu_ns| Figures { cpu_ns: Some(cpu_ns), ..figures(way, mean_ns) };
    let ways = vec![cell(Way::Poll, 3_000.0, 3_000.0), cell(Way::Sqpoll, 1_800.0, 3_200.0)];
    let known = Cell { op: Direction::Read, size: 4096, in_flight: 1, ways };
    let policy = Policy { cells: vec![known], ..with_aim(Aim::Cpu) };
    let mut run = Run::new(chooser(policy, &[Way::Interrupt, Way::Poll, Way::Sqpoll]));
    run.chooser.routes = [Way::Poll; KINDS];
    run.epochs(400, |way| if way == Way::Sqpoll { (1_000, 1_000) } else { (3_000, 3_000) });
    assert_eq!(run.chooser.route(read()), Way::Sqpoll);
    assert!(run.chooser.ventured >= 10e6 && run.chooser.ventured < 0.04 * run.chooser.spent);
}

#[test]
fn a_poller_of_ours_is_no_other_thread_until_it_sleeps() {
    let mut run =
        Run::new(chooser(knows(vec![figures(Way::Sqpoll, 5_000.0)]), &[Way::Interrupt, Way::Sqpoll]));
    assert_eq!(run.chooser.route(read()), Way::Sqpoll);
    run.crowding = Some(Crowding { runnable: 2, processors: 2 });
    run.epochs(4, |_| (5_000, 1));
    assert_eq!(run.chooser.route(read()), Way::Sqpoll, "it is one of the two");
    // It sleeps between requests that are rare, so the two are others.
    run.epochs(4, |_| (20_000_000, 1));
    assert_eq!(run.chooser.route(read()), Way::Interrupt);
}

#[test]
fn a_policys_first_way_is_taken_at_once_and_its_figures_are_corrected() {
    let policy =
        Policy { exploration: 0.0, ..knows(vec![figures(Way::Poll, 5_000.0), figures(Way::Sio, 9_000.0)]) };
    let mut run = Run::new(chooser(policy, &KERNEL));
    assert_eq!(run.chooser.route(read()), Way::Poll);
    run.epochs(3, |way| if way == Way::Poll { (20_000, 1) } else { (9_000, 1) });
    assert_eq!(run.chooser.route(read()), Way::Sio);
    let unknown = knows(vec![Figures::unknown(Way::Sio), Figures::unknown(Way::Poll)]);
    assert_eq!(
        chooser(unknown, &KERNEL).route(read()),
        Way::Sio,
        "the order counts where figures are missing"
    );
    let lacking = knows(vec![figures(Way::Hybrid, 1.0), figures(Way::Poll, 5_000.0)]);
    assert_eq!(chooser(lacking, &KERNEL).route(read()), Way::Poll, "a way that is not here is passed over");
}

#[test]
fn where_threads_wait_for_processors_none_is_kept_busy() {
    let mut run = Run::new(chooser(knows(vec![figures(Way::Poll, 5_000.0)]), &KERNEL));
    run.crowding = Some(Crowding { runnable: 3, processors: 2 });
    run.epoch(poll_is_fast);
    assert_eq!(run.chooser.route(read()), Way::Poll, "one reading is not enough");
    run.epoch(poll_is_fast);
    assert_eq!(run.chooser.route(read()), Way::Interrupt);
    assert_eq!(run.log().pop().map(|last| last.why), Some(Why::Crowded));
    run.epochs(200, poll_is_fast);
    assert_eq!(
        run.chooser.counts().by_way[Way::Poll.index()],
        u64::from(BURST_IOS + EPOCH_IOS),
        "nor explored"
    );
    run.crowding = Some(Crowding { runnable: 1, processors: 2 });
    run.epochs(4, poll_is_fast);
    assert_eq!(run.chooser.route(read()), Way::Poll);
}

#[test]
fn the_poller_of_the_kernel_counts_as_cpu_time() {
    let policy = Policy { exploration: 0.05, ..with_aim(Aim::Cpu) };
    let mut run = Run::new(chooser(policy, &[Way::Interrupt, Way::Sqpoll]));
    // Without its poller, which is busy for 10 us an I/O, it would cost 1 us.
    run.epochs(100, |way| if way == Way::Sqpoll { (10_000, 1_000) } else { (10_000, 10_000) });
    assert_eq!((run.chooser.route(read()), run.log()), (Way::Interrupt, vec![]));
    assert!(run.chooser.counts().by_way[Way::Sqpoll.index()] > 0, "it was tried");
}

#[test]
fn kinds_are_routed_apart_though_the_cpu_time_is_measured_together() {
    let write = Kind::new(Direction::Write, 64 << 10);
    let mut run = Run::new(chooser(with_aim(Aim::Cpu), &KERNEL));
    run.in_flight = 2;
    for _ in 0..400 {
        run.mixed_epoch(&[(read(), 3), (write, 1)], |way| {
            if way == Way::Poll { (9_000, 2_000) } else { (9_000, 4_000) }
        });
    }
    assert_eq!([read(), write].map(|kind| run.chooser.route(kind)), [Way::Poll; 2]);
    assert_eq!(run.chooser.route(Kind::new(Direction::Read, 512)), Way::Interrupt, "nobody asked for it");
}

#[test]
fn a_failed_way_is_left_for_good() {
    let mut run = Run::new(chooser(knows(vec![figures(Way::Poll, 5_000.0)]), &KERNEL));
    assert!(run.chooser.fail(Way::Poll, "it broke", 7));
    assert!(!run.chooser.fail(Way::Poll, "it broke", 8), "once");
    assert_eq!(run.chooser.route(read()), Way::Interrupt);
    run.epochs(300, poll_is_fast);
    assert_eq!(run.chooser.counts().by_way[Way::Poll.index()], 0);
    assert_eq!(run.chooser.counts().failures, 1);
    assert_eq!(run.log()[0].why, Why::Failed("it broke".to_owned()));
}

#[test]
fn a_way_that_fails_while_another_one_is_tried_is_not_gone_back_to() {
    let mut run = Run::new(chooser(knows(vec![figures(Way::Poll, 5_000.0)]), &KERNEL));
    while run.chooser.burst.is_none() {
        run.epoch(poll_is_fast);
    }
    run.chooser.fail(Way::Poll, "it broke", 7);
    for _ in 0..20 {
        run.epoch(poll_is_fast);
        assert_ne!(run.chooser.route(read()), Way::Poll);
    }
}

#[test]
fn one_engine_waits_in_one_way_for_all_kinds() {
    let user = [Way::UserInterrupt, Way::UserPoll, Way::UserHybrid];
    let mut run = Run::new(chooser(Policy::default(), &user));
    run.epochs(200, poll_is_fast);
    assert!(Kind::all().all(|kind| run.chooser.route(kind) == Way::UserPoll));
    assert_eq!(run.log().iter().map(|one| one.kind).collect::<Vec<_>>(), [None]);
}

#[test]
fn joules_of_the_policy_decide_and_are_not_made_up() {
    let joules = |way, joules| Figures { joules: Some(joules), ..Figures::unknown(way) };
    let policy = knows(vec![joules(Way::Sio, 3e-5), joules(Way::Interrupt, 2e-5)]);
    let mut run = Run::new(chooser(Policy { aim: Aim::IosPerJoule, ..policy }, &KERNEL));
    assert_eq!(run.chooser.route(read()), Way::Interrupt);
    run.epochs(200, poll_is_fast);
    assert_eq!(run.log(), []);
    assert!(run.chooser.counts().by_way[Way::Poll.index()] > 0, "it was tried, but nobody knows its joules");
}

#[test]
fn chance_and_pins_are_what_they_say() {
    let with = |rule, seed| {
        let choice = chooser(Policy::default(), &KERNEL).choice;
        let mut run = Run::new(Chooser::new(Choice { rule, seed, ..choice }));
        let mut routes = Vec::new();
        for _ in 0..50 {
            run.epoch(poll_is_fast);
            routes.push(run.chooser.route(read()));
        }
        routes
    };
    assert_eq!(with(Rule::Pinned(Way::Poll), 1), [Way::Poll; 50]);
    let random = with(Rule::Random, 1);
    assert_eq!(random, with(Rule::Random, 1));
    assert_ne!(random, with(Rule::Random, 2));
    assert!(KERNEL.iter().all(|way| random.contains(way)));
}

/// An epoch of any kind: how long an I/O takes on each way, what it costs, how many are in flight, and how
/// crowded the processors are.
fn any_epoch() -> impl Strategy<Value = ([u64; Way::COUNT], [u64; Way::COUNT], u32, u32, bool)> {
    let times = || prop::array::uniform9(0u64..1_000_000);
    (times(), times(), 1u32..200, 0u32..5, any::<bool>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is seen, routes lead to ways that are there, that did not fail, and that the number in flight
    /// allows; and no more than the share explores.
    #[test]
    fn routes_lead_where_they_may(
        epochs in prop::collection::vec(any_epoch(), 1..120),
        bound in prop::option::of(1u64..1_000_000),
        fails_at in 0usize..60,
        seed in any::<u64>(),
    ) {
        let policy = Policy { bound_p99_ns: bound, exploration: 0.2, ..Policy::default() };
        let choice = chooser(policy, &KERNEL).choice;
        let mut chooser = Chooser::new(Choice { seed, ..choice });
        let mut now_ns = 0;
        for (number, (latency, cpu, in_flight, runnable, mixes)) in epochs.into_iter().enumerate() {
            if number == fails_at {
                chooser.fail(Way::Poll, "it broke", now_ns);
            }
            let plan = chooser.plan();
            let (mut ios, mut timed, mut cpu_ns) = ([0; KINDS], Vec::new(), 0);
            for kind in [read(), Kind::new(Direction::Write, 512)].into_iter().take(1 + usize::from(mixes)) {
                let way = chooser.route(kind);
                ios[kind.index()] = plan.ios / (1 + u32::from(mixes));
                cpu_ns += u64::from(ios[kind.index()]) * cpu[way.index()];
                let one = Timed { kind, way, in_flight, latency_ns: latency[way.index()] };
                timed.extend([one; 128]);
            }
            let elapsed_ns = 1 + cpu_ns;
            now_ns += elapsed_ns;
            let crowding = Some(Crowding { runnable, processors: 2 });
            let (ios, timed, joules) = (&ios, &timed[..], None);
            chooser.epoch(&Seen { now_ns, elapsed_ns, cpu_ns, ios, timed, crowding, joules });
            for kind in Kind::all() {
                let way = chooser.route(kind);
                prop_assert!(KERNEL.contains(&way) && (way != Way::Poll || number < fails_at));
                prop_assert!(way != Way::Sio || ios[kind.index()] == 0 || in_flight == 1);
            }
            let counts = chooser.counts();
            let total: u64 = counts.by_way.iter().sum();
            prop_assert!(counts.explored as f64 <= 0.2 * total as f64, "{counts:?}");
        }
    }
}
