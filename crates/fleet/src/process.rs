//! A process of a host, told from others by its start and its boot, and by what it runs.

use serde::{Deserialize, Serialize};
use std::fs;

/// A process, told from one that has its number later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// The boot.
    pub boot: String,
    /// When it started, in the kernel's ticks since the boot.
    pub start: u64,
}

impl Process {
    /// A process that runs; `None` once it is gone.
    pub fn of(pid: u32) -> Option<Process> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // `pid (name) state …`, where the name may hold anything; the start is field 22 (proc(5)).
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let is_gone = matches!(fields.next()?, "Z" | "X");
        let start = fields.nth(18)?.parse().ok()?;
        (!is_gone).then_some(Process { pid, boot: boot_id(), start })
    }

    /// Whether it is `iopj fleet job`, as its command line says: a state in a user's folder may name any
    /// process, and root would end it.
    pub fn is_job(&self) -> bool {
        let line = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0).skip(1);
        self.is_alive() && words.next() == Some(b"fleet") && words.next() == Some(b"job")
    }

    /// Whether it runs, as seen from its host.
    pub fn is_alive(&self) -> bool {
        Process::of(self.pid).as_ref() == Some(self)
    }
}

/// The id of this boot.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
