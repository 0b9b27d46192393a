//! The columns of a log and their units, and the rows reduced to time and value.

use super::number::{Decimal, MarkEvidence, mark_evidence};
use super::text::{SEPARATORS, TextLine, split};
use super::{LogError, Unit};
use std::borrow::Cow;

/// Lines within which the header must be.
const HEADER_WITHIN: usize = 100;

impl Unit {
    const ALL: [(&'static str, Self); 9] = [
        ("mW", Self::Milliwatt),
        ("W", Self::Watt),
        ("Watt", Self::Watt),
        ("Watts", Self::Watt),
        ("kW", Self::Kilowatt),
        ("J", Self::Joule),
        ("mWh", Self::MilliwattHour),
        ("Wh", Self::WattHour),
        ("kWh", Self::KilowattHour),
    ];

    /// The first unit that a title has as a separate word: `Active Power, W`, `Power (kW)`, `power_W`;
    /// never `W/m²`.
    pub(super) fn in_title(title: &str) -> Option<Self> {
        words(title).find_map(|word| Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, unit)| *unit))
    }

    pub(super) fn is_power(self) -> bool {
        matches!(self, Self::Milliwatt | Self::Watt | Self::Kilowatt)
    }

    /// W or J of one.
    pub(super) fn size(self) -> f64 {
        match self {
            Self::Milliwatt => 1e-3,
            Self::Watt | Self::Joule => 1.0,
            Self::Kilowatt => 1e3,
            Self::MilliwattHour => 3.6,
            Self::WattHour => 3_600.0,
            Self::KilowattHour => 3.6e6,
        }
    }
}

/// The words of a title; a slash belongs to one.
pub(super) fn words(title: &str) -> impl Iterator<Item = &str> {
    title.split(|letter: char| !letter.is_alphanumeric() && letter != '/')
}

/// A header and the lines below it.
#[derive(Debug)]
pub(super) struct Table<'a> {
    pub(super) separator: char,
    pub(super) titles: Vec<Cow<'a, str>>,
    /// The header's line.
    pub(super) header: usize,
    pub(super) below: &'a [TextLine<'a>],
}

impl<'a> Table<'a> {
    /// The first line whose fields `is_header` accepts, with the separator that gives the most fields.
    pub(super) fn find(
        lines: &'a [TextLine<'a>],
        is_header: impl Fn(&[Cow<'_, str>]) -> bool,
    ) -> Option<Self> {
        lines.iter().take(HEADER_WITHIN).enumerate().find_map(|(index, line)| {
            let cut =
                SEPARATORS.iter().filter_map(|separator| Some((*separator, split(line.text, *separator)?)));
            let (separator, titles) = cut
                .filter(|(_, titles)| titles.len() > 1 && is_header(titles))
                .max_by_key(|(_, titles)| titles.len())?;
            Some(Self { separator, titles, header: line.number, below: &lines[index + 1..] })
        })
    }

    /// The column of a title.
    pub(super) fn column(&self, title: &str) -> Result<usize, LogError> {
        let mut places = self.titles.iter().enumerate().filter(|(_, other)| *other == title.trim());
        let titles = || self.titles.join("`, `");
        match (places.next(), places.next()) {
            (Some((place, _)), None) => Ok(place),
            (None, _) => Err(LogError::at(
                self.header,
                format!("no column has the title `{title}`: name one of `{}`", titles()),
            )),
            (Some(_), Some(_)) => Err(LogError::at(
                self.header,
                format!("two columns have the title `{title}`: rename one of them"),
            )),
        }
    }
}

/// A row that has a value.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) line: usize,
    pub(super) time: Cow<'a, str>,
    pub(super) value: Cow<'a, str>,
}

/// Columns to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    pub(super) date: Option<usize>,
    pub(super) time: usize,
    pub(super) value: usize,
    /// Whether rows may have one field more than the header: HOBOware's plot details.
    pub(super) has_details: bool,
}

/// How a log writes numbers: in the column that is read, and in the others, in case that one is ambiguous.
#[derive(Debug, Default)]
pub(super) struct Marks {
    own: Seen,
    others: Seen,
}

/// Marks by their use, each with the first line that uses it so.
#[derive(Debug, Default)]
struct Seen {
    is: Vec<(Decimal, usize)>,
    groups: Vec<(Decimal, usize)>,
    either: Vec<(Decimal, usize)>,
}

impl Seen {
    fn see(&mut self, text: &str, line: usize) {
        let (list, mark) = match mark_evidence(text) {
            MarkEvidence::Nothing => return,
            MarkEvidence::Is(mark) => (&mut self.is, mark),
            MarkEvidence::Groups(mark) => (&mut self.groups, mark),
            MarkEvidence::Either(mark) => (&mut self.either, mark),
        };
        if !list.iter().any(|(other, _)| *other == mark) {
            list.push((mark, line));
        }
    }
}

impl Marks {
    /// The decimal mark. `is_too_much` says whether a value is impossible if the three digits behind its mark
    /// were thousands.
    ///
    /// # Errors
    /// The line that is ambiguous, or contradicts another.
    pub(super) fn decide(
        &self,
        separator: char,
        is_too_much: impl Fn() -> bool,
    ) -> Result<Decimal, LogError> {
        let groups = |mark: Decimal| self.own.groups.iter().any(|(other, _)| *other == mark);
        let other_than = |mark: Decimal| if mark == Decimal::Point { Decimal::Comma } else { Decimal::Point };
        let (mark, line) = match (self.own.is.as_slice(), self.own.either.as_slice()) {
            ([(mark, _)], _) => return Ok(*mark),
            ([(_, first), (_, second), ..], _) => {
                return Err(LogError::at(
                    *second,
                    format!(
                        "its decimal mark is not that of line {first}: export the log in one number format"
                    ),
                ));
            }
            ([], []) => return Ok(if groups(Decimal::Point) { Decimal::Comma } else { Decimal::Point }),
            ([], [(mark, line), ..]) => (*mark, *line),
        };
        if groups(mark) {
            return Ok(other_than(mark));
        }
        let is_only = self.own.either.len() == 1;
        match self.others.is.as_slice() {
            [(decimal, _)] => Ok(*decimal),
            [] if is_only && ((mark == Decimal::Point && separator != ';') || is_too_much()) => Ok(mark),
            _ => Err(LogError::at(
                line,
                "three digits after a mark can be a fraction or thousands, and the log does not show which: \
                 use --decimal point, comma or space",
            )),
        }
    }
}

/// The rows that have a value, and how numbers are written.
pub(super) fn rows<'a>(table: &Table<'a>, places: Columns) -> Result<(Vec<Row<'a>>, Marks), LogError> {
    let mut marks = Marks::default();
    let mut rows = Vec::with_capacity(table.below.len());
    for line in table.below.iter().filter(|line| !line.text.trim().is_empty()) {
        let mut fields = split(line.text, table.separator)
            .ok_or_else(|| LogError::at(line.number, "a quote is not closed: export the log again"))?;
        // One more field that is empty is not a detail: a decimal comma without quotes makes one if rows end
        // with empty fields.
        let has_detail = places.has_details && fields.last().is_some_and(|detail| !detail.is_empty());
        let expected = table.titles.len() + usize::from(has_detail && fields.len() > table.titles.len());
        if fields.len() != expected {
            return Err(LogError::at(
                line.number,
                format!(
                    "it has {} fields where the header has {}: the line is damaged, or its numbers contain \
                     the separator; export the log with another separator",
                    fields.len(),
                    table.titles.len()
                ),
            ));
        }
        let is_other =
            |place: usize| place != places.time && Some(place) != places.date && place != places.value;
        for (_, field) in
            fields.iter().enumerate().take(table.titles.len()).filter(|(place, _)| is_other(*place))
        {
            marks.others.see(field, line.number);
        }
        let value = std::mem::take(&mut fields[places.value]);
        if value.is_empty() {
            continue;
        }
        marks.own.see(&value, line.number);
        let time = std::mem::take(&mut fields[places.time]);
        let time = match places.date {
            Some(date) => Cow::Owned(format!("{} {time}", fields[date])),
            None => time,
        };
        rows.push(Row { line: line.number, time, value });
    }
    Ok((rows, marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_words_of_a_title() {
        for (title, want) in [
            ("Active Power, W", Some(Unit::Watt)),
            ("Power (kW)", Some(Unit::Kilowatt)),
            ("Energy [Wh]", Some(Unit::WattHour)),
            ("power_W", Some(Unit::Watt)),
            ("Watts", Some(Unit::Watt)),
            ("Apparent Power, VA", None),
            ("Solar Radiation, W/m²", None),
            ("Wind", None),
        ] {
            assert_eq!(Unit::in_title(title), want, "{title}");
        }
    }

    #[test]
    fn one_decimal_mark_or_none() {
        let decide = |own: &[&str], others: &[&str], separator, is_too_much: bool| {
            let mut marks = Marks::default();
            (1..).zip(own).for_each(|(line, text)| marks.own.see(text, line));
            (1..).zip(others).for_each(|(line, text)| marks.others.see(text, line));
            marks.decide(separator, || is_too_much).map_err(|error| error.line)
        };
        assert_eq!(decide(&["117", "118"], &["0,98"], ',', false), Ok(Decimal::Point));
        assert_eq!(decide(&["117,204"], &["0,98"], ';', false), Ok(Decimal::Comma));
        assert_eq!(decide(&["117.204"], &["0,98"], ',', false), Ok(Decimal::Comma));
        assert_eq!(decide(&["117.204"], &["0,98", "0.98"], ',', false), Err(Some(1)));
        assert_eq!(decide(&["117.2"], &["0,98"], ',', false), Ok(Decimal::Point));
        assert_eq!(decide(&["117.204"], &["20.11.2026", "10.0.0.1"], ',', false), Ok(Decimal::Point));
        assert_eq!(decide(&["117.204"], &[], ';', false), Err(Some(1)));
        assert_eq!(decide(&["117,204"], &[], ';', false), Err(Some(1)));
        assert_eq!(decide(&["117,204"], &[], ';', true), Ok(Decimal::Comma));
        assert_eq!(decide(&["117,204", "117.204"], &[], ';', true), Err(Some(1)));
        assert_eq!(decide(&["1,204", "1,204,000"], &[], ';', true), Ok(Decimal::Point));
        assert_eq!(decide(&["1.204.000"], &[], ';', false), Ok(Decimal::Comma));
        assert_eq!(decide(&["117.2", "117", "117,2"], &[], ';', false), Err(Some(3)));
    }
}
