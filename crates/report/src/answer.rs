//! Answers in words: between which bounds a difference lies, and how many more replicates would decide.

use iopj_analysis::answer::{MOST_MORE, More, Open};

/// What is known where nothing is decided.
pub fn open_words(open: &Open) -> String {
    let Some(more) = more_words(open.more) else {
        return "no test: each path needs at least 2 replicates".to_owned();
    };
    match open.difference {
        Some(bounds) if bounds.0 > 0.0 || bounds.1 < 0.0 => format!(
            "the difference lies between {}, which is not significant after the correction for all tests; \
             {more}",
            bounds_words(bounds)
        ),
        Some(bounds) => format!("the difference lies between {}; {more}", bounds_words(bounds)),
        None => format!("the difference has no finite interval; {more}"),
    }
}

/// How many more replicates would decide; `None` without a test.
fn more_words(more: More) -> Option<String> {
    match more {
        More::Replicates(1) => Some("about 1 more replicate would decide".to_owned()),
        More::Replicates(count) => Some(format!("about {count} more replicates would decide")),
        More::Many => Some(format!("it would take more than {MOST_MORE} more replicates to decide")),
        More::Untested => None,
    }
}

/// `-18 % and +52 %`, or `-1.8 % and +5.2 %` if both are below ten.
pub fn bounds_words((low, high): (f64, f64)) -> String {
    let digits = digits(low).min(digits(high));
    format!("{} and {}", signed(low, digits), signed(high, digits))
}

/// A share as `+1.3 %` or, from 10 % on, `+52 %`.
pub fn signed_percent(share: f64) -> String {
    signed(share, digits(share))
}

fn digits(share: f64) -> usize {
    usize::from(share.abs() < 0.0995)
}

fn signed(share: f64, digits: usize) -> String {
    let percent = 100.0 * share;
    // No sign on a zero.
    match format!("{percent:+.digits$}").as_str() {
        "+0.0" | "-0.0" | "+0" | "-0" => "0 %".to_owned(),
        text => format!("{text} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_question_says_its_bounds_and_what_would_decide_it() {
        let words = |difference, more| open_words(&Open { difference, more });
        assert_eq!(
            words(Some((-0.1801, 0.5249)), More::Replicates(14)),
            "the difference lies between -18 % and +52 %; about 14 more replicates would decide"
        );
        assert_eq!(
            words(Some((-0.0004, 0.013)), More::Many),
            "the difference lies between 0 % and +1.3 %; it would take more than 100 more replicates to \
             decide"
        );
        assert_eq!(
            words(Some((0.01, 0.0921)), More::Replicates(3)),
            "the difference lies between +1.0 % and +9.2 %, which is not significant after the correction \
             for all tests; about 3 more replicates would decide"
        );
        assert_eq!(bounds_words((-0.063, 0.136)), "-6 % and +14 %");
        assert_eq!(
            words(None, More::Replicates(1)),
            "the difference has no finite interval; about 1 more replicate would decide"
        );
        assert_eq!(words(None, More::Untested), "no test: each path needs at least 2 replicates");
    }
}
