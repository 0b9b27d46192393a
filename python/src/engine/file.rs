//! An engine on its worker thread, for Python: opened, given requests, closed.

use super::buffer::Buffer;
use super::flight::{Flight, Pending, SLICE};
use super::open::{Asked, Way, open};
use super::pool::Fate;
use super::shared::{Job, Shared};
use super::slot::Slot;
use crate::error::Error;
use iopj_engine::{MAX_IODEPTH, Op};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// An engine and the thread that has it.
#[pyclass(frozen, module = "iopj._native")]
pub(crate) struct Engine {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Engine {
    fn require_own(&self) -> PyResult<()> {
        if self.shared.pool.is_own() {
            return Ok(());
        }
        Err(Error::new_err("the file was opened by another process: open it again after a fork"))
    }

    /// Refuses what cannot be done, before a buffer is taken for it.
    fn require(&self, op: Op, offset: u64, length: u64) -> PyResult<()> {
        self.require_own()?;
        if let Some(why) = &self.shared.pool.state().ended {
            return Err(Error::new_err(why.clone()));
        }
        let facts = &self.shared.pool.facts;
        if length == 0 || length > u64::from(facts.buffer_len) {
            return Err(PyValueError::new_err(format!(
                "length: {length} bytes do not fit into a buffer of {}: ask for 1 to as many, or open with a \
                 larger `buffer_size`",
                facts.buffer_len
            )));
        }
        if op.writes() && !facts.is_writable {
            return Err(PyValueError::new_err(
                "the file is open for reading: make one by iopj.make_file, and open it with its file_id",
            ));
        }
        self.require_data(offset, length)
    }

    /// A buffer that nobody has, for what its fate is; waits for one that will come back.
    fn slot(&self, py: Python<'_>, fate: Fate) -> PyResult<Arc<Slot>> {
        self.require_own()?;
        let pool = &self.shared.pool;
        let go_on = || Python::attach(|py| py.check_signals());
        let index = py.detach(|| pool.acquire(fate, SLICE, go_on))?;
        let index = index.map_err(|why| match pool.state().ended {
            Some(_) => Error::new_err(why),
            None => PyBufferError::new_err(why),
        })?;
        Ok(Slot::new(pool.clone(), index, fate))
    }

    /// Hands a request to the worker.
    fn send(&self, op: Op, slot: Option<Arc<Slot>>, offset: u64, length: u64) -> PyResult<Arc<Flight>> {
        if let Some(slot) = &slot {
            slot.take_off().map_err(PyBufferError::new_err)?;
        }
        let flight = Arc::new(Flight::default());
        let job = Job { op, slot: slot.clone(), len: length as u32, offset, flight: flight.clone() };
        self.shared.send(job).map_err(|why| {
            slot.iter().for_each(|slot| slot.land());
            Error::new_err(why)
        })?;
        Ok(flight)
    }

    /// Refuses what would touch the header of a file that iopj made, or make a file longer.
    fn require_data(&self, offset: u64, len: u64) -> PyResult<()> {
        let facts = &self.shared.pool.facts;
        let end = facts.data_offset + facts.data_len;
        if offset >= facts.data_offset && offset.checked_add(len).is_some_and(|after| after <= end) {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "{len} bytes at byte {offset} are not within the file's data, bytes {} to {end}: stay between \
             data_offset and data_offset + data_len",
            facts.data_offset
        )))
    }
}

#[pymethods]
impl Engine {
    /// Opens an engine of `io_path`, or one that follows `policy`.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    #[pyo3(signature = (file, *, io_path=None, policy=None, depth, buffer_size, buffers, file_id=None))]
    fn new(
        py: Python<'_>,
        file: PathBuf,
        io_path: Option<String>,
        policy: Option<String>,
        depth: u32,
        buffer_size: u32,
        buffers: u32,
        file_id: Option<String>,
    ) -> PyResult<Engine> {
        if depth == 0 || depth > MAX_IODEPTH {
            return Err(PyValueError::new_err(format!("depth: give 1 to {MAX_IODEPTH}, not {depth}")));
        }
        if buffers == 0 || buffer_size == 0 {
            return Err(PyValueError::new_err("buffers, buffer_size: give 1 or more"));
        }
        let way = match (io_path, policy) {
            (_, Some(policy)) => Way::Policy(policy),
            (path, None) => Way::Path(path.unwrap_or_else(|| "io_uring".to_owned())),
        };
        let asked = Asked { file, way, depth, buffer_len: buffer_size, buffers, file_id };
        let (shared, thread) = py.detach(|| open(asked)).map_err(Error::new_err)?;
        Ok(Engine { shared, thread: Mutex::new(Some(thread)) })
    }

    /// A buffer that nobody has.
    fn acquire(&self, py: Python<'_>) -> PyResult<Buffer> {
        Ok(Buffer { slot: self.slot(py, Fate::IsKept)? })
    }

    /// Hands a read (`"read"`) or a write (`"write"`, `"write_dsync"`) of a buffer's first bytes to the
    /// worker.
    fn submit(&self, op: &str, buffer: Py<Buffer>, offset: u64, length: u64) -> PyResult<Pending> {
        let (op, slot) = (transfer(op)?, buffer.get().slot.clone());
        self.require(op, offset, length)?;
        if !Arc::ptr_eq(&slot.pool, &self.shared.pool) {
            return Err(PyValueError::new_err("the buffer is another file's: take one of this file"));
        }
        let flight = self.send(op, Some(slot), offset, length)?;
        Ok(Pending::new(flight, self.shared.pool.clone(), Some(buffer)))
    }

    /// Hands a read to the worker, into a buffer that nobody has.
    fn read(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<Pending> {
        self.require(Op::Read, offset, length)?;
        let buffer = Py::new(py, Buffer { slot: self.slot(py, Fate::Flies)? })?;
        let flight = self.send(Op::Read, Some(buffer.get().slot.clone()), offset, length)?;
        Ok(Pending::new(flight, self.shared.pool.clone(), Some(buffer)))
    }

    /// Hands a write of these bytes to the worker, from a buffer that nobody has.
    #[expect(clippy::needless_pass_by_value, reason = "Python's views are released with it")]
    fn write(&self, py: Python<'_>, op: &str, data: PyBuffer<u8>, offset: u64) -> PyResult<Pending> {
        let (op, length) = (transfer(op)?, data.item_count());
        self.require(op, offset, length as u64)?;
        let slot = self.slot(py, Fate::Flies)?;
        // SAFETY: the buffer has `length` bytes or more, and nobody else has it: no view, and no request.
        let bytes = unsafe { std::slice::from_raw_parts_mut(slot.address() as *mut u8, length) };
        data.copy_to_slice(py, bytes)?;
        let flight = self.send(op, Some(slot), offset, length as u64)?;
        Ok(Pending::new(flight, self.shared.pool.clone(), None))
    }

    /// Hands a flush to the worker.
    fn flush(&self) -> PyResult<Pending> {
        self.require_own()?;
        let flight = self.send(Op::Flush, None, 0, 0)?;
        Ok(Pending::new(flight, self.shared.pool.clone(), None))
    }

    /// Takes no more requests, and waits for those in flight for at most five seconds.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.shared.pool.is_own() {
            return Ok(());
        }
        py.detach(|| {
            self.shared.end("the file is closed");
            let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            // A panic of the thread was said to every request.
            thread.map(JoinHandle::join);
        });
        Ok(())
    }

    /// The decisions since the last call, a line each.
    fn decisions(&self) -> PyResult<Vec<String>> {
        self.require_own()?;
        Ok(self.shared.queue().decisions.drain(..).collect())
    }

    #[getter]
    fn closed(&self) -> bool {
        !self.shared.pool.is_own() || self.shared.pool.state().ended.is_some()
    }

    #[getter]
    fn io_path(&self) -> &str {
        &self.shared.pool.facts.io_path
    }

    #[getter]
    fn data_offset(&self) -> u64 {
        self.shared.pool.facts.data_offset
    }

    #[getter]
    fn data_len(&self) -> u64 {
        self.shared.pool.facts.data_len
    }

    #[getter]
    fn logical_block(&self) -> u32 {
        self.shared.pool.facts.logical_block
    }

    #[getter]
    fn writable(&self) -> bool {
        self.shared.pool.facts.is_writable
    }

    #[getter]
    fn depth(&self) -> u32 {
        self.shared.pool.facts.depth
    }

    #[getter]
    fn buffer_size(&self) -> u32 {
        self.shared.pool.facts.buffer_len
    }

    #[getter]
    fn buffers(&self) -> u32 {
        self.shared.pool.facts.buffers
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The thread ends by itself: to wait for it here would hold the interpreter's lock.
        if self.shared.pool.is_own() {
            self.shared.end("the file is closed");
            return;
        }
        // In a forked child the number of the parent's thread may be that of a thread of its own, which must
        // not be detached.
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        std::mem::forget(thread);
    }
}

/// An operation that moves bytes, by its name.
fn transfer(name: &str) -> PyResult<Op> {
    Ok(match name {
        "read" => Op::Read,
        "write" => Op::Write,
        "write_dsync" => Op::WriteDsync,
        other => {
            let text = format!("op: there is no `{other}`; use read, write or write_dsync");
            return Err(PyValueError::new_err(text));
        }
    })
}

/// Makes a file of random bytes that an engine may write to; its identity.
#[pyfunction]
pub(crate) fn make_file(py: Python<'_>, file: PathBuf, size: u64) -> PyResult<String> {
    let mut interrupted = None;
    let made = py.detach(|| {
        iopj_engine::target::make_file(&file, size, &mut |_| {
            interrupted = Python::attach(|py| py.check_signals()).err();
            interrupted.is_none()
        })
    });
    match interrupted {
        Some(error) => Err(error),
        None => made.map(|id| id.to_string()).map_err(|error| Error::new_err(error.to_string())),
    }
}
