//! Texts and their boxes: the planned width of each, what is left out of one that does not fit, and which of
//! many fit.
//!
//! The reader's fonts are unknown. The width planned here is therefore written with each text, so every font
//! takes that width; the height of a line has room for the tallest font.

use super::super::helvetica;
use crate::escape;
use unicode_width::UnicodeWidthChar;

/// Height of text in a window of usual size, in the figure's units.
const SIZE: f64 = 11.0;

/// Factor over Helvetica's width: between Arial, which is then stretched by this much, and DejaVu Sans, which
/// is a sixth wider than Arial.
const WIDER: f64 = 1.05;

/// Distance from one line of text to the next. In narrow windows text is 12 units high, and Noto Sans, a tall
/// font, takes 1.362 times that.
pub(super) const LINE: f64 = 17.0;

/// The part of it above the baseline.
pub(super) const ABOVE: f64 = 13.0;

/// The part of it below the baseline.
pub(super) const BELOW: f64 = LINE - ABOVE;

/// Distance from the middle of a mark down to the baseline of the text beside it.
pub(super) const TO_BASELINE: f64 = 3.8;

/// The least distance between texts in one line.
const GAP: f64 = 5.0;

/// A text as it is drawn.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Label {
    pub(in super::super) text: String,
    /// Its width in the figure's units, whatever the font.
    pub(in super::super) width: f64,
    /// The whole text if its middle is left out, else empty.
    pub(in super::super) whole: String,
}

impl Label {
    /// A text in this much room. A longer one loses its middle, because names often differ at their end.
    pub(super) fn new(text: &str, room: f64, is_bold: bool) -> Label {
        let all = one_line(text);
        let text = fitting(&all, room, is_bold);
        let whole = if text == all { String::new() } else { all };
        Label { width: planned(&text, is_bold), text, whole }
    }
}

/// A text as a browser shows it: in one line, trimmed, with invisible characters written out.
fn one_line(text: &str) -> String {
    escape(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The planned width of a text, in whole units of the figure.
pub(super) fn width(text: &str) -> f64 {
    planned(&one_line(text), false)
}

/// The width of the widest text.
pub(super) fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> f64 {
    texts.map(width).fold(0.0, f64::max)
}

fn planned(text: &str, is_bold: bool) -> f64 {
    text.chars().map(|c| of(c, is_bold)).sum::<f64>().ceil()
}

/// The width of a character: Helvetica's, or a usual one if Helvetica lacks it.
fn of(c: char, is_bold: bool) -> f64 {
    let thousandths = helvetica::width(c, is_bold).unwrap_or_else(|| match (c, c.width()) {
        (_, None | Some(0)) => 0,
        // Arrows are wider than letters.
        (_, Some(2..)) | ('\u{2190}'..='\u{21ff}', _) => 1000,
        _ => 650,
    });
    WIDER * SIZE * f64::from(thousandths) / 1000.0
}

/// A text without enough of its middle for the rest to fit.
fn fitting(text: &str, room: f64, is_bold: bool) -> String {
    if planned(text, is_bold) <= room {
        return text.to_owned();
    }
    // In whole units, like widths.
    let room = room.floor() - of('\u{2026}', is_bold);
    let (mut head, mut used) = (0, 0.0);
    for (at, c) in text.char_indices() {
        used += of(c, is_bold);
        if used > room / 2.0 {
            used -= of(c, is_bold);
            break;
        }
        head = at + c.len_utf8();
    }
    let mut tail = text.len();
    for (at, c) in text.char_indices().rev() {
        used += of(c, is_bold);
        if used > room || at < head {
            break;
        }
        // A combining mark goes with its letter.
        if of(c, is_bold) > 0.0 {
            tail = at;
        }
    }
    format!("{}\u{2026}{}", &text[..head], &text[tail..])
}

/// The texts in one line, each centred on its coordinate, that do not overlap: the first, and each that
/// leaves room after the one before it.
pub(super) fn apart(texts: impl IntoIterator<Item = (f64, String)>) -> Vec<(f64, String)> {
    let mut kept: Vec<(f64, String)> = Vec::new();
    let mut last: Option<(f64, f64)> = None;
    for (at, text) in texts {
        let half = width(&text) / 2.0;
        if last.is_none_or(|(other, other_half): (f64, f64)| (at - other).abs() >= half + other_half + GAP) {
            last = Some((at, half));
            kept.push((at, text));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_their_ends() {
        let long = "io_uring syscall/interrupt scheduler=mq-deadline nr_requests=256";
        let label = Label::new(long, 100.0, false);
        assert_eq!(
            (label.text.as_str(), label.width, label.whole.as_str()),
            ("io_uring\u{2026}ests=256", 100.0, long)
        );
        assert_eq!(
            Label::new("libaio", 60.0, false),
            Label { text: "libaio".into(), width: 27.0, whole: String::new() }
        );
        assert_eq!(Label::new("abc", 0.0, true).text, "\u{2026}");
    }

    #[test]
    fn what_has_no_shape_is_written_out_or_has_no_width() {
        let label = Label::new(" a\tb\n\u{1b}\u{202e} e\u{301} \u{4e00} ", 1000.0, false);
        assert_eq!(label.text, "a b \\u{1b}\\u{202e} e\u{301} \u{4e00}");
        assert_eq!((width("e\u{301}"), width("e")), (7.0, 7.0));
        assert_eq!((width("\u{4e00}\u{4e00}"), width("\u{3b1}\u{3b1}"), width("")), (24.0, 16.0, 0.0));
    }

    #[test]
    fn texts_that_would_touch_are_left_out() {
        let texts = |places: &[f64]| apart(places.iter().map(|at| (*at, "100".to_owned())));
        let places = |texts: Vec<(f64, String)>| texts.into_iter().map(|(at, _)| at).collect::<Vec<_>>();
        // Three digits are 20 units wide.
        assert_eq!(width("100"), 20.0);
        assert_eq!(places(texts(&[0.0, 24.0, 25.0, 49.0, 50.0])), [0.0, 25.0, 50.0]);
        assert_eq!(places(texts(&[50.0, 49.0, 25.0, 1.0])), [50.0, 25.0]);
    }
}
