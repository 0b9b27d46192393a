//! Text in fonts that every PDF reader has: Helvetica for Windows' Latin code page, Symbol for arrows.

use super::super::helvetica;

/// A font of the standard 14 (ISO 32000-1, 9.6.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Font {
    Regular,
    Bold,
    Symbol,
}

impl Font {
    /// Its name in a page's resources.
    pub(super) fn name(self) -> &'static [u8] {
        match self {
            Font::Regular => b"regular",
            Font::Bold => b"bold",
            Font::Symbol => b"symbol",
        }
    }

    /// Its own name.
    pub(super) fn base(self) -> &'static [u8] {
        match self {
            Font::Regular => b"Helvetica",
            Font::Bold => b"Helvetica-Bold",
            Font::Symbol => b"Symbol",
        }
    }

    /// The number of its object in the document.
    pub(super) fn object(self) -> i32 {
        match self {
            Font::Regular => 6,
            Font::Bold => 7,
            Font::Symbol => 8,
        }
    }

    /// Its encoding, unless that is built in.
    pub(super) fn encoding(self) -> Option<&'static [u8]> {
        (self != Font::Symbol).then_some(b"WinAnsiEncoding")
    }
}

/// Consecutive characters of one font.
#[derive(Debug, PartialEq)]
pub(super) struct Run {
    pub(super) font: Font,
    pub(super) bytes: Vec<u8>,
    /// In thousandths of the font's size.
    pub(super) width: u32,
}

/// A text as runs of one font each. A character that no font has becomes a question mark.
pub(super) fn runs(text: &str, is_bold: bool) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for c in text.chars() {
        let (font, byte, width) = encoded(c, is_bold);
        match runs.last_mut().filter(|run| run.font == font) {
            Some(run) => {
                run.bytes.push(byte);
                run.width += u32::from(width);
            }
            None => runs.push(Run { font, bytes: vec![byte], width: width.into() }),
        }
    }
    runs
}

/// The font of a character, its code there and its width.
fn encoded(c: char, is_bold: bool) -> (Font, u8, u16) {
    let font = if is_bold { Font::Bold } else { Font::Regular };
    let code = match c {
        ' '..='~' | '\u{a0}'..='\u{ff}' => c as u8,
        '\u{2026}' => 0x85,
        '\u{2192}' => return (Font::Symbol, 0xae, 987),
        '\u{2193}' => return (Font::Symbol, 0xaf, 603),
        _ => return encoded('?', is_bold),
    };
    // The code page contains all of these.
    (font, code, helvetica::width(c, is_bold).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_the_font_changes() {
        let run = |font, bytes: &[u8], width| Run { font, bytes: bytes.to_vec(), width };
        assert_eq!(runs("Mi \u{b5}s", false), [run(Font::Regular, b"Mi \xb5s", 833 + 222 + 278 + 556 + 500)]);
        assert_eq!(
            runs("bs \u{2192}\u{2193}\u{2026}", true),
            [
                run(Font::Bold, b"bs ", 611 + 556 + 278),
                run(Font::Symbol, b"\xae\xaf", 1590),
                run(Font::Bold, b"\x85", 1000)
            ]
        );
        assert_eq!(runs("\u{1b}\u{202e}\u{4e00}", false), [run(Font::Regular, b"???", 3 * 556)]);
        assert!(runs("", false).is_empty());
    }
}
