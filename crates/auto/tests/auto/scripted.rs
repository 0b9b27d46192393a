//! Drives of scripted latencies: what is decided is the same each time, and what fails is done again.

use crate::short_epochs;
use iopj_auto::chooser::{BOUND_GRACE_NS, EPOCH_IOS, Epochs};
use iopj_auto::sim::{Asked, Drive, End, ScriptedClock, Service};
use iopj_auto::{Aim, Auto, Clock, Direction, Kind, Policy, Way, Why};
use iopj_engine::{Engine, IoError, Pool, Request};
use std::cell::Cell;
use std::rc::Rc;

const WAYS: [Way; 3] = [Way::Interrupt, Way::Poll, Way::Sqpoll];

fn read_4k() -> Kind {
    Kind::new(Direction::Read, 4096)
}

fn whole(latency_ns: u64, cpu_ns: u64) -> Service {
    Service { latency_ns, cpu_ns, end: End::Whole }
}

fn prefers(way: Way) -> Policy {
    let text = format!(
        "exploration = 0.0\n[[cell]]\nop = \"read\"\nsize = 4096\nin_flight = 1\n\
         ways = [{{ way = \"{way}\" }}]"
    );
    text.parse().unwrap()
}

/// Reads `count` blocks with `depth` in flight; each completes once and whole.
fn read(auto: &mut Auto<ScriptedClock>, pool: &Pool, depth: usize, count: u64) {
    let (mut pushed, mut done, mut seen) = (0, 0, vec![false; count as usize]);
    while done < count {
        while pushed < count && auto.in_flight() < depth {
            let buffer = pool.acquire().unwrap();
            auto.push(Request::read(buffer, 4096, pushed * 4096).tagged(pushed)).unwrap();
            pushed += 1;
        }
        done += auto
            .wait(1, None, |completion| {
                assert_eq!(completion.result, Ok(4096));
                assert!(!std::mem::replace(&mut seen[completion.tag as usize], true), "twice");
            })
            .unwrap() as u64;
    }
    assert_eq!((auto.in_flight(), pool.available()), (0, pool.count()));
}

/// Epochs of an eighth of the usual length.
fn brief_epochs() -> Epochs {
    Epochs { ios: 256, ns: 0, burst_ios: 32 }
}

/// Interrupts take longer for a while, then polling does.
fn changing(asked: Asked) -> Service {
    let is_slow = asked.now_ns / 125_000_000 % 2 == 1;
    match asked.way {
        Way::Poll => whole(if is_slow { 20_000 } else { 7_000 }, 500),
        Way::Sqpoll => whole(11_000, 800),
        _ => whole(10_000, 2_500),
    }
}

fn decisions(seed: u64) -> Vec<String> {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(changing);
    let policy = Policy { exploration: 0.05, ..Policy::default() };
    let builder = Auto::builder().policy(policy).seed(seed).epochs(brief_epochs());
    let mut auto = builder.open_on_drive(&drive, &WAYS, &pool).unwrap();
    read(&mut auto, &pool, 1, 90_000);
    auto.drain_log().map(|decision| decision.to_string()).collect()
}

#[test]
fn the_same_latencies_make_the_same_decisions() {
    let lines = decisions(1);
    assert_eq!(lines, decisions(1));
    let changes: Vec<&str> = lines.iter().map(|line| line.split(": ").nth(2).unwrap()).collect();
    let (poll, back) = (
        "from io_uring/syscall/interrupt to io_uring/syscall/poll",
        "from io_uring/syscall/poll to io_uring/syscall/interrupt",
    );
    assert_eq!(changes[..3], [poll, back, poll], "{lines:#?}");
    assert!(lines[0].contains("read 4k, 1 in flight or more"), "{}", lines[0]);
    assert!(lines[0].ends_with("mean latency 7000 ns instead of 10000 ns"), "{}", lines[0]);
}

#[test]
fn no_epoch_ends_for_a_caller_that_keeps_within_it() {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(changing);
    let policy = Policy { exploration: 0.05, ..Policy::default() };
    let builder = Auto::builder().policy(policy).epochs(brief_epochs());
    let mut auto = builder.open_on_drive(&drive, &WAYS, &pool).unwrap();
    for _ in 0..200 {
        auto.within_epoch(|auto| read(auto, &pool, 1, 100));
    }
    assert_eq!((auto.counts().explored, auto.drain_log().count()), (0, 0));
    // What has ended counts, so the epoch ends now.
    read(&mut auto, &pool, 1, 1);
    read(&mut auto, &pool, 1, 20_000);
    assert!(auto.counts().explored > 0 && auto.drain_log().count() > 0);
}

#[test]
fn no_epoch_ends_within_one_that_is_kept_though_a_bound_must_be_looked_at() {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(|_| Service { latency_ns: 10_000_000, cpu_ns: 1_000, end: End::Whole });
    let policy = Policy { bound_p99_ns: Some(1_000_000_000), exploration: 0.5, ..Policy::default() };
    let builder = Auto::builder().policy(policy).epochs(brief_epochs());
    let mut auto = builder.open_on_drive(&drive, &WAYS, &pool).unwrap();
    // Twenty seconds, where an epoch with a bound has one.
    auto.within_epoch(|auto| read(auto, &pool, 1, 2_000));
    assert_eq!(auto.counts().explored, 0);
    read(&mut auto, &pool, 1, 2_000);
    assert!(auto.counts().explored > 0, "{:?}", auto.counts());
}

#[test]
fn cpu_time_is_what_the_thread_spent() {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(changing);
    let builder = Auto::builder().aim(Aim::Cpu).epochs(brief_epochs());
    let mut auto = builder.open_on_drive(&drive, &WAYS, &pool).unwrap();
    read(&mut auto, &pool, 1, 30_000);
    // Polling is faster half of the time, but costs all of it.
    assert_eq!((auto.route(read_4k()), auto.drain_log().count()), (Way::Interrupt, 0));
    assert_eq!(auto.counts().explored, 0, "four times the CPU time is not worth a try: {:?}", auto.counts());
}

#[test]
fn what_went_which_way_is_counted_up_to_the_latest_request() {
    let pool = Pool::new(8, 4096).unwrap();
    let drive = Drive::new(changing);
    let policy = Policy { exploration: 0.05, ..Policy::default() };
    let builder = Auto::builder().policy(policy).iodepth(8).epochs(brief_epochs());
    let mut auto = builder.open_on_drive(&drive, &WAYS, &pool).unwrap();
    let mut all = 0;
    for (count, depth) in [(1, 1), (7, 8), (300, 1), (1, 8), (20_000, 4), (1_234, 8)] {
        read(&mut auto, &pool, depth, count);
        all += count;
        let routes = auto.counters().routes.unwrap();
        assert_eq!(routes.by_way.iter().sum::<u64>(), all, "{routes:?}");
        assert_eq!((routes.switches, routes.explored), (auto.counts().switches, auto.counts().explored));
    }
    let routes = auto.counters().routes.unwrap();
    assert!(routes.by_way.iter().filter(|ios| **ios > 0).count() >= 2, "{routes:?}");
    let lines = auto.decisions();
    assert!(lines.iter().any(|line| line.contains("read 4k, ")), "{lines:?}");
    assert_eq!(auto.decisions(), [""; 0], "each is handed out once");
}

#[test]
fn a_way_that_refuses_everything_is_left_and_its_reads_are_done() {
    let pool = Pool::new(8, 4096).unwrap();
    for (errno, depth) in [(libc::EOPNOTSUPP, 1), (libc::EINVAL, 8)] {
        let drive = Drive::new(move |asked| Service {
            end: if asked.way == Way::Poll { End::Errno(errno) } else { End::Whole },
            ..whole(5_000, 1_000)
        });
        let builder = Auto::builder().policy(prefers(Way::Poll)).iodepth(8);
        let mut auto = builder.open_on_drive(&drive, &WAYS, &pool).unwrap();
        assert_eq!(auto.route(read_4k()), Way::Poll);
        read(&mut auto, &pool, depth, 500);
        assert_eq!(auto.route(read_4k()), Way::Interrupt);
        let counts = auto.counts().clone();
        assert!((16..=32).contains(&counts.redone) && counts.failures == 1, "{counts:?}");
        let why: Vec<Why> = auto.drain_log().map(|decision| decision.why).collect();
        assert!(
            matches!(&why[..], [Why::Failed(error)] if error.contains("refuses every request")),
            "{why:?}"
        );
    }
}

/// On a slow disk an epoch is over before a way has refused often enough, and the next one goes on counting.
#[test]
fn a_way_that_refuses_slowly_is_left_too() {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(move |asked| Service {
        end: if asked.way == Way::Poll { End::Errno(libc::EOPNOTSUPP) } else { End::Whole },
        ..whole(8_000_000, 1_000)
    });
    let builder = Auto::builder().policy(prefers(Way::Poll));
    let mut auto = builder.open_on_drive(&drive, &WAYS, &pool).unwrap();
    read(&mut auto, &pool, 1, 40);
    assert_eq!((auto.route(read_4k()), auto.counts().failures), (Way::Interrupt, 1));
}

#[test]
fn a_request_that_no_way_can_do_fails_once_and_costs_no_way() {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(|asked| Service {
        end: if asked.len == 512 { End::Errno(libc::EINVAL) } else { End::Whole },
        ..whole(5_000, 1_000)
    });
    let mut auto = Auto::builder().policy(prefers(Way::Poll)).open_on_drive(&drive, &WAYS, &pool).unwrap();
    for number in 0..200 {
        let len = if number % 2 == 0 { 512 } else { 4096 };
        auto.push(Request::read(pool.acquire().unwrap(), len, 0).tagged(number)).unwrap();
        let mut results = Vec::new();
        auto.wait(1, None, |completion| results.push((completion.tag, completion.result))).unwrap();
        let result = if len == 512 { Err(IoError::Os(libc::EINVAL)) } else { Ok(len) };
        assert_eq!(results, [(number, result)]);
    }
    assert_eq!((auto.route(read_4k()), auto.counts().redone, auto.counts().failures), (Way::Poll, 100, 0));
}

#[test]
fn an_engine_that_ends_is_left_and_what_it_had_is_done_again() {
    let pool = Pool::new(12, 4096).unwrap();
    let asked_of_poll = Rc::new(Cell::new(0));
    let asked_before = Rc::clone(&asked_of_poll);
    let drive = Drive::new(move |asked| {
        asked_before.set(asked_before.get() + u32::from(asked.way == Way::Poll));
        let ends = asked.way == Way::Poll && asked_before.get() == 50;
        Service { end: if ends { End::Engine } else { End::Whole }, ..whole(5_000, 1_000) }
    });
    let builder = Auto::builder().policy(prefers(Way::Poll)).iodepth(8);
    let mut auto = builder.open_on_drive(&drive, &WAYS, &pool).unwrap();
    read(&mut auto, &pool, 8, 300);
    assert_eq!((asked_of_poll.get(), auto.route(read_4k())), (50, Way::Interrupt));
    let counts = auto.counts();
    assert!((1..=8).contains(&counts.redone), "{counts:?}");
    let log: Vec<String> = auto.drain_log().map(|decision| decision.to_string()).collect();
    assert!(log[0].ends_with("it failed and is left for good: the script ended the engine"), "{log:?}");
}

#[test]
fn the_end_of_the_fallback_is_the_end() {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(|_| Service { end: End::Engine, ..whole(1, 1) });
    let mut auto = Auto::builder().open_on_drive(&drive, &WAYS, &pool).unwrap();
    auto.push(Request::read(pool.acquire().unwrap(), 4096, 0)).unwrap();
    let error = auto.wait(1, None, drop).unwrap_err();
    assert_eq!(error.to_string(), "the script ended the engine");
    drop(auto);
    assert_eq!(pool.available(), 1);
}

/// The drive becomes slow by interrupt: how long that is borne.
#[test]
fn over_the_bound_no_way_is_kept_for_longer_than_the_grace() {
    for (think_ns, slow_ns) in [(0, 300_000), (20_000_000, 300_000)] {
        let pool = Pool::new(1, 4096).unwrap();
        let slow_from = Rc::new(Cell::new(u64::MAX));
        let from = Rc::clone(&slow_from);
        let drive = Drive::new(move |asked| match asked.way {
            Way::Interrupt if asked.now_ns >= from.get() => whole(slow_ns, 1_000),
            Way::Interrupt => whole(50_000, 1_000),
            _ => whole(60_000, 1_000),
        });
        let text = "bound_p99_ns = 200000\nexploration = 0.0\n[[cell]]\nop = \"read\"\nsize = 4096\n\
                    in_flight = 1\nways = [{ way = \"io_uring/syscall/interrupt\", mean_ns = 50000 }, \
                    { way = \"io_uring/syscall/poll\", mean_ns = 60000 }]";
        let builder = Auto::builder().policy(text.parse().unwrap());
        let mut auto = builder.open_on_drive(&drive, &WAYS, &pool).unwrap();
        read(&mut auto, &pool, 1, 2 * u64::from(EPOCH_IOS));
        assert_eq!(auto.route(read_4k()), Way::Interrupt);
        slow_from.set(drive.clock().now_ns());
        while auto.route(read_4k()) == Way::Interrupt {
            drive.clock().pass(think_ns, false);
            read(&mut auto, &pool, 1, 1);
        }
        let borne_ns = drive.clock().now_ns() - slow_from.get();
        // The I/O that ends the epoch is late itself, and an epoch may have begun within the bound.
        assert!(borne_ns <= 2 * BOUND_GRACE_NS + think_ns + slow_ns, "{borne_ns}");
        let last = auto.drain_log().last().unwrap();
        assert!(matches!(last.why, Why::OverBound { p99_ns: 300_000, bound_ns: 200_000 }), "{last}");
        assert_eq!(last.to, Way::Poll);
    }
}

#[test]
fn sleeping_before_polling_saves_time_of_the_processor_and_little_is_late() {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(|_| whole(80_000, 1_000));
    let ways = [Way::Interrupt, Way::Poll, Way::SleepPoll];
    let builder = Auto::builder().policy(prefers(Way::SleepPoll));
    let mut auto = builder.open_on_drive(&drive, &ways, &pool).unwrap();
    read(&mut auto, &pool, 1, 2_000); // it learns
    let (began, cpu) = (drive.clock().now_ns(), drive.clock().cpu_ns());
    let sleeps = auto.counters().sleeps;
    read(&mut auto, &pool, 1, 2_000);
    assert_eq!(auto.counters().sleeps - sleeps, 2_000);
    let (took, busy) = (drive.clock().now_ns() - began, drive.clock().cpu_ns() - cpu);
    assert!(took < 2_000 * 90_000, "{} ns an I/O", took / 2_000);
    assert!(busy < 2_000 * 20_000, "{} ns of CPU time an I/O", busy / 2_000);
    assert_eq!(auto.route(read_4k()), Way::SleepPoll);
}

/// What a policy says of two ways that take the same time, of three sizes.
fn of_joules() -> Policy {
    let cell = |size: u32| {
        format!(
            "[[cell]]\nop = \"read\"\nsize = {size}\nin_flight = 1\nways = [\n\
             {{ way = \"io_uring/syscall/poll\", mean_ns = 1e5, cpu_ns = 1e5, joules = 0.0005 }},\n\
             {{ way = \"io_uring/syscall/interrupt\", mean_ns = 1e5, cpu_ns = 3e3, joules = 0.0007 }},\n]\n"
        )
    };
    let cells = [4096, 16384, 65536].map(cell);
    format!("aim = \"ios_per_joule\"\n{}", cells.concat()).parse().unwrap()
}

/// Eight seconds of reads, of which each draws as much as these ways do. The I/Os by way in the last half.
fn drawn(aim: Aim, joules: [f64; 2]) -> ([u64; 2], Auto<ScriptedClock>, ScriptedClock) {
    let ways = [Way::Interrupt, Way::Poll];
    let drive = Drive::new(|_| whole(100_000, 3_000));
    let pool = Pool::new(1, 4096).unwrap();
    let builder = Auto::builder().policy(of_joules()).aim(aim).epochs(brief_epochs());
    let mut auto = builder.open_on_drive(&drive, &ways, &pool).unwrap();
    let went = |auto: &Auto<ScriptedClock>| ways.map(|way| auto.counts().by_way[way.index()]);
    let (mut half, mut before) = ([0; 2], [0; 2]);
    for number in 0..1_600 {
        read(&mut auto, &pool, 1, 50);
        let now = went(&auto);
        let draws = (0..2).map(|way| (now[way] - before[way]) as f64 * joules[way]).sum();
        drive.clock().draw(draws);
        before = now;
        if number == 800 {
            half = now;
        }
    }
    ([0, 1].map(|way| before[way] - half[way]), auto, drive.clock().clone())
}

#[test]
fn a_meter_finds_out_a_way_that_draws_more_than_the_policy_says() {
    let ([interrupt, poll], mut auto, clock) = drawn(Aim::IosPerJoule, [0.0007, 0.0012]);
    assert!(interrupt > 90 * poll, "{interrupt} {poll}");
    let log: Vec<String> = auto.drain_log().map(|decision| decision.to_string()).collect();
    let [first, last] = [&log[0], &log[log.len() - 1]];
    assert!(log.len() == 2 && first.contains("to io_uring/syscall/poll: energy of an I/O"), "{log:?}");
    assert!(last.contains("from io_uring/syscall/poll to io_uring/syscall/interrupt: energy"), "{log:?}");
    assert!((60..=81).contains(&clock.readings()), "ten a second: {}", clock.readings());
    // If it is as the policy says, it stays; and where joules do not count nobody reads.
    let ([interrupt, poll], ..) = drawn(Aim::IosPerJoule, [0.0007, 0.0005]);
    assert!(poll > 90 * interrupt, "{interrupt} {poll}");
    assert_eq!(drawn(Aim::Cpu, [0.0007, 0.0005]).2.readings(), 0);
}

#[test]
fn an_engine_is_opened_when_it_is_needed_and_closed_when_it_is_idle() {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(|_| whole(10_000, 1_000));
    let opened = Rc::new(Cell::new([0u32; Way::COUNT]));
    let (counts, on) = (Rc::clone(&opened), drive.clone());
    let open = move |way: Way| {
        let mut all = counts.get();
        all[way as usize] += 1;
        counts.set(all);
        Ok(on.engine(way, 1))
    };
    let policy = Policy { exploration: 0.01, ..Policy::default() };
    let builder = Auto::builder().policy(policy).epochs(short_epochs());
    let mut auto = builder.open_with(&WAYS[..2], &pool, drive.clock().clone(), open).unwrap();
    let of = |way: Way| opened.get()[way as usize];
    assert_eq!((of(Way::Interrupt), of(Way::Poll)), (1, 0));
    read(&mut auto, &pool, 1, 5_000);
    assert!(auto.counts().explored > 20);
    assert_eq!((of(Way::Interrupt), of(Way::Poll)), (1, 1), "bursts follow each other closely");
    // An hour passes between two bursts.
    for _ in 0..2_000 {
        drive.clock().pass(2_000_000_000, false);
        read(&mut auto, &pool, 1, 1);
    }
    assert!(of(Way::Poll) > 1 && of(Way::Interrupt) == 1, "{:?}", opened.get());
}

#[test]
fn an_engine_that_cannot_be_opened_is_left_for_good() {
    let pool = Pool::new(1, 4096).unwrap();
    let drive = Drive::new(|_| whole(10_000, 1_000));
    let on = drive.clone();
    let open = move |way: Way| match way {
        Way::Poll => Err(iopj_engine::EngineError::unsupported("no memory is left")),
        way => Ok(on.engine(way, 1)),
    };
    let builder = Auto::builder().policy(prefers(Way::Poll));
    let mut auto = builder.open_with(&WAYS, &pool, drive.clock().clone(), open).unwrap();
    assert_eq!(auto.route(read_4k()), Way::Interrupt);
    read(&mut auto, &pool, 1, 100);
    let log: Vec<String> = auto.drain_log().map(|decision| decision.to_string()).collect();
    assert!(log.len() == 1 && log[0].ends_with("left for good: no memory is left"), "{log:?}");
}
