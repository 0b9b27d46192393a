//! Faults of a guest's drive while a study runs, for tests of what the study makes of them.

use crate::vm::{Qmp, RunFolder};

/// A fault of the guest's drive, injected once the console has shown a line that begins with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happens.
    pub kind: FaultKind,
    /// The text.
    pub at: String,
}

/// What happens to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Every read fails (QEMU's blkdebug).
    ReadErrors,
    /// An NVMe drive stops answering: its access to memory is switched off (bit 2 of PCI's command register).
    /// It happens 2 s after the text; the kernel gives up a command after 3 s and resets the drive.
    Silence,
    /// The drive is pulled (`device_del`).
    Pull,
}

/// The shell command that passes on the run's lines in a guest with a fault, and injects a fault that the
/// guest must inject itself. `$drive` is the folder of the drive's PCI function, which a taken drive keeps.
pub(super) fn relay(fault: &Fault) -> String {
    if fault.kind != FaultKind::Silence {
        return "cat".to_owned();
    }
    format!(
        "while IFS= read -r line; do\n\techo \"$line\"\n\tcase \"$line\" in '{}'*)\n\t\t{{ sleep 2; printf \
         '\\002' | dd of=$drive/config bs=1 seek=4 2>/dev/null; }} & ;;\n\tesac\ndone",
        fault.at
    )
}

/// Injects the fault if its text has come. If that fails the run has no fault, which its test will see.
pub(super) fn inject(fault: &mut Option<Fault>, text: &str, folder: &RunFolder) {
    let Some(fault) = fault.take_if(|fault| text.starts_with(&fault.at)) else { return };
    let Ok(mut qmp) = Qmp::connect(folder) else { return };
    let _ = match fault.kind {
        FaultKind::ReadErrors => qmp.fail(0),
        FaultKind::Pull => qmp.pull(0),
        FaultKind::Silence => Ok(()),
    };
}
