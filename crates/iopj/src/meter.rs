//! `iopj meter`: this machine's meters, logs read out after a run, power models.

use crate::args::{AttachArgs, MeterCommand};
use crate::meter_test;
use crate::opened::open;
use crate::output::{print, print_json, write_whole};
use anyhow::anyhow;
use iopj_core::files::read_whole;
use iopj_meter::log::read;
use iopj_meter::{Channel, ChannelKind, LocalMeter, accuracy_text};
use iopj_metering::energy::{self, LogClock};
use iopj_record::Trial;
use iopj_report::escape;
use iopj_store::Store;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

/// The longest log, in bytes: a reading every second for a month.
const LONGEST_LOG: u64 = 256 << 20;
/// Stands above the kinds that a study must configure.
const OTHERS: &str = "Meters that need a [meters.NAME] table in the study (docs/meters.md has one for each \
                      device):\n";

pub(crate) fn meter(command: &MeterCommand) -> anyhow::Result<ExitCode> {
    match command {
        MeterCommand::List { json } => list(*json),
        MeterCommand::Attach(args) => attach(args),
        MeterCommand::Test { study, allow, json } => meter_test::test(study.as_deref(), allow.get(), *json),
        MeterCommand::Fit { store, output, json } => fit(store, output, *json),
    }
}

fn attach(args: &AttachArgs) -> anyhow::Result<ExitCode> {
    let log = &args.log;
    let mut store = Store::open_for_run(&args.store)?;
    let (name, config) = energy::log_of(&store, args.keys.said())?;
    let bytes = read_whole(log, LONGEST_LOG)
        .map_err(|error| anyhow!("`{}` cannot be read ({error}): name a log", log.display()))?;
    let read = read(&bytes, &config).map_err(|error| anyhow!("`{}`: {error}", log.display()))?;
    let clock = if args.trust_clock { LogClock::Trusted } else { LogClock::Within(args.clock_within) };
    let notes = energy::attach(&mut store, &name, &read, clock)?;
    let trials = store.trials()?;
    let (count, without) = outcomes(trials.iter(), &name);
    let trials = trials.len();
    let notes: Vec<String> = notes.into_iter().chain(without).collect();
    if args.json {
        print_json(&json!({ "meter": name, "trials": trials, "with_joules": count, "notes": notes }))?;
    } else {
        for note in notes {
            print(&format!("note: {}\n", escape(&note)))?;
        }
        print(&format!("{count} of {trials} trials now have joules from the meter `{name}`\n"))?;
    }
    Ok(if count > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many trials have joules of a meter, and why the others have none.
fn outcomes<'a>(trials: impl Iterator<Item = &'a Trial>, meter: &str) -> (usize, Vec<String>) {
    let (mut count, mut without) = (0, BTreeMap::<&str, usize>::new());
    for trial in trials {
        let energy = trial.outcome.measurement().map_or(&[][..], |measurement| &measurement.energy);
        let of_meter = energy.iter().filter(|energy| energy.meter == meter);
        let (complete, incomplete): (Vec<_>, Vec<_>) = of_meter.partition(|energy| energy.joules().is_some());
        if !complete.is_empty() {
            count += 1;
        } else if let Some(reason) = incomplete.first().and_then(|energy| energy.lack()) {
            *without.entry(reason).or_default() += 1;
        }
    }
    let text = |(reason, count): (&str, usize)| {
        let [noun, verb] = if count == 1 { ["trial", "has"] } else { ["trials", "have"] };
        format!("{count} {noun} {verb} no joules: {reason}")
    };
    (count, without.into_iter().map(text).collect())
}

fn fit(store: &Path, output: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let (text, scope, left_out) = energy::fit(&open(store)?)?;
    write_whole(output, text.as_bytes()).map_err(|error| {
        anyhow!("`{}` cannot be written ({error}): name another file with -o", output.display())
    })?;
    if json {
        print_json(&json!({ "file": output, "scope": scope.to_string(), "left_out": left_out }))?;
        return Ok(ExitCode::SUCCESS);
    }
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
    let root = Path::new("/");
    let mut found = iopj_meter::local_meters(root);
    found.extend(iopj_meter::configured_meters(root, &std::env::var_os("PATH").unwrap_or_default()));
    if json {
        print_json(&serde_json::to_value(&found)?)?;
    } else {
        print(&listing(&found))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The meters that are here, then those that are not and why, then those that a study must configure.
fn listing(found: &[LocalMeter]) -> String {
    let mut text = String::new();
    let (local, configured): (Vec<&LocalMeter>, Vec<&LocalMeter>) =
        found.iter().partition(|found| found.needs.is_none());
    let (here, absent): (Vec<&LocalMeter>, Vec<&LocalMeter>) =
        local.into_iter().partition(|found| found.why_not.is_none());
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
    text.push_str(OTHERS);
    for meter in configured {
        let needs = meter.needs.as_deref().unwrap_or_default();
        let _ = writeln!(text, "  {}: needs {needs}", meter.name);
        for note in &meter.notes {
            let _ = writeln!(text, "    seen here: {}", escape(note));
        }
    }
    text
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
    use iopj_core::Workload;
    use iopj_core::energy::{EnergyOutcome, TrialEnergy};
    use iopj_meter::Scope;
    use iopj_record::Measurement;

    #[test]
    fn trials_without_joules_of_an_attached_log_say_why() {
        let trial = |meter: &str, reason: &str| {
            let outcome = EnergyOutcome::Incomplete(reason.to_owned());
            let (meter, channels) = (meter.to_owned(), Vec::new());
            let energy = vec![TrialEnergy {
                meter,
                scope: Scope::System,
                channels,
                estimated: false,
                rules: 1,
                outcome,
            }];
            let path = "io_uring/syscall/interrupt".parse().unwrap();
            Trial::new(path, Workload::default(), Measurement { energy, ..Measurement::default() }.into())
        };
        let trials =
            [trial("logger", "late"), trial("logger", "gap"), trial("logger", "late"), trial("plug", "x")];
        let why = ["1 trial has no joules: gap".to_owned(), "2 trials have no joules: late".to_owned()];
        assert_eq!(outcomes(trials.iter(), "logger"), (0, why.to_vec()));
    }

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
            needs: None,
            notes: vec![],
        };
        let configured = LocalMeter {
            name: "ipmi".into(),
            needs: Some("a BMC".into()),
            notes: vec!["no /dev/ipmi0".to_owned()],
            ..absent.clone()
        };
        let here = LocalMeter {
            name: "hwmon:x".into(),
            channels: vec![channel],
            why_not: None,
            needs: None,
            notes: vec!["look".to_owned()],
        };
        let text = listing(&[absent, configured, here]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "hwmon:x");
        let core = "  core core: average of 0.5 s, resolution 0.5 W, accuracy not stated, within package-0";
        assert_eq!(lines[1..3], [core, "  note: look"]);
        assert!(lines[3].starts_with("rapl: none: no ") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(lines[4..], [OTHERS.trim_end(), "  ipmi: needs a BMC", "    seen here: no /dev/ipmi0"]);
    }
}
