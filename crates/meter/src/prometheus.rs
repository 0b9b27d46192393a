//! Prometheus' text format, version 0.0.4: samples with labels, and the one that a meter reads.
//!
//! Source: the Prometheus documentation, "Exposition formats", section "Text-based format".

use std::borrow::Cow;
use std::collections::BTreeMap;
use thiserror::Error;

/// One line of the text.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample<'a> {
    /// The metric's name.
    pub name: &'a str,
    /// Labels with their values, in their order.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// The value; also not a number, or infinite.
    pub value: f64,
    /// The exporter's own time in ms since 1970, where it gives one.
    pub timestamp_ms: Option<i64>,
}

/// A line that is not in the format.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line} is not Prometheus' text format: {cause}")]
pub struct PrometheusError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub cause: &'static str,
}

/// Why a metric has no single value.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum MetricError {
    /// None.
    #[error("has no metric `{0}` with these labels: compare them with its answer")]
    Nothing(String),
    /// More than one.
    #[error("has {count} metrics `{name}` with these labels: give more labels until one is left")]
    Several { name: String, count: usize },
    /// It is not a number, or infinite.
    #[error("has no number in metric `{0}` now")]
    NoNumber(String),
}

/// All samples of a text, in order. Comments, `HELP` and `TYPE` are skipped.
///
/// # Errors
/// [`PrometheusError`] names the first line that is not in the format.
pub fn parse_prometheus(text: &str) -> Result<Vec<MetricSample<'_>>, PrometheusError> {
    let lines = text.split('\n').zip(1..).map(|(line, number)| (line.trim_matches(is_blank), number));
    let samples = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#'));
    samples.map(|(text, line)| sample(text).map_err(|cause| PrometheusError { line, cause })).collect()
}

/// The value of the one sample of this name that carries all of `labels`.
///
/// # Errors
/// [`MetricError`] if there is none or more than one, or if it is not finite.
pub fn metric_value(
    samples: &[MetricSample],
    name: &str,
    labels: &BTreeMap<String, String>,
) -> Result<f64, MetricError> {
    let carries = |sample: &MetricSample, label: &str, value: &str| {
        sample.labels.iter().any(|has| *has == (label, value.into()))
    };
    let meant: Vec<&MetricSample> = samples
        .iter()
        .filter(|sample| {
            sample.name == name && labels.iter().all(|(label, value)| carries(sample, label, value))
        })
        .collect();
    match meant[..] {
        [] => Err(MetricError::Nothing(name.to_owned())),
        [one] if one.value.is_finite() => Ok(one.value),
        [_] => Err(MetricError::NoNumber(name.to_owned())),
        _ => Err(MetricError::Several { name: name.to_owned(), count: meant.len() }),
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r')
}

fn sample(line: &str) -> Result<MetricSample<'_>, &'static str> {
    let (name, rest) = name(line, true).ok_or("it begins with no metric name")?;
    let rest = rest.trim_start_matches(is_blank);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (Vec::new(), rest),
    };
    let mut words = rest.split(is_blank).filter(|word| !word.is_empty());
    let value = words.next().and_then(|word| word.parse().ok()).ok_or("it has no value")?;
    let timestamp_ms = words
        .next()
        .map(|word| word.parse().map_err(|_| "its time stamp is not a number of ms"))
        .transpose()?;
    match words.next() {
        None => Ok(MetricSample { name, labels, value, timestamp_ms }),
        Some(_) => Err("more follows its time stamp"),
    }
}

/// A name at the start of `text`, and the rest. Only metrics may have colons.
fn name(text: &str, colons: bool) -> Option<(&str, &str)> {
    let inside = |character: char| {
        character.is_ascii_alphanumeric() || character == '_' || (colons && character == ':')
    };
    let end = text.find(|character| !inside(character)).unwrap_or(text.len());
    let first = text.chars().next()?;
    (end > 0 && !first.is_ascii_digit()).then(|| text.split_at(end))
}

/// Labels after a line's opening brace.
type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

fn labels(mut text: &str) -> Result<(Labels<'_>, &str), &'static str> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches(is_blank);
        if let Some(rest) = text.strip_prefix('}') {
            return Ok((labels, rest));
        }
        let (label, rest) = name(text, false).ok_or("a label has no name")?;
        let rest = rest.trim_start_matches(is_blank).strip_prefix('=').ok_or("a label has no value")?;
        let rest =
            rest.trim_start_matches(is_blank).strip_prefix('"').ok_or("a label's value is not quoted")?;
        let (value, rest) = quoted(rest)?;
        labels.push((label, value));
        let rest = rest.trim_start_matches(is_blank);
        text = match rest.strip_prefix(',') {
            Some(rest) => rest,
            None if rest.starts_with('}') => rest,
            None => return Err("its labels do not end"),
        };
    }
}

/// The value up to its closing quote, with `\\`, `\"` and `\n` resolved, and the rest.
fn quoted(text: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    let end = text.find(['"', '\\']).ok_or("a label's value does not end")?;
    if text[end..].starts_with('"') {
        return Ok((text[..end].into(), &text[end + 1..]));
    }
    let mut value = String::from(&text[..end]);
    let mut characters = text[end..].char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value.into(), &text[end + at + 1..])),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                // As in Prometheus, a backslash before any other character is a backslash.
                Some((_, other)) => value.extend(['\\', other]),
                None => break,
            },
            plain => value.push(plain),
        }
    }
    Err("a label's value does not end")
}

#[cfg(test)]
mod tests;
