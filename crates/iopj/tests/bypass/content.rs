//! Reads and writes past the kernel agree with those of its own driver.

use crate::common::written;
use crate::guest::{MIB, digest};
use crate::host::Bench;

const PAIRS: u32 = 4;

/// What a guest needs to take a drive without an IOMMU.
const NO_IOMMU: &str =
    "echo 1 >/sys/module/vfio/parameters/enable_unsafe_noiommu_mode\necho 64 >/proc/sys/vm/nr_hugepages\n";

/// Two drives, of blocks of 512 and of 4096 bytes, each written by the kernel's driver, taken by this way of
/// VFIO, read and written on all its queue pairs at once, given back, and compared.
fn content_is_whole(mut bench: Bench, vfio: &str) {
    bench.iommu = vfio != "no-iommu";
    let files = [("512", 512), ("4096", 4096)].map(|(name, block_bytes)| {
        let path = bench.file_drive(name, PAIRS, block_bytes);
        written(&path, 64 * MIB);
        path
    });
    let before = files.each_ref().map(|path| digest(&std::fs::read(path).unwrap()));
    let ready = if bench.iommu { "" } else { NO_IOMMU };
    let script = format!(
        "drives 2\n{ready}VFIO={vfio} tests --ignored --exact guest::content::is_whole --nocapture\n"
    );
    let left = bench.run(&script, |_, _| {});
    assert_eq!(left.status, 0, "{}", left.printed);
    for (number, path) in files.iter().enumerate() {
        let on_host = digest(&std::fs::read(path).unwrap());
        assert_eq!(format!("{on_host:016x}"), left.text(&format!("digest.{number}")), "{}", left.printed);
        assert_ne!(on_host, before[number]);
    }
}

#[test]
fn content_is_whole_on_6_18() {
    let Some(bench) = Bench::new("6.18") else { return };
    content_is_whole(bench, "type1");
}

#[test]
fn content_is_whole_on_6_1() {
    let Some(bench) = Bench::new("6.1") else { return };
    content_is_whole(bench, "type1");
}

#[test]
#[ignore = "needs a kernel that no distribution builds: see CONTRIBUTING.md"]
fn content_is_whole_through_iommufd() {
    content_is_whole(Bench::with_own_kernel(), "iommufd");
}

#[test]
#[ignore = "needs a kernel that no distribution builds: see CONTRIBUTING.md"]
fn content_is_whole_without_an_iommu() {
    content_is_whole(Bench::with_own_kernel(), "no-iommu");
}
