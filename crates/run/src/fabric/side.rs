//! This side of a run over fabrics: the agent, the export it makes, the connection to it, and what both hosts
//! see over a window.

use super::ask::{Ask, Done, Measure, OpenDrive, Opened};
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
use std::cell::{Cell, RefCell};
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
    pub(super) client: Option<RefCell<Client>>,
    pub(super) keys: Fabric,
    ids: Ids,
    writes: bool,
    i_know: bool,
    push: bool,
    pub(super) opened: Option<Opened>,
    pub(super) exported: Option<Export>,
    /// The target host's kernel demands that this host proves its identity (DH-HMAC-CHAP).
    must_prove: bool,
    pub(super) connected: Option<(Connect, Connected)>,
    clock: Clock,
    /// The interfaces that lead to the target.
    nics: Option<Nics>,
    /// Counts of this host when the window began.
    window: RefCell<Option<Began>>,
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
struct Began {
    context_switches: u64,
    nics: Option<NicSample>,
}

/// The names of one study: new for each.
struct Ids {
    subsystem: Uuid,
    host: Uuid,
}

/// How the target host's clock lies to this one's: its time less this one's, and how far that may be wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Clock {
    offset_ns: i64,
    uncertainty_ns: u64,
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
        let locks = host.lock(&[])?;
        let mut side = FabricSide {
            host,
            settings: host.settings(&[], &locks),
            client: None,
            keys,
            ids,
            writes,
            i_know: options.i_know,
            push: options.push,
            opened: None,
            exported: None,
            must_prove: false,
            connected: None,
            clock: Clock::default(),
            nics: None,
            window: RefCell::new(None),
            trouble: Trouble::default(),
            _guardian: Some(guardian),
        };
        let address = side.keys.address()?;
        side.nics = address.map(Nics::towards).transpose()?;
        side.settings.may_change_nics(&side.nics.as_ref().map(Nics::names).unwrap_or_default());
        side.start_agent(stop)?;
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
        if let Some(device) = self.keys.device.clone() {
            let towards = self.keys.address().ok().flatten().and_then(own_address);
            let open = OpenDrive { device, writes: self.writes, i_know: self.i_know, towards };
            self.opened = self.ask(&Ask::Open(open))?;
        }
        Ok(())
    }

    /// Asks the agent, if there is one.
    fn ask<R: DeserializeOwned>(&self, ask: &Ask) -> Result<Option<R>, FabricError> {
        let answer = self.client.as_ref().map(|client| client.borrow_mut().ask(ask, &mut |_| {}));
        if let Some(Err(FabricError::Lost { .. })) = &answer {
            self.trouble.no_agent.set(true);
        }
        answer.transpose()
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
        self.trouble.broke.set(false);
        self.connected = Some((connect, connected.clone()));
        if !self.writes && self.keys.nqn.is_none() {
            self.host.write_protect(&connected)?;
        }
        self.clock = self.clock()?;
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
        let exported = self.ask::<Exported>(&Ask::Export(export))?;
        self.must_prove = exported.is_some_and(|exported| exported.authenticates);
        Ok(())
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
        self.clock = self.clock()?;
        let done: Option<Done> = self.ask(&Ask::Measure(Box::new(measure)))?;
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
        let here = |ns: u64| ns.saturating_add_signed(-self.clock.offset_ns);
        measurement.window_raw_ns = measurement.window_raw_ns.map(|window| window.map(here));
        let load_raw_ns = load_raw_ns.into_iter().map(here).collect();
        Ok(Far { measurement, load_raw_ns })
    }

    /// How the other clock lies to this one, from several exchanges.
    fn clock(&self) -> Result<Clock, FabricError> {
        let mut best: Option<Clock> = None;
        for _ in 0..EXCHANGES {
            let sent = monotonic_raw_ns();
            let Some(there) = self.ask::<u64>(&Ask::Clock)? else { return Ok(Clock::default()) };
            let clock = Clock::of(sent, there, monotonic_raw_ns());
            if best.is_none_or(|best| clock.uncertainty_ns < best.uncertainty_ns) {
                best = Some(clock);
            }
        }
        Ok(best.unwrap_or_default())
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
        let Clock { offset_ns, uncertainty_ns } = self.clock;
        let target = target.map(|target| TargetHostEvidence {
            clock_offset_ns: offset_ns,
            clock_uncertainty_ns: uncertainty_ns,
            ..target
        });
        let (transport, connection) = match &self.connected {
            Some((connect, connected)) => {
                let named = self.host.transport(&connected.controller);
                let options = connect.options.iter().map(|(name, value)| (name.clone(), value.to_string()));
                let has_proven = self.must_prove && self.host.has_secret(&connected.controller);
                let proven = ("authenticated".to_owned(), has_proven.to_string());
                (named.unwrap_or(connect.transport), options.chain([proven]).collect())
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

impl Clock {
    /// From one exchange: asked and answered here, read there in between.
    fn of(sent: u64, there: u64, received: u64) -> Clock {
        let half = received.saturating_sub(sent) / 2;
        let here = sent + half;
        let offset_ns = i64::try_from(i128::from(there) - i128::from(here)).unwrap_or_default();
        Clock { offset_ns, uncertainty_ns: half }
    }
}

/// This host's own address on the way to another. Nothing is sent.
fn own_address(address: IpAddr) -> Option<IpAddr> {
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    // A datagram socket only chooses its route here.
    socket.connect((address, 9)).ok()?;
    socket.local_addr().ok().map(|own| own.ip())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_exchange_tells_how_far_a_clock_is_off() {
        assert_eq!(Clock::of(1_000, 5_100, 1_200), Clock { offset_ns: 4_000, uncertainty_ns: 100 });
        assert_eq!(Clock::of(5_000, 1_100, 5_200), Clock { offset_ns: -4_000, uncertainty_ns: 100 });
    }
}
