//! Targets for C: files and devices that are read or written, files that iopj makes, which paths work.

use crate::error::{IOPJ_ERROR_ARGUMENT, IOPJ_ERROR_TARGET, IOPJ_OK, Outcome, failure, guard};
use crate::handle::Kind;
use crate::pointers::{c_text, file, io_path, require, text, write};
use crate::table::{self, Object};
use iopj_engine::Target;
use iopj_engine::check::{Availability, check};
use iopj_engine::target::{FileId, WritePermission, make_file};
use std::cell::RefCell;
use std::ffi::{CString, c_char};

/// Bytes of the text of a file's identity: 32 hexadecimal digits and the zero byte.
pub const IOPJ_FILE_ID_LEN: usize = 33;

/// What a target is like.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IopjTargetInfo {
    /// The first byte that I/O may touch.
    pub data_offset: u64,
    /// Bytes from there on that I/O may touch, a multiple of `logical_block`.
    pub data_len: u64,
    /// What the offsets and lengths of I/O must be multiples of, in bytes.
    pub logical_block: u32,
    /// 1 if it may be written, else 0.
    pub writable: u32,
    /// The identity of a file that iopj made, as text; else empty.
    pub file_id: [c_char; IOPJ_FILE_ID_LEN],
}

/// Whether a path works on a target. The texts are never `NULL`, but may be empty; they are valid until the
/// thread calls `iopj_check` again, or ends.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct IopjAvailability {
    /// 1 if one read was done on the path, else 0.
    pub available: i32,
    /// If it works: what to know before trusting it, such as a kernel that is known to fall back.
    pub notes: *const c_char,
    /// If it does not: why.
    pub reason: *const c_char,
    /// If it does not: what would make it work.
    pub remedy: *const c_char,
}

/// Opens a file, a block device or an NVMe namespace (`/dev/ngXnY`) for reading. All I/O is direct
/// (`O_DIRECT`). Returns its handle, or 0.
///
/// # Safety
/// `file` is `NULL` (which is an error), or a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_target_open(file: *const c_char) -> u64 {
    guard(|| {
        // SAFETY: this function's condition.
        let path = unsafe { self::file(file, "file") }?;
        opened(Target::open(path))
    })
}

/// Opens a file for reading and writing that `iopj_make_file` made under this identity. Any other file is
/// refused. Returns its handle, or 0.
///
/// # Safety
/// `file` and `id` are `NULL` (which is an error), or texts that end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_target_open_made(file: *const c_char, id: *const c_char) -> u64 {
    guard(|| {
        // SAFETY: this function's condition.
        let (path, id) = unsafe { (self::file(file, "file")?, text(id, "id")?) };
        let id: FileId = id.parse().map_err(|error| failure(IOPJ_ERROR_ARGUMENT, error))?;
        opened(Target::open_for_writing(path, WritePermission::OwnFile { id: &id }))
    })
}

/// Opens a whole device for reading and writing: its data will be lost, so it is named twice, as `file` and
/// as `destroy`. One that is mounted, swap, held or in use is refused, and one that carries a known
/// signature unless `i_know` is 1. Returns its handle, or 0.
///
/// # Safety
/// `file` and `destroy` are `NULL` (which is an error), or texts that end with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_target_open_device(
    file: *const c_char,
    destroy: *const c_char,
    i_know: i32,
) -> u64 {
    guard(|| {
        // SAFETY: this function's condition.
        let (path, device) = unsafe { (self::file(file, "file")?, self::file(destroy, "destroy")?) };
        let i_know = match i_know {
            0 => false,
            1 => true,
            other => {
                let text = format!("`i_know` is {other}: pass 1 to overwrite known data, else 0");
                return Err(failure(IOPJ_ERROR_ARGUMENT, text));
            }
        };
        opened(Target::open_for_writing(path, WritePermission::DestroyData { device, i_know }))
    })
}

fn opened(target: Result<Target, impl ToString>) -> Outcome<u64> {
    let target = target.map_err(|error| failure(IOPJ_ERROR_TARGET, error))?;
    table::insert(Kind::Target, |_| Object::Target(target))
}

/// Says what a target is like.
///
/// # Safety
/// `info` is `NULL` (which is an error), or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_target_info(target: u64, info: *mut IopjTargetInfo) -> i32 {
    guard(|| {
        let found = table::target(target, |target| {
            Ok(IopjTargetInfo {
                data_offset: target.data_offset(),
                data_len: target.data_len(),
                logical_block: target.logical_block(),
                writable: u32::from(target.is_writable()),
                file_id: target.file_id().map_or([0; IOPJ_FILE_ID_LEN], id_text),
            })
        })?;
        // SAFETY: this function's condition.
        unsafe { write(info, "info", found) }?;
        Ok(IOPJ_OK)
    })
}

fn id_text(id: &FileId) -> [c_char; IOPJ_FILE_ID_LEN] {
    let mut text = [0; IOPJ_FILE_ID_LEN];
    for (place, byte) in text.iter_mut().zip(id.to_string().bytes().take(IOPJ_FILE_ID_LEN - 1)) {
        *place = byte as c_char;
    }
    text
}

/// Closes a target. Engines that were opened on it go on: each has a descriptor of its own.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_target_close(target: u64) -> i32 {
    guard(|| table::remove(target, Kind::Target).map(|_| IOPJ_OK))
}

/// Makes a file with `data_len` bytes of random data, written in full past the page cache and synced. It is
/// 1 MiB longer than its data: a header before them names it as iopj's. `id` gets its identity, by which
/// `iopj_target_open_made` opens it for writing. Nothing may have its name. Blocks until all is written.
///
/// # Safety
/// `file` is `NULL` (which is an error), or a text that ends with a zero byte; `id` is `NULL` (which is an
/// error), or `IOPJ_FILE_ID_LEN` bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_make_file(file: *const c_char, data_len: u64, id: *mut c_char) -> i32 {
    guard(|| {
        // SAFETY: this function's condition.
        let path = unsafe { self::file(file, "file") }?;
        let id = id.cast::<[c_char; IOPJ_FILE_ID_LEN]>();
        require(id, "id")?;
        let made = make_file(path, data_len, &mut |_| true);
        let made = made.map_err(|error| failure(IOPJ_ERROR_TARGET, error))?;
        // SAFETY: this function's condition.
        unsafe { write(id, "id", id_text(&made)) }?;
        Ok(IOPJ_OK)
    })
}

thread_local! {
    /// The texts of this thread's last `iopj_check`: notes, reason, remedy.
    static CHECKED: RefCell<[CString; 3]> = RefCell::default();
}

/// Tries a path, such as `io_uring/syscall/interrupt`, by one read of one logical block of a target, and says
/// whether it works. It writes nothing and changes no setting. Returns `IOPJ_OK` whether it works or not.
///
/// # Safety
/// `path` is `NULL` (which is an error), or a text that ends with a zero byte; `availability` is `NULL`
/// (which is an error), or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iopj_check(
    path: *const c_char,
    target: u64,
    availability: *mut IopjAvailability,
) -> i32 {
    guard(|| {
        require(availability, "availability")?;
        // SAFETY: this function's condition.
        let path = unsafe { io_path(path) }?;
        let found = table::target(target, |target| Ok(check(path, target)))?;
        let available = i32::from(found.is_available());
        let texts = match found {
            Availability::Available { notes } => [notes.join("; "), String::new(), String::new()],
            Availability::Unavailable { reason, remedy } => [String::new(), reason, remedy],
        };
        let answer = CHECKED.with(|checked| {
            *checked.borrow_mut() = texts.each_ref().map(|text| c_text(text));
            let [notes, reason, remedy] = checked.borrow().each_ref().map(|text| text.as_ptr());
            IopjAvailability { available, notes, reason, remedy }
        });
        // SAFETY: this function's condition.
        unsafe { write(availability, "availability", answer) }?;
        Ok(IOPJ_OK)
    })
}
