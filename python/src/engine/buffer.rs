//! A buffer for Python: its bytes by the buffer protocol, except while it is in flight.

use super::slot::Slot;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::sync::Arc;

/// A buffer of an engine's pool. While a view of it is alive it takes no request, and while a request is
/// under way it has no view.
#[pyclass(frozen, module = "iopj")]
pub(crate) struct Buffer {
    pub(super) slot: Arc<Slot>,
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.slot.pool.facts.buffer_len as usize
    }

    fn __repr__(&self) -> String {
        format!("<iopj.Buffer {} of {} bytes>", self.slot.index, self.slot.pool.facts.buffer_len)
    }

    /// # Safety
    /// `view` may be written, as the interpreter promises.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let slot = slf.get().slot.clone();
        slot.view().map_err(PyBufferError::new_err)?;
        let (address, len) = (slot.address() as *mut std::ffi::c_void, slot.pool.facts.buffer_len);
        // SAFETY: the bytes are those of the slot's buffer. The view holds this object, it the slot, and that
        // the memory; and the slot gives the buffer to no request while the view is there.
        let filled =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), address, len as ffi::Py_ssize_t, 0, flags) };
        if filled != 0 {
            slot.unview();
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }

    /// # Safety
    /// Called once for each view, as the interpreter promises.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.slot.unview();
    }
}
