//! QEMU's control socket (QEMU Machine Protocol, docs/interop/qmp-spec.rst): one JSON object per line.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::drive::{device_id, faulty_node, node, throttle_group};
use super::spec::QMP_SOCKET;
use super::{RunFolder, VmError};

/// How long an answer may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// A connection to a running machine. A machine serves one at a time.
#[derive(Debug)]
pub struct Qmp {
    reader: BufReader<UnixStream>,
    /// A line received in part.
    partial: Vec<u8>,
    events: Vec<Value>,
}

impl Qmp {
    /// Connects to the machine that runs in this folder.
    ///
    /// # Errors
    /// [`VmError::Qmp`] if there is no machine or it does not greet.
    pub fn connect(folder: &RunFolder) -> Result<Qmp, VmError> {
        let stream = UnixStream::connect(folder.short_path(QMP_SOCKET)).map_err(failed)?;
        stream.set_read_timeout(Some(Duration::from_millis(100))).map_err(failed)?;
        let mut qmp = Qmp { reader: BufReader::new(stream), partial: Vec::new(), events: Vec::new() };
        let greeting = qmp.read(Instant::now() + ANSWER_LIMIT)?;
        if greeting.as_ref().and_then(|greeting| greeting.get("QMP")).is_none() {
            return Err(failed("no greeting"));
        }
        qmp.execute("qmp_capabilities", &json!({}))?;
        Ok(qmp)
    }

    /// Executes a command and returns its result.
    ///
    /// # Errors
    /// [`VmError::Qmp`] with QEMU's own description of the failure, or after ten seconds without an answer.
    pub fn execute(&mut self, command: &str, arguments: &Value) -> Result<Value, VmError> {
        let mut line = json!({"execute": command, "arguments": arguments}).to_string();
        line.push('\n');
        self.reader.get_mut().write_all(line.as_bytes()).map_err(failed)?;
        let end = Instant::now() + ANSWER_LIMIT;
        while let Some(mut message) = self.read(end)? {
            if message.get("event").is_some() {
                self.events.push(message);
            } else if let Some(error) = message.get("error") {
                return Err(failed(format!("{command}: {}", error["desc"].as_str().unwrap_or("failed"))));
            } else {
                return Ok(message["return"].take());
            }
        }
        Err(failed(format!("{command}: no answer in {} s", ANSWER_LIMIT.as_secs())))
    }

    /// Waits for an event of this name and returns its data; `None` if it does not come in time.
    ///
    /// # Errors
    /// [`VmError::Qmp`] if the machine is gone.
    pub fn event(&mut self, name: &str, limit: Duration) -> Result<Option<Value>, VmError> {
        let end = Instant::now() + limit;
        loop {
            if let Some(at) = self.events.iter().position(|event| event["event"] == name) {
                return Ok(Some(self.events.remove(at)["data"].take()));
            }
            match self.read(end)? {
                Some(event) => self.events.push(event),
                None => return Ok(None),
            }
        }
    }

    /// Asks the guest to release the drive with this index in [`super::MachineSpec::drives`]; the event
    /// `DEVICE_DELETED` with the `device` `driveN` says when it has. A read in flight or made later may fail
    /// with EIO or return no byte (a drive of size 0).
    ///
    /// # Errors
    /// [`VmError::Qmp`].
    pub fn pull(&mut self, drive: usize) -> Result<(), VmError> {
        self.execute("device_del", &json!({"id": device_id(drive)})).map(drop)
    }

    /// Makes every read of a drive with [`super::Backend::Failable`] fail from now on.
    ///
    /// # Errors
    /// [`VmError::Qmp`].
    pub fn fail(&mut self, drive: usize) -> Result<(), VmError> {
        let node = json!({"driver": "raw", "node-name": node(drive), "file": faulty_node(drive)});
        self.execute("blockdev-reopen", &json!({"options": [node]})).map(drop)
    }

    /// Makes a drive with [`super::Backend::Stallable`] answer one more request and then nothing.
    ///
    /// A guest's virtio driver waits forever. Its NVMe driver asks for an abort after `nvme_core.io_timeout`
    /// and resets the controller after the same time again; QEMU then waits for the request itself, and the
    /// whole machine hangs until its time limit. To survive a stalled NVMe drive, a guest needs a longer
    /// timeout, or a driver that disables the controller (CC.EN) without deleting its queues: then QEMU lets
    /// the request through.
    ///
    /// # Errors
    /// [`VmError::Qmp`].
    pub fn stall(&mut self, drive: usize) -> Result<(), VmError> {
        // One block of 4 KiB then takes more than an hour.
        self.throttle(drive, 1)
    }

    /// Makes a drive that [`Qmp::stall`] has stalled answer again, including requests made meanwhile.
    ///
    /// # Errors
    /// [`VmError::Qmp`].
    pub fn resume(&mut self, drive: usize) -> Result<(), VmError> {
        self.throttle(drive, 0)?;
        // Queued requests are timed by the old limit. A stopping machine lets everything through.
        self.execute("stop", &json!({}))?;
        self.execute("cont", &json!({})).map(drop)
    }

    /// Sets the bytes per second of a stallable drive; 0 is no limit.
    fn throttle(&mut self, drive: usize, bytes_per_s: u64) -> Result<(), VmError> {
        let path = format!("/objects/{}", throttle_group(drive));
        let limits = json!({"path": path, "property": "limits", "value": {"bps-total": bytes_per_s}});
        self.execute("qom-set", &limits).map(drop)
    }

    /// The next message; `None` if none is complete in time.
    fn read(&mut self, end: Instant) -> Result<Option<Value>, VmError> {
        loop {
            match self.reader.read_until(b'\n', &mut self.partial) {
                Ok(0) => return Err(failed("the machine is gone")),
                Ok(_) => {
                    let line = std::mem::take(&mut self.partial);
                    return serde_json::from_slice(&line).map(Some).map_err(failed);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() >= end {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

fn failed(cause: impl std::fmt::Display) -> VmError {
    VmError::Qmp(cause.to_string())
}
