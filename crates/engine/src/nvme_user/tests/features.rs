//! What a drive asks of its host: given as Linux gives it, and taken back in the right order.

use super::super::admin::Admin;
use super::super::features::{Apst, HostMemory, give_host_memory};
use super::super::identify::ControllerData;
use super::super::registers::{Capabilities, Device};
use super::super::sim::Sim;
use super::{Behaviour, Bench, read, wait};
use crate::pool::Pool;
use std::sync::Arc;
use std::time::Duration;

const PAGE: u32 = 4096;

#[test]
fn a_drive_gets_the_host_memory_that_it_asks_for_and_loses_it_before_it_is_unmapped() {
    let behaviour = Behaviour { host_memory: (5 * PAGE, 2 * PAGE), ..Behaviour::default() };
    let bench = Bench::new(behaviour);
    assert_eq!(bench.controller().identity().host_memory, HostMemory::Given(5 * 4096));
    let pool = Pool::new(1, 512).unwrap();
    let mut engine = bench.open("poll", &pool, 1);
    engine.push(&[read(0, 3, 1)]).unwrap();
    assert_eq!(wait(&mut *engine, 1).unwrap()[0].result, Ok(512));
    drop(engine);
    let seen = bench.close();
    // The simulated drive panics on memory that is unmapped while it is its own.
    assert_eq!((seen.host_pages, seen.host_memory_ends), (5, 1));
}

#[test]
fn host_memory_is_refused_with_its_reason() {
    let refused = |behaviour: Behaviour| {
        let bench = Bench::new(behaviour);
        let host_memory = bench.controller().identity().host_memory.clone();
        assert_eq!(bench.close().host_pages, 0);
        host_memory.to_string()
    };
    assert_eq!(refused(Behaviour::default()), "not asked for");
    let text = refused(Behaviour { host_memory: (256 << 20, 129 << 20), ..Behaviour::default() });
    assert!(text.starts_with("none of 268435456 bytes asked for: it needs 135266304 bytes"), "{text}");
    let parts = Behaviour { host_memory: (4 * PAGE, 4 * PAGE), host_memory_parts: (5, 0), ..Behaviour::default() };
    assert!(refused(parts).ends_with("only 0 bytes were found in parts as large as it needs"));
}

#[test]
fn without_an_iommu_there_is_no_host_memory() {
    let sim = Arc::new(Sim::new(Behaviour::default(), Vec::new()));
    let device: Arc<dyn Device> = sim.clone();
    let mut admin = Admin::new(&device, Capabilities::read(&*device)).unwrap();
    sim.behave(|behaviour| behaviour.sees_physical = true);
    let mut data = [0; PAGE as usize];
    data[272] = 1;
    let mapped = sim.mapped();
    let given = give_host_memory(&device, &mut admin, &ControllerData(&data), Duration::from_secs(100)).unwrap();
    assert_eq!(given.to_string(), "none of 4096 bytes asked for: without an IOMMU nothing keeps the drive within it");
    assert_eq!(sim.mapped(), mapped);
}

#[test]
fn a_hung_drive_keeps_its_host_memory_until_it_is_seen_stopped() {
    let bench = Bench::impatient(Behaviour { host_memory: (PAGE, PAGE), ..Behaviour::default() });
    bench.sim.behave(|behaviour| behaviour.admin_hangs = true);
    // No answer to the end of the feature: the reset that follows ends it, and only then is the memory unmapped.
    let seen = bench.close();
    assert_eq!((seen.host_pages, seen.host_memory_ends), (1, 0));
}

#[test]
fn power_states_are_entered_as_under_the_kernel() {
    let power_states = vec![(false, 0, 0), (true, 5_000, 10_000), (true, 30_000, 50_000)];
    let bench = Bench::new(Behaviour { power_states, ..Behaviour::default() });
    let apst = bench.controller().identity().apst.clone();
    // The kernel of this machine may have been told other limits than its defaults.
    let entry = match apst {
        Apst::On(states) => states.first().map_or(0, |(state, ms)| u64::from(*state) << 3 | u64::from(*ms) << 8),
        other => panic!("{other}"),
    };
    assert_eq!(bench.close().apst, Some(entry));
    let bench = Bench::new(Behaviour::default());
    assert_eq!(bench.controller().identity().apst, Apst::Unsupported);
    assert_eq!(bench.close().apst, None);
}
