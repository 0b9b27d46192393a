//! A run that is alive while the test looks at it.

use crate::common::is_busy;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

/// Killed when dropped.
pub(crate) struct Live {
    command: Command,
    child: Child,
    lines: BufReader<ChildStderr>,
    words: String,
}

impl Live {
    pub(crate) fn start(mut command: Command) -> Live {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Live { command, child, lines, words: String::new() }
    }

    /// Waits until it prints a line that begins with this.
    pub(crate) fn until(&mut self, beginning: &str) {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            self.words += &line;
            if read == 0 {
                assert!(is_busy(&self.words), "it ended without saying `{beginning}`: {}", self.words);
                self.child.wait().unwrap();
                self.child = self.command.spawn().unwrap();
                self.lines = BufReader::new(self.child.stderr.take().unwrap());
                self.words.clear();
            }
            if line.starts_with(beginning) {
                return;
            }
        }
    }

    /// What Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal(libc::SIGINT);
    }

    pub(crate) fn signal(&self, signal: libc::c_int) {
        // SAFETY: no pointer; the child is not yet waited for, so its id is still its own.
        assert_eq!(unsafe { libc::kill(self.child.id().cast_signed(), signal) }, 0);
    }

    /// Waits for its end; returns its exit code and messages.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        let words = std::mem::take(&mut self.words) + &rest;
        assert!(!words.contains("panicked"), "{words}");
        (self.child.wait().unwrap().code(), words)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
