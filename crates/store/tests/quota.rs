//! A quota that is used up is reported as a full disk, not as a failure of SQLite. Its own process: SQLite's
//! system calls are replaced for all connections (sqlite.org/c3ref/vfs.html, `xSetSystemCall`).

use iopj_record::{Outcome, StudyRecord, Trial};
use iopj_store::{Store, StoreError};
use rusqlite::ffi;

// SAFETY: takes nothing, so any call of it is sound.
unsafe extern "C" fn refuse() -> isize {
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() = libc::EDQUOT };
    -1
}

/// All ways of SQLite to write; with `None` its own again.
fn set_writes(call: ffi::sqlite3_syscall_ptr) {
    // SAFETY: the default VFS lives as long as the process; the replacement ignores its arguments, which the
    // C calling convention allows; no other thread uses SQLite.
    unsafe {
        let vfs = ffi::sqlite3_vfs_find(std::ptr::null());
        for name in [c"write", c"pwrite", c"pwrite64"] {
            (*vfs).xSetSystemCall.unwrap()(vfs, name.as_ptr(), call);
        }
    }
}

#[test]
fn a_quota_that_is_used_up_is_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("test.iopj"), &StudyRecord::default()).unwrap();
    let path = "io_uring/syscall/interrupt".parse().unwrap();
    let trial = Trial::new(path, Default::default(), Outcome::Failed("it broke".into()));
    set_writes(Some(refuse_as_syscall()));
    let error = store.add(&trial).unwrap_err();
    set_writes(None);
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    assert_eq!(store.trials().unwrap(), [], "the trial is absent");
    store.add(&trial).unwrap();
    assert_eq!(store.trials().unwrap(), [trial]);
}

fn refuse_as_syscall() -> unsafe extern "C" fn() {
    // SAFETY: SQLite casts it back to a function that returns a count before it calls it.
    unsafe { std::mem::transmute::<unsafe extern "C" fn() -> isize, unsafe extern "C" fn()>(refuse) }
}
