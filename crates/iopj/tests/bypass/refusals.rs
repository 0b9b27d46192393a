//! Drives that are not taken: one message with thing, cause and remedy, exit code 2, and the drive as it was.

use crate::common::{have, says, tool};
use crate::host::{Bench, Left};
use iopj_lab::vm::{Backend, Drive, Nvme};
use std::process::Command;

const SHORT: &str = "--path nvme-user/doorbell/poll --iodepth 1 --ios 200 --replicates 1";

fn nothing() -> Backend {
    Backend::Null { size_bytes: 1 << 30, latency_ns: 0 }
}

/// Asserts that an attempt was refused in these words, changed nothing and left no store.
#[track_caller]
pub(crate) fn refused(left: &Left, name: &str, parts: &[&str]) {
    let messages = left.text(&format!("{name}.messages"));
    says(&messages, parts);
    assert_eq!(left.text(&format!("{name}.status")), "2", "{messages}");
    assert_eq!(messages.lines().filter(|line| line.starts_with("iopj: ")).count(), 1, "{messages}");
    assert_eq!(left.text(&format!("{name}.driver")), "nvme");
    assert_eq!(left.text(&format!("{name}.node")), "0", "its block device is there");
    assert!(!left.has(&format!("{name}.iopj")));
}

#[test]
fn a_drive_in_use_or_in_company_is_not_taken() {
    let tools = ["mkfs.ext4", "e2fsck"].iter().all(|name| Command::new(name).arg("-V").output().is_ok());
    if !have(tools, "mkfs.ext4 and e2fsck") {
        return;
    }
    let Some(mut bench) = Bench::new("6.18") else { return };
    bench.modules = vec!["ext4"];
    let image = bench.file_drive("mounted", 4, 512);
    std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    tool(&format!("mkfs.ext4 -q {}", image.display()));
    bench.drives.push(Drive::Nvme(Nvme::new(2, nothing())));
    bench.drives.push(Drive::Nvme(Nvme::new(2, nothing())));
    bench.drives.push(Drive::Nvme(Nvme { second_function: true, ..Nvme::new(2, nothing()) }));
    let script = format!(
        "drives 4\nmounted=$(address 0) few=$(address 1) first=$(address 2) second=$(address 3)\nmount -t \
         ext4 $(node $mounted) /mnt || exit 96\necho kept >/mnt/file\nattempt mounted $mounted \
         {SHORT}\necho more >>/mnt/file; cat /mnt/file >/out/file; umount /mnt\nattempt group $first \
         {SHORT}\ndriver $second >/out/second\nattempt jobs $few {SHORT} --numjobs 8\nattempt writes $few \
         {SHORT} --rw randwrite\n"
    );
    let left = bench.run(&script, |_, _| {});
    refused(&left, "mounted", &["cannot be taken: nvme", "is mounted on /mnt; unmount it"]);
    assert_eq!(left.text("file"), "kept\nmore");
    tool(&format!("e2fsck -fn {}", image.display()));
    refused(&left, "group", &["cannot be taken: its IOMMU group", "(nvme)", "another slot"]);
    assert_eq!(left.text("second"), "nvme");
    refused(&left, "jobs", &["2 I/O queue pairs", "numjobs"]);
    refused(&left, "writes", &["--destroy-data"]);
}

#[test]
fn without_an_iommu_no_drive_is_taken() {
    let Some(mut bench) = Bench::new("6.18") else { return };
    bench.iommu = false;
    bench.drives.push(Drive::Nvme(Nvme::new(2, nothing())));
    let script = format!(
        "drives 1\ndrive=$(address 0)\nattempt iommu $drive {SHORT}\nattempt mode $drive --i-know-no-iommu \
         {SHORT}\nrmmod vfio-pci\nattempt module $drive {SHORT}\n"
    );
    let left = bench.run(&script, |_, _| {});
    refused(&left, "iommu", &["has no IOMMU", "intel_iommu=on", "--i-know-no-iommu"]);
    refused(&left, "mode", &["has no IOMMU", "CONFIG_VFIO_NOIOMMU"]);
    refused(&left, "module", &["the driver vfio-pci is not there", "modprobe vfio-pci"]);
}
