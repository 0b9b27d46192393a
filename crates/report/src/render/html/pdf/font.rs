//! Text in the fonts that every reader of PDF has: Helvetica for what Windows' Latin code page holds, Symbol for arrows.

/// A font of the standard 14 (ISO 32000-1, 9.6.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Font {
    Regular,
    Bold,
    Symbol,
}

impl Font {
    /// Its name among a page's resources.
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

    /// Its encoding, unless that is its own.
    pub(super) fn encoding(self) -> Option<&'static [u8]> {
        (self != Font::Symbol).then_some(b"WinAnsiEncoding")
    }
}

/// Characters of one font in a row.
#[derive(Debug, PartialEq)]
pub(super) struct Run {
    pub(super) font: Font,
    pub(super) bytes: Vec<u8>,
    /// In thousandths of the font's size.
    pub(super) width: u32,
}

/// A text in runs of one font each. A character that no font has is a question mark.
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
    let (font, low, high) =
        if is_bold { (Font::Bold, &BOLD, &BOLD_HIGH) } else { (Font::Regular, &REGULAR, &REGULAR_HIGH) };
    match c {
        ' '..='~' => (font, c as u8, low[c as usize - 0x20]),
        '\u{a0}'..='\u{ff}' => (font, c as u8, high[c as usize - 0xa0]),
        '\u{2026}' => (font, 0x85, 1000),
        '\u{2192}' => (Font::Symbol, 0xae, 987),
        '\u{2193}' => (Font::Symbol, 0xaf, 603),
        _ => encoded('?', is_bold),
    }
}

/// Widths of Helvetica from the space to the tilde, after Adobe's font metrics.
#[rustfmt::skip]
const REGULAR: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556,
    556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278,
    500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469,
    556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500,
    278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// Of its upper half from the no-break space on.
#[rustfmt::skip]
const REGULAR_HIGH: [u16; 96] = [
    278, 333, 556, 556, 556, 556, 260, 556, 333, 737, 370, 556, 584, 333, 737, 333, 400, 584, 333, 333, 333,
    556, 537, 278, 333, 333, 365, 556, 834, 834, 834, 611, 667, 667, 667, 667, 667, 667, 1000, 722, 667, 667,
    667, 667, 278, 278, 278, 278, 722, 722, 778, 778, 778, 778, 778, 584, 778, 722, 722, 722, 722, 667, 667,
    611, 556, 556, 556, 556, 556, 556, 889, 500, 556, 556, 556, 556, 278, 278, 278, 278, 556, 556, 556, 556,
    556, 556, 556, 584, 611, 556, 556, 556, 556, 500, 556, 500,
];

/// The same of Helvetica-Bold.
#[rustfmt::skip]
const BOLD: [u16; 95] = [
    278, 333, 474, 556, 556, 889, 722, 238, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556,
    556, 556, 556, 556, 556, 333, 333, 584, 584, 584, 611, 975, 722, 722, 722, 722, 667, 611, 778, 722, 278,
    556, 722, 611, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 333, 278, 333, 584,
    556, 333, 556, 611, 556, 611, 556, 333, 611, 611, 278, 278, 556, 278, 889, 611, 611, 611, 611, 389, 556,
    333, 611, 556, 778, 556, 556, 500, 389, 280, 389, 584,
];

/// Of its upper half.
#[rustfmt::skip]
const BOLD_HIGH: [u16; 96] = [
    278, 333, 556, 556, 556, 556, 280, 556, 333, 737, 370, 556, 584, 333, 737, 333, 400, 584, 333, 333, 333,
    611, 556, 278, 333, 333, 365, 556, 834, 834, 834, 611, 722, 722, 722, 722, 722, 722, 1000, 722, 667, 667,
    667, 667, 278, 278, 278, 278, 722, 722, 778, 778, 778, 778, 778, 584, 778, 722, 722, 722, 722, 667, 667,
    611, 556, 556, 556, 556, 556, 556, 889, 556, 556, 556, 556, 556, 278, 278, 278, 278, 611, 611, 611, 611,
    611, 611, 611, 584, 611, 611, 611, 611, 611, 556, 611, 556,
];

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

    #[test]
    fn digits_are_of_one_width() {
        assert!("0123456789".chars().all(|c| encoded(c, false).2 == 556 && encoded(c, true).2 == 556));
    }
}
