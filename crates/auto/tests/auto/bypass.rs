//! The driver in this process, on a simulated drive: one engine, whose way of waiting changes.

use crate::short_epochs;
use iopj_auto::{Auto, Direction, Kind, Way};
use iopj_engine::nvme_user::sim::Drive;
use iopj_engine::{Engine, Pool, Request};

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
