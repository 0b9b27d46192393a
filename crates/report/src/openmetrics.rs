//! Families of metrics as text for Prometheus: OpenMetrics 1.0, and the text format 0.0.4, which older
//! programs read.

use super::text::has_no_shape;
use std::fmt::Write;

/// Units that a name may end in (OpenMetrics 1.0, "Units and Base Units").
const UNITS: [&str; 5] = ["joules_per_io", "bytes_per_second", "seconds", "bytes", "watts"];

/// What the samples of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
    /// They are quantiles, by the label `quantile`.
    Summary,
    /// Their labels are what they say.
    Info,
}

/// A name with its value.
pub type Label = (&'static str, String);

/// Names and values that tell the samples of a family apart.
pub type Labels = Vec<Label>;

/// A family of metrics. Its help has no character that is escaped.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Its name, without the ending of its kind.
    pub name: &'static str,
    /// Its kind.
    pub kind: FamilyKind,
    /// What it is, in a sentence.
    pub help: &'static str,
    /// Its samples; one that is no finite number is left out.
    pub samples: Vec<(Labels, f64)>,
}

impl Family {
    /// A family of counters.
    pub fn counter(name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) -> Family {
        Family { name, kind: FamilyKind::Counter, help, samples }
    }

    /// A family of gauges.
    pub fn gauge(name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) -> Family {
        Family { name, kind: FamilyKind::Gauge, help, samples }
    }

    /// A family of quantiles; each sample has the label `quantile`.
    pub fn summary(name: &'static str, help: &'static str, samples: Vec<(Labels, f64)>) -> Family {
        Family { name, kind: FamilyKind::Summary, help, samples }
    }

    /// A family of one sample whose labels say something, with the one that all samples have.
    pub fn info(name: &'static str, help: &'static str, labels: Labels) -> Family {
        Family { name, kind: FamilyKind::Info, help, samples: vec![(labels, 1.0)] }
    }

    /// The name of its samples.
    fn sample_name(&self) -> String {
        let ending = match self.kind {
            FamilyKind::Counter => "_total",
            FamilyKind::Gauge | FamilyKind::Summary => "",
            FamilyKind::Info => "_info",
        };
        format!("{}{ending}", self.name)
    }

    fn finite(&self) -> impl Iterator<Item = &(Labels, f64)> {
        self.samples.iter().filter(|(_, value)| value.is_finite())
    }

    fn write_samples(&self, of: &Label, text: &mut String) {
        let name = self.sample_name();
        for (labels, value) in self.finite() {
            let all = std::iter::once(of).chain(labels);
            let pairs: Vec<String> =
                all.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}{{{}}} {value}", pairs.join(","));
        }
    }
}

/// As OpenMetrics 1.0. Families without samples are left out. All samples have the label `of`, by which
/// those of two processes are told apart where both are read in one scrape.
pub fn openmetrics(families: &[Family], of: &Label) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| family.finite().next().is_some()) {
        let name = family.name;
        let kind = match family.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge => "gauge",
            FamilyKind::Summary => "summary",
            FamilyKind::Info => "info",
        };
        let _ = writeln!(text, "# TYPE {name} {kind}");
        let ends_in = |unit: &&str| name.strip_suffix(*unit).is_some_and(|name| name.ends_with('_'));
        if let Some(unit) = UNITS.into_iter().find(ends_in) {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(text, "# HELP {name} {}", family.help);
        family.write_samples(of, &mut text);
    }
    text.push_str("# EOF\n");
    text
}

/// As the text format 0.0.4, in which families have the names of their samples, and there are no units and
/// no kind `info`. All samples have the label `of`.
pub fn prometheus_text(families: &[Family], of: &Label) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|family| family.finite().next().is_some()) {
        let name = family.sample_name();
        let kind = match family.kind {
            FamilyKind::Counter => "counter",
            FamilyKind::Gauge | FamilyKind::Info => "gauge",
            FamilyKind::Summary => "summary",
        };
        let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
        family.write_samples(of, &mut text);
    }
    text
}

/// A label's value, in both formats.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => safe.push_str("\\\\"),
            '"' => safe.push_str("\\\""),
            '\n' => safe.push_str("\\n"),
            // What a terminal would obey, and what cannot be seen, is written out.
            c if has_no_shape(c) => safe.push_str(&format!("\\{}", c.escape_default())),
            c => safe.push(c),
        }
    }
    safe
}

/// The helps of these families are written as they are.
#[cfg(test)]
#[track_caller]
pub(super) fn assert_well_formed(families: &[Family]) {
    let mut names = std::collections::BTreeSet::new();
    for family in families {
        assert!(names.insert(family.name), "{} is there twice", family.name);
        assert!(!family.help.contains(['\\', '"', '\n']), "{}", family.help);
        assert!(family.help.ends_with('.'), "{}", family.help);
        let quantiles =
            family.samples.iter().filter(|(labels, _)| labels.iter().any(|(name, _)| *name == "quantile"));
        let is_summary = family.kind == FamilyKind::Summary;
        assert_eq!(quantiles.count(), if is_summary { family.samples.len() } else { 0 }, "{}", family.name);
        let mut labels: Vec<&Labels> = family.samples.iter().map(|(labels, _)| labels).collect();
        labels.sort();
        assert!(labels.windows(2).all(|two| two[0] != two[1]), "{}: {labels:?}", family.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of() -> Label {
        ("run", "a \"b\"\n\\".to_owned())
    }

    fn families() -> Vec<Family> {
        let label = |value: &str| vec![("of", value.to_owned())];
        vec![
            Family::info("x_run", "What runs.", vec![("path", "p/q".into())]),
            Family::counter(
                "x_cpu_seconds",
                "CPU time.",
                vec![(label("user"), 0.25), (label("nan"), f64::NAN)],
            ),
            Family::gauge("x_left", "What is left.", vec![(vec![], 3.0)]),
            Family::summary("x_taken_seconds", "Times.", vec![(vec![("quantile", "0.5".into())], 0.5)]),
            Family::gauge("x_none", "Nothing.", vec![]),
            Family::gauge("x_inf_watts", "No number.", vec![(vec![], f64::INFINITY)]),
        ]
    }

    /// A study's name for a channel came to a terminal as it was.
    #[test]
    fn a_label_holds_nothing_that_a_terminal_obeys() {
        assert_eq!(escaped("\u{1b}[31m\u{202e}\n{x=\"y\"} 5\r"), r#"\\u{1b}[31m\\u{202e}\n{x=\"y\"} 5\\r"#);
    }

    #[test]
    fn openmetrics_has_kinds_units_and_an_end() {
        let lines = [
            "# TYPE x_run info",
            "# HELP x_run What runs.",
            r#"x_run_info{run="a \"b\"\n\\",path="p/q"} 1"#,
            "# TYPE x_cpu_seconds counter",
            "# UNIT x_cpu_seconds seconds",
            "# HELP x_cpu_seconds CPU time.",
            r#"x_cpu_seconds_total{run="a \"b\"\n\\",of="user"} 0.25"#,
            "# TYPE x_left gauge",
            "# HELP x_left What is left.",
            r#"x_left{run="a \"b\"\n\\"} 3"#,
            "# TYPE x_taken_seconds summary",
            "# UNIT x_taken_seconds seconds",
            "# HELP x_taken_seconds Times.",
            r#"x_taken_seconds{run="a \"b\"\n\\",quantile="0.5"} 0.5"#,
            "# EOF",
        ];
        assert_eq!(openmetrics(&families(), &of()), lines.map(|line| format!("{line}\n")).concat());
    }

    #[test]
    fn the_older_text_names_families_as_their_samples() {
        let lines = [
            "# HELP x_run_info What runs.",
            "# TYPE x_run_info gauge",
            r#"x_run_info{run="a \"b\"\n\\",path="p/q"} 1"#,
            "# HELP x_cpu_seconds_total CPU time.",
            "# TYPE x_cpu_seconds_total counter",
            r#"x_cpu_seconds_total{run="a \"b\"\n\\",of="user"} 0.25"#,
            "# HELP x_left What is left.",
            "# TYPE x_left gauge",
            r#"x_left{run="a \"b\"\n\\"} 3"#,
            "# HELP x_taken_seconds Times.",
            "# TYPE x_taken_seconds summary",
            r#"x_taken_seconds{run="a \"b\"\n\\",quantile="0.5"} 0.5"#,
        ];
        assert_eq!(prometheus_text(&families(), &of()), lines.map(|line| format!("{line}\n")).concat());
    }
}
