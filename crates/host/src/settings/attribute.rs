//! One sysfs file of a setting: its one text form, reading and writing it.

use super::allowed::{self, Location, NotAllowed, is_device_name};
use crate::sysfs::{self, chosen, number, numbered};
use iopj_core::Setting;
use std::fmt;
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
}

const CPU: &str = "devices/system/cpu";

impl Attribute {
    /// The files of `setting` on this host, in ascending order.
    pub(super) fn of(setting: Setting, sys: &Path, devices: &[String]) -> io::Result<Vec<Attribute>> {
        let owners = match allowed::location(setting) {
            Location::Queue => devices.iter().cloned().map(Owner::Device).collect(),
            Location::Policy => {
                numbered(&sys.join(CPU).join("cpufreq"), "policy")?.into_keys().map(Owner::Policy).collect()
            }
            Location::IdleState => idle_states(sys)?,
            Location::Cpu => vec![Owner::Cpu],
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
        sys.join(self.to_string())
    }

    /// The current value; of a list of choices, the one in brackets.
    pub(super) fn read(&self, sys: &Path) -> io::Result<String> {
        sysfs::read(&self.file(sys)).map(|text| chosen(&text).to_owned())
    }

    pub(super) fn write(&self, sys: &Path, value: &str) -> io::Result<()> {
        sysfs::write(&self.file(sys), value)
    }
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
