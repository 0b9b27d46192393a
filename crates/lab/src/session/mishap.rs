//! What befalls the drive of a guest, for tests of what a study makes of it.

use crate::vm::{Qmp, RunFolder};

/// What befalls the drive of a guest once its console has shown a text. For tests of what a study makes of
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mishap {
    /// What happens.
    pub kind: MishapKind,
    /// The text.
    pub at: String,
}

/// What happens to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MishapKind {
    /// Every read fails (QEMU's blkdebug).
    ReadErrors,
    /// An NVMe drive answers no more: its access to memory is switched off (the command register of PCI, bit
    /// 2). It happens 2 s after the text; the kernel gives up a command after 3 s and resets the drive.
    Silence,
    /// The drive is pulled (`device_del`).
    Pull,
}

/// What passes the run's lines on in a guest with a mishap, and brings about the one that is the guest's to
/// do. `$drive` is the folder of the drive's PCI function, which a taken drive keeps.
pub(super) fn listener(mishap: &Mishap) -> String {
    if mishap.kind != MishapKind::Silence {
        return "cat".to_owned();
    }
    format!(
        "while IFS= read -r line; do\n\techo \"$line\"\n\tcase \"$line\" in *'{}'*)\n\t\t{{ sleep 2; printf \
         '\\002' | dd of=$drive/config bs=1 seek=4 2>/dev/null; }} & ;;\n\tesac\ndone",
        mishap.at
    )
}

/// Lets a mishap happen whose text has come. One that fails leaves a run without it, which its test will see.
pub(super) fn befall(mishap: &mut Option<Mishap>, text: &str, folder: &RunFolder) {
    let Some(mishap) = mishap.take_if(|mishap| text.contains(&mishap.at)) else { return };
    let Ok(mut qmp) = Qmp::connect(folder) else { return };
    let _ = match mishap.kind {
        MishapKind::ReadErrors => qmp.fail(0),
        MishapKind::Pull => qmp.pull(0),
        MishapKind::Silence => Ok(()),
    };
}
