//! Whether KVM can run a guest here, found by running one.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::console::Console;
use super::qemu::qemu_version;
use super::run::boot;
use super::spec::{Accelerator, MachineSpec};
use super::{RunFolder, VmError};
use crate::arch::Arch;
use crate::image;

const LIMIT: Duration = Duration::from_secs(15);
const SIGN: &str = "lab: kvm works";

/// Whether KVM runs a guest here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kvm {
    /// Yes.
    Works,
    /// No, for this reason.
    Fails(String),
}

/// The answer, valid for one boot of the host and one QEMU.
#[derive(Serialize, Deserialize)]
struct Found {
    boot_id: String,
    qemu: String,
    answer: Kvm,
}

/// Boots this kernel with KVM and a root that only greets, for at most 15 seconds. The answer is kept in the
/// cache until the host reboots or QEMU changes.
///
/// An open `/dev/kvm` proves little: inside another virtual machine it may exist and run nothing.
///
/// # Errors
/// [`VmError`] if QEMU or busybox is missing or the cache cannot be written.
pub fn kvm(cache: &Path, kernel: &Path) -> Result<Kvm, VmError> {
    let kept = cache.join("kvm.json");
    let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(VmError::at(&kept))?;
    let qemu = qemu_version(Arch::HOST)?;
    let found: Option<Found> = fs::read(&kept).ok().and_then(|text| serde_json::from_slice(&text).ok());
    if let Some(found) = found.filter(|found| found.boot_id == boot_id && found.qemu == qemu) {
        return Ok(found.answer);
    }
    let answer = match openable() {
        // Another user, or this one in another group, may succeed: not worth keeping.
        Err(cause) => return Ok(Kvm::Fails(cause.to_string())),
        Ok(()) => try_boot(cache, kernel)?,
    };
    let found = Found { boot_id, qemu, answer };
    let text = serde_json::to_vec(&found).map_err(|error| VmError::at(&kept)(error.into()))?;
    fs::write(&kept, text).map_err(VmError::at(&kept))?;
    Ok(found.answer)
}

/// Why this user cannot open the device, and what to do.
#[derive(Debug, thiserror::Error)]
enum DeviceError {
    #[error(
        "there is no /dev/kvm: load the module kvm_intel or kvm_amd, or switch virtualisation on in the \
         firmware"
    )]
    Missing,
    #[error("/dev/kvm cannot be opened ({0}): join the group kvm")]
    Denied(io::Error),
}

/// Whether this user may open the device.
fn openable() -> Result<(), DeviceError> {
    let opened = File::options().read(true).write(true).open("/dev/kvm");
    opened.map(drop).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => DeviceError::Missing,
        _ => DeviceError::Denied(error),
    })
}

fn try_boot(cache: &Path, kernel: &Path) -> Result<Kvm, VmError> {
    let folder = RunFolder::create(cache)?;
    let initramfs = folder.path().join("initramfs");
    image::build_bare(&format!("#!/bin/sh\necho {SIGN}\npoweroff -f\n"), &initramfs)?;
    let spec = MachineSpec {
        wire: None,
        arch: Arch::HOST,
        kernel: kernel.to_path_buf(),
        initramfs,
        accelerator: Accelerator::Kvm,
        vcpus: 1,
        memory_mib: 512,
        drives: Vec::new(),
        kernel_arguments: Vec::new(),
        iommu: false,
        boot_limit: LIMIT,
        time_limit: LIMIT,
    };
    let mut greeted = false;
    let mut line = |line: &str| greeted |= line.contains(SIGN);
    let ended = boot(&spec, &folder, spec.boot_limit, &AtomicBool::new(false), &mut Console::new(&mut line));
    Ok(Kvm::Fails(match ended {
        _ if greeted => return Ok(Kvm::Works),
        Ok(()) => "a guest under KVM ends without printing anything".to_owned(),
        Err(VmError::NotUp { .. }) => {
            format!("a guest under KVM does not boot within {} s", LIMIT.as_secs())
        }
        Err(VmError::Refused { messages, .. }) => format!("QEMU gives up under KVM: {messages}"),
        Err(VmError::Died { status, .. }) => format!("QEMU dies under KVM ({status})"),
        Err(VmError::Panic { panic, .. }) => format!("the kernel gives up under KVM: {panic}"),
        Err(error) => return Err(error),
    }))
}
