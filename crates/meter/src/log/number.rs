//! Numbers as people write them: with a decimal point, comma or space, grouped by thousands, negative in
//! three ways.
//!
//! HOBOware offers `1,234.56`, `1 234,56`, `1.234,56` and `1.234 56`, and `-1`, `1-` and `(1)`.

use serde::{Deserialize, Serialize};

/// The mark before a number's fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decimal {
    /// `1.5`
    Point,
    /// `1,5`
    Comma,
    /// `1 5`, one of HOBOware's formats.
    Space,
}

impl Decimal {
    fn of(mark: char) -> Option<Self> {
        match mark {
            '.' => Some(Self::Point),
            ',' => Some(Self::Comma),
            ' ' | '\u{a0}' | '\u{202f}' => Some(Self::Space),
            _ => None,
        }
    }
}

/// What one number shows about the decimal mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkEvidence {
    /// Nothing: it has no mark, or is not a number.
    Nothing,
    /// The mark is this one.
    Is(Decimal),
    /// This mark groups thousands.
    Groups(Decimal),
    /// `1,234`: a fraction or thousands.
    Either(Decimal),
}

/// A number, and how it was written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) value: f64,
    /// Number of digits after the mark.
    pub(super) decimals: u32,
}

/// The digits and marks of a number without its sign, and whether it is negative.
fn unsigned(text: &str) -> (&str, bool) {
    let text = text.trim();
    let bracketed = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let negative =
        bracketed.or_else(|| text.strip_prefix(['-', '\u{2212}'])).or_else(|| text.strip_suffix('-'));
    match negative {
        Some(text) => (text.trim(), true),
        None => (text.strip_prefix('+').unwrap_or(text), false),
    }
}

fn is_mark(letter: char) -> bool {
    Decimal::of(letter).is_some() || letter == '\''
}

/// What `text` alone shows about the decimal mark.
pub(super) fn mark_evidence(text: &str) -> MarkEvidence {
    let (text, _) = unsigned(text);
    let is_number = text.starts_with(|first: char| first.is_ascii_digit() || is_mark(first))
        && text.ends_with(|last: char| last.is_ascii_digit())
        && text.chars().all(|letter| letter.is_ascii_digit() || is_mark(letter));
    let Some((before, last, after)) = last_mark(text).filter(|_| is_number) else {
        return MarkEvidence::Nothing;
    };
    let Some(mark) = Decimal::of(last) else { return MarkEvidence::Nothing };
    let others = before.chars().filter(|letter| is_mark(*letter));
    if others.clone().any(|other| Decimal::of(other) == Some(mark)) {
        // Dates and addresses have a mark twice, too.
        let mut groups = text.split(is_mark);
        let is_first_short = groups.next().is_some_and(|first| (1..=3).contains(&first.len()));
        return if is_first_short && groups.all(|group| group.len() == 3) {
            MarkEvidence::Groups(mark)
        } else {
            MarkEvidence::Nothing
        };
    }
    let is_grouped = others.count() > 0;
    let can_group = after.len() == 3 && (1..=3).contains(&before.len()) && !before.starts_with('0');
    if is_grouped || !can_group { MarkEvidence::Is(mark) } else { MarkEvidence::Either(mark) }
}

fn last_mark(text: &str) -> Option<(&str, char, &str)> {
    let (at, mark) = text.char_indices().rev().find(|(_, letter)| is_mark(*letter))?;
    Some((&text[..at], mark, &text[at + mark.len_utf8()..]))
}

/// The number that `text` writes with this decimal mark; other marks may only group its integer part by
/// thousands.
pub(super) fn parse(text: &str, decimal: Decimal) -> Option<Number> {
    let (text, is_negative) = unsigned(text);
    let (integer, fraction) = match last_mark(text) {
        Some((before, mark, after)) if Decimal::of(mark) == Some(decimal) => (before, after),
        _ => (text, ""),
    };
    let mut groups = integer.split(is_mark);
    let first = groups.next()?;
    let rest: Vec<&str> = groups.collect();
    let marks: Vec<char> = integer.chars().filter(|letter| is_mark(*letter)).collect();
    let is_grouped_well = rest.iter().all(|group| group.len() == 3)
        && (rest.is_empty() || (1..=3).contains(&first.len()))
        && marks.iter().all(|mark| Decimal::of(*mark) != Some(decimal) && *mark == marks[0]);
    let mut digits = format!("{first}{}", rest.concat());
    if !is_grouped_well || (digits.is_empty() && fraction.is_empty()) {
        return None;
    }
    digits.push('.');
    digits.push_str(fraction);
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value: f64 = digits.parse().ok().filter(|value: &f64| is_digits && value.is_finite())?;
    Some(Number {
        value: if is_negative { -value } else { value },
        decimals: u32::try_from(fraction.len()).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hobowares_formats_are_read() {
        for (text, decimal, value, decimals) in [
            ("1,234.56", Decimal::Point, 1234.56, 2),
            ("1 234,56", Decimal::Comma, 1234.56, 2),
            ("1\u{a0}234,56", Decimal::Comma, 1234.56, 2),
            ("1.234,56", Decimal::Comma, 1234.56, 2),
            ("1.234 56", Decimal::Space, 1234.56, 2),
            ("69 557", Decimal::Space, 69.557, 3),
            ("1'234'567.5", Decimal::Point, 1_234_567.5, 1),
            ("-12.5", Decimal::Point, -12.5, 1),
            ("12,5-", Decimal::Comma, -12.5, 1),
            ("(12.5)", Decimal::Point, -12.5, 1),
            (".5", Decimal::Point, 0.5, 1),
            ("117", Decimal::Comma, 117.0, 0),
        ] {
            assert_eq!(parse(text, decimal), Some(Number { value, decimals }), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_in_this_format_is_none() {
        for text in [
            "",
            "-",
            "NaN",
            "inf",
            "1e5",
            "Logged",
            "1,23,456.0",
            "12,34.5",
            "1.2.3",
            "1.234.5",
            "1,234 567.1",
        ] {
            assert_eq!(parse(text, Decimal::Point), None, "{text}");
        }
        assert_eq!(parse("117.4", Decimal::Comma), None);
    }

    #[test]
    fn marks_say_what_they_are() {
        for (text, want) in [
            ("117", MarkEvidence::Nothing),
            ("Logged", MarkEvidence::Nothing),
            ("11/20/26", MarkEvidence::Nothing),
            ("117.4", MarkEvidence::Is(Decimal::Point)),
            ("0,117", MarkEvidence::Is(Decimal::Comma)),
            ("1234,567", MarkEvidence::Is(Decimal::Comma)),
            ("1.234,567", MarkEvidence::Is(Decimal::Comma)),
            ("1.234 567", MarkEvidence::Is(Decimal::Space)),
            ("1,234,567", MarkEvidence::Groups(Decimal::Comma)),
            ("20.11.2026", MarkEvidence::Nothing),
            ("117,204", MarkEvidence::Either(Decimal::Comma)),
            ("117.204", MarkEvidence::Either(Decimal::Point)),
        ] {
            assert_eq!(mark_evidence(text), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_and_never_said_to_be_another_mark(
            units in 0u64..100_000_000,
            decimals in 0usize..6,
            style in 0usize..4,
            is_negative: bool,
        ) {
            let (group, mark, decimal) = [
                (",", ".", Decimal::Point),
                (" ", ",", Decimal::Comma),
                (".", ",", Decimal::Comma),
                (".", " ", Decimal::Space),
            ][style];
            let digits = units.to_string();
            let grouped: Vec<&str> =
                digits.as_bytes().rchunks(3).rev().map(|chunk| std::str::from_utf8(chunk).unwrap()).collect();
            let fraction = &"314159"[..decimals];
            let mark = if decimals == 0 { "" } else { mark };
            let text =
                format!("{}{}{mark}{fraction}", if is_negative { "-" } else { "" }, grouped.join(group));
            let want: f64 =
                format!("{}{units}.{fraction}", if is_negative { "-" } else { "" }).parse().unwrap();
            prop_assert_eq!(parse(&text, decimal).unwrap().value, want);
            match mark_evidence(&text) {
                MarkEvidence::Is(said) => prop_assert_eq!(said, decimal),
                MarkEvidence::Groups(said) => prop_assert_ne!(said, decimal),
                MarkEvidence::Nothing | MarkEvidence::Either(_) => (),
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = (
                mark_evidence(&text),
                parse(&text, Decimal::Point),
                parse(&text, Decimal::Comma),
                parse(&text, Decimal::Space),
            );
        }
    }
}
