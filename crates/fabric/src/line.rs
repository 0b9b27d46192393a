//! A stream that stays when its session ends, such as a serial line: both directions of a file, of which
//! nothing stays open once the output is dropped. A thread that waits for input would keep it open for good,
//! and such a line opens only once.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often the input looks whether the output is gone.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Opens a line in both directions.
pub(crate) fn open(path: &Path) -> io::Result<(Input, Output)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let ended = Arc::new(AtomicBool::new(false));
    let output = Output { file: file.try_clone()?, ended: Arc::clone(&ended) };
    Ok((Input { file, ended }, output))
}

/// What comes in. It ends when the output is dropped.
pub(crate) struct Input {
    file: File,
    ended: Arc<AtomicBool>,
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.ended.load(Ordering::Relaxed) {
                return Ok(0);
            }
            let mut polled = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut polled, Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return self.file.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What goes out.
pub(crate) struct Output {
    file: File,
    ended: Arc<AtomicBool>,
}

impl Drop for Output {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader kept the line open, so that no other session could have it.
    #[test]
    fn a_waiting_reader_ends_with_the_output() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("line");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let (mut input, mut output) = open(&path).unwrap();
        output.write_all(b"first").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(input.read(&mut buffer).unwrap(), 5);
        let waiting = std::thread::spawn(move || input.read(&mut buffer).unwrap());
        drop(output);
        assert_eq!(waiting.join().unwrap(), 0);
    }
}
