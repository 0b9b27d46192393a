//! What a program printed: read as it comes, so that a full pipe never holds the program up, and kept up to a
//! limit.

use std::borrow::Cow;
use std::collections::VecDeque;

/// The most bytes that are kept: the last ones.
pub const MOST_OUTPUT: usize = if cfg!(test) { 16 << 10 } else { 16 << 20 };
/// Lines that a message shows, and characters of each.
const LINES: usize = 5;
const WIDTH: usize = 200;

/// The last bytes of what a program printed, and how many there were in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    kept: VecDeque<u8>,
    printed: u64,
}

impl Output {
    /// All of these bytes.
    pub fn of(bytes: &[u8]) -> Output {
        let mut output = Output::default();
        output.add(bytes);
        output
    }

    /// Adds what was printed next.
    pub fn add(&mut self, bytes: &[u8]) {
        self.printed += bytes.len() as u64;
        self.kept.extend(&bytes[bytes.len().saturating_sub(MOST_OUTPUT)..]);
        self.kept.drain(..self.kept.len().saturating_sub(MOST_OUTPUT));
    }

    /// Bytes that were printed.
    pub fn printed(&self) -> u64 {
        self.printed
    }

    /// True if the first bytes are no longer there.
    pub fn is_cut(&self) -> bool {
        self.printed > self.kept.len() as u64
    }

    /// What is kept as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        match self.kept.as_slices() {
            (all, []) => String::from_utf8_lossy(all),
            (first, last) => Cow::Owned(String::from_utf8_lossy(&[first, last].concat()).into_owned()),
        }
    }
}

/// The last lines of a text for a message, in one line; control characters are escaped.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let shown = &lines[lines.len().saturating_sub(LINES)..];
    let cut = |line: &&str| {
        let whole: String = line.trim_end().chars().take(WIDTH).collect();
        whole
            .chars()
            .flat_map(|c| if c.is_control() { c.escape_debug().collect() } else { vec![c] })
            .collect()
    };
    shown.iter().map(cut).collect::<Vec<String>>().join(" / ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_are_kept_and_all_are_counted() {
        let mut output = Output::default();
        let block = vec![b'a'; 1 << 10];
        (0..17).for_each(|_| output.add(&block));
        output.add(b"tps = 1\n");
        assert_eq!((output.printed(), output.is_cut()), ((17 << 10) + 8, true));
        assert!(output.text().ends_with("aatps = 1\n") && output.text().len() == MOST_OUTPUT);
        assert_eq!(Output::of(b"\xffx").text(), "\u{fffd}x");
    }

    #[test]
    fn a_message_shows_the_last_lines_in_one() {
        assert_eq!(last_lines("1\n2\n3\n\n4\n5\n6\x1b[0m\n"), "2 / 3 / 4 / 5 / 6\\u{1b}[0m");
        assert_eq!(last_lines(&"x".repeat(1000)).len(), WIDTH);
        assert_eq!(last_lines("\n"), "");
    }
}
