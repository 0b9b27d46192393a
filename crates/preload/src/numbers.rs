//! Keeps the program's descriptors and the library's rings apart, and forgets what is known of a number when
//! the program gives it another meaning.

use crate::descriptors;
use crate::process::{self, is_working};
use crate::real::stand_before;
use crate::state::State;
use crate::{sys, thread};
use iopj_engine::is_ring;
use std::ffi::{c_char, c_int, c_uint};

type Open = unsafe extern "C-unwind" fn(*const c_char, c_int, libc::mode_t) -> c_int;
type OpenAt = unsafe extern "C-unwind" fn(c_int, *const c_char, c_int, libc::mode_t) -> c_int;
type Create = unsafe extern "C-unwind" fn(*const c_char, libc::mode_t) -> c_int;
type OpenChecked = unsafe extern "C-unwind" fn(*const c_char, c_int) -> c_int;
type OpenAtChecked = unsafe extern "C-unwind" fn(c_int, *const c_char, c_int) -> c_int;
type OfOne = unsafe extern "C-unwind" fn(c_int) -> c_int;
type OfTwo = unsafe extern "C-unwind" fn(c_int, c_int) -> c_int;
type OfThree = unsafe extern "C-unwind" fn(c_int, c_int, c_int) -> c_int;
type OfRange = unsafe extern "C-unwind" fn(c_uint, c_uint, c_int) -> c_int;
type CloseFrom = unsafe extern "C-unwind" fn(c_int);
type Control = unsafe extern "C-unwind" fn(c_int, c_int, usize) -> c_int;

// Where C has a variable number of arguments, there is one more at most, which is passed as a fixed one is on
// x86-64 and Arm.
stand_before! {
    open = open_one: (path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int;
    open64 = open_one: (path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int;
    openat = open_at: (at: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int;
    openat64 = open_at: (at: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int;
    creat = create: (path: *const c_char, mode: libc::mode_t) -> c_int;
    creat64 = create: (path: *const c_char, mode: libc::mode_t) -> c_int;
    __open_2 = open_checked: (path: *const c_char, flags: c_int) -> c_int;
    __open64_2 = open_checked: (path: *const c_char, flags: c_int) -> c_int;
    __openat_2 = open_at_checked: (at: c_int, path: *const c_char, flags: c_int) -> c_int;
    __openat64_2 = open_at_checked: (at: c_int, path: *const c_char, flags: c_int) -> c_int;
    close = close_one: (fd: c_int) -> c_int;
    close_range = range: (first: c_uint, last: c_uint, flags: c_int) -> c_int;
    closefrom = close_from: (first: c_int) -> ();
    dup = duplicate: (fd: c_int) -> c_int;
    dup2 = put_over: (fd: c_int, over: c_int) -> c_int;
    dup3 = put_over_with_flags: (fd: c_int, over: c_int, flags: c_int) -> c_int;
    fcntl = control: (fd: c_int, command: c_int, argument: usize) -> c_int;
    fcntl64 = control: (fd: c_int, command: c_int, argument: usize) -> c_int;
}

/// A descriptor that is new.
fn new(fd: c_int) -> c_int {
    descriptors::forget(fd);
    fd
}

unsafe fn open_one(real: Open, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: by the condition of the function of this name.
    new(unsafe { real(path, flags, mode) })
}

unsafe fn open_at(real: OpenAt, at: c_int, path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: by the condition of the function of this name.
    new(unsafe { real(at, path, flags, mode) })
}

unsafe fn create(real: Create, path: *const c_char, mode: libc::mode_t) -> c_int {
    // SAFETY: by the condition of the function of this name.
    new(unsafe { real(path, mode) })
}

unsafe fn open_checked(real: OpenChecked, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: by the condition of the function of this name.
    new(unsafe { real(path, flags) })
}

unsafe fn open_at_checked(real: OpenAtChecked, at: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: by the condition of the function of this name.
    new(unsafe { real(at, path, flags) })
}

unsafe fn duplicate(real: OfOne, fd: c_int) -> c_int {
    // SAFETY: by the condition of the function of this name.
    new(unsafe { real(fd) })
}

unsafe fn close_one(real: OfOne, fd: c_int) -> c_int {
    if is_kept(fd) {
        return sys::returned(-(libc::EBADF as isize)) as c_int;
    }
    // SAFETY: by the condition of the function of this name.
    new_after(unsafe { real(fd) }, fd)
}

/// The rings of the library are not the program's to close: to it their numbers are not open.
unsafe fn range(real: OfRange, first: c_uint, last: c_uint, flags: c_int) -> c_int {
    const UNSHARE: c_int = libc::CLOSE_RANGE_UNSHARE as c_int;
    descriptors::forget_range(first, last);
    if first > last || !has_rings() {
        // SAFETY: by the condition of the function of this name.
        return unsafe { real(first, last, flags) };
    }
    if flags & UNSHARE != 0 {
        // First what the call does first: the thread gets descriptors of its own.
        // SAFETY: the call touches no memory.
        let unshared = unsafe { sys::call(libc::SYS_unshare, [libc::CLONE_FILES as usize, 0, 0, 0, 0, 0]) };
        if unshared < 0 {
            return sys::returned(unshared) as c_int;
        }
    }
    let flags = flags & !UNSHARE;
    for (first, last) in around_rings(first, last, is_ring) {
        // SAFETY: as above.
        let result = unsafe { real(first, last, flags) };
        if result != 0 {
            return result;
        }
    }
    0
}

unsafe fn close_from(real: CloseFrom, first: c_int) {
    descriptors::forget_range(first.max(0) as u32, u32::MAX);
    if !has_rings() {
        // SAFETY: by the condition of the function of this name.
        return unsafe { real(first) };
    }
    for (first, last) in around_rings(first.max(0) as u32, u32::MAX, is_ring) {
        let range = [first as usize, last as usize, 0, 0, 0, 0];
        // SAFETY: as above. A kernel without this call (before Linux 5.9) is what glibc's own is for.
        if unsafe { sys::call(libc::SYS_close_range, range) } < 0 {
            // SAFETY: as above.
            return unsafe { real(first as c_int) };
        }
    }
}

/// The ranges of numbers from `first` to `last` between those of rings. Found one by one, because memory of
/// the library's own is for where signals are held off.
fn around_rings(first: u32, last: u32, is_ring: impl Fn(c_int) -> bool) -> impl Iterator<Item = (u32, u32)> {
    const MARKED: u32 = 1 << 16;
    let is_ring = move |fd: &u32| *fd < MARKED && is_ring(*fd as c_int);
    let mut next = Some(first);
    std::iter::from_fn(move || {
        let start = (next?..=last).find(|fd| !is_ring(fd))?;
        let ring = (start..=last.min(MARKED)).find(|fd| is_ring(fd));
        next = ring.and_then(|ring| ring.checked_add(1));
        Some((start, ring.map_or(last, |ring| ring - 1)))
    })
}

unsafe fn put_over(real: OfTwo, fd: c_int, over: c_int) -> c_int {
    if is_kept(over) {
        return sys::returned(-(libc::EBUSY as isize)) as c_int;
    }
    // SAFETY: by the condition of the function of this name.
    new(unsafe { real(fd, over) })
}

unsafe fn put_over_with_flags(real: OfThree, fd: c_int, over: c_int, flags: c_int) -> c_int {
    if is_kept(over) {
        return sys::returned(-(libc::EBUSY as isize)) as c_int;
    }
    // SAFETY: by the condition of the function of this name.
    new(unsafe { real(fd, over, flags) })
}

unsafe fn control(real: Control, fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: by the condition of the function of this name.
    let result = unsafe { real(fd, command, argument) };
    match command {
        libc::F_SETFL => descriptors::forget(fd),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => descriptors::forget(result),
        _ => {}
    }
    result
}

fn new_after(result: c_int, fd: c_int) -> c_int {
    descriptors::forget(fd);
    result
}

/// True if rings of this process may be among its descriptors: a child has copies, which are its own to
/// close.
fn has_rings() -> bool {
    is_working() && process::is_own()
}

/// True if a number is that of a ring, which the library alone may close.
fn is_kept(fd: c_int) -> bool {
    is_working() && is_ring(fd) && process::is_own() && !thread::is_inside::<State>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_go_around_rings() {
        let rings = |fd: c_int| [5, 6, 9].contains(&fd);
        let around = |first, last| around_rings(first, last, rings).collect::<Vec<_>>();
        assert_eq!(around(3, 20), [(3, 4), (7, 8), (10, 20)]);
        assert_eq!((around(5, 6), around(5, 9)), (vec![], vec![(7, 8)]));
        assert_eq!(around(u32::MAX, u32::MAX), [(u32::MAX, u32::MAX)]);
        assert!(around_rings(0, u32::MAX, |_| false).eq([(0, u32::MAX)]));
        let highest = around_rings(0, u32::MAX, |fd| fd == 65_535);
        assert!(highest.eq([(0, 65_534), (65_536, u32::MAX)]));
    }
}
