//! The lines of a trace: text of bounded length, one at a time, counted.

use super::TraceProblem;
use std::io::{BufRead, Read};

/// The longest line in bytes. fio reads lines of 4 KiB.
const LONGEST: u64 = 64 << 10;

pub(super) struct Lines<R> {
    reader: R,
    line: Vec<u8>,
    /// Of the line that was read last; the first is 1.
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Lines<R> {
        Lines { reader, line: Vec::new(), number: 0 }
    }

    /// The next line without its end; none at the end of the file.
    ///
    /// # Errors
    /// It cannot be read, is too long, or is no UTF-8.
    pub(super) fn next(&mut self) -> Result<Option<&str>, TraceProblem> {
        self.line.clear();
        let mut limited = self.reader.by_ref().take(LONGEST + 1);
        let len = limited.read_until(b'\n', &mut self.line).map_err(TraceProblem::Io)?;
        if len == 0 {
            return Ok(None);
        }
        self.number += 1;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        if self.line.len() as u64 > LONGEST {
            return Err(TraceProblem::LongLine(self.number));
        }
        let text = std::str::from_utf8(&self.line).map_err(|_| TraceProblem::NotText(self.number))?;
        Ok(Some(text))
    }
}
