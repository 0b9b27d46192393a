//! `iopj meter`: this machine's meters, logs read out after a run, power models.

use crate::args::MeterCommand;
use crate::meter_test;
use crate::output::{print, print_json};
use anyhow::anyhow;
use iopj_meter::log::read;
use iopj_meter::{Channel, ChannelKind, LocalMeter, accuracy_text, read_whole};
use iopj_report::render::escape;
use iopj_run::energy;
use iopj_store::{Store, Trial};
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// The longest log, in bytes: a reading every second for a month.
const LONGEST_LOG: u64 = 256 << 20;
/// Meters that any machine can have in addition.
const OTHERS: &str = "A plug, a PDU, a BMC, an instrument or a logger can measure the whole machine: add a \
                      [meters.NAME] table for it to the study (docs/energy.md).\n";

pub(crate) fn meter(command: &MeterCommand) -> anyhow::Result<ExitCode> {
    match command {
        MeterCommand::List { json } => list(*json),
        MeterCommand::Attach { store, log, time_zone, trust_clock } => {
            attach(store, log, time_zone.as_deref(), *trust_clock)
        }
        MeterCommand::Test { study, allow_exec, json } => {
            meter_test::test(study.as_deref(), *allow_exec, *json)
        }
        MeterCommand::Fit { store, output } => fit(store, output),
    }
}

fn attach(store: &Path, log: &Path, time_zone: Option<&str>, trust_clock: bool) -> anyhow::Result<ExitCode> {
    let mut store = Store::open_for_run(store)?;
    let (name, mut config) = energy::log_of(&store)?;
    if let Some(zone) = time_zone {
        config.time_zone = Some(zone.to_owned());
    }
    let bytes = read_whole(log, LONGEST_LOG)
        .map_err(|error| anyhow!("`{}` cannot be read ({error}): name a log", log.display()))?;
    let read = read(&bytes, &config).map_err(|error| anyhow!("`{}`: {error}", log.display()))?;
    let mut notes = read.notes.clone();
    notes.extend(energy::attach(&mut store, &name, &read, trust_clock)?);
    for note in notes {
        print(&format!("note: {}\n", escape(&note)))?;
    }
    let with_joules = |trial: &&Trial| {
        let energy = trial.outcome.measurement().map_or(&[][..], |measurement| &measurement.energy);
        energy.iter().any(|energy| energy.meter == name && energy.joules().is_some())
    };
    let trials = store.trials()?;
    let count = trials.iter().filter(with_joules).count();
    print(&format!("{count} of {} trials now have joules from the meter `{name}`\n", trials.len()))?;
    Ok(ExitCode::SUCCESS)
}

fn fit(store: &Path, output: &Path) -> anyhow::Result<ExitCode> {
    let (text, scope, left_out) = energy::fit(&Store::open(store)?)?;
    std::fs::write(output, text).map_err(|error| {
        anyhow!("`{}` cannot be written ({error}): name another file with -o", output.display())
    })?;
    if !left_out.is_empty() {
        print(&format!("left out, because they hardly vary on their own: {}\n", left_out.join(", ")))?;
    }
    print(&format!(
        "{}: a model of {scope} power; use it with kind = \"model\", file = \"{0}\", scope = \"{scope}\"\n",
        output.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> anyhow::Result<ExitCode> {
    let found = iopj_meter::local_meters(Path::new("/"));
    if json {
        print_json(&serde_json::to_value(&found)?)?;
    } else {
        print(&listing(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The meters that are here, then those that are not and why.
fn listing(found: &[LocalMeter]) -> String {
    let mut text = String::new();
    let (here, absent): (Vec<&LocalMeter>, Vec<&LocalMeter>) =
        found.iter().partition(|found| found.why_not.is_none());
    // Writing to a string cannot fail.
    for meter in here {
        let _ = writeln!(text, "{}", escape(&meter.name));
        for channel in &meter.channels {
            let _ = writeln!(text, "  {}", escape(&describe(channel)));
        }
        for note in &meter.notes {
            let _ = writeln!(text, "  note: {}", escape(note));
        }
    }
    for meter in absent {
        let why = meter.why_not.as_deref().unwrap_or_default();
        let _ = writeln!(text, "{}: none: {}", escape(&meter.name), escape(why));
    }
    text + OTHERS
}

fn describe(channel: &Channel) -> String {
    let (kind, unit) = match channel.kind {
        ChannelKind::Counter { .. } => ("counter".to_owned(), "J"),
        ChannelKind::Instant => ("instant".to_owned(), "W"),
        ChannelKind::Average { window_ns } => (format!("average of {} s", window_ns as f64 * 1e-9), "W"),
    };
    let within = channel.parent.as_ref().map_or(String::new(), |parent| format!(", within {parent}"));
    let accuracy = accuracy_text(channel.accuracy);
    format!(
        "{} {}: {kind}, resolution {} {unit}, accuracy {accuracy}{within}",
        channel.scope, channel.name, channel.resolution
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use iopj_meter::Scope;

    #[test]
    fn what_is_here_stands_first_and_what_is_not_says_why() {
        let channel = Channel {
            name: "core".into(),
            scope: Scope::Core,
            kind: ChannelKind::Average { window_ns: 500_000_000 },
            resolution: 0.5,
            accuracy: None,
            parent: Some("package-0".into()),
        };
        let absent = LocalMeter {
            name: "rapl".into(),
            channels: vec![],
            why_not: Some("no \u{1b}".into()),
            notes: vec![],
        };
        let here = LocalMeter {
            name: "hwmon:x".into(),
            channels: vec![channel],
            why_not: None,
            notes: vec!["look".to_owned()],
        };
        let text = listing(&[absent, here]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "hwmon:x");
        let core = "  core core: average of 0.5 s, resolution 0.5 W, accuracy not stated, within package-0";
        assert_eq!(lines[1..3], [core, "  note: look"]);
        assert!(lines[3].starts_with("rapl: none: no ") && !text.contains('\u{1b}'), "{text}");
    }
}
