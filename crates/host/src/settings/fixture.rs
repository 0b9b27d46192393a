//! A small host in a temporary folder, for tests.

use super::{Host, Settings, SettingsError};
use crate::nvme_features::FeatureAccess;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) struct Fixture {
    root: tempfile::TempDir,
    /// How long a driver and its disks are waited for, where it is not as long as usual.
    pub(crate) limit: Option<Duration>,
}

pub(crate) const CPU: &str = "sys/devices/system/cpu";
pub(crate) const BOOT_ID: &str = "1f0c9b52-7f5b-4a52-8f0b-2f6d3c1d9a10";

impl Fixture {
    /// A host that shows its boot and nothing else.
    pub(crate) fn empty() -> Fixture {
        // Where every user can reach it: one test does not stay root.
        let fixture = Fixture { root: tempfile::tempdir_in("/var/tmp").unwrap(), limit: None };
        fixture.write("proc/sys/kernel/random/boot_id", BOOT_ID);
        fixture
    }

    /// Two drives, two CPUs with three idle states, acpi-cpufreq, SMT.
    pub(crate) fn new() -> Fixture {
        let fixture = Fixture::empty();
        for device in ["sda", "sdb"] {
            fixture.write(&format!("sys/block/{device}/device/serial"), &format!("S-{device}"));
            for (attribute, value) in [
                ("io_poll_delay", "-1"),
                ("scheduler", "mq-deadline"),
                ("nomerges", "0"),
                ("nr_requests", "64"),
                ("read_ahead_kb", "128"),
            ] {
                fixture.write(&format!("sys/block/{device}/queue/{attribute}"), value);
            }
        }
        for cpu in 0..2 {
            fixture.write(&format!("{CPU}/cpufreq/policy{cpu}/scaling_governor"), "schedutil");
            fixture
                .write(&format!("{CPU}/cpufreq/policy{cpu}/energy_performance_preference"), "balance_power");
            for (state, name) in ["POLL", "C1", "C2"].iter().enumerate() {
                fixture.write(&format!("{CPU}/cpu{cpu}/cpuidle/state{state}/disable"), "0");
                fixture.write(&format!("{CPU}/cpu{cpu}/cpuidle/state{state}/name"), name);
            }
        }
        fixture.write(&format!("{CPU}/cpufreq/boost"), "1");
        fixture.write(&format!("{CPU}/smt/control"), "on");
        fixture
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn host(&self) -> Host {
        host_at(self.root()).with(|host| {
            host.driver_limit = self.limit.unwrap_or(host.driver_limit);
            host.disks_limit = self.limit.unwrap_or(host.disks_limit);
        })
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root().join(file)
    }

    pub(crate) fn write(&self, file: &str, value: &str) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        fs::write(self.path(file), format!("{value}\n")).unwrap();
    }

    /// Makes `file` a symbolic link to the folder or file `target`.
    pub(crate) fn link(&self, file: &str, target: &str) {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(self.path(target), self.path(file)).unwrap();
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap().trim().to_owned()
    }

    /// The value of an attribute of `sda`'s queue.
    pub(crate) fn sda(&self, attribute: &str) -> String {
        self.read(&format!("sys/block/sda/queue/{attribute}"))
    }

    /// The journals, as text, in the order of their names.
    pub(crate) fn journals(&self) -> Vec<String> {
        let mut paths: Vec<PathBuf> = fs::read_dir(self.path("run/iopj"))
            .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
            .unwrap_or_default();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        paths.sort();
        paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect()
    }

    /// Runs `work` with the settings of the drives that it locks.
    pub(crate) fn with_settings<T>(&self, devices: &[&str], work: impl FnOnce(&mut Settings) -> T) -> T {
        let host = self.host();
        let devices = names(devices);
        let locks = host.lock(&devices).unwrap();
        work(&mut host.settings(&devices, &locks))
    }
}

/// Demands that this was refused, with all of these words.
#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(result: Result<T, SettingsError>, words: &[&str]) {
    let message = result.unwrap_err().to_string();
    assert!(words.iter().all(|words| message.contains(words)), "{message}");
}

pub(crate) fn names(devices: &[&str]) -> Vec<String> {
    devices.iter().map(|&device| device.to_owned()).collect()
}

/// A host of the fixture's kind below a root.
pub(crate) fn host_at(root: &Path) -> Host {
    let features = FeatureAccess { get: get_feature, set: set_feature, wake };
    Host::with_root(root).with(|host| host.features = features)
}

/// A controller of the fixture is a folder with a file a feature, which holds a number. One with the file
/// `failing` answers none.
fn get_feature(controller: &Path, feature: u8) -> io::Result<u32> {
    if controller.join("failing").exists() {
        return Err(io::Error::other("NVMe status 0x6"));
    }
    let text = fs::read_to_string(controller.join(format!("{feature:02x}")))?;
    text.trim().parse().map_err(io::Error::other)
}

/// One whose file `fixed` is there takes no other values.
fn set_feature(controller: &Path, feature: u8, value: u32) -> io::Result<()> {
    if controller.join("fixed").exists() {
        return Err(io::Error::other("NVMe status 0x10e"));
    }
    // As a whole or not at all, as a command is.
    fs::write(controller.join("new"), value.to_string())?;
    fs::rename(controller.join("new"), controller.join(format!("{feature:02x}")))
}

/// One that rests has the power state in which it works in its file `working`.
fn wake(namespace: &Path) -> io::Result<()> {
    if !namespace.ends_with("nvme0n1") {
        return Err(io::ErrorKind::NotFound.into());
    }
    let controller = namespace.with_file_name("nvme0");
    match fs::read(controller.join("working")) {
        Ok(state) => fs::write(controller.join("02"), state),
        Err(_) => Ok(()),
    }
}
