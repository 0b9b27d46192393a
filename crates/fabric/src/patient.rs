//! Output of a program on its way from another host: nothing is waited for without end, and nothing is kept
//! without a limit.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a wait looks whether it is to stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The longest line that is kept of what a program says, in bytes; the rest of it is passed over.
const LONGEST_LINE: u64 = 4096;

/// A stream that ends with an error once nothing has come for so long, or somebody says stop.
#[derive(Debug)]
pub(crate) struct Patient<'a, S> {
    stream: S,
    silence: Duration,
    stop: &'a AtomicBool,
}

impl<'a, S: Read + AsFd> Patient<'a, S> {
    /// Waits at most `silence` for each part.
    pub(crate) fn new(stream: S, silence: Duration, stop: &'a AtomicBool) -> Patient<'a, S> {
        Patient { stream, silence, stop }
    }
}

impl<S: Read + AsFd> Read for Patient<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let until = Instant::now() + self.silence;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other("it was stopped"));
            }
            let mut polled = [PollFd::new(&self.stream, PollFlags::IN)];
            match poll(&mut polled, Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) if Instant::now() >= until => {
                    let text = format!("nothing came for {} s", self.silence.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return self.stream.read(buffer),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Calls `take` with each line of a stream until its end, each cut where it is too long to be meant.
pub(crate) fn for_each_line(stream: impl Read, mut take: impl FnMut(&str)) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        match stream.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => take(String::from_utf8_lossy(&line).trim()),
        }
        // What a line has beyond the limit is no line of its own.
        while !line.ends_with(b"\n") {
            line.clear();
            match stream.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_silent_stream_ends_and_so_does_one_that_is_stopped() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let stop = AtomicBool::new(false);
        let mut patient = Patient::new(theirs, Duration::from_millis(150), &stop);
        ours.write_all(b"abc").unwrap();
        let mut buffer = [0; 8];
        assert_eq!(patient.read(&mut buffer).unwrap(), 3);
        let error = patient.read(&mut buffer).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(patient.read(&mut buffer).unwrap_err().to_string(), "it was stopped");
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let text = format!("first\n{}\nlast", "x".repeat(100_000));
        let mut lines = Vec::new();
        for_each_line(text.as_bytes(), |line| lines.push(line.to_owned()));
        assert_eq!((lines[0].as_str(), lines[1].len(), lines[2].as_str()), ("first", 4096, "last"));
    }
}
