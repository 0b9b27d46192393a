//! Codes of failures, the text of a thread's last one, and the guard that no panic passes.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The call did what it says.
pub const IOPJ_OK: i32 = 0;
/// A null pointer, a text or a number that the call does not take.
pub const IOPJ_ERROR_ARGUMENT: i32 = -1;
/// The handle is closed, of another kind, of another thread, or made up; or there are no more handles.
pub const IOPJ_ERROR_HANDLE: i32 = -2;
/// A buffer that the caller does not have: it is in flight, it was released, or there is none of this index.
pub const IOPJ_ERROR_BUFFER: i32 = -3;
/// The target cannot be opened or made.
pub const IOPJ_ERROR_TARGET: i32 = -4;
/// The pool has no memory.
pub const IOPJ_ERROR_POOL: i32 = -5;
/// The engine cannot be opened, or is finished.
pub const IOPJ_ERROR_ENGINE: i32 = -6;
/// The engine does not take the request; nothing was done, and the caller still has the buffer.
pub const IOPJ_ERROR_REFUSED: i32 = -7;
/// As many requests are in flight as the engine takes; the caller still has the buffer.
pub const IOPJ_ERROR_FULL: i32 = -8;
/// All buffers of the pool are with the caller or in flight.
pub const IOPJ_ERROR_NO_BUFFER: i32 = -9;
/// The pool has an engine that is open.
pub const IOPJ_ERROR_BUSY: i32 = -10;
/// It is closed, and requests that had not ended keep their memory for ever.
pub const IOPJ_ERROR_LEAKED: i32 = -11;
/// A fault of iopj's own.
pub const IOPJ_ERROR_PANIC: i32 = -12;

/// Why a call failed: one of the codes, and a text that names the thing, the cause and the remedy.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) text: String,
}

/// What comes of a call.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// A failure with this code and text.
#[cold]
pub(crate) fn failure(code: i32, text: impl ToString) -> Failure {
    Failure { code, text: text.to_string() }
}

/// What a function returns to C.
pub(crate) trait Answer {
    /// What it returns if it failed.
    fn failed(code: i32) -> Self;
}

impl Answer for i32 {
    fn failed(code: i32) -> i32 {
        code
    }
}

impl Answer for u64 {
    fn failed(_: i32) -> u64 {
        0
    }
}

impl Answer for *const c_char {
    fn failed(_: i32) -> *const c_char {
        c"".as_ptr()
    }
}

thread_local! {
    /// The code and the text of this thread's last failure.
    static LAST: RefCell<(i32, Option<CString>)> = const { RefCell::new((IOPJ_OK, None)) };
}

/// Does the work of a call of C's. A failure and a panic become the thread's last failure; neither goes on.
pub(crate) fn guard<T: Answer>(work: impl FnOnce() -> Outcome<T>) -> T {
    // Nothing that a panic leaves half done is unsound to use: `iopj-engine` is safe code to this crate.
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(answer)) => return answer,
        Ok(Err(failure)) => failure,
        Err(payload) => panicked(payload),
    };
    let code = failure.code;
    remember(failure);
    T::failed(code)
}

#[cold]
fn panicked(payload: Box<dyn Any + Send>) -> Failure {
    let said = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let said = said.or_else(|| payload.downcast_ref::<String>().cloned());
    // The payload's own drop may panic as well.
    std::mem::forget(payload);
    let said = said.unwrap_or_else(|| "it did not say why".to_owned());
    failure(
        IOPJ_ERROR_PANIC,
        format!("iopj has a fault of its own ({said}): close this thread's handles and report it"),
    )
}

#[cold]
fn remember(Failure { code, text }: Failure) {
    let text = CString::new(text.replace('\0', "\\0")).ok();
    // A thread that is ending has no place for it any more: the code must do.
    let _ = LAST.try_with(|last| *last.borrow_mut() = (code, text));
}

/// The text of the last call of this thread that failed: it names the thing, the cause and the remedy. Empty
/// if none has failed yet; never `NULL`. It is valid until another call of this thread fails, or the thread
/// ends. A call that succeeds leaves it as it is.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_last_error() -> *const c_char {
    guard(|| {
        let text = |last: &RefCell<(i32, Option<CString>)>| last.borrow().1.as_deref().map(CStr::as_ptr);
        Ok(LAST.try_with(text).ok().flatten().unwrap_or(c"".as_ptr()))
    })
}

/// The code of the last call of this thread that failed, or `IOPJ_OK` if none has failed yet.
#[unsafe(no_mangle)]
pub extern "C" fn iopj_last_code() -> i32 {
    guard(|| Ok(LAST.try_with(|last| last.borrow().0).unwrap_or(IOPJ_ERROR_HANDLE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last() -> String {
        // SAFETY: the text is one of this thread's, and no call fails before it is copied.
        unsafe { CStr::from_ptr(iopj_last_error()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_ends_in_the_call() {
        assert_eq!((iopj_last_code(), last().as_str()), (IOPJ_OK, ""));
        let code: i32 = guard(|| panic!("three is not {}", 4));
        assert_eq!(code, IOPJ_ERROR_PANIC);
        assert_eq!(iopj_last_code(), IOPJ_ERROR_PANIC);
        assert!(last().contains("(three is not 4)"), "{}", last());
        let handle: u64 = guard(|| std::panic::panic_any(7));
        assert_eq!(handle, 0);
        assert!(last().contains("did not say why"), "{}", last());
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_does_not_cross() {
        struct Spiteful;
        impl Drop for Spiteful {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        let code: i32 = guard(|| std::panic::panic_any(Spiteful));
        assert_eq!(code, IOPJ_ERROR_PANIC);
    }

    #[test]
    fn the_last_failure_is_a_threads_own_and_outlives_success() {
        let code: i32 = guard(|| Err(failure(IOPJ_ERROR_POOL, "nothing\0left")));
        assert_eq!(code, IOPJ_ERROR_POOL);
        let code: i32 = guard(|| Ok(3));
        assert_eq!((code, last().as_str()), (3, "nothing\\0left"));
        std::thread::spawn(|| assert_eq!(iopj_last_code(), IOPJ_OK)).join().unwrap();
    }
}
