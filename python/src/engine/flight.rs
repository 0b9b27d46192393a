//! A request under way: the worker ends it, and any thread of Python's waits for it.

use super::buffer::Buffer;
use super::pool::SharedPool;
use crate::error::Error;
use pyo3::exceptions::{PyOSError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a thread that waits looks whether Python was interrupted.
pub(super) const SLICE: Duration = Duration::from_millis(50);

/// Why a request moved nothing.
#[derive(Clone)]
pub(super) enum Failure {
    /// An errno.
    Os(i32),
    /// An NVMe status.
    Nvme(u32),
    /// The engine did not take it.
    Refused(String),
    /// The engine is closed or has failed.
    Ended(String),
}

impl Failure {
    fn into_error(self) -> PyErr {
        match self {
            Failure::Os(errno) => {
                PyOSError::new_err((errno, std::io::Error::from_raw_os_error(errno).to_string()))
            }
            Failure::Nvme(status) => {
                let text =
                    format!("NVMe status {status:#x} (type {}, code {:#x})", status >> 8 & 7, status & 0xff);
                PyOSError::new_err((rustix::io::Errno::IO.raw_os_error(), text))
            }
            Failure::Refused(why) => PyValueError::new_err(why),
            Failure::Ended(why) => Error::new_err(why),
        }
    }
}

#[derive(Default)]
struct State {
    result: Option<Result<u32, Failure>>,
    /// Becomes readable at the end; made for who waits in an event loop.
    bell: Option<OwnedFd>,
}

/// A request that was handed to the worker.
#[derive(Default)]
pub(super) struct Flight {
    state: Mutex<State>,
    ended: Condvar,
}

impl Flight {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends it, once.
    pub(super) fn end(&self, result: Result<u32, Failure>) {
        let mut state = self.state();
        state.result = Some(result);
        if let Some(bell) = &state.bell {
            // The first write to such a descriptor does not fail.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
        drop(state);
        self.ended.notify_all();
    }

    /// The result, once it is there or `slice` is over.
    fn within(&self, slice: Duration) -> Option<Result<u32, Failure>> {
        let state = self.state();
        if state.result.is_some() {
            return state.result.clone();
        }
        let waited = self.ended.wait_timeout(state, slice);
        waited.unwrap_or_else(PoisonError::into_inner).0.result.clone()
    }
}

/// A request of Python's under way.
#[pyclass(frozen, module = "iopj._native")]
pub(crate) struct Pending {
    flight: Arc<Flight>,
    pool: Arc<SharedPool>,
    buffer: Option<Py<Buffer>>,
}

impl Pending {
    pub(super) fn new(flight: Arc<Flight>, pool: Arc<SharedPool>, buffer: Option<Py<Buffer>>) -> Pending {
        Pending { flight, pool, buffer }
    }

    fn require_own(&self) -> PyResult<()> {
        if self.pool.is_own() {
            return Ok(());
        }
        Err(Error::new_err("the request belongs to another process: open the file again after a fork"))
    }
}

#[pymethods]
impl Pending {
    /// True once it has ended.
    fn done(&self) -> PyResult<bool> {
        self.require_own()?;
        Ok(self.flight.state().result.is_some())
    }

    /// Waits for the end without the interpreter's lock; the bytes that were moved.
    #[pyo3(signature = (timeout_s=None))]
    fn wait(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<u32> {
        self.require_own()?;
        let until = match timeout_s.map(Duration::try_from_secs_f64).transpose() {
            Ok(limit) => limit.and_then(|limit| Instant::now().checked_add(limit)),
            Err(_) => return Err(PyValueError::new_err("timeout: give seconds of 0 or more, or None")),
        };
        loop {
            let left =
                until.map_or(SLICE, |until| until.saturating_duration_since(Instant::now()).min(SLICE));
            if let Some(result) = py.detach(|| self.flight.within(left)) {
                return result.map_err(Failure::into_error);
            }
            py.check_signals()?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(PyTimeoutError::new_err("the request has not ended in this time; it goes on"));
            }
        }
    }

    /// A descriptor that is readable once it has ended. It belongs to this object: do not close it.
    fn descriptor(&self) -> PyResult<i32> {
        self.require_own()?;
        let mut state = self.flight.state();
        let has_ended = state.result.is_some();
        if let Some(bell) = &state.bell {
            return Ok(bell.as_raw_fd());
        }
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let bell = eventfd(u32::from(has_ended), flags)
            .map_err(|errno| PyOSError::new_err((errno.raw_os_error(), "no event descriptor can be made")))?;
        Ok(state.bell.insert(bell).as_raw_fd())
    }

    /// The buffer of a read or a write.
    #[getter]
    fn buffer(&self, py: Python<'_>) -> Option<Py<Buffer>> {
        self.buffer.as_ref().map(|buffer| buffer.clone_ref(py))
    }
}
