//! All paths of one drive, over a while, with the content checked.

use crate::common::written;
use crate::guest::MIB;
use crate::host::Bench;

/// Lets the guest's test run for this long; returns what it counted by path.
fn soak(seconds: u64, series: &str) -> Option<String> {
    let mut bench = Bench::new(series)?;
    bench.nvme_options = vec!["poll_queues=2".to_owned()];
    let file = bench.file_drive("soak", 4, 512);
    written(&file, 16 * MIB);
    let script = format!(
        "drives 1\nSEED={seconds} SECONDS_OF_SOAK={seconds} tests --ignored --exact \
         guest::soak::every_path_agrees_on_the_content --nocapture\n"
    );
    let left = bench.run(&script, |_, _| {});
    assert_eq!(left.status, 0, "{}", left.printed);
    Some(left.text("soak"))
}

/// The paths that a drive has on this kernel, with one that changes while it is driven.
fn has_every_path(counts: &str, others: &[&str]) {
    let always = ["posix-sio/syscall/interrupt", "posix-aio/", "libaio/", "nvme-user, changing"];
    for path in always.iter().chain(others) {
        let line = counts.lines().find(|line| line.starts_with(path));
        let count: u64 = line
            .unwrap_or_else(|| panic!("no {path} in\n{counts}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(count > 20, "{counts}");
    }
}

#[test]
fn every_path_of_a_drive_agrees_on_its_content() {
    let Some(counts) = soak(15, "6.18") else { return };
    let rings = ["syscall", "sqpoll"].into_iter().flat_map(|submission| {
        ["io_uring", "nvme-passthrough"].map(|interface| format!("{interface}/{submission}/"))
    });
    let rings: Vec<String> =
        rings.flat_map(|ring| ["interrupt", "poll", "hybrid"].map(|way| format!("{ring}{way}"))).collect();
    has_every_path(&counts, &rings.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
#[ignore = "ten minutes, and as much on an old kernel"]
fn soak_every_path_of_a_drive_agrees_on_its_content() {
    for series in ["6.18", "5.10"] {
        if let Some(counts) = soak(600, series) {
            eprintln!("{series}:\n{counts}");
            has_every_path(&counts, &["io_uring/syscall/poll"]);
        }
    }
}
