//! The allow-list as files: which sysfs file belongs to a setting, its one text form, reading and writing it.

use super::files;
use super::location::{self, Location};
use iopj_core::Setting;
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
}

/// A path that is not on the allow-list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotAllowed;

const CPU: &str = "devices/system/cpu";

impl Attribute {
    /// The files of `setting` on this host, in ascending order.
    pub(super) fn of(setting: Setting, sys: &Path, devices: &[String]) -> io::Result<Vec<Attribute>> {
        let owners = match location::location(setting) {
            Location::Queue => devices.iter().cloned().map(Owner::Device).collect(),
            Location::Policy => {
                numbered(&sys.join(CPU).join("cpufreq"), "policy")?.into_iter().map(Owner::Policy).collect()
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
        location::reset_by(self.setting)
            .iter()
            .map(|&setting| Attribute { setting, owner: self.owner.clone() })
    }

    /// The file below `sys`.
    pub(super) fn file(&self, sys: &Path) -> PathBuf {
        sys.join(self.to_string())
    }

    /// The value that stands; of a list of choices, the one in brackets.
    pub(super) fn read(&self, sys: &Path) -> io::Result<String> {
        fs::read_to_string(self.file(sys)).map(|text| chosen(&text).to_owned())
    }

    /// Writes `value`, never through a symbolic link in the file's place and never making a file.
    pub(super) fn write(&self, sys: &Path, value: &str) -> io::Result<()> {
        files::write(&self.file(sys), value)
    }
}

/// The choice that stands in a sysfs list such as `mq-deadline [none]`; text without brackets, trimmed.
pub(crate) fn chosen(text: &str) -> &str {
    text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(text, |(choice, _)| choice).trim()
}

/// True for what the kernel can have named a disk (`disk_name`, at most 31 bytes, `/` shown as `!`).
pub(super) fn is_device_name(text: &str) -> bool {
    (1..32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.!".contains(c))
}

/// True for a value that one write can put back: one word of at most 64 visible ASCII characters.
pub(super) fn is_plain_value(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The numbers N of the entries `prefixN` of a folder, ascending; none where there is no folder.
fn numbered(folder: &Path, prefix: &str) -> io::Result<Vec<u32>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut numbers = Vec::new();
    for entry in entries {
        numbers.extend(entry?.file_name().to_str().and_then(|name| number(name, prefix)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn number(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

fn idle_states(sys: &Path) -> io::Result<Vec<Owner>> {
    let mut states = Vec::new();
    for cpu in numbered(&sys.join(CPU), "cpu")? {
        let folder = sys.join(format!("{CPU}/cpu{cpu}/cpuidle"));
        states.extend(numbered(&folder, "state")?.into_iter().map(|state| Owner::IdleState { cpu, state }));
    }
    Ok(states)
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = location::file_name(self.setting);
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
        let (place, owner, file) = match text.split('/').collect::<Vec<_>>()[..] {
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
            .find(|setting| location::location(*setting) == place && location::file_name(*setting) == file)
            .ok_or(NotAllowed)?;
        let attribute = Attribute { setting, owner };
        // `policy007` names a file in a form that nothing here writes.
        if attribute.to_string() == text { Ok(attribute) } else { Err(NotAllowed) }
    }
}
