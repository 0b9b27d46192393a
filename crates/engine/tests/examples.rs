//! The examples read a file and say how much.
#![expect(clippy::duplicate_mod, reason = "each example has the common module, as a program of its own")]

use std::path::Path;

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
