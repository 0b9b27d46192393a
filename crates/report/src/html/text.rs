//! Text for the page: foreign text made harmless, and numbers for readers and for tables.

use crate::number::{thousands, without_zeros};
use crate::text::has_no_shape;

/// Text of foreign origin, made harmless in HTML, SVG and attributes. Control characters other than line feed
/// and tab, and those that change the direction of text, are written out.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            '\n' | '\t' => safe.push(c),
            c if has_no_shape(c) => safe.extend(c.escape_default()),
            c => safe.push(c),
        }
    }
    safe
}

/// A number for a table of data: six significant digits, a decimal point, no thousands separators.
pub(super) fn exact(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 { "0".to_owned() } else { String::new() };
    }
    let decimals = (5 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    without_zeros(&format!("{value:.decimals$}"))
}

/// A number for a reader: three significant digits, or whole with thousands separators.
pub(super) fn readable(value: f64) -> String {
    match value.abs() {
        size if size >= 1e12 => format!("{value:.2e}"),
        size if size >= 99.95 => thousands(value),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.9995 || size == 0.0 => format!("{value:.2}"),
        _ => exact((value * 1e4).round() / 1e4),
    }
}

/// `1 trial`, `2 trials`.
pub(super) fn plural(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{} {what}s", thousands(count as f64)) }
}

/// A text with a capital letter at its start.
pub(super) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// A text as part of a file name or an id: lower-case letters, digits and single hyphens.
pub(super) fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            slug.push(c.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            escape("<img src=x onerror=\"alert('1')\">&\u{1b}\u{202e}"),
            "&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;\\u{1b}\\u{202e}"
        );
    }

    #[test]
    fn numbers_are_readable_and_exact() {
        assert_eq!(
            [85_863.2, 12.34, 1.234, 0.08151, 0.0].map(readable),
            ["85,863", "12.3", "1.23", "0.0815", "0.00"]
        );
        assert_eq!([987_654_321_000.0, 1.2345e300].map(readable), ["987,654,321,000", "1.23e300"]);
        assert_eq!(
            [85_863.25, 0.000_081_5, 1e9, 2.5, 0.0].map(exact),
            ["85863.2", "0.0000815", "1000000000", "2.5", "0"]
        );
        assert_eq!(exact(f64::NAN), "");
    }

    #[test]
    fn words_are_joined() {
        assert_eq!((plural(1, "trial"), plural(1200, "trial")), ("1 trial".into(), "1,200 trials".into()));
        assert_eq!(slug("IOPS over iodepth: <randread> 4k"), "iops-over-iodepth-randread-4k");
    }

    proptest! {
        #[test]
        fn no_foreign_text_opens_markup(text in "\\PC{0,40}") {
            let safe = escape(&text);
            prop_assert!(!safe.contains(['<', '>', '"', '\'']));
        }
    }
}
