//! Provenance: the machine, its kernel and the drives, as names and values.

use crate::settings::Host;
use crate::sysfs;
use iopj_engine::Target;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What emulates this machine's processor, by the hypervisor's CPUID leaf: QEMU's translator, under which
/// times mean nothing, signs with `TCG` (`target/i386/cpu.c`). A hypervisor that runs the machine's own
/// instructions is not an emulator.
pub fn emulator() -> Option<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        const HYPERVISOR: u32 = 1 << 31;
        // SAFETY: every x86-64 processor has the instruction, and it only reads.
        #[allow(unused_unsafe, reason = "later toolchains than the minimum call it safe")]
        let leaf = |number| unsafe { __cpuid(number) };
        let signature = || {
            let leaf = leaf(0x4000_0000);
            [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat()
        };
        (leaf(1).ecx & HYPERVISOR != 0 && signature() == b"TCGTCGTCGTCG").then_some("QEMU TCG")
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Facts about this machine and the target's drives. What the machine does not say is absent.
pub fn provenance(target: &Target) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    put("iopj_version", Some(env!("CARGO_PKG_VERSION").to_owned()));
    put("architecture", Some(std::env::consts::ARCH.to_owned()));
    put("kernel", read("/proc/sys/kernel/osrelease"));
    put("kernel_build", read("/proc/sys/kernel/version"));
    put("clocksource", read("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    put("irqbalance", Host::new().irqbalance().map(|_| "running".to_owned()));
    put("cpus_online", read("/sys/devices/system/cpu/online"));
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    put("cpu_model", field(&cpu, "model name"));
    let virtual_machine =
        field(&cpu, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    put("virtual_machine", virtual_machine.then(|| "yes".to_owned()));
    put("memory", field(&read("/proc/meminfo").unwrap_or_default(), "MemTotal"));
    put("target_bytes", Some(target.data_len().to_string()));
    put("target_logical_block", Some(target.logical_block().to_string()));
    put("devices", Some(target.devices().join(" ")));
    for device in target.devices() {
        let folder = format!("/sys/block/{device}");
        for (name, file) in [
            ("model", "device/model"),
            ("serial", "device/serial"),
            ("firmware", "device/firmware_rev"),
            ("sectors", "size"),
            ("rotational", "queue/rotational"),
            ("physical_block", "queue/physical_block_size"),
        ] {
            put(&format!("{device}.{name}"), read(&format!("{folder}/{file}")));
        }
        let driver = fs::read_link(format!("{folder}/device/driver")).ok();
        put(
            &format!("{device}.driver"),
            driver.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned())),
        );
    }
    facts
}

/// Bytes of memory available without swapping.
pub fn available_memory() -> Option<u64> {
    let kib: u64 = field(&read("/proc/meminfo")?, "MemAvailable")?.split(' ').next()?.parse().ok()?;
    Some(kib * 1024)
}

fn read(path: &str) -> Option<String> {
    sysfs::read(Path::new(path)).ok()
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
