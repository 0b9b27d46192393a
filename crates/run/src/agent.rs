//! The agent's side of a run: the target host's drive, its settings and exports, its counts, and the trials
//! that its own iopj measures.

use crate::error::{RunError, TrialError};
use crate::fabric::ask::{Ask, Done, Measure, OpenDrive, Opened, PutBackThere};
use crate::fabric::counts::{between, context_switches};
use crate::fabric::meters::MetersHere;
use crate::fabric::network::NetworkHere;
use crate::target::{Access, TargetSpec, devices_below};
use crate::tools::Tools;
use crate::trial::{Measured, TrialRunner};
use crate::trials::{control_run, make_settings};
use iopj_core::fabric::TargetHostEvidence;
use iopj_core::{Generator, Transport};
use iopj_engine::Target;
use iopj_engine::target::FileId;
use iopj_fabric::{Handler, Hello, Served, frame, serve};
use iopj_host::machine;
use iopj_host::settings::{Connect, DeviceLocks, Export, Host, Settings, Uuid};
use iopj_load::fio::Fio;
use iopj_meter::monotonic_raw_ns;
use iopj_probe::{Edge, NicSample, Nics, Probe, Snapshot, Who, marker};
use iopj_record::Measurement;
use iopj_study::plan::Planned;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Serves a host over a stream until it ends or falls silent; everything is put back by then. With `rest`,
/// each window begins with this much rest, whose instructions are marked for whoever counts them.
///
/// # Errors
/// What dead runs left behind on this host cannot be put back.
pub fn serve_agent(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    rest: Option<Duration>,
) -> Result<Served, RunError> {
    let host = Host::new();
    let hello = Hello {
        version: frame::VERSION,
        iopj: env!("CARGO_PKG_VERSION").to_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
        host: read("/proc/sys/kernel/hostname"),
        kernel: read("/proc/sys/kernel/osrelease"),
        pid: std::process::id(),
        root: rustix::process::geteuid().is_root(),
        emulated: machine::emulator().map(str::to_owned),
    };
    if hello.root {
        host.restore_left_behind()?;
    }
    Ok(serve(input, output, &hello, &mut || Box::new(Session::new(host.clone(), rest))))
}

fn read(file: &str) -> String {
    fs::read_to_string(file).unwrap_or_default().trim().to_owned()
}

/// One session with a host. Dropped, it puts back what it changed.
struct Session {
    host: Host,
    drive: Option<Drive>,
    /// The first reading of a window.
    window: Option<Edges>,
    /// How long the host is counted at rest before each window.
    rest: Option<Duration>,
    meters: Option<MetersHere>,
    network: NetworkHere,
}

/// The drive that a session has.
struct Drive {
    /// Before `target` and `locks`: what it changed is put back while they are held.
    settings: Settings,
    /// What keeps others from writing; closed while this host's own iopj measures.
    target: Option<Target>,
    spec: TargetSpec,
    locks: Arc<DeviceLocks>,
    probe: Probe,
    nics: Option<Nics>,
}

/// All counts at one edge of a window.
struct Edges {
    at_ns: u64,
    snapshot: Snapshot,
    nics: Option<NicSample>,
    context_switches: u64,
}

impl Handler for Session {
    fn answer(&mut self, ask: Value, stop: &AtomicBool, _note: &dyn Fn(&str)) -> Result<Value, String> {
        let ask: Ask =
            serde_json::from_value(ask).map_err(|error| format!("a question of another iopj: {error}"))?;
        self.of(ask, stop).map_err(|error| error.to_string())
    }
}

impl Session {
    fn new(host: Host, rest: Option<Duration>) -> Session {
        let network = NetworkHere::default();
        Session { host, drive: None, window: None, rest, meters: None, network }
    }

    fn of(&mut self, ask: Ask, stop: &AtomicBool) -> Result<Value, RunError> {
        match ask {
            Ask::Clock => value(&monotonic_raw_ns()),
            Ask::Open(open) => value(&self.open(&open, stop)?),
            Ask::Set { setting, value: wanted } => {
                let settings = &mut self.drive()?.settings;
                let before = settings.changes().len();
                settings.set(setting, &wanted)?;
                value(&settings.changes()[before..].to_vec())
            }
            Ask::Export(export) => value(&self.drive()?.settings.export(&export)?),
            Ask::Unexport(export) => {
                self.drive()?.settings.unexport(&export)?;
                Ok(Value::Null)
            }
            Ask::Begin { position } => value(&self.begin(position)?),
            Ask::End => value(&self.end()?),
            Ask::Measure(measure) => value(&self.measure(&measure, stop)?),
            Ask::OpenMeters(asked) => {
                let (meters, opened) = MetersHere::open(&asked, stop)?;
                self.meters = Some(meters);
                value(&opened)
            }
            Ask::Readings => value(&self.meters()?.readings()),
            Ask::StopMeters => value(&self.meters()?.stop()),
            Ask::Network(ask) => self.network.answer(ask),
            Ask::PutBack => {
                let settings = &mut self.drive()?.settings;
                let restored = settings.restore()?;
                value(&PutBackThere { restored, warnings: settings.warnings().to_vec() })
            }
        }
    }

    fn meters(&mut self) -> Result<&mut MetersHere, RunError> {
        self.meters.as_mut().ok_or_else(|| RunError::Refused("no meter is open there".to_owned()))
    }

    fn drive(&mut self) -> Result<&mut Drive, RunError> {
        self.drive.as_mut().ok_or_else(|| RunError::Refused("no drive is open there".to_owned()))
    }

    fn open(&mut self, open: &OpenDrive, stop: &AtomicBool) -> Result<Opened, RunError> {
        let (mut settings, locks, made) = match open.made_bytes {
            None => {
                let devices = TargetSpec::on_target_host(open, None).open_again()?.devices().to_vec();
                let locks = self.host.lock(&devices)?;
                (self.host.settings(&devices, &locks), locks, None)
            }
            Some(_) if !open.device.is_dir() => {
                return RunError::refuse(format!(
                    "`{}` is not a folder there: name one, in which the file is made",
                    open.device.display()
                ));
            }
            Some(bytes) => {
                // Before the file is written, which would disturb another run on the same drive.
                let devices = devices_below(&open.device);
                let locks = self.host.lock(&devices)?;
                let mut settings = self.host.settings(&devices, &locks);
                let mut go_on = |_| !stop.load(Ordering::Relaxed);
                let made: (PathBuf, FileId) = settings.make_file(&open.device, bytes, &mut go_on)?;
                (settings, locks, Some(made))
            }
        };
        let spec = TargetSpec::on_target_host(open, made.as_ref());
        let target = spec.open_again()?;
        let nics = open.towards.map(Nics::towards).transpose()?;
        settings.may_change_nics(&nics.as_ref().map(Nics::names).unwrap_or_default());
        let probe = Probe::new(target.devices())?;
        let opened = Opened {
            provenance: machine::provenance(&target),
            warnings: target.warnings().to_vec(),
            authenticates: self.host.target_authenticates(),
            bytes: target.data_len(),
            made,
        };
        self.drive = Some(Drive { settings, target: Some(target), spec, locks, probe, nics });
        Ok(opened)
    }

    fn edge(&mut self, edge: Edge) -> Result<Edges, RunError> {
        let drive = self.drive()?;
        let nics = drive.nics.as_ref().map(Nics::sample).transpose()?;
        let snapshot = drive.probe.snapshot(Who::Child, edge)?;
        Ok(Edges { at_ns: monotonic_raw_ns(), snapshot, nics, context_switches: context_switches() })
    }

    /// Begins a window, after a rest if there is to be one: how long that was, in ns.
    fn begin(&mut self, position: u64) -> Result<Option<u64>, RunError> {
        let place = position as u32;
        let rested = self.rest.map(|rest| {
            let began_ns = monotonic_raw_ns();
            marker::announce(place | marker::AT_REST);
            marker::begin();
            thread::sleep(rest);
            marker::end();
            monotonic_raw_ns() - began_ns
        });
        self.window = Some(self.edge(Edge::Begin)?);
        marker::announce(place);
        marker::begin();
        Ok(rested)
    }

    /// The counts from the window's beginning to now.
    fn end(&mut self) -> Result<TargetHostEvidence, RunError> {
        marker::end();
        // Before the last reading, which is no part of what was marked.
        let ended_ns = monotonic_raw_ns();
        let Some(first) = self.window.take() else {
            return Err(RunError::Refused("no window has begun there".to_owned()));
        };
        let last = self.edge(Edge::End)?;
        let evidence = first.snapshot.until(&last.snapshot);
        Ok(TargetHostEvidence {
            window_ns: ended_ns - first.at_ns,
            cpu: evidence.cpu,
            context_switches: last.context_switches.saturating_sub(first.context_switches),
            devices: evidence.devices,
            nics: between(self.drive()?.nics.as_ref(), first.nics, last.nics),
            ..TargetHostEvidence::default()
        })
    }

    /// Measures a trial on the drive's own host.
    fn measure(&mut self, measure: &Measure, stop: &AtomicBool) -> Result<Done, RunError> {
        let host = self.host.clone();
        let drive = self.drive()?;
        let transport = measure.cell.fabric.as_ref().map_or(Transport::Local, |fabric| fabric.transport);
        if transport == Transport::Local {
            drive.target = None;
            let done = measure_on(&host, &drive.locks, drive.spec.clone(), measure, stop);
            drive.target = Some(drive.spec.open_again()?);
            return done;
        }
        let looped = Looped::over(drive, measure)?;
        let device = match drive.settings.connect(&looped.connect) {
            Ok(device) => device,
            Err(error) => {
                drive.settings.unexport(&looped.export)?;
                return Err(error.into());
            }
        };
        let measured = (|| {
            if !drive.spec.is_written() {
                host.write_protect(&device)?;
            }
            let spec = drive.spec.at(&device.device);
            let target = spec.open_again()?;
            let locks = host.lock(target.devices())?;
            drop(target);
            measure_on(&host, &locks, spec, measure, stop)
        })();
        let disconnected = drive.settings.disconnect(&looped.connect);
        let unexported = drive.settings.unexport(&looped.export);
        let done = measured?;
        disconnected?;
        unexported?;
        Ok(done)
    }
}

/// An export to this very host, and the connection to it.
struct Looped {
    export: Export,
    connect: Connect,
}

impl Looped {
    /// Exports a drive by `loop`.
    fn over(drive: &mut Drive, measure: &Measure) -> Result<Looped, RunError> {
        let id = || Uuid::random().map_err(|error| RunError::Refused(format!("no random id ({error})")));
        let (subsystem, host_id) = (id()?, id()?);
        let export = Export {
            subsystem: subsystem.clone(),
            host: host_id.clone(),
            device: drive.spec.path().to_owned(),
            transport: Transport::Loop,
            address: None,
            port: 0,
            secret: None,
        };
        let options =
            measure.cell.fabric.as_ref().map(|fabric| fabric.connection.clone()).unwrap_or_default();
        let connect = Connect {
            transport: Transport::Loop,
            address: None,
            port: 0,
            nqn: subsystem.nqn(),
            host_nqn: host_id.nqn(),
            host_id,
            secret: None,
            options,
        };
        drive.settings.export(&export)?;
        Ok(Looped { export, connect })
    }
}

/// Measures a trial on a drive of this host.
fn measure_on(
    host: &Host,
    locks: &Arc<DeviceLocks>,
    spec: TargetSpec,
    measure: &Measure,
    stop: &AtomicBool,
) -> Result<Done, RunError> {
    let Measure { cell, seed, position, replicate, steadystate } = measure;
    let target = spec.open_again()?;
    let mut access = Access::new(host, locks, target, spec, None)?;
    access.begin()?;
    let control = control_run(&access, stop).ok();
    let transport = cell.fabric.as_ref().map_or(Transport::Local, |fabric| fabric.transport);
    access.watch_alone(transport);
    let measured = access.reach(cell.path).and_then(|()| {
        make_settings(&mut access, cell)?;
        let planned = Planned { cell: 0, replicate: *replicate, position: *position };
        let fio = (cell.generator == Generator::Fio).then(Fio::find).transpose()?;
        fio.as_ref().map_or(Ok(()), |fio| fio.supports(&cell.path))?;
        let tools = Tools { fio, ..Tools::default() };
        let runner = TrialRunner::new(host, tools, *seed, *steadystate, stop);
        runner.measure(&access, cell, planned, control, None, &mut || {})
    });
    let left = access.leave();
    let Measured { mut measurement, load_raw_ns, .. } = measured?;
    left?;
    let histograms = take_histograms(&mut measurement);
    Ok(Done { measurement, histograms, load_raw_ns })
}

/// The histograms of a measurement, which JSON leaves out.
fn take_histograms(measurement: &mut Measurement) -> [Vec<u8>; 3] {
    let of = |latency: Option<&mut iopj_record::Latency>| {
        latency.map(|latency| std::mem::take(&mut latency.histogram)).unwrap_or_default()
    };
    [
        of(Some(&mut measurement.latency)),
        of(measurement.read_latency.as_mut()),
        of(measurement.write_latency.as_mut()),
    ]
}

fn value(answer: &impl Serialize) -> Result<Value, RunError> {
    serde_json::to_value(answer)
        .map_err(|error| TrialError::Changed(format!("an answer has no form ({error})")).into())
}
