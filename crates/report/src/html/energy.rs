//! Energy in words on the page: trials without joules, each reason once, and what is not measured.

use super::model::Model;
use super::text::escape;
use iopj_analysis::energy::{EnergyLack, lacks};
use iopj_record::Trial;

/// Trials without joules: each meter and reason once, with the number of its trials.
pub(super) fn incomplete(model: &Model<'_>) -> String {
    if model.emulated.is_some() {
        return String::new();
    }
    let item = |lack: &EnergyLack<'_>| {
        let Trial { path, workload, replicate, .. } = lack.trials[0];
        let more = if lack.trials.len() > 1 { " and others" } else { "" };
        let first = format!("{path}, {}, replicate {}", workload.title(), replicate + 1);
        let first = match lack.trials.len() == lack.of {
            true => String::new(),
            false => format!(" <span class=\"note\">{}{more}</span>", escape(&first)),
        };
        format!("<li>{}.{first}</li>", escape(&lack.to_string()))
    };
    let items: String = lacks(model.trials).iter().map(item).collect();
    match items.is_empty() {
        true => items,
        false => format!("<h3>Energy incomplete</h3><ul class=\"plain\">{items}</ul>"),
    }
}

/// The item of energy in the list of what is not measured; empty if there are joules and a figure of power.
pub(super) fn missing(model: &Model<'_>, has_power: bool) -> &'static str {
    match (&model.source, has_power) {
        (None, _) if model.emulated.is_none() && !lacks(model.trials).is_empty() => {
            "<li><b>Energy</b> (W, IO/J, B/J): no trial has joules; the <a href=\"#summary\">summary</a> \
             says why.</li>"
        }
        (None, _) => {
            "<li><b>Energy</b> (W, IO/J, B/J) and power over time: no meter took part in this study, so \
             nothing is said about energy here.</li>"
        }
        (Some(_), false) => {
            "<li><b>Power over time</b>: this store holds no readings of a meter whose time is known.</li>"
        }
        (Some(_), true) => "",
    }
}
