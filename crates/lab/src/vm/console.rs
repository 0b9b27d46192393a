//! The guest's console, line by line: what is for the caller, what the init script says to the host, and the
//! last lines for a message when something fails.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::image::init::{FAILED, UP};

/// How many lines a message shows.
const KEPT: usize = 50;
/// A longer line is cut into several.
const LONGEST: usize = 16 * 1024;
const PANIC: &str = "Kernel panic - not syncing";
/// A breakpoint that nobody set: 5.10 and 6.1 write no "Oops: " before it.
const BREAKPOINT: &str = "int3: 0000 [#";
/// What precedes the flags among the registers of an oops.
const FLAGS: &str = "EFLAGS: ";
/// Bits of the flags that are always clear, and the one that is always set (Intel SDM, volume 1, 3.4.3).
const CLEAR_FLAGS: u32 = 0xffc0_8028;
const SET_FLAG: u32 = 2;

/// What has been seen of a guest's console.
pub(super) struct Console<'a> {
    line: &'a mut dyn FnMut(&str),
    partial: Vec<u8>,
    last: VecDeque<String>,
    started: Instant,
    /// How long after the start the guest said that it is up.
    pub(super) up: Option<Duration>,
    /// What the init script said when it failed: stage and cause.
    pub(super) failed: Option<String>,
    /// The kernel's panic, or its oops at a breakpoint of nobody, which ends in one (`oops=panic`) unless the
    /// kernel hangs before; and when it was seen.
    pub(super) panic: Option<(String, Instant)>,
    /// The kernel met what no processor does.
    pub(super) is_mistranslated: bool,
}

impl<'a> Console<'a> {
    pub(super) fn new(line: &'a mut dyn FnMut(&str)) -> Console<'a> {
        let started = Instant::now();
        Console {
            line,
            partial: Vec::new(),
            last: VecDeque::new(),
            started,
            up: None,
            failed: None,
            panic: None,
            is_mistranslated: false,
        }
    }

    /// Forgets what was seen: the guest boots once more.
    pub(super) fn start_again(&mut self) {
        self.partial.clear();
        self.last.clear();
        (self.started, self.up, self.failed, self.panic) = (Instant::now(), None, None, None);
        self.is_mistranslated = false;
    }

    /// Says something of the guest to the caller, between its lines.
    pub(super) fn say(&mut self, text: &str) {
        (self.line)(text);
    }

    /// Takes bytes as they come.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' || self.partial.len() == LONGEST {
                self.end_line();
            }
            if byte != b'\n' {
                self.partial.push(byte);
            }
        }
    }

    /// The console is closed: a line without an end is complete.
    pub(super) fn finish(&mut self) {
        if !self.partial.is_empty() {
            self.end_line();
        }
    }

    /// The last lines, newest last.
    pub(super) fn last_lines(&self) -> Vec<String> {
        self.last.iter().cloned().collect()
    }

    fn end_line(&mut self) {
        let bytes = std::mem::take(&mut self.partial);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end_matches('\r');
        // A kernel message may precede it on the line.
        if let Some((_, cause)) = text.split_once(FAILED) {
            self.failed.get_or_insert(cause.to_owned());
        } else if text.contains(UP) && self.up.is_none() {
            self.up = Some(self.started.elapsed());
            return;
        } else if let Some(at) = text.find(PANIC) {
            self.panic.get_or_insert((text[at..].to_owned(), Instant::now()));
        }
        let is_breakpoint = text.contains(BREAKPOINT);
        if is_breakpoint {
            self.panic.get_or_insert((text.to_owned(), Instant::now()));
        }
        self.is_mistranslated |= is_breakpoint || has_impossible_flags(text);
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        // Control characters are shown, not obeyed.
        let shown: String =
            text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect();
        (self.line)(&shown);
        self.last.push_back(shown);
    }
}

/// True for registers whose flags no processor can have.
fn has_impossible_flags(text: &str) -> bool {
    let flags = text.split_once(FLAGS).and_then(|(_, rest)| rest.split_whitespace().next());
    let flags = flags.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    flags.is_some_and(|flags| flags & CLEAR_FLAGS != 0 || flags & SET_FLAG == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_distinguished() {
        let mut lines = Vec::new();
        let mut line = |text: &str| lines.push(text.to_owned());
        let mut console = Console::new(&mut line);
        console.feed(b"lab: up 1.5\r\nhel");
        console.feed(
            b"lo\r\n[  1.0] x lab: failed modules: no\x1b\r\n[ 2.0] Kernel panic - not syncing: y\ntail",
        );
        console.finish();
        assert!(console.up.is_some());
        assert_eq!(console.failed.as_deref(), Some("modules: no\x1b"));
        assert_eq!(
            console.panic.as_ref().map(|panic| panic.0.as_str()),
            Some("Kernel panic - not syncing: y")
        );
        assert_eq!(
            lines,
            [
                "hello",
                "[  1.0] x lab: failed modules: no\u{fffd}",
                "[ 2.0] Kernel panic - not syncing: y",
                "tail"
            ]
        );
    }

    #[test]
    fn a_guest_that_boots_again_has_said_nothing() {
        let mut line = |_: &str| {};
        let mut console = Console::new(&mut line);
        console.feed(b"lab: failed modules: no\n[ 2.0] Kernel panic - not syncing: y\nta");
        console.start_again();
        console.feed(b"lab: up 1.5\n");
        assert!(console.up.is_some() && console.failed.is_none() && console.panic.is_none());
        assert!(console.last_lines().is_empty());
    }

    #[test]
    fn what_no_processor_does_is_known_by_its_oops() {
        let seen = |text: &str| {
            let mut line = |_: &str| {};
            let mut console = Console::new(&mut line);
            console.feed(text.as_bytes());
            let first = console.is_mistranslated;
            console.start_again();
            assert!(!console.is_mistranslated);
            first
        };
        assert!(seen("[   32.743043] Oops: int3: 0000 [#1] SMP NOPTI\n"));
        assert!(seen("[    3.093098] int3: 0000 [#1] PREEMPT SMP NOPTI\n"));
        assert!(!seen("[    3.093098] Oops: 0002 [#1] SMP NOPTI\nRIP: 0010:int3_selftest+0x1/0x2\n"));
        assert!(seen("[   55.854568] RSP: 0018:ffffc900006fbc90 EFLAGS: 73e33e02\n"));
        assert!(seen("RSP: 0018:ffffc900006fbc90 EFLAGS: 00010280\n"));
        assert!(!seen("RSP: 0018:ffffc900006fbc90 EFLAGS: 00010286\n"));
    }

    #[test]
    fn the_last_fifty_lines_are_kept() {
        let mut line = |_: &str| {};
        let mut console = Console::new(&mut line);
        (0..120).for_each(|number| console.feed(format!("{number}\n").as_bytes()));
        let last = console.last_lines();
        assert_eq!((last.len(), last[0].as_str(), last[49].as_str()), (50, "70", "119"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_taken(bytes: Vec<u8>) {
            let mut line = |_: &str| {};
            let mut console = Console::new(&mut line);
            console.feed(&bytes);
            console.finish();
        }
    }
}
