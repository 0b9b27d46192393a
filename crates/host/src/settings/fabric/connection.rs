//! A connection to a remote namespace, by `/dev/nvme-fabrics` (drivers/nvme/host/fabrics.c): no other program
//! is needed.

use crate::kernel_log::KernelLog;
use crate::settings::change::Settings;
use crate::settings::error::SettingsError;
use crate::settings::fabric_item::FabricItem;
use crate::settings::host::Host;
use crate::settings::nvme_name::Uuid;
use crate::sysfs;
use iopj_core::Transport;
use iopj_engine::target::{nvme_namespace_feature, set_nvme_namespace_feature, visible_namespace};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// How long a namespace may take to appear, and a controller to go.
const LIMIT: Duration = Duration::from_secs(20);
const INTERVAL: Duration = Duration::from_millis(20);
/// The namespace that iopj exports.
const NSID: u32 = 1;
/// Namespace Write Protection Config (84h), and its state Write Protect (NVM Express Base Specification 2.0,
/// 5.27.1.33; drivers/nvme/target/admin-cmd.c).
const WRITE_PROTECTION: u8 = 0x84;
const PROTECTED: u32 = 1;

/// Where to connect, as whom, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// `loop`, `tcp` or `rdma`.
    pub transport: Transport,
    /// The target's address; unused by `loop`.
    pub address: Option<IpAddr>,
    /// The port that the target listens on; unused by `loop`.
    pub port: u16,
    /// The subsystem's qualified name.
    pub nqn: String,
    /// The qualified name by which the target knows this host.
    pub host_nqn: String,
    /// The host's id.
    pub host_id: Uuid,
    /// The secret of DH-HMAC-CHAP. It is in no output and in no journal.
    pub secret: Option<String>,
    /// Further options of the kernel, such as `nr_io_queues`, with their numbers.
    pub options: BTreeMap<String, u64>,
}

impl Connect {
    /// The address, the port and the transport, for messages.
    pub fn place(&self) -> String {
        match self.address {
            Some(address) if self.transport.is_remote() => {
                format!("{address} port {} by {}", self.port, self.transport)
            }
            _ => self.transport.to_string(),
        }
    }
}

/// A connection with its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// The controller, such as `nvme1`.
    pub controller: String,
    /// The namespace's block device, such as `/dev/nvme1n1`.
    pub device: PathBuf,
}

impl Host {
    /// The options that this kernel's host takes at a connection; none before Linux 5.17, which does not say,
    /// or without the module.
    pub fn connect_options(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dev.join("nvme-fabrics")).unwrap_or_default();
        let name = |option: &str| option.trim().split('=').next().unwrap_or_default().to_owned();
        text.split(',').map(name).filter(|name| !name.is_empty()).collect()
    }

    /// The transport that the kernel names for a controller; `None` for another one, such as PCIe's.
    pub fn transport(&self, controller: &str) -> Option<Transport> {
        sysfs::read(&self.sys.join("class/nvme").join(controller).join("transport")).ok()?.parse().ok()
    }

    /// A controller's state, as the kernel names it (`live`, `connecting`, …); `None` if it is gone.
    pub fn controller_state(&self, controller: &str) -> Option<String> {
        sysfs::read(&self.sys.join("class/nvme").join(controller).join("state")).ok()
    }

    /// Sends a command that changes nothing over a controller's connection, and waits until it is done or the
    /// kernel sees that the connection is broken, which its state then says.
    pub fn try_connection(&self, controller: &str) {
        if let Ok(controller) = File::open(self.dev.join(controller)) {
            // A target without this feature answers too.
            let _ = nvme_namespace_feature(&controller, NSID, WRITE_PROTECTION);
        }
    }

    /// Whether this host has a secret for a controller, by which it proves its identity (DH-HMAC-CHAP). The
    /// secret itself goes no further.
    pub fn has_secret(&self, controller: &str) -> bool {
        let file = self.sys.join("class/nvme").join(controller).join("dhchap_secret");
        sysfs::read(&file).is_ok_and(|text| !text.is_empty() && text != "none")
    }
}

impl Settings {
    /// Connects to a subsystem and waits for its first namespace. The connection is journalled before it is
    /// made.
    ///
    /// # Errors
    /// [`SettingsError::NotConnected`] with the cause and the remedy; then nothing is connected.
    /// [`SettingsError::NeedsRoot`].
    pub fn connect(&mut self, connect: &Connect) -> Result<Connected, SettingsError> {
        if !self.locks.is_effective() {
            return Err(SettingsError::NeedsRoot("connecting to a drive over fabrics".to_owned()));
        }
        let there = self.host.controllers(None, &connect.nqn);
        if !there.is_empty() {
            return Err(not_connected(
                connect,
                format!(
                    "this host is connected to it already, by {}: disconnect it (`nvme disconnect -n {}`), \
                     or name another subsystem",
                    there.join(", "),
                    connect.nqn
                ),
            ));
        }
        self.journal_item(FabricItem::Controllers(connect.host_id.clone(), connect.nqn.clone()))?;
        let found = self.host.open_connection(connect).and_then(|controller| {
            let device =
                self.host.wait_for_namespace(&controller).map_err(|reason| not_connected(connect, reason))?;
            Ok(Connected { controller, device })
        });
        if found.is_err() {
            // What cannot be removed stays in the journal.
            let _ = self.disconnect(connect);
        }
        found
    }

    /// Ends a connection.
    ///
    /// # Errors
    /// [`SettingsError::NotRestored`]: the controller does not go; the journal is kept.
    pub fn disconnect(&mut self, connect: &Connect) -> Result<(), SettingsError> {
        self.remove_items(|item| {
            matches!(item, FabricItem::Controllers(id, nqn) if (id, nqn) == (&connect.host_id, &connect.nqn))
        })
    }
}

impl Host {
    /// Protects a namespace against writes, for as long as it is exported, and reads that back: the kernel's
    /// target exports nothing read-only by itself.
    ///
    /// # Errors
    /// [`SettingsError::NotProtected`]: the target refuses, or still lets writes through.
    pub fn write_protect(&self, connected: &Connected) -> Result<(), SettingsError> {
        let not_protected =
            |reason: String| SettingsError::NotProtected { device: connected.device.clone(), reason };
        let controller = File::open(self.dev.join(&connected.controller));
        let state = controller.and_then(|controller| {
            set_nvme_namespace_feature(&controller, NSID, WRITE_PROTECTION, PROTECTED)?;
            nvme_namespace_feature(&controller, NSID, WRITE_PROTECTION)
        });
        match state {
            Ok(PROTECTED) => Ok(()),
            Ok(state) => Err(not_protected(format!("it reads state {state} after {PROTECTED} was set"))),
            Err(error) => Err(not_protected(error.to_string())),
        }
    }

    /// Asks the kernel for a connection: the controller's name.
    fn open_connection(&self, connect: &Connect) -> Result<String, SettingsError> {
        let node = self.dev.join("nvme-fabrics");
        let mut file = OpenOptions::new().read(true).write(true).open(&node).map_err(|error| {
            not_connected(
                connect,
                format!(
                    "{} cannot be opened ({error}): `modprobe nvme-{}`, which comes with the kernel",
                    node.display(),
                    connect.transport
                ),
            )
        })?;
        let mut log = KernelLog::from_now(&self.dev);
        // The kernel takes all of it at once; `write_all` would connect again after a signal.
        file.write(line(connect).as_bytes())
            .map_err(|error| refused(connect, &error, &log.beginning_with("nvme")))?;
        let mut text = [0; 128];
        let read = file.read(&mut text).unwrap_or(0);
        let text = String::from_utf8_lossy(&text[..read]).into_owned();
        let instance =
            text.split(',').find_map(|part| part.trim().strip_prefix("instance=")?.parse::<u32>().ok());
        instance.map(|instance| format!("nvme{instance}")).ok_or_else(|| {
            not_connected(
                connect,
                format!("the kernel answers `{}`, without an instance", text.escape_default()),
            )
        })
    }

    /// The block device of a controller's first namespace, once its node is there.
    fn wait_for_namespace(&self, controller: &str) -> Result<PathBuf, String> {
        let folder = self.sys.join("class/nvme").join(controller);
        let until = Instant::now() + LIMIT;
        loop {
            let mut names: Vec<String> =
                sysfs::names_in(&folder).filter_map(|name| visible_namespace(&name)).collect();
            names.sort();
            let node = names.first().map(|name| self.dev.join(name));
            if let Some(node) = node.filter(|node| node.exists()) {
                return Ok(node);
            }
            if Instant::now() > until {
                let state = self.controller_state(controller).unwrap_or_else(|| "gone".to_owned());
                return Err(format!(
                    "no namespace appeared within {} s (the controller is {state}): check that the \
                     subsystem has one, and look at `dmesg`",
                    LIMIT.as_secs()
                ));
            }
            thread::sleep(INTERVAL);
        }
    }
}

/// The line that the kernel takes.
fn line(connect: &Connect) -> String {
    let Connect { transport, address, port, nqn, host_nqn, host_id, secret, options } = connect;
    let mut line = format!("transport={transport},nqn={nqn},hostnqn={host_nqn},hostid={host_id}");
    if let (true, Some(address)) = (transport.is_remote(), address) {
        line += &format!(",traddr={address},trsvcid={port}");
    }
    if let Some(secret) = secret {
        line += &format!(",dhchap_secret={secret}");
    }
    for (name, value) in options {
        line += &format!(",{name}={value}");
    }
    line
}

/// Why the kernel refuses, and what to do; `said` are its messages.
fn refused(connect: &Connect, error: &io::Error, said: &[String]) -> SettingsError {
    let transport = connect.transport;
    let code = Errno::from_io_error(error);
    let is_away = matches!(
        code,
        Some(
            Errno::CONNREFUSED
                | Errno::CONNRESET
                | Errno::HOSTUNREACH
                | Errno::NETUNREACH
                | Errno::NETDOWN
                | Errno::TIMEDOUT
        )
    );
    let is_secret = said.iter().any(|text| text.contains("authentication"));
    let is_host = said.iter().any(|text| text.contains("is not allowed"));
    let advice = match code {
        _ if is_secret => "the target does not take this host's secret of DH-HMAC-CHAP, or wants one that \
                           iopj does not have: see the host's `dhchap_key` there"
            .to_owned(),
        _ if is_host => format!(
            "the target does not let this host in: allow {} there, or name by `host_nqn` a host that it \
             knows",
            connect.host_nqn
        ),
        Some(Errno::CONNREFUSED) => {
            "nothing listens there: check the address and the port, and that the target runs".to_owned()
        }
        _ if is_away => {
            "the address cannot be reached from this host: check it with `ping`, and the firewalls".to_owned()
        }
        Some(Errno::INVAL) => format!(
            "the kernel does not know `{transport}` or one of the options: `modprobe nvme-{transport}`, and \
             look at `dmesg`"
        ),
        Some(Errno::ALREADY) => "this host is connected to it already".to_owned(),
        _ => "check that the target has this subsystem for this host, and look at `dmesg` of both".to_owned(),
    };
    // The kernel's own words, where the error does not say it all.
    let words = said.iter().find(|text| text.to_lowercase().contains("connect ")).or(said.first());
    let words = words.filter(|_| !is_away).map_or_else(String::new, |text| format!(", and says `{text}`"));
    let reason = format!("the kernel refuses ({error}){words}: {advice}");
    SettingsError::NotConnected { place: connect.place(), reason, is_away }
}

fn not_connected(connect: &Connect, reason: String) -> SettingsError {
    SettingsError::NotConnected { place: connect.place(), reason, is_away: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect() -> Connect {
        let id: Uuid = "11111111-2222-4333-8444-555555555555".parse().unwrap();
        Connect {
            transport: Transport::Tcp,
            address: Some("10.1.0.1".parse().unwrap()),
            port: 4420,
            nqn: "nqn.2016-06.io.spdk:cnode1".to_owned(),
            host_nqn: id.nqn(),
            host_id: id,
            secret: None,
            options: BTreeMap::from([("nr_io_queues".to_owned(), 2), ("nr_poll_queues".to_owned(), 1)]),
        }
    }

    #[test]
    fn the_kernel_gets_one_line() {
        let id = "11111111-2222-4333-8444-555555555555";
        assert_eq!(
            line(&connect()),
            format!(
                "transport=tcp,nqn=nqn.2016-06.io.spdk:cnode1,hostnqn=nqn.2014-08.org.nvmexpress:uuid:{id},\
                 hostid={id},traddr=10.1.0.1,trsvcid=4420,nr_io_queues=2,nr_poll_queues=1"
            )
        );
        let local = Connect { transport: Transport::Loop, options: BTreeMap::new(), ..connect() };
        assert!(!line(&local).contains("traddr"));
    }

    /// The kernel says EIO for most refusals, and the cause in its log alone.
    #[test]
    fn the_kernels_own_words_tell_why_it_refuses() {
        let connect = connect();
        let of = |errno: Errno, said: &[&str]| {
            let said: Vec<String> = said.iter().map(|text| (*text).to_owned()).collect();
            refused(&connect, &io::Error::from_raw_os_error(errno.raw_os_error()), &said)
        };
        let text = |errno, said: &[&str]| of(errno, said).to_string();
        let host = "nvme nvme0: Connect for subsystem nqn.x is not allowed, hostnqn: nqn.y";
        let not_allowed = text(Errno::IO, &[host, "nvme nvme0: failed to connect queue: 0 ret=16772"]);
        assert!(not_allowed.contains(&format!("and says `{host}`: ")), "{not_allowed}");
        assert!(not_allowed.contains(&format!("allow {} there", connect.host_nqn)), "{not_allowed}");
        let secret = text(Errno::IO, &["nvme nvme0: qid 0: authentication failed"]);
        assert!(secret.contains("does not take this host's secret of DH-HMAC-CHAP"), "{secret}");
        let is_away = |error| matches!(error, SettingsError::NotConnected { is_away: true, .. });
        assert!(is_away(of(Errno::CONNREFUSED, &[])) && is_away(of(Errno::TIMEDOUT, &[])));
        assert!(!is_away(of(Errno::IO, &[host])) && !is_away(of(Errno::INVAL, &[])));
        let away = text(Errno::CONNREFUSED, &["nvme nvme0: failed to connect socket: -111"]);
        assert!(!away.contains("says") && away.contains("nothing listens there"), "{away}");
    }

    /// A host without the module had no message of its own.
    #[test]
    fn a_missing_module_is_named() {
        let root = tempfile::tempdir().unwrap();
        let host = Host::with_root(root.path());
        let error = host.open_connection(&connect()).unwrap_err().to_string();
        assert!(error.starts_with("cannot connect to 10.1.0.1 port 4420 by tcp: "), "{error}");
        assert!(error.contains("`modprobe nvme-tcp`"), "{error}");
        assert!(host.connect_options().is_empty());
    }
}
