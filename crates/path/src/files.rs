//! Files that are read whole, never more than a limit: what a user names may be a pipe; what a file names is
//! a regular file, and is opened without blocking.

use crate::units::format_bytes;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// It is another kind of file, or it cannot be opened.
pub fn open_regular(path: &Path) -> Result<File, Error> {
    // Before it is opened: opening a device may do something to it.
    regular(&fs::metadata(path)?)?;
    // In between another may have come in its place.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    regular(&file.metadata()?)?;
    Ok(file)
}

/// Reads a whole regular file of at most `most` bytes.
///
/// # Errors
/// It is another kind of file, it is longer, or it cannot be read.
pub fn read_regular(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    read_at_most(open_regular(path)?, most)
}

/// The same for a text.
///
/// # Errors
/// As for [`read_regular`], and for bytes that are not UTF-8.
pub fn read_regular_text(path: &Path, most: u64) -> Result<String, Error> {
    text(read_regular(path, most)?)
}

/// Reads a whole regular file or pipe of at most `most` bytes, which the user named.
///
/// # Errors
/// It is neither, it is longer, or it cannot be read.
pub fn read_whole(path: &Path, most: u64) -> Result<Vec<u8>, Error> {
    let found = fs::metadata(path)?;
    if !found.file_type().is_fifo() {
        return read_regular(path, most);
    }
    let pipe = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    read_at_most(Pipe(pipe), most)
}

/// A pipe, of which a signal ends the wait for a writer, and for what it writes.
struct Pipe(File);

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        loop {
            // A signal that is handled ends it, and never starts it again (signal(7)).
            let waited = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], None);
            if waited == Err(Errno::INTR) {
                return Err(Error::other("a signal ended the wait for what another program writes into it"));
            }
            waited?;
            match self.0.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// The same for a text.
///
/// # Errors
/// As for [`read_whole`], and for bytes that are not UTF-8.
pub fn read_whole_text(path: &Path, most: u64) -> Result<String, Error> {
    text(read_whole(path, most)?)
}

fn regular(found: &fs::Metadata) -> Result<(), Error> {
    let kind = found.file_type();
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "folder",
        _ if kind.is_fifo() => "pipe",
        _ => "device or socket",
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("it is a {what}, not a file")))
}

fn read_at_most(file: impl Read, most: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let text = format!("it is longer than {}", format_bytes(most));
        return Err(Error::new(ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

fn text(bytes: Vec<u8>) -> Result<String, Error> {
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_folders_and_long_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "12345678").unwrap();
        assert_eq!(read_whole_text(&file, 8).unwrap(), "12345678");
        assert_eq!(read_regular_text(&file, 8).unwrap(), "12345678");
        let refused = |path: &Path, most| {
            let [whole, regular] = [read_whole(path, most), read_regular(path, most)];
            let text = whole.unwrap_err().to_string();
            assert_eq!(regular.unwrap_err().to_string(), text);
            text
        };
        assert_eq!(refused(&file, 7), "it is longer than 7");
        assert_eq!(refused(Path::new("/dev/zero"), 8), "it is a device or socket, not a file");
        assert_eq!(refused(folder.path(), 8), "it is a folder, not a file");
        fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_whole_text(&file, 8).unwrap_err().to_string(), "it is not UTF-8 text");
    }

    /// It was opened, which waits until somebody writes.
    #[test]
    fn a_pipe_is_read_only_where_the_user_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        assert_eq!(read_regular(&pipe, 8).unwrap_err().to_string(), "it is a pipe, not a file");
        let named = pipe.clone();
        let writer = std::thread::spawn(move || fs::write(named, "x").unwrap());
        assert_eq!(read_whole(&pipe, 8).unwrap(), b"x");
        writer.join().unwrap();
    }

    /// The first signal did nothing: the opening began anew.
    #[test]
    fn a_signal_ends_the_wait_for_a_pipe_that_nobody_writes() {
        extern "C" fn nothing(_: libc::c_int) {}
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        // SAFETY: the handler does nothing, and no other test of this crate uses the signal.
        unsafe { libc::signal(libc::SIGUSR2, nothing as *const () as libc::sighandler_t) };
        // SAFETY: it takes nothing.
        let this = unsafe { libc::pthread_self() };
        let (sender, done) = std::sync::mpsc::channel::<()>();
        let signals = std::thread::spawn(move || {
            let pause = std::time::Duration::from_millis(5);
            while done.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                // SAFETY: the thread waits for this one at its end.
                unsafe { libc::pthread_kill(this, libc::SIGUSR2) };
            }
        });
        let error = read_whole(&pipe, 8).unwrap_err().to_string();
        drop(sender);
        signals.join().unwrap();
        assert!(error.starts_with("a signal ended the wait"), "{error}");
    }
}
