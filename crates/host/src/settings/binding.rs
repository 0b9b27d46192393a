//! The driver of one PCI device: to vfio-pci and back, by the files that may be written for it.
//!
//! Sources: Documentation/ABI/testing/{sysfs-bus-pci,sysfs-driver-pci}, Documentation/driver-api/vfio.rst.
//! When it is done, and that it is journalled before, is left to `taking` and `restore`.

use super::allowed::{NotAllowed, is_driver_name};
use super::controller;
use super::host::Host;
use crate::sysfs::{self, names_in};
use iopj_engine::PciAddress;
use rustix::io::Errno;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// The driver that gives a device to user space.
pub(super) const VFIO: &str = "vfio-pci";
/// In place of a driver's name if there is none.
pub(super) const NONE: &str = "none";
/// The kernel's driver of NVMe.
const NVME: &str = "nvme";
/// How long a live controller's disks may take.
const MOMENTS: Duration = Duration::from_secs(1);

/// The binding of one device. Its text form is the driver's link, `bus/pci/devices/ADDRESS/driver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Binding(pub(super) PciAddress);

/// The files that are written for a binding; a driver's name is checked before it becomes part of a path.
#[derive(Clone, Copy, Debug)]
enum Control<'a> {
    /// Which driver alone may take the device; a line break for any.
    Override,
    /// The driver lets go.
    Unbind(&'a str),
    /// The driver takes it.
    Bind(&'a str),
    /// The drivers are asked which of them takes it.
    Probe,
}

/// The result of giving a device back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GivenBack {
    /// The old driver had it already.
    Already,
    /// It came from this driver.
    From(String),
    /// Somebody bound it to this one meanwhile, and it was left alone.
    Foreign(String),
}

impl Binding {
    /// The lock that keeps two runs from one device.
    pub(super) fn lock_name(self) -> String {
        format!("pci:{}", self.0)
    }

    /// The driver's name, or `none`.
    ///
    /// # Errors
    /// `NotFound` where the device is gone; a name that this could not write again.
    pub(super) fn read(self, sys: &Path) -> io::Result<String> {
        let folder = self.folder(sys);
        let driver = match fs::read_link(folder.join("driver")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                folder.metadata()?;
                return Ok(NONE.to_owned());
            }
            link => link?,
        };
        let name = driver.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !is_driver_name(name) {
            return Err(io::Error::other(format!("its driver's name is `{}`", name.escape_default())));
        }
        Ok(name.to_owned())
    }

    /// Moves the device from its driver `from` to vfio-pci. After an error it is wherever that left it.
    pub(super) fn take(self, host: &Host, from: &str) -> io::Result<()> {
        self.write(&host.sys, Control::Override, VFIO)?;
        self.unbind(host, from)?;
        self.write(&host.sys, Control::Probe, &self.0.to_string())?;
        self.wait_for(host, VFIO)
    }

    /// Moves the device back to the driver `old`. If another driver than vfio-pci or `old` has it, it is left
    /// alone: whoever bound it may be using it. The device must not be open through VFIO, or the kernel would
    /// wait without limit for it to be closed: a living process that has it open is an error.
    pub(super) fn give_back(self, host: &Host, old: &str) -> io::Result<GivenBack> {
        let sys = &host.sys;
        let now = self.read(sys)?;
        if now == old && !self.is_pinned(sys) {
            return Ok(GivenBack::Already);
        }
        if ![old, VFIO, NONE].contains(&now.as_str()) {
            return Ok(GivenBack::Foreign(now));
        }
        if now == VFIO {
            self.require_closed(host)?;
        }
        self.write(sys, Control::Override, "\n")?;
        if now == old {
            return Ok(GivenBack::Already);
        }
        self.unbind(host, &now)?;
        self.bind(host, old)?;
        Ok(GivenBack::From(now))
    }

    /// How long the disks of a device may take that this driver has already: a controller that is live shows
    /// them within moments, or never; one that is not there yet is on its way, if it is to be one of NVMe.
    pub(super) fn coming_limit(self, host: &Host, driver: &str) -> Duration {
        let folder = controller::folder(&host.sys, self.0);
        let state = folder.and_then(|folder| sysfs::read(&folder.join("state")));
        let is_coming = state.map_or(driver == NVME, |state| state != "live");
        if is_coming { host.disks_limit } else { host.disks_limit.min(MOMENTS) }
    }

    fn unbind(self, host: &Host, driver: &str) -> io::Result<()> {
        if driver == NONE {
            return Ok(());
        }
        self.write(&host.sys, Control::Unbind(driver), &self.0.to_string())?;
        self.wait_for(host, NONE)
    }

    /// Binds it to one driver and no other: the bus would choose by what was loaded meanwhile.
    fn bind(self, host: &Host, driver: &str) -> io::Result<()> {
        if driver == NONE {
            return Ok(());
        }
        let address = self.0.to_string();
        if self.write(&host.sys, Control::Bind(driver), &address).is_err() {
            self.write(&host.sys, Control::Probe, &address)?;
        }
        self.wait_for(host, driver)
    }

    fn wait_for(self, host: &Host, driver: &str) -> io::Result<()> {
        if wait_until(host.driver_limit, || self.read(&host.sys).is_ok_and(|now| now == driver)) {
            return Ok(());
        }
        let now = self.read(&host.sys)?;
        let limit = host.driver_limit.as_secs();
        Err(io::Error::other(format!(
            "after {limit} s its driver is `{now}`, not `{driver}`; `dmesg` says why"
        )))
    }

    /// True if only one driver may take it.
    fn is_pinned(self, sys: &Path) -> bool {
        let text = sysfs::read(&self.control(sys, Control::Override)).unwrap_or_default();
        !matches!(text.as_str(), "" | "(null)")
    }

    fn folder(self, sys: &Path) -> PathBuf {
        sys.join("bus/pci/devices").join(self.0.to_string())
    }

    fn control(self, sys: &Path, control: Control<'_>) -> PathBuf {
        let drivers = sys.join("bus/pci/drivers");
        match control {
            Control::Override => self.folder(sys).join("driver_override"),
            Control::Unbind(driver) => drivers.join(driver).join("unbind"),
            Control::Bind(driver) => drivers.join(driver).join("bind"),
            Control::Probe => sys.join("bus/pci/drivers_probe"),
        }
    }

    fn write(self, sys: &Path, control: Control<'_>, text: &str) -> io::Result<()> {
        let file = self.control(sys, control);
        let named = |error: io::Error| {
            let text = text.escape_default();
            io::Error::other(format!("writing `{text}` to {} failed: {error}", file.display()))
        };
        sysfs::write(&file, text).map_err(named)
    }

    /// Refuses a device that a living process has open through VFIO.
    fn require_closed(self, host: &Host) -> io::Result<()> {
        let Some(pid) = self.holder(host) else { return Ok(()) };
        let who = match pid == std::process::id() {
            true => "this process".to_owned(),
            false => format!("the process with id {pid}"),
        };
        Err(io::Error::other(format!("{who} has it open through VFIO: end that, then `iopj restore`")))
    }

    /// The process that has the device open: by its group's node, by its own (iommufd), or by what that node
    /// gave (from Linux 6.17 on a descriptor names its device, Documentation/filesystems/proc.rst).
    fn holder(self, host: &Host) -> Option<u32> {
        let folder = self.folder(&host.sys);
        let vfio = host.dev.join("vfio");
        let mut nodes = Vec::new();
        if let Some(group) =
            fs::read_link(folder.join("iommu_group")).ok().as_deref().and_then(Path::file_name)
        {
            nodes.push(vfio.join(group));
            nodes.push(vfio.join(format!("noiommu-{}", group.to_string_lossy())));
        }
        nodes.extend(names_in(&folder.join("vfio-dev")).map(|name| vfio.join("devices").join(name)));
        let end = format!("/{}", self.0);
        let is_own =
            |process: &Path, descriptor: &str| match fs::read_link(process.join("fd").join(descriptor)) {
                Ok(link) if link.to_str() == Some("anon_inode:[vfio-device]") => {
                    let info =
                        fs::read_to_string(process.join("fdinfo").join(descriptor)).unwrap_or_default();
                    info.lines().any(|line| line.starts_with("vfio-device-syspath:") && line.ends_with(&end))
                }
                Ok(link) => nodes.contains(&link),
                Err(_) => false,
            };
        let pids = names_in(&host.proc).filter_map(|name| name.parse::<u32>().ok());
        let mut holders = pids.filter(|pid| {
            let process = host.proc.join(pid.to_string());
            names_in(&process.join("fd")).any(|descriptor| is_own(&process, &descriptor))
        });
        holders.next()
    }
}

/// Waits until these block devices are there; returns the ones that did not come in time.
pub(super) fn wait_for_disks<'a>(host: &Host, names: &'a [String], limit: Duration) -> Vec<&'a str> {
    wait_until(limit, || absent(host, names).is_empty());
    absent(host, names)
}

/// The block devices among these that are not there.
pub(super) fn absent<'a>(host: &Host, names: &'a [String]) -> Vec<&'a str> {
    names.iter().map(String::as_str).filter(|name| !is_there(host, name)).collect()
}

/// True if a block device can be used. Its folder in sysfs and its node come first, then its queue's files,
/// then the link `bdi`, and only then can it be opened (`device_add_disk` in block/genhd.c, Linux 6.1 to
/// 6.18).
fn is_there(host: &Host, name: &str) -> bool {
    match File::open(host.dev.join(name)).map_err(|error| Errno::from_io_error(&error)) {
        Ok(_) => true,
        Err(Some(Errno::NXIO | Errno::NODEV)) => false,
        // A container may have no node of it, and a user may not be allowed to open it.
        Err(_) => host.sys.join("block").join(name).join("bdi").exists(),
    }
}

/// That block devices did not come back, and why that matters.
pub(super) fn missing_disks(host: &Host, missing: &[&str]) -> String {
    format!(
        "its driver has it again, but {} did not come back within {} s; `dmesg` says why; while a program \
         has the drive open, it comes back under another name",
        missing.join(", "),
        host.disks_limit.as_secs()
    )
}

fn wait_until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > limit {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bus/pci/devices/{}/driver", self.0)
    }
}

impl FromStr for Binding {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Binding, NotAllowed> {
        let address = text.strip_prefix("bus/pci/devices/").and_then(|rest| rest.strip_suffix("/driver"));
        address.and_then(|address| address.parse().ok()).map(Binding).ok_or(NotAllowed)
    }
}
