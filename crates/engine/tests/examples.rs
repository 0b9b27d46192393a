//! The examples read a file and say how much.
#![expect(clippy::duplicate_mod, reason = "each example has the common module, as a program of its own")]

use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

#[path = "../examples/async.rs"]
#[expect(dead_code, reason = "`main` is for the example alone")]
mod by_async;
#[path = "../examples/blocking.rs"]
#[expect(dead_code, reason = "as above")]
mod by_blocking;
#[path = "../examples/epoll.rs"]
#[expect(dead_code, reason = "as above")]
mod by_epoll;
#[path = "../examples/polling.rs"]
#[expect(dead_code, reason = "as above")]
mod by_polling;

/// What an example says of a file of 1 MiB.
fn said(run: impl Fn(&Path) -> Result<String, Box<dyn std::error::Error>>) -> String {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("data");
    iopj_engine::target::make_file(&file, 1 << 20, &mut |_| true).unwrap();
    run(&file).unwrap()
}

#[test]
fn every_example_reads_what_it_says() {
    assert_eq!(said(by_blocking::run), "4096000 bytes in 1000 reads, one at a time");
    assert_eq!(said(by_epoll::run), "4096000 bytes in 1000 reads, beside a timer");
    assert_eq!(said(by_async::run), "4096000 bytes in 1000 reads by 8 tasks");
    let polled = said(by_polling::run);
    let is_either = polled == "4096000 bytes in 1000 reads on io_uring/syscall/poll"
        || polled.starts_with("io_uring/syscall/poll does not work here: ") && polled.contains("; ");
    assert!(is_either, "{polled}");
}

static INTERRUPTED: AtomicU32 = AtomicU32::new(0);

extern "C" fn interrupts(_: libc::c_int) {
    INTERRUPTED.fetch_add(1, Ordering::Relaxed);
}

/// The end of a ring that the thread had made a moment before ended the loop, as a signal does.
#[test]
fn an_epoll_loop_goes_on_when_its_wait_is_interrupted() {
    // SAFETY: the action is zeroed, which is a valid one without flags, so no call is started again; the
    // handler does nothing but add to an atomic number.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupts as extern "C" fn(libc::c_int) as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let reader = thread::spawn(|| {
        while INTERRUPTED.load(Ordering::Relaxed) < 1000 {
            assert_eq!(said(by_epoll::run), "4096000 bytes in 1000 reads, beside a timer");
        }
    });
    while !reader.is_finished() {
        // SAFETY: the thread may have ended, but is not joined yet, so its number is still its own.
        let sent = unsafe { libc::pthread_kill(reader.as_pthread_t(), libc::SIGUSR1) };
        // An old glibc says of a thread that has ended that there is none.
        assert!([0, libc::ESRCH].contains(&sent), "{sent}");
        thread::sleep(Duration::from_micros(100));
    }
    reader.join().unwrap();
}
