//! Prometheus' text is refused with a line that it has, or becomes samples whose metrics give finite numbers
//! or an error.
#![no_main]

use iopj_meter::{metric_value, parse_prometheus};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    match parse_prometheus(text) {
        Err(error) => assert!((1..=text.split('\n').count()).contains(&error.line)),
        Ok(samples) => {
            for sample in samples.iter().take(8) {
                let labels = sample
                    .labels
                    .iter()
                    .map(|(label, value)| ((*label).to_owned(), value.to_string()))
                    .collect();
                assert!(metric_value(&samples, sample.name, &labels).map_or(true, f64::is_finite));
            }
        }
    }
});
