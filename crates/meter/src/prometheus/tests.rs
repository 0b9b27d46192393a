//! The text format: every rule of it, and any text.

use super::*;
use proptest::prelude::*;

fn labels_of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(label, value)| ((*label).to_owned(), (*value).to_owned())).collect()
}

const TEXT: &str = r#"# HELP plug_watts Power at the outlet.
# TYPE plug_watts gauge
plug_watts{outlet="1", rack="a\\b\"c\nd"} 41.7 1395066363000
plug_watts{outlet="2",} 1.25e+1
plug_joules_total 1027
	 odd { a = "x" }	-Inf  -3
broken NaN

"#;

#[test]
fn samples_are_read_with_labels_values_and_times() {
    let samples = parse_prometheus(TEXT).unwrap();
    assert_eq!(samples.len(), 5);
    assert_eq!(
        (samples[0].name, samples[0].value, samples[0].timestamp_ms),
        ("plug_watts", 41.7, Some(1_395_066_363_000))
    );
    assert_eq!(samples[0].labels, [("outlet", "1".into()), ("rack", "a\\b\"c\nd".into())]);
    assert_eq!((samples[1].value, samples[1].labels.len()), (12.5, 1));
    assert_eq!(samples[2].labels, []);
    assert_eq!((samples[3].value, samples[3].timestamp_ms), (f64::NEG_INFINITY, Some(-3)));
    assert!(samples[4].value.is_nan());
}

#[test]
fn one_metric_is_meant_or_the_error_says_why_not() {
    let samples = parse_prometheus(TEXT).unwrap();
    let value = |name: &str, labels: &[(&str, &str)]| metric_value(&samples, name, &labels_of(labels));
    assert_eq!(value("plug_watts", &[("outlet", "2")]), Ok(12.5));
    assert_eq!(value("plug_watts", &[("rack", "a\\b\"c\nd")]), Ok(41.7));
    assert_eq!(value("plug_joules_total", &[]), Ok(1027.0));
    assert_eq!(value("plug_watts", &[]), Err(MetricError::Several { name: "plug_watts".into(), count: 2 }));
    assert_eq!(value("plug_watts", &[("outlet", "3")]), Err(MetricError::Nothing("plug_watts".into())));
    assert_eq!(value("plug", &[]), Err(MetricError::Nothing("plug".into())));
    assert_eq!(value("broken", &[]), Err(MetricError::NoNumber("broken".into())));
}

#[test]
fn a_line_of_another_format_is_named() {
    for (bad, cause) in [
        ("{\"power\": 3}", "metric name"),
        ("9lives 1", "metric name"),
        ("a", "no value"),
        ("a b", "no value"),
        ("a 1 2.5", "time stamp"),
        ("a 1 2 3", "more follows"),
        ("a{b} 1", "no value"),
        ("a{b=c} 1", "not quoted"),
        ("a{b=\"c} 1", "does not end"),
        ("a{b=\"c\\", "does not end"),
        ("a{b=\"c\" d=\"e\"} 1", "do not end"),
        ("a{b:c=\"d\"} 1", "label"),
    ] {
        let error = parse_prometheus(&format!("good 1\n{bad}\n")).unwrap_err();
        assert_eq!(error.line, 2, "{bad}");
        assert!(error.cause.contains(cause), "{bad}: {error}");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

proptest! {
    #[test]
    fn what_is_written_by_the_rules_is_read_again(
        name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,12}",
        labels in prop::collection::vec(("[a-zA-Z_][a-zA-Z0-9_]{0,8}", ".{0,12}|[\\\\\"\n]{0,6}"), 0..4),
        value in prop::num::f64::NORMAL | prop::num::f64::ZERO,
        timestamp_ms in prop::option::of(any::<i64>()),
    ) {
        let written: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let time = timestamp_ms.map_or(String::new(), |ms| format!(" {ms}"));
        let text = format!("# x\n{name}{{{}}} {value:e}{time}\n", written.join(","));
        let samples = parse_prometheus(&text).unwrap();
        prop_assert_eq!(samples.len(), 1);
        prop_assert_eq!(
            (samples[0].name, samples[0].value, samples[0].timestamp_ms),
            (name.as_str(), value, timestamp_ms)
        );
        let read: Vec<(String, String)> =
            samples[0].labels.iter().map(|(label, value)| ((*label).to_owned(), value.to_string())).collect();
        prop_assert_eq!(read, labels);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(.|\n|[a-z{}=\",\\\\ 0-9\n#]){0,80}") {
        if let Err(error) = parse_prometheus(&text) {
            prop_assert!(error.line >= 1 && error.line <= text.split('\n').count());
        }
    }
}
