//! Running text for terminals: broken into lines, made harmless, and names that occur in several reports.

use iopj_core::IoPath;
use iopj_record::Generator;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Characters in a line of running text.
pub const WIDTH: usize = 120;

/// Lines of at most `width` characters, broken at spaces and each preceded by `indent`. A name that brings an
/// end of line along begins none.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let (text, mut lines) = (escape(text), Vec::<String>::new());
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if indent.len() + line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.iter().map(|line| format!("{indent}{line}\n")).collect()
}

/// Foreign text made harmless in one line: what a terminal would obey, and what cannot be seen, is written
/// out.
pub fn escape(text: &str) -> String {
    escape_but(text, &[])
}

/// The same for whole texts, whose lines and tabs stay. Texts leave the program through this, so that
/// whatever a name or a record brings along is harmless where it is read.
pub fn escape_lines(text: &str) -> String {
    escape_but(text, &['\n', '\t', '\r'])
}

fn escape_but(text: &str, kept: &[char]) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = next_odd(&mut rest, &mut safe) {
        // A carriage return alone would let what follows be written over the line.
        let is_kept = kept.contains(&c) && (c != '\r' || rest.starts_with('\n'));
        if !is_kept && has_no_shape(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// Moves what is plain ASCII from the beginning of `rest` to `safe`, and takes the character after it.
fn next_odd(rest: &mut &str, safe: &mut String) -> Option<char> {
    let (bytes, mut plain) = (rest.as_bytes(), 0);
    while plain < bytes.len() && bytes[plain] >= b' ' && bytes[plain] <= b'~' {
        plain += 1;
    }
    safe.push_str(&rest[..plain]);
    let mut odd = rest[plain..].chars();
    let c = odd.next();
    *rest = odd.as_str();
    c
}

/// JSON whose texts hold no character that a terminal would obey, or that cannot be seen: each is an escape,
/// so the value stays as it is.
pub fn escape_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(c) = next_odd(&mut rest, &mut safe) {
        if c != '\n' && has_no_shape(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                let _ = write!(safe, "\\u{unit:04x}");
            });
        } else {
            safe.push(c);
        }
    }
    safe
}

/// True for control characters, for those that change the direction of text or cannot be seen, for the ends
/// of lines beyond ASCII, and for noncharacters.
pub(super) fn has_no_shape(c: char) -> bool {
    matches!(
        c,
        '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    ) || c.is_control()
        || u32::from(c) & 0xfffe == 0xfffe
}

/// The short name of a column or path: A to Z, then A1 to Z1, and so on.
pub(super) fn letter(at: usize) -> String {
    let letter = char::from(b'A' + (at % 26) as u8);
    if at < 26 { letter.to_string() } else { format!("{letter}{}", at / 26) }
}

/// Settings as they follow a path's name: each ` name=value`, in one line.
pub(super) fn settings<'a>(settings: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    settings.into_iter().map(|(name, value)| format!(" {}={}", escape(name), escape(value))).collect()
}

/// A path with its settings, and its generator if that is fio.
pub(super) fn path_name(path: IoPath, generator: Generator, own: &BTreeMap<String, String>) -> String {
    let by = if generator == Generator::Fio { " (fio)" } else { "" };
    format!("{path}{by}{}", settings(own))
}

/// The short name of a path: its interface, and how it differs from one system call per submission and
/// interrupts.
pub(super) fn short_name(path: &IoPath) -> String {
    let text = path.to_string();
    if !path.is_fixed() {
        return text;
    }
    let (stem, variants) = text.split_once('+').unwrap_or((&text, ""));
    let (interface, rest) = stem.split_once('/').unwrap_or((stem, ""));
    let usual = ["syscall", "doorbell", "interrupt"];
    let words: Vec<&str> = rest.split('/').filter(|word| !word.is_empty() && !usual.contains(word)).collect();
    let words = if words.is_empty() { String::new() } else { format!(" {}", words.join("/")) };
    let variants = if variants.is_empty() { String::new() } else { format!("+{variants}") };
    format!("{interface}{words}{variants}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A setting of a store began a line of its own, which looked like a decision.
    #[test]
    fn no_name_begins_a_line() {
        let forged = ("scheduler".to_owned(), "none\n\nDecision\r\n  Take evil".to_owned());
        let name = settings([(&forged.0, &forged.1)]);
        assert_eq!(name, " scheduler=none\\n\\nDecision\\r\\n  Take evil");
        assert_eq!(wrap("a\nb c", 9, "  "), "  a\\nb c\n");
    }

    #[test]
    fn short_names_keep_what_is_unusual() {
        for (path, name) in [
            ("libaio/syscall/interrupt", "libaio"),
            ("io_uring/syscall/poll+registered", "io_uring poll+registered"),
            ("io_uring/sqpoll/interrupt", "io_uring sqpoll"),
            ("io_uring/sqpoll/poll", "io_uring sqpoll/poll"),
            ("posix-sio/syscall/hybrid:4us", "posix-sio hybrid:4us"),
            ("auto:io_uring/sqpoll/interrupt", "auto:io_uring/sqpoll/interrupt"),
        ] {
            assert_eq!(short_name(&path.parse().unwrap()), name);
        }
    }

    #[test]
    fn long_texts_are_broken_at_spaces() {
        assert_eq!(wrap("one two three", 9, "  "), "  one two\n  three\n");
        assert_eq!(wrap("averyverylongword b", 5, ""), "averyverylongword\nb\n");
    }

    #[test]
    fn columns_have_letters() {
        assert_eq!([0, 2, 25, 26, 53].map(letter), ["A", "C", "Z", "A1", "B2"]);
    }
}
