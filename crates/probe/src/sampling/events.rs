//! Which events are sampled: those of the processor's counters that are known by name, or the clock.
//!
//! Sources. Intel: "Performance Monitoring Events" (perfmon-events.intel.com), `MEM_INST_RETIRED.ALL_LOADS`
//! and `.ALL_STORES` (D0H, 81H and 82H) from Skylake on, `MEM_UOPS_RETIRED.ALL_LOADS` and `.ALL_STORES` of
//! the small cores of hybrid processors (the same codes); the kernel names the processor in `caps/pmu_name`
//! (arch/x86/events/intel/core.c). AMD: Processor Programming Reference of families 17h, 19h and 1Ah, PMCx029
//! "LS Dispatch": bit 0 loads, bit 1 stores, bit 2 operations that load from and store to one address.
//! Instructions: the kernel's own event.

use crate::cpu::{list, online};
use crate::error::ProbeError;
use crate::perf;
use crate::root::{Root, text_if_there};
use iopj_core::CostKind;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) name: &'static str,
    /// The column that a sample adds `period` to.
    pub(super) kind: CostKind,
    pub(super) perf_type: u32,
    pub(super) config: u64,
    /// A prime, so no loop keeps step with it.
    pub(super) period: u64,
}

/// Cores of one kind, and the events sampled on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CoreGroup {
    pub(super) cpus: Vec<u32>,
    pub(super) events: Vec<Event>,
}

/// 997 samples per second and core: some 1 % of its time, and out of step with the kernel's tick of 1, 4 or
/// 10 ms.
const CLOCK_PERIOD_NS: u64 = 1_003_001;
/// Up to some 1,000 samples per second at 4 * 10^9 instructions per second, of which a quarter load and an
/// eighth store.
const INSTRUCTION_PERIOD: u64 = 4_000_037;
const LOAD_PERIOD: u64 = 1_000_003;
const STORE_PERIOD: u64 = 500_009;

/// Time on every core, from a timer of the kernel, which all machines have.
pub(super) fn clock(cpus: Vec<u32>) -> CoreGroup {
    let event = Event {
        name: "cpu-clock",
        kind: CostKind::CpuTime,
        perf_type: perf::TYPE_SOFTWARE,
        config: perf::SOFTWARE_CPU_CLOCK,
        period: CLOCK_PERIOD_NS,
    };
    CoreGroup { cpus, events: vec![event] }
}

/// The cores with the events that their counters are known to have; opening them shows whether they exist
/// here.
pub(super) fn hardware(root: &Root) -> Result<Vec<CoreGroup>, ProbeError> {
    let online = online(root)?;
    let hybrid: Vec<CoreGroup> =
        ["cpu_core", "cpu_atom"].iter().filter_map(|pmu| hybrid(root, pmu, &online)).collect();
    if !hybrid.is_empty() {
        return Ok(hybrid);
    }
    let mut events = vec![instructions(perf::HARDWARE_INSTRUCTIONS)];
    let cpu = root.text("proc/cpuinfo").unwrap_or_default();
    let memory = match (field(&cpu, "vendor_id"), field(&cpu, "cpu family")) {
        (Some("GenuineIntel"), Some("6")) if is_skylake_or_later(&pmu_file(root, "cpu", "caps/pmu_name")) => {
            Some([("MEM_INST_RETIRED.ALL_LOADS", 0x81d0), ("MEM_INST_RETIRED.ALL_STORES", 0x82d0)])
        }
        // 17h, 19h and 1Ah, in decimal.
        (Some("AuthenticAMD"), Some("23" | "25" | "26")) => {
            let loads = ("ls_dispatch.ld_dispatch+ld_st_dispatch", 0x0529);
            Some([loads, ("ls_dispatch.store_dispatch+ld_st_dispatch", 0x0629)])
        }
        _ => None,
    };
    events.extend(memory.into_iter().flat_map(|memory| memory_events(perf::TYPE_RAW, memory)));
    Ok(vec![CoreGroup { cpus: online, events }])
}

/// One kind of a hybrid processor's cores (Documentation/arch/x86 "intel-hybrid", tools/perf): a PMU of its
/// own.
fn hybrid(root: &Root, pmu: &str, online: &[u32]) -> Option<CoreGroup> {
    let perf_type: u32 = pmu_file(root, pmu, "type").parse().ok()?;
    let cpus = list(&pmu_file(root, pmu, "cpus"))?;
    let cpus: Vec<u32> = cpus.into_iter().filter(|cpu| online.contains(cpu)).collect();
    let config = u64::from(perf_type) << perf::HARDWARE_PMU_SHIFT | perf::HARDWARE_INSTRUCTIONS;
    let memory = match pmu {
        "cpu_core" => [("MEM_INST_RETIRED.ALL_LOADS", 0x81d0), ("MEM_INST_RETIRED.ALL_STORES", 0x82d0)],
        _ => [("MEM_UOPS_RETIRED.ALL_LOADS", 0x81d0), ("MEM_UOPS_RETIRED.ALL_STORES", 0x82d0)],
    };
    let events = std::iter::once(instructions(config)).chain(memory_events(perf_type, memory)).collect();
    (!cpus.is_empty()).then_some(CoreGroup { cpus, events })
}

fn instructions(config: u64) -> Event {
    let (kind, perf_type) = (CostKind::Instructions, perf::TYPE_HARDWARE);
    Event { name: "instructions", kind, perf_type, config, period: INSTRUCTION_PERIOD }
}

/// Loads and stores by name and code.
fn memory_events(perf_type: u32, [loads, stores]: [(&'static str, u64); 2]) -> [Event; 2] {
    let event = |kind, (name, config), period| Event { name, kind, perf_type, config, period };
    [event(CostKind::Loads, loads, LOAD_PERIOD), event(CostKind::Stores, stores, STORE_PERIOD)]
}

/// The kernel's names of Intel's processors with one kind of cores that are not small ones, from Skylake on.
fn is_skylake_or_later(pmu_name: &str) -> bool {
    matches!(pmu_name, "skylake" | "icelake" | "sapphire_rapids" | "granite_rapids")
}

/// A file of a PMU (Documentation/ABI/testing/sysfs-bus-event_source-devices), empty if it is absent.
fn pmu_file(root: &Root, pmu: &str, file: &str) -> String {
    let path = root.path("sys/bus/event_source/devices").join(pmu).join(file);
    text_if_there(&path).ok().flatten().unwrap_or_default().trim().to_owned()
}

/// The first value of a name in `/proc/cpuinfo`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A machine of these files, by path.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let tree = tempfile::tempdir().unwrap();
        for (path, text) in files.iter().chain(&[("sys/devices/system/cpu/online", "0-1,4\n")]) {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(tree.path()).unwrap();
        (tree, root)
    }

    /// Name, type and code of each event of the only kind of cores.
    fn codes(files: &[(&str, &str)]) -> Vec<(&'static str, u32, u64)> {
        let (_tree, root) = machine(files);
        let all = hardware(&root).unwrap();
        let [cores] = &all[..] else { panic!("{all:?}") };
        assert_eq!(cores.cpus, [0, 1, 4]);
        cores.events.iter().map(|event| (event.name, event.perf_type, event.config)).collect()
    }

    const PMU: &str = "sys/bus/event_source/devices/cpu/caps/pmu_name";
    const INTEL: (&str, &str) =
        ("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\n");
    const INSTRUCTIONS: (&str, u32, u64) = ("instructions", 0, 1);

    #[test]
    fn intels_events_have_their_codes() {
        let known = [
            INSTRUCTIONS,
            ("MEM_INST_RETIRED.ALL_LOADS", 4, 0x81d0),
            ("MEM_INST_RETIRED.ALL_STORES", 4, 0x82d0),
        ];
        for name in ["skylake\n", "icelake\n", "sapphire_rapids\n", "granite_rapids\n"] {
            assert_eq!(codes(&[INTEL, (PMU, name)]), known, "{name}");
        }
        for name in ["haswell\n", "silvermont\n", "goldmont\n", ""] {
            assert_eq!(codes(&[INTEL, (PMU, name)]), [INSTRUCTIONS], "{name}");
        }
        assert_eq!(codes(&[INTEL]), [INSTRUCTIONS]);
    }

    #[test]
    fn amds_events_have_their_codes() {
        let cpuinfo =
            |family: u32| format!("vendor_id\t: AuthenticAMD\ncpu family\t: {family}\nmodel\t\t: 1\n");
        for family in [0x17, 0x19, 0x1a] {
            let known = [
                INSTRUCTIONS,
                ("ls_dispatch.ld_dispatch+ld_st_dispatch", 4, 0x0529),
                ("ls_dispatch.store_dispatch+ld_st_dispatch", 4, 0x0629),
            ];
            assert_eq!(codes(&[("proc/cpuinfo", &cpuinfo(family))]), known);
        }
        assert_eq!(codes(&[("proc/cpuinfo", &cpuinfo(0x15))]), [INSTRUCTIONS]);
    }

    #[test]
    fn hybrid_cores_have_a_pmu_of_each_kind() {
        let folder = "sys/bus/event_source/devices/";
        let file = |name: &str| format!("{folder}{name}");
        let (core_type, core_cpus) = (file("cpu_core/type"), file("cpu_core/cpus"));
        let (atom_type, atom_cpus) = (file("cpu_atom/type"), file("cpu_atom/cpus"));
        let files: [(&str, &str); 5] =
            [INTEL, (&core_type, "4\n"), (&core_cpus, "0-1\n"), (&atom_type, "10\n"), (&atom_cpus, "4-7\n")];
        let (_tree, root) = machine(&files);
        let all = hardware(&root).unwrap();
        let cpus: Vec<&[u32]> = all.iter().map(|cores| &cores.cpus[..]).collect();
        assert_eq!(cpus, [&[0, 1][..], &[4]], "those that are online");
        let codes = |cores: &CoreGroup| {
            cores.events.iter().map(|it| (it.name, it.perf_type, it.config)).collect::<Vec<_>>()
        };
        let big = [
            ("instructions", 0, 4 << 32 | 1),
            ("MEM_INST_RETIRED.ALL_LOADS", 4, 0x81d0),
            ("MEM_INST_RETIRED.ALL_STORES", 4, 0x82d0),
        ];
        let small = [
            ("instructions", 0, 10 << 32 | 1),
            ("MEM_UOPS_RETIRED.ALL_LOADS", 10, 0x81d0),
            ("MEM_UOPS_RETIRED.ALL_STORES", 10, 0x82d0),
        ];
        assert_eq!((codes(&all[0]), codes(&all[1])), (big.to_vec(), small.to_vec()));
    }

    #[test]
    fn another_processor_has_instructions_alone() {
        assert_eq!(codes(&[("proc/cpuinfo", "CPU implementer\t: 0x41\n")]), [INSTRUCTIONS]);
        assert_eq!(codes(&[]), [INSTRUCTIONS]);
    }
}
