//! The time that a CPU may take to leave an idle state: a request to the kernel that lasts as long as its
//! file is open.
//!
//! Sources: Documentation/power/pm_qos_interface.rst; kernel/power/qos.c (`cpu_latency_qos_read`,
//! `cpu_latency_qos_write`): the file is read and written as one 32-bit number in the machine's order.
//! Reading gives the least of all requests.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The request of this run, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct DmaLatency {
    file: File,
    us: Option<i32>,
}

impl DmaLatency {
    /// Asks for nothing yet.
    pub(super) fn open(dev: &Path) -> io::Result<DmaLatency> {
        let file = OpenOptions::new().read(true).write(true).open(path(dev))?;
        Ok(DmaLatency { file, us: None })
    }

    /// Asks for at most `us`, and returns the least of all requests.
    pub(super) fn ask(&mut self, us: i32) -> io::Result<i32> {
        if self.us != Some(us) {
            self.file.write_all_at(&us.to_ne_bytes(), 0)?;
            self.us = Some(us);
        }
        read(&self.file)
    }
}

/// The file, below the folder of device nodes.
pub(super) fn path(dev: &Path) -> PathBuf {
    dev.join("cpu_dma_latency")
}

/// The least of all requests now, in us.
///
/// # Errors
/// There is no such file, or only root may open it.
pub(crate) fn current(dev: &Path) -> io::Result<i32> {
    read(&File::open(path(dev))?)
}

fn read(file: &File) -> io::Result<i32> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(i32::from_ne_bytes(bytes))
}
