//! The functions behind ours: those that the program would have called.

use crate::sys;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function by its name, found when the library is loaded, or else when it is first needed.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Real {
        Real { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Its address; or `other` if there is none, as where a plugin alone has loaded libaio.
    pub(crate) fn address(&self, other: *mut c_void) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        self.find();
        let found = self.address.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        self.address.store(other, Ordering::Relaxed);
        other
    }

    /// Looks for it: at once, because dlsym(3) is not for signal handlers.
    pub(crate) fn find(&self) {
        // SAFETY: the name ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
    }
}

/// Stands in for any function that is not there, and fails by ENOSYS: arguments in registers are the caller's
/// to forget.
pub(crate) extern "C" fn absent() -> isize {
    sys::returned(-libc::ENOSYS as isize)
}

/// Defines functions that come before others of the same name: each is called with the arguments, and with
/// the function that it stands before, or the one after `else` where that is not there. They may be unwound,
/// as a thread that is cancelled is.
macro_rules! stand_before {
    ($($name:ident = $ours:path $(, else $other:path)?:
        ($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {$(
        #[doc = concat!("Stands before the function of the C library or libaio of this name.\n\n",
            "# Safety\nAs for that function.")]
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[allow(non_snake_case, reason = "C has the names")]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $result {
            static REAL: $crate::real::Real = $crate::real::Real::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                }
            );
            extern "C" fn find() {
                REAL.find();
            }
            #[cfg_attr(not(test), used, unsafe(link_section = ".init_array"))]
            static FIND: extern "C" fn() = find;
            type Function = unsafe extern "C-unwind" fn($($kind),*) -> $result;
            let other = [$($other as Function as *mut std::ffi::c_void,)? $crate::real::absent as *mut _][0];
            // SAFETY: the address is that of a function of this name, which has this type, or of one that has
            // it or takes any arguments.
            let real = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(REAL.address(other)) };
            // SAFETY: by this function's condition.
            unsafe { $ours(real, $($argument),*) }
        }
    )*};
}
pub(crate) use stand_before;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_name_and_one_that_is_not_there_fails() {
        let real = Real::new(c"getpid");
        // SAFETY: it is getpid(2).
        let getpid: extern "C" fn() -> i32 = unsafe { std::mem::transmute(real.address(null_mut())) };
        assert_eq!(getpid(), std::process::id() as i32);
        let other = absent as *mut c_void;
        assert_eq!(Real::new(c"no_such_function").address(other), other);
        assert_eq!((absent(), sys::errno()), (-1, libc::ENOSYS));
    }
}
