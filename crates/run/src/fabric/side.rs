//! This side of a run over fabrics: the agent, the export it makes, the connection to it, and what both hosts
//! see over a window.

use super::ask::{Ask, Done, Measure, OpenDrive, Opened, PutBackThere};
use super::checks::{balanced, check_options, target_name};
use super::clock::{Clock, Clocks};
use super::counts::prefixed;
use super::secret;
use crate::error::{RunError, TrialError};
use crate::options::Options;
use iopj_core::Transport;
use iopj_engine::target::FileId;
use iopj_fabric::guardian::Guardian;
use iopj_fabric::{Client, Destination, FabricError, Start};
use iopj_host::settings::{
    Change, Connect, Connected, Export, Exported, Host, Restored, Settings, SettingsError, Uuid,
};
use iopj_meter::monotonic_raw_ns;
use iopj_probe::{NicSample, Nics};
use iopj_record::Measurement;
use iopj_study::{Fabric, FabricCell, Study};
use serde::de::DeserializeOwned;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of a connection unless the study says otherwise: a queue to poll on, and a target that is gone is
/// given up soon, so that the study goes on.
const DEFAULTS: [(&str, u64); 4] =
    [("nr_poll_queues", 1), ("reconnect_delay", 2), ("keep_alive_tmo", 5), ("ctrl_loss_tmo", 10)];
/// The options that a transport without a wire takes (drivers/nvme/target/loop.c).
const OF_LOOP: [&str; 4] = ["nr_io_queues", "queue_size", "keep_alive_tmo", "ctrl_loss_tmo"];
/// Exchanges from which the two clocks are aligned; the quickest counts.
const EXCHANGES: usize = 16;

/// This side of a study over fabrics. Dropped in this order: the connection goes before the export that the
/// agent made, and the guardian last.
pub(crate) struct FabricSide {
    pub(super) host: Host,
    /// The connection, and settings of this host.
    settings: Settings,
    pub(super) client: Option<RefCell<Client>>,
    pub(super) keys: Fabric,
    ids: Ids,
    pub(super) writes: bool,
    i_know: bool,
    push: bool,
    /// The size of the file to be made there, in place of a drive.
    made_bytes: Option<u64>,
    pub(super) opened: Option<Opened>,
    pub(super) exported: Option<Export>,
    /// The target host's kernel demands that this host proves its identity (DH-HMAC-CHAP).
    pub(super) must_prove: bool,
    pub(super) connected: Option<(Connect, Connected)>,
    /// How the target host's clock lies to this one's.
    pub(super) clocks: RefCell<Clocks>,
    /// The block before which the network was measured last.
    pub(super) measured_block: Option<u32>,
    /// The interfaces that lead to the target.
    pub(super) nics: Option<Nics>,
    /// Changes of this host's settings that have been handed out.
    noted: usize,
    /// Changes of the target host's that have not.
    changed_there: Vec<Change>,
    /// Counts of this host when the window began.
    pub(super) window: RefCell<Option<Began>>,
    pub(super) trouble: Trouble,
    _guardian: Option<Guardian>,
}

/// A trial that the target host measured, with its times by this host's clock.
pub(crate) struct Far {
    pub(crate) measurement: Measurement,
    /// When the load went on and off there: `CLOCK_MONOTONIC_RAW`.
    pub(crate) load_raw_ns: Vec<u64>,
}

/// What went wrong with the connection and the agent, and has not been mended yet.
#[derive(Default)]
pub(super) struct Trouble {
    /// The connection was seen to be broken in this trial.
    pub(super) broke: Cell<bool>,
    /// The target was there before, so it is waited for.
    pub(super) may_come_back: Cell<bool>,
    /// The agent is lost.
    pub(super) no_agent: Cell<bool>,
}

/// Counts at the beginning of a window.
pub(super) struct Began {
    /// How long this host and the target host were counted at rest before, in ns, if they were.
    pub(super) rest_ns: Option<[u64; 2]>,
    pub(super) context_switches: u64,
    pub(super) nics: Option<NicSample>,
}

/// The names of one study: new for each.
struct Ids {
    subsystem: Uuid,
    host: Uuid,
}

impl FabricSide {
    /// Starts the agent and opens the drive there. Nothing is exported or connected yet.
    ///
    /// # Errors
    /// The agent cannot be started, or the drive cannot be opened there.
    pub(crate) fn start(
        study: &Study,
        options: &Options,
        host: &Host,
        stop: &AtomicBool,
    ) -> Result<Option<FabricSide>, RunError> {
        let Some(keys) = study.fabric.clone() else { return Ok(None) };
        let writes = study.why_written()?.is_some();
        check_options(study, &keys, options, writes)?;
        let guardian = Guardian::start().map_err(|error| {
            RunError::Refused(format!(
                "no guardian can be started ({error}): iopj would leave a connection behind if it died"
            ))
        })?;
        let id = || Uuid::random().map_err(|error| RunError::Refused(format!("no random id ({error})")));
        let ids = Ids { subsystem: id()?, host: id()? };
        let locks = host.lock(&[])?;
        let mut side = FabricSide {
            host: host.clone(),
            settings: host.settings(&[], &locks),
            client: None,
            keys,
            ids,
            writes,
            i_know: options.i_know,
            push: options.push,
            made_bytes: None,
            opened: None,
            exported: None,
            must_prove: false,
            connected: None,
            clocks: RefCell::default(),
            measured_block: None,
            nics: None,
            noted: 0,
            changed_there: Vec::new(),
            window: RefCell::new(None),
            trouble: Trouble::default(),
            _guardian: Some(guardian),
        };
        let address = side.keys.address()?;
        side.nics = address.map(Nics::towards).transpose()?;
        side.settings.may_change_nics(&side.nics.as_ref().map(Nics::names).unwrap_or_default());
        side.made_bytes = side.keys.folder.is_some().then(|| study.file_size()).transpose()?;
        side.start_agent(stop).map_err(|error| match stop.load(Ordering::Relaxed) {
            true => RunError::Interrupted,
            false => error.into(),
        })?;
        Ok(Some(side))
    }

    /// Starts the agent, if one may run there, and opens the drive.
    pub(super) fn start_agent(&mut self, stop: &AtomicBool) -> Result<(), FabricError> {
        let Some(name) = &self.keys.target_host else { return Ok(()) };
        let destination: Destination = name.parse()?;
        let start = Start {
            destination: &destination,
            command: self.keys.agent.as_deref().unwrap_or("iopj"),
            push: self.push,
            ssh: "ssh",
            version: env!("CARGO_PKG_VERSION"),
        };
        self.client = Some(RefCell::new(start.agent(stop)?));
        if let Some(device) = self.keys.device.clone().or_else(|| self.keys.folder.clone()) {
            let towards = self.keys.address().ok().flatten().and_then(own_address);
            let (made_bytes, writes, i_know) = (self.made_bytes, self.writes, self.i_know);
            let open = OpenDrive { device, made_bytes, writes, i_know, towards };
            self.opened = self.ask_until(&Ask::Open(open), stop)?;
        }
        Ok(())
    }

    /// Asks the agent, if there is one.
    ///
    /// # Errors
    /// The agent refuses, or is gone.
    pub(super) fn ask<R: DeserializeOwned>(&self, ask: &Ask) -> Result<Option<R>, FabricError> {
        self.ask_until(ask, &AtomicBool::new(false))
    }

    /// As `ask`; once `stop` is true the agent is told to end what it does.
    pub(super) fn ask_until<R: DeserializeOwned>(
        &self,
        ask: &Ask,
        stop: &AtomicBool,
    ) -> Result<Option<R>, FabricError> {
        let ask = |client: &RefCell<Client>| client.borrow_mut().ask_until(ask, stop, &mut |_| {});
        let answer = self.client.as_ref().map(ask);
        if let Some(Err(FabricError::Lost { .. })) = &answer {
            self.trouble.no_agent.set(true);
        }
        answer.transpose()
    }

    /// The identity of the file that was made on the target host.
    pub(crate) fn made(&self) -> Option<FileId> {
        Some(self.opened.as_ref()?.made.as_ref()?.1)
    }

    /// Reaches the drive as a cell wants it: the settings of both hosts, the export, the connection. Returns
    /// its block device here.
    ///
    /// # Errors
    /// What the kernel of either side refuses; nothing is connected then.
    pub(crate) fn connect(&mut self, cell: &FabricCell) -> Result<PathBuf, TrialError> {
        self.disconnect()?;
        self.set_here(cell)?;
        self.set_there(cell)?;
        self.export(cell.transport)?;
        let connect = self.connect_of(cell)?;
        let connected = self.settings.connect(&connect)?;
        let device = connected.device.clone();
        self.trouble.broke.set(false);
        self.connected = Some((connect, connected.clone()));
        if !self.writes && self.keys.nqn.is_none() {
            self.host.write_protect(&connected)?;
        }
        self.align()?;
        Ok(device)
    }

    /// Changes this host's settings.
    ///
    /// # Errors
    /// What cannot be set.
    pub(crate) fn set_here(&mut self, cell: &FabricCell) -> Result<(), SettingsError> {
        cell.host.iter().try_for_each(|(setting, value)| self.settings.set(*setting, value))
    }

    /// Changes the target host's settings.
    fn set_there(&mut self, cell: &FabricCell) -> Result<(), FabricError> {
        for (&setting, value) in &cell.target {
            let made = self.ask::<Vec<Change>>(&Ask::Set { setting, value: value.clone() })?;
            let host = self.keys.target_host.as_deref().unwrap_or_default();
            let there = |change: Change| Change { file: format!("{host}:{}", change.file), ..change };
            self.changed_there.extend(made.into_iter().flatten().map(there));
        }
        Ok(())
    }

    /// The changes of settings of both hosts since they were last handed out.
    pub(crate) fn new_changes(&mut self) -> Vec<Change> {
        let here = self.settings.changes()[self.noted..].to_vec();
        self.noted += here.len();
        here.into_iter().chain(std::mem::take(&mut self.changed_there)).collect()
    }

    /// Exports the drive by this transport, unless it is.
    fn export(&mut self, transport: Transport) -> Result<(), TrialError> {
        if self.keys.nqn.is_some()
            || self.exported.as_ref().is_some_and(|export| export.transport == transport)
        {
            return Ok(());
        }
        self.unexport()?;
        let made = self.opened.as_ref().and_then(|opened| opened.made.as_ref()).map(|(path, _)| path.clone());
        let Some(device) = made.or_else(|| self.keys.device.clone()) else { return Ok(()) };
        let takes_secret = self.host.connect_options().iter().any(|option| option == "dhchap_secret");
        let authenticates = takes_secret && self.opened.as_ref().is_some_and(|opened| opened.authenticates);
        let secret = authenticates.then(secret::random).transpose();
        let export = Export {
            subsystem: self.ids.subsystem.clone(),
            host: self.ids.host.clone(),
            device,
            transport,
            address: self.keys.address().map_err(|error| TrialError::Changed(error.to_string()))?,
            port: self.keys.port,
            secret: secret.map_err(|error| TrialError::Changed(format!("no random secret ({error})")))?,
        };
        self.exported = Some(export.clone());
        match self.ask::<Exported>(&Ask::Export(export)) {
            Ok(exported) => {
                self.must_prove = exported.is_some_and(|exported| exported.authenticates);
                Ok(())
            }
            Err(error) => {
                // A part of it may be there. The first error says more than one from cleaning up would.
                let _ = self.unexport();
                Err(error.into())
            }
        }
    }

    /// Takes the export away, if there is one.
    ///
    /// # Errors
    /// The target host keeps it, or the agent is gone.
    pub(super) fn unexport(&mut self) -> Result<(), FabricError> {
        match self.exported.take() {
            Some(export) => self.ask::<()>(&Ask::Unexport(export)).map(drop),
            None => Ok(()),
        }
    }

    /// The connection that a cell wants.
    fn connect_of(&self, cell: &FabricCell) -> Result<Connect, TrialError> {
        let mut options: BTreeMap<String, u64> =
            DEFAULTS.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        options.extend(cell.connection.clone());
        options.retain(|name, _| cell.transport.is_remote() || OF_LOOP.contains(&name.as_str()));
        let host_nqn = self.keys.host_nqn.clone().unwrap_or_else(|| self.ids.host.nqn());
        Ok(Connect {
            transport: cell.transport,
            address: self.keys.address().map_err(|error| TrialError::Changed(error.to_string()))?,
            port: self.keys.port,
            nqn: self.keys.nqn.clone().unwrap_or_else(|| self.ids.subsystem.nqn()),
            host_nqn,
            host_id: self.ids.host.clone(),
            secret: self.exported.as_ref().and_then(|export| export.secret.clone()),
            options,
        })
    }

    /// Ends the connection, if there is one. The export stays for the next.
    ///
    /// # Errors
    /// The controller does not go.
    pub(crate) fn disconnect(&mut self) -> Result<(), SettingsError> {
        match self.connected.take() {
            Some((connect, _)) => self.settings.disconnect(&connect),
            None => Ok(()),
        }
    }

    /// Lets the target host's own iopj measure a trial, until `stop` is true.
    ///
    /// # Errors
    /// The trial failed or was stopped there, or the agent is gone.
    pub(crate) fn measure_there(&mut self, measure: Measure, stop: &AtomicBool) -> Result<Far, TrialError> {
        self.disconnect()?;
        // By `loop` the drive is exported anew; another export of it would be other work for its host.
        self.unexport()?;
        if let Some(cell) = &measure.cell.fabric {
            self.set_there(cell)?;
        }
        self.align()?;
        let done: Option<Done> = self.ask_until(&Ask::Measure(Box::new(measure)), stop)?;
        self.align()?;
        let Some(Done { mut measurement, histograms, load_raw_ns }) = done else {
            return Err(TrialError::Changed("no agent runs on the target host".to_owned()));
        };
        let [all, reads, writes] = histograms;
        measurement.latency.histogram = all;
        if let Some(latency) = &mut measurement.read_latency {
            latency.histogram = reads;
        }
        if let Some(latency) = &mut measurement.write_latency {
            latency.histogram = writes;
        }
        let clocks = self.clocks.borrow();
        let here = |ns: u64| clocks.here(ns);
        measurement.window_raw_ns = measurement.window_raw_ns.map(|window| window.map(here));
        let load_raw_ns = load_raw_ns.into_iter().map(here).collect();
        Ok(Far { measurement, load_raw_ns })
    }

    /// Finds how the other clock lies to this one, from several exchanges.
    ///
    /// # Errors
    /// The agent is gone.
    pub(super) fn align(&self) -> Result<(), FabricError> {
        let mut best: Option<Clock> = None;
        for _ in 0..EXCHANGES {
            let sent = monotonic_raw_ns();
            let Some(there) = self.ask::<u64>(&Ask::Clock)? else { return Ok(()) };
            let clock = Clock::of(sent, there, monotonic_raw_ns());
            if best.is_none_or(|best| clock.uncertainty_ns < best.uncertainty_ns) {
                best = Some(clock);
            }
        }
        best.into_iter().for_each(|clock| self.clocks.borrow_mut().keep(clock));
        Ok(())
    }

    /// Facts about the target host and its drive, for the store.
    pub(crate) fn provenance(&self) -> BTreeMap<String, String> {
        let of_drive = self.opened.as_ref().map(|opened| opened.provenance.clone()).unwrap_or_default();
        let mut facts = prefixed("target_host", of_drive);
        if let Some(client) = &self.client {
            let hello = client.borrow().hello().clone();
            let named =
                [("name", hello.host), ("kernel", hello.kernel), ("architecture", hello.architecture)];
            facts.extend(named.map(|(name, value)| (format!("target_host.{name}"), value)));
        }
        facts
    }

    /// What to know about the drive, as its own host sees it, and about what else moves interrupts.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_drive = self.opened.as_ref().map(|opened| opened.warnings.clone()).unwrap_or_default();
        let there = self.opened.as_ref().is_some_and(|opened| opened.provenance.contains_key("irqbalance"));
        let balanced = balanced(&self.keys, [self.host.irqbalance().is_some(), there]);
        of_drive.into_iter().chain(balanced).collect()
    }

    /// What emulates the target host's processor, if something does.
    pub(crate) fn emulated(&self) -> Option<String> {
        self.client.as_ref().and_then(|client| client.borrow().hello().emulated.clone())
    }

    /// The target host's name, for messages.
    pub(super) fn host_name(&self) -> String {
        let named = self.keys.target_host.clone().or_else(|| self.keys.address.clone());
        named.unwrap_or_else(|| self.name())
    }

    pub(crate) fn name(&self) -> String {
        target_name(&self.keys)
    }

    /// Ends the connection and the export, and puts the settings of both hosts back.
    ///
    /// # Errors
    /// Something of this host cannot be put back; whatever can be is back, on both.
    pub(crate) fn leave(&mut self) -> Result<Vec<Restored>, SettingsError> {
        let disconnected = self.disconnect();
        let unexported = self.unexport();
        let there = self.ask::<PutBackThere>(&Ask::PutBack);
        let (mut restored_there, name) = (Vec::new(), self.host_name());
        let mut lost: Vec<String> = unexported.err().map(|error| error.to_string()).into_iter().collect();
        match there {
            Ok(there) => {
                let PutBackThere { restored, warnings } = there.unwrap_or_default();
                let there =
                    |one: Restored| Restored { file: format!("{name}:{}", one.file.display()).into(), ..one };
                restored_there.extend(restored.into_iter().map(there));
                lost.extend(warnings.iter().map(|warning| format!("{name}: {warning}")));
            }
            Err(error) => lost.push(error.to_string()),
        }
        self.settings.warn(lost);
        let restored = self.settings.restore();
        disconnected.and(restored).map(|here| [here, restored_there].concat())
    }

    /// What could not be put back on the target host.
    pub(crate) fn losses(&self) -> &[String] {
        self.settings.warnings()
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }
}

/// This host's own address on the way to another. Nothing is sent.
pub(super) fn own_address(address: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // A datagram socket only chooses its route here.
    socket.connect((address, 9)).ok()?;
    socket.local_addr().ok().map(|own| own.ip())
}
