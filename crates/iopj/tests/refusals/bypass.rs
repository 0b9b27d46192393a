//! Kernel bypass that is refused: a drive that is not named, missing, or named without need.

use crate::common::{folder, iopj, refusal};
use crate::{PLAIN, refuses, succeeds};
use std::fs;
use std::path::Path;

const NOT_TAKEN: &str =
    "the target has no NVMe controller of its own, and none is taken from the kernel's driver";

#[test]
fn a_drive_that_is_not_named_is_not_taken() {
    let folder = folder().with_data(1 << 20);
    for path in [
        "nvme-user/doorbell/poll",
        "nvme-user/doorbell/interrupt",
        "spdk/doorbell/poll",
        "auto:nvme-user/doorbell/poll",
    ] {
        let line = format!("run --target data {}", PLAIN.replace("posix-sio/syscall/interrupt", path));
        let parts =
            [&*format!("none of the study's paths works on data: {path}"), NOT_TAKEN, "--take-device"];
        refuses(&folder, &line, &parts);
    }
    // Paths that need no drive of their own run without mention of bypass.
    let line =
        format!("run --target data {} --json", PLAIN.replace("posix-sio/syscall/interrupt", "available"));
    let (text, _) = succeeds(&mut iopj(&folder, &line));
    assert!(text.contains("libaio/syscall/interrupt") && !text.contains("nvme-user"), "{text}");
}

#[test]
fn a_drive_that_no_path_needs_is_not_taken() {
    let folder = folder().with_data(1 << 20);
    let line = format!("run --target data --take-device 0000:01:00.0 {PLAIN}");
    let parts = [
        "--take-device names 0000:01:00.0, but the study has no path of kernel bypass",
        "leave the option out",
    ];
    refuses(&folder, &line, &parts);
}

#[test]
fn a_drive_that_is_not_there_is_refused() {
    let folder = folder().with_data(1 << 20);
    let parts = ["there is no PCI device fffe:1f:1f.7", "`lspci -D -d ::0108` lists the NVMe controllers"];
    let check = "check data --take-device fffe:1f:1f.7";
    refuses(&folder, check, &parts);
    // PCI functions that are not NVMe controllers are left alone, whatever this machine has.
    for function in fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten() {
        let class = fs::read_to_string(function.path().join("class")).unwrap();
        if class.trim() != "0x010802" {
            let address = function.file_name().into_string().unwrap();
            let said = format!("{address} is not an NVMe controller (its class is {}", class.trim());
            let check = format!("check data --take-device {address} --i-know-no-iommu");
            refuses(&folder, &check, &[&said]);
        }
    }
}

#[test]
fn words_of_taking_are_checked() {
    let folder = folder().with_data(1 << 20);
    for (words, part) in [
        ("--take-device nvme0", "`nvme0` is not a PCI address: write it in full as 0000:01:00.0"),
        ("--take-device ../nvme", "is not a PCI address"),
        ("--i-know-no-iommu", "--take-device <PCI-ADDRESS>"),
    ] {
        for line in [format!("check data {words}"), format!("run --target data {PLAIN} {words}")] {
            let said = refusal(&folder, &line);
            assert!(said.contains(part), "{said}");
        }
    }
}

#[test]
fn a_plugin_runs_only_where_it_is_allowed() {
    let folder = folder().with_data(1 << 20);
    let plugin = folder.join("spdk_nvme");
    let study = |keys: &str| {
        let head = "name = \"t\"\npaths = \"posix-sio/syscall/interrupt\"\ngenerator = \"fio\"\nmeters = \
                    \"none\"";
        fs::write(folder.join("t.toml"), format!("{head}\n[fio]\n{keys}\n[[workload]]\nios = 200\n"))
            .unwrap();
    };
    let run = |parts: &[&str]| refuses(&folder, "run t.toml --target data", parts);
    study(&format!("spdk_plugin = \"{}\"", plugin.display()));
    run(&["`fio.spdk_plugin` = ", &plugin.display().to_string(), "allow it by --allow exec"]);
    study("spdk_plugins = \"x\"");
    run(&["unknown key `spdk_plugins` in [fio]: did you mean `spdk_plugin`?"]);
    assert!(!Path::new("t.iopj").exists());
}
