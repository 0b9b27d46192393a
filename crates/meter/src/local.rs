//! The meters that the machine itself has, and why it lacks the others.

use crate::hwmon::{self, Hwmon};
use crate::meter::{Accuracy, Channel, Distribution, Meter, MeterError, Scope};
use crate::nvme::{self, Nvme};
use crate::rapl::{self, Rapl};
use serde::Serialize;
use std::path::Path;

/// A meter, or a part of one that gives nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LocalMeter {
    /// What [`open_local`] takes: `rapl`, `hwmon:power_meter@ACPI000D:00`, `nvme:nvme0`. A part that gives
    /// nothing has its own name appended: `rapl:intel-rapl-mmio/package-0`.
    pub name: String,
    /// The channels, each with its scope, resolution and accuracy; none if `why_not` says why.
    pub channels: Vec<Channel>,
    /// Why there is no channel: the cause and the remedy.
    pub why_not: Option<String>,
    /// What a study must say to have it; absent if it needs only its name.
    pub needs: Option<String>,
    /// What to know about it, such as what of it is seen here, or that powercap and perf could not be
    /// compared.
    pub notes: Vec<String>,
}

impl LocalMeter {
    fn meter(name: String, meter: &dyn Meter) -> Self {
        Self { name, channels: meter.channels().to_vec(), why_not: None, needs: None, notes: Vec::new() }
    }

    fn absent(name: String, why: String) -> Self {
        Self { name, channels: Vec::new(), why_not: Some(why), needs: None, notes: Vec::new() }
    }

    /// The scopes of its channels, the widest first.
    pub fn scopes(&self) -> Vec<Scope> {
        let has = |scope: &Scope| self.channels.iter().any(|channel| channel.scope == *scope);
        Scope::ALL.into_iter().filter(has).collect()
    }
}

/// A declared accuracy to show: `±0.5 %`, `±0.5 % ±0.1 W`, `u = 0.25 %` for a standard deviation, or
/// `not stated`.
pub fn accuracy_text(accuracy: Option<Accuracy>) -> String {
    let part = |distribution: Distribution, factor: f64, unit: &str| match distribution {
        Distribution::Rectangular(0.0) | Distribution::Normal(0.0) => None,
        Distribution::Rectangular(half) => Some(format!("±{} {unit}", rounded(half * factor))),
        Distribution::Normal(deviation) => Some(format!("u = {} {unit}", rounded(deviation * factor))),
    };
    let Some(Accuracy { gain, offset }) = accuracy else { return "not stated".into() };
    let parts: Vec<String> = [part(gain, 100.0, "%"), part(offset, 1.0, "W")].into_iter().flatten().collect();
    if parts.is_empty() { "exact".into() } else { parts.join(" ") }
}

/// Without the rounding error of a multiplication.
fn rounded(value: f64) -> f64 {
    (value * 1e9).round() / 1e9
}

/// RAPL, hwmon sensors and NVMe drives below `root` (`/`). Each kind has at least one entry. Takes some
/// milliseconds, and changes nothing.
pub fn local_meters(root: &Path) -> Vec<LocalMeter> {
    let mut found = rapl(root);
    let chips = Hwmon::all(root);
    if chips.is_empty() {
        found.push(LocalMeter::absent("hwmon".into(), hwmon::absent(root)));
    }
    found.extend(chips.iter().map(|chip| LocalMeter::meter(format!("hwmon:{}", chip.name()), chip)));
    let controllers = Nvme::controllers(root);
    if controllers.is_empty() {
        found.push(LocalMeter::absent("nvme".into(), nvme::absent(root)));
    }
    found.extend(controllers.into_iter().map(|controller| {
        let name = format!("nvme:{controller}");
        match Nvme::open(root, &controller) {
            Ok(drive) => LocalMeter::meter(name, &drive),
            Err(error) => LocalMeter::absent(name, error.to_string()),
        }
    }));
    found
}

fn rapl(root: &Path) -> Vec<LocalMeter> {
    let (meter, refused) = Rapl::survey(root);
    if meter.is_none() && refused.is_empty() {
        return vec![LocalMeter::absent("rapl".into(), rapl::absent(root))];
    }
    let whole =
        meter.map(|meter| LocalMeter { notes: meter.notes(), ..LocalMeter::meter("rapl".into(), &meter) });
    let parts =
        refused.into_iter().map(|refused| LocalMeter::absent(format!("rapl:{}", refused.name), refused.why));
    whole.into_iter().chain(parts).collect()
}

/// Opens a meter by the name that [`local_meters`] gave it.
///
/// # Errors
/// [`MeterError::Fatal`] with the cause and the remedy.
pub fn open_local(root: &Path, name: &str) -> Result<Box<dyn Meter>, MeterError> {
    match name.split_once(':') {
        None if name == "rapl" => Ok(Box::new(Rapl::open(root)?)),
        Some(("hwmon", chip)) => Ok(Box::new(Hwmon::open(root, chip)?)),
        Some(("nvme", controller)) if !controller.contains('/') => {
            Ok(Box::new(Nvme::open(root, controller)?))
        }
        _ => Err(MeterError::Fatal(format!(
            "`{}` is not a meter of this machine: `iopj meter list` shows those that it has",
            name.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysfs::fixture::Tree;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn server() -> Tree {
        let tree = Tree::new(&[
            ("sys/class/hwmon/hwmon0/name", "ina226"),
            ("sys/class/hwmon/hwmon0/power1_input", "1"),
        ]);
        for (zone, name) in [("intel-rapl:0", "package-0"), ("intel-rapl-mmio:0", "package-0")] {
            tree.write(&format!("sys/class/powercap/{zone}/name"), name);
            tree.write(&format!("sys/class/powercap/{zone}/energy_uj"), "5");
            tree.write(&format!("sys/class/powercap/{zone}/max_energy_range_uj"), "262143328850");
        }
        tree
    }

    #[test]
    fn each_kind_is_found_or_its_absence_explained() {
        let tree = server();
        let found = local_meters(tree.root());
        let names: Vec<(&str, usize, bool)> = found
            .iter()
            .map(|found| (found.name.as_str(), found.channels.len(), found.why_not.is_some()))
            .collect();
        let want = [
            ("rapl", 1, false),
            ("rapl:intel-rapl-mmio/package-0", 0, true),
            ("hwmon:ina226", 1, false),
            ("nvme", 0, true),
        ];
        assert_eq!(names, want);
        assert_eq!(found[0].scopes(), [Scope::Package]);
        for found in found.iter().filter(|found| found.why_not.is_none()) {
            assert_eq!(open_local(tree.root(), &found.name).unwrap().channels(), found.channels);
        }
        for name in ["rapl:x", "hwmon", "nvme:../sda", "nvme:nvme0", "model", ""] {
            assert!(matches!(open_local(tree.root(), name), Err(MeterError::Fatal(_))), "{name}");
        }
    }

    #[test]
    fn this_machine_answers_for_every_kind() {
        let found = local_meters(Path::new("/"));
        for kind in ["rapl", "hwmon", "nvme"] {
            let of_kind: Vec<&LocalMeter> =
                found.iter().filter(|found| found.name.split(':').next() == Some(kind)).collect();
            assert!(!of_kind.is_empty());
            assert!(
                of_kind.iter().all(|found| found.why_not.is_some() == found.channels.is_empty()),
                "{of_kind:?}"
            );
        }
    }

    #[test]
    fn counters_that_root_alone_may_read_say_so() {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os("CI").is_none(), "needs root, to become nobody");
            return eprintln!("skipped: needs root, to become nobody");
        }
        let tree = server();
        for zone in ["intel-rapl:0", "intel-rapl-mmio:0"] {
            let path = tree.path(&format!("sys/class/powercap/{zone}/energy_uj"));
            fs::set_permissions(path, fs::Permissions::from_mode(0o400)).unwrap();
        }
        let root = tree.root().to_owned();
        let nobody = std::thread::spawn(move || {
            // This changes the user of this thread alone, which ends with the test.
            let nobody = rustix::process::Uid::from_raw(65_534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            local_meters(&root)
        });
        let found = nobody.join().unwrap();
        let why = found[0].why_not.as_deref().unwrap();
        assert!(
            why.contains("energy_uj` can only be read by root") && why.contains("CVE-2020-8694"),
            "{why}"
        );
        assert!(why.contains("run as root"), "{why}");
    }

    #[test]
    fn an_accuracy_is_shown_or_said_not_to_be_stated() {
        let text = |gain, offset| accuracy_text(Some(Accuracy { gain, offset }));
        assert_eq!(accuracy_text(None), "not stated");
        assert_eq!(text(Distribution::Rectangular(0.005), Distribution::NONE), "±0.5 %");
        assert_eq!(text(Distribution::Normal(0.0025), Distribution::Rectangular(0.1)), "u = 0.25 % ±0.1 W");
        assert_eq!(text(Distribution::NONE, Distribution::NONE), "exact");
    }
}
