//! Taking away what a run made for NVMe over fabrics, whoever made it: for each entry that a journal names.

use super::fabric_item::{FabricItem, nvmet};
use super::host::Host;
use super::nvme_name::Uuid;
use crate::sysfs;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// The only namespace of an exported subsystem.
pub(super) const NAMESPACE: &str = "namespaces/1";
/// How long a controller may take to go.
const LIMIT: Duration = Duration::from_secs(20);
const INTERVAL: Duration = Duration::from_millis(20);

impl Host {
    /// The target's folder in configfs.
    pub(super) fn nvmet(&self) -> PathBuf {
        nvmet(&self.sys)
    }

    /// The controllers of a subsystem that this host has, by the host's id: their names.
    pub(super) fn controllers(&self, host_id: Option<&Uuid>, nqn: &str) -> Vec<String> {
        let class = self.sys.join("class/nvme");
        let is = |name: &String, file: &str, wanted: &str| {
            sysfs::read(&class.join(name).join(file)).is_ok_and(|text| text == wanted)
        };
        let of_host = |name: &String| host_id.is_none_or(|host_id| is(name, "hostid", &host_id.to_string()));
        let mut found: Vec<String> =
            sysfs::names_in(&class).filter(|name| is(name, "subsysnqn", nqn) && of_host(name)).collect();
        found.sort();
        found
    }
}

/// Removes the entry, if it is there: what it was then.
pub(super) fn remove(item: &FabricItem, host: &Host) -> io::Result<Option<String>> {
    let removed = match item {
        FabricItem::Subsystem(id) => remove_subsystem(&host.nvmet(), id),
        FabricItem::Host(id) => remove_host(&host.nvmet(), id),
        FabricItem::Port(number, id) => remove_port(&host.nvmet(), *number, id),
        FabricItem::Controllers(id, nqn) => remove_controllers(host, id, nqn),
    }?;
    Ok(removed.then(|| "present".to_owned()))
}

/// Removes a subsystem: its links from ports, its namespace, its list of hosts, itself.
fn remove_subsystem(nvmet: &Path, id: &Uuid) -> io::Result<bool> {
    let folder = nvmet.join("subsystems").join(id.nqn());
    for port in sysfs::names_in(&nvmet.join("ports")) {
        let link = nvmet.join("ports").join(port).join("subsystems").join(id.nqn());
        absent_is_fine(fs::remove_file(link))?;
    }
    for host in sysfs::names_in(&folder.join("allowed_hosts")) {
        absent_is_fine(fs::remove_file(folder.join("allowed_hosts").join(host)))?;
    }
    let namespace = folder.join(NAMESPACE);
    if namespace.is_dir() {
        absent_is_fine(sysfs::write(&namespace.join("enable"), "0"))?;
        absent_is_fine(fs::remove_dir(&namespace))?;
    }
    absent_is_fine(fs::remove_dir(folder))
}

fn remove_host(nvmet: &Path, id: &Uuid) -> io::Result<bool> {
    absent_is_fine(fs::remove_dir(nvmet.join("hosts").join(id.nqn())))
}

/// Removes a port that serves nothing but the subsystem with this id.
pub(super) fn remove_port(nvmet: &Path, number: u16, id: &Uuid) -> io::Result<bool> {
    let folder = nvmet.join("ports").join(number.to_string());
    if sysfs::names_in(&folder.join("subsystems")).any(|name| name != id.nqn()) {
        return Err(io::Error::other("it serves another subsystem now: remove it by hand if it may go"));
    }
    absent_is_fine(fs::remove_file(folder.join("subsystems").join(id.nqn())))?;
    absent_is_fine(fs::remove_dir(folder))
}

/// True if something was removed.
fn absent_is_fine(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Deletes the controllers that a host's id has for a subsystem, and waits until they are gone.
fn remove_controllers(host: &Host, host_id: &Uuid, nqn: &str) -> io::Result<bool> {
    let found = host.controllers(Some(host_id), nqn);
    let until = Instant::now() + LIMIT;
    for controller in &found {
        let file = host.sys.join("class/nvme").join(controller).join("delete_controller");
        match sysfs::write(&file, "1") {
            Err(error) if file.exists() => return Err(error),
            _ => {}
        }
    }
    while !host.controllers(Some(host_id), nqn).is_empty() {
        if Instant::now() > until {
            return Err(io::Error::other(
                "the kernel keeps the controller: something has its namespace open",
            ));
        }
        thread::sleep(INTERVAL);
    }
    Ok(!found.is_empty())
}
