//! An export: a drive of this host as a namespace of the kernel's NVMe target, by configfs
//! (drivers/nvme/target/configfs.c), for one host alone.

use crate::settings::change::Settings;
use crate::settings::error::SettingsError;
use crate::settings::fabric_item::{ABSENT, FabricItem};
use crate::settings::fabric_removal::NAMESPACE;
use crate::settings::host::Host;
use crate::settings::item::Item;
use crate::settings::nvme_name::Uuid;
use crate::sysfs;
use iopj_core::Transport;
use rustix::io::Errno;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Numbers of ports: `u16`, of which people use the low ones.
const PORT_NUMBERS: std::ops::Range<u16> = 40_000..60_000;

/// What is to be exported, to whom and how.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Export {
    /// The id of the subsystem, of which its qualified name is made: new for each study.
    pub subsystem: Uuid,
    /// The id of the only host that may connect, of which its qualified name is made.
    pub host: Uuid,
    /// The block device or regular file behind the namespace, by its full path.
    pub device: PathBuf,
    /// `loop`, `tcp` or `rdma`.
    pub transport: Transport,
    /// Where the target listens; unused by `loop`.
    pub address: Option<IpAddr>,
    /// The port that the target listens on; unused by `loop`.
    pub port: u16,
    /// The secret of DH-HMAC-CHAP, if both kernels have it. It is in no output and in no journal.
    #[serde(default)]
    pub secret: Option<String>,
}

/// An export that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Exported {
    /// The number of nvmet's port.
    pub port_number: u16,
    /// Whether a host must prove its identity (DH-HMAC-CHAP).
    pub authenticates: bool,
}

impl Host {
    /// Whether this kernel's target can authenticate hosts (Linux 6.0, CONFIG_NVME_TARGET_AUTH). Only a host
    /// entry shows it, so a module's symbol is looked for.
    pub fn target_authenticates(&self) -> bool {
        let symbols = self.proc.join("kallsyms");
        fs::read_to_string(symbols).is_ok_and(|text| text.contains(" nvmet_auth_set_key"))
    }
}

impl Settings {
    /// Exports a drive: a subsystem with one namespace, one allowed host, one port. Each entry is journalled
    /// before it is made.
    ///
    /// # Errors
    /// [`SettingsError::NotExported`] with the cause and the remedy; what was made before it stays until
    /// [`Settings::unexport`] or [`Settings::restore`]. [`SettingsError::NeedsRoot`].
    pub fn export(&mut self, export: &Export) -> Result<Exported, SettingsError> {
        if !self.locks.is_effective() {
            return Err(SettingsError::NeedsRoot("exporting a drive by the kernel's NVMe target".to_owned()));
        }
        let nvmet = self.host.nvmet();
        if !nvmet.join("subsystems").is_dir() {
            return Err(not_exported(no_target(&self.host)));
        }
        // Removed newest first: a host that a subsystem still names cannot go.
        let host = self.make_host(&nvmet, export)?;
        let subsystem = self.make_subsystem(&nvmet, export)?;
        let allowed = subsystem.join("allowed_hosts").join(export.host.nqn());
        symlink(&host, &allowed).map_err(|error| failed("allow the host at", &allowed, &error))?;
        let number = self.make_port(&nvmet, export)?;
        let port = nvmet.join("ports").join(number.to_string());
        // The link is what makes the target listen.
        symlink(&subsystem, port.join("subsystems").join(export.subsystem.nqn()))
            .map_err(|error| not_exported(not_listening(export, &error)))?;
        // Read back: a host that has a key must prove itself (drivers/nvme/target/auth.c).
        let key = sysfs::read(&host.join("dhchap_key")).unwrap_or_default();
        Ok(Exported { port_number: number, authenticates: !key.is_empty() })
    }

    /// Takes an export away again. Hosts that are connected lose their controllers.
    ///
    /// # Errors
    /// [`SettingsError::NotRestored`]: the kernel keeps an entry; the journal is kept too.
    pub fn unexport(&mut self, export: &Export) -> Result<(), SettingsError> {
        self.remove_items(|item| match item {
            FabricItem::Subsystem(id) | FabricItem::Port(_, id) => *id == export.subsystem,
            FabricItem::Host(id) => *id == export.host,
            FabricItem::Controllers(..) => false,
        })
    }

    fn make_subsystem(&mut self, nvmet: &Path, export: &Export) -> Result<PathBuf, SettingsError> {
        let folder = nvmet.join("subsystems").join(export.subsystem.nqn());
        self.journal_item(FabricItem::Subsystem(export.subsystem.clone()))?;
        make(&folder)?;
        let allow_any = folder.join("attr_allow_any_host");
        if sysfs::read(&allow_any).map_err(|error| failed("read", &allow_any, &error))? != "0" {
            put(&allow_any, "0")?;
        }
        let namespace = folder.join(NAMESPACE);
        make(&namespace)?;
        put(&namespace.join("device_path"), &export.device.to_string_lossy())?;
        sysfs::write(&namespace.join("enable"), "1").map_err(|error| {
            not_exported(format!(
                "the target cannot open {} ({error}): check that nothing has it open exclusively (a mount, a \
                 volume group, swap) and that it is a block device or a regular file",
                export.device.display()
            ))
        })?;
        Ok(folder)
    }

    fn make_host(&mut self, nvmet: &Path, export: &Export) -> Result<PathBuf, SettingsError> {
        let folder = nvmet.join("hosts").join(export.host.nqn());
        self.journal_item(FabricItem::Host(export.host.clone()))?;
        make(&folder)?;
        if let Some(secret) = &export.secret {
            // The message names the file, never the secret.
            let key = folder.join("dhchap_key");
            sysfs::write(&key, secret).map_err(|error| failed("write the secret to", &key, &error))?;
        }
        Ok(folder)
    }

    fn make_port(&mut self, nvmet: &Path, export: &Export) -> Result<u16, SettingsError> {
        let ports = nvmet.join("ports");
        let free = PORT_NUMBERS.clone().find(|number| !ports.join(number.to_string()).exists());
        let number = free.ok_or_else(|| not_exported("every number of a port is in use".to_owned()))?;
        let folder = ports.join(number.to_string());
        self.journal_item(FabricItem::Port(number, export.subsystem.clone()))?;
        make(&folder)?;
        put(&folder.join("addr_trtype"), export.transport.as_str())?;
        if let (true, Some(address)) = (export.transport.is_remote(), export.address) {
            put(&folder.join("addr_adrfam"), if address.is_ipv4() { "ipv4" } else { "ipv6" })?;
            put(&folder.join("addr_traddr"), &address.to_string())?;
            put(&folder.join("addr_trsvcid"), &export.port.to_string())?;
        }
        Ok(number)
    }

    /// Journals an entry that is about to be made.
    pub(super) fn journal_item(&mut self, item: FabricItem) -> Result<(), SettingsError> {
        self.journal(Item::Fabric(item), ABSENT.to_owned(), "present".to_owned())
    }
}

/// Why there is no target, and what to do.
fn no_target(host: &Host) -> String {
    let config = host.sys.join("kernel/config");
    let is_mounted = fs::read_dir(&config).is_ok_and(|mut entries| entries.next().is_some());
    match (host.sys.join("module/nvmet").exists(), is_mounted) {
        (true, false) => format!(
            "configfs is not mounted at {}: `mount -t configfs none {}`",
            config.display(),
            config.display()
        ),
        _ => "the kernel's NVMe target is not loaded: `modprobe nvmet` (Debian and others ship it with the \
              kernel; CONFIG_NVME_TARGET)"
            .to_owned(),
    }
}

/// Why the target does not listen.
fn not_listening(export: &Export, error: &io::Error) -> String {
    let transport = export.transport;
    let place =
        export.address.map_or_else(String::new, |address| format!(" at {address} port {}", export.port));
    let advice = match Errno::from_io_error(error) {
        Some(Errno::ADDRINUSE) => "something else listens there, so name another `port`".to_owned(),
        Some(Errno::ADDRNOTAVAIL) => {
            "the target host does not have the address, so name one that it has".to_owned()
        }
        Some(Errno::NODEV) => format!("no {transport} device has the address"),
        _ if transport == Transport::Rdma => {
            "check that `modprobe nvmet-rdma` works and that an RDMA device has the address (`rdma link`)"
                .to_owned()
        }
        _ => {
            let module = if transport == Transport::Loop {
                "nvme-loop".to_owned()
            } else {
                format!("nvmet-{transport}")
            };
            format!("check that `modprobe {module}` works")
        }
    };
    format!("the target cannot listen by {transport}{place} ({error}): {advice}")
}

fn not_exported(reason: String) -> SettingsError {
    SettingsError::NotExported { reason }
}

fn failed(action: &str, file: &Path, error: &io::Error) -> SettingsError {
    not_exported(format!("cannot {action} {} ({error})", file.display()))
}

fn make(folder: &Path) -> Result<(), SettingsError> {
    fs::create_dir(folder).map_err(|error| failed("make", folder, &error))
}

fn put(file: &Path, value: &str) -> Result<(), SettingsError> {
    sysfs::write(file, value)
        .map_err(|error| not_exported(format!("{} does not take `{value}` ({error})", file.display())))
}

#[cfg(test)]
mod tests;
