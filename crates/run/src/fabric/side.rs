//! This side of a run over fabrics: the agent, the export it makes, the connection to it, and what both hosts
//! see over a window.

use super::ask::{Ask, Done, Measure, OpenDrive, Opened};
use super::clock::{Clock, Clocks};
use super::counts::{between, context_switches, prefixed};
use super::secret;
use crate::error::{RunError, TrialError};
use crate::options::Options;
use crate::target::writes;
use iopj_core::fabric::TargetHostEvidence;
use iopj_core::{FabricEvidence, Transport};
use iopj_fabric::guardian::Guardian;
use iopj_fabric::{Client, Destination, FabricError, Start};
use iopj_host::settings::{
    Connect, Connected, Export, Exported, Host, Restored, Settings, SettingsError, Uuid,
};
use iopj_meter::monotonic_raw_ns;
use iopj_probe::{NicSample, Nics};
use iopj_store::Measurement;
use iopj_study::{Fabric, FabricCell, Study};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Options of a connection unless the study says otherwise: a queue to poll on, and a target that is gone is
/// given up soon, so that the study goes on.
const DEFAULTS: [(&str, u64); 4] =
    [("nr_poll_queues", 1), ("reconnect_delay", 2), ("keep_alive_tmo", 5), ("ctrl_loss_tmo", 10)];
/// The options that a transport without a wire takes (drivers/nvme/target/loop.c).
const OF_LOOP: [&str; 4] = ["nr_io_queues", "queue_size", "keep_alive_tmo", "ctrl_loss_tmo"];
/// Exchanges from which the two clocks are aligned; the quickest counts.
const EXCHANGES: usize = 16;

/// The name of a study's target in its store and in messages: `storage1:/dev/nvme0n1`.
pub(crate) fn target_name(fabric: &Fabric) -> String {
    match (&fabric.target_host, &fabric.device, &fabric.nqn) {
        (Some(host), Some(device), _) => format!("{host}:{}", device.display()),
        (_, _, Some(nqn)) => nqn.clone(),
        _ => String::new(),
    }
}

/// This side of a study over fabrics. Dropped in this order: the connection goes before the export that the
/// agent made, and the guardian last.
pub(crate) struct FabricSide<'a> {
    host: &'a Host,
    /// The connection, and settings of this host.
    settings: Settings<'a>,
    client: Option<RefCell<Client>>,
    pub(super) keys: Fabric,
    ids: Ids,
    writes: bool,
    opened: Option<Opened>,
    exported: Option<Export>,
    connected: Option<(Connect, Connected)>,
    /// How the target host's clock lies to this one's.
    pub(super) clocks: RefCell<Clocks>,
    /// The block before which the network was measured last.
    pub(super) measured_block: Option<u32>,
    /// The interfaces that lead to the target.
    nics: Option<Nics>,
    /// Counts of this host when the window began.
    window: RefCell<Option<Began>>,
    _guardian: Option<Guardian>,
}

/// A trial that the target host measured, with its times by this host's clock.
pub(crate) struct Far {
    pub(crate) measurement: Measurement,
    /// When the load went on and off there: `CLOCK_MONOTONIC_RAW`.
    pub(crate) load_raw_ns: Vec<u64>,
}

/// Counts at the beginning of a window.
struct Began {
    context_switches: u64,
    nics: Option<NicSample>,
}

/// The names of one study: new for each.
struct Ids {
    subsystem: Uuid,
    host: Uuid,
}

impl<'a> FabricSide<'a> {
    /// Starts the agent and opens the drive there. Nothing is exported or connected yet.
    ///
    /// # Errors
    /// The agent cannot be started, or the drive cannot be opened there.
    pub(crate) fn start(
        study: &Study,
        options: &Options,
        host: &'a Host,
        stop: &AtomicBool,
    ) -> Result<Option<FabricSide<'a>>, RunError> {
        let Some(keys) = study.fabric.clone() else { return Ok(None) };
        let writes = writes(study)?.is_some();
        check_options(study, &keys, options, writes)?;
        let guardian = Guardian::start().map_err(|error| {
            RunError::Refused(format!(
                "no guardian can be started ({error}): iopj would leave a connection behind if it died"
            ))
        })?;
        let id = || Uuid::random().map_err(|error| RunError::Refused(format!("no random id ({error})")));
        let ids = Ids { subsystem: id()?, host: id()? };
        let client = match &keys.target_host {
            Some(name) => Some(RefCell::new(agent(name, &keys, options, stop)?)),
            None => None,
        };
        let locks = host.lock(&[])?;
        let mut side = FabricSide {
            host,
            settings: host.settings(&[], &locks),
            client,
            keys,
            ids,
            writes,
            opened: None,
            exported: None,
            connected: None,
            clocks: RefCell::default(),
            measured_block: None,
            nics: None,
            window: RefCell::new(None),
            _guardian: Some(guardian),
        };
        let address = side.keys.address()?;
        side.nics = address.map(Nics::towards).transpose()?;
        side.settings.may_change_nics(&side.nics.as_ref().map(Nics::names).unwrap_or_default());
        if let Some(device) = side.keys.device.clone() {
            let towards = address.and_then(own_address);
            let open = OpenDrive { device, writes, i_know: options.i_know, towards };
            side.opened = side.ask(&Ask::Open(open))?;
        }
        Ok(Some(side))
    }

    /// Asks the agent, if there is one.
    ///
    /// # Errors
    /// The agent refuses, or is gone.
    pub(super) fn ask<R: DeserializeOwned>(&self, ask: &Ask) -> Result<Option<R>, FabricError> {
        self.client.as_ref().map(|client| client.borrow_mut().ask(ask, &mut |_| {})).transpose()
    }

    /// Reaches the drive as a cell wants it: the settings of both hosts, the export, the connection. Returns
    /// its block device here.
    ///
    /// # Errors
    /// What the kernel of either side refuses; nothing is connected then.
    pub(crate) fn connect(&mut self, cell: &FabricCell) -> Result<PathBuf, TrialError> {
        self.disconnect()?;
        for (setting, value) in &cell.host {
            self.settings.set(*setting, value)?;
        }
        self.set_there(cell)?;
        self.export(cell.transport)?;
        let connect = self.connect_of(cell)?;
        let connected = self.settings.connect(&connect)?;
        let device = connected.device.clone();
        self.connected = Some((connect, connected.clone()));
        if !self.writes && self.keys.nqn.is_none() {
            self.host.write_protect(&connected)?;
        }
        self.align()?;
        Ok(device)
    }

    /// Changes the target host's settings.
    fn set_there(&self, cell: &FabricCell) -> Result<(), FabricError> {
        for (&setting, value) in &cell.target {
            self.ask::<()>(&Ask::Set { setting, value: value.clone() })?;
        }
        Ok(())
    }

    /// Exports the drive by this transport, unless it is.
    fn export(&mut self, transport: Transport) -> Result<(), TrialError> {
        if self.keys.nqn.is_some()
            || self.exported.as_ref().is_some_and(|export| export.transport == transport)
        {
            return Ok(());
        }
        self.unexport()?;
        let Some(device) = self.keys.device.clone() else { return Ok(()) };
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
        self.ask::<Exported>(&Ask::Export(export))?;
        Ok(())
    }

    fn unexport(&mut self) -> Result<(), FabricError> {
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

    /// Lets the target host's own iopj measure a trial.
    ///
    /// # Errors
    /// The trial failed there, or the agent is gone.
    pub(crate) fn measure_there(&mut self, measure: Measure) -> Result<Far, TrialError> {
        self.disconnect()?;
        // By `loop` the drive is exported anew; another export of it would be other work for its host.
        self.unexport()?;
        if let Some(cell) = &measure.cell.fabric {
            self.set_there(cell)?;
        }
        self.align()?;
        let done: Option<Done> = self.ask(&Ask::Measure(Box::new(measure)))?;
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

    /// A window begins on both hosts.
    ///
    /// # Errors
    /// The agent is gone, or cannot read its counters.
    pub(crate) fn begin_window(&self) -> Result<(), TrialError> {
        self.ask::<()>(&Ask::Begin)?;
        let nics = self.nics.as_ref().map(Nics::sample).transpose()?;
        self.window.replace(Some(Began { context_switches: context_switches(), nics }));
        Ok(())
    }

    /// What both hosts saw since the window began.
    ///
    /// # Errors
    /// As for [`FabricSide::begin_window`].
    pub(crate) fn end_window(&self) -> Result<Option<FabricEvidence>, TrialError> {
        let Some(began) = self.window.take() else { return Ok(None) };
        let context_switches = context_switches().saturating_sub(began.context_switches);
        let last = self.nics.as_ref().map(Nics::sample).transpose()?;
        let nics = between(self.nics.as_ref(), began.nics, last);
        let target = self.ask::<TargetHostEvidence>(&Ask::End)?;
        let Clock { offset_ns, uncertainty_ns, .. } = self.clocks.borrow().last();
        let target = target.map(|target| TargetHostEvidence {
            clock_offset_ns: offset_ns,
            clock_uncertainty_ns: uncertainty_ns,
            ..target
        });
        let (transport, connection) = match &self.connected {
            Some((connect, connected)) => {
                let named = self.host.transport(&connected.controller);
                let options = connect.options.iter().map(|(name, value)| (name.clone(), value.to_string()));
                (named.unwrap_or(connect.transport), options.collect())
            }
            None => (Transport::Local, BTreeMap::new()),
        };
        Ok(Some(FabricEvidence { transport, connection, context_switches, nics, target }))
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

    /// What to know about the drive, as its own host sees it.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.opened.as_ref().map(|opened| opened.warnings.clone()).unwrap_or_default()
    }

    /// What emulates the target host's processor, if something does.
    pub(crate) fn emulated(&self) -> Option<String> {
        self.client.as_ref().and_then(|client| client.borrow().hello().emulated.clone())
    }

    pub(crate) fn name(&self) -> String {
        target_name(&self.keys)
    }

    /// The target host in messages.
    pub(super) fn host_name(&self) -> String {
        self.keys.target_host.clone().unwrap_or_default()
    }

    /// Ends the connection and the export, and puts the settings of both hosts back.
    ///
    /// # Errors
    /// Something of this host cannot be put back; whatever can be is back, on both.
    pub(crate) fn leave(&mut self) -> Result<Vec<Restored>, SettingsError> {
        let disconnected = self.disconnect();
        let unexported = self.unexport();
        let there = self.ask::<Vec<String>>(&Ask::PutBack);
        let lost: Vec<String> =
            [unexported.err(), there.err()].into_iter().flatten().map(|error| error.to_string()).collect();
        self.settings.warn(lost);
        let restored = self.settings.restore();
        disconnected.and(restored)
    }

    /// What could not be put back on the target host.
    pub(crate) fn losses(&self) -> &[String] {
        self.settings.warnings()
    }

    pub(crate) fn host(&self) -> &'a Host {
        self.host
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

fn agent(name: &str, keys: &Fabric, options: &Options, stop: &AtomicBool) -> Result<Client, RunError> {
    let destination: Destination = name.parse()?;
    let command = keys.agent.as_deref().unwrap_or("iopj");
    let start = Start {
        destination: &destination,
        command,
        push: options.push,
        ssh: "ssh",
        version: env!("CARGO_PKG_VERSION"),
    };
    Ok(start.agent(stop)?)
}

/// Refuses options that do not fit a study over fabrics.
fn check_options(study: &Study, keys: &Fabric, options: &Options, writes: bool) -> Result<(), RunError> {
    let name = target_name(keys);
    if options.target.is_some() {
        return RunError::refuse(
            "--target names a drive of this host, and the study's [fabric] one of another: leave --target \
             out",
        );
    }
    if options.take_device.is_some() {
        return RunError::refuse(
            "--take-device takes a drive of this host, and the study's is on another: leave it out",
        );
    }
    if study.precondition {
        return RunError::refuse(
            "precondition = true does not work over fabrics: precondition the drive by iopj on its own host \
             first",
        );
    }
    if !keys.cells()?.iter().any(|cell| cell.transport.is_remote()) {
        return RunError::refuse(
            "[fabric] has no transport over a wire: add tcp or rdma, or run iopj on the target host itself",
        );
    }
    if keys.agent.is_some() && !options.allow_exec {
        return RunError::refuse(
            "[fabric] names the command of the agent, which the study may run only with --allow-exec",
        );
    }
    match (&options.destroy_data, writes) {
        (Some(named), true) if named == Path::new(&name) => Ok(()),
        (None, false) => Ok(()),
        (Some(named), false) => RunError::refuse(format!(
            "--destroy-data names {}, but the study writes nothing: leave the option out",
            named.display()
        )),
        (_, true) => RunError::refuse(format!(
            "the study writes to {name}: allow it by --destroy-data {name}, if all data on it may be lost"
        )),
    }
}
