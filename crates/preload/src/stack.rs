//! How much room a thread has on its stack: a program may give its threads no more than its own calls need.

use std::cell::Cell;
use std::ffi::c_void;

/// What opening an engine takes, without optimization.
pub(crate) const TO_OPEN: usize = 256 << 10;
/// What a call takes.
pub(crate) const TO_CALL: usize = 128 << 10;

thread_local! {
    /// The lowest address of the stack and the first behind it, once it was asked; both 0 until then.
    static BOUNDS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// True if the thread has so many bytes left. On a stack of another making, as coroutines have, it has none.
/// The first time it asks the C library, which may allocate.
pub(crate) fn has_room(bytes: usize) -> bool {
    let here = 0_u8;
    let place = (&raw const here).addr();
    let (mut low, mut high) = BOUNDS.get();
    if high == 0 {
        (low, high) = ask().unwrap_or((1, 1));
        BOUNDS.set((low, high));
    }
    (low..high).contains(&place) && place - low >= bytes
}

/// The stack that the thread was made with (pthread_getattr_np(3)).
fn ask() -> Option<(usize, usize)> {
    let (mut low, mut len): (*mut c_void, usize) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are written by the first call before the others read them.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut len);
        libc::pthread_attr_destroy(&raw mut attributes);
    }
    Some((low.addr(), low.addr() + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_what_it_was_made_with() {
        let of = |len| {
            std::thread::Builder::new()
                .stack_size(len)
                .spawn(|| (has_room(TO_CALL / 2), has_room(TO_OPEN), has_room(usize::MAX)))
                .unwrap()
                .join()
                .unwrap()
        };
        assert_eq!((of(1 << 20), of(128 << 10)), ((true, true, false), (true, false, false)));
    }
}
