//! Provenance: the machine, its kernel and the drives, as names and values.

use crate::settings::{Host, serial};
use crate::sysfs;
use iopj_engine::Target;
use iopj_engine::target::LoopBacking;
use rustix::fs::{major, minor};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// QEMU's translator.
const TCG: &str = "QEMU TCG";

/// What emulates this machine's processor: QEMU's translator, under which times mean nothing. A hypervisor
/// that runs the machine's own instructions is not an emulator.
///
/// On x86 the hypervisor's CPUID leaf is signed with `TCG` (QEMU's `target/i386/cpu.c`).
#[cfg(target_arch = "x86_64")]
pub fn emulator() -> Option<&'static str> {
    use std::arch::x86_64::__cpuid;
    const HYPERVISOR: u32 = 1 << 31;
    // SAFETY: every x86-64 processor has the instruction, and it only reads.
    #[allow(unused_unsafe, reason = "later toolchains than the minimum call it safe")]
    let leaf = |number| unsafe { __cpuid(number) };
    let signature = || {
        let leaf = leaf(0x4000_0000);
        [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat()
    };
    (leaf(1).ecx & HYPERVISOR != 0 && signature() == b"TCGTCGTCGTCG").then_some(TCG)
}

/// What emulates this machine's processor: QEMU's translator, under which times mean nothing. A hypervisor
/// that runs the machine's own instructions is not an emulator.
///
/// An Arm processor has no such signature. Its own name, the main identification register, is one that no
/// maker has where QEMU emulates the model `max` (`target/arm/tcg/cpu64.c`). Other models have the name of a
/// real processor; there the machine is QEMU's, and its clock ticks at the rate of QEMU's translator before
/// 9.0 (`target/arm/cpu.h`, `NANOSECONDS_PER_TICK`).
#[cfg(target_arch = "aarch64")]
pub fn emulator() -> Option<&'static str> {
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    let machine = fs::read("/proc/device-tree/compatible").unwrap_or_default();
    let ticks_per_s: u64;
    // SAFETY: reads a register that Linux lets every program read (arch/arm64/kernel/cpufeature.c).
    unsafe { std::arch::asm!("mrs {}, cntfrq_el0", out(reg) ticks_per_s, options(nomem, nostack)) };
    is_translated(&cpu, &machine, ticks_per_s).then_some(TCG)
}

/// Whether an Arm processor of this `/proc/cpuinfo`, of the machine of this device tree, with a clock of this
/// rate is QEMU's translator.
#[cfg(any(target_arch = "aarch64", test))]
fn is_translated(cpu: &str, machine: &[u8], ticks_per_s: u64) -> bool {
    let of_max = field(cpu, "CPU implementer").as_deref() == Some("0x00")
        && field(cpu, "CPU part").as_deref() == Some("0x051");
    let of_qemu = machine.split(|byte| *byte == 0).any(|name| name == b"linux,dummy-virt");
    of_max || (of_qemu && ticks_per_s == 62_500_000)
}

/// Facts about this machine and the target's drives. What the machine does not say is absent.
pub fn provenance(target: &Target) -> BTreeMap<String, String> {
    let mut facts = facts(target.devices());
    facts.insert("target_bytes".to_owned(), target.data_len().to_string());
    facts.insert("target_logical_block".to_owned(), target.logical_block().to_string());
    facts.extend(target.inode().map(|inode| ("target_inode".to_owned(), inode)));
    facts
}

/// Facts about this machine and some of its drives.
pub fn facts(devices: &[String]) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(name.to_owned(), value);
        }
    };
    put("iopj_version", Some(env!("CARGO_PKG_VERSION").to_owned()));
    put("iopj_profile", Some(env!("IOPJ_PROFILE").to_owned()));
    put("architecture", Some(std::env::consts::ARCH.to_owned()));
    put("host", read("/proc/sys/kernel/hostname"));
    put("kernel", read("/proc/sys/kernel/osrelease"));
    put("kernel_build", read("/proc/sys/kernel/version"));
    put("clocksource", read("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    put("irqbalance", Host::new().irqbalance().map(|_| "running".to_owned()));
    put("cpus_online", read("/sys/devices/system/cpu/online"));
    let cpu = read("/proc/cpuinfo").unwrap_or_default();
    put("cpu_model", field(&cpu, "model name").or_else(|| arm_model(&cpu)));
    let virtual_machine =
        field(&cpu, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    put("virtual_machine", virtual_machine.then(|| "yes".to_owned()));
    put("memory", field(&read("/proc/meminfo").unwrap_or_default(), "MemTotal"));
    put("devices", Some(devices.join(" ")));
    for device in devices {
        let folder = format!("/sys/block/{device}");
        for (name, file) in [
            ("model", "device/model"),
            ("firmware", "device/firmware_rev"),
            ("sectors", "size"),
            ("rotational", "queue/rotational"),
            ("physical_block", "queue/physical_block_size"),
        ] {
            put(&format!("{device}.{name}"), read(&format!("{folder}/{file}")));
        }
        put(&format!("{device}.serial"), drive_serial(device));
        let wwid = ["wwid", "device/wwid"].iter().find_map(|file| read(&format!("{folder}/{file}")));
        put(&format!("{device}.wwid"), wwid);
        put(&format!("{device}.backing_file"), backing_file(&folder));
        let driver = fs::read_link(format!("{folder}/device/driver")).ok();
        put(
            &format!("{device}.driver"),
            driver.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned())),
        );
    }
    facts
}

/// What a loop device lies on, by its file's device and inode, and the part of it where it is not the whole.
fn backing_file(folder: &str) -> Option<String> {
    let folder = Path::new(folder);
    let lies_on = match LoopBacking::of(folder)? {
        LoopBacking::Device(number) => format!("device {}:{}", major(number), minor(number)),
        LoopBacking::File { device, inode } => format!("{device}:{inode}"),
    };
    let limit = |name: &str| sysfs::read(&folder.join("loop").join(name)).ok().filter(|text| text != "0");
    let part = [("offset", "from"), ("sizelimit", "of")]
        .map(|(name, word)| limit(name).map_or(String::new(), |bytes| format!(" {word} {bytes}")));
    Some(format!("{lies_on}{}", part.concat()))
}

/// The serial number of a drive by its name below `/sys/block`, or what else tells it from others.
pub fn drive_serial(device: &str) -> Option<String> {
    serial(&Path::new("/sys/block").join(device))
}

/// Bytes of memory available without swapping.
pub fn available_memory() -> Option<u64> {
    let kib: u64 = field(&read("/proc/meminfo")?, "MemAvailable")?.split(' ').next()?.parse().ok()?;
    Some(kib * 1024)
}

fn read(path: &str) -> Option<String> {
    sysfs::read(Path::new(path)).ok()
}

/// An Arm processor's maker and part by their numbers, for `/proc/cpuinfo` names neither.
fn arm_model(cpu: &str) -> Option<String> {
    let of = |name| field(cpu, name);
    Some(format!("implementer {}, part {}", of("CPU implementer")?, of("CPU part")?))
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(implementer: &str, part: &str) -> String {
        format!("processor\t: 0\nCPU implementer\t: {implementer}\nCPU variant\t: 0x0\nCPU part\t: {part}\n")
    }

    #[test]
    fn the_profile_is_the_one_that_this_was_built_by() {
        let profile = facts(&[])["iopj_profile"].clone();
        assert_eq!(profile == "debug", cfg!(debug_assertions), "{profile}");
        assert!(["debug", "release", "dist"].contains(&&*profile), "{profile}");
    }

    /// Its times were shown as results.
    #[test]
    fn an_arm_guest_of_qemu_s_translator_is_emulated() {
        let (max, a72) = (cpu("0x00", "0x051"), cpu("0x41", "0xd08"));
        let of_qemu = b"linux,dummy-virt\0";
        assert!(is_translated(&max, b"", 1_000_000_000));
        assert!(is_translated(&a72, of_qemu, 62_500_000));
        assert!(!is_translated(&a72, of_qemu, 25_000_000), "a guest of KVM has its host's clock");
        assert!(!is_translated(&a72, b"brcm,bcm2711\0", 62_500_000));
        assert_eq!(arm_model(&a72).as_deref(), Some("implementer 0x41, part 0xd08"));
        assert_eq!(arm_model("model name : x"), None);
    }
}
