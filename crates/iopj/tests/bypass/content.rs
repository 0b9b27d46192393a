//! What is read and written past the kernel is what its own driver writes and reads.

use crate::common::written;
use crate::guest::{MIB, digest};
use crate::host::Bench;

const PAIRS: u32 = 4;

/// Two drives, of blocks of 512 and of 4096 bytes, each written by the kernel's driver, taken, read and written on all
/// its queue pairs at once, given back, and compared.
fn content_is_whole(series: &str) {
    let Some(mut bench) = Bench::new(series) else { return };
    let files = [("512", 512), ("4096", 4096)].map(|(name, block_bytes)| {
        let path = bench.file_drive(name, PAIRS, block_bytes);
        written(&path, 64 * MIB);
        path
    });
    let before = files.each_ref().map(|path| digest(&std::fs::read(path).unwrap()));
    let left = bench.run("drives 2\nbypass --ignored --exact guest::content::is_whole --nocapture\n", |_, _| {});
    assert_eq!(left.status, 0, "{}", left.printed);
    for (number, path) in files.iter().enumerate() {
        let on_host = digest(&std::fs::read(path).unwrap());
        assert_eq!(format!("{on_host:016x}"), left.text(&format!("digest.{number}")), "{}", left.printed);
        assert_ne!(on_host, before[number]);
    }
}

#[test]
fn content_is_whole_on_6_18() {
    content_is_whole("6.18");
}

#[test]
fn content_is_whole_on_6_1() {
    content_is_whole("6.1");
}
