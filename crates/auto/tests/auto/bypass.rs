//! The driver in this process, on a simulated drive: one engine, whose way of waiting changes.

use crate::short_epochs;
use iopj_auto::chooser::Epochs;
use iopj_auto::{Auto, Clock, Crowding, Direction, Kind, Way};
use iopj_engine::nvme_user::sim::Drive;
use iopj_engine::{Engine, Pool, Request};
use std::cell::Cell;
use std::time::{Duration, Instant};

const DEPTH: u32 = 4;

#[test]
fn the_engine_of_a_taken_drive_changes_how_it_waits_and_loses_nothing() {
    let drive = Drive::open(1 << 20).unwrap();
    let pool = Pool::new(DEPTH, 4096).unwrap();
    let builder = Auto::builder().random_switching(3).iodepth(DEPTH).epochs(short_epochs());
    let mut auto = builder.open(drive.target(), &pool).unwrap();
    let mut ways = std::collections::BTreeSet::new();
    let (mut tags, mut seen) = (0..4_000u64, Vec::new());
    while seen.len() < 4_000 {
        while let Some(buffer) = pool.acquire() {
            let Some(tag) = tags.next() else { break };
            auto.push(Request::read(buffer, 4096, tag % 256 * 4096).tagged(tag)).unwrap();
        }
        auto.submit().unwrap();
        drive.work(DEPTH);
        auto.wait(1, None, |completion| {
            assert_eq!(completion.result, Ok(4096));
            seen.push(completion.tag);
        })
        .unwrap();
        ways.insert(auto.route(Kind::new(Direction::Read, 4096)));
    }
    seen.sort_unstable();
    assert_eq!(seen, Vec::from_iter(0..4_000));
    assert_eq!(Vec::from_iter(ways), [Way::UserInterrupt, Way::UserPoll, Way::UserHybrid]);
    assert_eq!((auto.counts().failures, auto.in_flight()), (0, 0));
}

#[test]
fn a_wait_for_more_than_is_complete_hands_that_out_and_goes_on_until_its_deadline() {
    let drive = Drive::open(1 << 20).unwrap();
    let pool = Pool::new(DEPTH, 4096).unwrap();
    let builder = Auto::builder().pinned(Way::UserPoll).iodepth(DEPTH);
    let mut auto = builder.open(drive.target(), &pool).unwrap();
    for round in 0..200 {
        let mut tags = Vec::new();
        for tag in 0..4 {
            auto.push(Request::read(pool.acquire().unwrap(), 4096, tag * 4096).tagged(tag)).unwrap();
        }
        let polls = auto.counters().empty_polls;
        assert_eq!(auto.wait(0, None, |one| tags.push(one.tag)).unwrap(), 0, "round {round}");
        assert_eq!(auto.counters().empty_polls, polls + 1, "round {round}: nothing was submitted before");
        drive.work(2);
        let until = Instant::now() + Duration::from_micros(10);
        assert_eq!(auto.wait(3, Some(until), |one| tags.push(one.tag)).unwrap(), 2, "round {round}");
        assert!(Instant::now() >= until && auto.in_flight() == 2, "round {round}");
        drive.work(2);
        assert_eq!(auto.wait(5, None, |one| tags.push(one.tag)).unwrap(), 2, "round {round}");
        assert_eq!((tags, auto.in_flight()), (vec![0, 1, 2, 3], 0), "round {round}");
    }
    let routes = auto.counters().routes.unwrap();
    assert_eq!((routes.by_way.iter().sum::<u64>(), routes.switches), (800, 0));
}

/// A clock that goes on by so many ns whenever it is read.
struct Steps {
    now_ns: Cell<u64>,
    step_ns: u64,
}

impl Clock for Steps {
    fn now_ns(&self) -> u64 {
        self.now_ns.set(self.now_ns.get() + self.step_ns);
        self.now_ns.get()
    }

    fn cpu_ns(&self) -> u64 {
        0
    }

    fn sleep(&self, _: u64) {}

    fn crowding(&self) -> Option<Crowding> {
        None
    }
}

/// How often the way changes in 8,000 reads that are routed by chance, anew after 10 ms of a clock.
fn switches(step_ns: u64) -> u64 {
    let drive = Drive::open(1 << 20).unwrap();
    let pool = Pool::new(DEPTH, 4096).unwrap();
    let epochs = Epochs { ns: 10_000_000, ..short_epochs() };
    let builder = Auto::builder().random_switching(3).iodepth(DEPTH).epochs(epochs);
    let clock = Steps { now_ns: Cell::new(0), step_ns };
    let mut auto = builder.open_with_clock(drive.target(), &pool, clock).unwrap();
    for _ in 0..2_000 {
        while let Some(buffer) = pool.acquire() {
            auto.push(Request::read(buffer, 4096, 0)).unwrap();
        }
        auto.submit().unwrap();
        drive.work(DEPTH);
        assert_eq!(auto.wait(4, None, drop).unwrap(), 4);
    }
    auto.counts().switches
}

#[test]
fn epochs_last_by_the_clock_that_the_engine_is_opened_with() {
    let (standing, going) = (switches(0), switches(1_000_000));
    // The first epoch has no least time.
    assert!(standing <= 1 && going >= 50, "{standing}, {going}");
}
