//! What C passes by pointer: texts and structs that are read, and places that are written.

use crate::error::{Failure, IOPJ_ERROR_ARGUMENT, Outcome, failure};
use iopj_engine::IoPath;
use std::ffi::{CStr, CString, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A null pointer for what has this name.
#[cold]
fn null(name: &str) -> Failure {
    failure(IOPJ_ERROR_ARGUMENT, format!("`{name}` is NULL: pass a pointer to it"))
}

/// The name of a file.
///
/// # Safety
/// The pointer is null, or to a text that ends with a zero byte and stays as it is until the result is gone.
pub(crate) unsafe fn file<'a>(text: *const c_char, name: &str) -> Outcome<&'a Path> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: it is not null, and the rest is this function's condition.
    Ok(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes())))
}

/// A text in UTF-8.
///
/// # Safety
/// As for [`file`].
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(null(name));
    }
    // SAFETY: it is not null, and the rest is this function's condition.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| {
        let shown = text.to_string_lossy();
        failure(IOPJ_ERROR_ARGUMENT, format!("`{name}` is no text in UTF-8 ({shown}): pass plain ASCII"))
    })
}

/// A path by its text.
///
/// # Safety
/// As for [`file`].
pub(crate) unsafe fn io_path(path: *const c_char) -> Outcome<IoPath> {
    // SAFETY: this function's condition.
    let path = unsafe { text(path, "path") }?.parse::<IoPath>();
    path.map_err(|error| failure(IOPJ_ERROR_ARGUMENT, error))
}

/// What a pointer is to; it need not be aligned.
///
/// # Safety
/// The pointer is null, or to a `T` that may be read.
pub(crate) unsafe fn read<T: Copy>(from: *const T, name: &str) -> Outcome<T> {
    if from.is_null() {
        return Err(null(name));
    }
    // SAFETY: it is not null, and the rest is this function's condition.
    Ok(unsafe { from.read_unaligned() })
}

/// Refuses a place that cannot be written, before anything is done.
pub(crate) fn require<T>(place: *mut T, name: &str) -> Outcome<()> {
    if place.is_null() { Err(null(name)) } else { Ok(()) }
}

/// Writes where a pointer is to; it need not be aligned.
///
/// # Safety
/// The pointer is null, or to a place for a `T` that may be written.
pub(crate) unsafe fn write<T: Copy>(place: *mut T, name: &str, value: T) -> Outcome<()> {
    require(place, name)?;
    // SAFETY: it is not null, and the rest is this function's condition.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// A text for C.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}
