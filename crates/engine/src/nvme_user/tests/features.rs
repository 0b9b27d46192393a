//! What a drive asks of its host: given as Linux gives it, and taken back in the right order.

use super::super::admin::Admin;
use super::super::controller::{Controller, Limits, Setup};
use super::super::device::Device;
use super::super::features::{Apst, HostMemory, Rules, give_host_memory};
use super::super::identify::ControllerData;
use super::super::prior_state::{FeatureValue, PriorState};
use super::super::registers::Capabilities;
use super::super::sim::SimController;
use super::{Behaviour, Bench, read, result};
use std::sync::Arc;
use std::time::Duration;

const PAGE: u32 = 4096;

#[test]
fn a_drive_gets_the_host_memory_that_it_asks_for_and_loses_it_before_it_is_unmapped() {
    let behaviour = Behaviour { host_memory: (5 * PAGE, 2 * PAGE), ..Behaviour::default() };
    let bench = Bench::new(behaviour);
    assert_eq!(bench.controller().identity().host_memory, HostMemory::Given(5 * 4096));
    let (pool, mut engine) = bench.engine("poll", 1, 512);
    assert_eq!(result(&mut engine, read(&pool, 3, 1)), Ok(512));
    drop(engine);
    let seen = bench.close();
    // The simulated drive panics if its memory is unmapped while it may use it.
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
    let cause = "it needs 135266304 bytes, and Linux gives 134217728 at most (nvme.max_host_mem_size_mb)";
    assert_eq!(text, format!("none of 268435456 bytes asked for: {cause}"));
    let parts =
        Behaviour { host_memory: (4 * PAGE, 4 * PAGE), host_memory_parts: (5, 0), ..Behaviour::default() };
    assert!(refused(parts).ends_with("only 0 bytes were found in parts as large as it needs"));
}

#[test]
fn without_an_iommu_there_is_no_host_memory() {
    let sim = Arc::new(SimController::new(Behaviour::default(), Vec::new()));
    let device: Arc<dyn Device> = sim.clone();
    let mut admin = Admin::new(&device, Capabilities::read(&*device)).unwrap();
    sim.behave(|behaviour| behaviour.sees_physical = true);
    let mut data = [0; PAGE as usize];
    data[272] = 1;
    let mapped = sim.mapped();
    let (says, most, limit) = (ControllerData(&data), 128 << 20, Duration::from_secs(100));
    let given = give_host_memory(&device, &mut admin, &says, most, limit).unwrap();
    assert_eq!(
        given.to_string(),
        "none of 4096 bytes asked for: without an IOMMU nothing keeps the drive within it"
    );
    assert_eq!(sim.mapped(), mapped);
}

#[test]
fn a_hung_drive_keeps_its_host_memory_until_it_is_seen_to_stop() {
    let bench = Bench::impatient(Behaviour { host_memory: (PAGE, PAGE), ..Behaviour::default() });
    bench.sim.behave(|behaviour| behaviour.admin_hangs = true);
    // The drive does not answer when the feature is switched off: the reset that follows ends it, and only
    // then is the memory unmapped.
    let seen = bench.close();
    assert_eq!((seen.host_pages, seen.host_memory_ends), (1, 0));
}

#[test]
fn power_states_are_entered_as_under_the_kernel() {
    let set_up = |prior: PriorState| {
        let power_states = vec![(false, 0, 0), (true, 5_000, 10_000), (true, 30_000, 50_000)];
        let nowhere = tempfile::tempdir().unwrap();
        let setup = Setup { rules: Rules::of_kernel(nowhere.path(), &prior), ..Setup::default() };
        let bench = Bench::with_setup(Behaviour { power_states, ..Behaviour::default() }, setup);
        let apst = bench.controller().identity().apst.to_string();
        (apst, bench.close().apst)
    };
    let shallow = Some(1 << 3 | 100 << 8);
    let (apst, entry) = set_up(PriorState::default());
    assert_eq!((apst.as_str(), entry), ("on: state 1 after 100 ms, state 2 after 2000 ms", shallow));
    // The user gave the kernel a latency tolerance for this drive.
    let (apst, entry) = set_up(PriorState { latency_tolerance_us: Some(20_000), ..PriorState::default() });
    assert_eq!((apst.as_str(), entry), ("on: state 1 after 100 ms", shallow));
    let (apst, entry) = set_up(PriorState { latency_tolerance_us: Some(0), ..PriorState::default() });
    assert_eq!(
        (apst.as_str(), entry),
        ("off: no state may take time to leave (latency tolerance 0 us)", None)
    );
    // The kernel knows drives that must not enter power states by themselves; this driver does not.
    let (apst, entry) = set_up(PriorState { apst_off: true, ..PriorState::default() });
    assert_eq!((apst.as_str(), entry), ("off: as under the kernel", None));
    let bench = Bench::new(Behaviour::default());
    assert_eq!(bench.controller().identity().apst, Apst::Unsupported);
    assert_eq!(bench.close().apst, None);
}

const POWER_STATE: FeatureValue = FeatureValue { name: "power state", id: 0x02, value: 0x41, mask: 0xff };
const WRITE_CACHE: FeatureValue =
    FeatureValue { name: "volatile write cache", id: 0x06, value: 0, mask: u32::MAX };
const COALESCING: FeatureValue =
    FeatureValue { name: "interrupt coalescing", id: 0x08, value: 0x104, mask: u32::MAX };

/// The prior features of a drive with this serial number.
fn prior(serial: Option<&str>) -> PriorState {
    let features = vec![POWER_STATE, WRITE_CACHE, COALESCING];
    PriorState { serial: serial.map(str::to_owned), features, ..PriorState::default() }
}

/// The values that a reset gives the features, and those that they have under this driver, with the text
/// about each.
fn features_found(behaviour: Behaviour, features: &[(u32, u32)]) -> Vec<(Option<u32>, String)> {
    let features = features.iter().copied().collect();
    let setup = Setup { prior: prior(Some("S 1")), ..Setup::default() };
    let bench = Bench::with_setup(Behaviour { features, ..behaviour }, setup);
    let states = bench.controller().identity().features.clone();
    let of_drive = |id: u8| bench.sim.feature(id.into());
    let found = states.iter().map(|state| (of_drive(state.prior.id), state.to_string())).collect();
    bench.close();
    found
}

/// A drive whose write cache the user had switched off was measured with it on, next to the kernel's paths
/// with it off.
#[test]
fn a_drive_keeps_the_features_that_it_had_under_the_kernel() {
    let reset = [(0x02, 0x700), (0x06, 1), (0x08, 0)];
    let as_before = [(0x41, "0x41"), (0, "0x0"), (0x104, "0x104")]
        .map(|(value, text)| (Some(value), format!("{text} as under the kernel")));
    assert_eq!(features_found(Behaviour::default(), &reset), as_before);
    // A feature that cannot be changed is fine if it has its prior value; other bits do not count.
    let fixed = Behaviour { fixed_feature: 0x02, ..Behaviour::default() };
    let found = features_found(fixed, &[(0x02, 0x741), (0x06, 1), (0x08, 0)]);
    assert_eq!(found[0], (Some(0x741), "0x41 as under the kernel".to_owned()));
}

#[test]
fn a_drive_that_does_not_take_a_feature_again_says_so() {
    let behaviour = Behaviour { fixed_feature: 0x06, deaf_feature: 0x08, ..Behaviour::default() };
    let texts = [
        (None, "unknown, 0x41 under the kernel: it does not say (NVMe status 0x2)"),
        (Some(1), "0x1, 0x0 under the kernel: it refuses that (NVMe status 0x10e)"),
        (Some(0), "0x0, 0x104 under the kernel: it does not accept that"),
    ];
    let expected = texts.map(|(value, text)| (value, text.to_owned()));
    assert_eq!(features_found(behaviour, &[(0x06, 1), (0x08, 0)]), expected);
}

/// Opens a drive that has these features after a reset; returns the error and the drive.
fn open(behaviour: Behaviour, setup: Setup) -> (Option<String>, Arc<SimController>) {
    let features = [(0x02, 0), (0x06, 1), (0x08, 0)].into_iter().collect();
    let sim = Arc::new(SimController::new(Behaviour { features, ..behaviour }, Vec::new()));
    let opened = Controller::start("0000:01:00.0".parse().unwrap(), sim.clone(), &setup);
    (opened.err().map(|error| error.to_string()), sim)
}

/// A drive that was put in the slot while vfio-pci had it got the old one's features, and was only recognised
/// afterwards.
#[test]
fn another_drive_gets_nothing_of_the_prior_state() {
    let power_states = vec![(false, 0, 0), (true, 5_000, 10_000)];
    let behaviour = Behaviour { power_states, host_memory: (PAGE, PAGE), ..Behaviour::default() };
    let features = |sim: &SimController| [0x02, 0x06, 0x08].map(|id| sim.feature(id).unwrap());

    let (refused, sim) = open(behaviour.clone(), Setup { prior: prior(Some("S 2")), ..Setup::default() });
    let cause = "has another drive now (serial S 1, it was S 2 under the kernel): nothing was set on it; \
                 start a new run";
    assert_eq!(refused, Some(format!("0000:01:00.0 {cause}")));
    let seen = sim.seen();
    assert_eq!((features(&sim), seen.apst, seen.host_pages, sim.mapped()), ([0, 1, 0], None, 0, 0));

    for serial in [Some("S 1"), None] {
        let (refused, sim) = open(behaviour.clone(), Setup { prior: prior(serial), ..Setup::default() });
        let seen = sim.seen();
        assert_eq!((refused, features(&sim)), (None, [0x41, 0, 0x104]), "{serial:?}");
        assert_eq!((seen.apst, seen.host_pages), (Some(1 << 3 | 100 << 8), 1), "{serial:?}");
    }
}

/// A write cache is written out when it is switched off, so the limit of other commands does not apply.
#[test]
fn a_feature_has_a_limit_of_its_own_and_is_named() {
    let never = Duration::from_secs(100);
    let limits = Limits { command: never, abort: never, feature: Duration::from_millis(20) };
    let setup = Setup { limits, prior: prior(Some("S 1")), ..Setup::default() };
    let (refused, sim) = open(Behaviour { endless_feature: 0x06, ..Behaviour::default() }, setup);
    let cause = "it did not answer within 0.02 s when its volatile write cache was set as under the kernel; \
                 see the drive's health";
    assert_eq!(refused, Some(format!("0000:01:00.0 was reset: {cause}, then open the controller again")));
    assert_eq!(sim.mapped(), 0);
    assert_eq!(Limits::default().feature, Duration::from_secs(60));
}
