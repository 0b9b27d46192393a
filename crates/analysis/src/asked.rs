//! Questions in words, as a command line or a program asks them, and what is wrong with them.

use super::Admission;
use super::advise::{AdviseQuestion, Bound, Percentile};
use super::contrast::in_blocks;
use super::figure::FigureName;
use super::metric::Metric;
use super::stats::Method;
use super::winner::{Axis, WinnerQuestion, default_metric};
use iopj_core::parse_duration;
use iopj_record::{StudyRecord, Trial};
use std::fmt;
use std::time::Duration;

/// The tests by the names that questions and answers use.
pub const TESTS: [(&str, Method); 3] =
    [("blocks", Method::Paired), ("welch", Method::Welch), ("student", Method::Student)];

/// What is wrong with a question. As text, it is that of a command line: `--p99_9` is written `--p99-9`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Wrong {
    /// The word that names the value, in letters, digits and underscores; behind it the value where that is
    /// one word.
    pub option: &'static str,
    /// Why it makes no sense, and what would.
    pub why: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}: {}", self.option.replace('_', "-"), self.why)
    }
}

/// The value of this option is wrong, for a reason.
fn wrong<E: ToString>(option: &'static str) -> impl Fn(E) -> Wrong {
    move |why| Wrong { option, why: why.to_string() }
}

/// The axes and the test of a winner map, before a store is seen.
#[derive(Clone, Copy, Debug)]
pub struct WinnerWords {
    question: WinnerQuestion,
    test: Option<Method>,
}

impl WinnerWords {
    /// # Errors
    /// An axis or the test does not exist, or both axes are one.
    pub fn of(axes: [&str; 2], test: Option<&str>) -> Result<WinnerWords, Wrong> {
        let axis = |name: &str| name.parse::<Axis>().map_err(wrong("axes"));
        let question = WinnerQuestion::new(Metric::Iops, axis(axes[0])?, axis(axes[1])?);
        let test = test.map(|name| {
            let of_name = TESTS.iter().find(|(test, _)| *test == name).map(|(_, method)| *method);
            of_name.ok_or_else(|| {
                wrong("test")(format!("there is no test `{name}`: use blocks, welch or student"))
            })
        });
        Ok(WinnerWords { question: question.map_err(wrong("axes"))?, test: test.transpose()? })
    }

    /// The question for a study.
    ///
    /// # Errors
    /// The study has no blocks for the test.
    pub fn question(self, study: &StudyRecord, admission: Admission) -> Result<WinnerQuestion, Wrong> {
        if self.test == Some(Method::Paired) && !in_blocks(study) {
            return Err(wrong("test blocks")("imported trials have no blocks; use welch or student"));
        }
        let mut question = self.question.of(study);
        question.method = self.test.unwrap_or(question.method);
        question.admission = admission.of(study);
        Ok(question)
    }
}

/// The metric of a word, which may name a program's own figure; without one, the default of the trials.
///
/// # Errors
/// There is no such metric.
pub fn metric(
    word: Option<&str>,
    study: &StudyRecord,
    trials: &[Trial],
    admission: Admission,
) -> Result<Metric, Wrong> {
    let Some(word) = word else { return Ok(default_metric(study, trials, admission)) };
    let own = FigureName::of(trials).as_ref().and_then(|figure| figure.metric(word));
    own.map_or_else(|| word.parse::<Metric>(), Ok).map_err(wrong("metric"))
}

/// A question for advice in words, none of which is needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdviseWords<'a> {
    /// What the way to take is best in, such as `cpu`.
    pub objective: Option<&'a str>,
    /// The most that the 99th percentile of the latency may be, such as `200us`.
    pub p99: Option<&'a str>,
    /// The same for the 99.9th percentile.
    pub p99_9: Option<&'a str>,
    /// The load in I/Os per second, such as `40k`.
    pub rate: Option<&'a str>,
    /// The price of a kWh.
    pub price: Option<f64>,
}

impl AdviseWords<'_> {
    /// The question for a study.
    ///
    /// # Errors
    /// A value makes no sense.
    pub fn question(&self, study: &StudyRecord, admission: Admission) -> Result<AdviseQuestion, Wrong> {
        let objective = self.objective.map(str::parse).transpose().map_err(wrong("objective"));
        let bounds = [("p99", Percentile::P99, self.p99), ("p99_9", Percentile::P99_9, self.p99_9)];
        let bound = |(option, percentile, text): (&'static str, Percentile, Option<&str>)| {
            let time = positive_time(option, text?);
            Some(time.map(|time| Bound { percentile, ns: time.as_nanos() as f64 }))
        };
        if let Some(price) = self.price.filter(|price| !price.is_finite() || *price < 0.0) {
            return Err(wrong("price")(format!("{price} is no price; give that of a kWh, such as 0.30")));
        }
        Ok(AdviseQuestion {
            objective: objective?,
            bounds: bounds.into_iter().filter_map(bound).collect::<Result<_, Wrong>>()?,
            rate: self.rate.map(rate).transpose()?,
            price_per_kwh: self.price,
            admission: admission.of(study),
        })
    }
}

/// A latency that an option names.
///
/// # Errors
/// The text is no time, or 0.
pub fn positive_time(option: &'static str, text: &str) -> Result<Duration, Wrong> {
    let time = parse_duration(text).map_err(wrong(option))?;
    match time.is_zero() {
        true => Err(wrong(option)(format!("no I/O takes {text}; give a time such as 200us"))),
        false => Ok(time),
    }
}

/// I/Os per second: `40000`, `40k`, `1.5M`; k is 1,000.
///
/// # Errors
/// The text is no number of 1 or more.
pub fn rate(text: &str) -> Result<u64, Wrong> {
    let factor = |c: char| match c {
        'k' | 'K' => Some(1e3),
        'm' | 'M' => Some(1e6),
        _ => None,
    };
    let (number, factor) = match text.chars().last().and_then(factor) {
        Some(factor) => (&text[..text.len() - 1], factor),
        None => (text, 1.0),
    };
    let rate = number.parse::<f64>().ok().map(|number| number * factor);
    let whole =
        rate.filter(|rate| rate.is_finite() && (1.0..1e15).contains(rate)).map(|rate| rate.round() as u64);
    whole.ok_or_else(|| {
        wrong("rate")(format!("`{text}` is not a rate; give I/Os per second of 1 or more, such as 40k"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_decimal_and_of_one_or_more() {
        let read = ["40000", "40k", "1.5M", "1"].map(|text| rate(text).ok());
        assert_eq!(read, [Some(40_000), Some(40_000), Some(1_500_000), Some(1)]);
        for text in ["0", "-1", "", "k", "nan", "inf", "1e400", "40 k", "40Ki", "0.2"] {
            let message = rate(text).unwrap_err().to_string();
            assert!(message.contains("is not a rate"), "{text}: {message}");
        }
    }

    #[test]
    fn what_is_wrong_names_the_option_of_a_command_line() {
        let words = AdviseWords { p99_9: Some("0s"), ..AdviseWords::default() };
        let wrong = words.question(&StudyRecord::default(), Admission::default()).unwrap_err();
        assert_eq!(wrong.to_string(), "--p99-9: no I/O takes 0s; give a time such as 200us");
        assert_eq!(wrong.option, "p99_9");
    }
}
