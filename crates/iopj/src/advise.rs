//! `iopj advise`: which path to take at a load, and what to type for it; the study that would decide what is
//! open.

mod json;
mod next;

use crate::args::{AdviseArgs, Asking, Competing};
use crate::output::{FAILURES, note, print, print_json};
use anyhow::anyhow;
use iopj_core::parse_duration;
use iopj_report::analysis::advise::next::next_study;
use iopj_report::analysis::advise::{AdviseError, AdviseQuestion, Bound, Percentile, advise as advise_on};
use iopj_report::render;
use iopj_store::{Store, StudyRecord};
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn advise(args: &AdviseArgs) -> anyhow::Result<ExitCode> {
    let store = Store::open(&args.store)?;
    let (study, trials) = (store.study()?, store.trials()?);
    let question = question(&args.asking, &args.competing, &study)?;
    let advice = advise_on(&study, &trials, &question);
    let is_program = matches!(advice, Err(AdviseError::Program(_)));
    // Before anything is printed, because the file may be refused.
    let next = args.write_study.as_ref().filter(|_| !is_program).map(|file| {
        let next = next_study(&study, &trials, &question);
        let next = next.ok_or_else(|| anyhow!("--write-study: the store has no trial to start from"))?;
        next::write(&study, &next, file).map(|()| (next, file))
    });
    let next = next.transpose()?;
    let written = |file: &std::path::Path, why: &str| note(&format!("{} is written. {why}", file.display()));
    next.iter().for_each(|(next, file)| written(file, &next.why));
    let advice = advice.map_err(|why| anyhow!("{}: {why}", args.store.display()))?;
    if args.json {
        print_json(&json::advice(&advice, &question))?;
    } else {
        print(&render::advice(&advice, &question))?;
    }
    let mut answers = advice.groups.iter().flat_map(|group| &group.answers);
    let any = answers.any(|answer| answer.way().is_some());
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::from(FAILURES) })
}

/// The question that the options ask.
pub(crate) fn question(
    asking: &Asking,
    competing: &Competing,
    study: &StudyRecord,
) -> anyhow::Result<AdviseQuestion> {
    let objective = asking.objective.as_deref().map(str::parse).transpose();
    let bounds = [("--p99", Percentile::P99, &asking.p99), ("--p99-9", Percentile::P99_9, &asking.p99_9)];
    let bound = |(option, percentile, text): (&str, Percentile, &Option<String>)| {
        let text = text.as_deref()?;
        let time = positive_time(option, text);
        let positive = time.map(|time| Bound { percentile, ns: time.as_nanos() as f64 });
        Some(positive)
    };
    let price = match asking.price {
        Some(price) if !price.is_finite() || price < 0.0 => {
            return Err(anyhow!("--price: {price} is no price; give that of a kWh, such as 0.30"));
        }
        price => price,
    };
    Ok(AdviseQuestion {
        objective: objective.map_err(|error| anyhow!("--objective: {error}"))?,
        bounds: bounds.into_iter().filter_map(bound).collect::<anyhow::Result<_>>()?,
        rate: asking.rate.as_deref().map(rate).transpose()?,
        price_per_kwh: price,
        admission: competing.admission().of(study),
    })
}

/// A latency that an option names.
pub(crate) fn positive_time(option: &str, text: &str) -> anyhow::Result<Duration> {
    let time = parse_duration(text).map_err(|error| anyhow!("{option}: {error}"))?;
    match time.is_zero() {
        true => Err(anyhow!("{option}: no I/O takes {text}; give a time such as 200us")),
        false => Ok(time),
    }
}

/// I/Os per second: `40000`, `40k`, `1.5M`; k is 1,000.
pub(crate) fn rate(text: &str) -> anyhow::Result<u64> {
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
        anyhow!("--rate: `{text}` is not a rate; give I/Os per second of 1 or more, such as 40k")
    })
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn rates_are_decimal_and_of_one_or_more() {
        let read = ["40000", "40k", "1.5M", "1"].map(|text| rate(text).ok());
        assert_eq!(read, [Some(40_000), Some(40_000), Some(1_500_000), Some(1)]);
        for text in ["0", "-1", "", "k", "nan", "inf", "1e400", "40 k", "40Ki", "0.2"] {
            let message = rate(text).unwrap_err().to_string();
            assert!(message.contains("is not a rate"), "{text}: {message}");
        }
    }
}
