//! Where a policy's figures were measured, and how that differs from here.

use iopj_engine::Target;
use serde::{Deserialize, Serialize};
use std::fs;

/// The machine, kernel and drive of a policy's figures. What is absent was not known, and is not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// The store that they came from.
    pub store: Option<String>,
    /// The processor's name, as in `/proc/cpuinfo`.
    pub cpu_model: Option<String>,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel: Option<String>,
    /// The drives' models, as sysfs has them; the name of one without a model.
    pub drive: Option<String>,
}

impl Provenance {
    /// Of this machine, this kernel, and the drives below a target.
    pub fn here(target: &Target) -> Provenance {
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let drives: Vec<String> = target.devices().iter().map(|device| model(device)).collect();
        Provenance {
            store: None,
            cpu_model: cpu_model(&cpu),
            kernel: read("/proc/sys/kernel/osrelease"),
            drive: (!drives.is_empty()).then(|| drives.join(", ")),
        }
    }

    /// A sentence for each thing that both know and that differs; the store's name is no such thing.
    pub fn differences(&self, here: &Provenance) -> Vec<String> {
        let mut differences = Vec::new();
        for ((key, theirs), (_, ours)) in self.fields().into_iter().zip(here.fields()) {
            if let (Some(theirs), Some(ours)) = (theirs, ours)
                && key != "store"
                && theirs != ours
            {
                differences.push(format!("its {key} is `{theirs}`, here it is `{ours}`"));
            }
        }
        differences
    }

    /// Every field by its key.
    pub(crate) fn fields(&self) -> [(&'static str, Option<&str>); 4] {
        [
            ("store", self.store.as_deref()),
            ("cpu_model", self.cpu_model.as_deref()),
            ("kernel", self.kernel.as_deref()),
            ("drive", self.drive.as_deref()),
        ]
    }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

fn model(device: &str) -> String {
    read(&format!("/sys/block/{device}/device/model")).unwrap_or_else(|| device.to_owned())
}

/// Arm's `/proc/cpuinfo` has numbers in place of a name.
fn cpu_model(cpu: &str) -> Option<String> {
    let of = |name: &str| {
        let line = cpu.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let arm = || Some(format!("implementer {}, part {}", of("CPU implementer")?, of("CPU part")?));
    of("model name").or_else(arm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_know_is_compared() {
        let some = |text: &str| Some(text.to_owned());
        let here = Provenance { kernel: some("6.18"), drive: some("a"), ..Provenance::default() };
        let other = Provenance { store: some("s"), cpu_model: some("c"), kernel: some("6.1"), drive: None };
        assert_eq!(other.differences(&here), ["its kernel is `6.1`, here it is `6.18`"]);
        assert_eq!(here.differences(&here), [""; 0]);
    }

    #[test]
    fn processors_are_named_by_model_or_by_numbers() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: A B\n").as_deref(), Some("A B"));
        let arm = "CPU implementer\t: 0x41\nCPU part\t: 0xd08\n";
        assert_eq!(cpu_model(arm).as_deref(), Some("implementer 0x41, part 0xd08"));
        assert_eq!(cpu_model(""), None);
    }
}
