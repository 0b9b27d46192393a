//! RAPL trees of whole machines, as files: exact joules, each once.

use super::*;
use crate::samples::Incomplete;
use crate::sysfs::fixture::Tree;
use crate::trace::{Clock, Trace, Window};
use std::fs;

const SERVER_UJ: u64 = 262_143_328_850;
const CLIENT_UJ: u64 = 262_143_999_938;
const DRAM_UJ: u64 = 65_712_999_613;
const SECOND: u64 = 1_000_000_000;

/// One zone: folder, name, range, counter at the start and uJ per second.
type Spec = (&'static str, &'static str, u64, u64, u64);

struct Machine {
    tree: Tree,
    zones: Vec<Spec>,
    counted_uj: Vec<u64>,
}

impl Machine {
    fn new(vendor: &str, zones: &[Spec]) -> Self {
        let tree = Tree::new(&[("proc/cpuinfo", &format!("vendor_id\t: {vendor}\nflags\t\t: fpu"))]);
        for control in ["intel-rapl", "intel-rapl-mmio"] {
            tree.write(&format!("sys/class/powercap/{control}/enabled"), "1");
        }
        let machine = Self { tree, zones: zones.to_vec(), counted_uj: vec![0; zones.len()] };
        for (id, name, range, ..) in zones {
            machine.tree.write(&format!("sys/class/powercap/{id}/name"), name);
            machine.tree.write(&format!("sys/class/powercap/{id}/max_energy_range_uj"), &range.to_string());
        }
        machine.show();
        machine
    }

    fn intel(zones: &[Spec]) -> Self {
        Self::new("GenuineIntel", zones)
    }

    /// Writes every counter; one that is gone stays gone.
    fn show(&self) {
        for ((id, _, range, start, _), counted) in self.zones.iter().zip(&self.counted_uj) {
            if self.tree.path(&format!("sys/class/powercap/{id}/name")).exists() {
                let value = (start + counted) % (range + 1);
                self.tree.write(&format!("sys/class/powercap/{id}/energy_uj"), &value.to_string());
            }
        }
    }

    fn second(&mut self) {
        for (counted, (.., rate)) in self.counted_uj.iter_mut().zip(&self.zones) {
            *counted += rate;
        }
        self.show();
    }

    fn remove(&self, id: &str) {
        fs::remove_dir_all(self.tree.path(&format!("sys/class/powercap/{id}"))).unwrap();
    }

    fn open(&self) -> Rapl {
        Rapl::open(self.tree.root()).unwrap()
    }

    /// Readings once a second for that many seconds, at exact times.
    fn run(&mut self, meter: &mut Rapl, seconds: u64) -> Vec<Reading> {
        let mut readings = Vec::new();
        for second in 0..=seconds {
            if second > 0 {
                self.second();
            }
            let mut now = Vec::new();
            meter.read(&mut now).unwrap();
            readings.extend(now.into_iter().map(|reading| Reading {
                begin_ns: (second + 1) * SECOND,
                end_ns: (second + 1) * SECOND,
                ..reading
            }));
        }
        readings
    }
}

/// Joules of each channel over the first `seconds` seconds, by the integration that trials use.
fn joules(meter: &Rapl, readings: &[Reading], seconds: u64) -> Vec<(String, Scope, Result<f64, Incomplete>)> {
    let window = Window { begin_ns: SECOND, end_ns: (seconds + 1) * SECOND };
    let of = |(at, channel): (usize, &Channel)| {
        let trace = Trace::new(channel, at, readings, Clock::Host { age_ns: 0, within_ns: 0 }, &[]);
        let energy = trace.and_then(|trace| trace.energy(window, 2 * SECOND)).map(|energy| energy.joules);
        (channel.name.clone(), channel.scope, energy)
    };
    meter.channels().iter().enumerate().map(of).collect()
}

#[track_caller]
fn assert_joules(machine: &mut Machine, seconds: u64, want: &[(&str, Scope, f64)]) -> Rapl {
    let mut meter = machine.open();
    let readings = machine.run(&mut meter, seconds);
    let got = joules(&meter, &readings, seconds);
    assert_eq!(got.len(), want.len(), "{got:?}");
    for ((name, scope, energy), (want_name, want_scope, want_j)) in got.into_iter().zip(want) {
        assert_eq!((name.as_str(), scope), (*want_name, *want_scope));
        let energy = energy.unwrap();
        assert!((energy - want_j).abs() < 1e-6, "{name}: {energy} J, not {want_j}");
    }
    meter
}

/// Joules of a scope: channels that are not inside another one of the same scope.
fn sum(want: &[(&str, Scope, f64)], scope: Scope) -> f64 {
    want.iter().filter(|(_, of, _)| *of == scope).map(|(.., joules)| joules).sum()
}

fn why<'a>(meter: &'a Rapl, name: &str) -> &'a str {
    &meter
        .refused()
        .iter()
        .find(|refused| refused.name == name)
        .unwrap_or_else(|| panic!("{:?}", meter.refused()))
        .why
}

#[test]
fn an_intel_server_with_two_sockets() {
    // The kernel may register the sockets in any order; the first counter wraps around on the way.
    let mut machine = Machine::intel(&[
        ("intel-rapl:0", "package-1", SERVER_UJ, SERVER_UJ - 450_000_000, 100_000_001),
        ("intel-rapl:0:0", "dram", DRAM_UJ, 5, 20_000_003),
        ("intel-rapl:1", "package-0", SERVER_UJ, 7_000, 150_000_007),
        ("intel-rapl:1:0", "dram", DRAM_UJ, 9, 30_000_000),
        ("intel-rapl:1:1", "core", SERVER_UJ, 11, 90_000_000),
    ]);
    let want = [
        ("package-0", Scope::Package, 1_500.000_07),
        ("package-0/core", Scope::Core, 900.0),
        ("package-0/dram", Scope::Dram, 300.0),
        ("package-1", Scope::Package, 1_000.000_01),
        ("package-1/dram", Scope::Dram, 200.000_03),
    ];
    let meter = assert_joules(&mut machine, 10, &want);
    assert!((sum(&want, Scope::Package) - 2_500.000_08).abs() < 1e-9);
    assert_eq!(meter.refused(), []);
    assert_eq!(meter.notes(), Vec::<String>::new());
    let parents: Vec<Option<&str>> =
        meter.channels().iter().map(|channel| channel.parent.as_deref()).collect();
    assert_eq!(parents, [None, Some("package-0"), None, None, None]);
    let package = &meter.channels()[0];
    assert_eq!(package.accuracy, None);
    assert!((package.resolution - 61.035e-6).abs() < 1e-8);
    let wrap = Some(Wrap { range: SERVER_UJ + 1, max_watts: 2_000.0 });
    assert_eq!(package.kind, ChannelKind::Counter { joules_per_count: 1e-6, wrap });
}

#[test]
fn an_intel_client_with_psys_and_a_memory_mapped_repetition() {
    let mut machine = Machine::intel(&[
        ("intel-rapl:0", "package-0", CLIENT_UJ, 1_000, 12_000_000),
        ("intel-rapl:0:0", "core", CLIENT_UJ, 2_000, 7_000_000),
        ("intel-rapl:0:1", "uncore", CLIENT_UJ, 3_000, 1_000_000),
        ("intel-rapl:1", "psys", CLIENT_UJ, 4_000, 21_000_000),
        ("intel-rapl-mmio:0", "package-0", CLIENT_UJ, 1_000, 12_000_000),
    ]);
    let want = [
        ("package-0", Scope::Package, 120.0),
        ("package-0/core", Scope::Core, 70.0),
        ("package-0/uncore", Scope::Uncore, 10.0),
        ("psys", Scope::Psys, 210.0),
    ];
    let meter = assert_joules(&mut machine, 10, &want);
    assert_eq!(meter.refused().len(), 1);
    assert_eq!(
        why(&meter, "intel-rapl-mmio/package-0"),
        "it repeats `intel-rapl/package-0`, which counts the same joules"
    );
}

#[test]
fn a_repetition_serves_where_it_is_alone() {
    let zones = [("intel-rapl-mmio:0", "package-0", CLIENT_UJ, 1_000, 12_000_000)];
    assert_joules(&mut Machine::intel(&zones), 5, &[("package-0", Scope::Package, 60.0)]);
}

#[test]
fn an_amd_server_with_core_domains() {
    let mut machine = Machine::new(
        "AuthenticAMD",
        &[
            ("intel-rapl:0", "package-0", 65_532_610_987, 77, 140_000_000),
            ("intel-rapl:0:0", "core", 65_532_610_987, 78, 900_000),
            ("intel-rapl:1", "package-1", 65_532_610_987, 79, 160_000_000),
            ("intel-rapl:1:0", "core", 65_532_610_987, 80, 800_000),
        ],
    );
    let want = [("package-0", Scope::Package, 1_400.0), ("package-1", Scope::Package, 1_600.0)];
    let meter = assert_joules(&mut machine, 10, &want);
    assert_eq!(meter.refused().len(), 2);
    assert!(why(&meter, "intel-rapl/package-0/core").contains("only one core of the package"));
}

#[test]
fn dies_that_mirror_one_counter_count_once() {
    for vendor in ["AuthenticAMD", "GenuineIntel"] {
        let mut machine = Machine::new(
            vendor,
            &[
                ("intel-rapl:0", "package-0-die-0", 65_532_610_987, 123_456_789, 68_000_000),
                ("intel-rapl:1", "package-0-die-1", 65_532_610_987, 123_456_789, 68_000_000),
            ],
        );
        let meter = assert_joules(&mut machine, 10, &[("package-0-die-0", Scope::Package, 680.0)]);
        let want = "it mirrors `intel-rapl/package-0-die-0`: one counter, shown twice";
        assert_eq!(why(&meter, "intel-rapl/package-0-die-1"), want);
    }
}

#[test]
fn dies_with_counters_of_their_own_both_count() {
    let mut machine = Machine::intel(&[
        ("intel-rapl:0", "package-0-die-0", SERVER_UJ, 123_456_789, 90_000_000),
        ("intel-rapl:0:0", "dram", DRAM_UJ, 55_555, 10_000_000),
        ("intel-rapl:1", "package-0-die-1", SERVER_UJ, 123_456_000, 80_000_000),
        ("intel-rapl:1:0", "dram", DRAM_UJ, 55_555, 10_000_000),
    ]);
    // The memory's counter is mirrored although the dies' are not.
    let want = [
        ("package-0-die-0", Scope::Package, 900.0),
        ("package-0-die-0/dram", Scope::Dram, 100.0),
        ("package-0-die-1", Scope::Package, 800.0),
    ];
    assert_joules(&mut machine, 10, &want);
}

#[test]
fn sockets_with_equal_counters_are_not_mirrors() {
    let mut machine = Machine::intel(&[
        ("intel-rapl:0", "package-0", SERVER_UJ, 123_456_789, 90_000_000),
        ("intel-rapl:1", "package-1", SERVER_UJ, 123_456_789, 90_000_000),
    ]);
    let want = [("package-0", Scope::Package, 900.0), ("package-1", Scope::Package, 900.0)];
    assert_joules(&mut machine, 10, &want);
}

#[test]
fn dies_that_stand_still_are_not_guessed_about() {
    let dies = [
        ("intel-rapl:0", "package-0-die-0", SERVER_UJ, 0, 1),
        ("intel-rapl:1", "package-0-die-1", SERVER_UJ, 0, 1),
    ];
    let meter = Machine::intel(&dies).open();
    assert!(why(&meter, "intel-rapl/package-0-die-1").contains("cannot be seen while both are 0"));
    // AMD's register is the package's in any case.
    let meter = Machine::new("AuthenticAMD", &dies).open();
    assert!(why(&meter, "intel-rapl/package-0-die-1").starts_with("it mirrors"));
}

#[test]
fn a_mirror_that_stops_being_one_ends_its_domain() {
    let mut machine = Machine::intel(&[
        ("intel-rapl:0", "package-0-die-0", SERVER_UJ, 5_000_000, 70_000_000),
        ("intel-rapl:1", "package-0-die-1", SERVER_UJ, 5_000_000, 70_000_000),
    ]);
    let mut meter = machine.open();
    machine.run(&mut meter, 2);
    machine.zones[1].4 = 10_000_000_000;
    machine.second();
    let error = meter.read(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("no longer mirrors it"), "{error}");
}

#[test]
fn a_counter_that_wraps_every_minute() {
    // 6 kJ at 100 W: ten times in ten minutes.
    let zones = [("intel-rapl:0", "package-0", 5_999_999_999, 5_999_000_000, 100_000_000)];
    assert_joules(&mut Machine::intel(&zones), 600, &[("package-0", Scope::Package, 60_000.0)]);
}

#[test]
fn a_domain_that_vanishes_takes_no_other_with_it() {
    let mut machine = Machine::intel(&[
        ("intel-rapl:0", "package-0", SERVER_UJ, 1_000, 100_000_000),
        ("intel-rapl:1", "package-1", SERVER_UJ, 2_000, 100_000_000),
    ]);
    let mut meter = machine.open();
    let mut readings = machine.run(&mut meter, 5);
    machine.remove("intel-rapl:0");
    let later = machine.run(&mut meter, 5);
    readings.extend(later.into_iter().skip(1).map(|reading| Reading {
        begin_ns: reading.begin_ns + 5 * SECOND,
        end_ns: reading.end_ns + 5 * SECOND,
        ..reading
    }));
    let got = joules(&meter, &readings, 10);
    assert_eq!(got[0].2, Err(Incomplete::EarlyEnd));
    assert!((got[1].2.clone().unwrap() - 1_000.0).abs() < 1e-6);
    assert!((joules(&meter, &readings, 5)[0].2.clone().unwrap() - 500.0).abs() < 1e-6);
    assert_eq!(meter.notes().len(), 1);
    assert!(meter.notes()[0].starts_with("`package-0` gives no more readings: "), "{:?}", meter.notes());
    machine.remove("intel-rapl:1");
    let error = meter.read(&mut Vec::new()).unwrap_err();
    assert!(
        matches!(&error, MeterError::Fatal(text) if text.starts_with("RAPL has no domain left: `package-1`")),
        "{error}"
    );
}

#[test]
fn a_place_that_another_domain_takes_is_not_read_on() {
    let mut machine = Machine::intel(&[
        ("intel-rapl:0", "package-0", SERVER_UJ, 1_000, 100_000_000),
        ("intel-rapl:1", "package-1", SERVER_UJ, 2_000, 100_000_000),
    ]);
    let mut meter = machine.open();
    machine.run(&mut meter, 1);
    machine.tree.write("sys/class/powercap/intel-rapl:0/name", "package-1");
    let readings = machine.run(&mut meter, 1);
    assert!(readings.iter().all(|reading| reading.channel == 1));
    assert!(meter.notes()[0].contains("its directory now belongs to `package-1`"), "{:?}", meter.notes());
}

#[test]
fn what_cannot_be_a_zone_is_refused_with_the_cause() {
    let machine = Machine::intel(&[
        ("intel-rapl:0", "package-0", SERVER_UJ, 1_000, 1),
        ("intel-rapl:1", "gpu", SERVER_UJ, 1_000, 1),
        ("intel-rapl:2", "package-2", 0, 1_000, 1),
        ("intel-rapl:3", "package-0", SERVER_UJ, 999_000, 1),
    ]);
    machine.tree.write("sys/class/powercap/intel-rapl:0:0/name", "core");
    let meter = machine.open();
    assert_eq!(meter.channels().len(), 1);
    assert_eq!(why(&meter, "intel-rapl/gpu"), "iopj does not know what this zone measures: report its name");
    assert!(why(&meter, "intel-rapl:2").contains("is 0, which is not the range of a counter"));
    assert!(why(&meter, "intel-rapl:0:0").contains("max_energy_range_uj` cannot be read"));
    assert!(
        why(&meter, "intel-rapl/package-0").starts_with("another zone has this name and counts other joules")
    );
}

#[test]
fn perf_is_compared_with_powercap() {
    // cpu-clock of one processor stands in: about a joule per second in ns, against powercap's 300 at once.
    let mut machine = Machine::intel(&[("intel-rapl:0", "package-0", SERVER_UJ, 1_000, 100_000_000)]);
    let pmu = "sys/bus/event_source/devices/power";
    for (file, value) in [("type", "1"), ("cpumask", "0"), ("events/energy-pkg", "event=0x00")] {
        machine.tree.write(&format!("{pmu}/{file}"), value);
    }
    machine.tree.write(&format!("{pmu}/events/energy-pkg.scale"), "1e-9");
    machine.tree.write(&format!("{pmu}/events/energy-pkg.unit"), "Joules");
    let mut meter = machine.open();
    if !meter.notes().is_empty() && std::env::var_os("CI").is_none() {
        let root = if rustix::process::geteuid().is_root() { "" } else { "root, for " };
        return eprintln!("skipped: needs {root}perf events ({:?})", meter.notes());
    }
    machine.run(&mut meter, 3);
    // Long enough for more than two updates of the counter.
    sleep(Duration::from_millis(50));
    machine.run(&mut meter, 0);
    let notes = meter.notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].starts_with("`package-0`: powercap counted 300.000 J and perf "), "{notes:?}");
    // Without powercap perf measures.
    machine.remove("intel-rapl:0");
    let mut meter = machine.open();
    let mut readings = Vec::new();
    meter.read(&mut readings).unwrap();
    assert_eq!(meter.channels()[0].kind, ChannelKind::Counter { joules_per_count: 1e-9, wrap: None });
    assert_eq!((meter.channels()[0].name.as_str(), readings.len()), ("package-0", 1));
}

#[test]
fn a_machine_without_rapl_says_why() {
    let bare = Tree::new(&[("proc/cpuinfo", "flags\t: fpu")]);
    let error = Rapl::open(bare.root()).unwrap_err().to_string();
    assert!(error.ends_with("the driver is not loaded: try `modprobe intel_rapl_msr`"), "{error}");
    let guest = Tree::new(&[("proc/cpuinfo", "flags\t: fpu hypervisor")]);
    let error = Rapl::open(guest.root()).unwrap_err().to_string();
    assert!(error.ends_with("measure on the host"), "{error}");
}
