//! RAPL's zones in powercap sysfs: Documentation/power/powercap/powercap.rst,
//! drivers/powercap/intel_rapl_common.c.

use super::RefusedDomain;
use crate::sysfs::{names, number, text, value};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A zone: one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Zone {
    /// Control type: `intel-rapl` (by machine-specific registers, AMD's too), `intel-rapl-mmio`,
    /// `intel-rapl-tpmi`.
    pub(super) control: String,
    /// Names from the outermost zone to this one: `package-0/dram`. Control type and name identify a zone.
    pub(super) name: String,
    /// Its directory now. Directories are numbered in the order of registration, which means nothing.
    pub(super) path: PathBuf,
    /// `max_energy_range_uj`, the greatest value before the counter starts again at 0.
    pub(super) max_uj: u64,
}

impl Zone {
    /// The counter in uJ. The name is read after it: the directory of an unregistered zone may now belong to
    /// another one.
    ///
    /// # Errors
    /// What the system says; `NotFound` if the zone's directory is gone or has another zone's name.
    pub(super) fn energy_uj(&self) -> io::Result<u64> {
        let energy_uj = number(&self.path.join("energy_uj"))?;
        let name = value(&self.path.join("name"))?;
        if self.name.rsplit('/').next() == Some(name.as_str()) {
            Ok(energy_uj)
        } else {
            Err(io::Error::new(
                ErrorKind::NotFound,
                format!("its directory now belongs to `{}`", name.escape_debug()),
            ))
        }
    }

    /// What identifies the zone, for messages.
    pub(super) fn identity(&self) -> String {
        format!("{}/{}", self.control, self.name)
    }
}

/// All zones of RAPL, the preferred control type first, and those that cannot be used, with cause and remedy.
pub(super) fn zones(root: &Path) -> (Vec<Zone>, Vec<RefusedDomain>) {
    let directory = root.join("sys/class/powercap");
    let (mut zones, mut refused) = (Vec::new(), Vec::new());
    for id in names(&directory) {
        let Some((control, _)) = id.split_once(':').filter(|(control, _)| control.starts_with("intel-rapl"))
        else {
            continue;
        };
        match zone(&directory, control, &id) {
            Ok(zone) => zones.push(zone),
            Err(why) => refused.push(RefusedDomain { name: id, why }),
        }
    }
    zones.sort_by(|one, other| (rank(&one.control), &one.name).cmp(&(rank(&other.control), &other.name)));
    (zones, refused)
}

/// Registers come first: they have every domain. Memory-mapped interfaces repeat some of them.
fn rank(control: &str) -> u8 {
    match control {
        "intel-rapl" => 0,
        "intel-rapl-tpmi" => 1,
        _ => 2,
    }
}

fn zone(directory: &Path, control: &str, id: &str) -> Result<Zone, String> {
    // `intel-rapl:0:1` lies within `intel-rapl:0`.
    let ends = id.match_indices(':').map(|(at, _)| at).skip(1).chain([id.len()]);
    let names: Result<Vec<String>, String> = ends
        .map(|end| {
            let path = directory.join(&id[..end]).join("name");
            text(&path).map_err(|error| unreadable(&path, &error))
        })
        .collect();
    let path = directory.join(id);
    let max = path.join("max_energy_range_uj");
    let max_uj = number(&max).map_err(|error| unreadable(&max, &error))?;
    // Sums of values then fit into 64 bits.
    if max_uj == 0 || max_uj > u64::MAX / 4 {
        return Err(format!(
            "`{}` is {max_uj}, which is not the range of a counter: report it to the maker of the kernel",
            max.display()
        ));
    }
    let zone = Zone { control: control.to_owned(), name: names?.join("/"), path, max_uj };
    zone.energy_uj().map_err(|error| unreadable(&zone.path.join("energy_uj"), &error))?;
    Ok(zone)
}

/// Why a file of a zone cannot be read, and what to do.
fn unreadable(path: &Path, error: &io::Error) -> String {
    let path = path.display();
    match error.kind() {
        ErrorKind::PermissionDenied => format!(
            "`{path}` can only be read by root, as fine power readings leak secrets (CVE-2020-8694): run as \
             root, or let root give your group the right to read it"
        ),
        _ => {
            format!("`{path}` cannot be read ({error}): check `dmesg` for messages of the driver intel_rapl")
        }
    }
}
