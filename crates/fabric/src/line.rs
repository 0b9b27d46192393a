//! A stream that stays when its session ends, such as a serial line: both directions of a file, of which
//! nothing stays open once the output is dropped. A thread that waits for input would keep it open for good,
//! and such a line opens only once.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often the input looks whether the output is gone.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The major number of memory, `/dev/null` and their like (the kernel's `devices.txt`).
const MEMORY: u32 = 1;

/// Opens a line in both directions: a socket or a character device, and nothing that keeps what is written.
///
/// # Errors
/// It is anything else, or it cannot be opened.
pub(crate) fn open(path: &Path) -> io::Result<(Input, Output)> {
    let file = match kind(&fs::metadata(path)?)? {
        Kind::Socket => File::from(OwnedFd::from(UnixStream::connect(path)?)),
        Kind::Device => device(path)?,
    };
    let ended = Arc::new(AtomicBool::new(false));
    let output = Output { file: file.try_clone()?, ended: Arc::clone(&ended) };
    Ok((Input { file, ended }, output))
}

enum Kind {
    Socket,
    Device,
}

fn kind(found: &fs::Metadata) -> io::Result<Kind> {
    let kind = found.file_type();
    if kind.is_socket() {
        return Ok(Kind::Socket);
    }
    if kind.is_char_device() && rustix::fs::major(found.rdev()) != MEMORY {
        return Ok(Kind::Device);
    }
    let text = "it is neither a socket nor a device of characters such as a serial line: name the stream to \
                the agent";
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// A serial line without a carrier would wait for one in `open`.
fn device(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)?;
    // In between another may have come in its place.
    kind(&file.metadata()?)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
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
    use std::os::unix::net::UnixListener;

    /// A reader kept the line open, so that no other session could have it.
    #[test]
    fn a_waiting_reader_ends_with_the_output() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("line");
        let listener = UnixListener::bind(&path).unwrap();
        let (mut input, mut output) = open(&path).unwrap();
        let (mut other, _) = listener.accept().unwrap();
        output.write_all(b"first").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(other.read(&mut buffer).unwrap(), 5);
        other.write_all(b"back").unwrap();
        assert_eq!(input.read(&mut buffer).unwrap(), 4);
        let waiting = std::thread::spawn(move || input.read(&mut buffer).unwrap());
        drop(output);
        assert_eq!(waiting.join().unwrap(), 0);
    }

    /// A regular file, and a mounted disk, were overwritten from their first byte.
    #[test]
    fn what_keeps_bytes_is_no_stream() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("victim");
        fs::write(&file, "precious").unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in
            [file.as_path(), &pipe, &link, Path::new("/dev/null"), Path::new("/dev/zero"), folder.path()]
        {
            let error = open(path).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("neither a socket nor a device of characters"), "{error}");
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }

    #[test]
    fn a_terminal_is_a_stream() {
        open(Path::new("/dev/ptmx")).map(drop).unwrap();
    }
}
