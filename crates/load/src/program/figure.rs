//! The figure that a program prints, found by a regular expression or by a JSON pointer.

use super::output::{Output, last_lines};
use regex_lite::Regex;

/// Where the figure stands in a program's standard output.
#[derive(Debug, Clone)]
pub struct Figure {
    name: String,
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    /// The first group of the last match.
    Regex(Regex),
    /// A JSON pointer (RFC 6901).
    Json(String),
}

/// Why there is no figure. Messages name the figure, and show the end of the output where that helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each field is")]
pub enum FigureError {
    /// It is no regular expression.
    #[error("program.figure: `{regex}` is not a regular expression: {why}")]
    Regex { regex: String, why: String },
    /// The expression does not say which part is the figure.
    #[error(
        "program.figure: the regular expression `{0}` has no group: put the figure in parentheses, such as \
         'tps = ([0-9.]+)'"
    )]
    NoGroup(String),
    /// It is no JSON pointer.
    #[error("program.figure: `{0}` is not a JSON pointer: write one such as \"/jobs/0/read/iops\"")]
    Pointer(String),
    /// Nothing in the output matches.
    #[error("`{name}` was not found: nothing that the program printed matches `{regex}`. {end}")]
    NotFound { name: String, regex: String, end: String },
    /// The output is no JSON document.
    #[error("`{name}` was not found: what the program printed is not JSON ({why}). {end}")]
    NotJson { name: String, why: String, end: String },
    /// The document lacks the place.
    #[error("`{name}` was not found: the program's JSON has nothing at {pointer}. {end}")]
    NoSuchPlace { name: String, pointer: String, end: String },
    /// A text that is no number.
    #[error("`{name}` is not a number: the program printed `{text}`")]
    NotANumber { name: String, text: String },
    /// The program printed too much for one document.
    #[error(
        "`{name}` was not found: the program printed {printed} bytes of JSON, more than {most}: let it \
         print less"
    )]
    TooLong { name: String, printed: u64, most: usize },
}

impl Figure {
    /// A figure by a regular expression or by a JSON pointer.
    ///
    /// # Errors
    /// [`FigureError::Regex`], [`FigureError::NoGroup`], [`FigureError::Pointer`].
    pub fn new(name: &str, regex: Option<&str>, json: Option<&str>) -> Result<Figure, FigureError> {
        let place = match (regex, json) {
            (Some(regex), _) => {
                let bad = |why: regex_lite::Error| FigureError::Regex {
                    regex: regex.to_owned(),
                    why: why.to_string(),
                };
                let regex = Regex::new(regex).map_err(bad)?;
                if regex.captures_len() < 2 {
                    return Err(FigureError::NoGroup(regex.as_str().to_owned()));
                }
                Place::Regex(regex)
            }
            (None, pointer) => {
                let pointer = pointer.unwrap_or_default();
                if !pointer.starts_with('/') {
                    return Err(FigureError::Pointer(pointer.to_owned()));
                }
                Place::Json(pointer.to_owned())
            }
        };
        Ok(Figure { name: name.to_owned(), place })
    }

    /// The figure in what a program printed. Bytes that are not UTF-8 stand for themselves in no match.
    ///
    /// # Errors
    /// It is not there, or is not a finite number.
    pub fn find(&self, output: &Output) -> Result<f64, FigureError> {
        let (text, name) = (output.text(), || self.name.clone());
        let end = || match last_lines(&text) {
            lines if lines.is_empty() => "It printed nothing".to_owned(),
            lines => format!("Its last lines: {lines}"),
        };
        match &self.place {
            Place::Regex(regex) => {
                let groups = regex.captures_iter(&text).filter_map(|found| found.get(1)).last();
                let not_found =
                    || FigureError::NotFound { name: name(), regex: regex.as_str().to_owned(), end: end() };
                self.number(groups.ok_or_else(not_found)?.as_str())
            }
            Place::Json(_) if output.is_cut() => Err(FigureError::TooLong {
                name: name(),
                printed: output.printed(),
                most: super::MOST_OUTPUT,
            }),
            Place::Json(pointer) => {
                let not_json = |why: serde_json::Error| FigureError::NotJson {
                    name: name(),
                    why: why.to_string(),
                    end: end(),
                };
                let document: serde_json::Value = serde_json::from_str(&text).map_err(not_json)?;
                let no_place =
                    || FigureError::NoSuchPlace { name: name(), pointer: pointer.clone(), end: end() };
                match document.pointer(pointer).ok_or_else(no_place)? {
                    serde_json::Value::String(text) => self.number(text),
                    other => self.number(&other.to_string()),
                }
            }
        }
    }

    fn number(&self, text: &str) -> Result<f64, FigureError> {
        let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| {
            let text = text.chars().take(60).collect();
            FigureError::NotANumber { name: self.name.clone(), text }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_regex(regex: &str, text: &str) -> Result<f64, FigureError> {
        Figure::new("tps", Some(regex), None)?.find(&Output::of(text.as_bytes()))
    }

    fn by_json(pointer: &str, text: &str) -> Result<f64, FigureError> {
        Figure::new("tps", None, Some(pointer))?.find(&Output::of(text.as_bytes()))
    }

    #[test]
    fn the_last_match_and_the_place_in_a_document_are_found() {
        let pgbench = "progress: tps = 3.5\nlatency average = 2.1 ms\ntps = 812.250000 (without initial)\n";
        assert_eq!(by_regex(r"tps = ([0-9.]+)", pgbench), Ok(812.25));
        let fio = r#"{"jobs": [{"read": {"iops": 51234.5, "text": "7e3"}}]}"#;
        assert_eq!(by_json("/jobs/0/read/iops", fio), Ok(51234.5));
        assert_eq!(by_json("/jobs/0/read/text", fio), Ok(7000.0));
    }

    #[test]
    fn what_is_not_there_is_said_with_the_end_of_the_output() {
        for (error, part) in [
            (by_regex("(", ""), "is not a regular expression"),
            (by_regex("tps", ""), "has no group"),
            (by_json("jobs", "{}"), "is not a JSON pointer"),
            (by_regex("tps = (.*)", ""), "It printed nothing"),
            (by_regex("tps = (.*)", "a\nb\n"), "Its last lines: a / b"),
            (by_regex("tps = (.*)", "tps = fast"), "is not a number: the program printed `fast`"),
            (by_regex("tps = (.*)", "tps = inf"), "is not a number"),
            (by_json("/a", "no"), "is not JSON"),
            (by_json("/a", "{\"b\": 1}"), "has nothing at /a. Its last lines: {\"b\": 1}"),
            (by_json("/a", "{\"a\": [1]}"), "is not a number: the program printed `[1]`"),
        ] {
            let message = error.unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }

    proptest! {
        #[test]
        fn any_number_comes_back_whatever_is_around_it(
            value in -1e12f64..1e12, before in "[^=]{0,200}", after in "[^=0-9.]{0,200}",
        ) {
            let text = format!("{before}\ntps = {value} {after}");
            prop_assert_eq!(by_regex("tps = (-?[0-9.]+)", &text), Ok(value));
            let json = serde_json::json!({ "before": before, "jobs": [{ "value": value }] }).to_string();
            prop_assert_eq!(by_json("/jobs/0/value", &json), Ok(value));
        }

        #[test]
        fn any_output_and_any_expression_give_a_figure_or_a_message(
            text in "\\PC{0,80}", regex in "\\PC{0,20}",
        ) {
            if let Ok(value) = by_regex(&regex, &text) {
                prop_assert!(value.is_finite());
            }
            prop_assert!(by_json("/a", &text).is_err());
        }
    }
}
