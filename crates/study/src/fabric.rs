//! `[fabric]` of a study: the target host, how its drive is reached, and the settings of either host.

use crate::axis::{Axis, product};
use crate::error::{StudyError, error};
use crate::keys::{check_keys, fields_of};
use crate::meters::Meters;
use crate::settings;
use iopj_core::fabric::TARGET_METERS;
use iopj_core::{Setting, Transport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

/// The port of NVMe over TCP and of NVMe over RDMA, as the Internet's registry of ports has it.
const PORT: u16 = 4420;

/// `[fabric]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fabric {
    /// The target host as ssh takes it, or a stream by its full path; absent if no agent may run there.
    pub target_host: Option<String>,
    /// The drive on the target host; absent if a file is made there, or `nqn` names a target that exists.
    pub device: Option<PathBuf>,
    /// The folder on the target host in which a file of the study's `size` is made, in place of a drive.
    pub folder: Option<PathBuf>,
    /// A drive of this host like the one on the target host, for transport `here`.
    pub here: Option<PathBuf>,
    /// The target's address; not needed without a wire.
    pub address: Option<String>,
    /// The port that the target listens on.
    #[serde(default = "port")]
    pub port: u16,
    /// `local`, `here`, `loop`, `tcp`, `rdma`.
    pub transport: Axis<String>,
    /// The subsystem of a target that exists. It is connected to, and never changed.
    pub nqn: Option<String>,
    /// The name by which such a target knows this host.
    pub host_nqn: Option<String>,
    /// The command that is iopj on the target host; needs `--allow-exec`.
    pub agent: Option<String>,
    /// Queues for I/O of the connection.
    pub nr_io_queues: Option<Axis<u32>>,
    /// Queues for polled I/O of the connection.
    pub nr_poll_queues: Option<Axis<u32>>,
    /// Queues for writes alone of the connection.
    pub nr_write_queues: Option<Axis<u32>>,
    /// Entries of each queue of the connection.
    pub queue_size: Option<Axis<u32>>,
    /// Type of service of the connection's packets.
    pub tos: Option<Axis<u32>>,
    /// Seconds between two signs of life of the connection.
    pub keep_alive_tmo: Option<Axis<u32>>,
    /// Seconds for which a lost connection is tried again.
    pub ctrl_loss_tmo: Option<Axis<u32>>,
    /// Measure the network between the two hosts by itself before each block.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
    /// Meters of the target host; those of the machine itself if absent.
    pub meters: Option<Meters>,
    /// Settings of this host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, Axis<toml::Value>>,
    /// Settings of the target host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub target: BTreeMap<String, Axis<toml::Value>>,
}

fn port() -> u16 {
    PORT
}

/// How one cell reaches the drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FabricCell {
    /// The transport.
    pub transport: Transport,
    /// Options of the connection that are set, by the kernel's names.
    pub connection: BTreeMap<String, u64>,
    /// Settings of this host.
    pub host: BTreeMap<Setting, String>,
    /// Settings of the target host.
    pub target: BTreeMap<Setting, String>,
}

impl FabricCell {
    /// Its settings by the names under which a store keeps them: `transport`, `nr_poll_queues`,
    /// `host.governor`, `target.cpus_online`.
    pub fn settings_by_name(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::from([("transport".to_owned(), self.transport.to_string())]);
        all.extend(self.connection.iter().map(|(name, value)| (name.clone(), value.to_string())));
        for (side, settings) in [("host", &self.host), ("target", &self.target)] {
            all.extend(settings.iter().map(|(setting, value)| (format!("{side}.{setting}"), value.clone())));
        }
        all
    }

    /// The cell without what does not matter where there is no connection, or no wire.
    fn reduced(mut self) -> FabricCell {
        if matches!(self.transport, Transport::Local | Transport::Here) {
            self.connection.clear();
        }
        match self.transport {
            Transport::Local | Transport::Loop => self.host.clear(),
            Transport::Here => self.target.clear(),
            Transport::Tcp | Transport::Rdma => return self,
        }
        self.host.retain(|setting, _| !setting.is_of_nic());
        self.target.retain(|setting, _| !setting.is_of_nic());
        self
    }
}

impl Fabric {
    /// Where a study names the meters of its target host.
    pub const METERS: &str = "fabric.meters";

    /// Checks the table's keys; `source` names the study in messages.
    ///
    /// # Errors
    /// An unknown key, with the nearest known one.
    pub(crate) fn check_table(table: &toml::Table, source: &str) -> Result<(), StudyError> {
        check_keys(table, fields_of::<Fabric>(), source, " in [fabric]")
    }

    /// Checks what its values say together, and beside the meters of the host.
    ///
    /// # Errors
    /// A value that cannot be, or two that do not fit.
    pub(crate) fn check(&self, of_host: Option<&Meters>) -> Result<(), StudyError> {
        self.check_meters(of_host)?;
        let cells = self.cells()?;
        self.check_here(&cells)?;
        let is_remote = cells.iter().any(|cell| cell.transport.is_remote());
        if is_remote && self.address()?.is_none() {
            return error(
                "[fabric] names no address: write address = \"10.1.0.1\", the target host's own on the \
                 network between the two",
            );
        }
        match (&self.device, &self.folder, &self.nqn) {
            (None, None, None) => error(
                "[fabric] names no drive: write device = \"/dev/nvme0n1\", the drive on the target host, \
                 folder = \"/srv\", where a file is made on it, or nqn = \"nqn.…\" for a target that exists",
            ),
            (Some(_), Some(_), _) | (_, Some(_), Some(_)) => error(
                "[fabric] names a folder, in which a file is made, and another target: leave one of the two \
                 out",
            ),
            (Some(_), ..) | (_, Some(_), _) if self.target_host.is_none() => error(
                "[fabric] names a drive, but no target_host: write target_host = \"storage1\", as ssh takes \
                 it",
            ),
            (Some(device), ..) if !device.is_absolute() => error(format!(
                "[fabric] device: `{}` is not a full path: write it as /dev/nvme0n1",
                device.display()
            )),
            (_, Some(folder), _) if !folder.is_absolute() => error(format!(
                "[fabric] folder: `{}` is not a full path: write it as /srv/measure",
                folder.display()
            )),
            (None, None, Some(_)) if self.target_host.is_some() => error(
                "[fabric] names a target_host and an nqn, but no device: name the drive behind the target \
                 there, or leave target_host out",
            ),
            (None, None, Some(_)) if cells.iter().any(|cell| cell.transport.is_on_target()) => error(
                "[fabric] has transport `local` or `loop`, but no `device` or `folder`: name the drive on \
                 the target host, or leave these out",
            ),
            _ => Ok(()),
        }
    }

    /// Transport `here` and the drive that it measures come together.
    fn check_here(&self, cells: &[FabricCell]) -> Result<(), StudyError> {
        match (&self.here, cells.iter().any(|cell| cell.transport == Transport::Here)) {
            (None, true) => error(
                "[fabric] has transport `here`, but names no drive of this host: write here = \
                 \"/dev/nvme0n1\", a drive like the one on the target host",
            ),
            (Some(here), false) => error(format!(
                "[fabric] names {} of this host, but has no transport `here`: add it, or leave `here` out",
                here.display()
            )),
            (Some(here), true) if !here.is_absolute() => error(format!(
                "[fabric] here: `{}` is not a full path: write it as /dev/nvme0n1",
                here.display()
            )),
            _ => Ok(()),
        }
    }

    /// Meters and baselines need an agent, and no meter of this host has the name of one there.
    fn check_meters(&self, of_host: Option<&Meters>) -> Result<(), StudyError> {
        let asks = match &self.meters {
            _ if self.target_host.is_some() => None,
            Some(Meters::Tables(_)) => Some("meters of the target host"),
            _ => self.baseline.then_some("baseline = true"),
        };
        if let Some(asks) = asks {
            return error(format!(
                "[fabric] has {asks}, but no target_host: write target_host = \"storage1\", as ssh takes it"
            ));
        }
        let Some(Meters::Tables(tables)) = of_host else { return Ok(()) };
        match tables.keys().find(|name| name.starts_with(TARGET_METERS)) {
            Some(name) => error(format!(
                "[meters.{name}]: names that begin with `{TARGET_METERS}` are those of the target host's \
                 meters: choose another, or write it as [fabric.meters.NAME]"
            )),
            None => Ok(()),
        }
    }

    /// The target's address.
    ///
    /// # Errors
    /// It is not an address.
    pub fn address(&self) -> Result<Option<IpAddr>, StudyError> {
        let parse = |text: &String| {
            text.parse().map_err(|_| {
                StudyError(format!("[fabric] address: `{text}` is not an IP address: write it as 10.1.0.1"))
            })
        };
        self.address.as_ref().map(parse).transpose()
    }

    /// How many ways there are, counted without making them.
    pub(crate) fn count(&self) -> u64 {
        let settings = self.host.values().chain(self.target.values()).map(Axis::count);
        let options = self.options().into_iter().filter_map(|(_, axis)| axis.as_ref()).map(Axis::count);
        settings.chain(options).fold(self.transport.count(), u64::saturating_mul)
    }

    /// The options of a connection that may be set: the kernel's names (drivers/nvme/host/fabrics.c).
    fn options(&self) -> [(&'static str, &Option<Axis<u32>>); 7] {
        [
            ("nr_io_queues", &self.nr_io_queues),
            ("nr_poll_queues", &self.nr_poll_queues),
            ("nr_write_queues", &self.nr_write_queues),
            ("queue_size", &self.queue_size),
            ("tos", &self.tos),
            ("keep_alive_tmo", &self.keep_alive_tmo),
            ("ctrl_loss_tmo", &self.ctrl_loss_tmo),
        ]
    }

    /// Every way to reach the drive, each once.
    ///
    /// # Errors
    /// An unknown transport or setting, a value that it cannot have, an empty list.
    pub fn cells(&self) -> Result<Vec<FabricCell>, StudyError> {
        let parse = |text: String| text.parse::<Transport>().map_err(|error| StudyError(error.to_string()));
        let transports = self.transport.values().into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if transports.is_empty() {
            return error("[fabric] transport is an empty list: name local, here, loop, tcp or rdma");
        }
        let mut all =
            product(&[FabricCell::default()], &transports, |cell, transport| cell.transport = *transport);
        for (name, axis) in self.options() {
            let Some(axis) = axis else { continue };
            let values = axis.values();
            if values.is_empty() {
                return error(format!("[fabric] {name} is an empty list: give it a value, or leave it out"));
            }
            all = product(&all, &values, |cell, value| {
                cell.connection.insert(name.to_owned(), u64::from(*value));
            });
        }
        all = product(&all, &settings::matrix(&self.host)?, |cell, host| cell.host.clone_from(host));
        all = product(&all, &settings::matrix(&self.target)?, |cell, target| cell.target.clone_from(target));
        let mut each: Vec<FabricCell> = Vec::new();
        for cell in all.into_iter().map(FabricCell::reduced) {
            if !each.contains(&cell) {
                each.push(cell);
            }
        }
        Ok(each)
    }
}

#[cfg(test)]
mod tests {
    use crate::plan;
    use crate::{Axis, Study};
    use iopj_core::IoPath;

    fn study(fabric: &str) -> Result<Study, String> {
        let text = format!(
            "name = \"t\"\npaths = \"io_uring/syscall/interrupt\"\n[fabric]\n{fabric}\n[[workload]]\nios = 1"
        );
        Study::parse(&text, "t").map_err(|error| error.to_string())
    }

    const HOST: &str = "target_host = \"storage1\"\ndevice = \"/dev/nvme0n1\"\n";

    fn names(study: &Study) -> Vec<String> {
        let path: IoPath = "io_uring/syscall/interrupt".parse().unwrap();
        let (cells, _) = plan::cells(study, &[path]).unwrap();
        let text = |cell: &plan::Cell| {
            cell.settings_by_name()
                .into_iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect::<Vec<_>>()
        };
        cells.iter().map(|cell| text(cell).join(" ")).collect()
    }

    #[test]
    fn transports_and_settings_of_both_hosts_are_axes() {
        let study = study(&format!(
            "{HOST}address = \"10.1.0.1\"\ntransport = [\"local\", \"here\", \"tcp\"]\nhere = \
             \"/dev/nvme1n1\"\nnr_poll_queues = [0, 1]\nhost.rx_usecs = 8\nhost.governor = \
             \"performance\"\ntarget.governor = [\"performance\", \"schedutil\"]"
        ))
        .unwrap();
        let far = |polls, governor| {
            format!(
                "host.governor=performance host.rx_usecs=8 nr_poll_queues={polls} target.governor={governor} \
                 transport=tcp"
            )
        };
        assert_eq!(
            names(&study),
            [
                "target.governor=performance transport=local".to_owned(),
                "target.governor=schedutil transport=local".to_owned(),
                "host.governor=performance transport=here".to_owned(),
                far(0, "performance"),
                far(0, "schedutil"),
                far(1, "performance"),
                far(1, "schedutil"),
            ]
        );
    }

    #[test]
    fn settings_of_a_card_are_of_a_host_and_matter_only_over_a_wire() {
        let fabric = format!(
            "{HOST}address = \"10.1.0.1\"\ntransport = [\"local\", \"tcp\"]\ntarget.cpus_online = 1\n\
             target.rx_usecs = [0, 50]\nhost.adaptive_rx = false"
        );
        let one = "target.cpus_online=1";
        assert_eq!(
            names(&study(&fabric).unwrap()),
            [
                format!("{one} transport=local"),
                format!("host.adaptive_rx=0 {one} target.rx_usecs=0 transport=tcp"),
                format!("host.adaptive_rx=0 {one} target.rx_usecs=50 transport=tcp"),
            ]
        );
        let local = "name = \"t\"\npaths = \"available\"\nsettings.rx_usecs = 3\n[[workload]]\nios = 1";
        let error = Study::parse(local, "t").unwrap().settings_matrix().unwrap_err().to_string();
        assert!(error.contains("as host.rx_usecs or target.rx_usecs"), "{error}");
    }

    /// They failed, one by one, when their turn came.
    #[test]
    fn what_polls_is_left_out_over_loop_alone() {
        let paths = ["io_uring/syscall/poll", "io_uring/sqpoll/hybrid", "posix-sio/syscall/interrupt"];
        let paths: Vec<IoPath> = paths.map(|path| path.parse().unwrap()).into();
        let far = study(&format!("{HOST}address = \"10.1.0.1\"\ntransport = [\"local\", \"loop\", \"tcp\"]"));
        let far = Study { paths: Axis::One("available".to_owned()), ..far.unwrap() };
        let (cells, left_out) = plan::cells(&far, &paths).unwrap();
        let over = |path: IoPath| {
            let own = cells.iter().filter(|cell| cell.path == path);
            own.map(|cell| cell.settings_by_name()["transport"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(over(paths[0]), ["local", "tcp"]);
        assert_eq!(over(paths[1]), ["local", "tcp"]);
        assert_eq!(over(paths[2]), ["local", "loop", "tcp"]);
        assert_eq!(left_out.reasons(), [(2, "transport `loop` cannot poll")]);
        let looped = study(&format!("{HOST}transport = \"loop\"")).unwrap();
        let looped = Study { paths: Axis::One("available".to_owned()), ..looped };
        let error = plan::cells(&looped, &paths[..2]).unwrap_err().to_string();
        assert!(
            error.starts_with("transport `loop` cannot poll, and every path of the study polls"),
            "{error}"
        );
    }

    #[test]
    fn a_study_keeps_its_fabric_when_it_is_written() {
        for more in ["", "\nbaseline = true\nmeters = \"none\"", "\nmeters.psu = { kind = \"rapl\" }"] {
            let read = study(&format!("{HOST}transport = \"loop\"\ntarget.boost = 0{more}")).unwrap();
            assert_eq!(Study::parse(&read.to_toml().unwrap(), "t").unwrap(), read);
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (fabric, expected) in [
            (format!("{HOST}transport = \"tcp\""), "names no address"),
            (format!("{HOST}transport = \"fc\""), "there is no transport `fc`"),
            (format!("{HOST}transport = []"), "name local, here, loop, tcp or rdma"),
            (format!("{HOST}transport = [\"loop\", \"here\"]"), "names no drive of this host"),
            (format!("{HOST}transport = \"loop\"\nhere = \"/dev/nvme1n1\""), "has no transport `here`"),
            (format!("{HOST}transport = \"here\"\nhere = \"nvme1n1\""), "here: `nvme1n1` is not a full path"),
            (format!("{HOST}transport = \"tcp\"\naddress = \"storage1\""), "is not an IP address"),
            (format!("{HOST}transport = \"loop\"\nadress = \"10.1.0.1\""), "did you mean `address`?"),
            (format!("{HOST}transport = \"loop\"\ntarget.governer = \"x\""), "did you mean `governor`?"),
            (
                "target_host = \"s\"\ndevice = \"nvme0n1\"\ntransport = \"loop\"".to_owned(),
                "is not a full path",
            ),
            ("target_host = \"s\"\ntransport = \"loop\"".to_owned(), "names no drive"),
            ("device = \"/dev/nvme0n1\"\ntransport = \"loop\"".to_owned(), "target_host"),
            ("folder = \"/srv\"\ntransport = \"loop\"".to_owned(), "target_host"),
            (
                "target_host = \"s\"\nfolder = \"srv\"\ntransport = \"loop\"".to_owned(),
                "write it as /srv/measure",
            ),
            (format!("{HOST}folder = \"/srv\"\ntransport = \"loop\""), "leave one of the two out"),
            (
                "target_host = \"s\"\nnqn = \"nqn.x\"\naddress = \"10.1.0.1\"\n\
                 transport = \"tcp\"".to_owned(),
                "but no device: name the drive behind the target",
            ),
            (
                "nqn = \"nqn.x\"\naddress = \"10.1.0.1\"\ntransport = \"tcp\"\nbaseline = true".to_owned(),
                "baseline = true, but no target_host",
            ),
            (
                "nqn = \"nqn.x\"\naddress = \"10.1.0.1\"\ntransport = \"tcp\"\nmeters.p = { kind = \"rapl\" }"
                    .to_owned(),
                "meters of the target host, but no target_host",
            ),
            (format!("{HOST}transport = \"loop\"\nmeters = \"all\""), "or a [fabric.meters.NAME] table"),
            (
                format!("{HOST}transport = \"loop\"\nmeters.p = {{ url = \"http://a:b@c\" }}"),
                "[fabric.meters.p]: the address of `url` holds a user or a password",
            ),
            (
                format!("{HOST}transport = \"loop\"\n[meters.\"target.p\"]\nkind = \"rapl\""),
                "names that begin with `target.`",
            ),
        ] {
            let error = study(&fabric).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
