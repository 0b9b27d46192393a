//! One sysfs file of a setting: its one text form, reading and writing it.

use super::allowed::{self, Location, NotAllowed, is_device_name, is_interface_name};
use super::binding::Binding;
use super::ethtool;
use super::lock::CPU_LOCK;
use crate::sysfs::{self, chosen, number, numbered};
use iopj_core::Setting;
use iopj_engine::PciAddress;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// One sysfs file that may be written. Its path is made of checked parts alone, so no text from a journal can
/// lead elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attribute {
    pub(super) setting: Setting,
    pub(super) owner: Owner,
}

/// Whose file it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    /// A block device's queue.
    Device(String),
    /// A cpufreq policy.
    Policy(u32),
    /// An idle state of a CPU.
    IdleState { cpu: u32, state: u32 },
    /// All CPUs.
    Cpu,
    /// A core that can go offline.
    Core(u32),
    /// The kernel's network.
    NetCore,
    /// The target of NVMe over TCP.
    NvmetTcp,
    /// A network card.
    Nic(String),
    /// An interrupt of a network card.
    NicIrq { nic: String, irq: u32 },
    /// The PCI link of a drive.
    Link(PciAddress),
}

/// What a run may change, beside what the host has once.
#[derive(Clone, Copy, Default)]
pub(super) struct Places<'a> {
    pub(super) devices: &'a [String],
    pub(super) nics: &'a [String],
    /// The PCI functions of the devices.
    pub(super) functions: &'a [PciAddress],
}

const CPU: &str = "devices/system/cpu";
const NET_CORE: &str = "proc/sys/net/core";
const NVMET_TCP: &str = "module/nvmet_tcp/parameters";
const NET: &str = "class/net";
const PCI: &str = "bus/pci/devices";

impl Attribute {
    /// The files of `setting` on this host, in ascending order.
    pub(super) fn of(setting: Setting, sys: &Path, places: Places<'_>) -> io::Result<Vec<Attribute>> {
        let Places { devices, nics, functions } = places;
        let owners = match allowed::location(setting) {
            Location::Queue => devices.iter().cloned().map(Owner::Device).collect(),
            Location::Policy => {
                numbered(&sys.join(CPU).join("cpufreq"), "policy")?.into_keys().map(Owner::Policy).collect()
            }
            Location::IdleState => idle_states(sys)?,
            Location::Cpu => vec![Owner::Cpu],
            Location::Core => cores(sys)?,
            Location::NetCore => vec![Owner::NetCore],
            Location::NvmetTcp => vec![Owner::NvmetTcp],
            Location::Nic => nics.iter().cloned().map(Owner::Nic).collect(),
            Location::NicIrq => nics.iter().flat_map(|nic| interrupts(sys, nic)).collect(),
            Location::Link => functions.iter().copied().map(Owner::Link).collect(),
            Location::Controller | Location::Process => Vec::new(),
        };
        Ok(owners.into_iter().map(|owner| Attribute { setting, owner }).collect())
    }

    /// The device that the file belongs to; `None` for a file of the CPUs.
    pub(super) fn device(&self) -> Option<&str> {
        match &self.owner {
            Owner::Device(device) => Some(device),
            _ => None,
        }
    }

    /// The network card that it belongs to.
    pub(super) fn nic(&self) -> Option<&str> {
        match &self.owner {
            Owner::Nic(nic) | Owner::NicIrq { nic, .. } => Some(nic),
            _ => None,
        }
    }

    /// The PCI function whose link it belongs to.
    pub(super) fn link(&self) -> Option<PciAddress> {
        match self.owner {
            Owner::Link(address) => Some(address),
            _ => None,
        }
    }

    /// The lock under which it is changed.
    pub(super) fn lock_name(&self) -> String {
        match &self.owner {
            Owner::Link(address) => Binding(*address).lock_name(),
            Owner::Device(device) => device.clone(),
            Owner::Nic(nic) | Owner::NicIrq { nic, .. } => format!("net:{nic}"),
            _ => CPU_LOCK.to_owned(),
        }
    }

    /// The number of the core that the file takes offline.
    pub(super) fn core(&self) -> Option<u32> {
        match self.owner {
            Owner::Core(core) => Some(core),
            _ => None,
        }
    }

    /// The index of the idle state that the file belongs to.
    pub(super) fn idle_state(&self) -> Option<u32> {
        match self.owner {
            Owner::IdleState { state, .. } => Some(state),
            _ => None,
        }
    }

    /// The files beside this one that the kernel resets when this one is written.
    pub(super) fn resets(&self) -> impl Iterator<Item = Attribute> + '_ {
        allowed::reset_by(self.setting)
            .iter()
            .map(|&setting| Attribute { setting, owner: self.owner.clone() })
    }

    /// The file below `sys`.
    pub(super) fn file(&self, sys: &Path) -> PathBuf {
        match self.owner {
            // Beside sysfs.
            Owner::NetCore => sys.with_file_name(self.to_string()),
            Owner::NicIrq { irq, .. } => interrupt_folder(sys, irq).join(allowed::file_name(self.setting)),
            _ => sys.join(self.to_string()),
        }
    }

    /// The current value; of a list of choices, the one in brackets.
    pub(super) fn read(&self, sys: &Path) -> io::Result<String> {
        match &self.owner {
            Owner::Nic(nic) if allowed::is_by_ioctl(self.setting) => ethtool::read(nic, self.setting),
            // Its number may be another device's by now.
            Owner::NicIrq { nic, .. } if !interrupts(sys, nic).contains(&self.owner) => {
                Err(io::ErrorKind::NotFound.into())
            }
            _ => sysfs::read(&self.file(sys)).map(|text| chosen(&text).to_owned()),
        }
    }

    pub(super) fn write(&self, sys: &Path, value: &str) -> io::Result<()> {
        match &self.owner {
            Owner::Nic(nic) if allowed::is_by_ioctl(self.setting) => ethtool::write(nic, self.setting, value),
            _ => sysfs::write(&self.file(sys), value),
        }
    }
}

/// The cores that can go offline: on most machines all but the first.
fn cores(sys: &Path) -> io::Result<Vec<Owner>> {
    let all = numbered(&sys.join(CPU), "cpu")?.into_iter();
    Ok(all.filter(|(_, folder)| folder.join("online").exists()).map(|(core, _)| Owner::Core(core)).collect())
}

/// The interrupts of a network card, which are those of the first device at or above it that has any
/// (Documentation/ABI/testing/sysfs-bus-pci: `msi_irqs`, `irq`), as far as something handles them.
fn interrupts(sys: &Path, nic: &str) -> Vec<Owner> {
    let place = fs::canonicalize(sys.join(NET).join(nic).join("device")).unwrap_or_default();
    let of_device = |folder: &Path| -> Vec<u32> {
        let signalled = numbered(&folder.join("msi_irqs"), "").unwrap_or_default();
        let line = || sysfs::read(&folder.join("irq")).ok()?.parse().ok().filter(|irq| *irq > 0);
        if signalled.is_empty() { line().into_iter().collect() } else { signalled.into_keys().collect() }
    };
    let first = place.ancestors().map(of_device).find(|irqs| !irqs.is_empty()).unwrap_or_default();
    let handled = first.into_iter().filter(|irq| interrupt_folder(sys, *irq).exists());
    handled.map(|irq| Owner::NicIrq { nic: nic.to_owned(), irq }).collect()
}

/// The folder of an interrupt, beside sysfs.
fn interrupt_folder(sys: &Path, irq: u32) -> PathBuf {
    sys.with_file_name("proc/irq").join(irq.to_string())
}

fn idle_states(sys: &Path) -> io::Result<Vec<Owner>> {
    let mut states = Vec::new();
    for (cpu, folder) in numbered(&sys.join(CPU), "cpu")? {
        let indices = numbered(&folder.join("cpuidle"), "state")?.into_keys();
        states.extend(indices.map(|state| Owner::IdleState { cpu, state }));
    }
    Ok(states)
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = allowed::file_name(self.setting);
        match &self.owner {
            Owner::Device(device) => write!(f, "block/{device}/queue/{file}"),
            Owner::Policy(policy) => write!(f, "{CPU}/cpufreq/policy{policy}/{file}"),
            Owner::IdleState { cpu, state } => write!(f, "{CPU}/cpu{cpu}/cpuidle/state{state}/{file}"),
            Owner::Cpu => write!(f, "{CPU}/{file}"),
            Owner::Core(core) => write!(f, "{CPU}/cpu{core}/{file}"),
            Owner::NetCore => write!(f, "{NET_CORE}/{file}"),
            Owner::NvmetTcp => write!(f, "{NVMET_TCP}/{file}"),
            Owner::Nic(nic) => write!(f, "{NET}/{nic}/{file}"),
            Owner::NicIrq { nic, irq } => write!(f, "{NET}/{nic}/irq/{irq}/{file}"),
            Owner::Link(address) => write!(f, "{PCI}/{address}/link/{file}"),
        }
    }
}

impl FromStr for Attribute {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Attribute, NotAllowed> {
        let (location, owner, file) = match text.split('/').collect::<Vec<_>>()[..] {
            ["block", device, "queue", file] if is_device_name(device) => {
                (Location::Queue, Owner::Device(device.to_owned()), file)
            }
            ["devices", "system", "cpu", "cpufreq", policy, file] => {
                (Location::Policy, Owner::Policy(number(policy, "policy").ok_or(NotAllowed)?), file)
            }
            ["devices", "system", "cpu", cpu, "cpuidle", state, file] => {
                let (cpu, state) = number(cpu, "cpu").zip(number(state, "state")).ok_or(NotAllowed)?;
                (Location::IdleState, Owner::IdleState { cpu, state }, file)
            }
            ["devices", "system", "cpu", core, file @ "online"] => {
                (Location::Core, Owner::Core(number(core, "cpu").ok_or(NotAllowed)?), file)
            }
            ["proc", "sys", "net", "core", file] => (Location::NetCore, Owner::NetCore, file),
            ["module", "nvmet_tcp", "parameters", file] => (Location::NvmetTcp, Owner::NvmetTcp, file),
            ["class", "net", nic, file] if is_interface_name(nic) => {
                (Location::Nic, Owner::Nic(nic.to_owned()), file)
            }
            ["class", "net", nic, "irq", irq, file] if is_interface_name(nic) => {
                let irq = number(irq, "").ok_or(NotAllowed)?;
                (Location::NicIrq, Owner::NicIrq { nic: nic.to_owned(), irq }, file)
            }
            ["bus", "pci", "devices", address, "link", file] => {
                (Location::Link, Owner::Link(address.parse().map_err(|_| NotAllowed)?), file)
            }
            ["devices", "system", "cpu", _, _] => (Location::Cpu, Owner::Cpu, &text[CPU.len() + 1..]),
            _ => return Err(NotAllowed),
        };
        let setting = Setting::all()
            .into_iter()
            .find(|setting| allowed::location(*setting) == location && allowed::file_name(*setting) == file)
            .ok_or(NotAllowed)?;
        let attribute = Attribute { setting, owner };
        // `policy007` names a file in a form that nothing here writes.
        if attribute.to_string() == text { Ok(attribute) } else { Err(NotAllowed) }
    }
}
