//! RAPL's events in perf: `/sys/bus/event_source/devices/power` (arch/x86/events/rapl.c), read by
//! perf_event_open(2).

use crate::sysfs::{names, number, text};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{FromRawFd, RawFd};
use std::path::Path;

/// The event of one domain: on one processor of the domain, or for cores on each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    /// As powercap would name the domain: `package-0/dram`.
    pub(super) name: String,
    pmu: u32,
    config: u64,
    cpus: Vec<u32>,
    pub(super) joules_per_count: f64,
}

/// An open event.
#[derive(Debug)]
pub(super) struct OpenEvent {
    files: Vec<File>,
    pub(super) joules_per_count: f64,
}

/// What `perf_event_open` takes, in its first published size (PERF_ATTR_SIZE_VER0 in
/// include/uapi/linux/perf_event.h).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    config1: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

impl Event {
    /// # Errors
    /// The cause and the remedy.
    pub(super) fn open(&self, root: &Path) -> Result<OpenEvent, String> {
        let files: io::Result<Vec<File>> =
            self.cpus.iter().map(|&cpu| open(self.pmu, self.config, cpu)).collect();
        let files = files.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => {
                let path = "proc/sys/kernel/perf_event_paranoid";
                let level = text(&root.join(path)).unwrap_or_else(|_| "unknown".into());
                format!(
                    "kernel.perf_event_paranoid is {level}, so perf is not allowed: run as root or with \
                     CAP_PERFMON, or set it to 0"
                )
            }
            _ => format!(
                "perf_event_open refuses it ({error}): run `perf stat -a -e power/energy-pkg/ true` to see \
                 whether perf can read it"
            ),
        })?;
        Ok(OpenEvent { files, joules_per_count: self.joules_per_count })
    }
}

impl OpenEvent {
    /// Counts since it was opened; perf keeps 64 bits, across the register's wrap-arounds.
    pub(super) fn read(&mut self) -> io::Result<u64> {
        self.files.iter_mut().try_fold(0u64, |sum, file| {
            let mut count = [0; 8];
            file.read_exact(&mut count)?;
            Ok(sum.wrapping_add(u64::from_ne_bytes(count)))
        })
    }
}

fn open(pmu: u32, config: u64, cpu: u32) -> io::Result<File> {
    let attributes =
        Attributes { kind: pmu, size: size_of::<Attributes>() as u32, config, ..Attributes::default() };
    let every_process: libc::pid_t = -1;
    let no_group: RawFd = -1;
    // SAFETY: the kernel reads `size` bytes from `attributes`, which is that long and outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            every_process,
            cpu as libc::c_int,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor, so nobody else owns it.
    Ok(unsafe { File::from_raw_fd(fd as RawFd) })
}

/// The energy events of this machine, named as powercap would name the domains. Events in an unknown form are
/// left out.
pub(super) fn events(root: &Path) -> Vec<Event> {
    let mut events = pmu(root, "power");
    events.extend(pmu(root, "power_core"));
    events
}

fn pmu(root: &Path, pmu: &str) -> Vec<Event> {
    let directory = root.join("sys/bus/event_source/devices").join(pmu);
    let (Ok(kind), Ok(mask)) = (number(&directory.join("type")), text(&directory.join("cpumask"))) else {
        return Vec::new();
    };
    let processors: Vec<Processor> =
        cpus(&mask).unwrap_or_default().into_iter().map(|cpu| Processor::of(root, cpu)).collect();
    let mut events = BTreeMap::new();
    for event in names(&directory.join("events")) {
        let file = directory.join("events").join(&event);
        let Some((config, joules_per_count)) = describe(&file) else { continue };
        for processor in &processors {
            let Some(name) = processor.domain(&event, &processors) else { continue };
            let entry = events.entry(name.clone());
            let event =
                entry.or_insert(Event { name, pmu: kind, config, cpus: Vec::new(), joules_per_count });
            event.cpus.push(processor.cpu);
        }
    }
    events.into_values().collect()
}

/// Configuration and joules of one count of the event described in `file` and its companions `.scale` and
/// `.unit`.
fn describe(file: &Path) -> Option<(u64, f64)> {
    let companion = |suffix: &str| text(&file.with_extension(suffix));
    let joules_per_count: f64 = companion("scale").ok()?.parse().ok()?;
    let usable =
        joules_per_count.is_finite() && joules_per_count > 0.0 && companion("unit").ok()? == "Joules";
    usable.then_some((config(&text(file).ok()?)?, joules_per_count))
}

/// The configuration of `event=0x02`, whose format is `config:0-7`.
fn config(text: &str) -> Option<u64> {
    let value = text.strip_prefix("event=")?;
    let config = match value.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|byte| byte.is_ascii_hexdigit()) => u8::from_str_radix(hex, 16).ok()?,
        Some(_) => return None,
        None => value.parse().ok()?,
    };
    Some(config.into())
}

/// The processors of a list such as `0,18-20`; `None` for other text.
fn cpus(list: &str) -> Option<Vec<u32>> {
    let mut cpus = BTreeSet::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        // Linux has at most 8192 processors; 16 bits bound what a list can allocate.
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        cpus.extend(u32::from(first)..=u32::from(last));
    }
    Some(cpus.into_iter().collect())
}

/// A processor, and the package and die that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Processor {
    cpu: u32,
    package: u32,
    die: u32,
}

impl Processor {
    fn of(root: &Path, cpu: u32) -> Self {
        let topology = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology"));
        let id = |name: &str| number(&topology.join(name)).unwrap_or(0);
        Self { cpu, package: id("physical_package_id"), die: id("die_id") }
    }

    /// The domain that the event counts on this processor, one of `processors`.
    fn domain(self, event: &str, processors: &[Self]) -> Option<String> {
        let Self { package, die, .. } = self;
        let many = processors.iter().any(|other| other.package == package && other.die != die);
        let outer = if many { format!("package-{package}-die-{die}") } else { format!("package-{package}") };
        match event {
            "energy-pkg" => Some(outer),
            "energy-cores" => Some(format!("{outer}/core")),
            // AMD counts each core; their sum is the package's cores.
            "energy-core" => Some(format!("package-{package}/core")),
            "energy-ram" => Some(format!("{outer}/dram")),
            "energy-gpu" => Some(format!("{outer}/uncore")),
            "energy-psys" if package == 0 => Some("psys".into()),
            "energy-psys" => Some(format!("psys-{package}")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fixture::Tree;
    use proptest::prelude::*;

    const SCALE: &str = "2.3283064365386962890625e-10";

    fn power(tree: &Tree, pmu: &str, mask: &str, events: &[(&str, &str)]) {
        let directory = format!("sys/bus/event_source/devices/{pmu}");
        tree.write(&format!("{directory}/type"), "19");
        tree.write(&format!("{directory}/cpumask"), mask);
        for (event, config) in events {
            tree.write(&format!("{directory}/events/{event}"), config);
            tree.write(&format!("{directory}/events/{event}.scale"), SCALE);
            tree.write(&format!("{directory}/events/{event}.unit"), "Joules");
        }
    }

    fn place(tree: &Tree, cpu: u32, package: u32, die: u32) {
        let directory = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        tree.write(&format!("{directory}/physical_package_id"), &package.to_string());
        tree.write(&format!("{directory}/die_id"), &die.to_string());
    }

    fn seen(tree: &Tree) -> Vec<(String, u64, Vec<u32>)> {
        events(tree.root()).into_iter().map(|event| (event.name, event.config, event.cpus)).collect()
    }

    #[test]
    fn two_sockets_have_events_by_name() {
        let tree = Tree::new(&[]);
        power(
            &tree,
            "power",
            "0,18",
            &[("energy-pkg", "event=0x02"), ("energy-ram", "event=0x03"), ("energy-odd", "event=0x09")],
        );
        place(&tree, 0, 0, 0);
        place(&tree, 18, 1, 0);
        let want =
            [("package-0", 2, 0), ("package-0/dram", 3, 0), ("package-1", 2, 18), ("package-1/dram", 3, 18)];
        assert_eq!(seen(&tree), want.map(|(name, config, cpu)| (name.to_owned(), config, vec![cpu])));
        assert_eq!(events(tree.root())[0].joules_per_count, 2f64.powi(-32));
    }

    #[test]
    fn dies_are_named_only_where_there_are_several() {
        let tree = Tree::new(&[]);
        power(&tree, "power", "0,8,16", &[("energy-pkg", "event=0x02"), ("energy-psys", "event=0x05")]);
        place(&tree, 0, 0, 0);
        place(&tree, 8, 0, 1);
        place(&tree, 16, 1, 0);
        let names: Vec<String> = seen(&tree).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["package-0-die-0", "package-0-die-1", "package-1", "psys", "psys-1"]);
    }

    #[test]
    fn cores_are_summed_by_package() {
        let tree = Tree::new(&[]);
        power(&tree, "power_core", "0-3", &[("energy-core", "event=0x01")]);
        for cpu in 0..4 {
            place(&tree, cpu, cpu / 2, cpu);
        }
        let want =
            [("package-0/core".to_owned(), 1, vec![0, 1]), ("package-1/core".to_owned(), 1, vec![2, 3])];
        assert_eq!(seen(&tree), want);
    }

    #[test]
    fn another_unit_or_form_is_left_out() {
        let tree = Tree::new(&[]);
        power(
            &tree,
            "power",
            "0",
            &[("energy-pkg", "event=0x02"), ("energy-ram", "event=0x103"), ("energy-gpu", "config=1")],
        );
        tree.write("sys/bus/event_source/devices/power/events/energy-pkg.unit", "Watts");
        assert_eq!(events(tree.root()), []);
        assert_eq!(events(Tree::new(&[]).root()), []);
    }

    #[test]
    fn an_event_of_this_kernel_counts() {
        // The software PMU's cpu-clock, in ns, stands in for the energy that this machine may lack.
        let event =
            Event { name: "package-0".into(), pmu: 1, config: 0, cpus: vec![0], joules_per_count: 1e-9 };
        let mut counter = match event.open(Path::new("/")) {
            Ok(counter) => counter,
            Err(why) if std::env::var_os("CI").is_none() => {
                let root = if rustix::process::geteuid().is_root() { "" } else { "root, for " };
                return eprintln!("skipped: needs {root}perf events ({why})");
            }
            Err(why) => panic!("{why}"),
        };
        let first = counter.read().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(counter.read().unwrap() > first);
        let absent = Event { pmu: 4_000_000_000, ..event };
        assert!(absent.open(Path::new("/")).unwrap_err().starts_with("perf_event_open refuses it"));
    }

    proptest! {
        #[test]
        fn any_text_is_taken(text in "\\PC{0,30}") {
            config(&text);
            cpus(&text);
        }

        #[test]
        fn a_list_has_its_processors(first in 0..100u32, more in 0..50u32, last in 200..9000u32) {
            let want: Vec<u32> = (first..=first + more).chain([last]).collect();
            prop_assert_eq!(cpus(&format!("{}-{},{}", first, first + more, last)), Some(want));
        }
    }
}
