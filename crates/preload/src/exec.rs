//! The calls by which a process becomes another program (exec(3)). What is in flight ends before, and no
//! signal of the library's comes after: without its handler it would end that program.

use crate::ending::wait_for_others;
use crate::process::{is_own, is_working};
use crate::real::stand_before;
use crate::state::Inside;
use std::ffi::{c_char, c_int};

type Strings = *const *const c_char;
type Plain = unsafe extern "C-unwind" fn(*const c_char, Strings) -> c_int;
type WithEnvironment = unsafe extern "C-unwind" fn(*const c_char, Strings, Strings) -> c_int;
type OfDescriptor = unsafe extern "C-unwind" fn(c_int, Strings, Strings) -> c_int;
type At = unsafe extern "C-unwind" fn(c_int, *const c_char, Strings, Strings, c_int) -> c_int;

stand_before! {
    execv = plain: (path: *const c_char, arguments: Strings) -> c_int;
    execvp = plain: (path: *const c_char, arguments: Strings) -> c_int;
    execve = with_environment: (path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    execvpe = with_environment: (path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fexecve = of_descriptor: (fd: c_int, arguments: Strings, environment: Strings) -> c_int;
    execveat = at:
        (fd: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int;
}

unsafe fn plain(real: Plain, path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: by the condition of the function of this name.
    become_by(|| unsafe { real(path, arguments) })
}

unsafe fn with_environment(
    real: WithEnvironment,
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: by the condition of the function of this name.
    become_by(|| unsafe { real(path, arguments, environment) })
}

unsafe fn of_descriptor(real: OfDescriptor, fd: c_int, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: by the condition of the function of this name.
    become_by(|| unsafe { real(fd, arguments, environment) })
}

unsafe fn at(
    real: At,
    fd: c_int,
    path: *const c_char,
    arguments: Strings,
    environment: Strings,
    flags: c_int,
) -> c_int {
    // SAFETY: by the condition of the function of this name.
    become_by(|| unsafe { real(fd, path, arguments, environment, flags) })
}

/// What the call returns, which it does if it fails: then all goes on.
fn become_by(exec: impl FnOnce() -> c_int) -> c_int {
    // A child of a fork, or in its parent's memory, has nothing in flight, and begins nothing for this.
    if !is_own() || !is_working() {
        return exec();
    }
    if let Some(mut inside) = Inside::enter_in_handler() {
        inside.state().drain();
    }
    // What is submitted from now on goes to the kernel's own contexts, also after a call that fails: on a
    // ring it would be cancelled if it came between this and the call.
    wait_for_others();
    if let Some(mut inside) = Inside::enter_in_handler() {
        inside.state().owner.silence();
    }
    let failed = exec();
    // Coming in it answers, and may be asked again.
    drop(Inside::enter_in_handler());
    failed
}
