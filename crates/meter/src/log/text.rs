//! A log's bytes as lines and fields: UTF-8 or Windows-1252, quotes after RFC 4180.

use super::LogError;
use std::borrow::Cow;

/// Windows-1252 from 0x80 to 0x9f, where Latin-1 has control characters (Unicode's `CP1252.TXT`).
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The possible separators between two fields.
pub(super) const SEPARATORS: [char; 3] = [',', ';', '\t'];

/// The text of a file: UTF-8 with or without a byte-order mark, otherwise Windows-1252.
pub(super) fn decode(bytes: &[u8]) -> Result<Cow<'_, str>, LogError> {
    if bytes.contains(&0) {
        return Err(LogError::whole(
            "the log is not UTF-8 or Windows-1252 text (it holds a zero byte): export it as CSV in UTF-8",
        ));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().map(|byte| windows_1252(*byte)).collect()),
    })
}

fn windows_1252(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// One line of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextLine<'a> {
    /// Counted from 1, as editors do.
    pub(super) number: usize,
    pub(super) text: &'a str,
}

/// The complete lines of a text, and the number of a last one without an end: if the file was cut off, that
/// line's last digits may be missing.
pub(super) fn lines(text: &str) -> (Vec<TextLine<'_>>, Option<usize>) {
    let mut lines: Vec<TextLine<'_>> =
        text.lines().enumerate().map(|(index, text)| TextLine { number: index + 1, text }).collect();
    let is_cut = !text.is_empty() && !text.ends_with('\n');
    let cut = if is_cut { lines.pop().filter(|line| !line.text.trim().is_empty()) } else { None };
    (lines, cut.map(|line| line.number))
}

/// The fields of a line, without their quotes; `None` if a quote is not closed, or not before a separator.
pub(super) fn split(line: &str, separator: char) -> Option<Vec<Cow<'_, str>>> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let (field, after) = field(rest, separator)?;
        fields.push(field);
        match after {
            Some(after) => rest = after,
            None => return Some(fields),
        }
    }
}

/// The first field, and the text after its separator.
fn field(text: &str, separator: char) -> Option<(Cow<'_, str>, Option<&str>)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return Some(match text.split_once(separator) {
            Some((field, after)) => (Cow::Borrowed(field.trim()), Some(after)),
            None => (Cow::Borrowed(text.trim()), None),
        });
    };
    let mut value = String::new();
    let mut rest = quoted;
    loop {
        let (before, after) = rest.split_once('"')?;
        value.push_str(before);
        // A doubled quote is a quote in the value.
        let Some(more) = after.strip_prefix('"') else { break rest = after };
        value.push('"');
        rest = more;
    }
    // A quote that closes before anything but a separator means that this is not the separator.
    let (tail, after) = match rest.split_once(separator) {
        Some((tail, after)) => (tail, Some(after)),
        None => (rest, None),
    };
    tail.trim().is_empty().then_some((Cow::Owned(value), after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_encodings_are_read_and_marks_left_out() {
        assert_eq!(decode("\u{feff}Temp, °C".as_bytes()).unwrap(), "Temp, °C");
        assert_eq!(decode(b"Temp, \xb0C \x80 \x9f").unwrap(), "Temp, °C € Ÿ");
        assert!(decode(b"\xff\xfeD\0a\0").unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn a_last_line_without_an_end_is_left_out_and_named() {
        let numbers = |text| lines(text).0.iter().map(|line| line.number).collect::<Vec<_>>();
        assert_eq!((numbers("a\r\nb\n"), lines("a\r\nb\n").1), (vec![1, 2], None));
        assert_eq!((numbers("a\nb"), lines("a\nb").1), (vec![1], Some(2)));
        assert_eq!((numbers("a\n\x20"), lines("a\n\x20").1), (vec![1], None));
    }

    #[test]
    fn quotes_hold_separators_and_doubled_quotes() {
        let fields =
            |line| split(line, ',').map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            fields(r##""#","Date Time, GMT-05:00", x ,"##),
            Some(vec!["#".into(), "Date Time, GMT-05:00".into(), "x".into(), String::new()])
        );
        assert_eq!(fields(r#""a ""b"" c",1"#), Some(vec![r#"a "b" c"#.into(), "1".into()]));
        assert_eq!(fields(r#"1,"cut"#), None);
        assert_eq!(fields(r#""Date Time, GMT-05:00";"Temp, C""#), None);
    }

    proptest! {
        #[test]
        fn what_is_quoted_comes_back(
            values in proptest::collection::vec("[^\r\n]{0,12}", 1..6),
            which in 0usize..3,
        ) {
            let quoted: Vec<String> =
                values.iter().map(|value| format!("\"{}\"", value.replace('"', "\"\""))).collect();
            let line = quoted.join(&SEPARATORS[which].to_string());
            prop_assert_eq!(split(&line, SEPARATORS[which]).unwrap(), values);
        }
    }
}
